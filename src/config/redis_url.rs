//! A Redis URL that does not show its secrets.

use std::fmt;

/// A `redis://` URL. Neither `Debug` nor `Display` shows who logs in and with what.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(String);

impl RedisUrl {
    /// Takes a URL of one Redis without TLS.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("redis://")?;
        (!rest.is_empty()).then(|| Self(text.to_owned()))
    }

    /// The whole URL, for the client library only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = self.0.strip_prefix("redis://").unwrap_or_default();
        // The last `@`, and no parser: a password may hold anything, also what should have been escaped.
        let (login, place) = match rest.rsplit_once('@') {
            Some((_, place)) => ("***@", place),
            None => ("", rest),
        };
        // Parameters can name a password too.
        let (place, parameters) = match place.split_once(['?', '#']) {
            Some((place, _)) => (place, "?***"),
            None => (place, ""),
        };
        write!(f, "redis://{login}{place}{parameters}")
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_holds_no_secret() {
        for (url, shown) in [
            ("redis://h:6379/0", "redis://h:6379/0"),
            ("redis://:hunter2@h:6379/0", "redis://***@h:6379/0"),
            ("redis://me:hunter2@h", "redis://***@h"),
            ("redis://hunter2@h", "redis://***@h"),
            ("redis://:hun@ter/2?@h:1", "redis://***@h:1"),
            ("redis://h?pass=hunter2", "redis://h?***"),
        ] {
            let url = RedisUrl::parse(url).unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), shown);
        }
    }
}
