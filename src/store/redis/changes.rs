//! Hearing what changed, from any replica, over a connection of its own: Redis closes a connection that subscribes
//! when much is read over it. What is told while there is none is lost, and then it is said that something may be.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, SendError};
use redis::{AsyncConnectionConfig, PushInfo, PushKind, RedisError, Value};
use tokio::sync::{Notify, broadcast};
use tokio::time::{sleep, timeout};

use super::link::{Dial, Task};
use crate::store::Heard;
use crate::suspension::SuspensionId;

/// How many changes a slow receiver may lag behind before it loses some.
const LAG: usize = 4096;
/// How often a quiet connection is asked whether it is alive.
const PING_EVERY: Duration = Duration::from_secs(5);
/// How long to wait before connecting again.
const PAUSE: Duration = Duration::from_millis(500);

/// What changed, as Redis tells it.
pub(super) struct Changes {
    sender: broadcast::Sender<Heard>,
    _listening: Task,
}

impl Changes {
    /// Subscribes to the channel, and again whenever the connection is lost.
    pub(super) async fn hear(
        dial: Dial,
        channel: String,
        patience: Duration,
    ) -> Result<Self, RedisError> {
        let (sender, _) = broadcast::channel(LAG);
        let ears = Ears {
            dial,
            channel,
            patience,
            sender: sender.clone(),
            lost: Arc::new(Notify::new()),
        };
        let connection = ears.subscribe().await?;
        Ok(Self {
            sender,
            _listening: Task::spawn(ears.listen(connection)),
        })
    }

    /// Another receiver, from now on.
    pub(super) fn receiver(&self) -> broadcast::Receiver<Heard> {
        self.sender.subscribe()
    }
}

struct Ears {
    dial: Dial,
    channel: String,
    patience: Duration,
    sender: broadcast::Sender<Heard>,
    lost: Arc<Notify>,
}

impl Ears {
    async fn subscribe(&self) -> Result<MultiplexedConnection, RedisError> {
        let (sender, lost) = (self.sender.clone(), Arc::clone(&self.lost));
        let config = AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
            match push.kind {
                PushKind::Message => forward(&sender, push.data),
                PushKind::Disconnection => lost.notify_one(),
                _ => {}
            }
            Ok::<(), SendError>(())
        });
        let mut connection = self.dial.connect_with(config).await?;
        self.in_time(connection.subscribe(&self.channel)).await?;
        Ok(connection)
    }

    async fn listen(self, mut connection: MultiplexedConnection) {
        loop {
            self.until_lost(&mut connection).await;
            tracing::warn!("redis no longer tells what changes: subscribing again");
            connection = loop {
                sleep(PAUSE).await;
                match self.subscribe().await {
                    Ok(connection) => {
                        // Nobody may be listening.
                        let _ = self.sender.send(Heard::Missed);
                        break connection;
                    }
                    Err(error) => tracing::debug!(error = %error, "cannot subscribe"),
                }
            };
        }
    }

    async fn until_lost(&self, connection: &mut MultiplexedConnection) {
        loop {
            tokio::select! {
                () = self.lost.notified() => return,
                () = sleep(PING_EVERY) => {}
            }
            let ping = redis::cmd("PING");
            if self
                .in_time(connection.send_packed_command(&ping))
                .await
                .is_err()
            {
                return;
            }
        }
    }

    async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, RedisError> {
        match timeout(self.patience, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        }
    }
}

/// A message is the channel and the ids, with a space between two.
fn forward(sender: &broadcast::Sender<Heard>, message: Vec<Value>) {
    let Some(Value::BulkString(ids)) = message.into_iter().nth(1) else {
        return;
    };
    let Ok(ids) = std::str::from_utf8(&ids) else {
        return;
    };
    for id in ids.split(' ').filter_map(SuspensionId::parse) {
        // Nobody may be listening.
        let _ = sender.send(Heard::Changed(id));
    }
}
