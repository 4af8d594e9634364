//! Answers of Redis as records and other values.

use redis::Value;

use super::failure::{corrupt, unexpected};
use crate::domain::Timestamp;
use crate::store::record::{FORMAT, Stored, StoredMember};
use crate::store::{KeyHash, Member, StoreError};
use crate::suspension::{RecordId, Suspension, SuspensionId};

/// The fields of a record that reading takes, in the order of [`Row::read`].
pub(super) const FIELDS: [&str; 7] = [
    "format", "body", "state", "version", "created", "deadline", "open",
];

/// A record as it was found.
pub(super) enum Row {
    /// There is none.
    Gone,
    /// It can be read; whether it counts as open, and its size.
    Held {
        suspension: Box<Suspension>,
        open: bool,
        bytes: usize,
    },
    /// It cannot, and why.
    Corrupt(StoreError),
}

impl Row {
    /// Reads the answers for [`FIELDS`].
    pub(super) fn read(id: SuspensionId, values: impl IntoIterator<Item = Value>) -> Self {
        let mut fields: [Option<Vec<u8>>; 7] = Default::default();
        for (field, value) in fields.iter_mut().zip(values) {
            *field = bytes(value);
        }
        if fields.iter().all(Option::is_none) {
            return Self::Gone;
        }
        let [format, body, state, version, created, deadline, open] = fields;
        let format = number(format).and_then(|format| u32::try_from(format).ok());
        let (
            Some(format),
            Some(body),
            Some(state),
            Some(version),
            Some(create_time),
            Some(expire_time),
        ) = (
            format,
            body,
            state,
            number(version),
            number(created),
            number(deadline),
        )
        else {
            return Self::Corrupt(corrupt(&id.to_string(), "a field is missing or garbled"));
        };
        let stored = Stored {
            id,
            format,
            body: &body,
            state: &state,
            create_time: Timestamp::from_millis(create_time),
            expire_time: Timestamp::from_millis(expire_time),
            version: version.unsigned_abs(),
        };
        match stored.decode() {
            Ok(suspension) => Self::Held {
                suspension: Box::new(suspension),
                open: open.is_some_and(|open| open == b"1"),
                bytes: body.len() + state.len(),
            },
            Err(error) => Self::Corrupt(error),
        }
    }

    /// Reads the answer of a command that asked for [`FIELDS`] of this record.
    pub(super) fn of_answer(id: SuspensionId, answer: Value) -> Result<Self, StoreError> {
        match super::link::checked(answer, &id.to_string()) {
            Ok(Value::Array(values)) => Ok(Self::read(id, values)),
            Ok(_) => Err(unexpected("a record that is no list of fields")),
            Err(error @ StoreError::Corrupt { .. }) => Ok(Self::Corrupt(error)),
            Err(error) => Err(error),
        }
    }

    /// The record if there is one.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn suspension(self) -> Result<Option<Suspension>, StoreError> {
        match self {
            Self::Gone => Ok(None),
            Self::Held { suspension, .. } => Ok(Some(*suspension)),
            Self::Corrupt(error) => Err(error),
        }
    }
}

/// The fields of a record that its run's end takes, in the order of [`LightRow::read`].
pub(super) const LIGHT_FIELDS: [&str; 8] = [
    "format",
    "state",
    "version",
    "deadline",
    "open",
    "run",
    "indexes",
    "on_expiry",
];

/// A record without its body, as it was found.
pub(super) enum LightRow {
    /// There is none.
    Gone,
    /// It can be read; whether it counts as open, and the size of its state.
    Held {
        member: Box<Member>,
        open: bool,
        bytes: usize,
    },
    /// It cannot be read, or not be changed.
    Corrupt {
        /// Why.
        error: StoreError,
        /// Whether a newer release wrote it, which will look after it.
        newer: bool,
    },
}

impl LightRow {
    /// Reads the answers for [`LIGHT_FIELDS`].
    fn read(id: SuspensionId, values: impl IntoIterator<Item = Value>) -> Self {
        let mut fields: [Option<Vec<u8>>; 8] = Default::default();
        for (field, value) in fields.iter_mut().zip(values) {
            *field = bytes(value);
        }
        if fields.iter().all(Option::is_none) {
            return Self::Gone;
        }
        let [
            format,
            state,
            version,
            deadline,
            open,
            run,
            indexes,
            on_expiry,
        ] = fields;
        let format = number(format).and_then(|format| u32::try_from(format).ok());
        let newer = format.is_some_and(|format| format > FORMAT);
        let run = run.and_then(|run| match String::from_utf8(run).ok()?.as_str() {
            "" => Some(None),
            name => KeyHash::parse(name).map(Some),
        });
        let (
            Some(format),
            Some(state),
            Some(version),
            Some(expire_time),
            Some(open),
            Some(run),
            Some(_),
            Some(on_expiry),
        ) = (
            format,
            state,
            number(version),
            number(deadline),
            open,
            run,
            // A commit cannot move it from index to index without.
            indexes.filter(|indexes| !indexes.is_empty()),
            on_expiry,
        )
        else {
            return Self::Corrupt {
                error: corrupt(&id.to_string(), "a field is missing or garbled"),
                newer,
            };
        };
        let stored = StoredMember {
            id,
            format,
            state: &state,
            expire_time: Timestamp::from_millis(expire_time),
            on_expiry: &on_expiry,
            run,
            version: version.unsigned_abs(),
        };
        match stored.decode() {
            Ok(member) => Self::Held {
                member: Box::new(member),
                open: open == b"1",
                bytes: state.len(),
            },
            Err(error) => Self::Corrupt { error, newer },
        }
    }

    /// Reads the answer of a command that asked for [`LIGHT_FIELDS`] of this record.
    pub(super) fn of_answer(id: SuspensionId, answer: Value) -> Result<Self, StoreError> {
        match super::link::checked(answer, &id.to_string()) {
            Ok(Value::Array(values)) => Ok(Self::read(id, values)),
            Ok(_) => Err(unexpected("a record that is no list of fields")),
            Err(error @ StoreError::Corrupt { .. }) => Ok(Self::Corrupt {
                error,
                newer: false,
            }),
            Err(error) => Err(error),
        }
    }
}

/// The parts of an answer that is a list.
pub(super) fn list(answer: Value) -> Result<std::vec::IntoIter<Value>, StoreError> {
    match answer {
        Value::Array(values) => Ok(values.into_iter()),
        _ => Err(unexpected("no list")),
    }
}

/// The next part of an answer, which is a time.
pub(super) fn time(value: Option<Value>) -> Result<Timestamp, StoreError> {
    match value {
        Some(Value::Int(millis)) => Ok(Timestamp::from_millis(millis)),
        _ => Err(unexpected("no time")),
    }
}

/// A text of an answer.
pub(super) fn text(value: Value) -> Option<String> {
    String::from_utf8(bytes(value)?).ok()
}

/// The id that a key or an index names.
pub(super) fn id<Of>(value: Option<Value>) -> Option<RecordId<Of>> {
    RecordId::parse(&text(value?)?)
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}

/// A number that is none is a garbled field, and so is one below zero.
fn number(field: Option<Vec<u8>>) -> Option<i64> {
    let number: i64 = std::str::from_utf8(&field?).ok()?.parse().ok()?;
    (number >= 0).then_some(number)
}
