//! The operator's own authorization (S5): what it is asked, what it may answer, and what becomes of an answer beside
//! that of the rules.
//!
//! How it is reached is the affair of whoever implements [`PolicyPort`]. Whatever is no answer is an error, and
//! an error is never an allow.

use std::borrow::Cow;

use super::Engine;
use crate::domain::{Decision, RiskClass, RunStart, Scope, ToolCall};
use crate::policy::{Policy, PortSettings, Verdict};

/// What a decision names as its rule where the port decided.
pub(super) const POLICY_PORT: &str = "policy_port";

/// Somebody outside who says what may run. Asked more than once for one call.
#[async_trait::async_trait]
pub trait PolicyPort: Send + Sync {
    /// Asks where the settings say, and waits for as long as they say.
    ///
    /// # Errors
    /// When there is no answer, or none that is known.
    async fn ask(
        &self,
        settings: &PortSettings,
        question: Question<'_>,
    ) -> Result<PortAnswer, PortError>;
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub enum Question<'a> {
    /// May this call run?
    Tool {
        /// Where, and on whose behalf.
        scope: &'a Scope,
        /// The call as it is judged.
        call: &'a ToolCall,
        /// Its class.
        class: RiskClass,
    },
    /// May this run start?
    Run {
        /// Where, and on whose behalf.
        scope: &'a Scope,
        /// The run.
        start: &'a RunStart,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAnswer {
    /// The verdict.
    pub decision: Decision,
    /// Why; may be empty, and has at most [`MAX_TEXT_BYTES`](crate::domain::MAX_TEXT_BYTES).
    pub reason: String,
}

/// Why there is no answer, in words that a model may read: they tell nothing of what is behind the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// It did not answer in time.
    #[error("the authorization service did not answer in time")]
    TimedOut,
    /// It is not there, or went away before it answered.
    #[error("the authorization service cannot be reached")]
    Unreachable,
    /// It answered with an error, or with what is no answer.
    #[error("the authorization service failed")]
    Failed,
    /// It gave no verdict, or one that is not known here.
    #[error("the authorization service gave no verdict that is known")]
    UnknownVerdict,
}

impl PortError {
    /// Whether asking again can bring an answer: a verdict that is not known is an answer, and denies.
    pub(super) fn is_passing(self) -> bool {
        match self {
            Self::TimedOut | Self::Unreachable | Self::Failed => true,
            Self::UnknownVerdict => false,
        }
    }
}

impl PortAnswer {
    /// The denial that stands for an answer that did not come.
    pub(super) fn denial(error: PortError) -> Self {
        Self {
            decision: Decision::Deny,
            reason: error.to_string(),
        }
    }

    /// Its reason, or words that say as much where it gave none.
    pub(super) fn into_reason(self) -> String {
        if !self.reason.trim().is_empty() {
            return self.reason;
        }
        match self.decision {
            Decision::Allow => String::new(),
            Decision::Ask => "the authorization service asks for approval".to_owned(),
            Decision::Deny => "the authorization service refuses it".to_owned(),
        }
    }

    /// The stricter of this and what the rules say. The terms of a prompt stay those of the rules, and where both are as
    /// strict the rules' answer stands, with this one's reason if it has none.
    pub(super) fn beside<'p>(self, rules: Verdict<'p>) -> Verdict<'p> {
        if self.decision > rules.decision {
            return Verdict {
                decision: self.decision,
                matched_rule: POLICY_PORT,
                reason: Some(Cow::Owned(self.into_reason())),
                ..rules
            };
        }
        let gave = self.decision == rules.decision && !self.reason.trim().is_empty();
        Verdict {
            reason: rules.reason.or(gave.then_some(Cow::Owned(self.reason))),
            ..rules
        }
    }
}

impl Engine {
    /// Asks the port that the policy names; none where it names none.
    ///
    /// # Errors
    /// When there was no answer, and there may be one another time.
    pub(super) async fn ask_port(
        &self,
        policy: &Policy,
        question: Question<'_>,
    ) -> Result<Option<PortAnswer>, PortError> {
        let Some(settings) = policy.port() else {
            return Ok(None);
        };
        match self.port.ask(settings, question).await {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.is_passing() => Err(error),
            Err(error) => Ok(Some(PortAnswer::denial(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn the_stricter_answer_wins_and_the_rules_win_a_tie() {
        use Decision::{Allow, Ask, Deny};
        let policy = Policy::defaults();
        let rules = |decision, reason: Option<&'static str>| Verdict {
            decision,
            matched_rule: "cap",
            reason: reason.map(Cow::Borrowed),
            terms: policy.approval(),
        };
        let says = |decision, reason: &str| PortAnswer {
            decision,
            reason: reason.to_owned(),
        };
        // The rules', their reason; the port's, its reason; what comes of them.
        for (rule, why, port, because, comes) in [
            (Allow, None, Allow, "", (Allow, "cap", None)),
            (Allow, Some("r"), Allow, "p", (Allow, "cap", Some("r"))),
            (Allow, None, Allow, "p", (Allow, "cap", Some("p"))),
            (Allow, Some("r"), Ask, "p", (Ask, POLICY_PORT, Some("p"))),
            (Allow, Some("r"), Deny, "p", (Deny, POLICY_PORT, Some("p"))),
            (Ask, Some("r"), Allow, "p", (Ask, "cap", Some("r"))),
            (Ask, None, Allow, "p", (Ask, "cap", None)),
            (Ask, Some("r"), Ask, "p", (Ask, "cap", Some("r"))),
            (Ask, None, Ask, "p", (Ask, "cap", Some("p"))),
            (Ask, None, Ask, " ", (Ask, "cap", None)),
            (Ask, Some("r"), Deny, "p", (Deny, POLICY_PORT, Some("p"))),
            (
                Ask,
                Some("r"),
                Deny,
                " ",
                (
                    Deny,
                    POLICY_PORT,
                    Some("the authorization service refuses it"),
                ),
            ),
            (
                Allow,
                Some("r"),
                Ask,
                "",
                (
                    Ask,
                    POLICY_PORT,
                    Some("the authorization service asks for approval"),
                ),
            ),
        ] {
            let verdict = says(port, because).beside(rules(rule, why));
            assert_eq!(
                (
                    verdict.decision,
                    verdict.matched_rule,
                    verdict.reason.as_deref()
                ),
                comes,
                "{rule:?} {why:?}, {port:?} {because:?}"
            );
            assert_eq!(verdict.terms, policy.approval());
        }
    }

    #[test]
    fn whatever_is_no_answer_denies() {
        for error in [
            PortError::TimedOut,
            PortError::Unreachable,
            PortError::Failed,
            PortError::UnknownVerdict,
        ] {
            assert_eq!(
                PortAnswer::denial(error),
                PortAnswer {
                    decision: Decision::Deny,
                    reason: error.to_string()
                }
            );
        }
    }
}
