//! The time: the system's clock, and how tests move a store's by one offset that both homes add to their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::domain::Timestamp;

/// How far a store's time is ahead of its clock, in milliseconds; clones share it. Zero when serving.
#[derive(Clone, Debug, Default)]
pub struct ClockOffset(Arc<AtomicI64>);

impl ClockOffset {
    /// Moves the time of every store that holds this offset.
    pub fn advance(&self, duration: Duration) {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        self.0.fetch_add(millis, Ordering::SeqCst);
    }

    /// The offset in milliseconds.
    pub fn millis(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    /// The system's clock, moved by the offset.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(now().millis().saturating_add(self.millis()))
    }
}

/// The system's clock.
pub fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = elapsed.map_or(0, |elapsed| {
        i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
    });
    Timestamp::from_millis(millis)
}
