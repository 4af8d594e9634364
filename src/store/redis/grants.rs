//! Session grants: giving one is part of a commit and finding one part of an opening; here are ending and listing them.

use redis::Value;
use uuid::Uuid;

use super::RedisStore;
use super::failure::{corrupt, unexpected};
use super::layout::Partition;
use super::row::{self, text};
use super::script::{Call, END_GRANT, READ_GRANT};
use super::write::moment;
use crate::domain::Timestamp;
use crate::store::key::Place;
use crate::store::record::{FORMAT, StoredGrant, encode_leave};
use crate::store::{Giving, GrantQuery, GrantSlice, StoreError};
use crate::suspension::{Grant, GrantId};

/// How many grants are read in one round trip.
const BATCH: usize = 64;
/// A slice ends early once it holds so many grants.
const MOST: usize = 1000;

impl RedisStore {
    /// Adds to a commit the grant that is given with it: its keys, and the arguments that its script expects.
    pub(super) fn with_giving<'a>(
        call: Call<'a>,
        partition: &Partition,
        giving: Option<&Giving>,
    ) -> Result<Call<'a>, StoreError> {
        let Some(Giving {
            grant,
            key,
            retention,
        }) = giving
        else {
            return Ok(call.arg(""));
        };
        let place = Place::of(&grant.leave.scope, partition.number());
        let session = place
            .session
            .ok_or_else(|| unexpected("a grant without a session"))?;
        let kept = grant.expire_time.after(*retention);
        Ok(call
            .key(partition.grant_of(key.hash()))
            .key(partition.grants(place.tenant))
            .key(partition.grants(session))
            .number(grant.id)
            .number(FORMAT)
            .arg(encode_leave(grant.id, &grant.leave)?)
            .number(grant.create_time.millis())
            .arg(moment(Some(grant.expire_time)))
            .arg(moment(Some(kept)))
            .arg(format!("{} {session}", place.tenant))
            .number(key.hash()))
    }

    pub(super) async fn read_one_grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        let (_, mut found) = self.load_grants(&[id]).await?;
        found.pop().unwrap_or(Ok(None))
    }

    pub(super) async fn write_end_of_grant(
        &self,
        id: GrantId,
    ) -> Result<Option<Grant>, StoreError> {
        let partition = self.partition(id.partition().unwrap_or_default())?;
        let call = self.timed(&END_GRANT, partition.grant(id));
        let mut answer = row::list(self.links.here().call(call).await?)?;
        row::time(answer.next())?;
        grant(id, answer)
    }

    pub(super) async fn read_grants(&self, query: &GrantQuery) -> Result<GrantSlice, StoreError> {
        let mut slice = GrantSlice {
            grants: Vec::new(),
            next: None,
        };
        let limit = query.limit.clamp(1, MOST);
        let index = query.group.index();
        let partitions: Vec<_> = self.partitions_of(&query.group)?.collect();
        let now = self.time().await?;
        // Whatever ends at this moment has ended.
        let after = query.after.filter(|cursor| cursor.expire_time > now);
        let from = match after {
            Some(cursor) => (cursor.expire_time, cursor.id.to_string()),
            None => (
                now.after(std::time::Duration::from_millis(1)),
                String::new(),
            ),
        };
        let keys = |partition: &Partition| vec![partition.grants(index)];
        let window = self
            .positions_after(&partitions, keys, Some(from), limit + 1)
            .await?;
        let mut last = None;
        let mut seen = 0;
        for batch in window.positions.chunks(BATCH) {
            let ids: Vec<_> = batch.iter().map(|position| position.id).collect();
            let (now, found) = self.load_grants(&ids).await?;
            for (position, found) in batch.iter().zip(found) {
                if slice.grants.len() == limit {
                    slice.next = last;
                    return Ok(slice);
                }
                seen += 1;
                last = Some(*position);
                match found {
                    Ok(Some(grant)) if grant.expire_time > now => slice.grants.push(grant),
                    // Ended or gone since the index was read.
                    Ok(_) => {}
                    Err(error @ StoreError::Corrupt { .. }) => self.note(&error),
                    Err(error) => return Err(error),
                }
            }
        }
        if !window.complete || seen < window.positions.len() {
            slice.next = last;
        }
        Ok(slice)
    }

    /// Reads grants in one round trip, in the order of the ids, with the time of the node that was read last.
    async fn load_grants(
        &self,
        ids: &[GrantId],
    ) -> Result<(Timestamp, Vec<Result<Option<Grant>, StoreError>>), StoreError> {
        let mut calls = Vec::with_capacity(ids.len());
        for id in ids {
            let partition = self.partition(id.partition().unwrap_or_default())?;
            calls.push(self.timed(&READ_GRANT, partition.grant(*id)));
        }
        let mut now = Timestamp::default();
        let mut found = Vec::with_capacity(ids.len());
        for (id, answer) in ids.iter().zip(self.links.here().calls(&calls).await?) {
            found.push(match answer {
                Ok(answer) => {
                    let mut answer = row::list(answer)?;
                    now = now.max(row::time(answer.next())?);
                    grant(*id, answer)
                }
                Err(error) => Err(error),
            });
        }
        Ok((now, found))
    }

    /// The store's time.
    async fn time(&self) -> Result<Timestamp, StoreError> {
        let (now, _none) = self.load_grants(&[GrantId::new(Uuid::nil(), 0)]).await?;
        Ok(now)
    }
}

/// Reads `format, leave, created, expires` of a grant.
///
/// # Errors
/// When there is one that cannot be read.
pub(super) fn grant(
    id: GrantId,
    values: impl IntoIterator<Item = Value>,
) -> Result<Option<Grant>, StoreError> {
    let mut fields: [Option<String>; 4] = Default::default();
    for (field, value) in fields.iter_mut().zip(values) {
        *field = text(value);
    }
    if fields.iter().all(Option::is_none) {
        return Ok(None);
    }
    let [format, leave, created, expires] = fields;
    let number = |text: Option<String>| text.and_then(|text| text.parse::<i64>().ok());
    let (Some(format), Some(leave), Some(created), Some(expires)) = (
        format.and_then(|format| format.parse().ok()),
        leave,
        number(created),
        number(expires),
    ) else {
        return Err(corrupt(
            &id.to_string(),
            "a field of the grant is missing or garbled",
        ));
    };
    let stored = StoredGrant {
        id,
        format,
        leave: leave.as_bytes(),
        create_time: Timestamp::from_millis(created),
        expire_time: Timestamp::from_millis(expires),
    };
    stored.decode().map(Some)
}
