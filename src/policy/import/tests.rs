//! The imported document decides as the source does, which is said here a second time and in another way.

use proptest::prelude::*;

use super::*;
use crate::arguments::Arguments;
use crate::domain::{Decision, Id, RiskClass, Scope, Timestamp, ToolCall};
use crate::policy::Facts;

fn imported(text: &str) -> Imported {
    import(text).unwrap()
}

fn refused(text: &str) -> Vec<String> {
    match import(text).unwrap_err() {
        ImportError::Refused(problems) => problems,
        ImportError::Json(error) => panic!("{error}"),
    }
}

#[test]
fn a_policy_becomes_a_document() {
    let source = r#"{
        "default": "ask",
        "rules": [
            {"tools": ["docs.*", "client.get_?"], "decision": "allow"},
            {"tools": "bash", "decision": "ask", "denylist": ["*rm -rf*"], "sensitive": ["*sudo *"],
             "allowlist": ["{\"command\": \"ls\"}"]}
        ]
    }"#;
    let document = r#"version: 1
# The source knows no risk classes: only its rules and its default ask.
selectors: []
default: ask
rules:
  - id: rule-1
    tools: ["docs.*", "client.get_?"]
    decision: allow
  - id: rule-2
    tools: ["bash"]
    decision: ask
    denylist: ["*rm -rf*"]
    sensitive: ["*sudo *"]
    allowlist: ["{\"command\": \"ls\"}"]
"#;
    let Imported {
        document: written,
        notes,
    } = imported(source);
    assert_eq!(written, document);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("`selectors: []`"), "{notes:?}");
}

#[test]
fn what_is_said_in_another_way_is_noted() {
    let rule =
        |more: &str| format!(r#"{{"default": "deny", "rules": [{{"decision": "ask", {more}}}]}}"#);
    for (text, note) in [
        (r#"{"rules": []}"#.to_owned(), "says no `default`"),
        (
            rule(r#""tools": ["fs/**"]"#),
            "`rules[0].tools[0]`: `fs/**` is written as `fs/*`",
        ),
        (
            rule(r#""tools": ["*"], "denylist": ["rm *"]"#),
            "`rules[0].denylist[0]`: `denylist`: `rm *` can match no arguments",
        ),
        (
            rule(r#""tools": ["*"], "denylist": ["*\"x\": 1.0*"]"#),
            "spells a number with a point or an exponent",
        ),
    ] {
        let notes = imported(&text).notes;
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[1].contains(note), "{notes:?}\n{note}");
    }
}

#[test]
fn what_has_no_counterpart_is_refused_all_at_once_and_never_left_out() {
    let problems = refused(
        r#"{
        "default": "maybe",
        "mode": "auto",
        "rules": [
            {"tools": [], "decision": "allow"},
            {"tools": ["{a,b}"], "decision": "ask", "when": "x"},
            {"tools": ["a"], "denylist": [1]},
            7
        ]
    }"#,
    );
    let expected = [
        "the policy has the key `mode`, and what is imported has `default` or `rules`: remove it, or write by hand what it says",
        "`default` is `\"maybe\"`: expected `allow`, `ask` or `deny`",
        "`rules[0].tools` names no tool: list the tools that it is for",
        "`rules[1]` has the key `when`, and what is imported has `tools`, `decision`, `denylist`, `sensitive` or `allowlist`: remove it, or write by hand what it says",
        "`rules[1].tools[0]` `{a,b}` has `{`: write one pattern for each alternative instead of braces",
        "`rules[2].decision` is missing: write `allow`, `ask` or `deny`",
        "`rules[2].denylist[0]` is no text",
        "`rules[3]` is no object",
    ];
    assert_eq!(problems, expected);
    assert_eq!(
        refused("[]"),
        ["the policy is no object: expected `default` and `rules`"]
    );
    for text in ["", "{", r#"{"default": "ask", "default": "allow"}"#] {
        let error = import(text).unwrap_err();
        assert!(matches!(error, ImportError::Json(_)), "{text}");
    }
}

#[test]
fn whatever_a_glob_holds_arrives_in_the_document() {
    let glob = "*\\\"'#: {}[!a]\u{85}\u{2028}\u{7f}\n\u{1}é😀*";
    let json = serde_json::json!({
        "default": "allow",
        "rules": [{"tools": ["*"], "decision": "ask", "denylist": [glob]}],
    });
    let document = imported(&json.to_string()).document;
    let source = Source {
        name: "p.yaml".to_owned(),
        text: document,
    };
    let document = super::super::document::Document::read(std::slice::from_ref(&source)).unwrap();
    assert_eq!(document.rules[0].denylist[0].value, glob);
}

/// The source's own meaning: globs by trying every split of the text, lists in order, the first rule that matches.
mod source {
    use serde_json::Value as Json;

    pub(super) fn decide(policy: &Json, tool: &str, arguments: &str) -> String {
        for rule in policy["rules"].as_array().unwrap() {
            let hit = |key: &str, text: &str| {
                let globs = rule[key].as_array().into_iter().flatten();
                globs
                    .map(|glob| glob.as_str().unwrap().chars().collect::<Vec<char>>())
                    .any(|glob| matches(&glob, &text.chars().collect::<Vec<char>>()))
            };
            if !hit("tools", tool) {
                continue;
            }
            let has_allowlist = rule["allowlist"]
                .as_array()
                .is_some_and(|list| !list.is_empty());
            return if hit("denylist", arguments) {
                "deny".to_owned()
            } else if hit("sensitive", arguments) {
                "ask".to_owned()
            } else if has_allowlist {
                let allowed = hit("allowlist", arguments);
                if allowed { "allow" } else { "ask" }.to_owned()
            } else {
                rule["decision"].as_str().unwrap().to_owned()
            };
        }
        policy["default"].as_str().unwrap().to_owned()
    }

    fn matches(glob: &[char], text: &[char]) -> bool {
        match glob {
            [] => text.is_empty(),
            ['*', rest @ ..] => (0..=text.len()).any(|at| matches(rest, &text[at..])),
            ['?', rest @ ..] => !text.is_empty() && matches(rest, &text[1..]),
            [c, rest @ ..] => text.first() == Some(c) && matches(rest, &text[1..]),
        }
    }
}

fn decision() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["allow", "ask", "deny"])
}

fn globs() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(r#"\*?["{]?[abx?]{0,2}\*|\{"a": "[ab?]"\}"#, 0..3)
}

prop_compose! {
    fn rule()(
        tools in prop::collection::vec(r"[ab?]{1,2}\*?|\*", 1..3),
        decision in decision(),
        denylist in globs(),
        sensitive in globs(),
        allowlist in globs(),
    ) -> serde_json::Value {
        serde_json::json!({
            "tools": tools, "decision": decision,
            "denylist": denylist, "sensitive": sensitive, "allowlist": allowlist,
        })
    }
}

proptest! {
    #[test]
    fn the_document_decides_as_the_source_does(
        default in decision(),
        rules in prop::collection::vec(rule(), 0..4),
        tool in "[ab]{1,3}",
        argument in "[abx]{0,2}",
    ) {
        let policy = serde_json::json!({"default": default, "rules": rules});
        let document = imported(&policy.to_string()).document;
        let compiled = Policy::compile(&[Source { name: "p.yaml".to_owned(), text: document }]).unwrap();
        let arguments = format!(r#"{{"a": "{argument}"}}"#);
        let call = ToolCall {
            call_id: Id::default(),
            step_id: Id::default(),
            tool: Id::parse(&tool).unwrap(),
            server: Id::default(),
            origin: None,
            annotations: None,
            arguments: Arguments::parse(&arguments, 1 << 20).unwrap(),
            in_program: false,
            parent_call_id: Id::default(),
            wrapped: None,
        };
        let verdict = compiled.evaluate(&Facts {
            call: &call,
            class: RiskClass::Destructive,
            scope: &Scope::default(),
            now: Timestamp::from_millis(0),
        });
        let decided = match verdict.decision {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        };
        prop_assert_eq!(decided, source::decide(&policy, &tool, &arguments));
        prop_assert!(!compiled.select(&tool, RiskClass::Destructive).asks);
    }
}
