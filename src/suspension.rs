//! The record of a question that outlives every process, and its state machine (S6).
//!
//! A [`Suspension`] is an immutable [`Body`] (what was asked) and a small [`State`] (what became of
//! it). The transitions here are pure: they take the record and the store's time and return the next
//! state or a [`Refusal`]. The engine runs them; the stores only keep their results.

mod body;
mod execution;
mod fit;
mod grant;
mod id;
mod resolution;
mod state;
mod stored;

use std::borrow::Cow;
use std::time::Duration;

use crate::arguments::Arguments;
use crate::domain::{Id, Timestamp};

pub use self::body::{Body, Kind, Matter, Question, Subject, Wait};
pub use self::execution::{Claim, Claimed, Completion, MAX_CLAIMS};
pub use self::grant::{Grant, Leave};
pub use self::id::{GrantId, OfGrant, OfSuspension, PARTITIONS, RecordId, SuspensionId};
pub use self::resolution::{Answer, Approval, GrantScope, Reply, Resumed, SignIn, ToolResult};
pub use self::state::{
    ClaimRecord, Execution, Resolution, State, Status, Upkeep, Vote, Withdrawal,
};

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
    /// A claim after [`MAX_CLAIMS`] others, none of which said how it ended.
    #[error(
        "{MAX_CLAIMS} attempts took the approval one after the other and none said how it ended: find out, then complete it"
    )]
    TakenOverTooOften,
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
            Some(
                Answer::Question(_)
                | Answer::External(_)
                | Answer::ClientTool(_)
                | Answer::SignIn(_),
            )
            | None => None,
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
