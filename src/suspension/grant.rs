//! Session grants: approvals that hold for the same call again (S8).
//!
//! Pure, as the state machine is. What a grant is found by is the store's affair (`store/key.rs`); what
//! else must hold before it lets a call through is decided here.

use serde::{Deserialize, Serialize};

use super::resolution::may_answer;
use super::{GrantId, Reply, Suspension, SuspensionId};
use crate::arguments::Digest;
use crate::domain::{ApproverRule, Id, RiskClass, Scope, Timestamp};

/// Leave to make the same call again without asking, for some time.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// Its id, minted by the server, in the partition of its session.
    pub id: GrantId,
    /// What it lets through, and who gave it.
    pub leave: Leave,
    /// When it was given, by the store's clock.
    pub create_time: Timestamp,
    /// When it ends, or ended: at this moment it covers nothing any more.
    pub expire_time: Timestamp,
}

/// What a grant lets through, and who gave it; never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leave {
    /// Whose calls: those of this tenant, session, principal and agent path, in any run.
    pub scope: Scope,
    /// Of this tool.
    pub tool: Id,
    /// Of this server; empty for calls without one.
    pub server: Id,
    /// With these arguments.
    pub arguments_digest: Digest,
    /// As long as they are of no stricter class than this.
    pub risk_class: RiskClass,
    /// Under this revision of the policy, which asked the question that was answered.
    pub policy_revision: String,
    /// Who gave it, in the caller's terms.
    pub by: Id,
    /// The roles the caller vouched for.
    pub by_roles: Vec<String>,
    /// The suspension whose approval gave it.
    pub suspension_id: SuspensionId,
}

impl Leave {
    /// The leave that an approval for the session gives. `None` where there is nothing that it could hold
    /// for: a suspension that is no call, or of no session.
    pub fn given(suspension: &Suspension, reply: &Reply) -> Option<Self> {
        let body = &suspension.body;
        let call = body.call()?;
        if body.scope.session_id.is_empty() {
            return None;
        }
        Some(Self {
            scope: Scope {
                run_id: Id::default(),
                parent_run_id: Id::default(),
                ..body.scope.clone()
            },
            tool: call.tool.clone(),
            server: call.server.clone(),
            arguments_digest: body.arguments_digest?,
            risk_class: body.risk_class?,
            policy_revision: body.policy_revision.clone(),
            by: reply.by.clone(),
            by_roles: reply.by_roles.clone(),
            suspension_id: suspension.id,
        })
    }

    /// Whether it covers a call that is found to be the same, but is of this class now and would need
    /// these approvers: the one who gave it must be enough of them.
    pub fn covers(&self, class: RiskClass, approvers: &ApproverRule) -> bool {
        class <= self.risk_class
            && approvers.quorum <= 1
            && may_answer(
                approvers,
                &self.scope.principal.id,
                &self.by,
                &self.by_roles,
            )
    }
}
