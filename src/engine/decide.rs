//! Decide: may this run, must a person be asked, or is it refused? In the order of S3.

use std::time::Duration;

use super::decided::{Decided, Recorded};
use super::grants::{covers, key_of};
use super::judge::{Finding, Judged, unanswered, why_deny};
use super::opening::Met;
use super::{Engine, EngineError, Step, Trace};
use crate::domain::{ApprovalTerms, AskedCall, RunStart, Scope, Timestamp};
use crate::outcome::Outcome;
use crate::policy::{Policy, Untraced, Verdict};
use crate::store::CallKey;
use crate::suspension::{Body, Kind, Subject, Suspension};

/// What is to be decided.
#[derive(Clone, Debug)]
pub struct DecideRequest {
    /// Where, and on whose behalf.
    pub scope: Scope,
    /// What wants to happen.
    pub action: Action,
    /// A shorter wait than the policy's.
    pub expires_in: Option<Duration>,
    /// The call was asked about before: what is recorded for it answers first.
    pub resumed: bool,
    /// Decide and explain, but store nothing.
    pub dry_run: bool,
}

/// What wants to happen.
#[derive(Clone, Debug)]
pub enum Action {
    /// A tool call or a workflow step.
    Call(Box<AskedCall>),
    /// The start of a run.
    Run(RunStart),
}

impl Engine {
    /// Decides one call, step or run start. No store is touched unless review is needed or `resumed`
    /// is set.
    ///
    /// # Errors
    /// When the request asks for what cannot be, the call id was used for something else, too much is
    /// open, or the store is needed and fails: the call must not run then.
    pub async fn decide(
        &self,
        policy: &Policy,
        request: DecideRequest,
    ) -> Result<Decided, EngineError> {
        self.decide_traced(policy, request, &mut Untraced).await
    }

    /// As [`Engine::decide`]; `trace` hears each step.
    ///
    /// # Errors
    /// As [`Engine::decide`].
    pub async fn decide_traced(
        &self,
        policy: &Policy,
        request: DecideRequest,
        trace: &mut impl Trace,
    ) -> Result<Decided, EngineError> {
        match &request.action {
            Action::Call(asked) => self.decide_call(policy, &request, asked, trace).await,
            Action::Run(start) => Box::pin(self.decide_run(policy, &request, start)).await,
        }
    }

    async fn decide_call(
        &self,
        policy: &Policy,
        request: &DecideRequest,
        asked: &AskedCall,
        trace: &mut impl Trace,
    ) -> Result<Decided, EngineError> {
        let scope = &request.scope;
        let judged = Judged::new(policy, asked);
        let call = &*judged.call;
        // Hashed only where a store is asked.
        let key = || CallKey::of_call(scope, Kind::Approval, &call.call_id, &call.step_id);
        if request.resumed && key().is_none() {
            return Err(resumed_needs("a run id and a call id or step id"));
        }
        let class = judged.classification.class;
        if judged.is_a_wrappers() {
            trace.step(|| Step::Wrapper {
                wrapper: asked.call.tool.clone(),
                doubt: judged.doubt().map(ToString::to_string),
            });
        }
        trace.step(|| Step::Classified {
            tool: call.tool.clone(),
            class,
            basis: judged.classification.basis.clone(),
        });
        trace.step(|| Step::Selected {
            asks: judged.selection.asks,
            by: judged.selection.by.to_owned(),
        });
        let digest = call.arguments.digest(call.tool.as_str());
        let draft = Decided {
            risk_class: Some(class),
            judged_tool: Some(call.tool.clone()),
            selected_by: judged.selection.by.to_owned(),
            arguments_digest: Some(digest),
            warnings: judged.classification.warnings.clone(),
            ..Decided::allow(policy)
        };
        let body = |verdict: Option<&Verdict<'_>>| Body {
            scope: scope.clone(),
            subject: Subject::Call(Box::new(call.clone())),
            risk_class: Some(class),
            title: judged.title(),
            reason: judged.why_ask(verdict).into_owned(),
            arguments_digest: Some(digest),
            on_expiry: verdict.map(|v| v.terms.on_expiry).unwrap_or_default(),
            approvers: verdict
                .map(|v| v.terms.approvers.clone())
                .unwrap_or_default(),
            matched_rule: verdict.map_or("", |v| v.matched_rule).to_owned(),
            policy_revision: policy.revision().to_owned(),
        };
        if request.resumed
            && let Some(recorded) =
                Box::pin(self.recorded(policy, request, &key(), &body(None))).await?
        {
            return Ok(draft.with_recorded(recorded));
        }

        let verdict = self.verdict(policy, &judged, scope, trace).await;
        let verdict = verdict.unwrap_or_else(|error| unanswered(policy, error));
        let draft = Decided {
            matched_rule: verdict.matched_rule.to_owned(),
            ..draft
        };
        match judged.finding(&verdict) {
            Finding::Denied => {
                return Ok(draft.access_denied(why_deny(&verdict)));
            }
            Finding::Allowed => {
                return Ok(Decided {
                    reason: judged.why_allow(&verdict),
                    ..draft
                });
            }
            Finding::NeedsReview => {}
        }
        trace.step(|| Step::Review {
            in_program: call.in_program,
        });
        let body = body(Some(&verdict));
        // Boxed, so that a call that needs no person does not carry the room for one that does.
        Box::pin(self.review(
            policy,
            request,
            key(),
            body,
            verdict.terms,
            draft,
            call.in_program,
        ))
        .await
    }

    /// Somebody must be asked: what is recorded answers, else a suspension is opened (S3, steps 3 and
    /// 7 to 9).
    #[expect(
        clippy::too_many_arguments,
        reason = "two call sites, and each is one step's input"
    )]
    pub(super) async fn review(
        &self,
        policy: &Policy,
        request: &DecideRequest,
        key: Option<CallKey>,
        body: Body,
        terms: &ApprovalTerms,
        draft: Decided,
        in_program: bool,
    ) -> Result<Decided, EngineError> {
        let grant = key_of(&body);
        if in_program || request.dry_run {
            if key.is_some()
                && let Some(recorded) = self.recorded(policy, request, &key, &body).await?
            {
                return Ok(draft.with_recorded(recorded));
            }
            if in_program {
                return Ok(Decided {
                    outcome: Some(Outcome::approval_required_in_program()),
                    ..draft.denied(body.reason)
                });
            }
            let found = self.find(&request.scope, key.as_ref(), grant).await?;
            if found.closed {
                return Ok(draft.closed());
            }
            return Ok(match found.grant.filter(|grant| covers(grant, &body)) {
                Some(grant) => draft.granted(&grant),
                None => draft.suspended(body.reason, None),
            });
        }
        let expires = request
            .expires_in
            .map_or(terms.expires, |shorter| shorter.min(terms.expires));
        // Kept to compare with what is recorded, if anything is.
        let asked = body.clone();
        match self.open(policy, key, grant, body, expires).await? {
            Met::Created(suspension) => Ok(draft.suspended(asked.reason, Some(suspension))),
            Met::Existing(suspension, now) => {
                let recorded = self.answer(policy, request, &asked, suspension, now);
                Ok(draft.with_recorded(recorded.await?))
            }
            Met::Granted(grant) => Ok(draft.granted(&grant)),
            Met::Closed => Ok(draft.closed()),
        }
    }

    /// What is recorded for a call, if anything is.
    pub(super) async fn recorded(
        &self,
        policy: &Policy,
        request: &DecideRequest,
        key: &Option<CallKey>,
        body: &Body,
    ) -> Result<Option<Recorded>, EngineError> {
        let found = self.find(&request.scope, key.as_ref(), None).await?;
        match found.suspension {
            Some(suspension) => self
                .answer(policy, request, body, suspension, found.now)
                .await
                .map(Some),
            None => Ok(None),
        }
    }

    /// What a recorded suspension says, settled; it must have been opened for the same call.
    async fn answer(
        &self,
        policy: &Policy,
        request: &DecideRequest,
        body: &Body,
        mut suspension: Suspension,
        now: Timestamp,
    ) -> Result<Recorded, EngineError> {
        if !suspension.body.asks_the_same(body) {
            return Err(EngineError::CallIdReused(suspension.id));
        }
        if request.dry_run {
            if let Some(state) = suspension.settled(now) {
                suspension.state = state;
            }
            return Ok(Recorded::read(policy, suspension, now));
        }
        let (settled, now) = self.settle_found(policy, suspension, now).await?;
        Ok(Recorded::read(policy, settled, now))
    }
}

pub(super) fn resumed_needs(what: &str) -> EngineError {
    EngineError::Invalid {
        field: "resumed",
        message: format!("needs {what}: without them nothing can be recorded for the call"),
    }
}
