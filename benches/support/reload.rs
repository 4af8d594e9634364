//! Decisions while a document is loaded again, beside decisions while none is.
//!
//! The load is open: calls are sent when they are due, whether or not earlier ones are answered, and how long one takes
//! counts from when it was due. So a stall of the server, or of this load by it, is in the figures.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use assent::pb::decision_service_client::DecisionServiceClient;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tonic::transport::Channel;

use crate::calls::Call;
use crate::child::Server;
use crate::load::Load;

type Client = DecisionServiceClient<Channel>;

/// How often calls are sent: all that are due.
const BEAT: Duration = Duration::from_micros(500);
/// How long before a reload belongs to neither.
const APART: Duration = Duration::from_millis(100);
/// How long is measured without a reload, before each.
const QUIET: Duration = Duration::from_millis(1500);
/// The longest that a reload may take here.
const GIVE_UP: Duration = Duration::from_secs(10);

/// What one reload came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reload {
    /// From the signal to the first answer by the new document.
    pub(crate) took: Duration,
    /// The 99th percentile of the calls that were due before it.
    pub(crate) quiet: Duration,
    /// The 99th percentile of the calls that were due while it went on.
    pub(crate) during: Duration,
}

/// A call that was answered.
struct Answered {
    due: Instant,
    at: Instant,
    revision: String,
}

/// Replaces the document so many times while calls are sent at a rate.
pub(crate) async fn measure(
    server: &Server,
    load: Load,
    per_second: f64,
    document: &Path,
    times: u32,
) -> Vec<Reload> {
    let mut clients = Vec::new();
    for _ in 0..load.connections {
        let client = Client::connect(server.url()).await;
        clients.push(client.expect("the server listens"));
    }
    let text = fs::read_to_string(document).expect("the document is there");
    let mut reloads = Vec::new();
    for time in 0..=times {
        let next = format!("# {time}\n{text}");
        let reload = one(server, &clients, per_second, document, &next).await;
        // The first one warms up.
        if time > 0 {
            reloads.push(reload);
        }
    }
    reloads
}

async fn one(
    server: &Server,
    clients: &[Client],
    per_second: f64,
    document: &Path,
    text: &str,
) -> Reload {
    let (answered, mut answers) = unbounded_channel();
    let pace = Pace::start(clients.to_vec(), per_second, answered);
    tokio::time::sleep(QUIET).await;

    let beside = document.with_extension("next");
    fs::write(&beside, text).expect("the document can be written");
    fs::rename(&beside, document).expect("the document can be replaced");
    let asked = Instant::now();
    server.hang_up();

    let mut all: Vec<Answered> = Vec::new();
    let mut before = None;
    let done = loop {
        let answer = answers.recv().await.expect("calls are sent until the end");
        if answer.at < asked {
            before = Some(answer.revision.clone());
        }
        let is_new = before.as_ref().is_some_and(|it| *it != answer.revision);
        let at = answer.at;
        all.push(answer);
        if is_new {
            break at;
        }
        assert!(asked.elapsed() < GIVE_UP, "the document is not taken");
    };
    pace.stop();
    while let Some(answer) = answers.recv().await {
        all.push(answer);
    }
    Reload {
        took: done - asked,
        quiet: percentile_99(&all, |due| due + APART < asked),
        during: percentile_99(&all, |due| due >= asked && due < done),
    }
}

fn percentile_99(all: &[Answered], is_meant: impl Fn(Instant) -> bool) -> Duration {
    let meant = all.iter().filter(|answer| is_meant(answer.due));
    let mut took: Vec<Duration> = meant.map(|answer| answer.at - answer.due).collect();
    took.sort_unstable();
    let at = took.len().saturating_sub(1) * 99 / 100;
    *took.get(at).expect("calls were due")
}

/// A thread that sends what is due: a timer of the runtime is only as exact as a millisecond.
struct Pace {
    going: Arc<()>,
}

impl Pace {
    fn start(clients: Vec<Client>, per_second: f64, answered: UnboundedSender<Answered>) -> Self {
        let going = Arc::new(());
        let (watched, runtime) = (Arc::downgrade(&going), Handle::current());
        thread::spawn(move || {
            let started = Instant::now();
            let mut due = started;
            let mut sent: u64 = 0;
            let mut clients = clients.iter().cycle();
            while watched.strong_count() > 0 {
                due += BEAT;
                thread::sleep(due.saturating_duration_since(Instant::now()));
                while Duration::from_secs_f64(sent as f64 / per_second) < due - started {
                    let client = clients.next().expect("there is a connection").clone();
                    runtime.spawn(call(client, sent, due, answered.clone()));
                    sent += 1;
                }
            }
        });
        Self { going }
    }

    fn stop(self) {
        drop(self.going);
    }
}

async fn call(mut client: Client, number: u64, due: Instant, answered: UnboundedSender<Answered>) {
    let answer = client.decide(Call::Allow.request("o", number)).await;
    let answer = answer.expect("the call is decided").into_inner();
    assert!(Call::Allow.is_answered_by(&answer), "{answer:?}");
    // Nobody listens any more once the reload is measured.
    let _ = answered.send(Answered {
        due,
        at: Instant::now(),
        revision: answer.policy_revision,
    });
}
