//! What all integration tests share: stores to run on, servers to speak to, and waiting without fixed sleeps.

pub mod redis;
pub mod server;
pub mod stores;

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long to wait for what should happen at once, on a machine that does much else.
pub const SOON: Duration = Duration::from_secs(20);

/// Waits until `holds`, looking again and again, and tells whether it came to hold in time.
pub async fn eventually(within: Duration, mut holds: impl AsyncFnMut() -> bool) -> bool {
    let until = Instant::now() + within;
    loop {
        if holds().await {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        sleep(Duration::from_millis(10)).await;
    }
}
