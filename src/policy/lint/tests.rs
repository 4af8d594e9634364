//! Each lint by a document that it warns about, and by one beside it that it leaves alone.

use super::*;
use crate::policy::Policy;

fn warnings(text: &str) -> Vec<Warning> {
    let policy = Policy::compile(&[source("p.yaml", text)]).unwrap();
    policy.warnings().to_vec()
}

fn source(name: &str, text: &str) -> Source {
    Source {
        name: name.to_owned(),
        text: text.to_owned(),
    }
}

/// Lint, line and column of each warning.
fn found(text: &str) -> Vec<(&'static str, u32, u32)> {
    let place = |warning: Warning| (warning.lint, warning.line, warning.column);
    warnings(text).into_iter().map(place).collect()
}

#[test]
fn a_document_as_it_is_meant_has_no_warning() {
    let document = r#"
selectors: ["@write", "@destructive"]
always: ["payments.*"]
never: ["client.lookup_order", bash]
rules:
  - {id: role, tools: [client.issue_refund], when: "!('refunds' in principal.roles)", decision: deny}
  - {id: big, tools: [client.issue_refund], when: args.cents > 400000, decision: ask, approval: {expires: 1h}}
  - {id: shell, tools: [bash], decision: ask, denylist: ["*rm -rf*"], allowlist: ['{"command": "pwd"}']}
  - {id: reads, tools: ["docs.*"], classes: [read-only], decision: allow}
  - {id: rest, tools: ["docs.*"], decision: deny}
"#;
    assert_eq!(warnings(document), []);
}

#[test]
fn a_rule_behind_one_that_decides_all_its_calls_is_never_reached() {
    let document = "\
rules:
  - {id: all, tools: ['client.*'], decision: deny}
  - {id: late, tools: [client.open_case, 'client.*_case'], decision: ask}
";
    let expected = Warning {
        lint: "unreachable-rule",
        file: "p.yaml".to_owned(),
        line: 3,
        column: 10,
        message: "rule `late` is never reached: rule `all` (p.yaml:2:10) decides every call of its tools before it; \
                  move it up, or remove it"
            .to_owned(),
    };
    assert_eq!(warnings(document), [expected]);
}

#[test]
fn rules_shadow_together_by_tools_classes_and_origins() {
    assert_eq!(
        found(
            "rules:
  - {id: a, tools: [t], classes: [read-only, write], decision: deny}
  - {id: b, tools: [t], classes: [destructive], decision: deny}
  - {id: late, tools: [t], origins: [mcp], decision: ask}
"
        ),
        [("unreachable-rule", 4, 10)]
    );
    assert_eq!(
        found(
            "rules:
  - {id: a, tools: [t, u], origins: [mcp, code], decision: deny}
  - {id: late, tools: [u], origins: [mcp], decision: ask}
"
        ),
        [("unreachable-rule", 3, 10)]
    );
}

#[test]
fn a_rule_that_some_call_reaches_is_not_called_unreachable() {
    for before in [
        "{id: a, tools: [t], when: args.x == 1, decision: deny}",
        "{id: a, tools: [t], classes: [read-only], decision: deny}",
        "{id: a, tools: [t], origins: [mcp], decision: deny}",
        "{id: a, tools: ['t?'], decision: deny}",
        "{id: a, tools: ['client.*'], decision: deny}",
    ] {
        let document =
            format!("rules:\n  - {before}\n  - {{id: late, tools: ['t*'], decision: ask}}\n");
        assert_eq!(warnings(&document), [], "{before}");
    }
}

#[test]
fn a_pattern_that_brings_no_call_is_named_alone() {
    assert_eq!(
        found(
            "rules:
  - {id: all, tools: ['client.*'], decision: deny}
  - {id: late, tools: [client.open_case, bash], decision: ask}
"
        ),
        [("unreachable-pattern", 3, 24)]
    );
}

#[test]
fn always_behind_never_has_no_effect() {
    assert_eq!(
        found("always: ['pay.*', pay.out]\nnever: ['pay.[a-z]*', pay.out]\n"),
        [("always-never", 1, 19)]
    );
}

#[test]
fn patterns_are_held_against_the_catalogue_where_there_is_one() {
    let rest = "
always: ['pay.*']
never: [docs.read]
rules: [{id: r, tools: [bash, sh], decision: ask}]
";
    assert_eq!(warnings(rest), []);
    let catalogue =
        |tool| format!("tools: [{{tool: {tool}, annotations: {{readOnlyHint: true}}}}]");
    assert_eq!(
        found(&(catalogue("sh") + rest)),
        [("uncatalogued", 2, 10), ("uncatalogued", 3, 9)]
    );
    assert_eq!(
        found(&(catalogue("pay.out") + rest)),
        [("uncatalogued", 3, 9), ("uncatalogued", 4, 25)]
    );
}

#[test]
fn a_pattern_that_names_a_wrapper_is_said() {
    let document = "\
wrappers: [{tool: call_tool, name: /tool}]
never: [call_tool]
rules: [{id: r, tools: ['call_*', call_tool], decision: deny}]
";
    assert_eq!(
        found(document),
        [("wrapper-pattern", 2, 9), ("wrapper-pattern", 3, 35)]
    );
}

#[test]
fn never_over_a_destructive_tool_is_said() {
    let document = "never: ['disk.*']
tools:
  - {tool: disk.wipe, annotations: {destructiveHint: true}}
  - {tool: disk.read, annotations: {readOnlyHint: true}}
";
    assert_eq!(found(document), [("never-destructive", 1, 9)]);
    let message = &warnings(document)[0].message;
    assert!(message.contains("`disk.wipe`"), "{message}");
    assert_eq!(
        found(&format!(
            "selectors: ['@read-only']\n{document}default: deny\n"
        )),
        [],
        "there is no review to exempt it from"
    );
}

#[test]
fn a_rule_that_allows_and_still_asks_is_said() {
    let rule = |more: &str| format!("rules: [{{id: r, tools: [t], decision: allow{more}}}]\n");
    let asked = |document: &str| -> Vec<String> {
        let warnings = warnings(document).into_iter();
        warnings
            .map(|warning| {
                assert_eq!((warning.lint, warning.line), ("allow-still-asks", 1));
                warning.message.split(" still ").next().unwrap().to_owned()
            })
            .collect()
    };
    assert_eq!(
        asked(&rule("")),
        ["rule `r` allows, but `@destructive` and `@write`"]
    );
    assert_eq!(
        asked(&rule(", classes: [write]")),
        ["rule `r` allows, but `@write`"]
    );
    assert_eq!(
        asked(&(rule(", classes: [read-only]") + "always: ['*']\n")),
        ["rule `r` allows, but `always: *`"]
    );
    let pin = "tools: [{tool: t, annotations: {destructiveHint: true}}]\n";
    assert_eq!(
        asked(&(rule("") + pin)),
        ["rule `r` allows, but `@destructive`"]
    );
    for quiet in [
        rule(", classes: [read-only]"),
        rule("") + "never: ['t*']\n",
        rule("") + "selectors: [\"@destructive\"]\nnever: [t]\n",
        rule("") + "tools: [{tool: t, annotations: {readOnlyHint: true}}]\n",
    ] {
        assert_eq!(asked(&quiet), <[String; 0]>::default(), "{quiet}");
    }
}

#[test]
fn keys_without_effect_are_said() {
    let rule = |more: &str| format!("rules: [{{id: r, tools: [t], {more}}}]\n");
    for (more, lint) in [
        ("decision: deny, allowlist: ['*x*']", "unused-decision"),
        ("decision: deny, sensitive: ['*x*']", "softened-deny"),
        ("decision: deny, approval: {expires: 1h}", "unused-approval"),
        ("decision: ask, denylist: ['rm *']", "unmatched-glob"),
    ] {
        let found: Vec<_> = found(&rule(more))
            .into_iter()
            .map(|(lint, ..)| lint)
            // What an allowlist allows is still selected.
            .filter(|lint| *lint != "allow-still-asks")
            .collect();
        assert_eq!(found, [lint], "{more}");
    }
    assert_eq!(warnings(&rule("decision: deny, sensitive: []")), []);
}

#[test]
fn a_glob_that_no_arguments_match_is_said_with_what_to_write() {
    let message = |key: &str, glob: &str| {
        let glob = serde_json::to_string(glob).unwrap();
        let document =
            format!("never: [t]\nrules: [{{id: r, tools: [t], decision: ask, {key}: [{glob}]}}]\n");
        let found = warnings(&document);
        assert!(found.iter().all(|warning| warning.lint == "unmatched-glob"));
        found.first().map(|warning| warning.message.clone())
    };
    for (glob, instead) in [
        ("rm *", "write `*rm *`"),
        ("^.*rm.*$", "write `*rm*`"),
        (r#"*"command":"rm*"#, r#"write `"key": "value"`"#),
        (r#"*"a","b"*"#, r#"write `"key": "value"`"#),
        (r#"{"b": 1, "a": 2}"#, r#"spelled `{"a": 2, "b": 1}`"#),
        (r#"{"a":1}"#, r#"spelled `{"a": 1}`"#),
        (r#"{"a": 1.0}"#, r#"spelled `{"a": 1}`"#),
        (r#"{"a": "\u00e9"}"#, r#"spelled `{"a": "é"}`"#),
        ("{command: ls}", "is no JSON object"),
        ("*one\ntwo*", "as escapes"),
        (
            r#"{"argv": ["rm", "-rf", "/"]}"#,
            r#"`["rm", "-rf", "/"]` is one character"#,
        ),
        (r#"*"argv": ["rm"*]*"#, "write `[[]`"),
        (r#"{"ports": [80]}"#, "write `[[]`"),
    ] {
        let message = message("denylist", glob).unwrap_or_else(|| panic!("`{glob}`"));
        assert!(message.contains(instead), "`{glob}`: {message}");
    }
    // A part of the arguments in an allowlist would allow whatever stands beside it.
    let advice = message("allowlist", "pwd").unwrap();
    assert!(advice.contains(r#"`{"command": "pwd"}`"#), "{advice}");
    for meant in [
        "*rm -rf*",
        r#"{"command": "pwd"}"#,
        r#"{"a": 1, "b": [[]true, null]}"#,
        r#"*"command": "rm*"#,
        r#"*"n":*"#,
        r#"*"a", "b"*"#,
        "*a:b,c*",
        r#"{"argv": [[]"ls"]}"#,
        r#"{"path": "[!/]*"}"#,
        "*[rR][mM] *",
        r#"*"n": [0-9]*"#,
        r#"*"n": [0-9]}"#,
    ] {
        assert_eq!(message("denylist", meant), None, "`{meant}`");
    }
}

#[test]
fn a_glob_that_matches_everything_is_said() {
    let rule =
        |list: &str| format!("never: [t]\nrules: [{{id: r, tools: [t], decision: ask, {list}}}]\n");
    for (list, effect) in [
        ("denylist: ['*']", "denies every call"),
        ("sensitive: ['{*}']", "asks about every call"),
        ("allowlist: ['*']", "allows every call"),
    ] {
        let found = warnings(&rule(list));
        let [warning] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(warning.lint, "everything-glob");
        assert!(warning.message.contains(effect), "{}", warning.message);
    }
}

#[test]
fn a_condition_that_is_true_decides_as_none_does() {
    let document = "never: [t]\nrules:\n- {id: a, tools: [t], when: \"true\", decision: allow}\n- {id: b, tools: [t], decision: deny}\n";
    assert_eq!(found(document), [("unreachable-rule", 4, 8)]);
}

#[test]
fn many_patterns_beside_the_catalogue_are_one_warning() {
    let rules: String = (0..5)
        .map(|n| format!("- {{id: r{n}, tools: [t{n}], decision: deny}}\n"))
        .collect();
    let document =
        format!("tools: [{{tool: other, annotations: {{readOnlyHint: true}}}}]\nrules:\n{rules}");
    let found = warnings(&document);
    let [warning] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!((warning.lint, warning.line), ("uncatalogued", 3));
    assert!(
        warning
            .message
            .starts_with("rule `r0` and 4 more match no tool")
    );
}

#[test]
fn a_tool_pattern_that_is_spelled_as_something_else_is_said() {
    for odd in [
        "client.refund ",
        "^client.*$",
        "client.(a|b)",
        "!client.*",
        "a,b",
    ] {
        let document = format!("never: ['{odd}']\n");
        assert_eq!(found(&document), [("odd-pattern", 1, 9)], "{odd}");
    }
    assert_eq!(found("never: ['client.[!ab]*', a-b, 'x y']\n"), []);
}

#[test]
fn a_document_that_never_asks_is_said() {
    assert_eq!(
        found("mode: auto\nselectors: []\nrules: [{id: r, tools: [t], decision: deny}]\n"),
        [("nobody-asked", 2, 1)]
    );
    assert_eq!(
        found("selectors: []\nrules: [{id: r, tools: [t], decision: deny}]\n"),
        [("nobody-asked", 1, 1)]
    );
    assert_eq!(
        found("selectors: []\nrules: [{id: r, tools: [t], decision: ask}]\n"),
        []
    );
    assert_eq!(found("selectors: []\nalways: [t]\n"), []);
    assert_eq!(found("selectors: []\ndefault: ask\n"), []);
}

#[test]
fn a_milder_class_selected_without_the_stricter_is_said() {
    assert_eq!(
        found("selectors: ['@write']\n"),
        [("stricter-not-selected", 1, 1)]
    );
    let gap = "selectors: ['@read-only', '@destructive']\n";
    assert_eq!(found(gap), [("stricter-not-selected", 1, 1)]);
    assert!(warnings(gap)[0].message.contains("not `@write`"));
    assert_eq!(
        found("mode: auto\nselectors: ['@write']\n"),
        [("stricter-not-selected", 2, 1)]
    );
    for stopped in [
        "rules: [{id: r, tools: ['*'], classes: [destructive], decision: deny}]\n",
        "rules: [{id: r, tools: ['*'], decision: ask}]\n",
        "always: ['*']\n",
        "default: deny\n",
        "policy_port: {endpoint: 'http://127.0.0.1:7000'}\n",
    ] {
        assert_eq!(found(&format!("selectors: ['@write']\n{stopped}")), []);
    }
}

#[test]
fn never_over_every_tool_is_said() {
    assert_eq!(found("never: [a, '*']\n"), [("never-anything", 1, 12)]);
    assert_eq!(found("never: ['a*']\n"), []);
}

#[test]
fn a_default_beside_a_mode_is_said() {
    assert_eq!(
        found("default: allow\nmode: deny\n"),
        [("unused-default", 2, 7)]
    );
    assert_eq!(found("default: allow\nmode: auto\n"), []);
}

#[test]
fn warnings_come_in_the_order_of_files_and_places() {
    let sources = [
        source("b.yaml", "rules: [{id: b, tools: [t], decision: allow}]\n"),
        source("a.yaml", "rules: [{id: a, tools: [t], decision: allow}]\n"),
    ];
    let policy = Policy::compile(&sources).unwrap();
    let found: Vec<_> = policy
        .warnings()
        .iter()
        .map(|warning| (warning.file.clone(), warning.lint))
        .collect();
    let expected = [
        ("b.yaml", "allow-still-asks"),
        ("a.yaml", "unreachable-rule"),
        ("a.yaml", "allow-still-asks"),
    ];
    assert_eq!(found, expected.map(|(file, lint)| (file.to_owned(), lint)));
}
