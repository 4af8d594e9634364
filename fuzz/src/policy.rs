//! The bytes of a policy document: refused with a place, or a policy that answers.

use assent::arguments::Arguments;
use assent::domain::{Decision, Id, Principal, Scope, Timestamp, ToolCall};
use assent::policy::{Facts, Policy, Source, Verdict};

/// Refuses every call, whatever follows it.
const DENY_ALL: &str = "rules: [{id: first-of-all, tools: ['*'], decision: deny}]\n";

/// Bytes that are no UTF-8 never become a document: they are refused where files are read.
pub fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let source = source("policy.yaml", text);
    let policy = match Policy::compile(std::slice::from_ref(&source)) {
        Ok(policy) => policy,
        Err(error) => {
            assert_eq!(error.file, source.name);
            assert!(error.line >= 1 && error.column >= 1, "{error}");
            // A carriage return alone ends a line of YAML.
            let lines = text.matches(['\n', '\r']).count() + 1;
            assert!((error.line as usize) <= lines, "{error}");
            assert!(!error.message.is_empty());
            assert!(!error.to_string().contains(char::is_control), "{error:?}");
            return;
        }
    };
    let again = Policy::compile(std::slice::from_ref(&source)).expect("it compiled before");
    assert_eq!(policy.revision(), again.revision());

    // Lists of several files follow each other. A document that fixes a mode takes no rules beside it.
    let locked = Policy::compile(&[self::source("first.yaml", DENY_ALL), source]).ok();
    for call in calls() {
        let verdict = evaluate(&policy, &call);
        if verdict.reason.as_deref().is_some_and(is_a_failure) {
            assert_eq!(verdict.decision, Decision::Deny, "{verdict:?}");
        }
        assert_eq!(verdict, evaluate(&again, &call));
        if let Some(locked) = &locked {
            let verdict = evaluate(locked, &call);
            assert_eq!(verdict.decision, Decision::Deny, "{verdict:?}");
            assert_eq!(verdict.matched_rule, "first-of-all");
        }
    }
}

/// Whether a reason says that a rule could not be evaluated. A document's own reason could say it too, but then with an
/// id that is quoted by chance as well.
fn is_a_failure(reason: &str) -> bool {
    reason.starts_with("rule `") && reason.contains("` could not be evaluated: ")
}

fn source(name: &str, text: &str) -> Source {
    Source {
        name: name.to_owned(),
        text: text.to_owned(),
    }
}

fn evaluate<'p>(policy: &'p Policy, call: &ToolCall) -> Verdict<'p> {
    policy.evaluate(&Facts {
        call,
        class: policy.classify(call).class,
        scope: &scope(),
        now: Timestamp::from_millis(1_767_225_600_000),
    })
}

fn calls() -> Vec<ToolCall> {
    [
        ("a", "{}"),
        ("client.issue_refund", r#"{"cents": 420000, "to": ["x"]}"#),
        (
            "github__delete_repo",
            r#"{"command": "rm -rf /", "n": 1e400}"#,
        ),
    ]
    .map(|(tool, arguments)| call(tool, arguments))
    .into()
}

/// A call without annotations, from nowhere said.
pub(crate) fn call(tool: &str, arguments: &str) -> ToolCall {
    ToolCall {
        call_id: Id::default(),
        step_id: Id::default(),
        tool: id(tool),
        server: Id::default(),
        origin: None,
        annotations: None,
        arguments: Arguments::parse(arguments, 1 << 20).expect("the arguments are JSON"),
        in_program: false,
        parent_call_id: Id::default(),
        wrapped: None,
    }
}

pub(crate) fn scope() -> Scope {
    Scope {
        tenant: id("acme"),
        principal: Principal {
            id: id("u-318"),
            roles: vec!["support".to_owned()],
            attributes: [("team".to_owned(), "lisbon".to_owned())].into(),
        },
        session_id: id("s-1"),
        run_id: id("r-1"),
        parent_run_id: Id::default(),
        agent_path: vec!["support".to_owned()],
    }
}

fn id(text: &str) -> Id {
    Id::parse(text).expect("the id is plain")
}
