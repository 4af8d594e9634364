//! What is told of an evaluation is what was evaluated.

use super::*;
use crate::arguments::Arguments;
use crate::domain::{Id, Origin, RiskClass, Scope, Timestamp, ToolCall};
use crate::policy::{Facts, Policy, Source};

struct Heard(Vec<RuleStep>);

impl RuleTrace for Heard {
    fn rule(&mut self, step: impl FnOnce() -> RuleStep) {
        self.0.push(step());
    }
}

const POLICY: &str = r#"
rules:
  - {id: other, tools: [sh], decision: allow}
  - {id: reads, tools: [bash], classes: [read-only], decision: allow}
  - {id: http, tools: [bash], origins: [http, a2a], decision: allow}
  - {id: big, tools: ["*"], when: args.n > 10, decision: ask}
  - id: shell
    tools: [bash]
    decision: deny
    denylist: ["*nothing*", "*rm*"]
    sensitive: ["*sudo*"]
    allowlist: ['{"command": "ls", *}']
  - {id: rest, tools: ["*"], decision: deny}
"#;

/// The steps, the decision and the reason.
fn evaluate(tool: &str, arguments: &str) -> (Vec<RuleStep>, Decision, Option<String>) {
    let source = Source {
        name: "p.yaml".to_owned(),
        text: POLICY.to_owned(),
    };
    let policy = Policy::compile(&[source]).unwrap();
    let call = ToolCall {
        call_id: Id::default(),
        step_id: Id::default(),
        tool: Id::parse(tool).unwrap(),
        server: Id::default(),
        origin: Some(Origin::Code),
        annotations: None,
        arguments: Arguments::parse(arguments, 1 << 20).unwrap(),
        in_program: false,
        parent_call_id: Id::default(),
        wrapped: None,
    };
    let facts = Facts {
        call: &call,
        class: RiskClass::Write,
        scope: &Scope::default(),
        now: Timestamp::from_millis(0),
    };
    let mut heard = Heard(Vec::new());
    let verdict = policy.evaluate_traced(&facts, &mut heard);
    let reason = verdict.reason.map(|reason| reason.into_owned());
    (heard.0, verdict.decision, reason)
}

fn step(rule: &str, finding: Finding) -> RuleStep {
    RuleStep {
        rule: rule.to_owned(),
        finding,
    }
}

fn skipped(check: Check, why: &str) -> Finding {
    let why = why.to_owned();
    Finding::Skipped { check, why }
}

fn decides(decision: Decision, list: List, pattern: Option<&str>) -> Finding {
    let pattern = pattern.map(str::to_owned);
    Finding::Decides {
        decision,
        by: Some(ListHit { list, pattern }),
    }
}

#[test]
fn each_candidate_tells_what_did_not_hold_up_to_the_one_that_decides() {
    let (steps, ..) = evaluate("bash", r#"{"n": 1, "command": "rm"}"#);
    let expected = [
        step(
            "reads",
            skipped(
                Check::Classes,
                "it is for `read-only`, and the call is write",
            ),
        ),
        step(
            "http",
            skipped(
                Check::Origins,
                "it is for `http` or `a2a`, and the call comes from code",
            ),
        ),
        step("big", skipped(Check::When, "`args.n > 10` is false")),
        step(
            "shell",
            decides(Decision::Deny, List::Denylist, Some("*rm*")),
        ),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn a_rule_that_fails_tells_which_check_and_ends_it() {
    let (steps, decision, reason) = evaluate("sh-2", "{}");
    let why = "no such key: `n`".to_owned();
    let failed = Finding::Failed {
        check: Check::When,
        why: why.clone(),
    };
    assert_eq!(steps, [step("big", failed)]);
    let expected = format!("rule `big` could not be evaluated: {why}");
    assert_eq!((decision, reason), (Decision::Deny, Some(expected)));
}

#[test]
fn a_list_that_decides_is_the_reason_where_the_rule_gives_none() {
    for (command, hit, reason) in [
        (
            "rm",
            decides(Decision::Deny, List::Denylist, Some("*rm*")),
            "rule `shell`: the arguments match its denylist",
        ),
        (
            "sudo",
            decides(Decision::Ask, List::Sensitive, Some("*sudo*")),
            "rule `shell`: the arguments match its sensitive list",
        ),
        (
            "ls",
            decides(
                Decision::Allow,
                List::Allowlist,
                Some(r#"{"command": "ls", *}"#),
            ),
            "rule `shell`: the arguments match its allowlist",
        ),
        (
            "cat",
            decides(Decision::Ask, List::Allowlist, None),
            "rule `shell`: the arguments match nothing in its allowlist",
        ),
    ] {
        let arguments = format!(r#"{{"n": 1, "command": "{command}"}}"#);
        let (steps, _, said) = evaluate("bash", &arguments);
        assert_eq!(steps.last(), Some(&step("shell", hit)), "{command}");
        assert_eq!(said.as_deref(), Some(reason));
    }
}
