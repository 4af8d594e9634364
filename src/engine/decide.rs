//! Decide: may this run, must a person be asked, or is it refused? In the order of S3.

use std::borrow::Cow;
use std::time::Duration;

use uuid::Uuid;

use super::{Engine, EngineError, MAX_ATTEMPTS};
use crate::arguments::Digest;
use crate::domain::{ApprovalTerms, Decision, Id, RiskClass, RunStart, Scope, Timestamp, ToolCall};
use crate::outcome::Outcome;
use crate::policy::{Facts, Policy, Verdict};
use crate::store::{CallKey, Found, Opened, Opening, Place};
use crate::suspension::{
    Body, Execution, Kind, PARTITIONS, Status, Subject, Suspension, SuspensionId,
};

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
    Call(Box<ToolCall>),
    /// The start of a run.
    Run(RunStart),
}

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
    /// The tool that was judged; none for a run start.
    pub judged_tool: Option<Id>,
    /// What in policy decided: a rule id, `default`, `mode`, or empty.
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
        match &request.action {
            Action::Call(call) => self.decide_call(policy, &request, call).await,
            Action::Run(start) => Box::pin(self.decide_run(policy, &request, start)).await,
        }
    }

    async fn decide_call(
        &self,
        policy: &Policy,
        request: &DecideRequest,
        call: &ToolCall,
    ) -> Result<Decided, EngineError> {
        let scope = &request.scope;
        // Hashed only where a store is asked.
        let key = || CallKey::of_call(scope, Kind::Approval, &call.call_id, &call.step_id);
        if request.resumed && key().is_none() {
            return Err(resumed_needs("a run id and a call id or step id"));
        }
        let classification = policy.classify(call);
        let class = classification.class;
        let selection = policy.select(call.tool.as_str(), class);
        let digest = call.arguments.digest(call.tool.as_str());
        let draft = Decided {
            risk_class: Some(class),
            judged_tool: Some(call.tool.clone()),
            selected_by: selection.by.to_owned(),
            arguments_digest: Some(digest),
            warnings: classification.warnings,
            ..Decided::allow(policy)
        };
        let asked = |verdict: Option<&Verdict<'_>>| {
            let verdict_reason = verdict.and_then(|v| v.reason.as_deref());
            let asks = verdict.is_some_and(|v| v.decision == Decision::Ask);
            let rule = verdict.map_or("", |v| v.matched_rule);
            Body {
                scope: scope.clone(),
                subject: Subject::Call(Box::new(call.clone())),
                risk_class: Some(class),
                title: title(call),
                reason: why_ask(asks, verdict_reason, rule, selection.by, class).into_owned(),
                arguments_digest: Some(digest),
                on_expiry: verdict.map(|v| v.terms.on_expiry).unwrap_or_default(),
                approvers: verdict
                    .map(|v| v.terms.approvers.clone())
                    .unwrap_or_default(),
                matched_rule: rule.to_owned(),
                policy_revision: policy.revision().to_owned(),
            }
        };
        if request.resumed
            && let Some(recorded) =
                Box::pin(self.recorded(policy, request, &key(), &asked(None))).await?
        {
            return Ok(draft.with_recorded(recorded));
        }

        let verdict = policy.evaluate(&Facts {
            call,
            class,
            scope,
            now: (self.clock)(),
        });
        let draft = Decided {
            matched_rule: verdict.matched_rule.to_owned(),
            ..draft
        };
        match verdict.decision {
            Decision::Deny => {
                let reason = why_deny(&verdict);
                return Ok(Decided {
                    outcome: Some(Outcome::access_denied(&reason)),
                    ..draft.denied(reason)
                });
            }
            Decision::Allow if !selection.asks => {
                return Ok(Decided {
                    reason: why_allow(&verdict, selection.by),
                    ..draft
                });
            }
            Decision::Allow | Decision::Ask => {}
        }
        let body = asked(Some(&verdict));
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

    /// A run start is for the policy port, which this version does not ask: it is allowed, unless
    /// something else was recorded for it.
    async fn decide_run(
        &self,
        policy: &Policy,
        request: &DecideRequest,
        start: &RunStart,
    ) -> Result<Decided, EngineError> {
        let draft = Decided::allow(policy);
        if !request.resumed {
            return Ok(draft);
        }
        let key = CallKey::of_run_start(&request.scope);
        if key.is_none() {
            return Err(resumed_needs("a run id"));
        }
        let body = Body {
            scope: request.scope.clone(),
            subject: Subject::Run(start.clone()),
            risk_class: None,
            title: String::new(),
            reason: String::new(),
            arguments_digest: None,
            on_expiry: Default::default(),
            approvers: Default::default(),
            matched_rule: String::new(),
            policy_revision: policy.revision().to_owned(),
        };
        Ok(match self.recorded(policy, request, &key, &body).await? {
            Some(recorded) => draft.with_recorded(recorded),
            None => draft,
        })
    }

    /// Somebody must be asked: what is recorded answers, else a suspension is opened (S3, steps 3 and
    /// 7 to 9).
    #[expect(
        clippy::too_many_arguments,
        reason = "one call site, and each is one step's input"
    )]
    async fn review(
        &self,
        policy: &Policy,
        request: &DecideRequest,
        key: Option<CallKey>,
        body: Body,
        terms: &ApprovalTerms,
        draft: Decided,
        in_program: bool,
    ) -> Result<Decided, EngineError> {
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
            if self.find(&request.scope, key.as_ref()).await?.closed {
                return Ok(draft.closed());
            }
            return Ok(draft.suspended(body.reason, None));
        }
        if let Err(full) = self.check_tenant(policy, &request.scope.tenant).await {
            // What is recorded, or over, answers before a limit does.
            let found = self.find(&request.scope, key.as_ref()).await?;
            return match found.suspension {
                Some(suspension) => {
                    let recorded = self.answer(policy, request, &body, suspension, found.now);
                    Ok(draft.with_recorded(recorded.await?))
                }
                None if found.closed => Ok(draft.closed()),
                None => Err(full),
            };
        }
        let random = Uuid::new_v4();
        let [first, ..] = *random.as_bytes();
        let place = Place::of(&request.scope, first % PARTITIONS);
        let id = SuspensionId::new(Uuid::new_v4(), place.partition);
        let limit = policy.limits().pending_per_session;
        let expires = request
            .expires_in
            .map_or(terms.expires, |shorter| shorter.min(terms.expires));
        let opening = Opening {
            id,
            place,
            key,
            body,
            expires,
            retention: policy.retention(),
            limit,
        };
        match self.store.open(&opening).await? {
            Opened::Created(suspension) => {
                Ok(draft.suspended(opening.body.reason, Some(suspension)))
            }
            Opened::Existing(suspension, now) => {
                let recorded = self
                    .answer(policy, request, &opening.body, suspension, now)
                    .await?;
                Ok(draft.with_recorded(recorded))
            }
            Opened::Closed => Ok(draft.closed()),
            Opened::Full => Err(EngineError::TooManyPending {
                whose: if request.scope.session_id.is_empty() {
                    "the run"
                } else {
                    "the session"
                },
                limit,
            }),
        }
    }

    async fn find(&self, scope: &Scope, key: Option<&CallKey>) -> Result<Found, EngineError> {
        Ok(self.store.find(&Place::of(scope, 0), key).await?)
    }

    /// What is recorded for a call, if anything is.
    async fn recorded(
        &self,
        policy: &Policy,
        request: &DecideRequest,
        key: &Option<CallKey>,
        body: &Body,
    ) -> Result<Option<Recorded>, EngineError> {
        let found = self.find(&request.scope, key.as_ref()).await?;
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
        mut now: Timestamp,
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
        let id = suspension.id;
        for _ in 0..MAX_ATTEMPTS {
            match self.settle(policy, suspension, now).await? {
                Some(settled) => return Ok(Recorded::read(policy, settled, now)),
                None => (suspension, now) = self.read(id).await?,
            }
        }
        Err(EngineError::Contended)
    }
}

/// What a recorded suspension makes of the call it was opened for.
struct Recorded {
    effect: Effect,
    outcome: Outcome,
    suspension: Suspension,
}

impl Recorded {
    fn read(policy: &Policy, suspension: Suspension, now: Timestamp) -> Self {
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
    fn allow(policy: &Policy) -> Self {
        Self {
            effect: Effect::Allow,
            outcome: None,
            reason: String::new(),
            risk_class: None,
            suspension: None,
            judged_tool: None,
            matched_rule: String::new(),
            selected_by: String::new(),
            arguments_digest: None,
            policy_revision: policy.revision().to_owned(),
            decision_id: Uuid::new_v4(),
            warnings: Vec::new(),
        }
    }

    fn denied(self, reason: String) -> Self {
        Self {
            effect: Effect::Deny,
            reason,
            ..self
        }
    }

    fn suspended(self, reason: String, suspension: Option<Suspension>) -> Self {
        Self {
            effect: Effect::Suspend,
            outcome: Some(Outcome::suspended(&reason)),
            reason,
            suspension,
            ..self
        }
    }

    /// Its run or session is over.
    fn closed(self) -> Self {
        Self {
            outcome: Some(Outcome::cancelled("its run or session is over")),
            ..self.denied("its run or session is over".to_owned())
        }
    }

    fn with_recorded(self, recorded: Recorded) -> Self {
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

fn resumed_needs(what: &str) -> EngineError {
    EngineError::Invalid {
        field: "resumed",
        message: format!("needs {what}: without them nothing can be recorded for the call"),
    }
}

/// What people call the call: its title, else its tool.
fn title(call: &ToolCall) -> String {
    match &call.annotations {
        Some(annotations) if !annotations.title.is_empty() => annotations.title.clone(),
        Some(_) | None => call.tool.to_string(),
    }
}

fn why_ask<'a>(
    policy_asks: bool,
    reason: Option<&'a str>,
    rule: &str,
    selected_by: &str,
    class: RiskClass,
) -> Cow<'a, str> {
    match (policy_asks, reason) {
        (true, Some(reason)) => Cow::Borrowed(reason),
        (true, None) => Cow::Owned(match rule {
            "default" => "the policy's default asks for approval".to_owned(),
            "mode" => "the policy's mode asks for approval of every call".to_owned(),
            rule => format!("rule `{rule}` asks for approval"),
        }),
        (false, _) => Cow::Owned(format!(
            "the call is {class} and `{selected_by}` asks for approval"
        )),
    }
}

/// Why policy refuses, also where no rule gives a reason.
pub(super) fn why_deny(verdict: &Verdict<'_>) -> String {
    match (&verdict.reason, verdict.matched_rule) {
        (Some(reason), _) => reason.to_string(),
        (None, "default") => "no rule matches it, and the policy's default denies".to_owned(),
        (None, "mode") => "the policy's mode denies every call".to_owned(),
        (None, rule) => format!("rule `{rule}` denies it"),
    }
}

fn why_allow(verdict: &Verdict<'_>, selected_by: &str) -> String {
    match &verdict.reason {
        Some(reason) => reason.to_string(),
        None if selected_by.is_empty() => String::new(),
        None => format!("`{selected_by}` exempts it from review"),
    }
}
