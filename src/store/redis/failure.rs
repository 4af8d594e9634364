//! What Redis and its client say when something fails, as this floor's errors.

use std::time::Duration;

use redis::{RedisError, ServerError};

use crate::store::StoreError;

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Redis is there, or seems to be, and says nothing.
    #[error("redis did not answer within {0:?}")]
    Silent(Duration),
    /// Nobody could connect since the connection was lost.
    #[error("redis cannot be reached: {0}")]
    Disconnected(#[source] RedisError),
    /// The connection was lost, and nobody has tried again yet.
    #[error("the connection to redis was lost")]
    Lost,
    /// Redis refused: it is out of memory, loading, a replica, or forbids it.
    #[error("redis refused: {0}")]
    Refused(#[source] RedisError),
    /// An answer of a shape that no script here gives.
    #[error("redis answered what nobody asked for: {0}")]
    Unexpected(&'static str),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        Self::Unavailable(Box::new(failure))
    }
}

/// An answer of a shape that no script here gives.
pub(super) fn unexpected(what: &'static str) -> StoreError {
    Failure::Unexpected(what).into()
}

/// A store that cannot be used as it is set up.
pub(super) fn unusable(why: impl Into<String>) -> StoreError {
    StoreError::Unusable(why.into())
}

/// An error that Redis itself answered. A key of another type than we write is a corrupt record, the rest may pass.
pub(super) fn of_server(error: ServerError, key: &str) -> StoreError {
    match error.code() {
        "WRONGTYPE" => corrupt(key, "it holds another kind of value"),
        "CORRUPT" => corrupt(
            error.details().unwrap_or(key),
            "its deadline or its indexes are missing",
        ),
        _ => Failure::Refused(error.into()).into(),
    }
}

/// A record that is not what this version wrote.
pub(super) fn corrupt(id: &str, cause: impl Into<String>) -> StoreError {
    StoreError::Corrupt {
        id: id.to_owned(),
        cause: cause.into(),
    }
}
