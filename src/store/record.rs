//! How a record is spelled at rest, the same in both homes: two JSON texts and a format number.

use serde::de::DeserializeOwned;

use super::StoreError;
use crate::domain::Timestamp;
use crate::suspension::{Body, State, Suspension, SuspensionId};

/// The format this version writes. A record of a newer one is refused, not guessed at.
pub const FORMAT: u32 = 1;

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
        if self.format != FORMAT {
            return Err(self.corrupt(format!(
                "its format is {}, this version reads {FORMAT}",
                self.format
            )));
        }
        Ok(Suspension {
            id: self.id,
            body: self.parse(self.body)?,
            create_time: self.create_time,
            expire_time: self.expire_time,
            state: self.parse(self.state)?,
            version: self.version,
        })
    }

    fn parse<T: DeserializeOwned>(&self, json: &[u8]) -> Result<T, StoreError> {
        serde_json::from_slice(json).map_err(|error| self.corrupt(error.to_string()))
    }

    fn corrupt(&self, cause: String) -> StoreError {
        StoreError::Corrupt {
            id: self.id.to_string(),
            cause,
        }
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

fn encode<T: serde::Serialize>(id: SuspensionId, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt {
        id: id.to_string(),
        cause: error.to_string(),
    })
}
