//! Opening and committing: the two writes that callers ask for, each one script.

use redis::Value;

use super::failure::{corrupt, unexpected};
use super::grants::grant;
use super::row::{self, Row};
use super::script::{COMMIT, OPEN};
use super::{GRACE, MAX_MILLIS, RedisStore};
use crate::domain::Timestamp;
use crate::store::record::{FORMAT, encode_body, encode_state, on_expiry_word};
use crate::store::{
    Change, Commit, Committed, GrantKey, Group, KeyHash, Opened, Opening, StoreError,
};
use crate::suspension::{Grant, State, Status, Suspension};

impl RedisStore {
    pub(super) async fn write_opening(&self, opening: &Opening) -> Result<Opened, StoreError> {
        match self.try_opening(opening, opening.grant).await? {
            Some(opened) => Ok(opened),
            // A grant that cannot be read lets nothing through: it is no grant.
            None => {
                let opened = self.try_opening(opening, None).await?;
                opened.ok_or_else(|| unexpected("a grant that nobody looked for"))
            }
        }
    }

    /// Opens a suspension, unless a grant is found. `None` when the grant cannot be read.
    async fn try_opening(
        &self,
        opening: &Opening,
        granted: Option<GrantKey>,
    ) -> Result<Option<Opened>, StoreError> {
        let Opening {
            id,
            place,
            key,
            grant: _,
            body,
            expires,
            retention,
            limit,
        } = opening;
        if id.partition() != Some(place.partition) {
            return Err(corrupt(
                &id.to_string(),
                "its id names another partition than its place",
            ));
        }
        let partition = self.partition(place.partition)?;
        let indexes: Vec<_> = std::iter::once(place.tenant)
            .chain(place.session)
            .chain(place.run)
            .collect();
        // The first index is the second key.
        let limited = place
            .limited()
            .and_then(|limited| indexes.iter().position(|index| *index == limited))
            .map_or(0, |position| position + 2);
        let names: Vec<String> = indexes.iter().map(ToString::to_string).collect();
        let state = State::pending();
        let expires = millis(*expires);
        let call = self
            .timed(&OPEN, partition.due())
            .keys(indexes.iter().map(|index| partition.open(*index)))
            .keys(
                place
                    .closings
                    .iter()
                    .map(|closing| partition.closing(*closing)),
            )
            .keys(key.map(|key| partition.call(key.hash())))
            .keys(granted.map(|key| partition.grant_of(key.hash())))
            .number(id)
            .number(FORMAT)
            .arg(encode_body(*id, body)?)
            .arg(encode_state(*id, &state)?)
            .number(expires)
            .number((expires + millis(*retention)).min(MAX_MILLIS) + GRACE)
            .number(indexes.len())
            .number(place.closings.len())
            .number(limited)
            .number(limit)
            .arg(names.join(" "))
            .arg(name_or_empty(key.map(|key| key.hash())))
            .arg(self.channel.as_str())
            .arg(name_or_empty(place.own_run))
            .arg(on_expiry_word(body.on_expiry))
            .number(u8::from(key.is_some()));
        let mut answer = row::list(self.links.here().call(call).await?)?;
        Ok(Some(match answer.next().and_then(row::text).as_deref() {
            Some("created") => Opened::Created(Suspension {
                id: *id,
                body: body.clone(),
                create_time: row::time(answer.next())?,
                expire_time: row::time(answer.next())?,
                state,
                version: 1,
            }),
            Some("existing") => {
                let now = row::time(answer.next())?;
                let found = row::id(answer.next())
                    .ok_or_else(|| corrupt("a call key", "it names no suspension"))?;
                let suspension = Row::read(found, answer).suspension()?;
                let suspension = suspension.ok_or_else(|| unexpected("no record"))?;
                if found == *id {
                    Opened::Created(suspension)
                } else {
                    Opened::Existing(suspension, now)
                }
            }
            Some("closed") => Opened::Closed,
            Some("granted") => match self.live_grant(answer)? {
                Some(grant) => Opened::Granted(grant),
                None => return Ok(None),
            },
            Some("full") => Opened::Full,
            _ => return Err(unexpected("no outcome of an opening")),
        }))
    }

    /// Reads `id, format, leave, created, expires` of a grant that was found, if any was. One that cannot be read
    /// is set aside.
    pub(super) fn live_grant(
        &self,
        mut answer: impl Iterator<Item = Value>,
    ) -> Result<Option<Grant>, StoreError> {
        let Some(id) = answer.next() else {
            return Ok(None);
        };
        let found = match row::id(Some(id)) {
            Some(id) => grant(id, answer),
            None => Err(corrupt("a grant key", "it names no grant")),
        };
        match found {
            Err(error @ StoreError::Corrupt { .. }) => {
                self.note(&error);
                Ok(None)
            }
            found => found,
        }
    }

    pub(super) async fn write_commit(&self, commit: &Commit) -> Result<Committed, StoreError> {
        let Commit {
            partition,
            operation,
            changes,
            not_after,
            unless_closed,
            giving,
            closing,
        } = commit;
        let partition = self.partition(*partition)?;
        if let Some(stray) = changes
            .iter()
            .find(|change| change.id.partition() != Some(partition.number()))
        {
            return Err(corrupt(
                &stray.id.to_string(),
                "it lies in another partition than the commit",
            ));
        }
        let mut call = self
            .timed(&COMMIT, partition.due())
            .keys(changes.iter().map(|change| partition.record(change.id)))
            .keys(unless_closed.iter().map(|hash| partition.closing(*hash)))
            .number(operation)
            .arg(moment(*not_after))
            .arg(self.channel.as_str())
            .number(GRACE)
            .number(changes.len());
        call = match closing {
            Some(closing) => call
                .key(partition.open(closing.group.index()))
                .key(partition.closing(closing.group.closing()))
                .key(partition.grants(closing.group.index()))
                .arg(
                    closing
                        .open
                        .map_or_else(String::new, |open| open.to_string()),
                )
                .number(millis(closing.retention))
                .arg(name_or_empty(closing.group.own_run())),
            None => call.arg("").arg("").arg(""),
        };
        let ends_grants = closing.as_ref().is_some_and(|closing| match closing.group {
            Group::Session { .. } => true,
            // A grant outlives the run in which it was given.
            Group::Run { .. } | Group::Tenant { .. } => false,
        });
        call = call
            .number(unless_closed.len())
            .number(u8::from(ends_grants));
        call = Self::with_giving(call, partition, giving.as_ref())?;
        for Change {
            id,
            version,
            state,
            upkeep,
        } in changes
        {
            // What is pending must be settled before it may go, even where both fall due at once.
            let collect = upkeep.wake == upkeep.keep_until && state.status != Status::Pending;
            call = call
                .number(version)
                .arg(encode_state(*id, state)?)
                .arg(if upkeep.open { "1" } else { "0" })
                .arg(moment(upkeep.wake))
                .arg(if collect { "collect" } else { "settle" })
                .arg(moment(upkeep.keep_until));
        }
        match row::text(self.links.here().call(call).await?).as_deref() {
            Some("done") => Ok(Committed::Done),
            Some("stale") => Ok(Committed::Stale),
            Some("closed") => Ok(Committed::Closed),
            _ => Err(unexpected("no outcome of a commit")),
        }
    }
}

/// How a script is told a name, or that there is none.
pub(super) fn name_or_empty(hash: Option<KeyHash>) -> String {
    hash.map_or_else(String::new, |hash| hash.to_string())
}

pub(super) fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis())
        .unwrap_or(i64::MAX)
        .min(MAX_MILLIS)
}

/// How a script is told a moment, or that there is none.
pub(super) fn moment(time: Option<Timestamp>) -> String {
    time.map_or_else(String::new, |time| {
        time.millis().clamp(0, MAX_MILLIS).to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_moment_there_is_is_a_number_that_scripts_hold_exactly() {
        assert_eq!(
            moment(Some(Timestamp::from_millis(i64::MAX))),
            "4503599627370496"
        );
        assert_eq!(millis(std::time::Duration::MAX), 1 << 52);
        assert_eq!(moment(None), "");
    }
}
