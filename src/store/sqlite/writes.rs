//! Writing: openings and commits.

use rusqlite::{OptionalExtension as _, Row, params};
use uuid::Uuid;

use super::StoreError;
use super::grants;
use super::groups::{count_limited, count_members};
use super::records::{SetAside, find_by_key, is_closed, read};
use super::worker::Step;
use crate::domain::Timestamp;
use crate::store::key::KeyHash;
use crate::store::record::{FORMAT, on_expiry_word};
use crate::store::{Closing, Commit, Committed, Opened, Opening};
use crate::suspension::{State, Suspension, SuspensionId, Upkeep};

const HELD: &str =
    "SELECT seq, version, operation FROM suspension INDEXED BY by_id WHERE id = ?1 AND part = ?2";

/// Opens a suspension, or says why not.
pub(super) fn open(
    step: &mut Step<'_>,
    opening: &Opening,
    body: &str,
    state: (State, &str),
    set_aside: &SetAside,
) -> Result<Opened, StoreError> {
    if let Some(key) = &opening.key
        && let Some(found) = find_by_key(step, key)?
    {
        return Ok(if found.id == opening.id {
            Opened::Created(found)
        } else {
            Opened::Existing(found, step.now)
        });
    }
    if let Some(found) = read(step, opening.id)? {
        // The same write once more, without a key to know it by.
        return Ok(Opened::Created(found));
    }
    let place = &opening.place;
    if is_closed(step, place.partition, &place.closings)? {
        return Ok(Opened::Closed);
    }
    if let Some(key) = &opening.grant
        && let Some(grant) = grants::find(step, key, set_aside)?
    {
        return Ok(Opened::Granted(grant));
    }
    if count_limited(step, place)?.is_some_and(|open| open >= opening.limit) {
        return Ok(Opened::Full);
    }
    insert(step, opening, body, state).map(Opened::Created)
}

fn insert(
    step: &mut Step<'_>,
    opening: &Opening,
    body: &str,
    (state, state_json): (State, &str),
) -> Result<Suspension, StoreError> {
    let place = &opening.place;
    let expire_time = step.now.after(opening.expires);
    step.write(
        "INSERT INTO suspension (id, part, format, version, call_key, tenant, session, run, own_run, \
         create_time, expire_time, on_expiry, open, wake, state) \
         VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 1, ?10, ?12)",
        params![
            opening.id.to_string(),
            place.partition,
            FORMAT,
            opening.key.map(|key| *key.hash().bytes()),
            place.tenant.bytes(),
            place.session.as_ref().map(KeyHash::bytes),
            place.run.as_ref().map(KeyHash::bytes),
            place.own_run.as_ref().map(KeyHash::bytes),
            step.now.millis(),
            expire_time.millis(),
            on_expiry_word(opening.body.on_expiry),
            state_json,
        ],
    )?;
    step.write(
        "INSERT INTO body (seq, json) VALUES (?1, ?2)",
        params![step.db.last_insert_rowid(), body],
    )?;
    step.changed.push(opening.id);
    Ok(Suspension {
        id: opening.id,
        body: opening.body.clone(),
        create_time: step.now,
        expire_time,
        state,
        version: 1,
    })
}

/// Writes changes, all or none; `states` are those of the changes, in their order, and `leave` is that of
/// the grant that is given with them.
pub(super) fn commit(
    step: &mut Step<'_>,
    commit: &Commit,
    states: &[String],
    leave: Option<&str>,
) -> Result<Committed, StoreError> {
    let mut held = Vec::with_capacity(commit.changes.len());
    let mut is_stale = false;
    for change in &commit.changes {
        let Some(record) = read_held(step, change.id, commit.partition)? else {
            is_stale = true;
            continue;
        };
        if record.operation == Some(commit.operation) {
            // All of it was written together, whatever happened to the other records since.
            return Ok(Committed::Done);
        }
        is_stale |= record.version != i64::try_from(change.version).ok();
        held.push(record.seq);
    }
    if is_stale || commit.not_after.is_some_and(|time| step.now >= time) {
        return Ok(Committed::Stale);
    }
    if is_closed(step, commit.partition, &commit.unless_closed)? {
        return Ok(Committed::Closed);
    }
    if let Some(closing) = &commit.closing {
        if let Some(expected) = closing.open
            && count_members(step, commit.partition, &closing.group)? != expected
        {
            return Ok(Committed::Stale);
        }
        close(step, commit.partition, closing)?;
        grants::end_all(step, commit.partition, &closing.group)?;
    }
    if let (Some(giving), Some(leave)) = (&commit.giving, leave) {
        grants::give(step, commit.partition, giving, leave)?;
    }
    for ((change, seq), state) in commit.changes.iter().zip(held).zip(states) {
        let (wake, collect) = appointments(&change.upkeep);
        step.write(
            "UPDATE suspension SET version = version + 1, operation = ?2, state = ?3, open = ?4, \
             wake = ?5, collect = ?6 WHERE seq = ?1",
            params![
                seq,
                commit.operation.as_bytes(),
                state,
                change.upkeep.open,
                wake,
                collect,
            ],
        )?;
        step.changed.push(change.id);
    }
    Ok(Committed::Done)
}

/// When time will change a record and when it may go: only what time can no longer change may go, so
/// it is one or the other.
fn appointments(upkeep: &Upkeep) -> (Option<i64>, Option<i64>) {
    let wake = upkeep.wake.map(Timestamp::millis);
    if upkeep.wake == upkeep.keep_until {
        (None, wake)
    } else {
        (wake, None)
    }
}

struct HeldRecord {
    seq: i64,
    version: Option<i64>,
    operation: Option<Uuid>,
}

fn read_held(
    step: &Step<'_>,
    id: SuspensionId,
    partition: u8,
) -> Result<Option<HeldRecord>, StoreError> {
    let mut statement = step.db.prepare_cached(HELD)?;
    let read = |row: &Row<'_>| {
        let operation: Option<[u8; 16]> = row.get("operation")?;
        Ok(HeldRecord {
            seq: row.get("seq")?,
            version: row.get("version")?,
            operation: operation.map(Uuid::from_bytes),
        })
    };
    let held = statement.query_row(params![id.to_string(), partition], read);
    Ok(held.optional()?)
}

fn close(step: &Step<'_>, partition: u8, closing: &Closing) -> Result<(), StoreError> {
    let hash = closing.group.closing();
    let until = step.now.after(closing.retention).millis();
    step.write(
        "INSERT INTO closing (part, hash, until) VALUES (?1, ?2, ?3) \
         ON CONFLICT DO UPDATE SET until = max(until, excluded.until)",
        params![partition, hash.bytes(), until],
    )
}

#[cfg(test)]
pub(super) fn statements() -> Vec<String> {
    vec![HELD.to_owned()]
}
