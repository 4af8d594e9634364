//! What holds for any document and any call: an error never loosens an answer, and neither does another deny rule.
//!
//! Each test counts what its cases come to, so that none of what a document may say is left out by chance.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::test_runner::{Config, TestRunner};

use super::*;

/// Conditions that hold for some calls, do not for others, and fail for others in each of many ways.
const CONDITIONS: [&str; 14] = [
    "args.x > 1",
    "args.x == 'a'",
    "args.x != 'a'",
    "!(args.x in [1, 2])",
    "'a' in args.x",
    "args.x.startsWith('a') || args.x == 2",
    "args.x.all(i, i > 0)",
    "args.x + 9223372036854775806 > 1",
    "10 / args.x > 4",
    "args.x[0] == 1",
    "has(args.x) && args.x == 1",
    "tool.origin == 'mcp'",
    "'ops' in principal.roles",
    "tool.class == 'destructive'",
];
/// Conditions that fail whatever the call is.
const FAILING: [&str; 5] = [
    "args.absent.key == 1",
    "1 / 0 == 1",
    "type(args.absent) == int",
    "9223372036854775807 + size(tool.id) > 0",
    "tool.id.startsWith(principal.attributes.absent)",
];
const LISTS: [&str; 6] = [
    "",
    "denylist: ['*1*']",
    "sensitive: ['*a*']",
    "allowlist: ['*2*']",
    "denylist: ['*1*'], sensitive: ['*a*'], allowlist: ['*2*']",
    "sensitive: ['*1*'], allowlist: ['{*']",
];

#[derive(Clone, Debug)]
struct RuleText {
    tools: &'static str,
    decision: &'static str,
    when: Option<&'static str>,
    narrowed: &'static str,
    lists: &'static str,
}

impl RuleText {
    fn text(&self, id: &str) -> String {
        let when = self.when.map(|when| format!("when: \"{when}\""));
        let keys = [
            self.narrowed,
            self.lists,
            when.as_deref().unwrap_or_default(),
        ];
        let keys: String = keys
            .iter()
            .filter(|key| !key.is_empty())
            .map(|key| format!(", {key}"))
            .collect();
        format!(
            "- {{id: {id}, tools: [{}], decision: {}{keys}}}\n",
            self.tools, self.decision
        )
    }
}

fn rule() -> impl Strategy<Value = RuleText> {
    (
        prop::sample::select(vec![
            "a", "b", "'*'", "'[ab]'", "'a*'", "'*b', a", "'?'", "'[!a]'",
        ]),
        prop::sample::select(vec!["allow", "ask", "deny"]),
        prop::option::of(prop::sample::select(CONDITIONS.to_vec())),
        prop::sample::select(vec![
            "",
            "",
            "origins: [mcp]",
            "origins: [code, http]",
            "classes: [destructive]",
            "classes: [read-only, write]",
            "classes: [write], origins: [mcp]",
        ]),
        prop::sample::select(LISTS.to_vec()),
    )
        .prop_map(|(tools, decision, when, narrowed, lists)| RuleText {
            tools,
            decision,
            when,
            narrowed,
            lists,
        })
}

/// Everything in a document but its rules.
fn head() -> impl Strategy<Value = String> {
    (
        prop::sample::select(vec!["allow", "ask", "deny"]),
        prop::sample::select(vec![
            "",
            "selectors: []\n",
            "selectors: ['@read-only']\n",
            "selectors: ['@write', '@destructive']\n",
        ]),
        prop::sample::select(vec!["", "always: [a]\n", "always: ['*']\n"]),
        prop::sample::select(vec!["", "never: [b]\n", "never: ['a*']\n"]),
        prop::sample::select(vec!["", "trusted_servers: []\n"]),
        prop::sample::select(vec![
            "",
            "tools: [{tool: a, annotations: {destructiveHint: true}}]\n",
            "tools: [{tool: b, annotations: {readOnlyHint: true}}]\n",
        ]),
    )
        .prop_map(|(default, selectors, always, never, trusted, tools)| {
            format!("default: {default}\n{selectors}{always}{never}{trusted}{tools}")
        })
}

fn any_call() -> impl Strategy<Value = ToolCall> {
    (
        prop::sample::select(vec!["a", "b", "ab", "c"]),
        prop::sample::select(vec![
            "{}",
            r#"{"x": 1}"#,
            r#"{"x": 2}"#,
            r#"{"x": 0}"#,
            r#"{"x": "a"}"#,
            r#"{"x": [1]}"#,
            r#"{"x": ["a", 1]}"#,
            r#"{"x": null}"#,
            r#"{"x": 1.5}"#,
            r#"{"x": 184467440737095516160}"#,
        ]),
        prop::option::of(prop::sample::select(vec![
            Origin::Mcp,
            Origin::Code,
            Origin::Workflow,
        ])),
        prop::option::of(prop::sample::select(vec![
            "read-only",
            "write",
            "destructive",
        ])),
    )
        .prop_map(|(tool, arguments, origin, label)| ToolCall {
            origin,
            annotations: label.map(|label| Annotations {
                labels: vec![label.to_owned()],
                ..Annotations::default()
            }),
            ..call(tool, arguments)
        })
}

fn document(head: &str, rules: &[RuleText]) -> String {
    let numbered = (0..).zip(rules);
    let rules: String = numbered
        .map(|(i, rule)| rule.text(&format!("r{i}")))
        .collect();
    // The last one keeps the list from being empty.
    format!("{head}rules:\n{rules}- {{id: spare, tools: [none], decision: deny}}\n")
}

/// What becomes of a call of which nothing is recorded (the table of S3).
fn effect<'p>(policy: &'p Policy, call: &ToolCall) -> (Decision, Verdict<'p>) {
    let verdict = evaluate(policy, call);
    let class = policy.classify(call).class;
    let effect = match verdict.decision {
        Deny => Deny,
        Ask => Ask,
        Allow if policy.select(call.tool.as_str(), class).asks => Ask,
        Allow => Allow,
    };
    (effect, verdict)
}

/// How often something was met.
#[derive(Default)]
struct Tally(RefCell<BTreeMap<String, usize>>);

impl Tally {
    fn count(&self, what: impl Into<String>) {
        *self.0.borrow_mut().entry(what.into()).or_default() += 1;
    }

    /// What a document's answer came of.
    fn count_answer(&self, policy: &Policy, call: &ToolCall, rules: &[RuleText]) {
        let (effect, verdict) = effect(policy, call);
        self.count(format!("{effect:?}"));
        let reason = verdict.reason.as_deref().unwrap_or_default();
        let selection = policy.select(call.tool.as_str(), policy.classify(call).class);
        self.count(selection.by.split(':').next().unwrap_or_default());
        let position: Option<usize> = verdict
            .matched_rule
            .strip_prefix('r')
            .and_then(|id| id.parse().ok());
        let Some(rule) = position.and_then(|position| rules.get(position)) else {
            return self.count(verdict.matched_rule);
        };
        if let Some((_, why)) = reason.split_once("could not be evaluated: ") {
            return self.count(format!(
                "fails: {}",
                why.split(':').next().unwrap_or_default()
            ));
        }
        for part in [rule.lists, rule.narrowed]
            .into_iter()
            .filter(|part| !part.is_empty())
        {
            self.count(format!("{part}: {:?}", verdict.decision));
        }
    }

    fn has_met(&self, least: usize, all: &[&str]) {
        let met = self.0.borrow();
        for what in all {
            let times: usize = met
                .iter()
                .filter(|(met, _)| met.starts_with(what))
                .map(|(_, times)| times)
                .sum();
            assert!(times >= least, "`{what}` was met {times} times: {met:#?}");
        }
    }
}

/// What the answers of the documents here come to.
const MET: [&str; 31] = [
    "Allow",
    "Ask",
    "Deny",
    "@read-only",
    "@write",
    "@destructive",
    "always",
    "never",
    "default",
    "denylist: ['*1*']: Deny",
    "denylist: ['*1*']: Allow",
    "sensitive: ['*a*']: Ask",
    "sensitive: ['*a*']: Deny",
    "allowlist: ['*2*']: Allow",
    "allowlist: ['*2*']: Ask",
    "denylist: ['*1*'], sensitive: ['*a*'], allowlist: ['*2*']: Deny",
    "denylist: ['*1*'], sensitive: ['*a*'], allowlist: ['*2*']: Ask",
    "denylist: ['*1*'], sensitive: ['*a*'], allowlist: ['*2*']: Allow",
    "origins: [mcp]",
    "origins: [code, http]",
    "classes: [destructive]",
    "classes: [read-only, write]",
    "fails: no such key",
    "fails: `==` does not apply to",
    "fails: `in` does not apply to",
    "fails: `>` does not apply to",
    "fails: `startsWith` does not apply to",
    "fails: `+`",
    "fails: it divides by zero",
    "fails: `args` holds a number",
    "fails: it has `origins`",
];

fn run<S: Strategy>(strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let mut runner = TestRunner::new(Config {
        cases: 600,
        failure_persistence: None,
        ..Config::default()
    });
    runner.run(strategy, test).unwrap();
}

fn calls() -> impl Strategy<Value = Vec<ToolCall>> {
    prop::collection::vec(any_call(), 12)
}

#[test]
fn a_condition_that_fails_never_turns_a_refusal_into_an_allow() {
    let tally = Tally::default();
    let failing = prop::sample::select(FAILING.to_vec());
    let rules = prop::collection::vec(rule(), 1..6);
    let at = any::<prop::sample::Index>();
    run(
        &(head(), rules, at, failing, calls()),
        |(head, rules, at, failing, calls)| {
            let before = policy(&document(&head, &rules));
            let mut broken = rules.clone();
            let index = at.index(rules.len());
            broken[index].when = Some(failing);
            let after = policy(&document(&head, &broken));
            let denied_by = format!("r{index}");
            for call in calls {
                tally.count_answer(&before, &call, &rules);
                let ((was, verdict), (is, now)) = (effect(&before, &call), effect(&after, &call));
                if now == verdict {
                    prop_assert_eq!(is, was);
                    continue;
                }
                // Whatever reaches that rule is denied by it; whatever does not is as it was.
                prop_assert_eq!(
                    (is, now.decision, now.matched_rule),
                    (Deny, Deny, denied_by.as_str())
                );
                tally.count(format!("becomes denied: {was:?}"));
            }
            Ok(())
        },
    );
    tally.has_met(2, &MET);
    tally.has_met(
        2,
        &[
            "becomes denied: Allow",
            "becomes denied: Ask",
            "becomes denied: Deny",
        ],
    );
}

#[test]
fn a_deny_rule_at_the_top_never_loosens() {
    let tally = Tally::default();
    // Beside `sensitive` or an `allowlist` a rule's decision is not what it always comes to.
    let deny = rule().prop_filter_map("decides by its decision", |rule| {
        let plain = !rule.lists.contains("sensitive") && !rule.lists.contains("allowlist");
        plain.then_some(RuleText {
            decision: "deny",
            ..rule
        })
    });
    let rules = prop::collection::vec(rule(), 0..6);
    run(
        &(head(), rules, deny, calls()),
        |(head, rules, deny, calls)| {
            let text = document(&head, &rules);
            let before = policy(&text);
            let after =
                policy(&text.replacen("rules:\n", &format!("rules:\n{}", deny.text("top")), 1));
            for call in calls {
                tally.count_answer(&before, &call, &rules);
                let ((was, verdict), (is, now)) = (effect(&before, &call), effect(&after, &call));
                prop_assert!(is >= was, "{was:?} became {is:?}");
                if now.matched_rule == "top" {
                    prop_assert_eq!(is, Deny);
                    tally.count(format!("becomes denied: {was:?}"));
                } else {
                    prop_assert_eq!(now, verdict);
                    tally.count("as it was");
                }
            }
            Ok(())
        },
    );
    tally.has_met(2, &MET);
    tally.has_met(
        2,
        &[
            "becomes denied: Allow",
            "becomes denied: Ask",
            "becomes denied: Deny",
            "as it was",
        ],
    );
}
