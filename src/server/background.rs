//! What runs beside the calls, for as long as the server does.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long to wait before something is started again, so that what always fails does not burn a core.
const PAUSE: Duration = Duration::from_secs(1);

/// Work that ends with this.
#[derive(Default)]
pub(super) struct Background(JoinSet<()>);

impl Background {
    /// Does this for ever. Should it panic it is a bug, which is logged; and it is started again, since a server that
    /// no longer notices deadlines or answers looks healthy and is not.
    pub(super) fn keep<F>(&mut self, name: &'static str, start: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.0.spawn(async move {
            loop {
                let mut work = JoinSet::new();
                work.spawn(start());
                if let Some(Err(error)) = work.join_next().await {
                    tracing::error!(%error, "{name} failed and is started again");
                }
                sleep(PAUSE).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_panics_is_started_again() {
        let starts = Arc::new(AtomicUsize::new(0));
        let mut background = Background::default();
        let counted = Arc::clone(&starts);
        background.keep("the test", move || {
            let start = counted.fetch_add(1, Ordering::SeqCst);
            async move { assert!(start > 1, "as planned") }
        });
        tokio::time::timeout(PAUSE * 10, async {
            while starts.load(Ordering::SeqCst) < 3 {
                sleep(PAUSE).await;
            }
        })
        .await
        .unwrap();
    }
}
