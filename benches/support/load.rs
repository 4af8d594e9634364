//! The load: so many connections, so many calls in flight on each, and the next call when one is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use assent::pb::decision_service_client::DecisionServiceClient;
use tonic::transport::{Channel, Endpoint};

use crate::calls::Call;
use crate::child::Server;

type Client = DecisionServiceClient<Channel>;

/// How much is asked at once, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
    pub(crate) duration: Duration,
}

/// What one round of load met.
#[derive(Debug)]
pub(crate) struct Round {
    /// Answers per second.
    pub(crate) throughput: f64,
    /// How long answers took, the shortest first.
    latencies: Vec<Duration>,
    /// What the server's process used for one call, where the system tells.
    pub(crate) cpu_per_call: Option<Duration>,
}

/// The connections to one server, which are kept from round to round.
pub(crate) struct Target {
    server: Server,
    clients: Vec<Client>,
    load: Load,
    prefix: &'static str,
    next: Arc<AtomicU64>,
}

impl Target {
    /// Connects to a server. The prefix keeps its calls apart from those of another target.
    pub(crate) async fn connect(server: Server, prefix: &'static str, load: Load) -> Self {
        let endpoint = Endpoint::from_shared(server.url()).expect("the url is well-formed");
        let mut clients = Vec::new();
        for _ in 0..load.connections {
            let channel = endpoint.connect().await.expect("the server listens");
            clients.push(Client::new(channel));
        }
        Self {
            server,
            clients,
            load,
            prefix,
            next: Arc::default(),
        }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Sends a call until the time is over, and waits for the last answers.
    ///
    /// # Panics
    /// When an answer is not the expected one: what would be measured then is something else.
    pub(crate) async fn round(&self, call: Call) -> Round {
        let cpu_before = self.server.cpu();
        let started = Instant::now();
        let mut callers = Vec::new();
        for client in &self.clients {
            for _ in 0..self.load.in_flight {
                let (client, prefix, next) = (client.clone(), self.prefix, Arc::clone(&self.next));
                let until = started + self.load.duration;
                callers.push(tokio::spawn(caller(client, call, prefix, next, until)));
            }
        }
        let mut latencies = Vec::new();
        for caller in callers {
            latencies.extend(caller.await.expect("each answer is the expected one"));
        }
        let elapsed = started.elapsed();
        let cpu = self.server.cpu().zip(cpu_before);
        latencies.sort_unstable();
        let calls = u32::try_from(latencies.len()).expect("a round is short");
        Round {
            throughput: f64::from(calls) / elapsed.as_secs_f64(),
            cpu_per_call: cpu.map(|(after, before)| (after - before) / calls.max(1)),
            latencies,
        }
    }
}

impl Round {
    /// What so many of a hundred answers took at most.
    pub(crate) fn latency(&self, percent: usize) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        let latency = self.latencies.get(last * percent / 100);
        latency.copied().unwrap_or_default()
    }
}

async fn caller(
    mut client: Client,
    call: Call,
    prefix: &'static str,
    next: Arc<AtomicU64>,
    until: Instant,
) -> Vec<Duration> {
    let mut latencies = Vec::new();
    loop {
        let sent = Instant::now();
        if sent >= until {
            return latencies;
        }
        let request = call.request(prefix, next.fetch_add(1, Ordering::Relaxed));
        let answer = client.decide(request).await.expect("the call is decided");
        assert!(
            call.is_answered_by(answer.get_ref()),
            "{call:?} was answered by {answer:?}"
        );
        latencies.push(sent.elapsed());
    }
}
