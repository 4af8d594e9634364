//! What the keys are called, and in which of the 16384 slots of a cluster each partition lies.
//!
//! Every key but `meta` is `<prefix>:{<tag>}:<what>`, and the tag alone says where it lies. In a partition:
//!
//! | key | what it is |
//! |---|---|
//! | `due` | sorted set: ids by the moment when something is to be done |
//! | `r:<id>` | hash: a record |
//! | `k:<call key>` | string: the id that was opened for a call |
//! | `o:<group>`, `c:<group>` | sorted sets: the open and the other ids of a tenant, session or run, by deadline |
//! | `x:<group>` | string: until when the end of a run or session is remembered |
//! | `g:<id>` | hash: a session grant |
//! | `a:<grant key>` | string: the id of the grant that is live for some calls |
//! | `l:<group>` | sorted set: the ids of the live grants of a tenant or session, by their end |
//!
//! A record's fields: `format`, `body`, `state`, `version`, `created`, `deadline`; `operation`, the commit that
//! wrote it last; `open`; `then`, what to do when it is due (`settle` or `collect`); `indexes`, the groups it is
//! in; `key`, its call key; `run`, its run by a name that no other session's run has; and `on_expiry`, which
//! repeats what the body says, so that the end of a run reads no body.
//!
//! A grant's fields: `format`, `leave`, `created`, `expires`; `key`, what finds it; and `indexes`, the groups it is
//! in. It is kept for the retention after its end, so that an end can be repeated. `a` goes with its end, and `l`
//! some time after the last of its grants; what ended before is taken out with each grant that is given.
//!
//! Ids are in their canonical form, whose order is that of their bytes. Hashes are 32 digits.

use super::failure::unusable;
use crate::store::StoreError;
use crate::store::key::KeyHash;
use crate::suspension::{GrantId, PARTITIONS, SuspensionId};

/// The number of this layout; another one in `meta` is refused.
pub(super) const LAYOUT: u32 = 1;

/// The longest prefix; every key carries it.
const MAX_PREFIX_BYTES: usize = 64;

/// Each puts its partition's hash tag, `<partition>-<suffix>`, into the middle of its own 256 slots.
const SUFFIXES: [u32; PARTITIONS as usize] = [
    3273, 3726, 68207, 9369, 28373, 4619, 44876, 68244, 2113, 2446, 8570, 8025, 9430, 9165, 15786,
    22310, 28481, 6949, 11663, 10544, 6497, 9855, 27904, 48769, 1165, 1430, 141_073, 46957, 2085,
    29333, 1703, 1256, 592, 9389, 5846, 15108, 4906, 66831, 9031, 9564, 18688, 44826, 1016, 1543,
    9214, 9741, 6129, 15913, 8402, 8157, 38588, 1834, 16138, 40173, 22848, 48157, 8044, 8511, 5973,
    16972, 7158, 11099, 8265, 8730,
];

/// The names of all keys of one prefix.
#[derive(Debug)]
pub(super) struct Layout {
    prefix: String,
    partitions: Vec<Partition>,
}

/// The names of one partition's keys.
#[derive(Debug)]
pub(super) struct Partition {
    number: u8,
    base: String,
}

impl Layout {
    /// The layout under a prefix.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] when the prefix would move the hash tags, or could not be read by people.
    pub(super) fn new(prefix: &str) -> Result<Self, StoreError> {
        let fits = |c: char| c.is_ascii_graphic() && c != '{' && c != '}';
        if prefix.is_empty() || prefix.len() > MAX_PREFIX_BYTES || !prefix.chars().all(fits) {
            return Err(unusable(format!(
                "the Redis key prefix `{}` must be 1 to {MAX_PREFIX_BYTES} visible ASCII characters without braces",
                prefix.escape_default()
            )));
        }
        let partitions = (0..PARTITIONS)
            .zip(SUFFIXES)
            .map(|(number, suffix)| Partition {
                number,
                base: format!("{prefix}:{{{number}-{suffix}}}:"),
            })
            .collect();
        Ok(Self {
            prefix: prefix.to_owned(),
            partitions,
        })
    }

    /// The key that says how the others are laid out.
    pub(super) fn meta(&self) -> String {
        format!("{}:meta", self.prefix)
    }

    /// The channel on which each write names the records it changed.
    pub(super) fn channel(&self) -> String {
        format!("{}:changes", self.prefix)
    }

    /// All partitions, in order.
    pub(super) fn all(&self) -> &[Partition] {
        &self.partitions
    }

    /// One partition; `None` past the last.
    pub(super) fn partition(&self, number: u8) -> Option<&Partition> {
        self.partitions.get(usize::from(number))
    }
}

impl Partition {
    /// Which one it is.
    pub(super) fn number(&self) -> u8 {
        self.number
    }

    /// When which record has to be looked at.
    pub(super) fn due(&self) -> String {
        self.key("due", "")
    }

    /// A record.
    pub(super) fn record(&self, id: SuspensionId) -> String {
        self.key("r:", id)
    }

    /// What was opened for a call.
    pub(super) fn call(&self, key: KeyHash) -> String {
        self.key("k:", key)
    }

    /// A group's open records.
    pub(super) fn open(&self, index: KeyHash) -> String {
        self.key("o:", index)
    }

    /// A group's other records.
    pub(super) fn closed(&self, index: KeyHash) -> String {
        self.key("c:", index)
    }

    /// The end of a run or a session.
    pub(super) fn closing(&self, closing: KeyHash) -> String {
        self.key("x:", closing)
    }

    /// A session grant.
    pub(super) fn grant(&self, id: GrantId) -> String {
        self.key("g:", id)
    }

    /// Which grant is live for some calls.
    pub(super) fn grant_of(&self, key: KeyHash) -> String {
        self.key("a:", key)
    }

    /// A group's live grants.
    pub(super) fn grants(&self, index: KeyHash) -> String {
        self.key("l:", index)
    }

    fn key(&self, what: &str, name: impl std::fmt::Display) -> String {
        format!("{}{what}{name}", self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slot of a key, as the cluster specification has it: CRC16 (XMODEM) of the tag, modulo 16384.
    fn slot(key: &str) -> u16 {
        let tag = key
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'))
            .unwrap()
            .0;
        let crc = tag.bytes().fold(0_u16, |crc, byte| {
            (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
                if crc & 0x8000 == 0 {
                    crc << 1
                } else {
                    crc << 1 ^ 0x1021
                }
            })
        });
        crc % 16384
    }

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(slot("{123456789}"), 0x31c3);
    }

    #[test]
    fn the_partitions_lie_evenly_over_the_slots() {
        let layout = Layout::new("assent").unwrap();
        let slots: Vec<u16> = layout
            .all()
            .iter()
            .map(|partition| slot(&partition.due()))
            .collect();
        let even: Vec<u16> = (0..64).map(|number| 256 * number + 128).collect();
        assert_eq!(slots, even);
    }

    #[test]
    fn a_prefix_cannot_move_the_hash_tags() {
        for prefix in ["", "a{b", "a}", "a b", "a\n", "\u{e9}", &"a".repeat(65)] {
            assert!(Layout::new(prefix).is_err(), "{prefix}");
        }
        assert!(Layout::new("team-1:assent").is_ok());
    }
}
