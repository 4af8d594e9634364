//! Claim and Complete: one approval, one execution (S6).

use super::{Engine, EngineError, MAX_ATTEMPTS, refused};
use crate::domain::Id;
use crate::policy::Policy;
use crate::suspension::{Claim, Claimed, Completion, Suspension, SuspensionId};

/// What an attempt that holds the claim may run.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// The record; its last claim is the attempt's.
    pub suspension: Suspension,
}

impl Engine {
    /// Takes an approved call for one execution, after asking policy again.
    ///
    /// # Errors
    /// The first check that fails, in the order of S6; nothing is written.
    pub async fn claim(
        &self,
        policy: &Policy,
        tenant: &Id,
        id: SuspensionId,
        claim: &Claim,
    ) -> Result<Receipt, EngineError> {
        for _ in 0..MAX_ATTEMPTS {
            let (suspension, now) = self.load(policy, tenant, id).await?;
            let claimed = suspension.claim(claim, now, policy.claim_within(), policy.claim_lease());
            let (state, not_after) = match claimed {
                Err(refusal) => return Err(refused(refusal, suspension)),
                Ok(Claimed::Receipt) => return Ok(Receipt { suspension }),
                Ok(Claimed::Taken { state, not_after }) => (*state, not_after),
            };
            self.judge_again(policy, &suspension).await?;
            // What was claimed before an end is not withdrawn by it, and may be taken over after it.
            let written = match not_after {
                Some(_) => {
                    self.write_in_time(policy, suspension, state, not_after, None)
                        .await?
                }
                None => self.write(policy, suspension, state).await?,
            };
            if let Some(suspension) = written {
                return Ok(Receipt { suspension });
            }
        }
        Err(EngineError::Contended)
    }

    /// Records how an execution ended.
    ///
    /// # Errors
    /// When the attempt does not hold the claim, or the suspension cannot be read or written.
    pub async fn complete(
        &self,
        policy: &Policy,
        tenant: &Id,
        id: SuspensionId,
        attempt: &Id,
        outcome: Completion,
        detail: &str,
    ) -> Result<Suspension, EngineError> {
        for _ in 0..MAX_ATTEMPTS {
            let (suspension, now) = self.load(policy, tenant, id).await?;
            let state = match suspension.complete(attempt, outcome, detail, now) {
                Err(refusal) => return Err(refused(refusal, suspension)),
                Ok(None) => return Ok(suspension),
                Ok(Some(state)) => state,
            };
            if let Some(suspension) = self.write(policy, suspension, state).await? {
                return Ok(suspension);
            }
        }
        Err(EngineError::Contended)
    }
}
