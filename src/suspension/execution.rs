//! Executing: an approval is permission for one execution, and these are its claims.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ClaimRecord, Execution, Refusal, State, Status, Suspension};
use crate::arguments::Digest;
use crate::domain::{Id, Timestamp};

/// How many attempts may take one approval over, one after the other: each is on the record, which has an
/// end (S9).
pub const MAX_CLAIMS: usize = 100;

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Completion {
    /// The tool ran and did what it should.
    Success,
    /// The tool ran, or was tried, and failed.
    Failure,
    /// Nobody can say.
    Unknown,
}

/// One attempt to take an approval for execution.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The attempt, fresh for each execution.
    pub attempt_id: Id,
    /// The digest of the call the claimer means, if it says.
    pub arguments_digest: Option<Digest>,
    /// Whether to take over from an attempt in doubt.
    pub force: bool,
    /// Who claims.
    pub by: Id,
}

/// What a claim makes of the record.
#[derive(Clone, Debug, PartialEq)]
pub enum Claimed {
    /// The attempt holds it already: the same receipt again, and nothing changes.
    Receipt,
    /// The attempt takes it, if policy still allows and the write comes before `not_after`.
    Taken {
        /// The next state.
        state: Box<State>,
        /// When the approval becomes too old to be claimed; none when it was claimed before.
        not_after: Option<Timestamp>,
    },
}

impl Suspension {
    /// Checks a claim made at `now` (S6) and says what it would make of the record, which must be
    /// [settled](Suspension::settled).
    ///
    /// # Errors
    /// The first check that fails; the record stays as it is.
    pub fn claim(
        &self,
        claim: &Claim,
        now: Timestamp,
        claim_within: Duration,
        lease: Duration,
    ) -> Result<Claimed, Refusal> {
        if self.state.status != Status::Approved {
            return Err(Refusal::NotApproved);
        }
        let mut not_after = None;
        let receipt = match (self.state.execution, self.state.claims.last()) {
            (Execution::Voided, _) => return Err(Refusal::Cancelled),
            (Execution::Claimed, Some(held)) if held.attempt_id == claim.attempt_id => true,
            (Execution::Claimed | Execution::Completed, Some(held)) => {
                return Err(Refusal::AlreadyClaimed(held.attempt_id.clone()));
            }
            (Execution::InDoubt, Some(held)) => {
                if !claim.force || self.was_attempted(&claim.attempt_id) {
                    return Err(Refusal::InDoubt(held.attempt_id.clone()));
                }
                if self.state.claims.len() >= MAX_CLAIMS {
                    return Err(Refusal::TakenOverTooOften);
                }
                false
            }
            (Execution::None, _) => {
                if self.is_stale(now, claim_within) {
                    return Err(Refusal::Stale);
                }
                not_after = self
                    .claimable_until(claim_within)
                    .map(|until| until.after(Duration::from_millis(1)));
                false
            }
            (Execution::Claimed | Execution::Completed | Execution::InDoubt, None) => {
                return Err(Refusal::NotApproved);
            }
        };
        if claim.arguments_digest.is_some() && claim.arguments_digest != self.body.arguments_digest
        {
            return Err(Refusal::DigestMismatch);
        }
        if receipt {
            return Ok(Claimed::Receipt);
        }
        let mut state = Box::new(State {
            execution: Execution::Claimed,
            changed: now,
            ..self.state.clone()
        });
        state.claims.push(ClaimRecord {
            attempt_id: claim.attempt_id.clone(),
            by: claim.by.clone(),
            forced: self.state.execution == Execution::InDoubt,
            claim_time: now,
            lease_expire_time: now.after(lease),
            outcome: None,
            detail: String::new(),
        });
        Ok(Claimed::Taken { state, not_after })
    }

    fn was_attempted(&self, attempt: &Id) -> bool {
        let mut claims = self.state.claims.iter();
        claims.any(|claim| claim.attempt_id == *attempt)
    }

    /// Records how the execution ended, in the words of the attempt that holds it, or held it last
    /// when it is in doubt. `None` when the same was recorded before.
    ///
    /// # Errors
    /// [`Refusal::NotClaimed`] when the attempt does not hold the claim, or said otherwise before.
    pub fn complete(
        &self,
        attempt: &Id,
        outcome: Completion,
        detail: &str,
        now: Timestamp,
    ) -> Result<Option<State>, Refusal> {
        let holds = |claim: &&ClaimRecord| claim.attempt_id == *attempt;
        let Some(held) = self.state.claims.last().filter(holds) else {
            return Err(Refusal::NotClaimed);
        };
        if let Some(recorded) = held.outcome {
            return if recorded == outcome {
                Ok(None)
            } else {
                Err(Refusal::NotClaimed)
            };
        }
        let mut state = State {
            execution: Execution::Completed,
            changed: now,
            ..self.state.clone()
        };
        if let Some(last) = state.claims.last_mut() {
            last.outcome = Some(outcome);
            last.detail = detail.to_owned();
        }
        Ok(Some(state))
    }
}
