//! What became of a suspension: its status, its votes, its end, and what a store must know of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Answer, Completion, GrantId};
use crate::domain::{Id, OnExpiry, Timestamp};
use crate::outcome::Outcome;

/// Whether it was answered, and how. It leaves `Pending` exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nobody has decided.
    Pending,
    /// A person said yes: permission for one execution.
    Approved,
    /// A person said no.
    Denied,
    /// A question, a wait, a client tool or a sign-in got its answer.
    Answered,
    /// Nobody answered in time.
    Expired,
    /// The request was withdrawn.
    Cancelled,
}

/// What became of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Execution {
    /// Nobody took it.
    None,
    /// One attempt holds it under a lease.
    Claimed,
    /// The attempt said how it ended.
    Completed,
    /// The lease is over and nobody said how it ended.
    InDoubt,
    /// It was withdrawn before anybody took it.
    Voided,
}

/// What became of the question; rewritten whole with each change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Whether and how it was answered.
    pub status: Status,
    /// What became of the approval.
    pub execution: Execution,
    /// The approvals that count towards a quorum above one.
    pub votes: Vec<Vote>,
    /// How it left `Pending`.
    pub resolution: Option<Resolution>,
    /// Every claim, oldest first; the last one holds.
    pub claims: Vec<ClaimRecord>,
    /// Who withdrew the approval before it was used.
    pub withdrawal: Option<Withdrawal>,
    /// When it last changed, by the store's clock; the epoch for as long as it has not.
    pub changed: Timestamp,
}

/// One person's approval towards a quorum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// Who, in the caller's terms.
    pub by: Id,
    /// The roles the caller vouched for.
    pub by_roles: Vec<String>,
    /// When.
    pub vote_time: Timestamp,
    /// Why.
    pub reason: String,
}

/// How a suspension left `Pending`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    /// Who decided; empty when nobody did.
    pub by: Id,
    /// The roles the caller vouched for.
    pub by_roles: Vec<String>,
    /// When it was settled.
    pub resolve_time: Timestamp,
    /// What was answered; none when it expired or was cancelled.
    pub answer: Option<Answer>,
    /// Why, in the words of who decided.
    pub reason: String,
    /// What the model is told; none where the call may go on.
    pub outcome: Option<Outcome>,
    /// The grant that the approval gave, if it was one for the session.
    pub grant_id: Option<GrantId>,
}

/// Who took an approval back before anybody used it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withdrawal {
    /// Who, in the caller's terms; empty when the run was abandoned.
    pub by: Id,
    /// Why.
    pub reason: String,
}

/// One attempt at the execution of an approved call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// The attempt, fresh for each execution.
    pub attempt_id: Id,
    /// Who claimed, if they said.
    pub by: Id,
    /// Whether it took over from an attempt in doubt.
    pub forced: bool,
    /// When it was given out.
    pub claim_time: Timestamp,
    /// When the lease ends.
    pub lease_expire_time: Timestamp,
    /// How it ended, once somebody said so.
    pub outcome: Option<Completion>,
    /// What they said beside it.
    pub detail: String,
}

/// What a store must know of a state to index and to keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upkeep {
    /// Whether it counts as open: pending, or approved and unclaimed.
    pub open: bool,
    /// When time alone will change it, or when it may be collected.
    pub wake: Option<Timestamp>,
    /// Until when it must be kept; none for as long as it is claimed or in doubt.
    pub keep_until: Option<Timestamp>,
}

impl State {
    /// The state of a suspension that was just opened.
    pub fn pending() -> Self {
        Self {
            status: Status::Pending,
            execution: Execution::None,
            votes: Vec::new(),
            resolution: None,
            claims: Vec::new(),
            withdrawal: None,
            changed: Timestamp::default(),
        }
    }

    /// Whether it counts against the limits: pending, or approved and unclaimed.
    pub fn is_open(&self) -> bool {
        match self.status {
            Status::Pending => true,
            Status::Approved => self.execution == Execution::None,
            Status::Denied | Status::Answered | Status::Expired | Status::Cancelled => false,
        }
    }

    /// What a store must know of this state, for a record that is late at `expire_time`.
    pub fn upkeep(&self, expire_time: Timestamp, retention: Duration) -> Upkeep {
        let keep_until = match self.execution {
            Execution::Claimed | Execution::InDoubt => None,
            Execution::None | Execution::Completed | Execution::Voided => {
                Some(expire_time.max(self.changed).after(retention))
            }
        };
        let wake = match (self.status, self.execution) {
            (Status::Pending, _) => Some(expire_time),
            (_, Execution::Claimed) => self.claims.last().map(|claim| claim.lease_expire_time),
            (
                Status::Approved
                | Status::Denied
                | Status::Answered
                | Status::Expired
                | Status::Cancelled,
                Execution::None | Execution::Completed | Execution::InDoubt | Execution::Voided,
            ) => keep_until,
        };
        Upkeep {
            open: self.is_open(),
            wake,
            keep_until,
        }
    }

    /// What time alone has made of it by `now`, for a record that is late at `expire_time`: a pending
    /// one past its deadline is expired, a claim past its lease is in doubt. `None` when nothing has
    /// changed.
    pub fn settled(
        &self,
        expire_time: Timestamp,
        on_expiry: OnExpiry,
        now: Timestamp,
    ) -> Option<Self> {
        match (self.status, self.execution) {
            (Status::Pending, _) => (now >= expire_time).then(|| self.expired(on_expiry, now)),
            (_, Execution::Claimed) => {
                let lease = self.claims.last()?.lease_expire_time;
                (now >= lease).then(|| Self {
                    execution: Execution::InDoubt,
                    changed: now,
                    ..self.clone()
                })
            }
            (
                Status::Approved
                | Status::Denied
                | Status::Answered
                | Status::Expired
                | Status::Cancelled,
                Execution::None | Execution::Completed | Execution::InDoubt | Execution::Voided,
            ) => None,
        }
    }

    fn expired(&self, on_expiry: OnExpiry, now: Timestamp) -> Self {
        let outcome = match on_expiry {
            OnExpiry::Abandon => Outcome::suspension_expired(),
            OnExpiry::Deny => Outcome::expired(),
        };
        Self {
            status: Status::Expired,
            resolution: Some(Resolution {
                by: Id::default(),
                by_roles: Vec::new(),
                resolve_time: now,
                answer: None,
                reason: String::new(),
                outcome: Some(outcome),
                grant_id: None,
            }),
            changed: now,
            ..self.clone()
        }
    }

    /// Withdraws it: what is pending is cancelled, what is approved and unclaimed is voided. `None`
    /// when there is nothing left to withdraw.
    pub fn cancelled(&self, by: &Id, reason: &str, now: Timestamp) -> Option<Self> {
        if !self.is_open() {
            return None;
        }
        if self.status == Status::Approved {
            return Some(Self {
                execution: Execution::Voided,
                withdrawal: Some(Withdrawal {
                    by: by.clone(),
                    reason: reason.to_owned(),
                }),
                changed: now,
                ..self.clone()
            });
        }
        Some(Self {
            status: Status::Cancelled,
            resolution: Some(Resolution {
                by: by.clone(),
                by_roles: Vec::new(),
                resolve_time: now,
                answer: None,
                reason: reason.to_owned(),
                outcome: Some(Outcome::cancelled(reason)),
                grant_id: None,
            }),
            changed: now,
            ..self.clone()
        })
    }
}
