//! The policy floor as the engine sees it: what a document may say, and what a policy answers.

mod generated;

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::arguments::Arguments;
use crate::domain::{Origin, Principal};

fn source(text: &str) -> Source {
    Source {
        name: "policy.yaml".into(),
        text: text.into(),
    }
}

fn policy(text: &str) -> Policy {
    Policy::compile(&[source(text)]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refused(text: &str) -> String {
    match Policy::compile(&[source(text)]) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(error) => error.to_string(),
    }
}

fn call(tool: &str, arguments: &str) -> ToolCall {
    ToolCall {
        call_id: Id::default(),
        step_id: Id::default(),
        tool: Id::parse(tool).unwrap(),
        server: Id::default(),
        origin: None,
        annotations: None,
        arguments: Arguments::parse(arguments, 1 << 20).unwrap(),
        in_program: false,
        parent_call_id: Id::default(),
        wrapped: None,
    }
}

fn evaluate<'p>(policy: &'p Policy, call: &ToolCall) -> Verdict<'p> {
    let scope = Scope {
        principal: Principal {
            id: Id::parse("u1").unwrap(),
            ..Principal::default()
        },
        ..Scope::default()
    };
    let class = policy.classify(call).class;
    policy.evaluate(&Facts {
        call,
        class,
        scope: &scope,
        now: Timestamp::from_millis(0),
    })
}

/// The decision and what decided.
fn decide<'p>(policy: &'p Policy, tool: &str, arguments: &str) -> (Decision, &'p str) {
    let verdict = evaluate(policy, &call(tool, arguments));
    (verdict.decision, verdict.matched_rule)
}

use Decision::{Allow, Ask, Deny};

/// The API contract's whole document, without the keys that this version does not honour.
const WHOLE: &str = r#"
version: 1
mode: auto
selectors: ["@write", "@destructive"]
always: ["payments.*"]
never: ["client.lookup_order"]
default: allow
rules:
  - id: refund-role
    tools: ["client.issue_refund"]
    when: "!('refunds' in principal.roles)"
    decision: deny
    reason: your role does not include refunds
  - id: big-refund
    tools: ["client.issue_refund"]
    when: args.cents > 400000
    decision: ask
    reason: refunds over £4000 need a manager
    approval: {expires: 1h, on_expiry: deny, approvers: {roles: [manager], quorum: 2, exclude_requester: true}}
  - id: shell
    tools: ["file_system.bash"]
    decision: ask
    denylist: ['*rm -rf*']
    sensitive: ['*sudo *']
    origins: [mcp, code]                    # optional: code http mcp a2a workflow
    classes: [write, destructive]           # optional: read-only write destructive
    allowlist: ['{"command": "ls*"}']
tools:
  - tool: github__delete_repo
    server: github
    annotations: {destructiveHint: true}
trusted_servers: [github]
policy_port: {endpoint: "http://127.0.0.1:7000", timeout: 500ms}
suspensions:
  approval: {expires: 24h, on_expiry: abandon}
  retention: 7d
  claim_within: 1h
  claim_lease: 5m
limits: {max_arguments_bytes: 262144, max_payload_bytes: 262144, pending_per_session: 1000, pending_per_tenant: 100000}
"#;

#[test]
fn the_whole_document_of_the_contract_loads() {
    let policy = policy(WHOLE);
    assert!(!policy.allows_everything());
    assert_eq!(policy.limits(), &Limits::default());
    assert_eq!(policy.revision().len(), 16);
    let manager = ApproverRule {
        roles: vec!["manager".into()],
        quorum: 2,
        exclude_requester: true,
    };
    let terms = ApprovalTerms {
        expires: Duration::from_secs(3600),
        on_expiry: OnExpiry::Deny,
        approvers: manager,
    };
    assert_eq!(policy.rules[1].terms, terms);
    assert_eq!(policy.rules[0].terms, *policy.approval());
    let port = policy.port().unwrap();
    assert_eq!(port.endpoint.as_str(), "http://127.0.0.1:7000");
    assert_eq!(port.timeout, Duration::from_millis(500));
}

#[test]
fn a_policy_port_has_200_milliseconds_unless_the_document_says_otherwise() {
    let port = |text: &str| policy(text).port().map(|port| port.timeout);
    assert_eq!(port("version: 1"), None);
    let default = Some(Duration::from_millis(200));
    assert_eq!(port("policy_port: {endpoint: 'unix:/run/p.sock'}"), default);
    let longest = "policy_port: {endpoint: 'unix:/run/p.sock', timeout: 10s}";
    assert_eq!(port(longest), Some(Duration::from_secs(10)));
}

#[test]
fn a_policy_is_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&Policy::defaults());
}

#[test]
fn without_a_document_everything_is_allowed_and_writes_ask() {
    let policy = Policy::defaults();
    assert!(policy.allows_everything());
    assert_eq!(decide(&policy, "any", "{}"), (Allow, "default"));
    assert_eq!(
        policy.select("any", RiskClass::ReadOnly),
        Selection {
            asks: false,
            by: ""
        }
    );
    assert_eq!(
        policy.select("any", RiskClass::Write),
        Selection {
            asks: true,
            by: "@write"
        }
    );
    assert_eq!(
        policy.select("any", RiskClass::Destructive),
        Selection {
            asks: true,
            by: "@destructive"
        }
    );
    assert_eq!(policy.retention(), Duration::from_secs(7 * 24 * 3600));
    assert_eq!(policy.claim_within(), Duration::from_secs(3600));
    assert_eq!(policy.claim_lease(), Duration::from_secs(300));
    assert_eq!(policy.approval().expires, Duration::from_secs(24 * 3600));
}

#[test]
fn what_is_wrong_with_a_document_is_said_with_its_place() {
    let table = [
        // The document.
        ("", "policy.yaml:1:1: ", "has no keys"),
        ("# only a comment\n", "policy.yaml:1:1: ", "has no keys"),
        ("---\n", "policy.yaml:1:1: ", "has no keys"),
        ("null\n", "policy.yaml:1:1: ", "has no keys"),
        ("{}\n", "policy.yaml:1:1: ", "has no keys"),
        ("[a]\n", "policy.yaml:1:1: ", "expected keys with values"),
        (
            "just text\n",
            "policy.yaml:1:1: ",
            "found the text `just text`",
        ),
        (
            "mode: auto\n---\nmode: deny\n",
            "policy.yaml:2:1: ",
            "second document",
        ),
        ("mode: auto\n  rules: x\n", "policy.yaml:2:", "not YAML"),
        ("mode: 'auto\n", "policy.yaml:", "not YAML"),
        // A tab in a key does not reach the screen.
        (
            "\"a\\tb\": !x y\n",
            "policy.yaml:1:9: `a\\tb`: `!x` is a YAML tag",
            "",
        ),
        (
            "%YAML 1.2\n---\nmode: auto\n",
            "policy.yaml:1:1: ",
            "not YAML",
        ),
        // Keys.
        (
            "mode: auto\nmod: deny\n",
            "policy.yaml:2:1: `mod` is no key of the document",
            "did you mean `mode`?",
        ),
        (
            "mode: auto\nmode: deny\n",
            "policy.yaml:2:1: `mode` stands twice",
            "line 1",
        ),
        (
            "mode:\n",
            "policy.yaml:1:1: `mode` has no value",
            "remove the key",
        ),
        (
            "default: ~\n",
            "policy.yaml:1:1: `default` has no value",
            "",
        ),
        (
            "default: null\n",
            "policy.yaml:1:1: `default` has no value",
            "",
        ),
        (
            "<<: {mode: deny}\n",
            "policy.yaml:1:1: `<<` is a merge key",
            "",
        ),
        ("? [a]\n: b\n", "policy.yaml:1:3: a key must be a word", ""),
        ("rules: &r []\n", "policy.yaml:1:", "anchors"),
        (
            "always: *r\n",
            "policy.yaml:1:9: `always`: aliases",
            "in quotes",
        ),
        ("always: [*]\n", "policy.yaml:1:", "in quotes"),
        ("selectors: [@write]\n", "policy.yaml:1:", "in quotes"),
        (
            "mode: !!str auto\n",
            "policy.yaml:1:7: `mode`: `!!str` is a YAML tag",
            "",
        ),
        (
            "grants: {expire: 1h}\n",
            "policy.yaml:1:10: `expire` is no key of `grants`",
            "expires",
        ),
        (
            "grants: {expires: 0h}\n",
            "policy.yaml:1:19: `expires`: a duration must be above zero",
            "",
        ),
        // The policy port.
        (
            "policy_port: http://127.0.0.1:7000\n",
            "policy.yaml:1:14: `policy_port`",
            "expected keys with values (`endpoint` or `timeout`)",
        ),
        (
            "policy_port: {timeout: 1s}\n",
            "policy.yaml:1:14: `policy_port` needs `endpoint`",
            "add it",
        ),
        (
            "policy_port: {endpoint: 'https://authz:7000'}\n",
            "policy.yaml:1:25: `endpoint`: `https://authz:7000`",
            "write `http://HOST:PORT`",
        ),
        (
            "policy_port: {endpoint: 'http://authz:7000', timout: 1s}\n",
            "policy.yaml:1:46: `timout`",
            "did you mean `timeout`?",
        ),
        (
            "policy_port:\n  endpoint: http://authz:7000\n  timeout: 11s\n",
            "policy.yaml:3:12: `timeout`",
            "at most `10s`",
        ),
        (
            "policy_port: {endpoint: 'http://authz:7000', timeout: 0ms}\n",
            "policy.yaml:1:55: `timeout`",
            "above zero",
        ),
        // Wrappers.
        (
            "wrappers: [call_tool]\n",
            "policy.yaml:1:12: a wrapper: expected keys with values (`tool`, `name`, `server` or `arguments`)",
            "found the text `call_tool`",
        ),
        (
            "wrappers: [{tool: call_tool}]\n",
            "policy.yaml:1:12: a wrapper needs `name`",
            "",
        ),
        (
            "wrappers: [{name: /tool}]\n",
            "policy.yaml:1:12: a wrapper needs `tool`",
            "",
        ),
        (
            "wrappers: [{tool: '', name: /tool}]\n",
            "policy.yaml:1:19: `tool`: `` must not be empty",
            "",
        ),
        (
            "wrappers: [{tool: call_tool, name: /tool, args: /a}]\n",
            "policy.yaml:1:43: `args` is no key of a wrapper",
            "",
        ),
        (
            "wrappers: [{tool: call_tool, name: tool}]\n",
            "policy.yaml:1:36: `name`: `tool` is no JSON pointer",
            "start with `/`",
        ),
        (
            "wrappers: [{tool: call_tool, name: /tool, server: '/a~2'}]\n",
            "policy.yaml:1:54: `server`: `/a~2` is no JSON pointer",
            "`~0`",
        ),
        (
            "wrappers: [{tool: call_tool, name: ''}]\n",
            "policy.yaml:1:36: `name`: `` is the arguments as a whole",
            "such as `/tool`",
        ),
        (
            "wrappers:\n- {tool: a, name: /tool}\n- {tool: a, name: /name}\n",
            "policy.yaml:3:10: `wrappers`: `a` is a wrapper already, at policy.yaml:2:10",
            "keep one of the two",
        ),
        // Single keys.
        (
            "version: 2\n",
            "policy.yaml:1:10: `version`",
            "write `version: 1`",
        ),
        (
            "version: '1'\n",
            "policy.yaml:1:10: `version`",
            "found the text `1`",
        ),
        (
            "mode: asks\n",
            "policy.yaml:1:7: `mode`: expected `auto`, `ask` or `deny`, found the text `asks`",
            "`ask`?",
        ),
        ("mode: [auto]\n", "policy.yaml:1:7: `mode`", "found a list"),
        (
            "default: true\n",
            "policy.yaml:1:10: `default`",
            "found the boolean `true`",
        ),
        (
            "default: Allow\n",
            "policy.yaml:1:10: `default`",
            "did you mean `allow`?",
        ),
        // Lists.
        (
            "selectors: '@destructive'\n",
            "policy.yaml:1:12: `selectors`: expected a list",
            "write `[\"@destructive\"]`",
        ),
        (
            "selectors: ['@destuctive']\n",
            "policy.yaml:1:13: `selectors`",
            "did you mean `@destructive`?",
        ),
        (
            "selectors: [write]\n",
            "policy.yaml:1:13: `selectors`",
            "did you mean `@write`?",
        ),
        (
            "always: ['a**']\n",
            "policy.yaml:1:12: `always`: the pattern `a**` has `**`",
            "write `*`",
        ),
        (
            "never: [a, 'x.{b}']\n",
            "policy.yaml:1:15: `never`: the pattern `x.{b}` has `{`",
            "",
        ),
        (
            "always: [1]\n",
            "policy.yaml:1:10: `always`: expected a text, found the number `1`",
            "write `\"1\"`",
        ),
        (
            "always: [true]\n",
            "policy.yaml:1:10: `always`: expected a text, found the boolean `true`",
            "",
        ),
        (
            "always: [~]\n",
            "policy.yaml:1:10: `always`: expected a text, found nothing",
            "",
        ),
        (
            "wrappers: [{tool: 'call_*', name: /tool}]\n",
            "policy.yaml:1:25: `tool`: `call_*` looks like a pattern",
            "",
        ),
        (
            "tools: [{tool: 'client.[ab]', annotations: {readOnlyHint: true}}]\n",
            "policy.yaml:1:24: `tool`: `client.[ab]` looks like a pattern",
            "",
        ),
        (
            "tools: [{tool: a, server: '?', annotations: {readOnlyHint: true}}]\n",
            "policy.yaml:1:28: `server`: `?` looks like a pattern",
            "",
        ),
        (
            "trusted_servers: ['git*']\n",
            "policy.yaml:1:23: `trusted_servers`: `git*` looks like a pattern",
            "name each of them",
        ),
        (
            "trusted_servers: ['']\n",
            "policy.yaml:1:19: `trusted_servers`: `` must not be empty",
            "",
        ),
        // Rules.
        (
            "rules: {id: r}\n",
            "policy.yaml:1:8: `rules`: expected a list",
            "",
        ),
        ("rules: [r]\n", "policy.yaml:1:9: a rule: expected keys", ""),
        (
            "rules: [{tools: [a], decision: deny}]\n",
            "policy.yaml:1:9: a rule needs `id`",
            "",
        ),
        (
            "rules: [{id: r, decision: deny}]\n",
            "policy.yaml:1:9: a rule needs `tools`",
            "",
        ),
        (
            "rules: [{id: r, tools: [a]}]\n",
            "policy.yaml:1:9: a rule needs `decision`",
            "",
        ),
        (
            "rules: [{id: r, tools: [a], decison: allow}]\n",
            "policy.yaml:1:29: `decison` is no key of a rule",
            "`decision`?",
        ),
        (
            "rules: [{id: 7, tools: [a], decision: deny}]\n",
            "policy.yaml:1:14: `id`: expected a text",
            "",
        ),
        (
            "rules: [{id: '', tools: [a], decision: deny}]\n",
            "policy.yaml:1:14: `id`: `` must not be empty",
            "",
        ),
        (
            "rules: [{id: mode, tools: [a], decision: deny}]\n",
            "policy.yaml:1:14: `id`: `mode` is what",
            "another id",
        ),
        (
            "rules: [{id: r, tools: a, decision: deny}]\n",
            "policy.yaml:1:24: `tools`: expected a list",
            "write `[\"a\"]`",
        ),
        (
            "rules: [{id: r, tools: [], decision: deny}]\n",
            "policy.yaml:1:17: `tools` is empty",
            "never match",
        ),
        (
            "rules: [{id: r, tools: ['a[b'], decision: deny}]\n",
            "policy.yaml:1:27: `tools`: the pattern `a[b`",
            "write `[[]`",
        ),
        (
            "rules: [{id: r, tools: [a], decision: yes}]\n",
            "policy.yaml:1:39: `decision`",
            "found the text `yes`",
        ),
        (
            "rules: [{id: r, tools: [a], decision: deny, origins: []}]\n",
            "policy.yaml:1:45: `origins` is empty",
            "",
        ),
        (
            "rules: [{id: r, tools: [a], decision: deny, origins: [MCP]}]\n",
            "policy.yaml:1:55: `origins`",
            "did you mean `mcp`?",
        ),
        (
            "rules: [{id: r, tools: [a], decision: deny, classes: [readonly]}]\n",
            "policy.yaml:1:55: `classes`",
            "`read-only`?",
        ),
        (
            "rules: [{id: r, tools: [a], decision: deny, denylist: x}]\n",
            "policy.yaml:1:55: `denylist`",
            "",
        ),
        (
            "rules: [{id: r, tools: [a], decision: deny, allowlist: ['[\"a']}]\n",
            "policy.yaml:1:58: `allowlist`",
            "`[[]`",
        ),
        (
            "rules: [{id: r, tools: [a], decision: deny, reason: 5}]\n",
            "policy.yaml:1:53: `reason`",
            "",
        ),
        (
            "rules: [{id: r, tools: [a], decision: deny, when: true}]\n",
            "policy.yaml:1:51: `when`: expected a text",
            "`\"true\"`",
        ),
        (
            "rules: [{id: r, tools: [a], decision: deny, when: ''}]\n",
            "policy.yaml:1:51: `when`",
            "ends too early",
        ),
        (
            "rules: [{id: r, tools: [a], decision: deny, when: args.cents >}]\n",
            "policy.yaml:1:63: `when`",
            "`args.cents >`",
        ),
        (
            "rules: [{id: r, tools: [a], decision: deny, when: \"arg.x\"}]\n",
            "policy.yaml:1:52: `when`",
            "`args`?",
        ),
        (
            "rules:\n- id: r\n  tools: [a]\n  decision: deny\n  when: !has(args.x)\n",
            "policy.yaml:5:",
            "when",
        ),
        (
            "rules:\n- id: r\n  tools: [a]\n  decision: deny\n  when: !x args.x\n",
            "policy.yaml:5:9: `when`: `!x` is a YAML tag",
            "",
        ),
        (
            "rules:\n- id: r\n  tools: [a]\n  decision: deny\n  when: |\n    true &&\n    arg.x\n",
            "policy.yaml:7:5: ",
            "`args`?",
        ),
        (
            "rules: [{id: r, tools: [a], decision: ask}, {id: r, tools: [b], decision: deny}]\n",
            "policy.yaml:1:50: `id`: `r` is the id of another rule, at policy.yaml:1:14",
            "",
        ),
        (
            "mode: ask\nrules: [{id: r, tools: [a], decision: ask}]\n",
            "policy.yaml:1:7: `mode: ask` decides every call alike",
            "`r`",
        ),
        // Approval.
        (
            "rules: [{id: r, tools: [a], decision: ask, approval: {}}]\n",
            "policy.yaml:1:54: `approval` has no keys",
            "",
        ),
        (
            "rules: [{id: r, tools: [a], decision: ask, approval: {expires: 1w}}]\n",
            "policy.yaml:1:64: `expires`",
            "`90s`",
        ),
        (
            "rules: [{id: r, tools: [a], decision: ask, approval: {on_expiry: allow}}]\n",
            "policy.yaml:1:66: `on_expiry`",
            "",
        ),
        (
            "rules: [{id: r, tools: [a], decision: ask, approval: {approvers: {quorum: 0}}}]\n",
            "policy.yaml:1:75: `quorum`",
            "from 1",
        ),
        (
            "rules: [{id: r, tools: [a], decision: ask, approval: {approvers: {quorum: 1.5}}}]\n",
            "policy.yaml:1:75: `quorum`",
            "",
        ),
        (
            "rules: [{id: r, tools: [a], decision: ask, approval: {approvers: {exclude_requester: yes}}}]\n",
            "policy.yaml:1:86: `exclude_requester`: expected `true` or `false`",
            "",
        ),
        (
            "rules: [{id: r, tools: [a], decision: ask, approval: {approvers: {role: [x]}}}]\n",
            "policy.yaml:1:67: `role` is no key",
            "`roles`?",
        ),
        (
            "suspensions: {approval: {approvers: {quorum: 2}}}\n",
            "policy.yaml:1:26: `approvers` is no key of `approval`",
            "",
        ),
        (
            "suspensions:\n  client_tool: {expires: 1h, on_expire: deny}\n",
            "policy.yaml:2:30: `on_expire` is no key of `client_tool`",
            "`on_expiry`?",
        ),
        (
            "suspensions: {question: {expires: 0s}}\n",
            "policy.yaml:1:35: `expires`",
            "above zero",
        ),
        (
            "suspensions: {external: {on_expiry: retry}}\n",
            "policy.yaml:1:37: `on_expiry`",
            "`abandon`",
        ),
        (
            "suspensions: {sign_in: }\n",
            "policy.yaml:1:15: ",
            "`sign_in`",
        ),
        // Durations and limits.
        (
            "suspensions: {retention: 0s}\n",
            "policy.yaml:1:26: `retention`",
            "above zero",
        ),
        (
            "suspensions: {retention: 99999999999999999999d}\n",
            "policy.yaml:1:26: `retention`",
            "at most",
        ),
        (
            "suspensions: {retention: -1s}\n",
            "policy.yaml:1:26: `retention`",
            "expected a duration",
        ),
        (
            "suspensions: {retention: 1.5h}\n",
            "policy.yaml:1:26: `retention`",
            "expected a duration",
        ),
        (
            "suspensions: {claim_within: 60}\n",
            "policy.yaml:1:29: `claim_within`",
            "found the number `60`",
        ),
        (
            "suspensions: {claim_lease: h}\n",
            "policy.yaml:1:28: `claim_lease`",
            "expected a duration",
        ),
        (
            "limits: {pending_per_session: 0}\n",
            "policy.yaml:1:31: `pending_per_session`",
            "from 1",
        ),
        (
            "limits: {max_arguments_bytes: 99999999}\n",
            "policy.yaml:1:31: `max_arguments_bytes`",
            "to 1048576",
        ),
        (
            "limits: {max_payload_bytes: 1_000}\n",
            "policy.yaml:1:29: `max_payload_bytes`",
            "whole number",
        ),
        // The catalogue.
        (
            "tools: [{tool: a}]\n",
            "policy.yaml:1:9: a tool of the catalogue needs `annotations`",
            "",
        ),
        (
            "tools: [{tool: a, annotations: {}}]\n",
            "policy.yaml:1:32: `annotations` has no keys",
            "",
        ),
        (
            "tools: [{tool: a, annotations: {readonlyHint: true}}]\n",
            "policy.yaml:1:33: `readonlyHint` is no key",
            "`readOnlyHint`?",
        ),
        (
            "tools: [{tool: a, annotations: {readOnlyHint: on}}]\n",
            "policy.yaml:1:47: `readOnlyHint`: expected `true` or `false`",
            "",
        ),
        (
            "tools: [{tool: a, annotations: {labels: [readonly]}}]\n",
            "policy.yaml:1:42: `labels`: `readonly` is no label",
            "`read-only`?",
        ),
        (
            "tools:\n- {tool: a, annotations: {title: x}}\n- {tool: a, annotations: {title: y}}\n",
            "policy.yaml:3:10: `tools`: `a` without a server",
            "policy.yaml:2:10",
        ),
        (
            "tools:\n- {tool: a, server: s, annotations: {title: x}}\n- {tool: a, server: s, annotations: {title: y}}\n",
            "policy.yaml:3:10: `tools`: `a` of server `s`",
            "",
        ),
    ];
    let mut wrong = String::new();
    for (text, place, words) in table {
        let error = refused(text);
        if !error.starts_with(place) || !error.contains(words) || error.contains('\n') {
            wrong.push_str(&format!(
                "\n{text}expected {place} … {words}\nfound    {error}\n"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_condition_that_yaml_takes_for_a_tag_is_no_rule_without_a_condition() {
    let error = refused(
        "rules:\n  - id: r\n    tools: [\"*\"]\n    when: !has(args.x)\n    decision: allow\n",
    );
    assert!(error.starts_with("policy.yaml:4:"), "{error}");
    assert!(
        error.contains("`when`") && error.contains("!has(args.x)") && error.contains("quotes"),
        "{error}"
    );
}

#[test]
fn several_files_make_one_document() {
    let a = Source {
        name: "a.yaml".into(),
        text: "selectors: ['@write']\nalways: [one]\nrules: [{id: a, tools: [x], decision: ask}]\ndefault: deny\n".into(),
    };
    let b = Source {
        name: "b.yaml".into(),
        text: "selectors: ['@destructive']\nalways: [two]\nrules: [{id: b, tools: ['*'], decision: allow}]\n".into(),
    };
    let policy = Policy::compile(&[a.clone(), b.clone()]).unwrap();
    assert_eq!(decide(&policy, "x", "{}"), (Ask, "a"));
    assert_eq!(decide(&policy, "y", "{}"), (Allow, "b"));
    assert_eq!(policy.select("two", RiskClass::ReadOnly).by, "always: two");
    assert!(
        policy.select("z", RiskClass::Destructive).asks
            && policy.select("z", RiskClass::Write).asks
    );
    let swapped = Policy::compile(&[b.clone(), a.clone()]).unwrap();
    assert_eq!(decide(&swapped, "x", "{}"), (Allow, "b"));
    assert_ne!(policy.revision(), swapped.revision());

    let twice = Source {
        name: "c.yaml".into(),
        text: "version: 1\ndefault: allow\n".into(),
    };
    let error = Policy::compile(&[a.clone(), twice]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "c.yaml:2:1: `default` stands in a.yaml too: only lists may stand in several files"
    );
    let same_id = Source {
        name: "c.yaml".into(),
        text: "rules: [{id: a, tools: [x], decision: deny}]\n".into(),
    };
    let error = Policy::compile(&[a.clone(), same_id]).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("c.yaml:1:14: `id`: `a` is the id of another rule, at a.yaml:3:14"),
        "{error}"
    );
    let empty = Source {
        name: "c.yaml".into(),
        text: "\n".into(),
    };
    let error = Policy::compile(&[a, empty]).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("c.yaml:1:1: the document has no keys"),
        "{error}"
    );
    assert!(Policy::compile(&[]).is_err());
}

#[test]
fn the_revision_is_of_the_texts_and_of_the_names_of_several_files() {
    let revision = |name: &str, text: &str| {
        Policy::compile(&[Source {
            name: name.into(),
            text: text.into(),
        }])
        .unwrap()
        .revision()
        .to_owned()
    };
    let first = revision("a", "mode: auto");
    assert_eq!(first, revision("a", "mode: auto"));
    assert_ne!(first, revision("a", "mode: auto\n"));
    assert_eq!(first, revision("elsewhere/b", "mode: auto"));
    assert_ne!(first, Policy::defaults().revision());
    let two = |one: &str, other: &str| {
        let source = |name: &str, text: &str| Source {
            name: name.into(),
            text: text.into(),
        };
        let sources = [source(one, "mode: auto"), source(other, "default: deny")];
        Policy::compile(&sources).unwrap().revision().to_owned()
    };
    assert_eq!(two("a", "b"), two("here/a", "there/b"));
    assert_ne!(two("a", "b"), two("a", "c"));
}

#[test]
fn the_first_rule_that_matches_decides_and_the_default_catches_the_rest() {
    let policy = policy(
        "default: deny\nrules:\n\
         - {id: read, tools: [client.get_alert], decision: allow}\n\
         - {id: open, tools: ['client.[og]*'], decision: ask, reason: why not}\n\
         - {id: late, tools: ['*'], when: \"tool.id == 'late'\", decision: allow}\n",
    );
    assert_eq!(decide(&policy, "client.get_alert", "{}"), (Allow, "read"));
    assert_eq!(decide(&policy, "client.open_case", "{}"), (Ask, "open"));
    assert_eq!(decide(&policy, "CLIENT.open_case", "{}"), (Deny, "default"));
    assert_eq!(decide(&policy, "client.delete", "{}"), (Deny, "default"));
    assert_eq!(decide(&policy, "late", "{}"), (Allow, "late"));
    let verdict = evaluate(&policy, &call("client.open_case", "{}"));
    assert_eq!(verdict.reason.as_deref(), Some("why not"));
}

#[test]
fn a_mode_stands_in_for_the_rules() {
    for (mode, decision) in [("ask", Ask), ("deny", Deny)] {
        let policy = policy(&format!("mode: {mode}"));
        assert_eq!(decide(&policy, "x", "{}"), (decision, "mode"));
        assert!(!policy.allows_everything());
    }
    assert!(policy("mode: auto").allows_everything());
    assert!(!policy("default: ask").allows_everything());
    assert!(!policy("policy_port: {endpoint: 'http://127.0.0.1:7000'}").allows_everything());
}

#[test]
fn a_rule_that_cannot_be_evaluated_denies_and_names_itself() {
    let policy = policy(
        "rules:\n\
         - {id: big, tools: [refund], when: args.cents > 400000, decision: ask, reason: no, approval: {expires: 1h}}\n\
         - {id: rest, tools: ['*'], decision: allow}\n",
    );
    let verdict = evaluate(&policy, &call("refund", r#"{"order": "A1"}"#));
    assert_eq!(verdict.decision, Deny);
    assert_eq!(verdict.matched_rule, "big");
    assert_eq!(
        verdict.reason.as_deref(),
        Some("rule `big` could not be evaluated: no such key: `cents`")
    );
    assert_eq!(verdict.terms.expires, Duration::from_secs(3600));
    assert_eq!(
        decide(&policy, "refund", r#"{"cents": "900000"}"#),
        (Deny, "big")
    );
    assert_eq!(
        decide(&policy, "refund", r#"{"cents": 900000}"#),
        (Ask, "big")
    );
    assert_eq!(
        decide(&policy, "refund", r#"{"cents": 1}"#),
        (Allow, "rest")
    );
}

#[test]
fn classes_come_before_origins_and_origins_before_the_condition() {
    let policy = policy(
        "rules:\n\
         - {id: r, tools: ['*'], classes: [destructive], origins: [mcp], when: args.x == 1, decision: ask}\n",
    );
    let annotated = |label: &str, origin, arguments| ToolCall {
        origin,
        annotations: Some(Annotations {
            labels: vec![label.into()],
            ..Annotations::default()
        }),
        ..call("t", arguments)
    };
    let decide = |call: &ToolCall| {
        let verdict = evaluate(&policy, call);
        (verdict.decision, verdict.matched_rule)
    };
    // The class is false: neither the absent origin nor the condition is looked at.
    assert_eq!(decide(&annotated("write", None, "{}")), (Allow, "default"));
    assert_eq!(decide(&annotated("destructive", None, "{}")), (Deny, "r"));
    assert_eq!(
        decide(&annotated("destructive", Some(Origin::Http), "{}")),
        (Allow, "default")
    );
    assert_eq!(
        decide(&annotated("destructive", Some(Origin::Mcp), "{}")),
        (Deny, "r")
    );
    assert_eq!(
        decide(&annotated("destructive", Some(Origin::Mcp), r#"{"x": 1}"#)),
        (Ask, "r")
    );
    let reason = evaluate(&policy, &annotated("destructive", None, "{}")).reason;
    assert_eq!(
        reason.as_deref(),
        Some("rule `r` could not be evaluated: it has `origins`, and the call names no origin")
    );
}

#[test]
fn denylist_beats_sensitive_beats_allowlist_beats_the_decision() {
    let policy = policy(
        "rules:\n- id: shell\n  tools: [bash]\n  decision: deny\n  denylist: ['*rm -rf*']\n  sensitive: ['*sudo *']\n  \
         allowlist: ['*\"ls*', '*sudo ls*', '*rm -rf tmp*']\n\
         - {id: only-deny, tools: [sh], decision: ask, denylist: ['*rm*']}\n\
         - {id: empty, tools: [zsh], decision: deny, allowlist: []}\n",
    );
    let table = [
        ("bash", r#"{"command":"ls -l"}"#, Allow),
        ("bash", r#"{"command":"sudo ls"}"#, Ask),
        ("bash", r#"{"command":"rm -rf tmp"}"#, Deny),
        ("bash", r#"{"command":"\u0072m -rf /"}"#, Deny),
        ("bash", r#"{"command":"pwd"}"#, Ask),
        ("sh", r#"{"command":"rm"}"#, Deny),
        ("sh", r#"{"command":"ls"}"#, Ask),
        ("zsh", r#"{"command":"ls"}"#, Deny),
    ];
    for (tool, arguments, decision) in table {
        assert_eq!(
            decide(&policy, tool, arguments).0,
            decision,
            "{tool} {arguments}"
        );
    }
}

#[test]
fn approvers_without_a_role_could_be_anybody_or_nobody() {
    let refused = refused(
        "rules: [{id: r, tools: [t], decision: ask, approval: {approvers: {roles: []}}}]\n",
    );
    assert!(refused.contains("`roles` is empty"), "{refused}");
}

#[test]
fn a_selector_is_no_pattern_of_tools() {
    for document in [
        "always: ['@destructive']\n",
        "never: ['@read-only']\n",
        "rules: [{id: r, tools: ['@write'], decision: deny}]\n",
    ] {
        let refused = refused(document);
        assert!(refused.contains("is a class of tools"), "{refused}");
    }
    // Tools of a scope, as package registries have it, are tools.
    policy("always: ['@acme/*']\n");
}

#[test]
fn lists_that_would_take_too_long_deny() {
    let globs = |count: usize| {
        let globs: Vec<String> = (0..count).map(|n| format!("'*[rR][mM] ?{n}*'")).collect();
        policy(&format!(
            "rules: [{{id: r, tools: ['*'], decision: allow, denylist: [{}]}}]\n",
            globs.join(", ")
        ))
    };
    let arguments = |letter: &str, bytes: usize| {
        let text = letter.repeat(bytes / letter.len());
        call("t", &format!(r#"{{"x": "{text}"}}"#))
    };
    let decision = |policy: &Policy, call: &ToolCall| evaluate(policy, call).decision;
    assert_eq!(decision(&globs(10), &arguments("a", 200_000)), Allow);
    let too_many = globs(100);
    let verdict = evaluate(&too_many, &arguments("a", 200_000));
    assert_eq!(
        (verdict.decision, verdict.reason.as_deref()),
        (
            Deny,
            Some(
                "rule `r` could not be evaluated: its lists would take too long with these arguments"
            )
        )
    );
    assert_eq!(decision(&too_many, &arguments("a", 2_000)), Allow);
    // Other letters are compared one by one.
    let wild = format!(
        "rules: [{{id: r, tools: ['*'], decision: allow, denylist: ['*{}[x]*']}}]\n",
        "?".repeat(4000)
    );
    let wild = policy(&wild);
    assert_eq!(decision(&wild, &arguments("é", 200_000)), Deny);
    assert_eq!(decision(&wild, &arguments("é", 1_000)), Allow);
}

#[test]
fn never_beats_always_beats_selectors() {
    let policy = policy(
        "selectors: ['@destructive']\nalways: ['audit*', 'audit_all']\nnever: [audit_quiet, 'wipe_[tu]mp']\n",
    );
    let table = [
        ("audit_all", RiskClass::ReadOnly, true, "always: audit*"),
        (
            "audit_quiet",
            RiskClass::Destructive,
            false,
            "never: audit_quiet",
        ),
        (
            "wipe_tmp",
            RiskClass::Destructive,
            false,
            "never: wipe_[tu]mp",
        ),
        ("other", RiskClass::Destructive, true, "@destructive"),
        ("other", RiskClass::Write, false, ""),
    ];
    for (tool, class, asks, by) in table {
        assert_eq!(policy.select(tool, class), Selection { asks, by }, "{tool}");
    }
    let none = super::Policy::compile(&[source("selectors: []\nalways: [a]\n")]).unwrap();
    assert!(!none.select("x", RiskClass::Destructive).asks);
    assert!(none.select("a", RiskClass::ReadOnly).asks);
}

#[test]
fn the_catalogue_and_the_trusted_servers_classify() {
    let policy = policy(
        "tools:\n- {tool: peek, annotations: {readOnlyHint: true, title: Look}}\n- {tool: wipe, annotations: {labels: [Destructive]}}\n\
         trusted_servers: [github]\n",
    );
    let read_only = Some(Annotations {
        read_only_hint: Some(true),
        ..Annotations::default()
    });
    let class = |tool: &str, server: &str, origin| {
        let call = ToolCall {
            server: Id::parse(server).unwrap(),
            origin,
            annotations: read_only.clone(),
            ..call(tool, "{}")
        };
        policy.classify(&call).class
    };
    assert_eq!(class("peek", "shady", None), RiskClass::ReadOnly);
    assert_eq!(class("wipe", "github", None), RiskClass::Destructive);
    assert_eq!(class("list", "shady", Some(Origin::Mcp)), RiskClass::Write);
    assert_eq!(class("list", "shady", Some(Origin::Code)), RiskClass::Write);
    assert_eq!(class("list", "", None), RiskClass::Write);
    assert_eq!(class("list", "", Some(Origin::Code)), RiskClass::ReadOnly);
    assert_eq!(
        class("list", "github", Some(Origin::Mcp)),
        RiskClass::ReadOnly
    );
    assert_eq!(policy.title(&call("peek", "{}")), "Look");
}

#[test]
fn a_decision_costs_the_same_with_ten_thousand_rules() {
    let document = |count: usize| {
        let mut text = "rules:\n".to_owned();
        for i in 0..count {
            let tool = if i % 2 == 0 {
                format!("exact.{i}")
            } else {
                format!("prefix{i}.*")
            };
            text.push_str(&format!(
                "- {{id: r{i}, tools: ['{tool}'], decision: deny}}\n"
            ));
        }
        text.push_str("- {id: last, tools: [mine], decision: ask}\n");
        policy(&text)
    };
    let time = |policy: &Policy| {
        let call = call("mine", "{}");
        let scope = Scope::default();
        let facts = Facts {
            call: &call,
            class: RiskClass::Write,
            scope: &scope,
            now: Timestamp::default(),
        };
        (0..20)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..100 {
                    assert_eq!(policy.evaluate(&facts).matched_rule, "last");
                }
                start.elapsed()
            })
            .min()
            .unwrap()
    };
    let (few, many) = (time(&document(10)), time(&document(10_000)));
    assert!(
        many < few * 5 + Duration::from_micros(200),
        "{few:?} with 10 rules, {many:?} with 10,000"
    );
}

/// What one decision with one condition takes; the bound is only for release builds.
#[test]
fn a_decision_with_a_condition_takes_microseconds() {
    let policy = policy(WHOLE);
    let call = call(
        "client.issue_refund",
        r#"{"order_id": "A1", "cents": 400001}"#,
    );
    let scope = Scope {
        principal: Principal {
            id: Id::parse("u1").unwrap(),
            roles: vec!["refunds".into()],
            ..Principal::default()
        },
        ..Scope::default()
    };
    let facts = Facts {
        call: &call,
        class: RiskClass::Write,
        scope: &scope,
        now: Timestamp::default(),
    };
    let best = (0..20)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..500 {
                assert_eq!(policy.evaluate(&facts).matched_rule, "big-refund");
            }
            start.elapsed() / 500
        })
        .min()
        .unwrap();
    eprintln!("one decision with two conditions: {best:?}");
    assert!(
        cfg!(debug_assertions) || best < Duration::from_micros(6),
        "{best:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_text_as_a_document_panics(text in any::<String>()) {
        let _ = Policy::compile(&[source(&text)]);
    }

    #[test]
    fn no_bytes_put_into_a_document_panic(
        bytes in prop::collection::vec(any::<u8>(), 1..8),
        at in any::<prop::sample::Index>(),
    ) {
        let mut text = WHOLE.as_bytes().to_vec();
        let at = at.index(text.len());
        let end = (at + bytes.len()).min(text.len());
        text.splice(at..end, bytes);
        if let Err(error) = Policy::compile(&[source(&String::from_utf8_lossy(&text))]) {
            prop_assert!(error.line >= 1 && error.column >= 1 && !error.message.is_empty());
        }
    }

    #[test]
    fn no_text_as_a_condition_panics(when in "[a-z.()\\[\\]{}'\"\\\\ &|!<>=+0-9é@?:,*/%-]{0,60}") {
        let text = format!("rules: [{{id: r, tools: ['*'], decision: ask, when: {when:?}}}]\n");
        if let Ok(policy) = Policy::compile(&[source(&text)]) {
            let _ = decide(&policy, "a", r#"{"x": 1}"#);
        }
    }
}
