//! The end of a run or a session: one commit, or, where there is too much for one, the end itself and then its
//! records in parts (S6).
//!
//! Parts may be interrupted, by a store that fails, a process that is killed or a caller who hangs up. So what brought
//! the end about is written last: until then it is due, and the sweeper comes back to it.

use std::collections::HashMap;
use std::time::Duration;

use uuid::Uuid;

use super::{Engine, EngineError, MAX_ATTEMPTS};
use crate::domain::{Id, OnExpiry, Timestamp};
use crate::policy::Policy;
use crate::store::{
    Change, Closing, Commit, Committed, Group, KeyHash, Member, Members, StoreError,
};
use crate::suspension::{State, Status, SuspensionId};

/// How often an end is tried in one commit, before it is written in parts.
const WHOLE_ATTEMPTS: usize = 4;

/// How many bytes of reasons one commit may write.
const WHOLE_BYTES: usize = 4 * 1024 * 1024;

/// How many records a part has.
const PART: usize = 100;

/// How often a part may miss before its records are written one by one.
const PART_ATTEMPTS: usize = 4;

impl Engine {
    /// Ends a run or a session in one partition: what is past its deadline expires, what is pending is
    /// cancelled, what is approved and unclaimed is voided, and nothing opens there any more. Gives what
    /// this changed.
    pub(super) async fn end(
        &self,
        policy: &Policy,
        group: &Group,
        partition: u8,
        by: &Id,
        reason: &str,
    ) -> Result<Vec<Member>, EngineError> {
        for _ in 0..WHOLE_ATTEMPTS {
            let members = self.store.members(partition, group).await?;
            // A reason stands in a record twice: for people, and in what the model is told.
            let bytes = 2 * members.members.len() * reason.len();
            if members.more || bytes > WHOLE_BYTES {
                break;
            }
            let closing = Closing {
                open: Some(members.open),
                ..closing(policy, group, &members)
            };
            let next = withdrawn(members.members, by, reason, members.now);
            if self
                .end_part(policy, partition, &next, Some(closing))
                .await?
            {
                return Ok(next.into_iter().map(written).collect());
            }
        }
        self.end_in_parts(policy, group, partition, by, reason)
            .await
    }

    /// Ends what is very large, or changes faster than it can be read: first the end is written, so that nothing
    /// is opened, answered or claimed after it, then the records, until none is left.
    async fn end_in_parts(
        &self,
        policy: &Policy,
        group: &Group,
        partition: u8,
        by: &Id,
        reason: &str,
    ) -> Result<Vec<Member>, EngineError> {
        let mut ended = Vec::new();
        let mut closed = false;
        let mut misses = 0;
        while misses < MAX_ATTEMPTS {
            let members = self.store.members(partition, group).await?;
            let (more, now) = (members.more, members.now);
            let closing = closing(policy, group, &members);
            if !closed {
                closed = self.end_part(policy, partition, &[], Some(closing)).await?;
                misses += usize::from(!closed);
                // What was opened before it was closed is not among what was read.
                continue;
            }
            let (last, first) = triggers_apart(members.members, now);
            let part_of = if first.is_empty() { last } else { first };
            let next = withdrawn(part_of, by, reason, now);
            if next.is_empty() && !more {
                return Ok(ended);
            }
            // A record that is always changed by somebody must not keep its neighbours.
            let size = if misses > PART_ATTEMPTS { 1 } else { PART };
            let mut missed = next.is_empty();
            for part in next.chunks(size) {
                // The end is written again with each, as what was opened last may have the latest deadline.
                if self
                    .end_part(policy, partition, part, Some(closing.clone()))
                    .await?
                {
                    ended.extend(part.iter().cloned().map(written));
                } else {
                    missed = true;
                }
            }
            misses += usize::from(missed);
        }
        Err(EngineError::Contended)
    }

    /// Writes some of an end. False when something has moved on: read again.
    pub(super) async fn end_part(
        &self,
        policy: &Policy,
        partition: u8,
        part: &[Member],
        closing: Option<Closing>,
    ) -> Result<bool, EngineError> {
        let changes = part.iter().map(|member| Change {
            id: member.id,
            version: member.version,
            upkeep: member.state.upkeep(member.expire_time, policy.retention()),
            state: member.state.clone(),
        });
        let commit = Commit {
            partition,
            operation: Uuid::new_v4(),
            changes: changes.collect(),
            not_after: None,
            unless_closed: Vec::new(),
            giving: None,
            closing,
        };
        match self.store.commit(&commit).await {
            Ok(committed) => Ok(committed == Committed::Done),
            // A record became unreadable meanwhile: the next look leaves it out.
            Err(StoreError::Corrupt { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// What time alone has changed of a record by `now`.
pub(super) fn settled(member: &Member, now: Timestamp) -> Option<State> {
    member
        .state
        .settled(member.expire_time, member.on_expiry, now)
}

/// Whether the end of its run is due with it.
pub(super) fn abandons(member: &Member, now: Timestamp) -> bool {
    member.state.status == Status::Pending
        && member.on_expiry == OnExpiry::Abandon
        && member.expire_time <= now
        && member.run.is_some()
}

/// The end of a group, whatever is open in it. It is remembered for as long as anything that was opened or approved
/// before it could still be answered or claimed.
fn closing(policy: &Policy, group: &Group, members: &Members) -> Closing {
    let left = |deadline: Timestamp| deadline.millis().saturating_sub(members.now.millis());
    let answerable = members.latest.map_or(0, left);
    Closing {
        group: group.clone(),
        open: None,
        retention: policy
            .retention()
            .max(policy.claim_within())
            .max(Duration::from_millis(
                u64::try_from(answerable).unwrap_or(0),
            )),
    }
}

/// Tells the record by which each run's end is due from all others. It is the same for whoever ends the run at the
/// same time, so that neither takes it from the other before both are done.
fn triggers_apart(members: Vec<Member>, now: Timestamp) -> (Vec<Member>, Vec<Member>) {
    let mut triggers: HashMap<Option<KeyHash>, (Timestamp, SuspensionId)> = HashMap::new();
    for member in members.iter().filter(|member| abandons(member, now)) {
        let here = (member.expire_time, member.id);
        let first = triggers.entry(member.run).or_insert(here);
        *first = here.min(*first);
    }
    members.into_iter().partition(|member| {
        triggers
            .get(&member.run)
            .is_some_and(|(_, id)| *id == member.id)
    })
}

/// What an end makes of records; those that are not open any more are left out.
fn withdrawn(members: Vec<Member>, by: &Id, reason: &str, now: Timestamp) -> Vec<Member> {
    let next = |member: Member| {
        let withdrawn = || member.state.cancelled(by, reason, now);
        let state = settled(&member, now).or_else(withdrawn)?;
        Some(Member { state, ..member })
    };
    members.into_iter().filter_map(next).collect()
}

/// A record as it is once its new state was written.
fn written(member: Member) -> Member {
    Member {
        version: member.version + 1,
        ..member
    }
}
