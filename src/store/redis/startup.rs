//! What is checked once, before this Redis is used: each refusal is one sentence for the operator.

use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, ProtocolVersion,
    RedisError, Value,
};

use super::RedisSettings;
use super::failure::unusable;
use super::layout::{LAYOUT, Layout};
use super::link::{Dial, Link, checked};
use super::row;
use super::script::{Call, META};
use crate::store::StoreError;
use crate::suspension::PARTITIONS;

/// The oldest major version that is used.
const OLDEST: u32 = 7;
/// When a connection on which nothing is heard is probed.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// A Redis, by what may be said of it: never its password.
pub(super) struct Server {
    info: ConnectionInfo,
    requests: Client,
    pushes: Client,
    connect_timeout: Duration,
}

impl Server {
    pub(super) fn of(settings: &RedisSettings) -> Result<Self, StoreError> {
        // The library's own error may quote a part of the URL, and so a part of the password.
        let wrong = |_| {
            unusable(
                "the Redis URL cannot be used: write `redis://[user:password@]host[:port][/db]`, with special \
                 characters of the password percent-encoded",
            )
        };
        let info = settings
            .url
            .as_str()
            .into_connection_info()
            .map_err(wrong)?;
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(TcpKeepalive::new().with_time(KEEPALIVE));
        let info = info.set_tcp_settings(tcp);
        let speaking = |protocol| {
            let redis = info.redis_settings().clone().set_protocol(protocol);
            Client::open(info.clone().set_redis_settings(redis)).map_err(wrong)
        };
        Ok(Self {
            requests: speaking(ProtocolVersion::RESP2)?,
            pushes: speaking(ProtocolVersion::RESP3)?,
            info,
            connect_timeout: settings.connect_timeout,
        })
    }

    /// How the connection for requests is made.
    pub(super) fn dial(&self) -> Dial {
        Dial {
            client: self.requests.clone(),
            timeout: self.connect_timeout,
        }
    }

    /// How the connection is made on which Redis speaks unasked.
    pub(super) fn dial_for_pushes(&self) -> Dial {
        Dial {
            client: self.pushes.clone(),
            timeout: self.connect_timeout,
        }
    }

    /// Makes a connection once, as whoever starts a server wants to know why it cannot be made.
    pub(super) async fn greet(&self) -> Result<(), StoreError> {
        let connected = self.dial().connect().await;
        connected.map(drop).map_err(|error| self.refused(&error))
    }

    /// Why a connection could not be made.
    pub(super) fn refused(&self, error: &RedisError) -> StoreError {
        let place = self.place();
        if error.kind() == ErrorKind::AuthenticationFailed {
            let detail = error.detail().unwrap_or("no reason given");
            return unusable(format!(
                "Redis at `{place}` refused the user or the password: {detail}"
            ));
        }
        if error.is_timeout() {
            let limit = self.connect_timeout;
            return unusable(format!(
                "Redis at `{place}` did not answer within {limit:?}"
            ));
        }
        let text = error.to_string();
        // The client has no kind for what SELECT answers.
        if text.contains("switch database") {
            let database = self.info.redis_settings().db();
            let detail = error.detail().unwrap_or("no reason given");
            return unusable(format!(
                "Redis at `{place}` refused the database {database} of the URL: {detail}"
            ));
        }
        // What is no Redis is quoted by the client line by line.
        let first = text.lines().next().unwrap_or_default();
        unusable(format!("no Redis could be reached at `{place}`: {first}"))
    }

    /// Checks the server and the layout of the keys, and says what the operator should know.
    pub(super) async fn examine(
        &self,
        link: &Link,
        layout: &Layout,
        allow_eviction: bool,
    ) -> Result<Vec<String>, StoreError> {
        let place = self.place();
        let failed = |what: &str, error: StoreError| {
            let cause = match error {
                StoreError::Unavailable(cause) => cause.to_string(),
                StoreError::Corrupt { .. } | StoreError::Unusable(_) => error.to_string(),
            };
            if cause.contains("NOAUTH") {
                return unusable(format!(
                    "Redis at `{place}` asks for a password, and the URL has none"
                ));
            }
            unusable(format!("Redis at `{place}` {what}: {cause}"))
        };
        let facts = self
            .facts(link)
            .await
            .map_err(|error| failed("does not say what it is (INFO)", error))?;
        let warnings = facts.judge(&place, allow_eviction)?;
        let found = written_layout(link, layout)
            .await
            .map_err(|error| failed("does not say how its keys are laid out", error))?;
        found.map_err(|found| {
            unusable(format!(
                "the keys in Redis at `{place}` have layout and partitions `{found}`, this version needs `{LAYOUT} \
                 {PARTITIONS}`: use another key prefix, or the version that wrote them"
            ))
        })?;
        Ok(warnings)
    }

    async fn facts(&self, link: &Link) -> Result<Facts, StoreError> {
        let mut text = String::new();
        for answer in link.commands([redis::cmd("INFO")]).await? {
            text.push_str(&row::text(checked(answer, "INFO")?).unwrap_or_default());
        }
        Ok(Facts(text))
    }

    fn place(&self) -> String {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                format!("{host}:{port}")
            }
            ConnectionAddr::Unix(path) => path.display().to_string(),
            _ => "the given address".to_owned(),
        }
    }
}

/// How the keys are laid out: as this version has it, else what is written there. Where nothing is written, as after a
/// restart without data, it is written now.
pub(super) async fn written_layout(
    link: &Link,
    layout: &Layout,
) -> Result<Result<(), String>, StoreError> {
    let mut read = redis::cmd("HMGET");
    read.arg(layout.meta()).arg("layout").arg("partitions");
    let mut answers = link.commands([read]).await?;
    let mut found = checked(answers.pop().unwrap_or(Value::Nil), "meta")?;
    if found == Value::Array(vec![Value::Nil, Value::Nil]) {
        let call = Call::new(&META, layout.meta())
            .number(LAYOUT)
            .number(PARTITIONS);
        found = link.call(call).await?;
    }
    let found: Vec<_> = row::list(found)?
        .map(|value| row::text(value).unwrap_or_else(|| "?".to_owned()))
        .collect();
    if found == [LAYOUT.to_string(), PARTITIONS.to_string()] {
        Ok(Ok(()))
    } else {
        Ok(Err(found.join(" ")))
    }
}

/// What INFO says. CONFIG would say more, but is often forbidden.
struct Facts(String);

impl Facts {
    fn get(&self, name: &str) -> Option<&str> {
        self.0
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    }

    fn judge(&self, place: &str, allow_eviction: bool) -> Result<Vec<String>, StoreError> {
        let version = self.get("redis_version").unwrap_or("unknown");
        let major = version
            .split('.')
            .next()
            .and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < OLDEST) {
            return Err(unusable(format!(
                "Redis at `{place}` has the version `{version}`, and {OLDEST} or newer is needed"
            )));
        }
        match self.get("redis_mode") {
            None | Some("standalone") => {}
            Some(mode) => {
                return Err(unusable(format!(
                    "Redis at `{place}` runs in the mode `{mode}`, and only `standalone` is supported"
                )));
            }
        }
        if self.get("role") == Some("slave") {
            return Err(unusable(format!(
                "Redis at `{place}` is a replica: give the address of its primary"
            )));
        }
        let mut warnings = Vec::new();
        let policy = self.get("maxmemory_policy").unwrap_or("unknown");
        if policy != "noeviction" {
            if !allow_eviction {
                return Err(unusable(format!(
                    "Redis at `{place}` has the maxmemory-policy `{policy}`, so it may drop suspensions: set \
                     `noeviction`, or accept the loss with `--allow-eviction`"
                )));
            }
            warnings.push(format!(
                "Redis at `{place}` has the maxmemory-policy `{policy}`: it may drop suspensions when it is full"
            ));
        }
        if self.get("aof_enabled") != Some("1") {
            warnings.push(format!(
                "Redis at `{place}` has no append-only file: a crash of it loses what was written last, and a claim \
                 that is lost can run twice"
            ));
        }
        Ok(warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(info: &str, allow_eviction: bool) -> Result<Vec<String>, String> {
        Facts(info.to_owned())
            .judge("host:1", allow_eviction)
            .map_err(|error| error.to_string())
    }

    const GOOD: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n# Memory\r\n\
        maxmemory_policy:noeviction\r\n# Persistence\r\naof_enabled:1\r\n# Replication\r\nrole:master\r\n";

    #[test]
    fn a_good_server_has_no_warnings() {
        assert_eq!(judge(GOOD, false), Ok(vec![]));
    }

    #[test]
    fn what_does_not_fit_is_refused_in_one_sentence() {
        for (from, to, word) in [
            ("7.0.15", "6.2.14", "6.2.14"),
            ("redis_version:7.0.15", "", "unknown"),
            ("standalone", "cluster", "cluster"),
            ("role:master", "role:slave", "replica"),
            ("noeviction", "allkeys-lru", "allkeys-lru"),
            ("maxmemory_policy:noeviction", "", "unknown"),
        ] {
            let refusal = judge(&GOOD.replace(from, to), false).unwrap_err();
            assert!(
                refusal.contains(word) && refusal.contains("host:1"),
                "{refusal}"
            );
        }
    }

    #[test]
    fn a_url_that_cannot_be_read_is_not_shown() {
        let settings = RedisSettings::new("redis://:s3cret@host:port");
        let refusal = Server::of(&settings).err().unwrap().to_string();
        assert!(
            !refusal.contains("s3cret") && refusal.contains("percent-encoded"),
            "{refusal}"
        );
        assert!(!format!("{settings:?}").contains("s3cret"));
    }
}
