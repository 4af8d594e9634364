//! What evaluating the rules goes through, told rule by rule to whoever wants to hear it (S3 step 4).
//!
//! The evaluation is generic over its listener, so that one that hears nothing costs nothing, and what `assent explain`
//! tells cannot differ from what decides.

use crate::domain::Decision;

/// Hears of each rule that is looked at.
pub trait RuleTrace {
    /// A rule whose tool patterns match was looked at. `step` is called by those who want to know.
    fn rule(&mut self, step: impl FnOnce() -> RuleStep);
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untraced;

impl RuleTrace for Untraced {
    fn rule(&mut self, _: impl FnOnce() -> RuleStep) {}
}

/// A rule whose tool patterns match, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleStep {
    /// Its id.
    pub rule: String,
    /// What came of it.
    pub finding: Finding,
}

/// What came of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is not for this call: the next rule is looked at.
    Skipped {
        /// What does not hold.
        check: Check,
        /// How, in words for whoever wrote the rule.
        why: String,
    },
    /// It cannot be evaluated: the call is denied.
    Failed {
        /// What fails.
        check: Check,
        /// How; it holds no value of the call.
        why: String,
    },
    /// It decides.
    Decides {
        /// What.
        decision: Decision,
        /// The argument list that decided, where one did and not the rule's `decision`.
        by: Option<ListHit>,
    },
}

/// What a rule checks after its tool patterns, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// `classes`.
    Classes,
    /// `origins`.
    Origins,
    /// `when`.
    When,
    /// `denylist`, `sensitive` and `allowlist`, which skip no rule but can fail.
    Lists,
}

impl Check {
    /// The rule's key.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classes => "classes",
            Self::Origins => "origins",
            Self::When => "when",
            Self::Lists => "lists",
        }
    }
}

/// An argument list that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListHit {
    /// Which.
    pub list: List,
    /// The glob that matches the arguments; none where nothing in an allowlist does.
    pub pattern: Option<String>,
}

/// One of a rule's argument lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// A hit denies.
    Denylist,
    /// A hit asks.
    Sensitive,
    /// A hit allows, a miss asks.
    Allowlist,
}

impl List {
    /// The rule's key.
    pub fn name(self) -> &'static str {
        match self {
            Self::Denylist => "denylist",
            Self::Sensitive => "sensitive",
            Self::Allowlist => "allowlist",
        }
    }
}

#[cfg(test)]
mod tests;
