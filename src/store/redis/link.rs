//! A connection that many requests share: replaced when it is lost, with a deadline for every answer.
//!
//! The client library's own reconnecting connection is not used: it never gives up a connection that has gone
//! silent, and stops trying for good when a reconnection is refused for another reason than the network.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, ServerErrorKind, Value};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::failure::{Failure, of_server, unexpected};
use super::script::Call;
use crate::store::StoreError;

/// How many requests may wait for the socket before senders do.
const QUEUE: usize = 1024;
/// The pause before the second attempt to reconnect; it doubles with each. The first attempt is made at once.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A connection that held for so long is no sign that reconnecting is in vain.
const STEADY: Duration = Duration::from_secs(5);

/// How connections are made.
#[derive(Clone)]
pub(super) struct Dial {
    /// To what, and as whom.
    pub(super) client: Client,
    /// Within what time, the greeting included.
    pub(super) timeout: Duration,
}

impl Dial {
    /// Makes a connection.
    pub(super) async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        self.connect_with(AsyncConnectionConfig::new()).await
    }

    /// Makes a connection that is set up in this way. Its answers have no deadline of their own.
    pub(super) async fn connect_with(
        &self,
        config: AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection, RedisError> {
        let config = config
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let connecting = self
            .client
            .get_multiplexed_async_connection_with_config(&config);
        match timeout(self.timeout, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        }
    }
}

/// A task that ends with its owner.
pub(super) struct Task(AbortHandle);

impl Task {
    /// Starts one.
    pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work).abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The connection that the requests of one runtime share.
pub(super) struct Link {
    state: watch::Receiver<State>,
    lost: mpsc::UnboundedSender<u64>,
    response_timeout: Duration,
    _reconnecting: Task,
}

enum State {
    Up {
        generation: u64,
        connection: MultiplexedConnection,
    },
    Down {
        since: Instant,
        cause: Option<RedisError>,
    },
}

impl Link {
    /// Makes a connection on this runtime, and a new one whenever it is lost.
    pub(super) fn new(dial: Dial, response_timeout: Duration) -> Self {
        let (sender, state) = watch::channel(State::Down {
            since: Instant::now(),
            cause: None,
        });
        let (lost, reports) = mpsc::unbounded_channel();
        let task = Task::spawn(keep_connected(dial, sender, reports));
        Self {
            state,
            lost,
            response_timeout,
            _reconnecting: task,
        }
    }

    /// Whether the runtime it was made on still keeps it connected.
    pub(super) fn is_kept(&self) -> bool {
        self.state.has_changed().is_ok()
    }

    /// Calls a script; one round trip as long as Redis knows it.
    pub(super) async fn call(&self, call: Call<'_>) -> Result<Value, StoreError> {
        let mut answers = self.calls(std::slice::from_ref(&call)).await?;
        answers
            .pop()
            .unwrap_or_else(|| Err(unexpected("no answer to a script")))
    }

    /// Calls scripts in one round trip, each with an answer of its own. They may lie in different partitions.
    pub(super) async fn calls(
        &self,
        calls: &[Call<'_>],
    ) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        let deadline = Instant::now() + self.response_timeout;
        let mut answers = self
            .send(calls.iter().map(Call::by_digest), deadline)
            .await?;
        // Redis forgets scripts when it restarts or is told to.
        let unknown: Vec<usize> = answers
            .iter()
            .enumerate()
            .filter(|(_, answer)| is_unknown_script(answer))
            .map(|(at, _)| at)
            .collect();
        if !unknown.is_empty() {
            let again = unknown
                .iter()
                .filter_map(|at| calls.get(*at))
                .map(Call::by_source);
            for (at, answer) in unknown.iter().zip(self.send(again, deadline).await?) {
                if let Some(place) = answers.get_mut(*at) {
                    *place = answer;
                }
            }
        }
        Ok(answers
            .into_iter()
            .zip(calls)
            .map(|(answer, call)| checked(answer, call.first_key()))
            .collect())
    }

    /// Sends commands in one round trip. The answers may be errors of the server.
    pub(super) async fn commands(
        &self,
        commands: impl IntoIterator<Item = Cmd>,
    ) -> Result<Vec<Value>, StoreError> {
        self.send(commands, Instant::now() + self.response_timeout)
            .await
    }

    /// What is lost with a connection is sent again on the next one, as long as there is time: all that is
    /// sent here can be repeated without harm.
    async fn send(
        &self,
        commands: impl IntoIterator<Item = Cmd>,
        deadline: Instant,
    ) -> Result<Vec<Value>, StoreError> {
        let mut pipeline = Pipeline::new();
        let mut count = 0;
        for command in commands {
            pipeline.add_command(command);
            count += 1;
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut tried = 0;
        loop {
            let (generation, mut connection) = self.connection(tried, deadline).await?;
            tried = generation;
            match timeout_at(
                deadline,
                connection.send_packed_commands(&pipeline, 0, count),
            )
            .await
            {
                Ok(Ok(answers)) => {
                    if answers.iter().any(is_replica) {
                        // A failover has demoted this node: its address may lead elsewhere by now.
                        self.report(generation);
                    }
                    return if answers.len() == count {
                        Ok(answers)
                    } else {
                        Err(unexpected("fewer answers than commands"))
                    };
                }
                Ok(Err(error)) => {
                    self.report(generation);
                    tracing::debug!(error = %error, "a request was lost with its connection");
                }
                Err(_) => {
                    self.report(generation);
                    return Err(Failure::Silent(self.response_timeout).into());
                }
            }
        }
    }

    /// The present connection, if it is a newer one than was tried; else the next, as soon as there is one.
    async fn connection(
        &self,
        tried: u64,
        deadline: Instant,
    ) -> Result<(u64, MultiplexedConnection), StoreError> {
        let mut state = self.state.clone();
        loop {
            let (until, cause) = match &*state.borrow_and_update() {
                State::Up {
                    generation,
                    connection,
                } if *generation > tried => {
                    return Ok((*generation, connection.clone()));
                }
                State::Up { .. } => (deadline, None),
                // Who waits must hope: after an outage of some time requests fail at once.
                State::Down { since, cause } => {
                    (deadline.min(*since + self.response_timeout), cause.clone())
                }
            };
            if !matches!(timeout_at(until, state.changed()).await, Ok(Ok(()))) {
                return Err(cause.map_or(Failure::Lost, Failure::Disconnected).into());
            }
        }
    }

    fn report(&self, generation: u64) {
        // The receiver lives as long as this does.
        let _ = self.lost.send(generation);
    }
}

async fn keep_connected(
    dial: Dial,
    state: watch::Sender<State>,
    mut lost: mpsc::UnboundedReceiver<u64>,
) {
    let mut pause = Duration::ZERO;
    let mut since = Instant::now();
    for generation in 1.. {
        let connection = loop {
            sleep(pause).await;
            pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            match dial.connect().await {
                Ok(connection) => break connection,
                Err(error) => {
                    tracing::warn!(error = %error, "cannot connect to redis");
                    state.send_replace(State::Down {
                        since,
                        cause: Some(error),
                    });
                }
            }
        };
        let connected = Instant::now();
        state.send_replace(State::Up {
            generation,
            connection,
        });
        tracing::info!(generation, "connected to redis");
        loop {
            match lost.recv().await {
                Some(reported) if reported == generation => break,
                // A connection that was replaced since.
                Some(_) => {}
                None => return,
            }
        }
        since = Instant::now();
        state.send_replace(State::Down { since, cause: None });
        tracing::warn!("the connection to redis is lost or silent: connecting again");
        if since - connected > STEADY {
            pause = Duration::ZERO;
        }
    }
}

/// An answer, or what its error means; `key` names it.
pub(super) fn checked(answer: Value, key: &str) -> Result<Value, StoreError> {
    match answer {
        Value::ServerError(error) => Err(of_server(error, key)),
        answer => Ok(answer),
    }
}

fn is_unknown_script(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}

fn is_replica(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::ReadOnly))
}
