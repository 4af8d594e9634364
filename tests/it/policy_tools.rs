//! `assent check`, `test`, `explain` and `import`: the real binary over files, and no server.

use std::path::PathBuf;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::support::server::{Ended, Process};

const POLICY: &str = r#"never: ["client.issue_refund"]
rules:
  - id: refund-role
    tools: ["client.issue_refund"]
    when: "!('refunds' in principal.roles)"
    decision: deny
    reason: your role does not include refunds
  - {id: docs, tools: ["docs.*"], classes: [read-only], decision: allow}
  - id: big-refund
    tools: ["client.*"]
    when: args.cents > 400000
    decision: ask
    reason: refunds over £4000 need a manager
  - id: shell
    tools: [bash]
    decision: ask
    denylist: ["*rm -rf*"]
"#;

/// Files to work on.
struct Files(TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let files_dir = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            files_dir.write(name, text);
        }
        files_dir
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Runs a command; `@NAME` stands for a file's path. What it prints shows `@` for the directory.
    async fn run(&self, arguments: &[&str]) -> Ended {
        let arguments: Vec<String> = arguments
            .iter()
            .map(|argument| match argument.strip_prefix('@') {
                Some(name) => self.path(name).display().to_string(),
                None => (*argument).to_owned(),
            })
            .collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut ended = Process::run(&arguments, &[]).await;
        let here = format!("{}/", self.0.path().display());
        ended.stdout = ended.stdout.replace(&here, "@");
        ended.stderr = ended.stderr.replace(&here, "@");
        ended
    }
}

fn said(ended: &Ended) -> (Option<i32>, &str, &str) {
    (ended.code(), &ended.stdout, &ended.stderr)
}

fn document(ended: &Ended) -> Json {
    assert_eq!(ended.stdout.lines().count(), 1, "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

#[tokio::test]
async fn check_says_what_is_usable_what_is_wrong_and_what_is_hardly_meant() {
    let files = Files::new(&[
        ("good.yaml", POLICY),
        (
            "odd.yaml",
            "default: deny\nrules:\n  - {id: all, tools: ['*'], decision: ask}\n  - {id: late, tools: [t], decision: deny}\n",
        ),
        (
            "bad.yaml",
            "rules:\n  - {id: r, tools: [t], decison: ask}\n",
        ),
    ]);
    let good = files.run(&["check", "@good.yaml"]).await;
    let (code, stdout, stderr) = said(&good);
    assert_eq!((code, stderr), (Some(0), ""));
    assert!(
        stdout.starts_with("@good.yaml: usable, 4 rules, no warnings (revision "),
        "{stdout}"
    );

    let odd = files.run(&["check", "@odd.yaml"]).await;
    assert_eq!(odd.code(), Some(0));
    assert_eq!(
        odd.stdout.lines().next(),
        Some(
            "warning: @odd.yaml:4:10: rule `late` is never reached: rule `all` (@odd.yaml:3:10) decides every call of \
             its tools before it; move it up, or remove it [unreachable-rule]"
        )
    );
    assert_eq!(
        files.run(&["check", "@odd.yaml", "--strict"]).await.code(),
        Some(1)
    );
    assert_eq!(
        files.run(&["check", "@good.yaml", "--strict"]).await.code(),
        Some(0)
    );
    let odd = document(&files.run(&["check", "@odd.yaml", "--json"]).await);
    assert_eq!(odd["usable"], true);
    assert_eq!(odd["warnings"][0]["lint"], "unreachable-rule");
    assert_eq!(
        (&odd["warnings"][0]["line"], &odd["warnings"][0]["column"]),
        (&json!(4), &json!(10))
    );

    let bad = files.run(&["check", "@bad.yaml"]).await;
    let (code, stdout, stderr) = said(&bad);
    assert_eq!((code, stdout), (Some(1), ""));
    assert!(
        stderr.starts_with("error: @bad.yaml:2:25: `decison` is no key of a rule"),
        "{stderr}"
    );
    assert!(stderr.ends_with("did you mean `decision`?\n"), "{stderr}");
    let bad = files.run(&["check", "@bad.yaml", "--json"]).await;
    assert_eq!(bad.code(), Some(1));
    let bad = document(&bad);
    assert_eq!(
        (&bad["usable"], &bad["error"]["line"]),
        (&json!(false), &json!(2))
    );
}

#[tokio::test]
async fn check_takes_a_directory_and_refuses_what_is_not_there() {
    let files = Files::new(&[
        ("p/a.yaml", POLICY),
        ("p/b.yaml", "default: ask\n"),
        ("e/x.txt", ""),
    ]);
    assert_eq!(files.run(&["check", "@p"]).await.code(), Some(0));
    for missing in ["@e", "@none.yaml"] {
        let ended = files.run(&["check", missing]).await;
        assert_eq!(
            (ended.code(), ended.stdout.as_str()),
            (Some(1), ""),
            "{ended:?}"
        );
        assert_eq!(ended.stderr.lines().count(), 1);
    }
}

const CASES: &str = r#"policy: policy.yaml
cases:
  - name: a large refund waits
    principal: {id: clerk-7, roles: [refunds]}
    call: {tool: client.issue_refund, args: {cents: 420000}, annotations: {destructiveHint: true}}
    expect:
      {effect: suspend, rule: big-refund, class: destructive, reason: need a manager,
       selected_by: "never: client.issue_refund", kind: suspended, judged_tool: client.issue_refund}
  - name: without an amount it is refused
    principal: {id: clerk-7, roles: [refunds]}
    call: {tool: client.issue_refund}
    expect: {effect: deny, rule: big-refund, kind: access_denied, reason: could not be evaluated}
  - name: a read runs
    call: {tool: docs.read, annotations: {readOnlyHint: true}}
    expect: {effect: allow, rule: docs, class: read-only}
  - name: a program cannot wait
    call: {tool: bash, args: {command: ls}, in_program: true}
    expect: {effect: deny, rule: shell, kind: approval_required_in_program}
"#;

#[tokio::test]
async fn cases_that_hold_pass() {
    let files = Files::new(&[("policy.yaml", POLICY), ("policy_test.yaml", CASES)]);
    for path in ["@policy_test.yaml", "@"] {
        let ended = files.run(&["test", path]).await;
        assert_eq!(said(&ended), (Some(0), "4 cases passed\n", ""));
    }
    let json = document(&files.run(&["test", "@policy_test.yaml", "--json"]).await);
    assert_eq!((&json["passed"], &json["failed"]), (&json!(4), &json!(0)));
    assert_eq!(json["cases"][0]["name"], "a large refund waits");
}

#[tokio::test]
async fn what_does_not_hold_is_a_table() {
    let looser = POLICY.replace("400000", "4000000");
    let files = Files::new(&[
        ("policy.yaml", POLICY),
        ("looser.yaml", &looser),
        ("policy_test.yaml", CASES),
    ]);
    let ended = files
        .run(&["test", "@policy_test.yaml", "--policy", "@looser.yaml"])
        .await;
    let expected = "\
WHERE                CASE                  FIELD        EXPECTED                    GOT
@policy_test.yaml:3  a large refund waits  effect       suspend                     allow: `never: client.issue_refund` exempts it from review
@policy_test.yaml:3  a large refund waits  rule         big-refund                  default
@policy_test.yaml:3  a large refund waits  reason       need a manager              `never: client.issue_refund` exempts it from review
@policy_test.yaml:3  a large refund waits  kind         suspended                   -
4 cases: 3 passed, 1 failed
";
    let squeezed = |text: &str| -> Vec<String> {
        // The columns are as wide as the directory's true name.
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(words).collect()
    };
    assert_eq!(squeezed(&ended.stdout), squeezed(expected));
    assert_eq!((ended.code(), ended.stderr.as_str()), (Some(1), ""));

    let ended = files
        .run(&[
            "test",
            "@policy_test.yaml",
            "--policy",
            "@looser.yaml",
            "--json",
        ])
        .await;
    assert_eq!(ended.code(), Some(1));
    let json = document(&ended);
    assert_eq!(
        json["cases"][0]["failures"][0],
        json!({"field": "effect", "expected": "suspend", "got": "allow"})
    );
}

#[tokio::test]
async fn a_call_that_may_not_be_asked_about_fails_its_case() {
    let cases = "\
policy: policy.yaml
cases:
  - name: no tool
    call: {tool: ''}
    expect: {effect: deny}
  - name: twice the same key
    call: {tool: t, args_json: '{\"a\": 1, \"a\": 2}'}
    expect: {effect: deny}
";
    let files = Files::new(&[("policy.yaml", POLICY), ("policy_test.yaml", cases)]);
    let ended = files.run(&["test", "@policy_test.yaml"]).await;
    assert_eq!(ended.code(), Some(1));
    assert_eq!(
        ended.stdout.matches("INVALID_ARGUMENT").count(),
        2,
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.ends_with("2 cases: 0 passed, 2 failed\n"));
}

#[tokio::test]
async fn no_case_is_an_error_and_never_a_pass() {
    let files = Files::new(&[
        ("policy.yaml", POLICY),
        (
            "empty/policy_test.yaml",
            "policy: ../policy.yaml\ncases: []\n",
        ),
        ("none/notes.yaml", "x: 1\n"),
        (
            "typo/policy_test.yaml",
            &CASES.replace("rule: docs", "rul: docs"),
        ),
        (
            "bare_test.yaml",
            &CASES.replace("policy: policy.yaml\n", ""),
        ),
        ("lost_test.yaml", &CASES.replace("policy.yaml", "gone.yaml")),
        ("bad.yaml", "rules: 1\n"),
    ]);
    for (arguments, error) in [
        (&["test", "@empty"][..], "the file has no case"),
        (&["test", "@none"], "has no test"),
        (&["test", "@typo"], "`rul` is no key of `expect`"),
        (&["test", "@bare_test.yaml"], "names no policy"),
        (&["test", "@lost_test.yaml"], "gone.yaml` cannot be read"),
        (&["test", "@no_test.yaml"], "cannot read"),
        (
            &["test", "@bare_test.yaml", "--policy", "@bad.yaml"],
            "bad.yaml:1:8: `rules`",
        ),
    ] {
        let ended = files.run(arguments).await;
        let (code, stdout, stderr) = said(&ended);
        assert_eq!((code, stdout), (Some(2), ""), "{arguments:?}");
        assert!(stderr.contains(error), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[tokio::test]
async fn a_case_says_when_it_is_and_what_the_port_answers() {
    let policy = "\
selectors: []
rules:
  - {id: late, tools: [t], when: \"now >= timestamp('2026-01-02T10:00:00Z')\", decision: deny}
policy_port: {endpoint: 'http://127.0.0.1:1'}
";
    let case = |name: &str, more: &str, expect: &str| {
        format!("  - name: {name}\n    call: {{tool: t}}\n    {more}\n    expect: {{{expect}}}\n")
    };
    let before = "now: 2026-01-02T09:59:59Z";
    let cases = [
        "policy: policy.yaml\ncases:\n".to_owned(),
        case(
            "late",
            "now: 2026-01-02T10:00:00Z\n    port: allow",
            "effect: deny, rule: late",
        ),
        case(
            "allowed",
            &format!("{before}\n    port: allow"),
            "effect: allow, rule: default",
        ),
        case(
            "asked",
            &format!("{before}\n    port: ask"),
            "effect: suspend, rule: policy_port",
        ),
        case(
            "denied",
            &format!("{before}\n    port: deny"),
            "effect: deny, rule: policy_port",
        ),
        case(
            "unreachable",
            before,
            "effect: deny, rule: policy_port, reason: cannot be reached",
        ),
    ];
    let files = Files::new(&[
        ("policy.yaml", policy),
        ("policy_test.yaml", &cases.concat()),
    ]);
    let ended = files.run(&["test", "@policy_test.yaml"]).await;
    assert_eq!(said(&ended), (Some(0), "5 cases passed\n", ""));
}

/// Explains a call of a clerk with the role.
async fn explain(files: &Files, more: &[&str]) -> Ended {
    let clerk = ["--principal", "clerk-7", "--role", "refunds"];
    let command = ["explain", "--policy", "@policy.yaml"];
    files.run(&[&command[..], &clerk[..], more].concat()).await
}

#[tokio::test]
async fn explain_tells_each_step_in_order() {
    let files = Files::new(&[("policy.yaml", POLICY)]);
    let call = [
        "--tool",
        "client.issue_refund",
        "--args",
        "{\"cents\":420000}",
    ];
    let ended = explain(&files, &[&call[..], &["--destructive"]].concat()).await;
    let expected = "\
tool          client.issue_refund
class         destructive: destructiveHint is true
selection     `never: client.issue_refund` exempts it
rule          refund-role: skipped by `when`: `!('refunds' in principal.roles)` is false
rule          docs: skipped, for other tools
rule          big-refund: matches: ask
rules say     ask, by rule big-refund: refunds over £4000 need a manager
review        needed: a person is asked
decision      SUSPEND: do not run it now
tool          client.issue_refund
class         destructive
reason        refunds over £4000 need a manager
rule          big-refund
selected by   never: client.issue_refund
";
    assert_eq!((ended.code(), ended.stderr.as_str()), (Some(3), ""));
    assert!(ended.stdout.starts_with(expected), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("a person would be asked"),
        "{}",
        ended.stdout
    );

    let failing = explain(&files, &["--tool", "client.x", "--args", "{}"]).await;
    assert_eq!(failing.code(), Some(4));
    assert!(
        failing.stdout.contains(
            "rule          big-refund: fails at `when`, and what fails denies: no such key: `cents`\n"
        ),
        "{}",
        failing.stdout
    );

    let listed = explain(
        &files,
        &[
            "--tool",
            "bash",
            "--args",
            "{\"command\":\"rm -rf /\"}",
            "--json",
        ],
    )
    .await;
    let steps = document(&listed)["steps"].clone();
    let expected = json!([
        {"step": "class", "tool": "bash", "class": "write", "basis": "no annotations, so it counts as a write"},
        {"step": "selection", "asks": true, "by": "@write"},
        {"step": "other_tools", "rules": ["refund-role", "docs", "big-refund"]},
        {"step": "rule", "rule": "shell", "finding": "decides", "decision": "deny",
         "list": "denylist", "pattern": "*rm -rf*"},
        {"step": "rules", "decision": "deny", "by": "shell", "reason": "rule `shell`: the arguments match its denylist"},
    ]);
    assert_eq!(steps, expected);

    let default = explain(&files, &["--tool", "x", "--read-only"]).await;
    assert_eq!(default.code(), Some(0));
    assert!(
        default.stdout.contains(
            "rule          refund-role, docs, big-refund, shell: skipped, for other tools\n"
        ),
        "{}",
        default.stdout
    );
    assert!(
        default
            .stdout
            .contains("rules say     allow, by default, as no rule decides\n"),
        "{}",
        default.stdout
    );
}

#[tokio::test]
async fn explain_refuses_what_decide_refuses() {
    let files = Files::new(&[("policy.yaml", POLICY)]);
    for (more, code, error) in [
        (&["--tool", "t", "--args", "[]"][..], 1, "INVALID_ARGUMENT"),
        (&["--tool", "t", "--args", ""], 2, "`--args` is empty"),
        (&["--tool", "t", "--now", "soon"], 2, "write it as in"),
        (
            &["--tool", "t", "--server", "127.0.0.1:1"],
            2,
            "`explain` asks no server",
        ),
    ] {
        let ended = files
            .run(&[&["explain", "--policy", "@policy.yaml"], more].concat())
            .await;
        assert_eq!(
            (ended.code(), ended.stdout.as_str()),
            (Some(code), ""),
            "{more:?}"
        );
        assert!(ended.stderr.contains(error), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn an_imported_policy_passes_check_and_decides() {
    let source = r#"{"default": "ask", "rules": [
        {"tools": ["docs.*"], "decision": "allow"},
        {"tools": ["bash"], "decision": "ask", "denylist": ["*rm -rf*"], "allowlist": ["{\"command\": \"pwd\"}"]}]}"#;
    let files = Files::new(&[("source.json", source)]);
    let imported = files.run(&["import", "@source.json"]).await;
    assert_eq!(imported.code(), Some(0), "{}", imported.stderr);
    assert!(imported.stderr.starts_with("note: "), "{}", imported.stderr);
    files.write("policy.yaml", &imported.stdout);
    let checked = files.run(&["check", "@policy.yaml", "--strict"]).await;
    assert_eq!(checked.code(), Some(0), "{}", checked.stdout);
    for (flags, code) in [
        (["--tool", "docs.read", "--args", "{}"], 0),
        (["--tool", "bash", "--args", "{\"command\":\"pwd\"}"], 0),
        (["--tool", "bash", "--args", "{\"command\":\"ls\"}"], 3),
        (
            ["--tool", "bash", "--args", "{\"command\":\"rm -rf /\"}"],
            4,
        ),
        (["--tool", "other", "--args", "{}"], 3),
    ] {
        let ended = files
            .run(&[&["explain", "--policy", "@policy.yaml"], &flags[..]].concat())
            .await;
        assert_eq!(ended.code(), Some(code), "{flags:?}");
    }
    let json = document(&files.run(&["import", "@source.json", "--json"]).await);
    assert_eq!(json["document"], imported.stdout);

    files.write(
        "more.json",
        r#"{"default": "ask", "extends": "x", "rules": []}"#,
    );
    let refused = files.run(&["import", "@more.json"]).await;
    assert_eq!(
        said(&refused),
        (
            Some(1),
            "",
            "error: cannot import `@more.json`: the policy has the key `extends`, and what is imported has `default` or `rules`: remove it, or write by hand what it says\n"
        )
    );
}

#[tokio::test]
async fn help_teaches_each_command_by_an_example() {
    for command in ["check", "test", "explain", "import"] {
        let help = Process::run(&[command, "--help"], &[]).await;
        let example = format!("Example:\n  assent {command} ");
        assert!(help.stdout.contains(&example), "{}", help.stdout);
    }
}

#[tokio::test]
async fn a_wrappers_call_is_tested_and_explained_as_what_it_calls() {
    let policy = "\
wrappers: [{tool: call_tool, name: /tool, server: /server, arguments: /arguments}]
tools: [{tool: github__read_file, server: github, annotations: {readOnlyHint: true}}]
rules: [{id: deny-delete, tools: [github__delete_repo], decision: deny}]
";
    let cases = "\
policy: policy.yaml
cases:
  - name: what it calls is judged
    call: {tool: call_tool, args: {server: github, tool: delete_repo, arguments: {name: x}}}
    expect: {effect: deny, rule: deny-delete, judged_tool: github__delete_repo}
  - name: a read through it runs
    call: {tool: call_tool, args: {server: github, tool: read_file, arguments: {}}}
    expect: {effect: allow, class: read-only}
  - name: a target that disagrees needs review
    call:
      tool: call_tool
      args: {server: github, tool: read_file, arguments: {}}
      target: {tool: github__other, server: github}
    expect: {effect: suspend, class: destructive}
";
    let files = Files::new(&[("policy.yaml", policy), ("policy_test.yaml", cases)]);
    let ended = files.run(&["test", "@policy_test.yaml"]).await;
    assert_eq!(said(&ended), (Some(0), "3 cases passed\n", ""));

    let args = r#"{"server": "github", "tool": "delete_repo", "arguments": {}}"#;
    let ended = explain(&files, &["--tool", "call_tool", "--args", args]).await;
    assert_eq!(ended.code(), Some(4));
    let expected = "\
wrapper       call_tool: judged is what it calls
tool          github__delete_repo
class         destructive: no annotations for the wrapped tool, so it counts as destructive
";
    assert!(ended.stdout.starts_with(expected), "{}", ended.stdout);
    let ended = explain(&files, &["--tool", "call_tool", "--args", "{}"]).await;
    assert_eq!(ended.code(), Some(3));
    assert!(
        ended.stdout.contains("its arguments name no tool"),
        "{}",
        ended.stdout
    );
}
