//! Reading records: rows, one record by id or by key, and what all statements share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::types::FromSql;
use rusqlite::{Error, OptionalExtension as _, Params, Row, params};

use super::StoreError;
use super::grants;
use super::worker::Step;
use crate::domain::Timestamp;
use crate::store::key::{CallKey, GrantKey, KeyHash, Place};
use crate::store::record::{Stored, StoredMember};
use crate::store::{Found, Member};
use crate::suspension::{Suspension, SuspensionId};

/// A list or a sweep takes about this much JSON into memory, however many records it may have.
pub(super) const SLICE_BYTES: usize = 4 * 1024 * 1024;

const BY_ID: (&str, &str) = ("by_id", "s.id = ?1");
const BY_KEY: (&str, &str) = ("by_key", "s.call_key = ?1");
const IS_CLOSED: &str = "SELECT 1 FROM closing WHERE part = ?1 AND hash = ?2 AND until > ?3";

/// Reads one record.
pub(super) fn read(step: &Step<'_>, id: SuspensionId) -> Result<Option<Suspension>, StoreError> {
    read_one(step, BY_ID, params![id.to_string()])
}

/// Reads what a key was used for, whether its place is closed, and what grant there is.
pub(super) fn find(
    step: &Step<'_>,
    place: &Place,
    key: Option<&CallKey>,
    grant: Option<&GrantKey>,
    set_aside: &SetAside,
) -> Result<Found, StoreError> {
    Ok(Found {
        suspension: match key {
            Some(key) => find_by_key(step, key)?,
            None => None,
        },
        closed: is_closed(step, place.partition, &place.closings)?,
        grant: match grant {
            Some(key) => grants::find(step, key, set_aside)?,
            None => None,
        },
        now: step.now,
    })
}

/// Reads what a key was used for.
pub(super) fn find_by_key(
    step: &Step<'_>,
    key: &CallKey,
) -> Result<Option<Suspension>, StoreError> {
    read_one(step, BY_KEY, params![key.hash().bytes()])
}

fn read_one(
    step: &Step<'_>,
    by: (&str, &str),
    params: impl Params,
) -> Result<Option<Suspension>, StoreError> {
    let mut statement = step.db.prepare_cached(&records(by))?;
    let mut rows = statement.query(params)?;
    match rows.next()? {
        Some(row) => read_row(row).map(Some),
        None => Ok(None),
    }
}

/// Whether one of these ends is remembered.
pub(super) fn is_closed(
    step: &Step<'_>,
    partition: u8,
    closings: &[KeyHash],
) -> Result<bool, StoreError> {
    for hash in closings {
        let params = params![partition, hash.bytes(), step.now.millis()];
        if step.one::<i64>(IS_CLOSED, params)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the database answers.
pub(super) fn check(step: &Step<'_>) -> Result<(), StoreError> {
    step.one::<i64>("SELECT value FROM meta WHERE name = 'format'", [])?;
    Ok(())
}

/// A query of what [`read_row`] reads, by an index. Left to itself the planner can take an index of all
/// records where one of the open ones would do.
pub(super) fn records((index, condition): (&str, &str)) -> String {
    format!(
        "SELECT s.id, s.format, s.version, s.create_time, s.expire_time, s.state, b.json, s.seq \
         FROM suspension s INDEXED BY {index} LEFT JOIN body b ON b.seq = s.seq WHERE {condition}"
    )
}

/// A query of what [`read_member`] reads, by an index.
pub(super) fn members((index, condition): (&str, &str)) -> String {
    format!(
        "SELECT s.id, s.format, s.version, s.expire_time, s.on_expiry, s.own_run, s.state, s.seq \
         FROM suspension s INDEXED BY {index} WHERE {condition}"
    )
}

/// How much JSON a row of [`records`] holds.
pub(super) fn json_bytes(row: &Row<'_>) -> Result<usize, Error> {
    let length = |column| -> Result<usize, Error> {
        Ok(row.get_ref(column)?.as_bytes().map_or(0, <[u8]>::len))
    };
    Ok(length("state")? + length("json")?)
}

/// Reads a row of [`records`].
pub(super) fn read_row(row: &Row<'_>) -> Result<Suspension, StoreError> {
    let stored = |id| -> Result<Stored<'_>, Error> {
        let version: i64 = row.get("version")?;
        Ok(Stored {
            id,
            format: row.get("format")?,
            body: row.get_ref("json")?.as_bytes()?,
            state: row.get_ref("state")?.as_bytes()?,
            create_time: Timestamp::from_millis(row.get("create_time")?),
            expire_time: Timestamp::from_millis(row.get("expire_time")?),
            version: version.unsigned_abs(),
        })
    };
    columns(row, stored)?.decode()
}

/// Reads a row of [`members`].
pub(super) fn read_member(row: &Row<'_>) -> Result<Member, StoreError> {
    let stored = |id| -> Result<StoredMember<'_>, Error> {
        let version: i64 = row.get("version")?;
        let run: Option<[u8; 16]> = row.get("own_run")?;
        Ok(StoredMember {
            id,
            format: row.get("format")?,
            state: row.get_ref("state")?.as_bytes()?,
            expire_time: Timestamp::from_millis(row.get("expire_time")?),
            on_expiry: row.get_ref("on_expiry")?.as_bytes_or_null()?.unwrap_or(b""),
            run: run.map(KeyHash::from),
            version: version.unsigned_abs(),
        })
    };
    columns(row, stored)?.decode()
}

fn columns<T>(
    row: &Row<'_>,
    read: impl FnOnce(SuspensionId) -> Result<T, Error>,
) -> Result<T, StoreError> {
    let id: String = row.get("id").unwrap_or_default();
    let corrupt = |cause: String| StoreError::Corrupt {
        id: id.clone(),
        cause,
    };
    let parsed = SuspensionId::parse(&id).ok_or_else(|| corrupt("its id is none".to_owned()))?;
    read(parsed).map_err(|error| corrupt(error.to_string()))
}

/// Counts and logs the records that cannot be read.
#[derive(Clone, Debug, Default)]
pub(super) struct SetAside(Arc<AtomicU64>);

impl SetAside {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn note(&self, error: &StoreError) {
        self.0.fetch_add(1, Ordering::Relaxed);
        tracing::error!(%error, "a record was set aside");
    }
}

impl Step<'_> {
    /// Runs a statement that gives nothing.
    pub(super) fn write(&self, sql: &str, params: impl Params) -> Result<(), StoreError> {
        self.db.prepare_cached(sql)?.execute(params)?;
        Ok(())
    }

    /// Reads the first column of the first row.
    pub(super) fn one<T: FromSql>(
        &self,
        sql: &str,
        params: impl Params,
    ) -> Result<Option<T>, StoreError> {
        let mut statement = self.db.prepare_cached(sql)?;
        Ok(statement.query_row(params, |row| row.get(0)).optional()?)
    }
}

#[cfg(test)]
pub(super) fn statements() -> Vec<String> {
    vec![records(BY_ID), records(BY_KEY), IS_CLOSED.to_owned()]
}
