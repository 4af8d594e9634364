//! What a decision goes through, told step by step to whoever wants to hear it (S3).
//!
//! Deciding is generic over its listener: `assent explain` hears the decision itself, and a server that hears nothing
//! pays nothing.

use std::borrow::Cow;

use super::PortAnswer;
use crate::domain::{Decision, Id, RiskClass};
use crate::policy::{RuleStep, RuleTrace, Untraced};

/// Hears the steps of one decision, in their order.
pub trait Trace: RuleTrace + Send {
    /// A step was taken. `step` is called by those who want to know.
    fn step(&mut self, step: impl FnOnce() -> Step);
}

impl Trace for Untraced {
    fn step(&mut self, _: impl FnOnce() -> Step) {}
}

/// One step of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A wrapper was called, and another call is judged in its place (S3 step 2).
    Wrapper {
        /// The tool that was called.
        wrapper: Id,
        /// Why it is not known for sure which call that is.
        doubt: Option<String>,
    },
    /// The call got its class (S1).
    Classified {
        /// The tool that is judged.
        tool: Id,
        /// The class.
        class: RiskClass,
        /// Which claim decided.
        basis: Cow<'static, str>,
    },
    /// Selectors, `always` and `never` were asked (S2).
    Selected {
        /// Whether they ask for a person.
        asks: bool,
        /// Which of them says so; empty when none speaks of the call.
        by: String,
    },
    /// A rule whose tool patterns match was looked at (S4).
    Rule(RuleStep),
    /// Mode, rules and default have answered (S4).
    Rules {
        /// The answer.
        decision: Decision,
        /// The id of the rule that decided, or `default`, or `mode`.
        by: String,
        /// Its reason, if it has one.
        reason: Option<String>,
    },
    /// The policy port was asked, as the rules do not deny, and answered (S5): an answer that did not come denies.
    Port(PortAnswer),
    /// A person must be asked (S3 step 5), and the call comes from a program or not (step 7).
    Review {
        /// Whether it comes from a running program, and so is refused.
        in_program: bool,
    },
}

/// Keeps all of them.
impl Trace for Vec<Step> {
    fn step(&mut self, step: impl FnOnce() -> Step) {
        self.push(step());
    }
}

impl RuleTrace for Vec<Step> {
    fn rule(&mut self, step: impl FnOnce() -> RuleStep) {
        self.push(Step::Rule(step()));
    }
}
