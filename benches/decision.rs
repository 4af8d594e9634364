//! The cost of one decision in process: arguments, class, selectors and rules, without wire and store.
//!
//! Each line is the median of many samples. The ratio at the end says what ten thousand rules cost beside ten; as rules
//! are indexed by tool it is about one. How to run it and how to read it stands in `README.md` beside this file.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a bench that cannot measure has nothing better to do than to say so and stop"
)]

#[path = "support/rules.rs"]
mod rules;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use assent::arguments::Arguments;
use assent::domain::{
    Annotations, AskedCall, Decision, Id, Origin, Principal, RiskClass, Scope, Timestamp, ToolCall,
};
use assent::engine::Judged;
use assent::policy::{Facts, Policy, Source};

use crate::rules::{CONDITION, with_rules};

/// As many bytes as a model's call usually has.
const ARGUMENTS: &str = include_str!("support/search.json").trim_ascii();
const MAX_BYTES: usize = 256 * 1024;
const TOOL: &str = "crm.search_orders";

/// The most that ten thousand rules may cost beside ten, if one of either concerns the tool.
const RULES_TARGET: f64 = 1.2;
/// The most nanoseconds that rules with one condition evaluated may take.
const CONDITION_TARGET: f64 = 3000.0;
/// The most that compiling ten thousand rules may take.
const COMPILE_TARGET: Duration = Duration::from_secs(1);

const SAMPLES: usize = 41;
const SAMPLE: Duration = Duration::from_millis(10);
const COMPILES: usize = 5;

fn main() -> ExitCode {
    let given = |name: &str| std::env::args().any(|argument| argument == name);
    if !given("--bench") {
        println!("measured by `cargo bench --bench decision`, not by `cargo test`");
        return ExitCode::SUCCESS;
    }
    let call = call();
    let scope = scope();
    let hundred = Policy::compile(&[Source {
        name: "policy-100.yaml".to_owned(),
        text: include_str!("policy-100.yaml").to_owned(),
    }]);
    let hundred = hundred.expect("the policy of the benches compiles");

    println!("{} bytes of arguments", ARGUMENTS.len());
    measure("parse the arguments", || parse().object().len());
    measure("digest of tool and arguments", || {
        call.arguments.digest(TOOL)
    });
    measure("classify and select", || {
        let class = hundred.classify(&call).class;
        hundred.select(TOOL, class).asks
    });
    measure("rules: 100, three conditions evaluated", || {
        evaluate(&hundred, &call, &scope)
    });
    let mut again = call.clone();
    measure("all of it, 100 rules", || {
        again.arguments = parse();
        let class = hundred.classify(&again).class;
        (
            hundred.select(TOOL, class).asks,
            again.arguments.digest(TOOL),
            evaluate(&hundred, &again, &scope),
        )
    });
    let asked = AskedCall { call, target: None };
    // Last, as compiling so many rules leaves a heap in which allocating is slower.
    let few = compile(&with_rules(10, ""));
    let many = compile(&with_rules(10_000, ""));
    let ten = measure("10 rules, one condition evaluated", || {
        decide(&few, &asked, &scope)
    });
    let all = measure("10,000 rules, one condition evaluated", || {
        decide(&many, &asked, &scope)
    });
    println!("{:40}{:>12.2}", "10,000 rules beside 10", all / ten);
    measure_compile("compile 10,000 rules, one condition", "");
    let compile = measure_compile("compile 10,000 rules, all with a condition", CONDITION);
    let met = all / ten <= RULES_TARGET && all <= CONDITION_TARGET && compile < COMPILE_TARGET;
    println!(
        "{:40}{:>12}",
        format!("target: {RULES_TARGET}, 3 µs, 1 s"),
        if met { "met" } else { "MISSED" }
    );
    if given("--check") && !met {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// What a reload of so many rules costs, beside reading the file.
fn measure_compile(name: &str, condition: &str) -> Duration {
    let text = with_rules(10_000, condition);
    let mut times: Vec<Duration> = (0..COMPILES)
        .map(|_| {
            let started = Instant::now();
            black_box(compile(&text));
            started.elapsed()
        })
        .collect();
    times.sort();
    let median = times.get(COMPILES / 2).copied().unwrap_or_default();
    println!("{name:43}{:>9.0} ms", median.as_secs_f64() * 1e3);
    median
}

/// The median time of one run, in nanoseconds.
fn measure<T>(name: &str, mut run: impl FnMut() -> T) -> f64 {
    let mut sample = |runs: u32| {
        let started = Instant::now();
        for _ in 0..runs {
            black_box(run());
        }
        started.elapsed()
    };
    let mut runs = 1;
    while sample(runs) < SAMPLE {
        runs *= 2;
    }
    let mut samples: Vec<f64> = (0..SAMPLES)
        .map(|_| sample(runs).as_secs_f64() * 1e9 / f64::from(runs))
        .collect();
    samples.sort_by(f64::total_cmp);
    let median = samples.get(SAMPLES / 2).copied().unwrap_or_default();
    println!("{name:40}{median:>12.0} ns");
    median
}

fn parse() -> Arguments {
    Arguments::parse(black_box(ARGUMENTS), MAX_BYTES).expect("the arguments are JSON")
}

/// All but parsing and hashing: the call that is judged, its class, the selectors and the rules.
fn decide(policy: &Policy, asked: &AskedCall, scope: &Scope) -> Decision {
    let judged = Judged::new(policy, black_box(asked));
    assert!(!judged.selection.asks);
    evaluate(policy, &judged.call, scope)
}

fn evaluate(policy: &Policy, call: &ToolCall, scope: &Scope) -> Decision {
    let verdict = policy.evaluate(&Facts {
        call: black_box(call),
        class: RiskClass::ReadOnly,
        scope,
        now: Timestamp::from_millis(1_767_225_600_000),
    });
    assert_eq!(verdict.decision, Decision::Allow, "{verdict:?}");
    verdict.decision
}

fn compile(text: &str) -> Policy {
    let compiled = Policy::compile(&[Source {
        name: "rules.yaml".to_owned(),
        text: text.to_owned(),
    }]);
    compiled.expect("the rules compile")
}

fn id(text: &str) -> Id {
    Id::parse(text).expect("the id is plain")
}

fn scope() -> Scope {
    Scope {
        tenant: id("acme"),
        principal: Principal {
            id: id("u-318"),
            roles: vec!["support".to_owned(), "refunds".to_owned()],
            attributes: [("team".to_owned(), "lisbon".to_owned())].into(),
        },
        session_id: id("s-1"),
        run_id: id("r-1"),
        parent_run_id: Id::default(),
        agent_path: vec!["support".to_owned(), "orders".to_owned()],
    }
}

fn call() -> ToolCall {
    ToolCall {
        call_id: id("c-1"),
        step_id: Id::default(),
        tool: id(TOOL),
        server: Id::default(),
        origin: Some(Origin::Code),
        annotations: Some(Annotations {
            read_only_hint: Some(true),
            destructive_hint: Some(false),
            ..Annotations::default()
        }),
        arguments: parse(),
        in_program: false,
        parent_call_id: Id::default(),
        wrapped: None,
    }
}
