//! From flags and environment to [`Settings`] that are valid as a whole.
//!
//! The environment is read here and nowhere else. What may be a secret is kept in a [`RedisUrl`], which does not
//! show it, and no error here quotes a store.

mod flags;
mod redis_url;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::CommandFactory as _;

pub use self::flags::{Cli, Command, HealthFlags, LogFormat, ServeFlags};
pub use self::redis_url::RedisUrl;

use crate::domain::parse_duration;

/// How to serve.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where.
    pub listen: Address,
    /// The policy's file or directory, if there is one.
    pub policy: Option<PathBuf>,
    /// Where suspensions rest.
    pub store: StoreSettings,
    /// How long calls under way may take to end when the server stops.
    pub drain_timeout: Duration,
    /// How the log is written.
    pub log_format: LogFormat,
    /// What is logged, in the notation of `RUST_LOG`.
    pub log_filter: String,
    /// What in the environment looks like a setting and is none: one sentence each.
    pub warnings: Vec<String>,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address and a port; port 0 is any free one.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// Where suspensions rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreSettings {
    /// In a file, whose path is absolute.
    Sqlite(PathBuf),
    /// In Redis.
    Redis {
        /// Which.
        url: RedisUrl,
        /// What the names of its keys begin with.
        prefix: String,
        /// Whether it may evict keys.
        allow_eviction: bool,
    },
}

/// Why the settings cannot be used: one sentence that says what to write instead.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// No address that one can listen on.
    #[error(
        "cannot listen on `{0}`: write IP:PORT, as in `--listen 127.0.0.1:50051`, or `unix:PATH`"
    )]
    Listen(String),
    /// Others could reach the listener, and nobody would ask who they are.
    #[error(
        "will not listen on `{0}`: it can be reached from other machines, callers are not authenticated and nothing is \
         encrypted, so anybody there could approve calls; listen on 127.0.0.1 or a unix socket, or say `--allow-remote`"
    )]
    Remote(SocketAddr),
    /// No store that this version knows.
    #[error("the store must be `sqlite:PATH` or `redis://HOST:PORT`; what was given is neither")]
    Store,
    /// A store that is planned.
    #[error(
        "this version does not support `{0}` stores yet: use `redis://`, one Redis without TLS, or `sqlite:PATH`"
    )]
    StoreNotYet(&'static str),
    /// An SQLite store that is no file.
    #[error(
        "suspensions must outlive the process, so `sqlite:` needs the path of a file, as in `sqlite:assent.db`"
    )]
    NoFile,
    /// `sqlite://name` would mean a file in the root directory.
    #[error("write `sqlite:PATH`, without slashes before a relative path")]
    SqliteUrl,
    /// There is no directory to put the default store in.
    #[error(
        "there is no home directory to keep suspensions in (HOME is not set): say where with `--store sqlite:PATH`"
    )]
    NoHome,
    /// The working directory is gone.
    #[error("the path `{path}` has no place: {error}")]
    NoPlace {
        /// Which path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// No duration.
    #[error(
        "`{flag}` is `{text}`: write an integer above zero and one of ms, s, m, h or d, as in `8s`"
    )]
    Duration {
        /// Which flag.
        flag: &'static str,
        /// What was written.
        text: String,
    },
}

impl Settings {
    /// Checks what was written and fills in the rest.
    ///
    /// # Errors
    /// The first thing that cannot be used.
    pub fn from_flags(flags: ServeFlags) -> Result<Self, ConfigError> {
        Self::new(
            flags,
            &|name| std::env::var_os(name),
            std::env::vars_os().map(|(name, _)| name),
        )
    }

    fn new(
        flags: ServeFlags,
        environment: &dyn Fn(&str) -> Option<OsString>,
        names: impl Iterator<Item = OsString>,
    ) -> Result<Self, ConfigError> {
        let ServeFlags {
            listen,
            policy,
            store,
            redis_prefix,
            allow_remote,
            allow_eviction,
            drain_timeout,
            log_format,
            log_level,
        } = flags;
        let listen = Address::from_str(&listen)?;
        if let Address::Tcp(address) = listen
            && !address.ip().is_loopback()
            && !allow_remote
        {
            return Err(ConfigError::Remote(address));
        }
        let store = match store {
            None => StoreSettings::Sqlite(default_store(environment)?),
            Some(text) => StoreSettings::parse(&text, redis_prefix, allow_eviction)?,
        };
        let drain_timeout = parse_duration(&drain_timeout).map_err(|_| ConfigError::Duration {
            flag: "--drain-timeout",
            text: drain_timeout,
        })?;
        let log_filter = log_level
            .or_else(|| environment("RUST_LOG").and_then(|filter| filter.into_string().ok()))
            .filter(|filter| !filter.trim().is_empty())
            .unwrap_or_else(|| "info".to_owned());
        Ok(Self {
            listen,
            policy,
            store,
            drain_timeout,
            log_format,
            log_filter,
            warnings: unknown_variables(names),
        })
    }
}

impl FromStr for Address {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(ConfigError::Listen(text.to_owned())),
                path => Ok(Self::Unix(absolute(Path::new(path))?)),
            };
        }
        if let Some(port) = text.strip_prefix("localhost:")
            && let Ok(port) = port.parse()
        {
            return Ok(Self::Tcp((Ipv4Addr::LOCALHOST, port).into()));
        }
        text.parse()
            .map(Self::Tcp)
            .map_err(|_| ConfigError::Listen(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl StoreSettings {
    fn parse(text: &OsStr, prefix: String, allow_eviction: bool) -> Result<Self, ConfigError> {
        let text = text.to_str().ok_or(ConfigError::Store)?;
        if let Some(path) = text.strip_prefix("sqlite:") {
            if path.is_empty() || path == ":memory:" {
                return Err(ConfigError::NoFile);
            }
            if path.starts_with("//") && !path.starts_with("///") {
                return Err(ConfigError::SqliteUrl);
            }
            return Ok(Self::Sqlite(absolute(Path::new(path))?));
        }
        for planned in [
            "rediss",
            "redis+sentinel",
            "rediss+sentinel",
            "redis+cluster",
            "rediss+cluster",
        ] {
            if text
                .strip_prefix(planned)
                .is_some_and(|rest| rest.starts_with("://"))
            {
                return Err(ConfigError::StoreNotYet(planned));
            }
        }
        let url = RedisUrl::parse(text).ok_or(ConfigError::Store)?;
        Ok(Self::Redis {
            url,
            prefix,
            allow_eviction,
        })
    }
}

/// Names the store without its secrets.
impl fmt::Display for StoreSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Redis { url, .. } => url.fmt(f),
        }
    }
}

/// The XDG base directory specification: a path that is not absolute is not used.
fn default_store(environment: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf, ConfigError> {
    let path_in = |name: &str| {
        environment(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let data =
        path_in("XDG_DATA_HOME").or_else(|| path_in("HOME").map(|home| home.join(".local/share")));
    let data = data.ok_or(ConfigError::NoHome)?;
    Ok(data.join("assent").join("assent.db"))
}

fn absolute(path: &Path) -> Result<PathBuf, ConfigError> {
    std::path::absolute(path).map_err(|error| ConfigError::NoPlace {
        path: path.to_owned(),
        error,
    })
}

/// A misspelt `ASSENT_POLICY` would be no policy, so what nobody reads is at least named.
fn unknown_variables(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let cli = Cli::command();
    let known: Vec<&OsStr> = cli
        .get_arguments()
        .filter_map(|argument| argument.get_env())
        .collect();
    // Kubernetes sets these for a service called `assent`.
    let is_foreign =
        |name: &str| name.starts_with("ASSENT_SERVICE_") || name.starts_with("ASSENT_PORT");
    let mut unknown: Vec<String> = names
        .filter(|name| !known.contains(&name.as_os_str()))
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.starts_with("ASSENT_") && !is_foreign(name))
        .map(|name| format!("the environment variable {name} is no setting and has no effect"))
        .collect();
    unknown.sort();
    unknown
}

#[cfg(test)]
mod tests;
