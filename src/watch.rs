//! Who waits on what, and the wake-ups (S11).
//!
//! A waiter subscribes first and reads afterwards, so that no change falls between the two. One who waits on one
//! suspension is woken and reads it; one who watches many has a [`Feed`], for which each change is read once in this
//! process, however many watch. Nobody who waits polls.

mod feed;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use self::feed::Feeds;
use crate::store::{Heard, StoreError, SuspensionStore};
use crate::suspension::SuspensionId;

pub use self::feed::{Feed, News, Topic};

/// How many changed records are read at once for those who watch.
const READS: usize = 32;

/// The waiters of this process.
#[derive(Clone, Default)]
pub struct Waiters {
    waited_on: Arc<Mutex<HashMap<SuspensionId, watch::Sender<()>>>>,
    feeds: Feeds,
    closed: Arc<AtomicBool>,
}

/// One who waits on one suspension; dropping it ends the wait.
pub struct Waiter {
    id: SuspensionId,
    woken: watch::Receiver<()>,
    waiters: Waiters,
}

impl Waiters {
    /// Begins to wait on a suspension: any change from now on is noticed.
    pub fn wait_for(&self, id: SuspensionId) -> Waiter {
        let woken = self.with(|waited_on| {
            let sender = waited_on.entry(id).or_insert_with(|| watch::channel(()).0);
            sender.subscribe()
        });
        Waiter {
            id,
            woken,
            waiters: self.clone(),
        }
    }

    /// Begins to watch what belongs to any of these: any change from now on is told.
    pub fn watch(&self, topics: Vec<Topic>) -> Feed {
        self.feeds.open(topics)
    }

    /// Passes on what the store tells, until the store is dropped.
    pub async fn listen(self, store: Arc<dyn SuspensionStore>) {
        let mut changes = store.changes();
        // Nobody heard what changed before, and some may have begun to wait.
        self.all_missed();
        // In the order in which the changes were heard: an earlier state does not come after a later one.
        let mut reads = FuturesOrdered::new();
        loop {
            tokio::select! {
                Some((id, read)) = reads.next() => match read {
                    Ok((Some(suspension), _)) => self.feeds.tell(suspension),
                    // Collected meanwhile: what became of it before was told.
                    Ok((None, _)) => {}
                    Err(error @ StoreError::Corrupt { .. }) => {
                        tracing::error!(%error, "a change is not told to those who watch");
                    }
                    Err(error) => {
                        tracing::debug!(%error, suspension = %id, "a change cannot be read");
                        self.feeds.tell_missed();
                    }
                },
                heard = changes.recv(), if reads.len() < READS => match heard {
                    Ok(Heard::Changed(id)) => {
                        self.wake(id);
                        if self.feeds.may_hold(id) {
                            let store = Arc::clone(&store);
                            reads.push_back(async move { (id, store.read(id).await) });
                        }
                    }
                    // Which ones were missed is unknown: everybody looks again.
                    Ok(Heard::Missed) | Err(RecvError::Lagged(_)) => {
                        self.all_missed();
                    }
                    Err(RecvError::Closed) => return,
                },
            }
        }
    }

    /// Ends every wait, and those that are yet to begin: this process is about to stop. Nothing has
    /// changed by it; a waiter answers with what is, and its client asks again elsewhere.
    pub fn close(&self) {
        // In this order: whoever began to wait too early to see the flag is woken.
        self.closed.store(true, Ordering::SeqCst);
        self.wake_all();
        self.feeds.close();
    }

    /// Whether waits have been ended with [`Waiters::close`].
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Lets everybody look again.
    fn all_missed(&self) {
        self.wake_all();
        self.feeds.tell_missed();
    }

    fn wake(&self, id: SuspensionId) {
        self.with(|waited_on| {
            if let Some(sender) = waited_on.get(&id) {
                sender.send_replace(());
            }
        });
    }

    fn wake_all(&self) {
        self.with(|waited_on| {
            for sender in waited_on.values() {
                sender.send_replace(());
            }
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<SuspensionId, watch::Sender<()>>) -> T) -> T {
        act(&mut self
            .waited_on
            .lock()
            .unwrap_or_else(PoisonError::into_inner))
    }
}

impl Waiter {
    /// Waits for the next change since the wait began or since this last returned.
    pub async fn changed(&mut self) {
        // The sender lives as long as it has a receiver, and this is one.
        let _closed = self.woken.changed().await;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let id = self.id;
        self.waiters.with(|waited_on| {
            let last = waited_on
                .get(&id)
                .is_some_and(|sender| sender.receiver_count() <= 1);
            if last {
                waited_on.remove(&id);
            }
        });
    }
}
