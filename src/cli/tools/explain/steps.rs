//! The steps of a decision as text and as JSON.
//!
//! The steps are told by what decides. What is added is only which rules before the last one were not looked at, as their
//! tool patterns do not match.

use serde_json::{Value as Json, json};

use crate::cli::output::Screen;
use crate::cli::text;
use crate::cli::view::Card;
use crate::domain::Decision;
use crate::engine::{PortAnswer, Step};
use crate::policy::{Finding, ListHit, Policy, RuleStep};

/// The most rules for other tools that are named on one line.
const MAX_NAMED: usize = 5;

/// One thing to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A step.
    Step(Step),
    /// Rules that are for other tools, in a row.
    OtherTools(Vec<String>),
}

/// The steps, and between them the rules for other tools, in the order of the document up to the rule that decides.
pub(super) fn all(policy: &Policy, trace: &[Step]) -> Vec<Told> {
    let mut told = Vec::new();
    let mut rules = policy.rule_ids();
    for step in trace {
        let looked_at = match step {
            Step::Rule(RuleStep { rule, .. }) => Some(rule.as_str()),
            // Whatever is left was passed over, as nothing decided before it.
            Step::Rules { by, .. } if by == "default" => None,
            Step::Wrapper { .. }
            | Step::Classified { .. }
            | Step::Selected { .. }
            | Step::Rules { .. }
            | Step::Port(_)
            | Step::Review { .. } => {
                told.push(Told::Step(step.clone()));
                continue;
            }
        };
        let others: Vec<String> = rules
            .by_ref()
            .take_while(|id| Some(*id) != looked_at)
            .map(str::to_owned)
            .collect();
        if !others.is_empty() {
            told.push(Told::OtherTools(others));
        }
        told.push(Told::Step(step.clone()));
    }
    told
}

/// The steps for people.
pub(super) fn page(told: &[Told], screen: &Screen) -> String {
    let mut card = Card::default();
    for told in told {
        match told {
            Told::Step(step) => draw(&mut card, step),
            Told::OtherTools(rules) => {
                let named: Vec<&String> = rules.iter().take(MAX_NAMED).collect();
                let mut line = text::names(&named);
                if rules.len() > named.len() {
                    line.push_str(&format!(" and {} more", rules.len() - named.len()));
                }
                line.push_str(": skipped, for other tools");
                card.line("rule", &line);
            }
        }
    }
    card.render(screen)
}

fn draw(card: &mut Card, step: &Step) {
    match step {
        Step::Wrapper { wrapper, doubt } => {
            let wrapper = text::name(wrapper.as_str());
            match doubt {
                None => card.line("wrapper", &format!("{wrapper}: judged is what it calls")),
                Some(doubt) => card.line("wrapper", &format!("{wrapper}: {doubt}")),
            }
        }
        Step::Classified { tool, class, basis } => {
            card.line("tool", tool.as_str());
            card.line("class", &format!("{class}: {basis}"));
        }
        Step::Selected { asks, by } => card.line("selection", &selection(*asks, by)),
        Step::Rule(RuleStep { rule, finding }) => {
            card.line("rule", &format!("{}: {}", text::name(rule), found(finding)));
        }
        Step::Rules {
            decision,
            by,
            reason,
        } => {
            let who = match by.as_str() {
                "default" => "by default, as no rule decides".to_owned(),
                "mode" => "by the mode, which stands in for the rules".to_owned(),
                rule => format!("by rule {}", text::name(rule)),
            };
            let why = reason
                .as_ref()
                .map_or(String::new(), |why| format!(": {why}"));
            card.line(
                "rules say",
                &format!("{}, {who}{why}", decision_name(*decision)),
            );
        }
        Step::Port(PortAnswer { decision, reason }) => {
            let why = match reason.as_str() {
                "" => String::new(),
                reason => format!(": {reason}"),
            };
            card.line("port says", &format!("{}{why}", decision_name(*decision)));
        }
        Step::Review { in_program: false } => card.line("review", "needed: a person is asked"),
        Step::Review { in_program: true } => card.line(
            "review",
            "needed, but the call comes from a running program, which cannot wait",
        ),
    }
}

fn selection(asks: bool, by: &str) -> String {
    match (asks, by) {
        (true, "") => "needed whatever selectors say, as the call is not known for sure".to_owned(),
        (true, by) => format!("`{by}` asks a person"),
        (false, "") => "no selector picks it".to_owned(),
        (false, by) => format!("`{by}` exempts it"),
    }
}

fn found(finding: &Finding) -> String {
    match finding {
        Finding::Skipped { check, why } => format!("skipped by `{}`: {why}", check.name()),
        Finding::Failed { check, why } => {
            format!("fails at `{}`, and what fails denies: {why}", check.name())
        }
        Finding::Decides { decision, by } => {
            let decision = decision_name(*decision);
            match by {
                None => format!("matches: {decision}"),
                Some(ListHit {
                    list,
                    pattern: Some(pattern),
                }) => format!("matches, and `{}` has `{pattern}`: {decision}", list.name()),
                Some(ListHit {
                    list,
                    pattern: None,
                }) => format!(
                    "matches, and nothing in `{}` matches the arguments: {decision}",
                    list.name()
                ),
            }
        }
    }
}

fn decision_name(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    }
}

/// A step for scripts.
pub(super) fn to_json(told: &Told) -> Json {
    match told {
        Told::OtherTools(rules) => json!({"step": "other_tools", "rules": rules}),
        Told::Step(Step::Wrapper { wrapper, doubt }) => {
            json!({"step": "wrapper", "wrapper": wrapper.as_str(), "doubt": doubt})
        }
        Told::Step(Step::Classified { tool, class, basis }) => {
            json!({"step": "class", "tool": tool.as_str(), "class": class.name(), "basis": basis})
        }
        Told::Step(Step::Selected { asks, by }) => {
            json!({"step": "selection", "asks": asks, "by": by})
        }
        Told::Step(Step::Rule(RuleStep { rule, finding })) => rule_json(rule, finding),
        Told::Step(Step::Rules {
            decision,
            by,
            reason,
        }) => {
            json!({"step": "rules", "decision": decision_name(*decision), "by": by, "reason": reason})
        }
        Told::Step(Step::Port(PortAnswer { decision, reason })) => {
            json!({"step": "port", "decision": decision_name(*decision), "reason": reason})
        }
        Told::Step(Step::Review { in_program }) => {
            json!({"step": "review", "inProgram": in_program})
        }
    }
}

fn rule_json(rule: &str, finding: &Finding) -> Json {
    match finding {
        Finding::Skipped { check, why } => {
            json!({"step": "rule", "rule": rule, "finding": "skipped", "check": check.name(), "why": why})
        }
        Finding::Failed { check, why } => {
            json!({"step": "rule", "rule": rule, "finding": "failed", "check": check.name(), "why": why})
        }
        Finding::Decides { decision, by } => {
            let list = by.as_ref().map(|by| by.list.name());
            let pattern = by.as_ref().and_then(|by| by.pattern.as_deref());
            json!({
                "step": "rule", "rule": rule, "finding": "decides",
                "decision": decision_name(*decision), "list": list, "pattern": pattern,
            })
        }
    }
}
