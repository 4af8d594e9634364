//! Decide, in the order of S3.

use assent::pb;
use tonic::Code;

use super::opening::{Met, shorter};
use super::rules::{Approvers, Finding, class_of};
use super::{
    Answer, Key, Plain, Refused, SOME_TEXT, answered, digest, invalid, refused, scope_of, ticks,
};

impl Plain {
    pub fn decide(&mut self, request: pb::DecideRequest) -> Answer {
        answered(self.try_decide(request))
    }

    fn try_decide(&mut self, request: pb::DecideRequest) -> Result<Answer, Refused> {
        let shorter = shorter(request.expires_in.as_ref())?;
        let scope = request.scope.clone().unwrap_or_default();
        let Some(pb::decide_request::Action::Call(call)) = request.action.clone() else {
            unreachable!("run starts need a port, which is not here")
        };
        if call.tool.is_empty() {
            return Err(invalid());
        }
        let kind = pb::SuspensionKind::Approval;
        let key = Self::key(&scope, kind, &call.call_id, &call.step_id);
        if request.resumed && key.is_none() {
            return Err(invalid());
        }
        let verdict = self.judge(&call.tool, call.annotations.as_ref(), &call.arguments_json);
        let asked = pb::Suspension {
            kind: kind.into(),
            scope: Some(scope.clone()),
            call_id: call.call_id.clone(),
            step_id: call.step_id.clone(),
            call: Some(call.clone()),
            risk_class: class_of(call.annotations.as_ref()).into(),
            title: SOME_TEXT.to_owned(),
            reason: verdict.reason.clone(),
            arguments_digest: digest(&call.tool, &call.arguments_json),
            on_expiry: verdict.terms.on_expiry.into(),
            approvers: verdict.terms.approvers.shown(),
            matched_rule: verdict.rule.to_owned(),
            policy_revision: self.revision().to_owned(),
            ..Default::default()
        };
        let draft = pb::DecideResponse {
            risk_class: asked.risk_class,
            judged_tool: call.tool.clone(),
            selected_by: verdict.selected_by.to_owned(),
            arguments_digest: asked.arguments_digest.clone(),
            policy_revision: asked.policy_revision.clone(),
            decision_id: SOME_TEXT.to_owned(),
            ..Default::default()
        };
        if request.resumed
            && let Some(found) = self.recorded(key.as_ref())
        {
            return self.by_record(found, &asked, draft, request.dry_run);
        }
        let draft = pb::DecideResponse {
            matched_rule: verdict.rule.to_owned(),
            ..draft
        };
        match verdict.finding {
            Finding::Deny => Ok(denied(draft, "access_denied", &verdict.reason)),
            Finding::Allow => Ok(decided(pb::DecideResponse {
                effect: pb::Effect::Allow.into(),
                reason: verdict.reason,
                ..draft
            })),
            Finding::Review => {
                let expires = verdict.terms.expires;
                let expires = shorter.map_or(expires, |shorter| shorter.min(expires));
                self.review(&request, key, asked, draft, expires)
            }
        }
    }

    fn review(
        &mut self,
        request: &pb::DecideRequest,
        key: Option<Key>,
        asked: pb::Suspension,
        draft: pb::DecideResponse,
        expires: i64,
    ) -> Result<Answer, Refused> {
        let found = self.recorded(key.as_ref());
        if let Some(found) = found {
            return self.by_record(found, &asked, draft, request.dry_run);
        }
        if asked.call.as_ref().unwrap().in_program {
            let kind = "approval_required_in_program";
            return Ok(denied(draft, kind, &asked.reason));
        }
        let reason = asked.reason.clone();
        let met = if request.dry_run {
            if self.is_over(scope_of(&asked)) {
                Met::Over
            } else if let Some(grant) = self.covering(&asked) {
                Met::Granted(grant)
            } else {
                return Ok(suspended(draft, &reason, None));
            }
        } else {
            self.open(key, asked, None, expires)?
        };
        Ok(match met {
            Met::Created(index) => {
                suspended(draft, &reason, Some(self.records[index].shown.clone()))
            }
            Met::Existing(_) => unreachable!("it was looked for"),
            Met::Granted(grant_id) => decided(pb::DecideResponse {
                effect: pb::Effect::Allow.into(),
                reason: SOME_TEXT.to_owned(),
                grant_id,
                ..draft
            }),
            Met::Over => denied(draft, "cancelled", SOME_TEXT),
        })
    }

    /// What is recorded for the very same call answers.
    fn by_record(
        &mut self,
        found: usize,
        asked: &pb::Suspension,
        draft: pb::DecideResponse,
        dry_run: bool,
    ) -> Result<Answer, Refused> {
        let (mine, theirs) = (
            self.records[found].shown.call.as_ref().unwrap(),
            asked.call.as_ref().unwrap(),
        );
        let same = mine.tool == theirs.tool
            && mine.server == theirs.server
            && self.records[found].shown.arguments_digest == asked.arguments_digest;
        if !same {
            return Err(refused(Code::AlreadyExists, "CALL_ID_REUSED"));
        }
        // A dry run tells what is, and stores nothing.
        let shown = if dry_run {
            self.as_settled(found)
        } else {
            self.settle(found);
            self.records[found].shown.clone()
        };
        let said = shown.resolution.as_ref().map_or("", |r| r.reason.as_str());
        let reason = if said.is_empty() {
            shown.reason.clone()
        } else {
            said.to_owned()
        };
        let matched_rule = if draft.matched_rule.is_empty() {
            shown.matched_rule.clone()
        } else {
            draft.matched_rule.clone()
        };
        let draft = pb::DecideResponse {
            matched_rule,
            ..draft
        };
        let kind = shown
            .resolution
            .as_ref()
            .map_or("", |r| r.kind.as_str())
            .to_owned();
        let refusal = match (shown.status(), shown.execution()) {
            (pb::SuspensionStatus::Pending, _) => None,
            (pb::SuspensionStatus::Approved, pb::Execution::Voided) => Some("cancelled"),
            (pb::SuspensionStatus::Approved, _) if self.is_stale(&shown) => Some("expired"),
            (pb::SuspensionStatus::Approved, _) => None,
            _ => Some(kind.as_str()),
        };
        Ok(match refusal {
            None => suspended(draft, &reason, Some(shown)),
            Some(kind) => denied(
                pb::DecideResponse {
                    suspension: Some(shown.clone()),
                    ..draft
                },
                kind,
                &reason,
            ),
        })
    }

    /// A live grant that covers the call as it is asked about now.
    pub(super) fn covering(&self, asked: &pb::Suspension) -> Option<String> {
        let scope = scope_of(asked);
        let call = asked.call.as_ref()?;
        if asked.kind() != pb::SuspensionKind::Approval || scope.session_id.is_empty() {
            return None;
        }
        let rule = Approvers::of(asked.approvers.as_ref());
        let grant = self.grants.iter().find(|grant| {
            let held = grant.scope.as_ref().unwrap();
            ticks(&grant.expire_time) > self.now
                && held.tenant == scope.tenant
                && held.session_id == scope.session_id
                && principal(held) == principal(scope)
                && held.agent_path == scope.agent_path
                && grant.tool == call.tool
                && grant.server == call.server
                && grant.arguments_digest == asked.arguments_digest
                && grant.policy_revision == self.revision()
        })?;
        let given = self
            .records
            .iter()
            .find(|record| record.shown.id == grant.suspension_id)
            .unwrap();
        let roles = &given.shown.resolution.as_ref().unwrap().by_roles;
        let covers = asked.risk_class <= given.shown.risk_class
            && rule.quorum <= 1
            && rule.admits(principal(scope), &grant.by, roles);
        covers.then(|| grant.id.clone())
    }
}

pub(super) fn principal(scope: &pb::Scope) -> &str {
    scope
        .principal
        .as_ref()
        .map_or("", |principal| principal.id.as_str())
}

fn decided(response: pb::DecideResponse) -> Answer {
    Answer::Decided(Box::new(response))
}

fn suspended(
    draft: pb::DecideResponse,
    reason: &str,
    suspension: Option<pb::Suspension>,
) -> Answer {
    decided(pb::DecideResponse {
        effect: pb::Effect::Suspend.into(),
        kind: "suspended".to_owned(),
        reason: reason.to_owned(),
        message_for_model: "waits".to_owned(),
        suspension,
        ..draft
    })
}

fn denied(draft: pb::DecideResponse, kind: &str, reason: &str) -> Answer {
    decided(pb::DecideResponse {
        effect: pb::Effect::Deny.into(),
        kind: kind.to_owned(),
        reason: reason.to_owned(),
        message_for_model: "refused".to_owned(),
        retryable: retryable(kind),
        ..draft
    })
}

/// S7's column.
pub(super) fn retryable(kind: &str) -> bool {
    matches!(kind, "expired" | "approval_required_in_program")
}
