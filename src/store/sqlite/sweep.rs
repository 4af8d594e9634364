//! The sweep: what time may have changed, what may go, and what cannot be read.

use rusqlite::Error;

use super::StoreError;
use super::records::{SetAside, members, read_member};
use super::worker::Step;
use crate::store::{Due, MEMBERS_BYTES};

/// How many records, how many closings and how many grants one transaction collects.
const COLLECTED: i64 = 500;

const DUE: (&str, &str) = ("by_wake", "s.wake <= ?1 ORDER BY s.wake");
const IS_COLLECTABLE: &str = "SELECT EXISTS (SELECT 1 FROM suspension INDEXED BY by_collect WHERE collect <= ?1) \
     OR EXISTS (SELECT 1 FROM closing INDEXED BY by_until WHERE until <= ?1) \
     OR EXISTS (SELECT 1 FROM session_grant INDEXED BY grant_by_collect WHERE collect <= ?1)";
const COLLECTABLE: &str =
    "SELECT seq FROM suspension INDEXED BY by_collect WHERE collect <= ?1 LIMIT ?2";
const COLLECT_CLOSINGS: &str = "DELETE FROM closing WHERE (part, hash) IN \
     (SELECT part, hash FROM closing WHERE until <= ?1 LIMIT ?2)";
const COLLECT_GRANTS: &str = "DELETE FROM session_grant WHERE seq IN \
     (SELECT seq FROM session_grant INDEXED BY grant_by_collect WHERE collect <= ?1 LIMIT ?2)";

/// What a sweep found.
pub(super) struct Sweep {
    /// What time may have changed.
    pub(super) due: Due,
    /// What is due and cannot be read, by its `seq`.
    unreadable: Vec<i64>,
    /// Whether anything may be collected.
    is_collectable: bool,
}

impl Sweep {
    /// Whether [`tidy`] has anything to do.
    pub(super) fn is_untidy(&self) -> bool {
        self.is_collectable || !self.unreadable.is_empty()
    }
}

/// Reads the records whose time has come, soonest first.
pub(super) fn due(
    step: &Step<'_>,
    limit: usize,
    set_aside: &SetAside,
) -> Result<Sweep, StoreError> {
    let now = step.now.millis();
    let mut sweep = Sweep {
        due: Due {
            members: Vec::new(),
            now: step.now,
            more: false,
        },
        unreadable: Vec::new(),
        is_collectable: step.one(IS_COLLECTABLE, [now])?.unwrap_or(false),
    };
    let mut statement = step.db.prepare_cached(&members(DUE))?;
    let mut rows = statement.query([now])?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let taken = sweep.due.members.len() + sweep.unreadable.len();
        if taken >= limit.max(1) || bytes >= MEMBERS_BYTES {
            sweep.due.more = true;
            break;
        }
        match read_member(row) {
            Ok(member) => {
                bytes += row.get_ref("state")?.as_bytes().map_or(0, <[u8]>::len);
                sweep.due.members.push(member);
            }
            Err(error) => {
                set_aside.note(&error);
                sweep.unreadable.push(row.get("seq")?);
            }
        }
    }
    Ok(sweep)
}

/// Sets aside what a sweep could not read and collects some of what may go. Gives the sweep's records;
/// there is more when not all was collected.
pub(super) fn tidy(step: &Step<'_>, sweep: Sweep) -> Result<Due, StoreError> {
    for seq in &sweep.unreadable {
        step.write("UPDATE suspension SET wake = NULL WHERE seq = ?1", [seq])?;
    }
    let now = step.now.millis();
    let mut statement = step.db.prepare_cached(COLLECTABLE)?;
    let gone = statement
        .query_map([now, COLLECTED], |row| row.get(0))?
        .collect::<Result<Vec<i64>, Error>>()?;
    for seq in gone {
        remove(step, seq)?;
    }
    step.write(COLLECT_CLOSINGS, [now, COLLECTED])?;
    step.write(COLLECT_GRANTS, [now, COLLECTED])?;
    let is_more = step.one(IS_COLLECTABLE, [now])?.unwrap_or(false);
    Ok(Due {
        more: sweep.due.more || is_more,
        ..sweep.due
    })
}

/// Removes a record, and its key with it.
fn remove(step: &Step<'_>, seq: i64) -> Result<(), StoreError> {
    step.write("DELETE FROM suspension WHERE seq = ?1", [seq])?;
    step.write("DELETE FROM body WHERE seq = ?1", [seq])
}

#[cfg(test)]
pub(super) fn statements() -> Vec<String> {
    let fixed = [
        IS_COLLECTABLE,
        COLLECTABLE,
        COLLECT_CLOSINGS,
        COLLECT_GRANTS,
    ]
    .map(str::to_owned);
    [&fixed[..], &[members(DUE)]].concat()
}
