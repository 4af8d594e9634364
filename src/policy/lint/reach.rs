//! What is never reached: rules behind rules that decide all of their calls, and `always` behind `never`.

use super::{Found, Pattern, Rule, Subject};
use crate::domain::{Origin, RiskClass};
use crate::policy::document::Text;
use crate::policy::error::quoted;
use crate::policy::index::ToolIndex;

const CLASSES: [RiskClass; 3] = [
    RiskClass::ReadOnly,
    RiskClass::Write,
    RiskClass::Destructive,
];
const ORIGINS: [Origin; 5] = [
    Origin::Code,
    Origin::Http,
    Origin::Mcp,
    Origin::A2a,
    Origin::Workflow,
];

pub(super) fn lint(subject: &Subject<'_, '_>, found: &mut Found) {
    // The rules so far that decide every call of their tools, classes and origins.
    let mut deciders = ToolIndex::default();
    for (position, rule) in (0..).zip(&subject.rules) {
        let covers: Vec<Option<Vec<usize>>> = rule
            .tools
            .iter()
            .map(|pattern| covering(subject, &deciders, rule, pattern))
            .collect();
        warn(subject, rule, &covers, found);
        let always = |when: &Text<'_>| when.value.trim() == "true";
        if rule.written.when.as_ref().is_none_or(always) {
            for pattern in &rule.tools {
                deciders.add(position, pattern.glob.clone());
            }
        }
    }
    for always in &subject.always {
        let lifts = |never: &&Pattern<'_, '_>| never.glob.covers(&always.glob);
        if let Some(never) = subject.never.iter().find(lifts) {
            found.warn(
                "always-never",
                always.written.place(),
                format!(
                    "`always`: {} has no effect, as `never` has {}, which beats it: remove one of the two",
                    quoted(&always.written.value),
                    quoted(&never.written.value)
                ),
            );
        }
    }
}

fn warn(
    subject: &Subject<'_, '_>,
    rule: &Rule<'_, '_>,
    covers: &[Option<Vec<usize>>],
    found: &mut Found,
) {
    let before = |deciders: &[usize]| {
        let mut deciders = deciders.to_vec();
        deciders.sort_unstable();
        deciders.dedup();
        let named = deciders.iter().filter_map(|at| subject.rules.get(*at));
        let named = named.map(|rule| {
            let id = &rule.written.id;
            format!("{} ({})", quoted(&id.value), id.place().describe())
        });
        let named: Vec<String> = named.collect();
        match named.as_slice() {
            [one] => format!("rule {one} decides"),
            _ => format!("rules {} decide", named.join(" and ")),
        }
    };
    if let Some(all) = covers.iter().cloned().collect::<Option<Vec<_>>>() {
        found.warn(
            "unreachable-rule",
            rule.written.id.place(),
            format!(
                "rule {} is never reached: {} every call of its tools before it; move it up, or remove it",
                quoted(&rule.written.id.value),
                before(&all.concat())
            ),
        );
        return;
    }
    for (pattern, deciders) in rule.tools.iter().zip(covers) {
        if let Some(deciders) = deciders {
            found.warn(
                "unreachable-pattern",
                pattern.written.place(),
                format!(
                    "`tools`: {} never brings rule {} a call: {} them all before it",
                    quoted(&pattern.written.value),
                    quoted(&rule.written.id.value),
                    before(deciders)
                ),
            );
        }
    }
}

/// The earlier rules that together decide every call which the rule could get by the pattern; none if one is left to it.
fn covering(
    subject: &Subject<'_, '_>,
    deciders: &ToolIndex,
    rule: &Rule<'_, '_>,
    pattern: &Pattern<'_, '_>,
) -> Option<Vec<usize>> {
    let witness = pattern.glob.witness()?;
    let covers_tools = |at: &usize| {
        let decider = subject.rules.get(*at);
        decider.is_some_and(|decider| {
            let mut tools = decider.tools.iter();
            tools.any(|tool| tool.glob.covers(&pattern.glob))
        })
    };
    let candidates: Vec<usize> = deciders.matches(&witness).filter(covers_tools).collect();
    let classes = rule.written.classes.as_deref().unwrap_or(&CLASSES);
    // A rule with origins denies a call that names none, so it is reached by such a call and decides it.
    let origins = rule.written.origins.as_deref().unwrap_or(&ORIGINS);
    let origins = origins.iter().copied().map(Some).chain([None]);
    let mut used = Vec::new();
    for origin in origins {
        for class in classes {
            let decides = |at: &&usize| {
                let decider = subject.rules.get(**at);
                decider.is_some_and(|decider| decides(decider, *class, origin))
            };
            used.push(*candidates.iter().find(decides)?);
        }
    }
    Some(used)
}

fn decides(decider: &Rule<'_, '_>, class: RiskClass, origin: Option<Origin>) -> bool {
    let classes = decider.written.classes.as_ref();
    let origins = decider.written.origins.as_ref();
    classes.is_none_or(|classes| classes.contains(&class))
        && origins.is_none_or(|origins| origin.is_none_or(|origin| origins.contains(&origin)))
}
