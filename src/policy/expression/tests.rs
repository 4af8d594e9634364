//! Conditions: what holds, what does not, what fails and why, what the load refuses, and what it may cost.

mod generated;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::*;
use crate::arguments::Arguments;
use crate::domain::{Id, Origin, Principal, RiskClass, Scope, Timestamp, ToolCall};
use crate::policy::{Policy, Source};

fn call(arguments: &str) -> ToolCall {
    ToolCall {
        call_id: Id::default(),
        step_id: Id::default(),
        tool: Id::parse("client.x").unwrap(),
        server: Id::parse("github").unwrap(),
        origin: None,
        annotations: None,
        arguments: Arguments::parse(arguments, 1 << 20).unwrap(),
        in_program: false,
        parent_call_id: Id::default(),
        wrapped: None,
    }
}

fn scope() -> Scope {
    Scope {
        tenant: Id::parse("acme").unwrap(),
        principal: Principal {
            id: Id::parse("u1").unwrap(),
            roles: vec!["refunds".into(), "ops".into()],
            attributes: BTreeMap::from([("region".into(), "eu".into())]),
        },
        session_id: Id::parse("s1").unwrap(),
        run_id: Id::parse("r1").unwrap(),
        parent_run_id: Id::default(),
        agent_path: vec!["root".into(), "child".into()],
    }
}

/// 2026-01-15T10:30:00Z, a Thursday.
fn now() -> Timestamp {
    Timestamp::from_millis(1_768_473_000_000)
}

fn compiled(expression: &str) -> Result<(Conditions, Condition), PolicyError> {
    let sources = [Source {
        name: "p.yaml".into(),
        text: format!(
            "rules:\n  - id: r\n    tools: ['*']\n    decision: deny\n    when: |-\n      {expression}\n"
        ),
    }];
    let mut document = crate::policy::document::Document::read(&sources)?;
    let when = document.rules.pop().unwrap().when;
    let (conditions, mut list) = compile(&[when.as_ref()])?;
    Ok((conditions, list.pop().unwrap().unwrap()))
}

fn truth_of(expression: &str, call: &ToolCall, scope: &Scope) -> Truth {
    let (conditions, condition) =
        compiled(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let input = Input {
        call,
        title: "Delete a user",
        class: RiskClass::Write,
        scope,
        now: now(),
    };
    Evaluation::new(&conditions, input).truth(&condition)
}

fn truth(expression: &str, arguments: &str) -> Truth {
    truth_of(expression, &call(arguments), &scope())
}

fn failed(expression: &str, arguments: &str) -> String {
    match truth(expression, arguments) {
        Truth::Failed(why) => why,
        other => panic!("`{expression}` over {arguments} gives {other:?}"),
    }
}

fn refused(expression: &str) -> String {
    match compiled(expression) {
        Ok(_) => panic!("`{expression}` is accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn conditions_hold_as_cel_defines() {
    let table = [
        ("args.cents > 400000", r#"{"cents": 400001}"#, true),
        ("args.cents > 400000", r#"{"cents": 400000}"#, false),
        ("args.cents > 400000", r#"{"cents": 4e5}"#, false),
        ("args.cents > 400000.5", r#"{"cents": 400000.75}"#, true),
        ("args.a.b.c == 'x'", r#"{"a": {"b": {"c": "x"}}}"#, true),
        (
            "args['a-b'] == 1 && args.a['b'].c == 2",
            r#"{"a-b": 1, "a": {"b": {"c": 2}}}"#,
            true,
        ),
        ("args.list[1] == 'b'", r#"{"list": ["a", "b"]}"#, true),
        (
            "args.list[1].name == 'b'",
            r#"{"list": [0, {"name": "b"}]}"#,
            true,
        ),
        ("has(args.a)", r#"{"a": null}"#, true),
        ("has(args.a)", r#"{"b": 1}"#, false),
        ("has(args.a.b)", r#"{"a": {}}"#, false),
        ("has(args.list[0].x)", r#"{"list": [{"x": 1}]}"#, true),
        ("args.x == null", r#"{"x": null}"#, true),
        (
            "args == {'a': [1, 2.5, 'x', true, null]}",
            r#"{"a": [1, 2.5, "x", true, null]}"#,
            true,
        ),
        ("{'a': 1} == args", r#"{"a": 1}"#, true),
        (
            "size(args) == 2 && args.size() == 2",
            r#"{"a": 1, "b": 2}"#,
            true,
        ),
        ("'a' in args", r#"{"a": 1}"#, true),
        ("args.x in ['a', 'b']", r#"{"x": "b"}"#, true),
        ("!(args.x in [1, 2])", r#"{"x": 3}"#, true),
        (
            "args.id == 9007199254740993",
            r#"{"id": 9007199254740993}"#,
            true,
        ),
        (
            "args.id == 9007199254740993",
            r#"{"id": 9007199254740992}"#,
            false,
        ),
        (
            "args.id == 9007199254740992.0",
            r#"{"id": 9007199254740993}"#,
            false,
        ),
        ("args.id == 1e17", r#"{"id": 100000000000000001}"#, false),
        (
            "args.id == 18446744073709551615u",
            r#"{"id": 18446744073709551615}"#,
            true,
        ),
        ("args.id > 5", r#"{"id": 18446744073709551615}"#, true),
        (
            "args.id == -9223372036854775808",
            r#"{"id": -9223372036854775808}"#,
            true,
        ),
        ("type(args.n) == int", r#"{"n": 1.0}"#, true),
        ("type(args.n) == double", r#"{"n": 1.5}"#, true),
        ("args.list.exists(x, x == 2)", r#"{"list": [1, 2]}"#, true),
        ("args.list.all(x, x > 0)", r#"{"list": [1, 2]}"#, true),
        (
            "args.list.exists_one(x, x > 1)",
            r#"{"list": [1, 2, 3]}"#,
            false,
        ),
        (
            "args.list.map(x, x * 2) == [2, 4]",
            r#"{"list": [1, 2]}"#,
            true,
        ),
        (
            "args.list.map(x, x > 1, x * 2) == [4]",
            r#"{"list": [1, 2]}"#,
            true,
        ),
        (
            "args.list.filter(x, x > 1).size() == 1",
            r#"{"list": [1, 2]}"#,
            true,
        ),
        (
            "args.rows.all(r, r.cells.all(c, c.n > 0))",
            r#"{"rows": [{"cells": [{"n": 1}]}, {"cells": []}]}"#,
            true,
        ),
        (
            "args.map.all(k, args.map[k] > 0)",
            r#"{"map": {"a": 1, "b": 2}}"#,
            true,
        ),
        (
            "args.s.startsWith('ab') && args.s.endsWith('yz') && args.s.contains('-')",
            r#"{"s": "ab-yz"}"#,
            true,
        ),
        ("args.s.matches('^a+$')", r#"{"s": "aaa"}"#, true),
        ("matches(args.s, '^a+$')", r#"{"s": "aab"}"#, false),
        ("args.s + 'c' == 'abc'", r#"{"s": "ab"}"#, true),
        ("args.a + args.b == [1, 2]", r#"{"a": [1], "b": [2]}"#, true),
        (
            "args.a ? args.b : args.c",
            r#"{"a": false, "b": true, "c": false}"#,
            false,
        ),
        ("int(args.n) + 1 == 43", r#"{"n": "42"}"#, true),
        (
            "timestamp(args.t) < now",
            r#"{"t": "2025-12-31T00:00:00Z"}"#,
            true,
        ),
        (
            "now.getHours() == 10 && now.getHours('Asia/Tokyo') == 19",
            "{}",
            true,
        ),
        (
            "now - timestamp('2026-01-15T10:00:00Z') == duration('30m')",
            "{}",
            true,
        ),
        ("args.é == 'ü'", r#"{"é": "ü"}"#, true),
        ("true", "{}", true),
    ];
    for (expression, arguments, expected) in table {
        // Only ASCII names are identifiers in CEL.
        if expression.contains('é') {
            assert!(refused(expression).contains("unexpected"), "{expression}");
            continue;
        }
        let expected = if expected { Truth::True } else { Truth::False };
        assert_eq!(
            truth(expression, arguments),
            expected,
            "`{expression}` over {arguments}"
        );
    }
}

#[test]
fn every_field_can_be_read() {
    for expression in [
        "tool.id == 'client.x'",
        "tool.title == 'Delete a user'",
        "tool.class == 'write'",
        "tool.server == 'github'",
        "tool['id'] == 'client.x'",
        "scope.tenant == 'acme' && scope.session == 's1' && scope.run == 'r1'",
        "scope.agent_path == ['root', 'child']",
        "'child' in scope.agent_path",
        "principal.id == 'u1'",
        "'refunds' in principal.roles",
        "principal.attributes.region == 'eu' && principal.attributes['region'] == 'eu'",
        "has(principal.attributes.region) && !has(principal.attributes.team)",
        "has(principal.id) && has(tool.id) && !has(tool.origin)",
    ] {
        assert_eq!(truth(expression, "{}"), Truth::True, "{expression}");
    }
    let from_mcp = ToolCall {
        origin: Some(Origin::Mcp),
        ..call("{}")
    };
    assert_eq!(
        truth_of(
            "tool.origin == 'mcp' && has(tool.origin)",
            &from_mcp,
            &scope()
        ),
        Truth::True
    );
}

#[test]
fn what_cannot_be_evaluated_fails_and_says_why() {
    let table = [
        ("args.cents > 1", "{}", "no such key: `cents`"),
        ("args.a.b > 1", r#"{"a": {}}"#, "no such key: `b`"),
        ("args.a.b > 1", "{}", "no such key: `a`"),
        (
            "args.a.b > 1",
            r#"{"a": "x"}"#,
            "`args.a.b` goes through a value of type string, which has no keys",
        ),
        ("has(args.a.b)", r#"{"b": 1}"#, "no such key: `a`"),
        (
            "has(args.a.b)",
            r#"{"a": [1]}"#,
            "`args.a.b` goes through a value of type list, which has no keys",
        ),
        (
            "args.cents > 1",
            r#"{"cents": "900000"}"#,
            "`>` does not apply to string and int",
        ),
        (
            "args.cents + 1 > 1",
            r#"{"cents": "1"}"#,
            "`+` does not apply to string and int",
        ),
        (
            "args.cents + 1 > 1",
            r#"{"cents": 9223372036854775807}"#,
            "`+` overflows",
        ),
        (
            "-args.n > 1",
            r#"{"n": -9223372036854775808}"#,
            "`-` overflows",
        ),
        ("1 / args.n > 1", r#"{"n": 0}"#, "it divides by zero"),
        ("1 % args.n > 1", r#"{"n": 0}"#, "it divides by zero"),
        (
            "args.list[5] == 1",
            r#"{"list": []}"#,
            "an index is past the end of its list",
        ),
        (
            "args.list['a'] == 1",
            r#"{"list": []}"#,
            "`args.list.a` goes through a value of type list, which has no keys",
        ),
        (
            "args.list[0]['a'] == 1",
            r#"{"list": [[]]}"#,
            "`[]` does not apply to list and string",
        ),
        (
            "args.list[0].a == 1",
            r#"{"list": [{}]}"#,
            "a map does not have a key that is read",
        ),
        (
            "args.x",
            r#"{"x": 1}"#,
            "it gives a value of type int, and not true or false",
        ),
        (
            "args.x",
            r#"{"x": "true"}"#,
            "it gives a value of type string, and not true or false",
        ),
        (
            "args.x && true",
            r#"{"x": 1}"#,
            "`&&` does not apply to int and bool",
        ),
        ("!args.x", r#"{"x": 1}"#, "`!` does not apply to int"),
        (
            "args.x ? true : false",
            r#"{"x": 1}"#,
            "a value of type int where bool is needed",
        ),
        (
            "1 in args.x",
            r#"{"x": 1}"#,
            "`in` does not apply to int and int",
        ),
        (
            "args.x.startsWith('a')",
            r#"{"x": 1}"#,
            "`startsWith` does not apply to int and string",
        ),
        (
            "args.x.matches('a')",
            r#"{"x": 1}"#,
            "`matches` does not apply to int",
        ),
        (
            "size(args.x) > 1",
            r#"{"x": 1}"#,
            "`size` does not apply to int",
        ),
        (
            "int(args.x) > 1",
            r#"{"x": "secret"}"#,
            "`int` cannot take its operand",
        ),
        (
            "args.x.all(i, i > 0)",
            r#"{"x": 1}"#,
            "`comprehension` does not apply to int",
        ),
        (
            "args.x.all(i, i > 0)",
            r#"{"x": [1, "a"]}"#,
            "`>` does not apply to string and int",
        ),
        (
            "args.x.filter(i, i).size() > 0",
            r#"{"x": [1]}"#,
            "a value of type int where bool is needed",
        ),
        (
            "args.a + args.b == []",
            r#"{"a": [], "b": {"k": 1}}"#,
            "`+` does not apply to list and map",
        ),
        (
            "args.n != 5",
            r#"{"n": 184467440737095516160}"#,
            "`args` holds a number that no condition can hold exactly",
        ),
        (
            "args.n != 5",
            r#"{"n": 5, "m": [184467440737095516160]}"#,
            "`args` holds a number that no condition can hold exactly",
        ),
        (
            "tool.id == 'a' || args.n != 5",
            r#"{"n": 1e-4000}"#,
            "`args` holds a number that no condition can hold exactly",
        ),
        (
            "tool.origin == 'mcp'",
            "{}",
            "it reads `tool.origin`, and the call names no origin",
        ),
        (
            "tool.origin != 'mcp'",
            "{}",
            "it reads `tool.origin`, and the call names no origin",
        ),
        (
            "principal.attributes.team == 'a'",
            "{}",
            "a map does not have a key that is read",
        ),
        (
            "principal.attributes[args.name] == 'a'",
            r#"{"name": "a value of the call"}"#,
            "a map does not have a key that is read",
        ),
        (
            "now.getHours(args.zone) == 1",
            r#"{"zone": "Nowhere/X"}"#,
            "`timezone` cannot take its operand",
        ),
    ];
    for (expression, arguments, expected) in table {
        assert_eq!(
            failed(expression, arguments),
            expected,
            "`{expression}` over {arguments}"
        );
    }
}

#[test]
fn a_number_past_what_rules_can_hold_only_fails_conditions_over_arguments() {
    assert_eq!(
        truth("tool.id == 'client.x'", r#"{"n": 184467440737095516160}"#),
        Truth::True
    );
}

#[test]
fn an_absent_principal_fails_whatever_reads_it_and_nothing_else() {
    let nobody = Scope {
        principal: Principal {
            roles: vec!["admin".into()],
            ..Principal::default()
        },
        ..scope()
    };
    for expression in [
        "principal.id == ''",
        "principal.id != 'x'",
        "!('refunds' in principal.roles)",
        "'admin' in principal.roles",
        "has(principal.id)",
        "principal.attributes == {}",
        "size(principal.roles) == 0",
        "[1].exists(x, principal.id == 'a')",
    ] {
        let expected =
            Truth::Failed("it reads `principal`, and the call names no principal".into());
        assert_eq!(
            truth_of(expression, &call("{}"), &nobody),
            expected,
            "{expression}"
        );
    }
    assert_eq!(
        truth_of("scope.tenant == 'acme'", &call("{}"), &nobody),
        Truth::True
    );
}

#[test]
fn and_and_or_absorb_a_failure_only_where_the_other_operand_decides() {
    let failing = "args.missing == 1";
    let table = [
        (format!("{failing} || true"), Some(true)),
        (format!("true || {failing}"), Some(true)),
        (format!("{failing} || false"), None),
        (format!("false || {failing}"), None),
        (format!("{failing} && false"), Some(false)),
        (format!("false && {failing}"), Some(false)),
        (format!("{failing} && true"), None),
        (format!("true && {failing}"), None),
        (format!("!({failing})"), None),
        (format!("({failing}) ? true : true"), None),
        (format!("true ? true : ({failing})"), Some(true)),
        (format!("[1, 2].exists(x, x == 2 || {failing})"), Some(true)),
        (format!("[1, 2].exists(x, x == 3 || {failing})"), None),
        (format!("[1, 2].all(x, x == 1 && {failing})"), Some(false)),
        (format!("[1, 2].all(x, x > 0 && {failing})"), None),
        (
            "principal.id == 'u1' || args.missing".to_owned(),
            Some(true),
        ),
    ];
    for (expression, expected) in table {
        match (truth(&expression, "{}"), expected) {
            (Truth::True, Some(true)) | (Truth::False, Some(false)) | (Truth::Failed(_), None) => {}
            (found, expected) => panic!("`{expression}` gives {found:?}, expected {expected:?}"),
        }
    }
}

/// As the README has it.
const STRING_OR_LIST: &str =
    "type(args.to) == string && args.to == 'a' || type(args.to) == list && 'a' in args.to";

/// S4: a type mismatch fails, also where CEL says that the two differ.
#[test]
fn values_of_different_types_cannot_be_compared() {
    let (holds, not) = (Ok(true), Ok(false));
    let table = [
        ("args.x == 'prod'", r#"{"x": "prod"}"#, holds),
        ("args.x == 'prod'", r#"{"x": "dev"}"#, not),
        (
            "args.x == 'prod'",
            r#"{"x": ["prod"]}"#,
            Err("`==` does not apply to list and string"),
        ),
        (
            "args.x == 'prod'",
            r#"{"x": 1}"#,
            Err("`==` does not apply to int and string"),
        ),
        (
            "args.x != 'prod'",
            r#"{"x": {"prod": 1}}"#,
            Err("`!=` does not apply to map and string"),
        ),
        (
            "args.x != 'prod'",
            r#"{"x": true}"#,
            Err("`!=` does not apply to bool and string"),
        ),
        (
            "args.x == true",
            r#"{"x": "true"}"#,
            Err("`==` does not apply to string and bool"),
        ),
        (
            "args.x == args.y",
            r#"{"x": 1, "y": "1"}"#,
            Err("`==` does not apply to int and string"),
        ),
        (
            "!(args.x == 'prod')",
            r#"{"x": 1}"#,
            Err("`==` does not apply to int and string"),
        ),
        ("type(args.x) == int", r#"{"x": 1}"#, holds),
        ("type(args.x) == int", r#"{"x": "a"}"#, not),
        (
            "type(args.x) == args.x",
            r#"{"x": 1}"#,
            Err("`==` does not apply to type and int"),
        ),
        // Numbers are one type, and exact.
        ("args.x == 1.0", r#"{"x": 1}"#, holds),
        ("args.x == 1u", r#"{"x": 1}"#, holds),
        ("args.x == 1", r#"{"x": 1.5}"#, not),
        (
            "args.x == 18446744073709551615u",
            r#"{"x": 18446744073709551615}"#,
            holds,
        ),
        ("args.x == 1e19", r#"{"x": 10000000000000000001}"#, not),
        ("args.x < 1e19", r#"{"x": 9999999999999999999}"#, holds),
        ("args.x in [1e17]", r#"{"x": 100000000000000001}"#, not),
        ("args.x in [1e17]", r#"{"x": 100000000000000000}"#, holds),
        ("[args.x] == [1e17]", r#"{"x": 100000000000000001}"#, not),
        (
            "args.x * 1.0 == args.y",
            r#"{"x": 9007199254740992.5, "y": 9007199254740993}"#,
            not,
        ),
        ("-0.0 == args.x", r#"{"x": 0}"#, holds),
        // So are `<`, `<=`, `>` and `>=`, where the interpreter would round the integer.
        (
            "args.x > args.y",
            r#"{"x": 9007199254740993, "y": 9007199254740991.5}"#,
            holds,
        ),
        (
            "double('1e18') < args.x",
            r#"{"x": 1000000000000000064}"#,
            holds,
        ),
        (
            "double('1e18') >= args.x",
            r#"{"x": 1000000000000000064}"#,
            not,
        ),
        (
            "args.x * 1.0 >= args.y",
            r#"{"x": 9007199254740992.5, "y": 9007199254740993}"#,
            not,
        ),
        (
            "double(args.x) < 9007199254740993",
            r#"{"x": 9007199254740992}"#,
            holds,
        ),
        ("args.x < args.y", r#"{"x": -5, "y": -4.5}"#, holds),
        ("args.x < args.y", r#"{"x": -4, "y": -4.5}"#, not),
        ("args.x <= args.y", r#"{"x": 4, "y": 4.5}"#, holds),
        ("double('1e300') > args.x", r#"{"x": 4}"#, holds),
        ("args.x >= double('-1e300')", r#"{"x": 4}"#, holds),
        ("args.x > args.y", r#"{"x": 4.5, "y": 3.5}"#, holds),
        ("args.x > args.y", r#"{"x": "b", "y": "a"}"#, holds),
        (
            "args.x > args.y",
            r#"{"x": 18446744073709551615, "y": -1}"#,
            holds,
        ),
        // Null is compared with anything.
        ("args.x == null", r#"{"x": 1}"#, not),
        ("null != args.x", r#"{"x": [1]}"#, holds),
        ("args.x == args.y", r#"{"x": null, "y": {}}"#, not),
        ("args.x == 'a'", r#"{"x": null}"#, not),
        ("args.x in ['a', null]", r#"{"x": null}"#, holds),
        ("args.x in ['a', null]", r#"{"x": "b"}"#, not),
        ("args.x in ['a', 'b']", r#"{"x": null}"#, not),
        // `in` is `exists`.
        ("args.x in ['a', 'b']", r#"{"x": "b"}"#, holds),
        ("args.x in ['a', 'b']", r#"{"x": "c"}"#, not),
        (
            "args.x in ['a', 'b']",
            r#"{"x": ["b"]}"#,
            Err("`in` does not apply to list and a list with string"),
        ),
        (
            "args.x in ['a', 'b']",
            r#"{"x": 1}"#,
            Err("`in` does not apply to int and a list with string"),
        ),
        ("'a' in args.x", r#"{"x": ["a", 1]}"#, holds),
        ("'a' in args.x", r#"{"x": [1, "a"]}"#, holds),
        (
            "'a' in args.x",
            r#"{"x": ["b", ["a"]]}"#,
            Err("`in` does not apply to string and a list with list"),
        ),
        ("'a' in args.x", r#"{"x": []}"#, not),
        (
            "'a' in args.x",
            r#"{"x": "a"}"#,
            Err("`in` does not apply to string and string"),
        ),
        (
            "'a' in args.x",
            r#"{"x": null}"#,
            Err("`in` does not apply to string and null"),
        ),
        ("'a' in args.x", r#"{"x": {"a": 1}}"#, holds),
        ("args.y in args.x", r#"{"x": {"a": 1}, "y": "b"}"#, not),
        (
            "args.y in args.x",
            r#"{"x": {"a": 1}, "y": 1}"#,
            Err("`in` does not apply to int and map"),
        ),
        ("args.y in args.x", r#"{"x": {}, "y": 1}"#, not),
        (
            "args.y in args.x",
            r#"{"x": {"a": 1}, "y": ["a"]}"#,
            Err("`in` does not apply to list and map"),
        ),
        // A list or a map differs as soon as one thing in it does.
        ("args.x == ['a', 'b']", r#"{"x": ["a", "b"]}"#, holds),
        ("args.x == ['a', 'b']", r#"{"x": ["a"]}"#, not),
        (
            "args.x == ['a', 'b']",
            r#"{"x": ["a", 1]}"#,
            Err("`==` does not apply to int and string"),
        ),
        ("args.x == ['a', 'b']", r#"{"x": [1, "c"]}"#, not),
        ("args.x != ['a', 'b']", r#"{"x": [1, "c"]}"#, holds),
        (
            "args.x == {'a': 1, 'b': 2}",
            r#"{"x": {"a": 1, "b": 2.0}}"#,
            holds,
        ),
        (
            "args.x == {'a': 1, 'b': 2}",
            r#"{"x": {"a": 1, "c": 2}}"#,
            not,
        ),
        (
            "args.x == {'a': 1, 'b': 2}",
            r#"{"x": {"a": 1, "b": "2"}}"#,
            Err("`==` does not apply to string and int"),
        ),
        (
            "args.x == {'a': 1, 'b': 2}",
            r#"{"x": {"a": 3, "b": "2"}}"#,
            not,
        ),
        (
            "args.x == {1: 'a'}",
            r#"{"x": {"1": "a"}}"#,
            Err("`==` does not apply to string and map"),
        ),
        ("{1: args.x} == {1u: 'a'}", r#"{"x": "a"}"#, holds),
        // `&&` and `||` absorb it as any other failure.
        (
            "args.x == 'prod' || args.y",
            r#"{"x": 1, "y": true}"#,
            holds,
        ),
        ("args.x == 'prod' && args.y", r#"{"x": 1, "y": false}"#, not),
        (
            "args.x == 'prod' || args.y",
            r#"{"x": 1, "y": false}"#,
            Err("`==` does not apply to int and string"),
        ),
        ("args.x.exists(e, e == 'a')", r#"{"x": [1, "a"]}"#, holds),
        (
            "args.x.exists(e, e == 'a')",
            r#"{"x": [1, "b"]}"#,
            Err("`==` does not apply to int and string"),
        ),
        (
            "type(args.x) == string && args.x == 'a'",
            r#"{"x": 1}"#,
            not,
        ),
        (STRING_OR_LIST, r#"{"to": "a"}"#, holds),
        (STRING_OR_LIST, r#"{"to": ["b", "a"]}"#, holds),
        (STRING_OR_LIST, r#"{"to": ["b"]}"#, not),
        (STRING_OR_LIST, r#"{"to": 1}"#, not),
    ];
    for (expression, arguments, expected) in table {
        let expected = match expected {
            Ok(true) => Truth::True,
            Ok(false) => Truth::False,
            Err(why) => Truth::Failed(why.to_owned()),
        };
        assert_eq!(
            truth(expression, arguments),
            expected,
            "`{expression}` over {arguments}"
        );
    }
}

#[test]
fn what_can_be_seen_to_be_of_different_types_is_refused_at_the_load() {
    let table = [
        (
            "tool.id == 5",
            "`==` compares a string with a number, which always fails",
        ),
        (
            "tool.class != true",
            "`!=` compares a string with true or false",
        ),
        (
            "size(args.x) == '3'",
            "`==` compares a number with a string",
        ),
        ("size(args.x) > '3'", "`>` compares a number with a string"),
        (
            "principal.attributes.level >= 3",
            "`>=` compares a string with a number",
        ),
        (
            "principal.attributes['level'] == 3",
            "`==` compares a string with a number",
        ),
        ("3 < null", "`<` compares a number with null"),
        (
            "now == '2026-01-01T00:00:00Z'",
            "`==` compares a timestamp with a string",
        ),
        (
            "type(args.x) == 'int'",
            "`==` compares a type with a string",
        ),
        (
            "principal.roles == 'admin'",
            "`==` compares a list with a string",
        ),
        (
            "5 in principal.roles",
            "`in` compares a string with a number",
        ),
        (
            "args.x in 'abc'",
            "`in` looks in a list or a map, and here in a string",
        ),
        ("args.x in ['a', 1]", "`in` compares a string with a number"),
        ("1 in ['a', 'b']", "`in` compares a string with a number"),
        (
            "(args.x > 1) == 1",
            "`==` compares true or false with a number",
        ),
    ];
    for (expression, words) in table {
        let error = refused(expression);
        assert!(error.contains(words), "`{expression}`: {error}");
    }
    for accepted in [
        "tool.id == null",
        "principal.attributes.level == null",
        "args.x in ['a', null]",
        "args.x in []",
        "int(principal.attributes.level) >= 3",
        "args.x.exists_one(e, e == 1) == true",
        "now > timestamp('2026-01-01T00:00:00Z') && now - now < duration('1s')",
    ] {
        compiled(accepted).unwrap_or_else(|error| panic!("{accepted}: {error}"));
    }
}

#[test]
fn a_class_or_an_origin_that_there_is_not_is_refused_at_the_load() {
    for (expression, words) in [
        (
            "tool.class == 'destrutive'",
            "`tool.class` is never `destrutive`",
        ),
        ("'MCP' != tool.origin", "`tool.origin` is never `MCP`"),
        (
            "tool.class in ['write', 'readonly']",
            "`tool.class` is never `readonly`",
        ),
    ] {
        let error = refused(expression);
        assert!(error.contains(words), "`{expression}`: {error}");
    }
    for accepted in [
        "tool.class == 'read-only' || 'write' != tool.class",
        "tool.origin in ['code', 'http', 'mcp', 'a2a', 'workflow']",
        "tool.class == args.class && tool.class in args.classes",
        "tool.id == 'readonly'",
    ] {
        compiled(accepted).unwrap_or_else(|error| panic!("{accepted}: {error}"));
    }
}

#[test]
fn a_map_is_gone_over_in_the_order_of_its_keys() {
    let arguments = r#"{"m": {"b": 1, "a": 2, "e": 3, "c": 4, "d": 5}}"#;
    for _ in 0..20 {
        assert_eq!(
            truth("args.m.map(k, k) == ['a', 'b', 'c', 'd', 'e']", arguments),
            Truth::True
        );
        assert_eq!(truth("args.map(k, k)[0] == 'm'", arguments), Truth::True);
    }
}

#[test]
fn a_reason_never_holds_a_value_of_the_call() {
    for (expression, arguments) in [
        ("args.x > 1", r#"{"x": "hunter2"}"#),
        ("int(args.x) > 1", r#"{"x": "hunter2"}"#),
        ("timestamp(args.x) > now", r#"{"x": "hunter2"}"#),
        ("args.x + 1 > 2", r#"{"x": "hunter2"}"#),
        ("args.x - 1 > 2", r#"{"x": ["hunter2"]}"#),
        ("[1][args.x] > 2", r#"{"x": "hunter2"}"#),
        ("{args.x: 1} == {}", r#"{"x": ["hunter2"]}"#),
        ("{args.x: 1, args.x: 2} == {}", r#"{"x": "hunter2"}"#),
        ("now.getHours(args.x) > 2", r#"{"x": "hunter2"}"#),
    ] {
        let why = failed(expression, arguments);
        assert!(!why.contains("hunter2"), "`{expression}`: {why}");
    }
}

#[test]
fn what_could_only_fail_is_refused_at_the_load_with_its_place() {
    let table = [
        (
            "arg.cents > 1",
            "p.yaml:6:7: `when`: `arg` is no variable",
            "did you mean `args`?",
        ),
        (
            "true && usr.id == 'a'",
            "p.yaml:6:15: `when`: `usr` is no variable",
            "`principal` or `now`",
        ),
        (
            "tool.name == 'a'",
            "p.yaml:6:",
            "`tool` has no field `name`, its fields are `id`, `title`",
        ),
        ("tool['idd'] == 'a'", "p.yaml:6:", "did you mean `id`?"),
        (
            "scope.tenants == 'a'",
            "p.yaml:6:",
            "did you mean `tenant`?",
        ),
        (
            "principal.role == 'a'",
            "p.yaml:6:",
            "did you mean `roles`?",
        ),
        (
            "has(principal.email)",
            "p.yaml:6:",
            "`principal` has no field `email`",
        ),
        (
            "tool.id.x == 'a'",
            "p.yaml:6:",
            "`tool.id` has no field `x`",
        ),
        ("tool == {}", "p.yaml:6:7:", "`tool` is read by its fields"),
        (
            "principal[args.x] == 'a'",
            "p.yaml:6:7:",
            "`principal` is read by its fields",
        ),
        (
            "size(scope) > 1",
            "p.yaml:6:12:",
            "`scope` is read by its fields",
        ),
        (
            "lenght(args.x) > 1",
            "p.yaml:6:",
            "there is no function `lenght()`",
        ),
        (
            "args.x.startWith('a')",
            "p.yaml:6:",
            "did you mean `startsWith`?",
        ),
        (
            "args.x.startsWith('a', 'b')",
            "p.yaml:6:",
            "takes 1 operands in its parentheses, and here it has 2",
        ),
        ("size() > 1", "p.yaml:6:", "takes 1 operands"),
        (
            "now.getHours('a', 'b') > 1",
            "p.yaml:6:",
            "takes 0 to 1 operands",
        ),
        (
            "args.x.exists(i)",
            "p.yaml:6:",
            "`exists` is called as `list.exists(x, condition)`",
        ),
        ("_f(args.x)", "p.yaml:6:", "there is no function `_f()`"),
        (".size(args.x) > 1", "p.yaml:6:", "there is no function"),
        (
            "optional.of(1).hasValue()",
            "p.yaml:6:",
            "there is no function `x.hasValue()`",
        ),
        ("args.?x == 1", "p.yaml:6:", "`when`: "),
        ("Foo{a: 1} == 1", "p.yaml:6:", "makes a message"),
        ("args.x.matches(args.y)", "p.yaml:6:", "must be written out"),
        ("args.x.matches('a(')", "p.yaml:6:22:", "unclosed group"),
        (
            r"args.x.matches('(\\w{100}){100}')",
            "p.yaml:6:",
            "too large",
        ),
        (
            "args.x.all(args, true)",
            "p.yaml:6:",
            "`args` has a meaning already",
        ),
        (
            "args.cents >",
            "p.yaml:6:19: `when`: the expression ends too early: in `args.cents >`",
            "",
        ),
        (
            "args.cents > > 1",
            "p.yaml:6:20: `when`: this is no CEL expression: unexpected `>`",
            "",
        ),
        (
            "args.cents = 1",
            "p.yaml:6:18:",
            "unexpected `=`: write `==`",
        ),
        (
            "args.x and args.y",
            "p.yaml:6:14:",
            "unexpected `and`: write `&&`",
        ),
        ("not args.x", "p.yaml:6:", "unexpected `args`: write `!`"),
        ("if args.x", "p.yaml:6:", "`if` is reserved in CEL"),
        (
            "args.a.b?.c == 1",
            "p.yaml:6:7: `when`: this is no CEL expression: in",
            "",
        ),
        ("args.x == None", "p.yaml:6:", ": write `null`"),
        ("len(args.x) > 1", "p.yaml:6:", ": write `size`"),
        ("args.x.any(y, y > 1)", "p.yaml:6:", ": write `exists`"),
        (
            "principal.roles.contains('a')",
            "p.yaml:6:",
            "`contains` looks in a string, and here in a list: write `x in list`",
        ),
        ("now.startsWith('2026')", "p.yaml:6:", "here in a timestamp"),
        (
            "principal.roles.matches('a')",
            "p.yaml:6:",
            "here in a list",
        ),
        (
            "args.s == 'é' && arg.x",
            "p.yaml:6:24: `when`: `arg` is no variable",
            "",
        ),
        (
            "args.s == 'é' && > 1",
            "p.yaml:6:24: `when`: this is no CEL expression: unexpected `>`",
            "",
        ),
        ("'a'", "p.yaml:6:7:", "this is a string"),
        (
            "args.x + 1",
            "p.yaml:6:",
            "this is the result of arithmetic",
        ),
        ("tool.id", "p.yaml:6:", "this is a string"),
        ("principal.roles && true", "p.yaml:6:", "this is a list"),
        ("size(args.x)", "p.yaml:6:", "this is a number"),
    ];
    for (expression, place, words) in table {
        let error = refused(expression);
        assert!(
            error.starts_with(place) && error.contains(words),
            "`{expression}`: {error}"
        );
    }
}

#[test]
fn expressions_past_their_limits_are_refused() {
    let long = format!("args.x == '{}'", "a".repeat(MAX_BYTES));
    assert!(refused(&long).contains("at most 4096 are allowed"));
    for deep in [
        format!("{}true{}", "(".repeat(33), ")".repeat(33)),
        format!("{}true{}", "(".repeat(2000), ")".repeat(2000)),
        "(".repeat(2000),
        format!("1{} > 1", " + 1".repeat(500)),
        format!("{}true", "true ? true : ".repeat(40)),
        format!("{}true", "true ? true : ".repeat(250)),
        format!("{}1{} == 1", "[".repeat(33), "]".repeat(33)),
        format!("{}1{} == 1", "[".repeat(300), "]".repeat(300)),
        format!("{}1{} == 1", "{'a': ".repeat(300), "}".repeat(300)),
        format!("{}args.x{}", "size(".repeat(100), ")".repeat(100)),
        format!("args.list[0]{} == 1", ".a[0]".repeat(400)),
    ] {
        let error = refused(&deep);
        assert!(
            error.contains("it has more than 32 levels: use fewer"),
            "{error}"
        );
    }
    for (twice, place) in [
        ("!".repeat(3000) + "true", "6:8"),
        ("!!args.x".to_owned(), "6:8"),
        ("args.x == ! !args.y".to_owned(), "6:19"),
        ("args.x - - -1 > 2".to_owned(), "6:18"),
        ("true && --args.x > 1".to_owned(), "6:16"),
    ] {
        let error = refused(&twice);
        assert!(
            error.starts_with(&format!("p.yaml:{place}: ")) && error.contains("leave both out"),
            "{error}"
        );
    }
    // What is quoted nests nothing.
    let brackets = "[({".repeat(40);
    for shallow in [
        format!("args.x == '{brackets}'"),
        format!(r"args.x == '\'{brackets}'"),
        format!(r"args.x == r'\' && args.y == '{brackets}'"),
        format!("args.x == '''a'{brackets}'''"),
        format!("args.x == \"{brackets}--!!\""),
        format!("args.x != 1 // {brackets}"),
        "args.x - -1 in [-1, - 2] && args.x in -args.y && [1, 2][1] - -1 > 2 && !(!args.z)"
            .to_owned(),
    ] {
        compiled(&shallow).unwrap_or_else(|error| panic!("{shallow}: {error}"));
    }
    let nested = "args.a.all(x, args.b.all(y, args.c.all(z, x < y && y < z)))";
    assert!(refused(nested).contains("stand inside each other"));
    // Wide is not deep: the parser balances && and ||.
    let wide = (0..150)
        .map(|i| format!("args.x == 'v{i}'"))
        .collect::<Vec<_>>()
        .join(" || ");
    assert_eq!(truth(&wide, r#"{"x": "v149"}"#), Truth::True);
}

/// An object of about that many bytes whose `list` repeats an item.
fn large(item: &str, bytes: usize) -> String {
    let items = vec![item; bytes / (item.len() + 1)];
    format!(
        r#"{{"list": [{}], "x": 1, "s": "{}"}}"#,
        items.join(","),
        "é".repeat(1000)
    )
}

#[test]
fn an_expression_past_its_budget_fails_before_it_runs() {
    let arguments = large("1", 200_000);
    // Ten thousand million comparisons would take an hour.
    assert_eq!(
        failed("args.list.all(a, args.list.all(b, a == b))", &arguments),
        TOO_LONG
    );
    assert_eq!(
        truth("args.list.all(a, a == 1)", &large("1", 2_000)),
        Truth::True
    );
}

#[test]
fn a_comment_that_yaml_has_folded_into_the_condition_is_refused() {
    let load = |when: &str| {
        Policy::compile(&[Source {
            name: "p.yaml".into(),
            text: format!("rules:\n- id: r\n  tools: ['*']\n  decision: deny\n  when: {when}\n"),
        }])
    };
    let lines = "args.x > 4 // large\n    || args.y != 'GBP' // foreign";
    for folded in [
        lines.to_owned(),
        format!(">\n    {lines}"),
        format!("\"{lines}\""),
        lines.replace('\n', "\r"),
        format!(">\n    {}", lines.replace('\n', "\r\n")),
    ] {
        let error = load(&folded).unwrap_err().to_string();
        assert!(error.contains("write `when: |`"), "{folded}: {error}");
    }
    for whole in [
        format!("|\n    {lines}"),
        "args.x > 4 // large".to_owned(),
        ">\n    args.x ==\n    'http://a'".to_owned(),
    ] {
        load(&whole).unwrap_or_else(|error| panic!("{whole}: {error}"));
    }
}

/// What this thread has used of a processor, where the system says so: a test shares its machine with others.
fn processor_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let used = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = used.and_then(|used| used.split_whitespace().next()?.parse().ok());
    nanos.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// What an evaluation takes, if it is within its budget.
fn timed(conditions: &Conditions, condition: &Condition, call: &ToolCall) -> Option<Duration> {
    let scope = scope();
    let input = Input {
        call,
        title: "",
        class: RiskClass::Write,
        scope: &scope,
        now: now(),
    };
    let start = processor_time();
    let truth = Evaluation::new(conditions, input).truth(condition);
    let took = processor_time().saturating_sub(start);
    (truth != Truth::Failed(TOO_LONG.into())).then_some(took)
}

/// The worst of each kind that is accepted, at the largest size of arguments that it is accepted with.
#[test]
fn no_accepted_expression_holds_a_worker_longer_than_fifty_milliseconds() {
    let expressions = [
        "args.list.all(a, args.list.all(b, a == b))",
        "args.list.all(a, args.list.exists(b, a != b || b == a))",
        "args.list.map(a, args.list).size() > 0",
        "args.list.map(a, args.list.map(b, [a, b])).size() > 0",
        "args.list.exists(a, a in args.list && false)",
        "args.list.exists(a, 'nope' in args.list)",
        "args.list.exists(a, args.list == args.list && false)",
        "args.list.exists(i, args.list[i] == 'x')",
        "args.list.exists(a, a > 1 && false)",
        "args.list.exists(a, (a < 'a' || a < 1 || a < 1.5) && false)",
        "(args.list + args.list + args.list + args.list + args.list + args.list).size() == 0",
        "args.list.filter(a, a != 0).map(b, b).filter(c, c != 0).map(d, d).size() == 0",
        "args.list.exists(a, string(a).contains('abcabcabcabc'))",
        "args.list.exists(a, a.matches('(?i)(\\\\w+\\\\s?)+\\\\d{1,20}$'))",
        "args.list.exists(a, args.s.matches('^(é*)*ü$'))",
        "args.list == args.list && args.list == args.list && args.list != args.list",
        "args.list.exists(a, {a: 1, 'b': args.list} == {})",
        "args.list.all(a, a.all(k, k != 'zz'))",
        "args.list.exists(a, has(a.b) && has(a.c) && a.b.c == 1)",
        "((args.s + args.s) + (args.s + args.s)) + ((args.s + args.s) + (args.s + args.s)) == args.s",
        "args.list.map(a, [args.list, args.list]).map(b, [b, b]).size() == 0",
        "args.list.map(a, {'k': a}).exists(m, m.k == 'x' || m == {'k': 1})",
        "args.exists(k, args.list.exists(a, a == k))",
        "args.list.exists(a, int('12') + size(args.s) == 1 || timestamp('2026-01-01T00:00:00Z') > now)",
        "args.list.exists(a, now.getHours('Europe/Paris') == 25)",
    ];
    let items = [
        "1",
        "0.5",
        "\"abcdefgh\"",
        "{}",
        "[]",
        "{\"b\":{\"c\":2},\"c\":1}",
        "[[[[1]]]]",
        "\"a\\u0000\"",
    ];
    let mut worst = (Duration::ZERO, String::new());
    for expression in expressions {
        let (conditions, condition) = compiled(expression).unwrap();
        for item in items {
            // The largest size under the budget, by doubling and halving.
            let (mut accepted, mut refused_at) = (64, 256 * 1024);
            while refused_at - accepted > accepted / 16 {
                let bytes = usize::midpoint(accepted, refused_at);
                match timed(&conditions, &condition, &call(&large(item, bytes))) {
                    None => refused_at = bytes,
                    Some(_) => accepted = bytes,
                }
            }
            let call = call(&large(item, accepted));
            let Some(took) = (0..3)
                .filter_map(|_| timed(&conditions, &condition, &call))
                .min()
            else {
                continue;
            };
            if took > worst.0 {
                worst = (
                    took,
                    format!("`{expression}` over {accepted} bytes of {item}"),
                );
            }
        }
    }
    eprintln!("the worst: {:?}: {}", worst.0, worst.1);
    assert!(
        worst.0 < Duration::from_millis(50),
        "{:?}: {}",
        worst.0,
        worst.1
    );
}

/// The same for patterns: those that the engine is slow with, over texts that nearly match them everywhere.
#[test]
fn no_accepted_pattern_holds_a_worker_longer_than_fifty_milliseconds() {
    let literals: Vec<String> = (1..=15).map(|n| "a".repeat(n) + "b").collect();
    let patterns = [
        "(?:a?){10}b",
        r"\\b\\B",
        r"\\bfoo\\b",
        "(?:0|1)*1(?:0|1){14}x",
        "a[ab]{20}c",
        r"(?i)(\\w+\\s?)+\\d{1,20}$",
        r"(?:\\w\\s?){3}!",
        r"\\w{5}x",
        &literals.join("|"),
    ];
    let mut seed: u64 = 7;
    let mut random = move |letters: &[char], bytes: usize| -> String {
        let mut text = String::new();
        while text.len() < bytes {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.push(letters[usize::try_from(seed >> 33).unwrap() % letters.len()]);
        }
        text
    };
    let mut worst = (Duration::ZERO, String::new());
    for pattern in patterns {
        let (conditions, condition) = compiled(&format!("args.x.matches('{pattern}')")).unwrap();
        for letters in [&['a'][..], &['0', '1'], &['a', 'b'], &['é', 'ü', 'a']] {
            let mut accepted = None;
            let mut bytes = 256 * 1024;
            while bytes > 256 && accepted.is_none() {
                bytes = bytes * 7 / 8;
                let call = call(&format!(r#"{{"x": "{}"}}"#, random(letters, bytes)));
                let took = (0..2).filter_map(|_| timed(&conditions, &condition, &call));
                accepted = took.min();
            }
            let took = accepted.expect("short enough a text is accepted");
            if took > worst.0 {
                worst = (
                    took,
                    format!("`{pattern}` over {bytes} bytes of {letters:?}"),
                );
            }
        }
    }
    eprintln!("the worst: {:?}: {}", worst.0, worst.1);
    assert!(
        worst.0 < Duration::from_millis(50),
        "{:?}: {}",
        worst.0,
        worst.1
    );
}

#[test]
fn the_deepest_expression_over_the_deepest_arguments_fits_a_small_stack() {
    let mut expression = "args.x == args.y".to_owned();
    while compiled(&format!("!({expression} && true)")).is_ok() {
        expression = format!("!({expression} && true)");
    }
    let deep = format!("{}1{}", "[".repeat(62), "]".repeat(62));
    let call = call(&format!(r#"{{"x": {deep}, "y": {deep}}}"#));
    let small = thread::Builder::new().stack_size(512 * 1024);
    let thread = small
        .spawn(move || truth_of(&expression, &call, &scope()))
        .unwrap();
    assert!(matches!(thread.join().unwrap(), Truth::True | Truth::False));
}

#[test]
fn conditions_of_one_policy_share_their_slots() {
    let rules: String = (0..50)
        .map(|i| format!("  - {{id: r{i}, tools: ['*'], decision: deny, when: args.cents > {i} && 'x' in principal.roles}}\n"))
        .collect();
    let policy = Policy::compile(&[Source {
        name: "p".into(),
        text: format!("rules:\n{rules}"),
    }])
    .unwrap();
    assert_eq!(policy.conditions.reads.len(), 2);
}
