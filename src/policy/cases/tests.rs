//! Cases as they are read, and what is refused with its place.

use super::*;

fn read(text: &str) -> Result<TestFile, String> {
    let source = Source {
        name: "t.yaml".to_owned(),
        text: text.to_owned(),
    };
    TestFile::read(&source).map_err(|error| error.to_string())
}

#[test]
fn a_case_is_read_whole() {
    let file = read(
        r#"
policy: ../refund.yaml
cases:
  - name: everything
    scope: {tenant: acme, session: s, run: r, agent_path: [root, sub]}
    principal: {id: clerk-7, roles: [refunds], attributes: {team: north}}
    call:
      tool: call_tool
      server: shop
      origin: mcp
      annotations: {destructiveHint: true, labels: ["odd "]}
      args: {cents: 1.50, big: 9007199254740993, deep: [{"a b": "x\ty", yes: true}]}
      in_program: true
      target: {tool: issue_refund, server: shop, args_json: '{"a": null}'}
    now: 2026-01-02T10:00:00.5+01:00
    port: ask
    expect: {effect: suspend, rule: big, class: destructive, reason: over, selected_by: "@write", kind: suspended, judged_tool: t}
"#,
    )
    .unwrap();
    let text = str::to_owned;
    let expect = [
        (Field::Effect, "suspend"),
        (Field::Rule, "big"),
        (Field::Class, "destructive"),
        (Field::Reason, "over"),
        (Field::SelectedBy, "@write"),
        (Field::Kind, "suspended"),
        (Field::JudgedTool, "t"),
    ];
    let expected = TestFile {
        policy: Some(text("../refund.yaml")),
        cases: vec![Case {
            name: text("everything"),
            line: 4,
            scope: CaseScope {
                tenant: text("acme"),
                session: text("s"),
                run: text("r"),
                agent_path: vec![text("root"), text("sub")],
                principal: text("clerk-7"),
                roles: vec![text("refunds")],
                attributes: vec![(text("team"), text("north"))],
            },
            call: CaseCall {
                tool: text("call_tool"),
                server: text("shop"),
                origin: Some(Origin::Mcp),
                annotations: Some(Annotations {
                    destructive_hint: Some(true),
                    labels: vec![text("odd ")],
                    ..Annotations::default()
                }),
                arguments_json: text(
                    r#"{"cents":1.50,"big":9007199254740993,"deep":[{"a b":"x\ty","yes":true}]}"#,
                ),
                in_program: true,
                target: Some(Box::new(CaseCall {
                    tool: text("issue_refund"),
                    server: text("shop"),
                    arguments_json: text(r#"{"a": null}"#),
                    ..CaseCall::default()
                })),
            },
            now: Some(Timestamp::from_millis(1_767_344_400_500)),
            port: Some(Decision::Ask),
            expect: expect
                .map(|(field, value)| Expectation {
                    field,
                    value: text(value),
                })
                .to_vec(),
        }],
    };
    assert_eq!(file, expected);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let case = |rest: &str| format!("cases:\n  - name: a\n    {rest}\n");
    let whole = |call: &str, expect: &str| case(&format!("call: {call}\n    expect: {expect}"));
    for (text, error) in [
        (String::new(), "t.yaml:1:1: the file has no case"),
        (
            "policy: p\n".to_owned(),
            "t.yaml:1:1: a test file needs `cases`",
        ),
        ("cases: []\n".to_owned(), "t.yaml:1:1: the file has no case"),
        (case("call: {tool: t}"), "t.yaml:2:5: a case needs `expect`"),
        (
            whole("{tool: t}", "{rule: r}"),
            "t.yaml:4:13: `expect` needs `effect`",
        ),
        (
            whole("{tool: t}", "{effect: allow, rul: r}"),
            "t.yaml:4:29: `rul` is no key of `expect`",
        ),
        (
            whole("{tool: t}", "{effect: alow}"),
            "t.yaml:4:22: `effect`: expected `allow`, `deny` or `suspend`, found the text `alow`, did you mean `allow`?",
        ),
        (
            whole("{tool: t}", "{effect: allow, reason: ''}"),
            "t.yaml:4:37: `reason` is empty",
        ),
        (
            whole("{tool: t, args: [1]}", "{effect: allow}"),
            "t.yaml:3:27: `args`: expected keys with values, found a list",
        ),
        (
            whole("{tool: t, args: {n: 0x10}}", "{effect: allow}"),
            "t.yaml:3:31: `args`: `0x10` is no number of JSON",
        ),
        (
            whole("{tool: t, args: {n: .5}}", "{effect: allow}"),
            "t.yaml:3:31: `args`: `.5` is no number of JSON",
        ),
        (
            whole(
                "{tool: t, args: {n: 1}, args_json: '{}'}",
                "{effect: allow}",
            ),
            "t.yaml:3:35: `args_json` stands beside `args`",
        ),
        (
            whole(
                "{tool: t, target: {tool: u, in_program: true}}",
                "{effect: allow}",
            ),
            "t.yaml:3:39: `in_program` is no key of `target`",
        ),
        (
            whole("{tool: t}", "{effect: allow}\n    now: yesterday"),
            "t.yaml:5:10: `now`: `yesterday` is no moment",
        ),
        (
            whole(
                "{tool: t}",
                "{effect: allow}\n  - name: a\n    call: {tool: u}\n    expect: {effect: deny}",
            ),
            "t.yaml:5:5: `name`: `a` is the name of the case in line 2 too",
        ),
    ] {
        let refused = read(&text).unwrap_err();
        assert!(refused.starts_with(error), "{refused}\n{error}");
    }
}
