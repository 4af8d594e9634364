//! What policy makes of a call (S3, steps 2, 4 and 5): the one place where Decide, edited arguments and Claim
//! ask, so that the three can never differ.

use std::borrow::Cow;

use super::port::POLICY_PORT;
use super::{Engine, EngineError, PortAnswer, PortError, Question, Step, Trace, refused};
use crate::classify::Classification;
use crate::domain::{AskedCall, Decision, Scope, ToolCall};
use crate::policy::{Facts, Policy, Resolved, Selection, Unresolved, Untraced, Verdict};
use crate::suspension::{Refusal, Subject, Suspension};

/// A call as policy judges it, and what that needs no asking for.
pub struct Judged<'c, 'p> {
    /// The call: for a wrapper call, the one that it makes.
    pub call: Cow<'c, ToolCall>,
    /// Its class, and why; its warnings say why it is not known for sure which call a wrapper makes.
    pub classification: Classification,
    /// What the selectors say of it; a wrapper call that is not known for sure needs review whatever they say.
    pub selection: Selection<'p>,
    doubt: Option<Unresolved>,
    policy: &'p Policy,
}

/// What is to become of a call, recorded answers and grants aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// It may run.
    Allowed,
    /// A person must be asked.
    NeedsReview,
    /// Policy refuses it.
    Denied,
}

impl Finding {
    /// What the port's word on a run start comes to.
    fn of_run(decision: Decision) -> Self {
        match decision {
            Decision::Allow => Self::Allowed,
            Decision::Ask => Self::NeedsReview,
            Decision::Deny => Self::Denied,
        }
    }
}

impl<'c, 'p> Judged<'c, 'p> {
    /// Finds the call that is to be judged, classifies it and asks the selectors.
    pub fn new(policy: &'p Policy, asked: &'c AskedCall) -> Self {
        Self::of(policy, policy.resolve(asked))
    }

    /// As [`Judged::new`], for the call of a suspension.
    pub(super) fn again(policy: &'p Policy, call: &'c ToolCall) -> Self {
        Self::of(policy, policy.resolve_again(call))
    }

    fn of(policy: &'p Policy, Resolved { call, doubt }: Resolved<'c>) -> Self {
        let mut classification = policy.classify(&call);
        let mut selection = policy.select(call.tool.as_str(), classification.class);
        if call.unresolved().is_some() && !selection.asks {
            selection = Selection { asks: true, by: "" };
        }
        classification
            .warnings
            .extend(doubt.as_ref().map(Unresolved::to_string));
        Self {
            call,
            classification,
            selection,
            doubt,
            policy,
        }
    }

    /// Whether a wrapper was called, and another call is judged in its place.
    pub(super) fn is_a_wrappers(&self) -> bool {
        matches!(self.call, Cow::Owned(_))
    }

    /// Why it is not known for sure what a wrapper would run.
    pub(super) fn doubt(&self) -> Option<&Unresolved> {
        self.doubt.as_ref()
    }

    /// What verdict and selectors come to.
    pub(super) fn finding(&self, verdict: &Verdict<'_>) -> Finding {
        match verdict.decision {
            Decision::Deny => Finding::Denied,
            Decision::Allow if !self.selection.asks => Finding::Allowed,
            Decision::Allow | Decision::Ask => Finding::NeedsReview,
        }
    }

    /// What people call the call: its title, else its tool.
    pub(super) fn title(&self) -> String {
        match self.policy.title(&self.call) {
            "" => self.call.tool.to_string(),
            title => title.to_owned(),
        }
    }

    /// Why a person is asked; without a verdict, why the selectors would ask.
    pub(super) fn why_ask<'a>(&self, verdict: Option<&'a Verdict<'_>>) -> Cow<'a, str> {
        let asks = verdict.filter(|verdict| verdict.decision == Decision::Ask);
        let why = asks.map(|verdict| match (&verdict.reason, verdict.matched_rule) {
            (Some(reason), _) => Cow::Borrowed(reason.as_ref()),
            (None, "default") => "the policy's default asks for approval".into(),
            (None, "mode") => "the policy's mode asks for approval of every call".into(),
            (None, rule) => format!("rule `{rule}` asks for approval").into(),
        });
        match (why, &self.doubt) {
            (Some(why), None) => why,
            // Whoever approves must know.
            (Some(why), Some(doubt)) => format!("{why}; {doubt}").into(),
            (None, Some(doubt)) => doubt.to_string().into(),
            (None, None) => Cow::Owned(format!(
                "the call is {} and `{}` asks for approval",
                self.classification.class, self.selection.by
            )),
        }
    }

    /// Why the call may run; empty where nothing said so.
    pub(super) fn why_allow(&self, verdict: &Verdict<'_>) -> String {
        match &verdict.reason {
            Some(reason) => reason.to_string(),
            None if self.selection.by.is_empty() => String::new(),
            None => format!("`{}` exempts it from review", self.selection.by),
        }
    }
}

/// The verdict on a call that the port could not speak of.
pub(super) fn unanswered(policy: &Policy, error: PortError) -> Verdict<'_> {
    Verdict {
        decision: Decision::Deny,
        matched_rule: POLICY_PORT,
        reason: Some(error.to_string().into()),
        terms: policy.approval(),
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

impl Engine {
    /// Asks policy about a judged call: the rules, and the port unless they deny.
    ///
    /// # Errors
    /// When the port could not say; what that comes to is the caller's affair, and is never an allow.
    pub(super) async fn verdict<'p>(
        &self,
        policy: &'p Policy,
        judged: &Judged<'_, '_>,
        scope: &Scope,
        trace: &mut impl Trace,
    ) -> Result<Verdict<'p>, PortError> {
        let call = &*judged.call;
        let class = judged.classification.class;
        let facts = Facts {
            call,
            class,
            scope,
            now: (self.clock)(),
        };
        let rules = policy.evaluate_traced(&facts, trace);
        trace.step(|| Step::Rules {
            decision: rules.decision,
            by: rules.matched_rule.to_owned(),
            reason: rules.reason.as_deref().map(str::to_owned),
        });
        if rules.decision == Decision::Deny {
            return Ok(rules);
        }
        let question = Question::Tool { scope, call, class };
        let answer = self.ask_port(policy, question).await;
        match &answer {
            Ok(None) => {}
            Ok(Some(answer)) => trace.step(|| Step::Port(answer.clone())),
            Err(error) => trace.step(|| Step::Port(PortAnswer::denial(*error))),
        }
        Ok(match answer? {
            Some(answer) => answer.beside(rules),
            None => rules,
        })
    }

    /// Asks policy about what an approval would run, with the scope it was asked in: the edited
    /// arguments if there are any. About a run start only the port is asked.
    ///
    /// # Errors
    /// When policy refuses it now, asks for more than this approval gives, or the port cannot say.
    pub(super) async fn judge_again(
        &self,
        policy: &Policy,
        suspension: &Suspension,
    ) -> Result<(), EngineError> {
        let scope = &suspension.body.scope;
        let (finding, why_deny, approvers) = match &suspension.body.subject {
            Subject::Call(call) => {
                let arguments = suspension.approved_arguments().unwrap_or(&call.arguments);
                let call = ToolCall {
                    arguments: arguments.clone(),
                    ..ToolCall::clone(call)
                };
                let judged = Judged::again(policy, &call);
                let verdict = self.verdict(policy, &judged, scope, &mut Untraced).await?;
                let finding = judged.finding(&verdict);
                (finding, why_deny(&verdict), &verdict.terms.approvers)
            }
            Subject::Run(start) => {
                let question = Question::Run { scope, start };
                let Some(answer) = self.ask_port(policy, question).await? else {
                    return Ok(());
                };
                let finding = Finding::of_run(answer.decision);
                (finding, answer.into_reason(), &policy.approval().approvers)
            }
            // What is no approval is never approved, and so nothing may run under it.
            Subject::Wait(_) => return Err(refused(Refusal::NotApproved, suspension.clone())),
        };
        match finding {
            Finding::Denied => Err(EngineError::PolicyDenied(why_deny)),
            Finding::NeedsReview if !suspension.meets(approvers) => {
                Err(EngineError::ApprovalInsufficient)
            }
            Finding::NeedsReview | Finding::Allowed => Ok(()),
        }
    }
}
