//! One rule: what it is about, and what it says of a call (S4).

use super::Facts;
use super::document::{ApprovalDocument, RuleDocument, Text, WaitDocument};
use super::error::{PolicyError, listed, quoted};
use super::expression::{Condition, Evaluation, Truth};
use super::pattern::Glob;
use super::trace::{Check, Finding, List, ListHit, RuleStep};
use crate::domain::{ApprovalTerms, Decision, Origin, RiskClass};

/// The most that the lists of one rule may cost, in nanoseconds or so.
const MAX_LISTS_COST: u64 = 20_000_000;

/// A compiled rule. Its tool patterns are in the policy's index.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) id: String,
    pub(super) reason: Option<String>,
    pub(super) terms: ApprovalTerms,
    decision: Decision,
    classes: Option<Vec<RiskClass>>,
    origins: Option<Vec<Origin>>,
    when: Option<When>,
    denylist: Vec<ArgumentGlob>,
    sensitive: Vec<ArgumentGlob>,
    allowlist: Vec<ArgumentGlob>,
}

/// A condition, and how it was written.
#[derive(Debug)]
struct When {
    condition: Condition,
    text: String,
}

/// A glob over the arguments, and how it was written.
#[derive(Debug)]
struct ArgumentGlob {
    glob: Glob,
    text: String,
}

/// What a rule whose tool patterns match says.
#[derive(Debug)]
pub(super) enum Answer<'r> {
    /// It does not match the call.
    Skip(Check),
    /// It decides, by its `decision` or by a list.
    Decides(Decision, Option<Hit<'r>>),
    /// It cannot be evaluated, for this reason: the call is denied.
    Fails(Check, String),
}

/// The list that decided, and the glob in it that matches; none where nothing in an allowlist does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit<'r> {
    list: List,
    pattern: Option<&'r str>,
}

impl Hit<'_> {
    /// Why the list decided, for people and models: without the glob, as whoever knows it can write around it.
    pub(super) fn reason(self, rule: &str) -> String {
        let list = match self.list {
            List::Denylist => "denylist",
            List::Sensitive => "sensitive list",
            List::Allowlist => "allowlist",
        };
        match self.pattern {
            Some(_) => format!("rule `{rule}`: the arguments match its {list}"),
            None => format!("rule `{rule}`: the arguments match nothing in its {list}"),
        }
    }
}

impl Rule {
    /// Compiles all of a rule but its tool patterns and its condition, which is given.
    pub(super) fn compile(
        rule: RuleDocument<'_>,
        when: Option<Condition>,
        approval: &ApprovalTerms,
    ) -> Result<Self, PolicyError> {
        let RuleDocument {
            id,
            tools: _,
            when: text,
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
            wait: WaitDocument { expires, on_expiry },
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
            when: when.zip(text).map(|(condition, text)| When {
                condition,
                text: text.value,
            }),
            denylist: argument_patterns("denylist", &denylist)?,
            sensitive: argument_patterns("sensitive", &sensitive)?,
            allowlist: argument_patterns("allowlist", &allowlist)?,
        })
    }

    /// What the rule says. The first of classes, origins and `when` that is false skips it, the first that fails denies.
    pub(super) fn answer<'a>(
        &'a self,
        facts: &Facts<'_>,
        evaluation: &mut Evaluation<'a>,
    ) -> Answer<'a> {
        if let Some(classes) = &self.classes
            && !classes.contains(&facts.class)
        {
            return Answer::Skip(Check::Classes);
        }
        if let Some(origins) = &self.origins {
            match facts.call.origin {
                Some(origin) if origins.contains(&origin) => {}
                Some(_) => return Answer::Skip(Check::Origins),
                // Skipping it would let a caller leave a rule by saying less.
                None => {
                    return Answer::Fails(
                        Check::Origins,
                        "it has `origins`, and the call names no origin".to_owned(),
                    );
                }
            }
        }
        if let Some(when) = &self.when {
            match evaluation.truth(&when.condition) {
                Truth::True => {}
                Truth::False => return Answer::Skip(Check::When),
                Truth::Failed(why) => return Answer::Fails(Check::When, why),
            }
        }
        match self.decide(facts) {
            Ok((decision, by)) => Answer::Decides(decision, by),
            Err(why) => Answer::Fails(Check::Lists, why),
        }
    }

    /// The answer, for whoever follows the evaluation.
    pub(super) fn step(&self, answer: &Answer<'_>, facts: &Facts<'_>) -> RuleStep {
        let finding = match answer {
            Answer::Skip(check) => Finding::Skipped {
                check: *check,
                why: self.why_not(*check, facts),
            },
            Answer::Decides(decision, by) => Finding::Decides {
                decision: *decision,
                by: by.map(|Hit { list, pattern }| ListHit {
                    list,
                    pattern: pattern.map(str::to_owned),
                }),
            },
            Answer::Fails(check, why) => Finding::Failed {
                check: *check,
                why: why.clone(),
            },
        };
        RuleStep {
            rule: self.id.clone(),
            finding,
        }
    }

    fn why_not(&self, check: Check, facts: &Facts<'_>) -> String {
        match check {
            Check::Classes => {
                let classes = self.classes.iter().flatten().map(|class| class.name());
                let classes: Vec<&str> = classes.collect();
                format!(
                    "it is for {}, and the call is {}",
                    listed(&classes),
                    facts.class
                )
            }
            Check::Origins => {
                let origins = self.origins.iter().flatten().map(|origin| origin.name());
                let origins: Vec<&str> = origins.collect();
                let origin = facts.call.origin.map_or("", Origin::name);
                format!(
                    "it is for {}, and the call comes from {origin}",
                    listed(&origins)
                )
            }
            Check::When => {
                let text = self.when.as_ref().map_or("", |when| when.text.as_str());
                format!("{} is false", quoted(text))
            }
            Check::Lists => "its lists do not match".to_owned(),
        }
    }

    /// What a rule that matches decides: denylist before sensitive before allowlist before its decision.
    fn decide(&self, facts: &Facts<'_>) -> Result<(Decision, Option<Hit<'_>>), String> {
        let lists = [&self.denylist, &self.sensitive, &self.allowlist];
        if lists.iter().all(|list| list.is_empty()) {
            return Ok((self.decision, None));
        }
        let arguments = facts.call.arguments.spaced();
        let is_ascii = arguments.is_ascii();
        let globs = lists.into_iter().flatten();
        let cost = globs.fold(0, |sum: u64, glob| {
            sum.saturating_add(glob.glob.cost(&arguments, is_ascii))
        });
        if cost > MAX_LISTS_COST {
            return Err("its lists would take too long with these arguments".to_owned());
        }
        let (decision, by) =
            if let Some(hit) = first_hit(List::Denylist, &self.denylist, &arguments) {
                (Decision::Deny, Some(hit))
            } else if let Some(hit) = first_hit(List::Sensitive, &self.sensitive, &arguments) {
                (Decision::Ask, Some(hit))
            } else if self.allowlist.is_empty() {
                (self.decision, None)
            } else if let Some(hit) = first_hit(List::Allowlist, &self.allowlist, &arguments) {
                (Decision::Allow, Some(hit))
            } else {
                let miss = Hit {
                    list: List::Allowlist,
                    pattern: None,
                };
                (Decision::Ask, Some(miss))
            };
        Ok((decision, by))
    }
}

fn first_hit<'r>(list: List, globs: &'r [ArgumentGlob], arguments: &str) -> Option<Hit<'r>> {
    let hit = globs.iter().find(|glob| glob.glob.matches(arguments))?;
    Some(Hit {
        list,
        pattern: Some(&hit.text),
    })
}

fn argument_patterns(key: &str, patterns: &[Text<'_>]) -> Result<Vec<ArgumentGlob>, PolicyError> {
    let mut globs = Vec::with_capacity(patterns.len());
    for pattern in patterns {
        let glob = Glob::arguments(&pattern.value).map_err(|error| {
            let place = pattern.place_of_char(error.offset);
            place.error(format!(
                "`{key}`: the pattern {} {error}",
                quoted(&pattern.value)
            ))
        })?;
        globs.push(ArgumentGlob {
            glob,
            text: pattern.value.clone(),
        });
    }
    Ok(globs)
}
