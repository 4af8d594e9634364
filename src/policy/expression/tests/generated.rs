//! What holds for any condition and any arguments.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

/// An expression over `args.a`, `args.b`, `args.list`, `args.s`, other facts, and the variables of macros around it.
fn expression(depth: u32) -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        4 => prop::sample::select(vec![
            "args.a", "args.b", "args.list", "args.s", "args", "x", "y", "args.list[0]", "args.a.b",
            "principal.roles", "principal.attributes", "tool.class", "scope.agent_path", "now",
        ]).prop_map(str::to_owned),
        3 => prop::sample::select(vec![
            "0", "1", "7u", "2.5", "-1", "'ab'", "''", "true", "false", "null", "[]", "{}", "[1, 2]", "['ab']",
            "{'a': 1}", "b'x'",
        ]).prop_map(str::to_owned),
        1 => Just("has(args.a)".to_owned()),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let inner = || expression(depth - 1);
    let binary = prop::sample::select(vec![
        "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in", "+", "-", "*", "/", "%",
    ]);
    let call = prop::sample::select(vec![
        "size", "string", "int", "dyn", "type", "bool", "double", "uint", "bytes",
    ]);
    let method = prop::sample::select(vec!["contains", "startsWith", "endsWith"]);
    let of_variable = prop::sample::select(vec!["all", "exists", "exists_one", "map", "filter"]);
    prop_oneof![
        2 => leaf,
        5 => (inner(), binary, inner()).prop_map(|(l, op, r)| format!("({l} {op} {r})")),
        1 => inner().prop_map(|e| format!("!({e})")),
        1 => inner().prop_map(|e| format!("-({e})")),
        1 => (inner(), inner(), inner()).prop_map(|(c, a, b)| format!("({c} ? {a} : {b})")),
        1 => (call, inner()).prop_map(|(name, e)| format!("{name}({e})")),
        1 => (inner(), method, inner()).prop_map(|(e, name, o)| format!("({e}).{name}({o})")),
        2 => (inner(), of_variable, prop::sample::select(vec!["x", "y"]), inner())
            .prop_map(|(range, name, var, e)| format!("({range}).{name}({var}, {e})")),
        1 => (inner(), inner()).prop_map(|(a, b)| format!("[{a}, {b}]")),
        1 => (inner(), inner()).prop_map(|(a, b)| format!("{{{a}: {b}}}")),
        1 => (inner(), inner()).prop_map(|(a, b)| format!("({a})[{b}]")),
        1 => inner().prop_map(|a| format!("({a}).b")),
        1 => (inner(), prop::sample::select(vec!["^a*$", "(b|c)+", "."]))
            .prop_map(|(e, pattern)| format!("({e}).matches('{pattern}')")),
    ]
    .boxed()
}

/// A condition that the load accepts. Most of what `expression` makes could be seen to be no boolean.
fn condition() -> impl Strategy<Value = String> {
    prop_oneof![
        expression(3),
        (expression(2), expression(2)).prop_map(|(a, b)| format!("{a} == {b}")),
        (expression(2), expression(2)).prop_map(|(a, b)| format!("{a} in {b}")),
        (expression(2), expression(3)).prop_map(|(a, b)| format!("({a}).exists(x, {b})")),
    ]
    .prop_filter("accepted at the load", |text| compiled(text).is_ok())
}

fn json(depth: u32) -> BoxedStrategy<String> {
    let leaf = prop::sample::select(vec![
        "null",
        "true",
        "false",
        "0",
        "1",
        "-7",
        "2.5",
        "\"ab\"",
        "\"\"",
        "\"b\"",
        "9223372036854775807",
        "18446744073709551615",
        "[]",
        "{}",
    ])
    .prop_map(str::to_owned);
    if depth == 0 {
        return leaf.boxed();
    }
    prop_oneof![
        2 => leaf,
        1 => prop::collection::vec(json(depth - 1), 0..6).prop_map(|items| format!("[{}]", items.join(","))),
        1 => (json(depth - 1), json(depth - 1)).prop_map(|(a, b)| format!("{{\"a\":{a},\"b\":{b}}}")),
    ]
    .boxed()
}

/// Arguments of which each key may be absent. So many to four are large: a list of many, or a long text.
fn arguments(large: u32) -> impl Strategy<Value = String> {
    let maybe = |value: BoxedStrategy<String>| prop::option::weighted(0.8, value);
    let list = prop_oneof![
        4 => prop::collection::vec(json(2), 0..8).prop_map(|items| format!("[{}]", items.join(","))),
        large => (json(1), 0_usize..6_000).prop_map(|(item, count)| format!("[{}]", vec![item; count].join(","))),
    ];
    let text = prop_oneof![
        4 => Just("\"ab\"".to_owned()),
        large => (0_usize..20_000).prop_map(|len| format!("\"{}\"", "a".repeat(len))),
    ];
    (
        maybe(json(3)),
        maybe(json(1)),
        maybe(list.boxed()),
        maybe(text.boxed()),
    )
        .prop_map(|(a, b, list, s)| {
            let entries: Vec<String> = [("a", a), ("b", b), ("list", list), ("s", s)]
                .into_iter()
                .filter_map(|(key, value)| Some(format!("\"{key}\":{}", value?)))
                .collect();
            format!("{{{}}}", entries.join(","))
        })
}

fn input<'a>(call: &'a ToolCall, scope: &'a Scope) -> Input<'a> {
    Input {
        call,
        title: "",
        class: RiskClass::Write,
        scope,
        now: now(),
    }
}

fn run<S: Strategy>(
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        max_global_rejects: 1_000_000,
        max_local_rejects: 1_000_000,
        ..Config::default()
    });
    runner.run(strategy, test).unwrap();
}

#[test]
fn what_is_known_of_a_cost_at_the_load_is_never_less_than_what_it_is() {
    let (known, unknown) = (AtomicUsize::new(0), AtomicUsize::new(0));
    run(400, &(condition(), arguments(1)), |(text, arguments)| {
        let (conditions, condition) = compiled(&text).unwrap();
        let (call, scope) = (call(&arguments), scope());
        let mut evaluation = Evaluation::new(&conditions, input(&call, &scope));
        let mut weight = 0;
        for slot in &condition.reads {
            evaluation.facts.fill(*slot, &conditions.reads);
            weight += evaluation.facts.size(*slot).map_or(0, Size::weight);
        }
        let cost = evaluation.measure(&condition);
        match condition.cost.within_limit(weight) {
            Some(bound) => {
                known.fetch_add(1, Ordering::Relaxed);
                prop_assert!(cost <= bound, "{cost} is past {bound}");
            }
            None => {
                unknown.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    });
    let (known, unknown) = (known.into_inner(), unknown.into_inner());
    assert!(known > 100 && unknown > 20, "{known} known, {unknown} not");
}

#[test]
fn a_decision_ends_alike_whether_costs_are_known_at_the_load_or_measured() {
    let too_long = AtomicUsize::new(0);
    // Several conditions of one decision, each again and again, so that what they cost together matters too.
    let condition = prop_oneof![
        2 => condition(),
        1 => Just("args.list.all(x, x in args.list)".to_owned()),
    ];
    let strategy = (prop::collection::vec(condition, 1..4), arguments(4));
    let ends_alike = |texts: &[String], arguments: &str| {
        let rules: String = texts
            .iter()
            .enumerate()
            .map(|(i, text)| {
                let text = text.replace('"', "\\\"");
                format!("  - {{id: r{i}, tools: ['*'], decision: deny, when: \"{text}\"}}\n")
            })
            .collect();
        let sources = [Source {
            name: "p.yaml".into(),
            text: format!("rules:\n{rules}"),
        }];
        let compile = || {
            let document = crate::policy::document::Document::read(&sources).unwrap();
            let texts: Vec<_> = document
                .rules
                .iter()
                .map(|rule| rule.when.as_ref())
                .collect();
            compile(&texts).unwrap()
        };
        let (conditions, known) = compile();
        let (_, mut measured) = compile();
        for condition in measured.iter_mut().flatten() {
            condition.cost = Known::NOTHING;
        }
        let (call, scope) = (call(arguments), scope());
        let mut first = Evaluation::new(&conditions, input(&call, &scope));
        let mut second = Evaluation::new(&conditions, input(&call, &scope));
        for _ in 0..12 {
            for (known, measured) in known.iter().flatten().zip(measured.iter().flatten()) {
                let truth = first.truth(known);
                prop_assert_eq!(&truth, &second.truth(measured));
                if truth == Truth::Failed(TOO_LONG.into()) {
                    too_long.fetch_add(1, Ordering::Relaxed);
                    // The decision ends here.
                    return Ok(());
                }
            }
        }
        Ok(())
    };
    run(60, &strategy, |(texts, arguments)| {
        ends_alike(&texts, &arguments)
    });
    // One that is past its budget for certain.
    let list: Vec<u32> = (0..3000).collect();
    let texts = vec!["args.list.all(x, x in args.list)".to_owned(); 3];
    ends_alike(&texts, &format!("{{\"list\": {list:?}}}")).unwrap();
    assert!(too_long.into_inner() > 0, "no decision was past its budget");
}

#[test]
fn what_conditions_could_cost_together_does_not_fail_what_they_do_cost() {
    let (conditions, condition) = compiled("args.list.all(x, x != 'b')").unwrap();
    let (call, scope) = (call(r#"{"list": ["a", "a"]}"#), scope());
    let mut evaluation = Evaluation::new(&conditions, input(&call, &scope));
    let bound = condition.cost.within_limit(0).unwrap();
    for _ in 0..=2 * budget::DECISION_LIMIT / bound {
        assert_eq!(evaluation.truth(&condition), Truth::True);
    }
}
