//! Groups: the members, the lists and the counts of a tenant, a session or a run.

use rusqlite::params;

use super::StoreError;
use super::records::{self, SLICE_BYTES, SetAside, json_bytes, read_member, read_row, records};
use super::worker::Step;
use crate::domain::Timestamp;
use crate::store::key::{Group, KeyHash, Place};
use crate::store::{Cursor, MEMBERS, MEMBERS_BYTES, Members, Query, Slice};

/// Reads the open records of a group in one partition.
pub(super) fn members(
    step: &Step<'_>,
    partition: u8,
    group: &Group,
    set_aside: &SetAside,
) -> Result<Members, StoreError> {
    let filter = Filter::of(group);
    let mut statement = step.db.prepare_cached(&filter.members())?;
    let mut rows = statement.query(params![filter.hash.bytes(), filter.own_run(), partition])?;
    let mut members = Members {
        members: Vec::new(),
        more: false,
        open: 0,
        latest: None,
        now: step.now,
    };
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        if members.members.len() >= MEMBERS || bytes >= MEMBERS_BYTES {
            members.more = true;
            members.open = count_members(step, partition, group)?;
            members.latest = latest(step, partition, &filter)?;
            break;
        }
        members.open += 1;
        let deadline = Timestamp::from_millis(row.get("expire_time")?);
        members.latest = members.latest.max(Some(deadline));
        match read_member(row) {
            Ok(member) => {
                bytes += row.get_ref("state")?.as_bytes().map_or(0, <[u8]>::len);
                members.members.push(member);
            }
            Err(error) => set_aside.note(&error),
        }
    }
    Ok(members)
}

/// Lists a stretch of a group.
pub(super) fn list(
    step: &Step<'_>,
    query: &Query,
    set_aside: &SetAside,
) -> Result<Slice, StoreError> {
    let filter = Filter::of(&query.group);
    let mut statement = step.db.prepare_cached(&filter.list(query.open_only))?;
    let (time, id) = match query.after {
        Some(cursor) => (cursor.expire_time.millis(), cursor.id.to_string()),
        None => (i64::MIN, String::new()),
    };
    let mut rows = statement.query(params![filter.hash.bytes(), filter.own_run(), time, id])?;
    let mut suspensions = Vec::new();
    let mut last = None;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        if suspensions.len() >= query.limit.max(1) || bytes >= SLICE_BYTES {
            let next = last;
            return Ok(Slice { suspensions, next });
        }
        match read_row(row) {
            Ok(suspension) => {
                bytes += json_bytes(row)?;
                last = Some(Cursor {
                    expire_time: suspension.expire_time,
                    id: suspension.id,
                });
                suspensions.push(suspension);
            }
            Err(error) => set_aside.note(&error),
        }
    }
    Ok(Slice {
        suspensions,
        next: None,
    })
}

/// Counts the open records of a group over all partitions.
pub(super) fn count_open(step: &Step<'_>, group: &Group) -> Result<u64, StoreError> {
    count(step, &Filter::of(group), None)
}

fn count(step: &Step<'_>, filter: &Filter, partition: Option<u8>) -> Result<u64, StoreError> {
    let sql = filter.count(partition.is_some());
    let (hash, own_run) = (filter.hash.bytes(), filter.own_run());
    let count: Option<i64> = match partition {
        Some(partition) => step.one(&sql, params![hash, own_run, partition])?,
        None => step.one(&sql, params![hash, own_run])?,
    };
    Ok(count
        .and_then(|count| u64::try_from(count).ok())
        .unwrap_or_default())
}

/// How many open records an opening in a place is limited by; `None` where nothing limits it.
pub(super) fn count_limited(step: &Step<'_>, place: &Place) -> Result<Option<u64>, StoreError> {
    let (column, hash) = match (place.session, place.run) {
        (Some(session), _) => ("session", session),
        (None, Some(run)) => ("run", run),
        (None, None) => return Ok(None),
    };
    let filter = Filter {
        column,
        hash,
        own_run: None,
    };
    count(step, &filter, Some(place.partition)).map(Some)
}

/// The latest deadline of the open records of a group in one partition.
fn latest(
    step: &Step<'_>,
    partition: u8,
    filter: &Filter,
) -> Result<Option<Timestamp>, StoreError> {
    let params = params![filter.hash.bytes(), filter.own_run(), partition];
    let latest: Option<Option<i64>> = step.one(&filter.latest(), params)?;
    Ok(latest.flatten().map(Timestamp::from_millis))
}

/// Counts the open records of a group in one partition.
pub(super) fn count_members(
    step: &Step<'_>,
    partition: u8,
    group: &Group,
) -> Result<u64, StoreError> {
    count(step, &Filter::of(group), Some(partition))
}

/// Which records a group has: a column that holds `?1`, and for a run of one session `?2` too.
struct Filter {
    column: &'static str,
    hash: KeyHash,
    own_run: Option<KeyHash>,
}

impl Filter {
    fn of(group: &Group) -> Self {
        let column = match group {
            Group::Tenant { .. } => "tenant",
            Group::Session { .. } => "session",
            Group::Run { .. } => "run",
        };
        Self {
            column,
            hash: group.index(),
            own_run: group.own_run(),
        }
    }

    fn own_run(&self) -> Option<&[u8; 16]> {
        self.own_run.as_ref().map(KeyHash::bytes)
    }

    /// The records of the group from a place in its list on.
    fn list(&self, open_only: bool) -> String {
        let index = self.index(open_only);
        let condition = self.condition(open_only);
        let order = "(s.expire_time, s.id) > (?3, ?4) ORDER BY s.expire_time, s.id";
        records((&index, &format!("{condition} AND {order}")))
    }

    /// The open records of the group in one partition.
    fn members(&self) -> String {
        let condition = self.condition(true);
        records::members((&self.index(true), &format!("{condition} AND s.part = ?3")))
    }

    /// How many are open, in one partition or in all.
    fn count(&self, in_partition: bool) -> String {
        let (index, condition) = (self.index(true), self.condition(true));
        let part = if in_partition { " AND s.part = ?3" } else { "" };
        format!("SELECT count(*) FROM suspension s INDEXED BY {index} WHERE {condition}{part}")
    }

    /// The latest deadline of the open ones in one partition.
    fn latest(&self) -> String {
        let (index, condition) = (self.index(true), self.condition(true));
        format!(
            "SELECT max(s.expire_time) FROM suspension s INDEXED BY {index} \
             WHERE {condition} AND s.part = ?3"
        )
    }

    fn index(&self, open_only: bool) -> String {
        let prefix = if open_only { "open_by" } else { "by" };
        format!("{prefix}_{}", self.column)
    }

    /// The condition has both parameters whatever the group.
    fn condition(&self, open_only: bool) -> String {
        let own_run = if self.column == "run" {
            "(?2 IS NULL OR s.own_run = ?2)"
        } else {
            "?2 IS NULL"
        };
        let open = if open_only { " AND s.open = 1" } else { "" };
        format!("s.{} = ?1 AND {own_run}{open}", self.column)
    }
}

#[cfg(test)]
pub(super) fn statements() -> Vec<String> {
    let of = |column| {
        let filter = Filter {
            column,
            hash: Group::Tenant {
                tenant: crate::domain::Id::default(),
            }
            .index(),
            own_run: None,
        };
        [
            filter.list(false),
            filter.list(true),
            filter.members(),
            filter.latest(),
            filter.count(true),
            filter.count(false),
        ]
    };
    ["tenant", "session", "run"].map(of).concat()
}
