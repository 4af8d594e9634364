//! Ids of suspensions and grants: UUIDs whose last byte names the partition that holds the record (S10).

use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// How many partitions every store has, for ever.
pub const PARTITIONS: u8 = 64;

/// The id of a record, minted by the server; nothing in it is derived from the call. `Of` says of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecordId<Of>(Uuid, PhantomData<Of>);

/// Of a suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfSuspension {}

/// Of a session grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfGrant {}

/// The id of a suspension.
pub type SuspensionId = RecordId<OfSuspension>;

/// The id of a session grant.
pub type GrantId = RecordId<OfGrant>;

impl<Of> RecordId<Of> {
    /// Makes an id of 15 random bytes and the partition that will hold the record.
    pub fn new(random: Uuid, partition: u8) -> Self {
        let mut bytes = random.into_bytes();
        if let Some(last) = bytes.last_mut() {
            *last = partition;
        }
        Self(Uuid::from_bytes(bytes), PhantomData)
    }

    /// Reads the canonical form: 36 characters, lower-case, with hyphens. Any other spelling is no id.
    pub fn parse(text: &str) -> Option<Self> {
        let id = Self(Uuid::try_parse(text).ok()?, PhantomData);
        (id.to_string() == text).then_some(id)
    }

    /// The partition that holds the record; `None` when no store has such a one, so that the id is
    /// unknown.
    pub fn partition(&self) -> Option<u8> {
        let [.., last] = *self.0.as_bytes();
        (last < PARTITIONS).then_some(last)
    }
}

impl<Of> fmt::Display for RecordId<Of> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_spelling_is_an_id() {
        let text = "0192f0c1-0000-7000-8000-00000000000a";
        assert_eq!(SuspensionId::parse(text).unwrap().to_string(), text);
        for other in [
            "",
            "not-an-id",
            "0192F0C1-0000-7000-8000-00000000000A",
            "0192f0c1000070008000000000000001",
            "{0192f0c1-0000-7000-8000-000000000001}",
            "urn:uuid:0192f0c1-0000-7000-8000-000000000001",
            " 0192f0c1-0000-7000-8000-000000000001",
        ] {
            assert_eq!(SuspensionId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_last_byte_is_the_partition_and_past_63_there_is_none() {
        let id = SuspensionId::new(Uuid::from_u128(u128::MAX), 63);
        assert_eq!(id.partition(), Some(63));
        assert_eq!(SuspensionId::new(Uuid::nil(), 64).partition(), None);
    }
}
