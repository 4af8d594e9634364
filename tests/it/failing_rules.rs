//! Each way in which a rule can fail (S4): the call is denied, whatever the rule decides, and the reason names the rule
//! and says why; by the policy alone and over gRPC.

use assent::arguments::Arguments;
use assent::domain::{Decision, Id, Origin, Principal, RiskClass, Scope, Timestamp, ToolCall};
use assent::pb;
use assent::policy::{Facts, Policy, Source};

use crate::support::server::in_process;
use crate::support::stores::{Home, Homes};

/// A condition, the arguments that it fails with, and why.
const FAILING: &[(&str, &str, &str)] = &[
    ("args.cents > 1", "{}", "no such key: `cents`"),
    ("args.a.b > 1", r#"{"a": {}}"#, "no such key: `b`"),
    (
        "args.a.b > 1",
        r#"{"a": 1}"#,
        "`args.a.b` goes through a value of type number, which has no keys",
    ),
    ("has(args.a.b)", "{}", "no such key: `a`"),
    (
        "args.list[3] == 1",
        r#"{"list": [1]}"#,
        "an index is past the end of its list",
    ),
    (
        "args.list[0].key == 1",
        r#"{"list": [{}]}"#,
        "a map does not have a key that is read",
    ),
    (
        "args.cents > 400000",
        r#"{"cents": "900000"}"#,
        "`>` does not apply to string and int",
    ),
    (
        "args.env == 'prod'",
        r#"{"env": ["prod"]}"#,
        "`==` does not apply to list and string",
    ),
    (
        "args.env != 'prod'",
        r#"{"env": 1}"#,
        "`!=` does not apply to int and string",
    ),
    (
        "args.env in ['prod', 'live']",
        r#"{"env": ["prod"]}"#,
        "`in` does not apply to list and a list with string",
    ),
    (
        "'prod' in args.env",
        r#"{"env": "prod"}"#,
        "`in` does not apply to string and string",
    ),
    ("!args.yes", r#"{"yes": 1}"#, "`!` does not apply to int"),
    (
        "args.path.startsWith('/etc')",
        r#"{"path": ["/etc"]}"#,
        "`startsWith` does not apply to list and string",
    ),
    (
        "args.path.matches('^/etc')",
        r#"{"path": 1}"#,
        "`matches` does not apply to int",
    ),
    (
        "args.list.all(i, i > 0)",
        r#"{"list": 1}"#,
        "`comprehension` does not apply to int",
    ),
    (
        "int(args.n) > 1",
        r#"{"n": "many"}"#,
        "`int` cannot take its operand",
    ),
    (
        "timestamp(args.t) > now",
        r#"{"t": "soon"}"#,
        "`timestamp` cannot take its operand",
    ),
    (
        "now.getHours(args.zone) > 1",
        r#"{"zone": "Nowhere/X"}"#,
        "`timezone` cannot take its operand",
    ),
    (
        "args.n + 1 > 1",
        r#"{"n": 9223372036854775807}"#,
        "`+` overflows",
    ),
    (
        "args.n * 2 > 1",
        r#"{"n": 9223372036854775807}"#,
        "`*` overflows",
    ),
    (
        "-args.n > 1",
        r#"{"n": -9223372036854775808}"#,
        "`-` overflows",
    ),
    ("1 / args.n > 1", r#"{"n": 0}"#, "it divides by zero"),
    ("1 % args.n > 1", r#"{"n": 0}"#, "it divides by zero"),
    (
        "args.yes",
        r#"{"yes": "true"}"#,
        "it gives a value of type string, and not true or false",
    ),
    (
        "args.n ? true : false",
        r#"{"n": 1}"#,
        "a value of type int where bool is needed",
    ),
    (
        "args.n != 5",
        r#"{"n": 184467440737095516160}"#,
        "`args` holds a number that no condition can hold exactly",
    ),
    (
        "args.n != 5",
        r#"{"n": 5, "elsewhere": [1e-4000]}"#,
        "`args` holds a number that no condition can hold exactly",
    ),
    (
        "{args.k: 1} == {}",
        r#"{"k": [1]}"#,
        "a value that can be no key is used as one",
    ),
    (
        "args.list.all(a, args.list.all(b, a == b))",
        LARGE,
        "it would take too long with these arguments",
    ),
    (
        "{args.k: 1, 'a': 2} == {}",
        r#"{"k": "a"}"#,
        "a map has one key twice",
    ),
    (
        "args.list[args.n] == 1",
        r#"{"list": [1], "n": 0.5}"#,
        "an index is no whole number",
    ),
    (
        "double(args.n) > 1.0",
        r#"{"n": "NaN"}"#,
        "`>` does not apply to double and int",
    ),
    (
        "principal.id != 'intruder'",
        "{}",
        "it reads `principal`, and the call names no principal",
    ),
    (
        "!('admin' in principal.roles)",
        "{}",
        "it reads `principal`, and the call names no principal",
    ),
    (
        "tool.origin != 'mcp'",
        "{}",
        "it reads `tool.origin`, and the call names no origin",
    ),
    // No condition: the rule is for origins, and the call names none.
    (
        ORIGINS,
        "{}",
        "it has `origins`, and the call names no origin",
    ),
];

/// Stands for many arguments.
const LARGE: &str = "large";
/// Stands for a rule with `origins` and no condition.
const ORIGINS: &str = "origins";

#[tokio::test(flavor = "multi_thread")]
async fn each_way_to_fail_denies_and_says_why() {
    let homes = Homes::start(Home::Sqlite).await;
    let server = in_process(None, homes.fresh().await).await;
    let mut client = server.client();
    let large = format!(r#"{{"list": [{}]}}"#, vec!["1"; 60_000].join(","));
    for (condition, arguments, why) in FAILING {
        let arguments = if *arguments == LARGE {
            &large
        } else {
            *arguments
        };
        for decision in ["allow", "ask", "deny"] {
            let policy = policy(&document(condition, decision));
            let reason = format!("rule `fails` could not be evaluated: {why}");

            let call = call(arguments, None);
            let verdict = policy.evaluate(&Facts {
                call: &call,
                class: RiskClass::ReadOnly,
                scope: &Scope::default(),
                now: Timestamp::from_millis(0),
            });
            assert_eq!(
                (
                    verdict.decision,
                    verdict.matched_rule,
                    verdict.reason.as_deref()
                ),
                (Decision::Deny, "fails", Some(reason.as_str())),
                "`{condition}`"
            );

            server.swap(policy);
            let answer = client
                .decide(wire_call(arguments))
                .await
                .unwrap()
                .into_inner();
            assert_eq!(
                (
                    answer.effect(),
                    answer.kind.as_str(),
                    answer.matched_rule.as_str()
                ),
                (pb::Effect::Deny, "access_denied", "fails"),
                "`{condition}`"
            );
            assert_eq!(answer.reason, reason, "`{condition}`");
            assert!(answer.message_for_model.starts_with("Not executed:"));
            assert!(
                answer.message_for_model.contains(why),
                "{}",
                answer.message_for_model
            );
        }
    }
}

/// The same rules with calls that they can judge: none of the above fails whatever it is given.
#[test]
fn the_same_rules_decide_what_they_can_evaluate() {
    let principal = Scope {
        principal: Principal {
            id: Id::parse("u1").unwrap(),
            ..Principal::default()
        },
        ..Scope::default()
    };
    let table = [
        ("args.cents > 400000", r#"{"cents": 900000}"#),
        ("args.env == 'prod'", r#"{"env": "prod"}"#),
        ("args.env in ['prod', 'live']", r#"{"env": "live"}"#),
        ("args.n != 5", r#"{"n": 18446744073709551615}"#),
        (
            "args.list.all(a, args.list.all(b, a == b))",
            r#"{"list": [1, 1]}"#,
        ),
        ("principal.id != 'intruder'", "{}"),
        ("tool.origin != 'mcp'", "{}"),
        (ORIGINS, "{}"),
    ];
    for (condition, arguments) in table {
        let policy = policy(&document(condition, "ask"));
        let call = call(arguments, Some(Origin::Code));
        let verdict = policy.evaluate(&Facts {
            call: &call,
            class: RiskClass::ReadOnly,
            scope: &principal,
            now: Timestamp::from_millis(0),
        });
        assert_eq!(
            (verdict.decision, verdict.reason),
            (Decision::Ask, None),
            "`{condition}`"
        );
    }
}

/// What could only fail when it runs does not get that far: the document is refused.
#[test]
fn what_can_be_seen_to_fail_is_refused_with_the_document() {
    let table = [
        (
            "args.path.matches('(')",
            "the pattern of `matches` is refused",
        ),
        ("args.path.matches(args.pattern)", "must be written out"),
        ("arg.path == ''", "`arg` is no variable"),
        ("tool.name == ''", "`tool` has no field `name`"),
        ("length(args.path) > 1", "there is no function `length()`"),
        ("args.path.startsWith() == true", "takes 1 operands"),
        (
            "size(args.path)",
            "a condition must be true or false, and this is a number",
        ),
        (
            "size(args.path) == '1'",
            "`==` compares a number with a string",
        ),
    ];
    for (condition, words) in table {
        let text = document(condition, "allow");
        let error = Policy::compile(&[source(&text)]).unwrap_err().to_string();
        assert!(
            error.starts_with("policy.yaml:4:") && error.contains(words),
            "`{condition}`: {error}"
        );
    }
}

fn document(condition: &str, decision: &str) -> String {
    let matching = if condition == ORIGINS {
        "origins: [mcp, code]".to_owned()
    } else {
        format!("when: \"{condition}\"")
    };
    format!(
        "selectors: []\nrules:\n- id: fails\n  {matching}\n  tools: ['*']\n  decision: {decision}\n"
    )
}

fn source(text: &str) -> Source {
    Source {
        name: "policy.yaml".to_owned(),
        text: text.to_owned(),
    }
}

fn policy(text: &str) -> Policy {
    Policy::compile(&[source(text)]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn call(arguments: &str, origin: Option<Origin>) -> ToolCall {
    ToolCall {
        call_id: Id::default(),
        step_id: Id::default(),
        tool: Id::parse("client.x").unwrap(),
        server: Id::default(),
        origin,
        annotations: None,
        arguments: Arguments::parse(arguments, 1 << 20).unwrap(),
        in_program: false,
        parent_call_id: Id::default(),
        wrapped: None,
    }
}

fn wire_call(arguments: &str) -> pb::DecideRequest {
    pb::DecideRequest {
        action: Some(pb::decide_request::Action::Call(pb::ToolCall {
            tool: "client.x".to_owned(),
            arguments_json: arguments.to_owned(),
            ..Default::default()
        })),
        ..Default::default()
    }
}
