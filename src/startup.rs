//! From settings to a server that runs: the log, the policy, the store, the listener, and what is said of them.
//!
//! Whatever cannot be had is one error, whose text is one sentence for whoever started the server.

use std::fmt::Write as _;
use std::future;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::config::{Address, Settings, StoreSettings};
use crate::listener::{ListenError, Listener};
use crate::policy::Policy;
use crate::policy_source::{self, PolicySourceError};
use crate::reload::Reload;
use crate::server::{self, Parts, ServeError};
use crate::store::clock::ClockOffset;
use crate::store::redis::{RedisSettings, RedisStore};
use crate::store::sqlite::SqliteStore;
use crate::store::{StoreError, SuspensionStore};
use crate::telemetry::{self, TelemetryError};

/// Where clients look for a server that was started without a flag.
const DEFAULT_PORT: u16 = 50051;

/// Why a server did not start, or did not end as it should.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The log.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The policy.
    #[error(transparent)]
    Policy(#[from] PolicySourceError),
    /// The store cannot be used as it is; the text names it.
    #[error("{0}")]
    Unusable(StoreError),
    /// The store does not answer.
    #[error("cannot use the store `{store}`: {error}")]
    Store {
        /// Which, without its secrets.
        store: String,
        /// Why.
        error: StoreError,
    },
    /// The listener.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The server.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// What only the system knows.
    #[error("cannot {what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
    /// Told to stop while it stopped.
    #[error("stopped at once by a second signal: calls under way were cut")]
    Interrupted,
}

/// Serves as the settings say, until SIGTERM or Ctrl-C. SIGHUP reloads the policy, if there is one.
///
/// # Errors
/// When it cannot start, cannot serve, or is told a second time to stop before it has.
pub async fn serve(settings: Settings) -> Result<(), StartError> {
    telemetry::start(settings.log_format, &settings.log_filter)?;
    // Before anything is open, so that there is no moment at which a signal kills.
    let mut signals = StopSignals::install()?;
    // Without a policy to reload, SIGHUP ends the server as it ends any program whose terminal is closed.
    let mut hangups = match &settings.policy {
        Some(_) => Some(install(SignalKind::hangup())?),
        None => None,
    };
    let policy = match &settings.policy {
        Some(path) => policy_source::load(path)?,
        None => Policy::defaults(),
    };
    let store = open_store(&settings.store).await?;
    let listener = Listener::bind(&settings.listen).await?;
    let address = listener.address().map_err(|error| StartError::System {
        what: "tell where the server listens",
        error,
    })?;

    // Whoever closed standard output does not want to know.
    let _ = io::stdout().write_all(announcement(&settings, &address, &policy, &*store).as_bytes());
    tracing::info!(%address, store = %settings.store, revision = policy.revision(), "serving");
    for warning in policy.warnings() {
        tracing::warn!("{warning}");
    }
    for warning in store.warnings().iter().chain(&settings.warnings) {
        tracing::warn!("{warning}");
    }

    let policy = Arc::new(ArcSwap::from_pointee(policy));
    let reload = settings
        .policy
        .and_then(|path| follow(path, Arc::clone(&policy)));
    let parts = Parts {
        store: Arc::clone(&store),
        policy,
        reload: reload.clone(),
        drain_timeout: settings.drain_timeout,
    };
    // One after the other, so that two signals that come together are still two.
    let (stop, stopping) = oneshot::channel();
    let told_to_stop = async {
        let _ = stopping.await;
    };
    let told_twice = async {
        signals.next().await;
        let _ = stop.send(());
        signals.next().await;
    };
    let told_to_reload = async {
        while let (Some(hangups), Some(reload)) = (&mut hangups, &reload) {
            hangups.recv().await;
            reload.ask();
        }
        future::pending().await
    };
    let ended = tokio::select! {
        ended = server::run(listener, parts, told_to_stop) => ended,
        () = told_twice => return Err(StartError::Interrupted),
        () = told_to_reload => Ok(()),
    };
    store.close().await;
    Ok(ended?)
}

/// What keeps the policy as its files say. A pipe is read once and has no more to say.
fn follow(path: PathBuf, policy: Arc<ArcSwap<Policy>>) -> Option<Arc<Reload>> {
    if policy_source::is_read_once(&path) {
        tracing::warn!("the policy is no file or directory: another one needs a restart");
        return None;
    }
    Some(Arc::new(Reload::new(path, policy)))
}

async fn open_store(settings: &StoreSettings) -> Result<Arc<dyn SuspensionStore>, StartError> {
    let opened: Result<Arc<dyn SuspensionStore>, StoreError> = match settings {
        StoreSettings::Sqlite(path) => match SqliteStore::open(path, ClockOffset::default()) {
            Ok(store) => Ok(Arc::new(store)),
            Err(error) => Err(error),
        },
        StoreSettings::Redis {
            url,
            prefix,
            allow_eviction,
        } => {
            let redis = RedisSettings {
                prefix: prefix.clone(),
                allow_eviction: *allow_eviction,
                ..RedisSettings::new(url.expose())
            };
            match RedisStore::connect(&redis, ClockOffset::default()).await {
                Ok(store) => Ok(Arc::new(store)),
                Err(error) => Err(error),
            }
        }
    };
    opened.map_err(|error| match error {
        StoreError::Unusable(_) => StartError::Unusable(error),
        StoreError::Unavailable(_) | StoreError::Corrupt { .. } => StartError::Store {
            store: settings.to_string(),
            error,
        },
    })
}

/// SIGTERM and Ctrl-C.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn install() -> Result<Self, StartError> {
        Ok(Self {
            terminate: install(SignalKind::terminate())?,
            interrupt: install(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn install(kind: SignalKind) -> Result<Signal, StartError> {
    signal(kind).map_err(|error| StartError::System {
        what: "listen to signals",
        error,
    })
}

/// What a person is told who has just started a server.
fn announcement(
    settings: &Settings,
    address: &Address,
    policy: &Policy,
    store: &dyn SuspensionStore,
) -> String {
    let source = match &settings.policy {
        Some(path) => path.display().to_string(),
        None => "the default, as no --policy was given".to_owned(),
    };
    let mut text = format!(
        "assent {} listens on {address}\n",
        env!("CARGO_PKG_VERSION")
    );
    let mut say = |name: &str, what: &str| {
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {name:<8} {what}");
    };
    say("store", &settings.store.to_string());
    say(
        "policy",
        &format!("{source} (revision {})", policy.revision()),
    );
    if let Some(port) = policy.port() {
        say(
            "",
            &format!(
                "it asks {} after its rules, for at most {:?}",
                port.endpoint, port.timeout
            ),
        );
    }
    if policy.allows_everything() {
        say(
            "",
            "it refuses nothing, only its selectors ask a person: this is not a security control",
        );
    }
    say("callers", reach(address));
    if let (Some(path), count @ 1..) = (&settings.policy, policy.warnings().len()) {
        let (path, s) = (path.display(), if count == 1 { "" } else { "s" });
        say(
            "warning",
            &format!("`assent check {path}` warns of {count} thing{s} in the policy"),
        );
    }
    for warning in store.warnings().iter().chain(&settings.warnings) {
        say("warning", warning);
    }
    let server = server_flag(address);
    let _ = writeln!(
        text,
        "try: assent{server} decide --tool client.issue_refund --args '{{\"cents\":420000}}' --destructive"
    );
    text
}

fn reach(address: &Address) -> &'static str {
    match address {
        Address::Unix(_) => "not authenticated: only this user can open the socket",
        Address::Tcp(tcp) if tcp.ip().is_loopback() => {
            "not authenticated: every program on this machine may decide, approve and read"
        }
        Address::Tcp(_) => {
            "not authenticated, nothing is encrypted: whoever reaches this address may decide, approve and read"
        }
    }
}

/// How a client command on this machine says which server it means.
fn server_flag(address: &Address) -> String {
    match address {
        Address::Unix(path) => {
            let path = path.display().to_string();
            format!(" --server 'unix:{}'", path.replace('\'', r"'\''"))
        }
        Address::Tcp(tcp) => {
            let mut here = *tcp;
            match tcp.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => here.set_ip(Ipv4Addr::LOCALHOST.into()),
                IpAddr::V6(ip) if ip.is_unspecified() => here.set_ip(Ipv6Addr::LOCALHOST.into()),
                IpAddr::V4(_) | IpAddr::V6(_) => {}
            }
            if here == (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into() {
                String::new()
            } else {
                format!(" --server {here}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_to_try_reaches_the_server_that_was_started() {
        let flag = |address: &str| server_flag(&address.parse().unwrap());
        assert_eq!(flag("127.0.0.1:50051"), "");
        assert_eq!(flag("0.0.0.0:50051"), "");
        assert_eq!(flag("127.0.0.1:4000"), " --server 127.0.0.1:4000");
        assert_eq!(flag("[::]:50051"), " --server [::1]:50051");
        assert_eq!(
            flag("unix:/run/my dir/a.sock"),
            " --server 'unix:/run/my dir/a.sock'"
        );
    }
}
