//! Single fields, checked as S9 has it; whatever is refused is named by its path in the request.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::arguments::{Arguments, Digest, Json};
use crate::domain::{Id, MAX_ENTRIES, MAX_ENTRY_BYTES, MAX_TEXT_BYTES, TextError};
use crate::suspension::RecordId;

/// Where a field stands in its request: `scope.principal.roles[3]`.
pub(in crate::grpc) type FieldPath = Cow<'static, str>;

/// A field that is not as the contract wants it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}`: {message}")]
pub(in crate::grpc) struct InvalidField {
    /// Which.
    pub(in crate::grpc) path: FieldPath,
    /// What is wrong with it.
    pub(in crate::grpc) message: String,
}

impl InvalidField {
    pub(in crate::grpc) fn new(path: impl Into<FieldPath>, problem: impl fmt::Display) -> Self {
        Self {
            path: path.into(),
            message: problem.to_string(),
        }
    }

    pub(super) fn missing(path: &'static str) -> Self {
        Self::new(path, "is required")
    }
}

/// An id that may be empty.
pub(super) fn id(path: impl Into<FieldPath>, text: String) -> Result<Id, InvalidField> {
    Id::try_from(text).map_err(|error| InvalidField::new(path, error))
}

/// An id that must not be empty.
pub(super) fn required_id(path: impl Into<FieldPath>, text: String) -> Result<Id, InvalidField> {
    if text.is_empty() {
        return Err(InvalidField::new(path, TextError::Empty));
    }
    id(path, text)
}

/// The id of a suspension or a grant, in the one spelling that the server gives out.
pub(super) fn record_id<Of>(path: &'static str, text: &str) -> Result<RecordId<Of>, InvalidField> {
    let problem = match RecordId::parse(text) {
        Some(id) => return Ok(id),
        None if text.is_empty() => "must not be empty",
        None => "expected a UUID in lower case with hyphens, as the server gave it",
    };
    Err(InvalidField::new(path, problem))
}

/// A title, a reason or another free text.
pub(super) fn text(path: impl Into<FieldPath>, text: String) -> Result<String, InvalidField> {
    sized(path, &text, MAX_TEXT_BYTES)?;
    Ok(text)
}

/// Roles, labels or an agent path.
pub(super) fn entries(
    path: &'static str,
    entries: Vec<String>,
) -> Result<Vec<String>, InvalidField> {
    few(path, entries.len())?;
    for (index, entry) in entries.iter().enumerate() {
        at_most(MAX_ENTRY_BYTES, entry.len())
            .map_err(|error| InvalidField::new(format!("{path}[{index}]"), error))?;
    }
    Ok(entries)
}

/// A map with short entries: a key and its value together count as one.
pub(super) fn attributes<M: FromIterator<(String, String)>>(
    path: &'static str,
    attributes: impl ExactSizeIterator<Item = (String, String)>,
) -> Result<M, InvalidField> {
    few(path, attributes.len())?;
    attributes
        .map(
            |(key, value)| match at_most(MAX_ENTRY_BYTES, key.len() + value.len()) {
                Ok(()) => Ok((key, value)),
                Err(error) => Err(InvalidField::new(
                    path,
                    format_args!("an entry, with its key, {error}"),
                )),
            },
        )
        .collect()
}

fn few(path: &'static str, count: usize) -> Result<(), InvalidField> {
    if count > MAX_ENTRIES {
        return Err(InvalidField::new(path, TextError::TooManyEntries(count)));
    }
    Ok(())
}

fn at_most(limit: usize, actual: usize) -> Result<(), TextError> {
    if actual > limit {
        return Err(TextError::TooLong { actual, limit });
    }
    Ok(())
}

/// The arguments of a call; empty means `{}`.
pub(super) fn arguments(
    path: &'static str,
    json: &str,
    max_bytes: usize,
) -> Result<Arguments, InvalidField> {
    Arguments::parse(json, max_bytes).map_err(|error| InvalidField::new(path, error))
}

/// Any JSON value.
pub(super) fn json(path: &'static str, json: &str, max_bytes: usize) -> Result<Json, InvalidField> {
    Json::parse(json, max_bytes).map_err(|error| InvalidField::new(path, error))
}

/// A text with a limit of its own.
pub(super) fn sized(
    path: impl Into<FieldPath>,
    text: &str,
    limit: usize,
) -> Result<(), InvalidField> {
    at_most(limit, text.len()).map_err(|error| InvalidField::new(path, error))
}

/// A digest that may be left out.
pub(super) fn digest(path: &'static str, text: &str) -> Result<Option<Digest>, InvalidField> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(digest) => Ok(Some(digest)),
        Err(error) => Err(InvalidField::new(path, error)),
    }
}

/// A value of an enum that this version knows.
pub(super) fn known<E: TryFrom<i32>>(
    path: impl Into<FieldPath>,
    value: i32,
) -> Result<E, InvalidField> {
    E::try_from(value)
        .map_err(|_| InvalidField::new(path, format_args!("the value {value} is not known")))
}

/// The values of a filter, each once. Unspecified is no value to look for.
pub(super) fn filter<W, D>(
    path: &'static str,
    values: Vec<i32>,
    meaning: impl Fn(W) -> Option<D>,
) -> Result<Vec<D>, InvalidField>
where
    W: TryFrom<i32>,
    D: PartialEq,
{
    let mut wanted = Vec::new();
    for (index, value) in values.into_iter().enumerate() {
        let path = || format!("{path}[{index}]");
        let Some(value) = meaning(known(path(), value)?) else {
            return Err(InvalidField::new(path(), "must not be unspecified"));
        };
        if !wanted.contains(&value) {
            wanted.push(value);
        }
    }
    Ok(wanted)
}

/// The longest duration that protobuf has: about 10,000 years.
const MAX_DURATION_SECONDS: u64 = 315_576_000_000;

/// A duration that is not below zero, as google.protobuf.Duration spells it.
pub(super) fn duration(
    path: &'static str,
    duration: prost_types::Duration,
) -> Result<Duration, InvalidField> {
    const NANOS_PER_SECOND: i32 = 1_000_000_000;
    let prost_types::Duration { seconds, nanos } = duration;
    let refused = |problem: &str| Err(InvalidField::new(path, problem));
    if nanos <= -NANOS_PER_SECOND || nanos >= NANOS_PER_SECOND {
        return refused("its nanoseconds are a second or more");
    }
    if (seconds > 0 && nanos < 0) || (seconds < 0 && nanos > 0) {
        return refused("its seconds and its nanoseconds have different signs");
    }
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(seconds), u32::try_from(nanos)) else {
        return refused("must not be negative");
    };
    if seconds > MAX_DURATION_SECONDS {
        return refused("is longer than 10,000 years");
    }
    Ok(Duration::new(seconds, nanos))
}

/// How long to wait for an answer, in whole milliseconds, which is what deadlines are made of. Rounded
/// up, so that a time above zero stays one.
pub(super) fn expires_in(
    path: &'static str,
    wire: Option<prost_types::Duration>,
) -> Result<Option<Duration>, InvalidField> {
    let Some(wire) = wire else {
        return Ok(None);
    };
    let exact = duration(path, wire)?;
    if exact.is_zero() {
        return Err(InvalidField::new(path, "must be longer than zero"));
    }
    let millis = exact.as_nanos().div_ceil(1_000_000);
    Ok(u64::try_from(millis).ok().map(Duration::from_millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(seconds: i64, nanos: i32) -> prost_types::Duration {
        prost_types::Duration { seconds, nanos }
    }

    #[test]
    fn a_duration_is_protobufs_and_not_negative() {
        assert_eq!(duration("wait", wire(0, 0)), Ok(Duration::ZERO));
        assert_eq!(
            duration("wait", wire(2, 999_999_999)),
            Ok(Duration::new(2, 999_999_999))
        );
        assert_eq!(
            duration("wait", wire(315_576_000_000, 0)),
            Ok(Duration::from_secs(315_576_000_000))
        );
        for (seconds, nanos) in [
            (-1, 0),
            (0, -1),
            (-1, -1),
            (1, -1),
            (-1, 1),
            (0, 1_000_000_000),
            (0, i32::MAX),
            (0, i32::MIN),
            (315_576_000_001, 0),
            (i64::MAX, 0),
            (i64::MIN, i32::MIN),
        ] {
            let error = duration("wait", wire(seconds, nanos)).unwrap_err();
            assert_eq!(error.path, "wait", "{seconds} {nanos}");
        }
    }

    #[test]
    fn an_expiry_is_above_zero_and_rounds_up_to_milliseconds() {
        let millis = |wire| expires_in("expires_in", Some(wire)).map(|d| d.unwrap().as_millis());
        assert_eq!(expires_in("expires_in", None), Ok(None));
        assert_eq!(millis(wire(0, 1)), Ok(1));
        assert_eq!(millis(wire(0, 1_000_000)), Ok(1));
        assert_eq!(millis(wire(1, 1_000_001)), Ok(1_002));
        assert_eq!(millis(wire(315_576_000_000, 0)), Ok(315_576_000_000_000));
        for refused in [wire(0, 0), wire(0, -1), wire(-5, 0), wire(0, 2_000_000_000)] {
            assert_eq!(millis(refused).unwrap_err().path, "expires_in");
        }
    }

    #[test]
    fn an_entry_is_named_by_its_place() {
        let mut roles = vec![String::new(); MAX_ENTRIES];
        assert_eq!(entries("by_roles", roles.clone()), Ok(roles.clone()));
        roles[3] = "x".repeat(MAX_ENTRY_BYTES + 1);
        assert_eq!(
            entries("by_roles", roles).unwrap_err().to_string(),
            "`by_roles[3]`: has 1025 bytes, at most 1024 are allowed"
        );
        assert_eq!(
            entries("by_roles", vec![String::new(); MAX_ENTRIES + 1])
                .unwrap_err()
                .to_string(),
            "`by_roles`: has 65 entries, at most 64 are allowed"
        );
    }

    #[test]
    fn an_attribute_counts_with_its_key() {
        let read = |value: usize| {
            let entry = ("key".to_owned(), "v".repeat(value));
            attributes::<Vec<_>>("a", [entry].into_iter())
        };
        assert_eq!(read(MAX_ENTRY_BYTES - 3).map(|a| a.len()), Ok(1));
        assert_eq!(
            read(MAX_ENTRY_BYTES - 2).unwrap_err().to_string(),
            "`a`: an entry, with its key, has 1025 bytes, at most 1024 are allowed"
        );
    }
}
