//! Suspend: a wait that is no approval is opened, or found again (S6). Nothing is judged.

use std::time::Duration;

use super::opening::Met;
use super::{Engine, EngineError};
use crate::domain::{ApproverRule, OnExpiry, Scope};
use crate::policy::Policy;
use crate::store::CallKey;
use crate::suspension::{Body, Subject, Suspension, Wait};

/// What is to wait.
#[derive(Clone, Debug)]
pub struct SuspendRequest {
    /// Where, and on whose behalf.
    pub scope: Scope,
    /// For what.
    pub wait: Wait,
    /// A line for people; may be empty.
    pub title: String,
    /// Why they are asked; may be empty.
    pub reason: String,
    /// A shorter wait than the policy's.
    pub expires_in: Option<Duration>,
    /// What follows when nobody answers, if not what the policy says.
    pub on_expiry: Option<OnExpiry>,
}

impl Engine {
    /// Opens a suspension, or finds the one that was opened with the same ids and gives it as it is now.
    ///
    /// # Errors
    /// When its JSON Schema is none, the ids were used for something else, the run or session is over, too
    /// much is open, or the store fails.
    pub async fn suspend(
        &self,
        policy: &Policy,
        request: SuspendRequest,
    ) -> Result<Suspension, EngineError> {
        let SuspendRequest {
            scope,
            wait,
            title,
            reason,
            expires_in,
            on_expiry,
        } = request;
        let kind = wait.matter.kind();
        let terms = policy.waits(kind);
        let key = CallKey::of_call(&scope, kind, &wait.call_id, &wait.step_id);
        let mut body = Body {
            scope,
            subject: Subject::Wait(Box::new(wait)),
            risk_class: None,
            title,
            reason,
            arguments_digest: None,
            on_expiry: on_expiry.unwrap_or(terms.on_expiry),
            approvers: ApproverRule::default(),
            matched_rule: String::new(),
            policy_revision: policy.revision().to_owned(),
        };
        let call = body.call();
        body.arguments_digest = call.map(|call| call.arguments.digest(call.tool.as_str()));
        if let Some(schema) = body.schema() {
            self.schemas.check_schema(schema).await?;
        }
        let expires = expires_in.map_or(terms.expires, |shorter| shorter.min(terms.expires));
        // Kept to compare with what is recorded, if anything is.
        let asked = body.clone();
        match self.open(policy, key, None, body, expires).await? {
            Met::Created(suspension) => Ok(suspension),
            Met::Existing(suspension, _) if !suspension.body.asks_the_same(&asked) => {
                Err(EngineError::CallIdReused(suspension.id))
            }
            Met::Existing(suspension, now) => {
                Ok(self.settle_found(policy, suspension, now).await?.0)
            }
            // No grant was looked for: it would be for calls that are judged.
            Met::Granted(_) => Err(EngineError::Contended),
            Met::Closed => Err(EngineError::Closed),
        }
    }
}
