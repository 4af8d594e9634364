//! The cost of the whole service: `assent serve` against a tonic service that does nothing, on one machine in one run.
//!
//! Rounds of load go to the two in turn, and the figure is the median of what each pair of rounds gives, so that what
//! else the machine does falls on both. How to run it and how to read it stands in `README.md` beside this file.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a bench that cannot measure has nothing better to do than to say so and stop"
)]

#[path = "support/calls.rs"]
mod calls;
#[path = "support/child.rs"]
mod child;
#[path = "support/load.rs"]
mod load;
#[path = "support/no_op.rs"]
mod no_op;
#[path = "support/opening.rs"]
mod opening;
#[path = "support/reload.rs"]
mod reload;
#[path = "support/rules.rs"]
mod rules;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use assent::pb::DecideResponse;
use assent::pb::decision_service_client::DecisionServiceClient;
use clap::Parser;
use prost::Message;
use tempfile::TempDir;

use crate::calls::{Call, POLICY};
use crate::child::{Server, free_address};
use crate::load::{Load, Round, Target};
use crate::opening::Opening;
use crate::reload::Reload;

/// The least part of the no-op's throughput that Decide (allow) reaches.
const ALLOW_TARGET: f64 = 0.80;
/// The same for a suspension opened on Redis.
const SUSPEND_TARGET: f64 = 0.70;
/// The most that loading ten thousand rules may take, and what it may make of the 99th percentile of decisions.
const RELOAD_TARGET: (Duration, f64) = (Duration::from_secs(1), 1.5);
/// Doing something takes longer than doing nothing: past this ratio something holds the no-op up.
const PLAUSIBLE: f64 = 1.05;

#[derive(Debug, Parser)]
struct Options {
    /// Cargo says that it wants a measurement, and not a test.
    #[arg(long, hide = true)]
    bench: bool,
    /// Fail if a target is missed.
    #[arg(long)]
    check: bool,
    /// How many pairs of rounds a comparison has.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=99))]
    pairs: u32,
    /// How long a round takes, in milliseconds.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    round: u64,
    /// How many connections there are to each server.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// How many calls are in flight on each connection.
    #[arg(long, default_value_t = 16)]
    in_flight: usize,
    /// Only this comparison.
    #[arg(long, value_parser = ["allow", "suspend", "reload"])]
    only: Option<String>,
    /// Be the no-op, with what is in this directory.
    #[arg(long, hide = true)]
    no_op: Option<PathBuf>,
}

impl Options {
    fn load(&self) -> Load {
        Load {
            connections: self.connections,
            in_flight: self.in_flight,
            duration: Duration::from_millis(self.round),
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(directory) = &options.no_op {
        no_op::serve(directory).await;
        return ExitCode::SUCCESS;
    }
    if !options.bench {
        println!("measured by `cargo bench --bench service`, not by `cargo test`");
        return ExitCode::SUCCESS;
    }
    println!(
        "{} connections, {} calls in flight on each, {} pairs of rounds of {} ms, {} processors",
        options.connections,
        options.in_flight,
        options.pairs,
        options.round,
        std::thread::available_parallelism().map_or(0, usize::from),
    );
    let wanted = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    let mut met = true;
    if wanted("allow") {
        met &= allow(&options).await;
    }
    if wanted("suspend") {
        met &= suspend(&options).await;
    }
    if wanted("reload") {
        met &= reload(&options).await;
    }
    if options.check && !met {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Decide (allow) against the same answer ready-made.
async fn allow(options: &Options) -> bool {
    let directory = TempDir::new().expect("there is a temporary directory");
    let store = format!("sqlite:{}", directory.path().join("assent.db").display());
    let assent = start_assent(&directory, &store, Path::new(POLICY));
    prepare(&assent, Call::Allow, directory.path()).await;
    let no_op = start_no_op(directory.path());
    let comparison = compare(options, Call::Allow, assent, no_op, None).await;
    comparison.print("Decide (allow)", ALLOW_TARGET)
}

/// Decide (suspend) on Redis against one bare script and the same answer ready-made.
async fn suspend(options: &Options) -> bool {
    let directory = TempDir::new().expect("there is a temporary directory");
    let address = free_address();
    let Some(_redis) = start_redis(&directory, address) else {
        println!("\nDecide (suspend) on Redis is not measured: there is no `redis-server` here");
        return false;
    };
    let url = format!("redis://{address}/");
    let assent = start_assent(&directory, &url, Path::new(POLICY));
    prepare(&assent, Call::Suspend, directory.path()).await;
    let opening = Opening::read(&url).await;
    let json = serde_json::to_vec(&opening).expect("an opening is text");
    fs::write(directory.path().join(no_op::OPENING), json).expect("the opening can be written");
    let no_op = start_no_op(directory.path());
    let comparison = compare(options, Call::Suspend, assent, no_op, Some(&opening)).await;
    comparison.print("Decide (suspend) on Redis", SUSPEND_TARGET)
}

/// Decisions at a third of what the server can do, while it loads ten thousand rules and while it does not.
async fn reload(options: &Options) -> bool {
    let directory = TempDir::new().expect("there is a temporary directory");
    let document = directory.path().join("policy.yaml");
    let rules = rules::with_rules(10_000, rules::CONDITION);
    fs::write(&document, rules).expect("the document can be written");
    let store = format!("sqlite:{}", directory.path().join("assent.db").display());
    let load = options.load();
    let target = Target::connect(start_assent(&directory, &store, &document), "c", load).await;
    target.round(Call::Allow).await;
    let capacity = target.round(Call::Allow).await.throughput;
    let per_second = capacity / 3.0;
    let reloads =
        reload::measure(target.server(), load, per_second, &document, options.pairs).await;
    print_reloads(per_second, &reloads)
}

fn start_assent(directory: &TempDir, store: &str, policy: &Path) -> Server {
    let address = free_address();
    let mut command = Command::new(env!("CARGO_BIN_EXE_assent"));
    command
        .env_clear()
        .args(["serve", "--store", store, "--listen"])
        .arg(address.to_string())
        .arg("--policy")
        .arg(policy);
    Server::start(&mut command, address, &directory.path().join("assent.log"))
}

/// A Redis that writes nothing to disk: waiting for a disk would hide what differs.
fn start_redis(directory: &TempDir, address: SocketAddr) -> Option<Server> {
    Command::new("redis-server")
        .arg("--version")
        .output()
        .ok()?;
    let mut command = Command::new("redis-server");
    command
        .args(["--save", "", "--appendonly", "no", "--bind"])
        .arg(address.ip().to_string())
        .arg("--port")
        .arg(address.port().to_string())
        .arg("--dir")
        .arg(directory.path());
    Some(Server::start(
        &mut command,
        address,
        &directory.path().join("redis.log"),
    ))
}

fn start_no_op(directory: &Path) -> Server {
    let this = std::env::current_exe().expect("the bench is a file");
    Server::start_and_ask(Command::new(this).arg("--no-op").arg(directory))
}

/// Asks Assent once, and leaves the answer for the no-op.
async fn prepare(assent: &Server, call: Call, directory: &Path) {
    let client = DecisionServiceClient::connect(assent.url()).await;
    let mut client = client.expect("the server listens");
    let answer = client
        .decide(call.request("first", 0))
        .await
        .expect("the call is decided");
    let answer: DecideResponse = answer.into_inner();
    assert!(
        call.is_answered_by(&answer),
        "{call:?} was answered by {answer:?}"
    );
    fs::write(directory.join(no_op::ANSWER), answer.encode_to_vec())
        .expect("the answer can be written");
}

/// What the rounds of two servers gave.
struct Comparison {
    assent: Vec<Round>,
    no_op: Vec<Round>,
}

/// Rounds of load on the one and the other in turn, and which of them is first changes too.
async fn compare(
    options: &Options,
    call: Call,
    assent: Server,
    no_op: Server,
    opening: Option<&Opening>,
) -> Comparison {
    let load = options.load();
    let assent = Target::connect(assent, "a", load).await;
    let no_op = Target::connect(no_op, "n", load).await;
    let mut comparison = Comparison {
        assent: Vec::new(),
        no_op: Vec::new(),
    };
    // The first pair warms up.
    for pair in 0..=options.pairs {
        let (first, second) = if pair % 2 == 0 {
            (&assent, &no_op)
        } else {
            (&no_op, &assent)
        };
        let mut rounds = Vec::new();
        for target in [first, second] {
            if let Some(opening) = opening {
                opening.clear().await;
            }
            rounds.push(target.round(call).await);
        }
        if pair % 2 == 1 {
            rounds.reverse();
        }
        if pair > 0 {
            comparison.no_op.extend(rounds.pop());
            comparison.assent.extend(rounds.pop());
        }
    }
    comparison
}

impl Comparison {
    /// Prints the table of one comparison, and says whether the target is met.
    fn print(&self, name: &str, target: f64) -> bool {
        let ratios = self.assent.iter().zip(&self.no_op);
        let ratios = sorted(ratios.map(|(assent, no_op)| assent.throughput / no_op.throughput));
        let ratio = median(&ratios);
        let held_up = ratio > PLAUSIBLE;
        let met = ratio >= target && !held_up;
        println!("\n{name}");
        println!(
            "{:10}{:>12}{:>12}{:>12}{:>18}",
            "", "calls/s", "p50", "p99", "server CPU/call"
        );
        print_rounds("assent", &self.assent);
        print_rounds("no-op", &self.no_op);
        let (least, most) = (
            ratios.first().unwrap_or(&ratio),
            ratios.last().unwrap_or(&ratio),
        );
        println!(
            "{:10}{ratio:>12.3}   pairs from {least:.3} to {most:.3}",
            "ratio"
        );
        println!(
            "{:10}{target:>12.2}   {}",
            "target",
            match (met, held_up) {
                (true, _) => "met",
                (false, true) => "not measured: something holds the no-op up",
                (false, false) => "MISSED",
            }
        );
        met
    }
}

/// The medians over all rounds of one server.
fn print_rounds(name: &str, rounds: &[Round]) {
    let throughput = median(&sorted(rounds.iter().map(|round| round.throughput)));
    let latency = |percent| {
        median(&sorted(
            rounds
                .iter()
                .map(|round| round.latency(percent).as_secs_f64()),
        ))
    };
    let cpu: Option<Vec<f64>> = rounds
        .iter()
        .map(|round| Some(round.cpu_per_call?.as_secs_f64()))
        .collect();
    let cpu = cpu.map_or_else(
        || "unknown".to_owned(),
        |cpu| format!("{:.1} µs", 1e6 * median(&sorted(cpu.into_iter()))),
    );
    println!(
        "{name:10}{throughput:>12.0}{:>9.2} ms{:>9.2} ms{cpu:>18}",
        1e3 * latency(50),
        1e3 * latency(99),
    );
}

/// Prints what reloads came to, and says whether the targets are met.
fn print_reloads(per_second: f64, reloads: &[Reload]) -> bool {
    let of = |part: fn(&Reload) -> f64| sorted(reloads.iter().map(part));
    let took = of(|reload| reload.took.as_secs_f64());
    let quiet = of(|reload| reload.quiet.as_secs_f64());
    let during = of(|reload| reload.during.as_secs_f64());
    let ratio = of(|reload| reload.during.as_secs_f64() / reload.quiet.as_secs_f64());
    let (most, more) = RELOAD_TARGET;
    println!(
        "\nReload of 10,000 rules, each with a condition, at {per_second:.0} calls/s (open loop)"
    );
    let line = |name: &str, values: &[f64], unit: f64, suffix: &str| {
        let at = |position: usize| values.get(position).copied().unwrap_or_default() * unit;
        println!(
            "{name:32}{:>10.2}{suffix}   from {:.2} to {:.2}",
            median(values) * unit,
            at(0),
            at(values.len().saturating_sub(1)),
        );
    };
    line("signal to new revision", &took, 1e3, " ms");
    line("p99 without a reload", &quiet, 1e3, " ms");
    line("p99 while it goes on", &during, 1e3, " ms");
    line("ratio", &ratio, 1.0, "");
    let met = median(&took) < most.as_secs_f64() && median(&ratio) <= more;
    println!(
        "{:32}{:>10}   {}",
        "target",
        format!("{more:.1}, {} s", most.as_secs()),
        if met { "met" } else { "MISSED" }
    );
    met
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Of sorted values; 0 of none.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle).copied().unwrap_or_default();
    let lower = sorted
        .get((sorted.len().max(1) - 1) / 2)
        .copied()
        .unwrap_or(upper);
    f64::midpoint(lower, upper)
}
