//! One rule: what it is about, and what it says of a call (S4).

use super::Facts;
use super::document::{ApprovalDocument, RuleDocument, Text};
use super::error::{PolicyError, quoted};
use super::expression::{Condition, Evaluation, Truth};
use super::pattern::Glob;
use crate::domain::{ApprovalTerms, Decision, Origin, RiskClass};

/// A compiled rule. Its tool patterns are in the policy's index.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) id: String,
    pub(super) reason: Option<String>,
    pub(super) terms: ApprovalTerms,
    decision: Decision,
    classes: Option<Vec<RiskClass>>,
    origins: Option<Vec<Origin>>,
    when: Option<Condition>,
    denylist: Vec<Glob>,
    sensitive: Vec<Glob>,
    allowlist: Vec<Glob>,
}

/// What a rule whose tool patterns match says.
#[derive(Debug)]
pub(super) enum Answer {
    /// It does not match the call.
    Skip,
    /// It decides.
    Decides(Decision),
    /// It cannot be evaluated, for this reason: the call is denied.
    Fails(String),
}

impl Rule {
    /// Compiles all of a rule but its tool patterns and its condition, which is given.
    pub(super) fn compile(
        rule: RuleDocument<'_>,
        when: Option<Condition>,
        approval: &ApprovalTerms,
        warnings: &mut Vec<String>,
    ) -> Result<Self, PolicyError> {
        let RuleDocument {
            id,
            tools: _,
            when: _,
            decision,
            reason,
            approval: own,
            origins,
            classes,
            allowlist,
            denylist,
            sensitive,
        } = rule;
        let ApprovalDocument {
            expires,
            on_expiry,
            approvers,
        } = own;
        Ok(Self {
            id: id.value,
            reason,
            terms: ApprovalTerms {
                expires: expires.unwrap_or(approval.expires),
                on_expiry: on_expiry.unwrap_or(approval.on_expiry),
                approvers: approvers.unwrap_or_else(|| approval.approvers.clone()),
            },
            decision,
            classes,
            origins,
            when,
            denylist: argument_patterns("denylist", &denylist, warnings)?,
            sensitive: argument_patterns("sensitive", &sensitive, warnings)?,
            allowlist: argument_patterns("allowlist", &allowlist, warnings)?,
        })
    }

    /// What the rule says. The first of classes, origins and `when` that is false skips it, the first that fails denies.
    pub(super) fn answer<'a>(
        &'a self,
        facts: &Facts<'_>,
        evaluation: &mut Evaluation<'a>,
    ) -> Answer {
        if let Some(classes) = &self.classes
            && !classes.contains(&facts.class)
        {
            return Answer::Skip;
        }
        if let Some(origins) = &self.origins {
            match facts.call.origin {
                Some(origin) if origins.contains(&origin) => {}
                Some(_) => return Answer::Skip,
                // Skipping it would let a caller leave a rule by saying less.
                None => {
                    return Answer::Fails(
                        "it has `origins`, and the call names no origin".to_owned(),
                    );
                }
            }
        }
        if let Some(when) = &self.when {
            match evaluation.truth(when) {
                Truth::True => {}
                Truth::False => return Answer::Skip,
                Truth::Failed(why) => return Answer::Fails(why),
            }
        }
        Answer::Decides(self.decide(facts))
    }

    /// What a rule that matches decides: denylist before sensitive before allowlist before its decision.
    fn decide(&self, facts: &Facts<'_>) -> Decision {
        if self.denylist.is_empty() && self.sensitive.is_empty() && self.allowlist.is_empty() {
            return self.decision;
        }
        let arguments = facts.call.arguments.spaced();
        let hit = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(&arguments));
        if hit(&self.denylist) {
            Decision::Deny
        } else if hit(&self.sensitive) {
            Decision::Ask
        } else if self.allowlist.is_empty() {
            self.decision
        } else if hit(&self.allowlist) {
            Decision::Allow
        } else {
            Decision::Ask
        }
    }
}

fn argument_patterns(
    key: &str,
    patterns: &[Text<'_>],
    warnings: &mut Vec<String>,
) -> Result<Vec<Glob>, PolicyError> {
    let mut globs = Vec::with_capacity(patterns.len());
    for pattern in patterns {
        let glob = Glob::arguments(&pattern.value).map_err(|error| {
            let place = pattern.place_of_char(error.offset);
            place.error(format!(
                "`{key}`: the pattern {} {error}",
                quoted(&pattern.value)
            ))
        })?;
        if !glob.can_match_an_object() {
            warnings.push(format!(
                "{}: `{key}`: {} can match no arguments, as they are one JSON object from `{{` to `}}`: write {}",
                pattern.place().describe(),
                quoted(&pattern.value),
                quoted(&format!("*{}*", pattern.value.trim_matches('*')))
            ));
        }
        globs.push(glob);
    }
    Ok(globs)
}
