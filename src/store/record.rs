//! How a record is spelled at rest, the same in both homes: two JSON texts and a format number.

use serde::de::DeserializeOwned;

use super::{KeyHash, Member, StoreError};
use crate::domain::{OnExpiry, Timestamp};
use crate::suspension::{Body, Grant, GrantId, Leave, RecordId, State, Suspension, SuspensionId};

/// The format that this version writes, and the newest that it reads. A record of a newer one is left to the
/// release that wrote it, which may share this store.
pub const FORMAT: u32 = 1;

/// The most bytes of a whole suspension as it is stored (S9).
pub const MAX_BYTES: usize = 2 * 1024 * 1024;

/// What is kept free of them for what must always fit: every claim there may be, and how it ends.
const RESERVED: usize = 384 * 1024;

/// The columns or fields of a record as a store holds them.
#[derive(Clone, Debug)]
pub struct Stored<'a> {
    /// Its id.
    pub id: SuspensionId,
    /// The format it was written in.
    pub format: u32,
    /// The body's JSON.
    pub body: &'a [u8],
    /// The state's JSON.
    pub state: &'a [u8],
    /// When it was opened.
    pub create_time: Timestamp,
    /// Its deadline.
    pub expire_time: Timestamp,
    /// Its version.
    pub version: u64,
}

impl Stored<'_> {
    /// Reads the record.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when it is not what this version wrote, or in a newer format.
    pub fn decode(&self) -> Result<Suspension, StoreError> {
        check_format(self.id, self.format)?;
        Ok(Suspension {
            id: self.id,
            body: parse(self.id, self.body)?,
            create_time: self.create_time,
            expire_time: self.expire_time,
            state: parse(self.id, self.state)?,
            version: self.version,
        })
    }
}

/// What a store holds of a record beside its body.
#[derive(Clone, Debug)]
pub struct StoredMember<'a> {
    /// Its id.
    pub id: SuspensionId,
    /// The format it was written in.
    pub format: u32,
    /// The state's JSON.
    pub state: &'a [u8],
    /// Its deadline.
    pub expire_time: Timestamp,
    /// What [`on_expiry_word`] made of it.
    pub on_expiry: &'a [u8],
    /// Its run.
    pub run: Option<KeyHash>,
    /// Its version.
    pub version: u64,
}

impl StoredMember<'_> {
    /// Reads the record without its body.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when it is not what this version wrote, or in a newer format.
    pub fn decode(&self) -> Result<Member, StoreError> {
        check_format(self.id, self.format)?;
        let on_expiry = [OnExpiry::Abandon, OnExpiry::Deny]
            .into_iter()
            .find(|on_expiry| on_expiry_word(*on_expiry).as_bytes() == self.on_expiry)
            .ok_or_else(|| corrupt(self.id, "its `on_expiry` is missing or garbled"))?;
        Ok(Member {
            id: self.id,
            expire_time: self.expire_time,
            on_expiry,
            run: self.run,
            state: parse(self.id, self.state)?,
            version: self.version,
        })
    }
}

/// What a store holds of a grant.
#[derive(Clone, Debug)]
pub struct StoredGrant<'a> {
    /// Its id.
    pub id: GrantId,
    /// The format it was written in.
    pub format: u32,
    /// The leave's JSON.
    pub leave: &'a [u8],
    /// When it was given.
    pub create_time: Timestamp,
    /// When it ends.
    pub expire_time: Timestamp,
}

impl StoredGrant<'_> {
    /// Reads the grant.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when it is not what this version wrote, or in a newer format.
    pub fn decode(&self) -> Result<Grant, StoreError> {
        check_format(self.id, self.format)?;
        Ok(Grant {
            id: self.id,
            leave: parse(self.id, self.leave)?,
            create_time: self.create_time,
            expire_time: self.expire_time,
        })
    }
}

/// Spells the leave of a grant.
///
/// # Errors
/// [`StoreError::Corrupt`] when it cannot be spelled, which every valid leave can.
pub fn encode_leave(id: GrantId, leave: &Leave) -> Result<String, StoreError> {
    encode(id, leave)
}

/// How what happens at the deadline is spelled beside the body, which is not read then.
pub fn on_expiry_word(on_expiry: OnExpiry) -> &'static str {
    match on_expiry {
        OnExpiry::Abandon => "abandon",
        OnExpiry::Deny => "deny",
    }
}

fn check_format<Of>(id: RecordId<Of>, format: u32) -> Result<(), StoreError> {
    if (1..=FORMAT).contains(&format) {
        return Ok(());
    }
    let cause = format!("its format is {format}, this version reads up to {FORMAT}");
    Err(corrupt(id, cause))
}

fn parse<T: DeserializeOwned, Of>(id: RecordId<Of>, json: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(json).map_err(|error| corrupt(id, error.to_string()))
}

fn corrupt<Of>(id: RecordId<Of>, cause: impl Into<String>) -> StoreError {
    StoreError::Corrupt {
        id: id.to_string(),
        cause: cause.into(),
    }
}

/// A suspension that would be larger than it may be, by so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the whole suspension would be {0} bytes too large: shorten it")]
pub struct TooLarge(usize);

/// Checks what callers' texts make of a record: before it is opened, and before an answer is written. What
/// comes after (claims, completion, cancellation, expiry) has room kept for it and is never refused.
///
/// # Errors
/// [`TooLarge`] when the texts leave less than that room.
pub fn check_size(body: &Body, state: &State) -> Result<(), TooLarge> {
    match bytes(body, state).checked_sub(MAX_BYTES - RESERVED) {
        None | Some(0) => Ok(()),
        Some(excess) => Err(TooLarge(excess)),
    }
}

/// How many bytes a record takes.
pub fn bytes(body: &Body, state: &State) -> usize {
    size_of(body).saturating_add(size_of(state))
}

/// How many bytes a value takes as JSON; too many, where it cannot be spelled.
fn size_of<T: serde::Serialize>(value: &T) -> usize {
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

/// Counts what is written.
struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Spells a body.
///
/// # Errors
/// [`StoreError::Corrupt`] when it cannot be spelled, which no valid body does.
pub fn encode_body(id: SuspensionId, body: &Body) -> Result<String, StoreError> {
    encode(id, body)
}

/// Spells a state.
///
/// # Errors
/// [`StoreError::Corrupt`] when it cannot be spelled, which no valid state does.
pub fn encode_state(id: SuspensionId, state: &State) -> Result<String, StoreError> {
    encode(id, state)
}

fn encode<T: serde::Serialize, Of>(id: RecordId<Of>, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| corrupt(id, error.to_string()))
}

#[cfg(test)]
mod tests;
