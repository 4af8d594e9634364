//! Resume: somebody answers (S6).

use super::grants::giving;
use super::{Engine, EngineError, MAX_ATTEMPTS, refused, with_state};
use crate::arguments::Json;
use crate::domain::Id;
use crate::policy::Policy;
use crate::store::record::check_size;
use crate::suspension::{Answer, Reply, Resumed, Suspension, SuspensionId};

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeOutcome {
    /// It settled the suspension.
    Accepted,
    /// It counts, and more people must approve.
    VoteRecorded,
    /// It was given before; this is the first result.
    Duplicate,
}

/// The suspension after an answer.
#[derive(Clone, Debug)]
pub struct Resumption {
    /// The record.
    pub suspension: Suspension,
    /// What became of the answer.
    pub outcome: ResumeOutcome,
}

impl Engine {
    /// Answers a suspension. Only the last step writes, and of racing answers one wins.
    ///
    /// # Errors
    /// The first check that fails, in the order of S6; the record stays as it is.
    pub async fn resume(
        &self,
        policy: &Policy,
        tenant: &Id,
        id: SuspensionId,
        reply: &Reply,
    ) -> Result<Resumption, EngineError> {
        let mut fits_schema = false;
        for _ in 0..MAX_ATTEMPTS {
            let (suspension, now) = self.load(policy, tenant, id).await?;
            let (mut state, outcome) = match suspension.resume(reply, now) {
                Err(refusal) => return Err(refused(refusal, suspension)),
                Ok(Resumed::Duplicate) => {
                    return Ok(Resumption {
                        suspension,
                        outcome: ResumeOutcome::Duplicate,
                    });
                }
                Ok(Resumed::Vote(state)) => (state, ResumeOutcome::VoteRecorded),
                Ok(Resumed::Settled(state)) => (state, ResumeOutcome::Accepted),
            };
            if let (Some(schema), Some(payload)) = (suspension.body.schema(), payload(reply))
                && !fits_schema
            {
                if let Some(misfit) = self.schemas.check_payload(schema, payload).await? {
                    return Err(refused(misfit, suspension));
                }
                fits_schema = true;
            }
            check_size(&suspension.body, &state)?;
            if edits(reply) {
                self.judge_again(policy, &with_state(suspension.clone(), state.clone()))
                    .await?;
            }
            let giving = giving(policy, &suspension, reply, now);
            if let (Some(giving), Some(resolution)) = (&giving, state.resolution.as_mut()) {
                resolution.grant_id = Some(giving.grant.id);
            }
            let deadline = suspension.expire_time;
            let written = self
                .write_in_time(policy, suspension, state, Some(deadline), giving)
                .await?;
            if let Some(suspension) = written {
                return Ok(Resumption {
                    suspension,
                    outcome,
                });
            }
        }
        Err(EngineError::Contended)
    }
}

fn edits(reply: &Reply) -> bool {
    match &reply.answer {
        Some(Answer::Approval(approval)) => approval.edited_arguments.is_some(),
        Some(
            Answer::Question(_) | Answer::External(_) | Answer::ClientTool(_) | Answer::SignIn(_),
        )
        | None => false,
    }
}

fn payload(reply: &Reply) -> Option<&Json> {
    match &reply.answer {
        Some(Answer::External(payload)) => Some(payload),
        Some(
            Answer::Approval(_) | Answer::Question(_) | Answer::ClientTool(_) | Answer::SignIn(_),
        )
        | None => None,
    }
}
