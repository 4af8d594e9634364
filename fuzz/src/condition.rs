//! A condition, and the arguments that it reads: true, false or failed, and failed is never false.

use assent::arguments::Arguments;
use assent::domain::{Decision, RiskClass, Timestamp, ToolCall};
use assent::policy::{Facts, Policy, Source};

use super::policy::{call, scope};

const MAX_BYTES: usize = 256 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    True,
    False,
    Failed,
}

/// The first line is the condition, and the rest the arguments.
pub fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let (expression, arguments) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(arguments) = Arguments::parse(arguments, MAX_BYTES) else {
        return;
    };
    let call = ToolCall {
        arguments,
        ..call("a", "")
    };
    let Some(truth) = truth(expression, &call) else {
        return;
    };
    assert_eq!(
        self::truth(expression, &call),
        Some(truth),
        "it changes its mind"
    );
    // What fails, fails in the negation too: were a failure taken for false, its negation would hold.
    if let Some(negated) = self::truth(&format!("!({expression})"), &call) {
        match truth {
            Truth::True => assert_ne!(negated, Truth::True),
            Truth::False => assert_ne!(negated, Truth::False),
            Truth::Failed => assert_eq!(negated, Truth::Failed),
        }
    }
    // `&&` absorbs a failure only where the other side is false.
    if let Some(both) = self::truth(&format!("({expression}) && true"), &call) {
        assert!(
            both == truth || both == Truth::Failed,
            "{truth:?} became {both:?}"
        );
    }
}

/// What a condition says of a call, once compiled; none where it does not compile.
fn truth(expression: &str, call: &ToolCall) -> Option<Truth> {
    let quoted = serde_json::to_string(expression).expect("a text is JSON");
    let source = Source {
        name: "policy.yaml".to_owned(),
        text: format!(
            "default: deny\nrules: [{{id: only, tools: ['*'], decision: allow, when: {quoted}}}]\n"
        ),
    };
    let policy = Policy::compile(&[source]).ok()?;
    let verdict = policy.evaluate(&Facts {
        call,
        class: RiskClass::Write,
        scope: &scope(),
        now: Timestamp::from_millis(1_767_225_600_000),
    });
    Some(match (verdict.decision, verdict.matched_rule) {
        (Decision::Allow, "only") => Truth::True,
        (Decision::Deny, "default") => Truth::False,
        (Decision::Deny, "only") => {
            let reason = verdict.reason.unwrap_or_default();
            assert!(
                reason.starts_with("rule `only` could not be evaluated: "),
                "{reason}"
            );
            Truth::Failed
        }
        _ => panic!("no condition answers {verdict:?}"),
    })
}
