//! The record of a question that outlives every process, and its state machine (S6).
//!
//! A [`Suspension`] is an immutable [`Body`] (what was asked) and a small [`State`] (what became of
//! it). The transitions here are pure: they take the record and the store's time and return the next
//! state or a [`Refusal`]. The engine runs them; the stores only keep their results.

mod execution;
mod grant;
mod id;
mod resolution;
mod stored;

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::arguments::{Arguments, Digest};
use crate::domain::{ApproverRule, Id, OnExpiry, RiskClass, RunStart, Scope, Timestamp, ToolCall};
use crate::outcome::Outcome;

pub use self::execution::{Claim, Claimed, Completion};
pub use self::grant::{Grant, Leave};
pub use self::id::{GrantId, OfGrant, OfSuspension, PARTITIONS, RecordId, SuspensionId};
pub use self::resolution::{Answer, Approval, GrantScope, Reply, Resumed};

/// What was asked: written once, when the suspension is opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Body {
    /// Where, and on whose behalf.
    pub scope: Scope,
    /// What waits.
    pub subject: Subject,
    /// The class the call was judged to have; none for a run start.
    pub risk_class: Option<RiskClass>,
    /// A short name for people; may be empty.
    pub title: String,
    /// Why a person is asked.
    pub reason: String,
    /// The digest of the call's tool and arguments; none for a run start.
    pub arguments_digest: Option<Digest>,
    /// What happens when nobody answers.
    pub on_expiry: OnExpiry,
    /// Who may answer.
    pub approvers: ApproverRule,
    /// The rule that asked: a rule id, `default`, `mode`, or empty when a selector did.
    pub matched_rule: String,
    /// The revision of the policy that asked.
    pub policy_revision: String,
}

/// What waits for an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A tool call or a workflow step that needs an approval.
    Call(Box<ToolCall>),
    /// A run start that needs an approval.
    Run(RunStart),
}

/// The five kinds of wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// May this call run?
    Approval,
    /// What does the person say?
    Question,
    /// What does the webhook bring?
    External,
    /// What did the client's own tool return?
    ClientTool,
    /// Which sources did the person connect?
    SignIn,
}

impl Body {
    /// Which of the five kinds this is.
    pub fn kind(&self) -> Kind {
        match self.subject {
            Subject::Call(_) | Subject::Run(_) => Kind::Approval,
        }
    }

    /// The call that waits, if it is a call.
    pub fn call(&self) -> Option<&ToolCall> {
        match &self.subject {
            Subject::Call(call) => Some(call),
            Subject::Run(_) => None,
        }
    }

    /// Whether `other` asks about the very same thing, so that one answer serves both: the same tool
    /// of the same server with the same arguments, or the same version of the agent. What an unresolved
    /// wrapper call would run is another thing than the call in whose place it was judged.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        match (&self.subject, &other.subject) {
            (Subject::Call(mine), Subject::Call(theirs)) => {
                mine.tool == theirs.tool
                    && mine.server == theirs.server
                    && mine.unresolved() == theirs.unresolved()
                    && self.arguments_digest == other.arguments_digest
            }
            (Subject::Run(mine), Subject::Run(theirs)) => mine == theirs,
            (Subject::Call(_), Subject::Run(_)) | (Subject::Run(_), Subject::Call(_)) => false,
        }
    }
}

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
    #[serde(default)]
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

/// A suspension as a store keeps it.
#[derive(Clone, Debug)]
pub struct Suspension {
    /// Its id, minted by the server.
    pub id: SuspensionId,
    /// What was asked.
    pub body: Body,
    /// When it was opened, by the store's clock.
    pub create_time: Timestamp,
    /// When an answer is late: at this moment and after it.
    pub expire_time: Timestamp,
    /// What became of it.
    pub state: State,
    /// Grows by one with each change; 1 when opened.
    pub version: u64,
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

/// Why a transition was refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// An answer at or past the deadline.
    #[error("the suspension expired before it was answered")]
    Expired,
    /// An answer to a withdrawn request.
    #[error("the suspension was cancelled")]
    Cancelled,
    /// Somebody else, or another answer, was first.
    #[error("the suspension was already resolved")]
    AlreadyResolved,
    /// An answer of another kind, or none.
    #[error("{0}")]
    KindMismatch(&'static str),
    /// The digest is not that of the call.
    #[error(
        "`arguments_digest` is not that of the suspended call: show the call again before asking for an answer"
    )]
    DigestMismatch,
    /// An answer that this suspension cannot take.
    #[error("`{field}`: {message}")]
    Invalid {
        /// The field's proto path.
        field: &'static str,
        /// What is wrong with it.
        message: Cow<'static, str>,
    },
    /// The answerer has none of the roles asked for.
    #[error("the answer needs one of the roles {}", quoted(.0))]
    NotEligible(Vec<String>),
    /// The answerer made the call, or nobody knows who made it.
    #[error("whoever made the call may not answer it: {0}")]
    SelfApproval(&'static str),
    /// A claim on what nobody approved.
    #[error("the suspension is not approved")]
    NotApproved,
    /// A claim on what another attempt holds or completed.
    #[error("the approval was already claimed by attempt `{0}`")]
    AlreadyClaimed(Id),
    /// A claim on what an attempt may or may not have executed.
    #[error(
        "attempt `{0}` took the approval and never said how it ended: find out, then complete it or claim with `force`"
    )]
    InDoubt(Id),
    /// An approval nobody used in time.
    #[error("the approval is too old to be used: ask again")]
    Stale,
    /// A completion by who does not hold the claim.
    #[error("the attempt does not hold the claim")]
    NotClaimed,
}

fn quoted(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
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

impl Suspension {
    /// What time alone has changed by `now`: see [`State::settled`].
    pub fn settled(&self, now: Timestamp) -> Option<State> {
        self.state
            .settled(self.expire_time, self.body.on_expiry, now)
    }

    /// Withdraws it: see [`State::cancelled`].
    pub fn cancelled(&self, by: &Id, reason: &str, now: Timestamp) -> Option<State> {
        self.state.cancelled(by, reason, now)
    }

    /// The arguments an execution would run with: the edited ones, else the call's own.
    pub fn approved_arguments(&self) -> Option<&Arguments> {
        let edited = match self
            .state
            .resolution
            .as_ref()
            .and_then(|r| r.answer.as_ref())
        {
            Some(Answer::Approval(approval)) => approval.edited_arguments.as_ref(),
            None => None,
        };
        edited.or_else(|| self.body.call().map(|call| &call.arguments))
    }

    /// Whether the approval was given longer ago than `claim_within` and never used.
    pub fn is_stale(&self, now: Timestamp, claim_within: Duration) -> bool {
        self.state.status == Status::Approved
            && self.state.execution == Execution::None
            && self
                .claimable_until(claim_within)
                .is_some_and(|until| now > until)
    }

    fn claimable_until(&self, claim_within: Duration) -> Option<Timestamp> {
        let resolution = self.state.resolution.as_ref()?;
        Some(resolution.resolve_time.after(claim_within))
    }
}

#[cfg(test)]
mod tests;
