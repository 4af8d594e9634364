//! Follows the policy's files, and swaps the policy when they have changed (S12).
//!
//! What is on the disk counts, not what the system tells of it: an event, SIGHUP or the passing of time is a reason to
//! look, and to look is to read the whole document. So it is no matter how the files are replaced, nor whether an event
//! is lost. A document is compiled whole, off the threads that serve, and is taken if the disk still holds it then.
//! One that is broken, empty or gone is logged and changes nothing: the one in use goes on deciding.

mod places;

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::sleep;

use self::places::{Places, Watch};
use crate::policy::{Policy, Source};
use crate::policy_source;

/// How long the files must have stayed as they are (S12), so that what is written piece by piece is read whole.
const QUIET: Duration = Duration::from_millis(250);

/// How often to look when nothing is heard, as events can be lost and some file systems send none.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// How long events are let gather: a busy directory is not read for each of them.
const GATHER: Duration = Duration::from_millis(50);

/// What became of the documents since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// How many were taken.
    pub reloads: u64,
    /// How many were refused.
    pub failures: u64,
}

/// Keeps a policy as its files say.
pub struct Reload {
    path: PathBuf,
    policy: Arc<ArcSwap<Policy>>,
    asked: Notify,
    reloads: AtomicU64,
    failures: AtomicU64,
}

/// What is on the disk: the texts, or why they cannot be read.
type Found = Result<Vec<Source>, String>;

/// What came of compiling it.
enum Compiled {
    /// It is what is in use.
    InUse,
    New(Box<Policy>),
    Broken(String),
}

impl Reload {
    /// Of this file or directory into `policy`, which is what was read from there at first.
    pub fn new(path: PathBuf, policy: Arc<ArcSwap<Policy>>) -> Self {
        Self {
            path,
            policy,
            asked: Notify::new(),
            reloads: AtomicU64::default(),
            failures: AtomicU64::default(),
        }
    }

    /// Reads and compiles it now, changed or not, and does not wait until the files are quiet.
    pub fn ask(&self) {
        self.asked.notify_one();
    }

    /// What became of the documents since the start.
    pub fn counts(&self) -> Counts {
        Counts {
            reloads: self.reloads.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    /// Follows the files for ever, and tells each time whether the newest document could be taken.
    pub async fn follow<F: Future<Output = ()>>(&self, tell: impl Fn(bool) -> F) {
        let mut watch = Watch::default();
        let mut settled = None;
        let mut fault = None;
        let mut replaced = Vec::new();
        let mut at_once = false;
        loop {
            let found = self.look(&mut watch).await;
            if at_once || settled.as_ref() != Some(&found) {
                if !at_once {
                    at_once = self.is_asked_within(QUIET).await;
                    if at_once || self.look(&mut watch).await != found {
                        continue;
                    }
                }
                let compiled = self.compile(&found, at_once).await;
                // A document that changed meanwhile may be half of two, and is waited for whoever asked.
                if self.look(&mut watch).await != found {
                    at_once = false;
                    continue;
                }
                let is_usable = self.take(compiled, at_once, &mut fault, &mut replaced);
                tell(is_usable).await;
                settled = Some(found);
            }
            drop_unused(&mut replaced);
            at_once = tokio::select! {
                () = self.asked.notified() => true,
                () = watch.heard() => {
                    sleep(GATHER).await;
                    false
                }
                () = sleep(LOOK_INTERVAL) => false,
            };
        }
    }

    async fn is_asked_within(&self, time: Duration) -> bool {
        tokio::select! {
            () = self.asked.notified() => true,
            () = sleep(time) => false,
        }
    }

    /// Reads what is there, with a watch on every directory that has a part in it.
    async fn look(&self, watch: &mut Watch) -> Found {
        loop {
            let path = self.path.clone();
            let looked = spawn_blocking(move || {
                let places = Places::of(&path);
                let found = policy_source::read_again(&path).map_err(|error| error.to_string());
                (places, found)
            });
            let (places, found) = match looked.await {
                Ok(looked) => looked,
                Err(error) => return Err(bug("read", &error)),
            };
            // What happened before a watch began was not heard: look again.
            if !watch.moves_to(places) {
                return found;
            }
        }
    }

    async fn compile(&self, found: &Found, even_if_in_use: bool) -> Compiled {
        let sources = match found {
            Ok(sources) => sources.clone(),
            Err(fault) => return Compiled::Broken(fault.clone()),
        };
        let in_use = self.policy.load_full();
        let compiled = spawn_blocking(move || {
            if !even_if_in_use && in_use.is_of(&sources) {
                return Compiled::InUse;
            }
            match Policy::compile(&sources) {
                Ok(policy) => Compiled::New(Box::new(policy)),
                Err(error) => Compiled::Broken(error.to_string()),
            }
        });
        compiled
            .await
            .unwrap_or_else(|error| Compiled::Broken(bug("compiled", &error)))
    }

    /// Swaps the policy if there is a new one, and says what came of it. Gives whether what is on the disk is in use.
    fn take(
        &self,
        compiled: Compiled,
        was_asked: bool,
        fault: &mut Option<String>,
        replaced: &mut Vec<Arc<Policy>>,
    ) -> bool {
        match compiled {
            Compiled::InUse => {
                if fault.take().is_some() {
                    tracing::info!("the policy is on the disk again as it is in use");
                }
                true
            }
            Compiled::New(policy) => {
                *fault = None;
                let policy = Arc::<Policy>::from(policy);
                let old = self.policy.swap(Arc::clone(&policy));
                let reloads = self.reloads.fetch_add(1, Ordering::Relaxed) + 1;
                let (revision, old_revision) = (policy.revision(), old.revision());
                tracing::info!(old_revision, revision, reloads, "the policy was reloaded");
                if policy.allows_everything() {
                    tracing::warn!(
                        "the policy refuses nothing, only its selectors ask a person: this is not a security control"
                    );
                }
                for warning in policy.warnings() {
                    tracing::warn!("{warning}");
                }
                replaced.push(old);
                true
            }
            Compiled::Broken(text) => {
                let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
                if was_asked || fault.as_ref() != Some(&text) {
                    let in_use = self.policy.load();
                    let revision = in_use.revision();
                    tracing::error!(
                        error = %text,
                        failures,
                        revision,
                        "the policy is not reloaded, the one in use goes on deciding"
                    );
                } else {
                    tracing::debug!(failures, "the policy is again refused for the same reason");
                }
                *fault = Some(text);
                false
            }
        }
    }
}

/// What went wrong is in the log already, as every panic is.
fn bug(what: &str, error: &JoinError) -> String {
    format!("the policy could not be {what}, which is a bug: {error}")
}

/// Lets go of the policies that no request holds any more. A large one takes its time, which no request shall pay.
fn drop_unused(replaced: &mut Vec<Arc<Policy>>) {
    let (unused, held): (Vec<_>, Vec<_>) = mem::take(replaced)
        .into_iter()
        .partition(|policy| Arc::strong_count(policy) == 1);
    *replaced = held;
    if !unused.is_empty() {
        // Whether it is done is nobody's concern.
        drop(spawn_blocking(move || drop(unused)));
    }
}
