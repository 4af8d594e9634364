//! What stops or lets through other calls than it seems to: against the catalogue and the selectors.

use super::{Found, Pattern, Rule, Subject, class_of};
use crate::domain::{Decision, RiskClass};
use crate::policy::document::PinDocument;
use crate::policy::error::quoted;

/// So many patterns beside the first are not told one by one.
const MANY: usize = 3;

pub(super) fn lint(subject: &Subject<'_, '_>, found: &mut Found) {
    uncatalogued(subject, found);
    wrappers(subject, found);
    lifted(subject, found);
    for rule in &subject.rules {
        still_asks(subject, rule, found);
    }
    nobody_is_asked(subject, found);
    stricter_is_not_asked(subject, found);
    never_anything(subject, found);
    unused_default(subject, found);
}

/// Patterns that match no tool of the catalogue, where there is one. Many of them are one warning: then the catalogue is no
/// list of all tools.
fn uncatalogued(subject: &Subject<'_, '_>, found: &mut Found) {
    let tools = &subject.document.tools;
    if tools.is_empty() {
        return;
    }
    let known = |pattern: &Pattern<'_, '_>| {
        let mut tools = tools.iter();
        tools.any(|pin| pattern.glob.matches(pin.tool.as_str()))
    };
    let mut unknown = Vec::new();
    for rule in &subject.rules {
        if let Some(first) = rule.tools.first()
            && !rule.tools.iter().any(known)
        {
            let rule = format!("rule {}", quoted(&rule.written.id.value));
            unknown.push(("tools", rule, first.written.place()));
        }
    }
    for (key, list) in [("always", &subject.always), ("never", &subject.never)] {
        for pattern in list.iter().filter(|pattern| !known(pattern)) {
            unknown.push((key, quoted(&pattern.written.value), pattern.written.place()));
        }
    }
    if let [(_, first, place), rest @ ..] = unknown.as_slice()
        && rest.len() >= MANY
    {
        let count = rest.len();
        found.warn(
            "uncatalogued",
            *place,
            format!("{first} and {count} more match no tool of the catalogue: put right the patterns, or add the tools to `tools:`"),
        );
        return;
    }
    for (key, what, place) in unknown {
        found.warn(
            "uncatalogued",
            place,
            format!(
                "`{key}`: {what} matches no tool of the catalogue: put right the pattern, or add the tool to `tools:`"
            ),
        );
    }
}

/// Patterns that name a wrapper, whose calls are judged as what they call.
fn wrappers(subject: &Subject<'_, '_>, found: &mut Found) {
    let rules = subject.rules.iter().map(|rule| ("tools", &rule.tools));
    let lists = [("always", &subject.always), ("never", &subject.never)];
    for (key, patterns) in rules.chain(lists) {
        for pattern in patterns {
            let mut wrappers = subject.document.wrappers.iter();
            if wrappers.any(|wrapper| pattern.glob.exact() == Some(wrapper.tool.as_str())) {
                found.warn(
                    "wrapper-pattern",
                    pattern.written.place(),
                    format!(
                        "`{key}`: {} is a wrapper, whose calls are judged as what they call, so this matches only those of which that is not known: name the tools that it calls",
                        quoted(&pattern.written.value)
                    ),
                );
            }
        }
    }
}

/// `never` over a tool that the catalogue calls destructive, and that somebody would be asked about.
fn lifted(subject: &Subject<'_, '_>, found: &mut Found) {
    let is_asked = |pin: &PinDocument<'_>| {
        let mut always = subject.always.iter();
        subject.selected().contains(&RiskClass::Destructive)
            || always.any(|pattern| pattern.glob.matches(pin.tool.as_str()))
    };
    for never in &subject.never {
        let lifts = |pin: &&PinDocument<'_>| {
            class_of(&pin.annotations) == RiskClass::Destructive
                && never.glob.matches(pin.tool.as_str())
                && is_asked(pin)
        };
        if let Some(pin) = subject.document.tools.iter().find(lifts) {
            found.warn(
                "never-destructive",
                never.written.place(),
                format!(
                    "`never`: {} exempts `{}` from review, which the catalogue calls destructive ({}): name the harmless tools one by one",
                    quoted(&never.written.value),
                    pin.tool,
                    pin.place.describe()
                ),
            );
        }
    }
}

/// A rule that allows, where selectors or `always` ask a person all the same.
fn still_asks(subject: &Subject<'_, '_>, rule: &Rule<'_, '_>, found: &mut Found) {
    let written = rule.written;
    let allows = if !written.allowlist.is_empty() {
        "allows what its `allowlist` matches"
    } else if written.decision == Decision::Allow {
        "allows"
    } else {
        return;
    };
    let mut asking: Vec<String> = Vec::new();
    for pattern in &rule.tools {
        let covered = |list: &'_ [Pattern<'_, '_>]| {
            let by = list.iter().find(|other| other.glob.covers(&pattern.glob));
            by.map(|by| by.written.value.clone())
        };
        if covered(&subject.never).is_some() {
            continue;
        }
        if let Some(always) = covered(&subject.always) {
            asking.push(format!("`always: {always}`"));
            continue;
        }
        let classes = possible_classes(subject, rule, pattern);
        let selected = subject.selected();
        asking.extend(
            classes
                .into_iter()
                .filter(|class| selected.contains(class))
                .map(|class| format!("`@{class}`")),
        );
    }
    asking.sort();
    asking.dedup();
    let (Some(last), rest) = (asking.pop(), asking) else {
        return;
    };
    let (by, verb) = match rest.as_slice() {
        [] => (last, "asks"),
        rest => (format!("{} and {last}", rest.join(", ")), "ask"),
    };
    found.warn(
        "allow-still-asks",
        written.id.place(),
        format!(
            "rule {} {allows}, but {by} still {verb} a person: put its tools into `never` if nobody is to be asked, or narrow the rule with `classes`",
            quoted(&written.id.value)
        ),
    );
}

/// The classes that the calls a rule gets by a pattern can have.
fn possible_classes(
    subject: &Subject<'_, '_>,
    rule: &Rule<'_, '_>,
    pattern: &Pattern<'_, '_>,
) -> Vec<RiskClass> {
    let all = [
        RiskClass::ReadOnly,
        RiskClass::Write,
        RiskClass::Destructive,
    ];
    let pins = subject.document.tools.iter();
    // What the catalogue pins for any server holds, or is made stricter by another pin of the tool.
    let pinned: Vec<&PinDocument<'_>> = match pattern.glob.exact() {
        Some(tool) => pins.filter(|pin| pin.tool.as_str() == tool).collect(),
        None => Vec::new(),
    };
    let is_pinned = pinned.iter().any(|pin| pin.server.is_empty());
    let own = rule.written.classes.as_deref().unwrap_or(&all);
    all.into_iter()
        .filter(|class| own.contains(class))
        .filter(|class| {
            let mut pinned = pinned.iter();
            !is_pinned || pinned.any(|pin| class_of(&pin.annotations) == *class)
        })
        .collect()
}

/// A document by which nobody is ever asked, or which lets everything run.
fn nobody_is_asked(subject: &Subject<'_, '_>, found: &mut Found) {
    let document = subject.document;
    let Some((place, selected)) = &document.selectors else {
        return;
    };
    let rule_asks = |rule: &Rule<'_, '_>| {
        let written = rule.written;
        written.decision == Decision::Ask
            || !written.sensitive.is_empty()
            || !written.allowlist.is_empty()
    };
    if selected.is_empty()
        && subject.always.is_empty()
        && subject.rules_decide()
        && document.policy_port.is_none()
        && document.default != Some(Decision::Ask)
        && !subject.rules.iter().any(rule_asks)
    {
        found.warn(
            "nobody-asked",
            *place,
            "`selectors` is empty and nothing else asks, so nobody is ever asked: name a class, or write a rule with `decision: ask`"
                .to_owned(),
        );
    }
}

/// Selectors with a class and without a stricter one, where nothing else stops that.
fn stricter_is_not_asked(subject: &Subject<'_, '_>, found: &mut Found) {
    let document = subject.document;
    let Some((place, selected)) = &document.selectors else {
        return;
    };
    let everything = |patterns: &[Pattern<'_, '_>]| {
        let mut patterns = patterns.iter();
        patterns.any(|pattern| pattern.written.value == "*")
    };
    let stops = |rule: &Rule<'_, '_>, class: &RiskClass| {
        let stops = match &rule.written.classes {
            Some(classes) => classes.contains(class),
            None => everything(&rule.tools),
        };
        stops && rule.written.decision != Decision::Allow
    };
    let is_left = |class: &&RiskClass| {
        !selected.contains(class)
            && selected.iter().any(|milder| milder < *class)
            && !subject.rules.iter().any(|rule| stops(rule, class))
    };
    let nothing_else = document.policy_port.is_none()
        && subject.rules_decide()
        && !everything(&subject.always)
        && matches!(document.default, None | Some(Decision::Allow));
    if let Some(class) = [RiskClass::Write, RiskClass::Destructive]
        .iter()
        .find(is_left)
        && nothing_else
    {
        found.warn(
            "stricter-not-selected",
            *place,
            format!(
                "`selectors` has a milder class and not `@{class}`, so what is more dangerous runs without a person: add `@{class}`, or write a rule for that class"
            ),
        );
    }
}

/// `never` over every tool there could be.
fn never_anything(subject: &Subject<'_, '_>, found: &mut Found) {
    let mut never = subject.never.iter();
    if subject.rules_decide()
        && let Some(never) = never.find(|never| never.written.value == "*")
    {
        found.warn(
            "never-anything",
            never.written.place(),
            format!(
                "`never`: {} exempts every tool from review, so neither `selectors` nor `always` asks: name the harmless tools, or write `selectors: []`",
                quoted(&never.written.value)
            ),
        );
    }
}

/// `default` beside a mode that decides every call.
fn unused_default(subject: &Subject<'_, '_>, found: &mut Found) {
    if let Some((place, _)) = &subject.document.mode
        && !subject.rules_decide()
        && subject.document.default.is_some()
    {
        found.warn(
            "unused-default",
            *place,
            "`mode` decides every call, so `default` has no effect: remove one of the two"
                .to_owned(),
        );
    }
}
