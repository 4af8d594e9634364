//! Session grants: giving, finding, ending and listing them.

use rusqlite::{Error, OptionalExtension as _, Row, params};

use super::StoreError;
use super::records::{SLICE_BYTES, SetAside};
use super::worker::Step;
use crate::domain::Timestamp;
use crate::store::key::{GrantKey, Group, KeyHash, Place};
use crate::store::record::{FORMAT, StoredGrant};
use crate::store::{Cursor, Giving, GrantQuery, GrantSlice};
use crate::suspension::{Grant, GrantId};

const BY_ID: (&str, &str) = ("grant_by_id", "g.id = ?1");
const LIVE: (&str, &str) = ("grant_by_key", "g.grant_key = ?1 AND g.expire_time > ?2");
const END: &str = "UPDATE session_grant SET expire_time = ?2 WHERE id = ?1 AND expire_time > ?2";
const REPLACE: &str =
    "UPDATE session_grant SET expire_time = ?2 WHERE grant_key = ?1 AND expire_time > ?2";
const END_ALL: &str = "UPDATE session_grant INDEXED BY grant_by_session SET expire_time = ?3 \
     WHERE part = ?1 AND session = ?2 AND expire_time > ?3";

/// Gives a grant in place of the one that is found by its key.
pub(super) fn give(
    step: &Step<'_>,
    partition: u8,
    giving: &Giving,
    leave: &str,
) -> Result<(), StoreError> {
    let Giving {
        grant,
        key,
        retention,
    } = giving;
    let place = Place::of(&grant.leave.scope, partition);
    step.write(REPLACE, params![key.hash().bytes(), step.now.millis()])?;
    step.write(
        "INSERT INTO session_grant (id, part, format, grant_key, tenant, session, create_time, \
         expire_time, collect, leave) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            grant.id.to_string(),
            partition,
            FORMAT,
            key.hash().bytes(),
            place.tenant.bytes(),
            place.session.as_ref().map(KeyHash::bytes),
            grant.create_time.millis(),
            grant.expire_time.millis(),
            grant.expire_time.after(*retention).millis(),
            leave,
        ],
    )
}

/// The live grant that a key finds. One that cannot be read lets nothing through: it is no grant.
pub(super) fn find(
    step: &Step<'_>,
    key: &GrantKey,
    set_aside: &SetAside,
) -> Result<Option<Grant>, StoreError> {
    let mut statement = step.db.prepare_cached(&grants(LIVE))?;
    let mut rows = statement.query(params![key.hash().bytes(), step.now.millis()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    match read_row(row) {
        Ok(grant) => Ok(Some(grant)),
        Err(error) => {
            set_aside.note(&error);
            Ok(None)
        }
    }
}

/// Reads a grant, live or over.
pub(super) fn read(step: &Step<'_>, id: GrantId) -> Result<Option<Grant>, StoreError> {
    let mut statement = step.db.prepare_cached(&grants(BY_ID))?;
    let read = |row: &Row<'_>| Ok(read_row(row));
    let found = statement.query_row([id.to_string()], read).optional()?;
    found.transpose()
}

/// Ends a grant now, unless it is over.
pub(super) fn end(step: &Step<'_>, id: GrantId) -> Result<Option<Grant>, StoreError> {
    step.write(END, params![id.to_string(), step.now.millis()])?;
    read(step, id)
}

/// Ends the grants of a session that is over.
pub(super) fn end_all(step: &Step<'_>, partition: u8, group: &Group) -> Result<(), StoreError> {
    match group {
        Group::Session { .. } => step.write(
            END_ALL,
            params![partition, group.index().bytes(), step.now.millis()],
        ),
        // A grant outlives the run in which it was given.
        Group::Run { .. } | Group::Tenant { .. } => Ok(()),
    }
}

/// Lists a stretch of the live grants of a tenant or a session.
pub(super) fn list(
    step: &Step<'_>,
    query: &GrantQuery,
    set_aside: &SetAside,
) -> Result<GrantSlice, StoreError> {
    let mut slice = GrantSlice {
        grants: Vec::new(),
        next: None,
    };
    let Some(by) = by_group(&query.group) else {
        return Ok(slice);
    };
    let now = step.now.millis();
    let (time, id) = match query.after {
        Some(cursor) if cursor.expire_time.millis() > now => {
            (cursor.expire_time.millis(), cursor.id.to_string())
        }
        // Whatever ends at this moment has ended.
        Some(_) | None => (now.saturating_add(1), String::new()),
    };
    let mut statement = step.db.prepare_cached(&grants(by))?;
    let mut rows = statement.query(params![query.group.index().bytes(), time, id])?;
    let mut last = None;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        if slice.grants.len() >= query.limit.max(1) || bytes >= SLICE_BYTES {
            slice.next = last;
            return Ok(slice);
        }
        match read_row(row) {
            Ok(grant) => {
                bytes += row.get_ref("leave")?.as_bytes().map_or(0, <[u8]>::len);
                last = Some(Cursor {
                    expire_time: grant.expire_time,
                    id: grant.id,
                });
                slice.grants.push(grant);
            }
            Err(error) => set_aside.note(&error),
        }
    }
    Ok(slice)
}

fn by_group(group: &Group) -> Option<(&'static str, &'static str)> {
    match group {
        Group::Tenant { .. } => Some((
            "grant_by_tenant",
            "g.tenant = ?1 AND (g.expire_time, g.id) > (?2, ?3) ORDER BY g.expire_time, g.id",
        )),
        Group::Session { .. } => Some((
            "grant_by_session",
            "g.session = ?1 AND (g.expire_time, g.id) > (?2, ?3) ORDER BY g.expire_time, g.id",
        )),
        Group::Run { .. } => None,
    }
}

/// A query of what [`read_row`] reads, by an index.
fn grants((index, condition): (&str, &str)) -> String {
    format!(
        "SELECT g.id, g.format, g.create_time, g.expire_time, g.leave \
         FROM session_grant g INDEXED BY {index} WHERE {condition}"
    )
}

fn read_row(row: &Row<'_>) -> Result<Grant, StoreError> {
    let id: String = row.get("id").unwrap_or_default();
    let corrupt = |cause: String| StoreError::Corrupt {
        id: id.clone(),
        cause,
    };
    let parsed = GrantId::parse(&id).ok_or_else(|| corrupt("its id is none".to_owned()))?;
    let columns = || -> Result<StoredGrant<'_>, Error> {
        Ok(StoredGrant {
            id: parsed,
            format: row.get("format")?,
            leave: row.get_ref("leave")?.as_bytes()?,
            create_time: Timestamp::from_millis(row.get("create_time")?),
            expire_time: Timestamp::from_millis(row.get("expire_time")?),
        })
    };
    let stored = columns().map_err(|error| corrupt(error.to_string()))?;
    stored.decode()
}

#[cfg(test)]
pub(super) fn statements() -> Vec<String> {
    let tenant = crate::domain::Id::default();
    let session = tenant.clone();
    let groups = [
        Group::Tenant {
            tenant: tenant.clone(),
        },
        Group::Session { tenant, session },
    ];
    let lists = groups.iter().filter_map(by_group);
    let queries = [BY_ID, LIVE].into_iter().chain(lists).map(grants);
    let changes = [END, REPLACE, END_ALL].map(str::to_owned);
    queries.chain(changes).collect()
}
