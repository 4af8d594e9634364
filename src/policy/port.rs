//! Where the operator's own authorization answers (S5): the document's `policy_port`, read and checked.
//!
//! Only its address and how long it may take. Nothing is asked here: policy is synchronous, and the engine asks.

use std::fmt;
use std::net::Ipv6Addr;
use std::time::Duration;

use super::error::{PolicyError, quoted};
use super::fields::{Keys, duration, text};
use super::yaml::Entry;

/// How long an answer may take where the document does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(200);
/// The longest that it may say: whoever asked for a decision waits for it.
const MAX_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest path that a Unix socket can have on Linux, without the NUL at its end.
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// The operator's authorization service, and how long it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Where it listens.
    pub endpoint: PortEndpoint,
    /// How long one answer may take; what comes later is a denial.
    pub timeout: Duration,
}

/// An address that can be asked: `http://HOST:PORT`, or `unix:` and an absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortEndpoint(String);

impl PortEndpoint {
    /// The address as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with('/') || path.trim_start_matches('/').is_empty() {
                return Err(
                    "a Unix socket needs an absolute path: write `unix:/run/authorization.sock`",
                );
            }
            if path.len() > MAX_SOCKET_PATH_BYTES || path.contains('\0') {
                return Err("no Unix socket can have this path: write one of at most 107 bytes");
            }
            return Ok(Self(text.to_owned()));
        }
        if text.starts_with("https://") {
            return Err(
                "TLS is not spoken to a policy port: write `http://HOST:PORT` of a service, or of a proxy, on this machine, or `unix:/PATH`",
            );
        }
        let (host, port) = text
            .strip_prefix("http://")
            .and_then(|authority| authority.strip_suffix('/').or(Some(authority)))
            .and_then(|authority| authority.rsplit_once(':'))
            .ok_or(
                "expected `http://HOST:PORT` or `unix:/PATH`, such as `http://127.0.0.1:7000`",
            )?;
        let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        if !digits || port.parse::<u16>().unwrap_or(0) == 0 {
            return Err(
                "the port must be a number from 1 to 65535, with no path behind it: write `http://HOST:PORT`",
            );
        }
        if !is_host(host) {
            return Err(
                "the host must be a name or an address: write `http://HOST:PORT`, without user, path or query",
            );
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for PortEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let in_a_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    (1..=253).contains(&host.len()) && host.bytes().all(in_a_name)
}

/// `policy_port`.
pub(super) fn policy_port(entry: Entry<'_>) -> Result<PortSettings, PolicyError> {
    let mut keys = Keys::of("`policy_port`", entry.value, &["endpoint", "timeout"])?;
    let written = text(keys.require("endpoint")?)?;
    let endpoint = PortEndpoint::parse(&written.value).map_err(|why| {
        written
            .place()
            .error(format!("`endpoint`: {}: {why}", quoted(&written.value)))
    })?;
    let timeout = match keys.take("timeout") {
        Some(entry) => {
            let (place, found) = (entry.value.place, entry.value.describe());
            let timeout = duration(entry)?;
            if timeout > MAX_TIMEOUT {
                return Err(place.error(format!(
                    "`timeout`: a decision waits for it, so it is at most `10s`, found {found}"
                )));
            }
            timeout
        }
        None => DEFAULT_TIMEOUT,
    };
    Ok(PortSettings { endpoint, timeout })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_plain_authority_or_a_socket() {
        for text in [
            "http://127.0.0.1:7000",
            "http://127.0.0.1:7000/",
            "http://[::1]:7000",
            "http://authz.internal:80",
            "http://my_service-2:65535",
            "unix:/run/authz.sock",
            "unix:///run/my authz.sock",
        ] {
            assert_eq!(PortEndpoint::parse(text), Ok(PortEndpoint(text.to_owned())));
        }
        for (text, why) in [
            ("", "expected `http://HOST:PORT`"),
            ("127.0.0.1:7000", "expected `http://HOST:PORT`"),
            ("grpc://127.0.0.1:7000", "expected `http://HOST:PORT`"),
            ("http://localhost", "expected `http://HOST:PORT`"),
            ("https://localhost:7000", "TLS is not spoken"),
            ("http://localhost:", "from 1 to 65535"),
            ("http://localhost:0", "from 1 to 65535"),
            ("http://localhost:+80", "from 1 to 65535"),
            ("http://localhost:65536", "from 1 to 65535"),
            ("http://localhost:7000/path", "from 1 to 65535"),
            ("http://:7000", "the host"),
            ("http://user@localhost:7000", "the host"),
            ("http://a b:7000", "the host"),
            ("http://[::1:7000", "the host"),
            ("http://localhost/x:7000", "the host"),
            ("unix:", "absolute path"),
            ("unix:///", "absolute path"),
            ("unix:run/authz.sock", "absolute path"),
            ("unix:/a\0b", "no Unix socket"),
        ] {
            let error = PortEndpoint::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let long = format!("unix:/{}", "x".repeat(MAX_SOCKET_PATH_BYTES));
        assert!(PortEndpoint::parse(&long).is_err());
    }
}
