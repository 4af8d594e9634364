//! What Decide answers, and how an answer is put together. Nothing is decided here.

use uuid::Uuid;

use super::OVER;
use crate::arguments::Digest;
use crate::domain::{Id, RiskClass, Timestamp};
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::suspension::{Execution, Grant, GrantId, Status, Suspension};

/// What the client is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Run it now.
    Allow,
    /// Do not run it.
    Deny,
    /// Wait for the suspension, then claim it.
    Suspend,
}

/// A decision, and why.
#[derive(Clone, Debug)]
pub struct Decided {
    /// What to do.
    pub effect: Effect,
    /// What the model is told; none on allow.
    pub outcome: Option<Outcome>,
    /// Why, for people.
    pub reason: String,
    /// The class of the call; none for a run start.
    pub risk_class: Option<RiskClass>,
    /// The suspension that waits or answered.
    pub suspension: Option<Suspension>,
    /// The grant that let the call through without asking.
    pub grant_id: Option<GrantId>,
    /// The tool that was judged; none for a run start.
    pub judged_tool: Option<Id>,
    /// What in policy decided: a rule id, `default`, `mode`, `policy_port`, or empty.
    pub matched_rule: String,
    /// What selected or exempted the call.
    pub selected_by: String,
    /// The digest of tool and arguments; none for a run start.
    pub arguments_digest: Option<Digest>,
    /// The policy that was used.
    pub policy_revision: String,
    /// This decision's own id.
    pub decision_id: Uuid,
    /// What was doubtful in the request.
    pub warnings: Vec<String>,
}

/// What a recorded suspension makes of the call it was opened for.
pub(super) struct Recorded {
    effect: Effect,
    outcome: Outcome,
    suspension: Suspension,
}

impl Recorded {
    pub(super) fn read(policy: &Policy, suspension: Suspension, now: Timestamp) -> Self {
        let state = &suspension.state;
        let resolved = || {
            let resolution = state.resolution.as_ref();
            let outcome = resolution.and_then(|resolution| resolution.outcome.clone());
            outcome.unwrap_or_else(|| Outcome::cancelled(""))
        };
        let (effect, outcome) = match (state.status, state.execution) {
            (Status::Pending, _) => (Effect::Suspend, Outcome::suspended(&suspension.body.reason)),
            (Status::Approved, Execution::Voided) => {
                let reason = state.withdrawal.as_ref().map_or("", |w| w.reason.as_str());
                (Effect::Deny, Outcome::cancelled(reason))
            }
            (Status::Approved, _) if suspension.is_stale(now, policy.claim_within()) => {
                (Effect::Deny, Outcome::too_old())
            }
            (Status::Approved, _) => (Effect::Suspend, Outcome::approved()),
            (Status::Denied | Status::Expired | Status::Cancelled | Status::Answered, _) => {
                (Effect::Deny, resolved())
            }
        };
        Self {
            effect,
            outcome,
            suspension,
        }
    }
}

impl Decided {
    pub(super) fn allow(policy: &Policy) -> Self {
        Self {
            effect: Effect::Allow,
            outcome: None,
            reason: String::new(),
            risk_class: None,
            suspension: None,
            grant_id: None,
            judged_tool: None,
            matched_rule: String::new(),
            selected_by: String::new(),
            arguments_digest: None,
            policy_revision: policy.revision().to_owned(),
            decision_id: Uuid::new_v4(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn denied(self, reason: String) -> Self {
        Self {
            effect: Effect::Deny,
            reason,
            ..self
        }
    }

    /// Policy refuses it.
    pub(super) fn access_denied(self, reason: String) -> Self {
        Self {
            outcome: Some(Outcome::access_denied(&reason)),
            ..self.denied(reason)
        }
    }

    pub(super) fn suspended(self, reason: String, suspension: Option<Suspension>) -> Self {
        Self {
            effect: Effect::Suspend,
            outcome: Some(match suspension {
                Some(_) => Outcome::suspended(&reason),
                None => Outcome::would_suspend(&reason),
            }),
            reason,
            suspension,
            ..self
        }
    }

    /// A grant covers it.
    pub(super) fn granted(self, grant: &Grant) -> Self {
        Self {
            reason: format!("`{}` has granted it for the session", grant.leave.by),
            grant_id: Some(grant.id),
            ..self
        }
    }

    /// Its run or session is over.
    pub(super) fn closed(self) -> Self {
        Self {
            outcome: Some(Outcome::cancelled(OVER)),
            ..self.denied(OVER.to_owned())
        }
    }

    pub(super) fn with_recorded(self, recorded: Recorded) -> Self {
        let Recorded {
            effect,
            outcome,
            suspension,
        } = recorded;
        let said = suspension.state.resolution.as_ref().map(|r| &r.reason);
        let reason = match said {
            Some(said) if !said.is_empty() => said.clone(),
            Some(_) | None => suspension.body.reason.clone(),
        };
        let matched_rule = if self.matched_rule.is_empty() {
            suspension.body.matched_rule.clone()
        } else {
            self.matched_rule
        };
        Self {
            effect,
            outcome: Some(outcome),
            reason,
            matched_rule,
            suspension: Some(suspension),
            ..self
        }
    }
}
