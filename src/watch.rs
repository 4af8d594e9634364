//! Who waits on what, and the wake-ups (S11).
//!
//! A waiter subscribes first and reads afterwards, so that no change falls between the two. Wake-ups
//! carry nothing: whoever is woken reads the present state.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use crate::suspension::SuspensionId;

/// The waiters of this process.
#[derive(Clone, Default)]
pub struct Waiters {
    waited_on: Arc<Mutex<HashMap<SuspensionId, watch::Sender<()>>>>,
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

    /// Passes on what the store tells, until the store is dropped.
    pub async fn listen(self, mut changes: broadcast::Receiver<SuspensionId>) {
        loop {
            match changes.recv().await {
                Ok(id) => self.with(|waited_on| {
                    if let Some(sender) = waited_on.get(&id) {
                        sender.send_replace(());
                    }
                }),
                // Which ones were missed is unknown: everybody looks again.
                Err(RecvError::Lagged(_)) => self.wake_all(),
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Ends every wait, and those that are yet to begin: this process is about to stop. Nothing has
    /// changed by it; a waiter answers with what is, and its client asks again elsewhere.
    pub fn close(&self) {
        // In this order: whoever began to wait too early to see the flag is woken.
        self.closed.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    /// Whether waits have been ended with [`Waiters::close`].
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
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
