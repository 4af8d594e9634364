//! Decide for the start of a run (S3): only the operator's own authorization speaks of it. Rules, selectors, default and
//! mode are for calls, and without a port every run may start.

use super::decide::{DecideRequest, resumed_needs};
use super::decided::Decided;
use super::port::{POLICY_PORT, PortAnswer};
use super::{Engine, EngineError, Question};
use crate::domain::{Decision, RunStart};
use crate::policy::Policy;
use crate::store::CallKey;
use crate::suspension::{Body, Subject};

impl Engine {
    /// Decides one run start. What is recorded for the run answers first where `resumed` says that it was asked about.
    ///
    /// # Errors
    /// As [`Engine::decide`].
    pub(super) async fn decide_run(
        &self,
        policy: &Policy,
        request: &DecideRequest,
        start: &RunStart,
    ) -> Result<Decided, EngineError> {
        let draft = Decided::allow(policy);
        let key = CallKey::of_run_start(&request.scope);
        let terms = policy.approval();
        let asked = |reason: String| Body {
            scope: request.scope.clone(),
            subject: Subject::Run(start.clone()),
            risk_class: None,
            title: title(start),
            reason,
            arguments_digest: None,
            on_expiry: terms.on_expiry,
            approvers: terms.approvers.clone(),
            matched_rule: POLICY_PORT.to_owned(),
            policy_revision: policy.revision().to_owned(),
        };
        if request.resumed {
            if key.is_none() {
                return Err(resumed_needs("a run id"));
            }
            let body = asked(String::new());
            if let Some(recorded) = self.recorded(policy, request, &key, &body).await? {
                return Ok(draft.with_recorded(recorded));
            }
        }
        let question = Question::Run {
            scope: &request.scope,
            start,
        };
        let answer = self.ask_port(policy, question).await;
        let Some(answer) = answer.unwrap_or_else(|error| Some(PortAnswer::denial(error))) else {
            return Ok(draft);
        };
        let draft = Decided {
            matched_rule: POLICY_PORT.to_owned(),
            ..draft
        };
        let decision = answer.decision;
        let reason = answer.into_reason();
        match decision {
            Decision::Allow => Ok(Decided { reason, ..draft }),
            Decision::Deny => Ok(draft.access_denied(reason)),
            Decision::Ask => {
                let body = asked(reason);
                self.review(policy, request, key, body, terms, draft, false)
                    .await
            }
        }
    }
}

/// What people call it.
fn title(start: &RunStart) -> String {
    if start.version.is_empty() {
        "start of a run".to_owned()
    } else {
        format!("start of a run, version {}", start.version)
    }
}
