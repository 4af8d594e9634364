//! The client commands: the real binary against a real server, as a person at a shell uses them.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use assent::pb;
use serde_json::{Value, json};

use crate::support::server::{Ended, Process};

const REFUND: &[&str] = &[
    "--tool",
    "client.issue_refund",
    "--args",
    "{\"cents\":420000}",
    "--destructive",
];

/// A command against this server, run to its end.
async fn assent(server: &Process, arguments: &[&str]) -> Ended {
    let server = ["--server", server.address()];
    Process::run(&[arguments, &server].concat(), &[]).await
}

/// The same with `--json`, and what it printed.
async fn assent_json(server: &Process, arguments: &[&str]) -> (Option<i32>, Value) {
    let ended = assent(server, &[arguments, &["--json"]].concat()).await;
    assert_eq!(ended.stdout.lines().count(), 1, "{ended:?}");
    (ended.code(), serde_json::from_str(&ended.stdout).unwrap())
}

/// Opens a suspension for the refund and gives its id.
async fn suspended(server: &Process, more: &[&str]) -> String {
    let (code, answer) = assent_json(server, &[&["decide"], REFUND, more].concat()).await;
    assert_eq!(code, Some(3), "{answer}");
    answer["suspension"]["id"].as_str().unwrap().to_owned()
}

/// The words of an error, and the exit code.
fn failed(ended: &Ended) -> (Option<i32>, &str) {
    assert_eq!(ended.stdout, "");
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    (ended.code(), ended.stderr.trim_end())
}

/// The value that stands beside a label.
fn value<'a>(ended: &'a Ended, label: &str) -> &'a str {
    let line = ended
        .stdout
        .lines()
        .find(|line| line.starts_with(&format!("{label} ")));
    line.unwrap_or_else(|| panic!("no `{label}` in {}", ended.stdout))[label.len()..].trim()
}

/// A command that goes on, whose lines are read as they come.
struct Going {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Going {
    fn start(server: &Process, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_assent"))
            .args(arguments)
            .args(["--server", server.address()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Its next lines, up to one that holds a text.
    fn until(&mut self, text: &str) -> Vec<String> {
        let mut read = Vec::new();
        loop {
            let line = self.lines.next().expect("it goes on").unwrap();
            read.push(line);
            if read.last().is_some_and(|line| line.contains(text)) {
                return read;
            }
        }
    }

    /// The rest of its lines, and its exit code.
    fn end(mut self) -> (Vec<String>, Option<i32>) {
        let rest = self.lines.map(Result::unwrap).collect();
        (rest, self.child.wait().unwrap().code())
    }
}

#[tokio::test]
async fn a_watch_prints_what_is_and_each_change_until_the_server_stops() {
    let server = Process::start(&[]);
    let scope = ["--session", "s", "--run", "r", "--call-id", "c1"];
    let id = suspended(&server, &scope).await;
    let mut text = Going::start(&server, &["watch", "--session", "s"]);
    let mut json = Going::start(&server, &["watch", &id, "--json"]);
    let mut piped = Going::start(&server, &["watch", &id]);
    piped.until(&id);
    piped.until("what changes follows");
    let present = text.until("that is all there is now; what changes follows");
    let [first, _] = present.as_slice() else {
        panic!("{present:?}")
    };
    assert!(first.contains(&id) && first.contains("pending"), "{first}");
    json.until(r#"{"initialComplete":true}"#);

    let answered = assent(&server, &["approve", &id, "--by", "ann"]).await;
    assert_eq!(answered.code(), Some(0), "{answered:?}");
    let change = text.until("approved, not claimed").pop().unwrap();
    assert!(change.contains(&id) && change.ends_with("client.issue_refund"));
    let event = json.until("SUSPENSION_STATUS_APPROVED").pop().unwrap();
    let event: Value = serde_json::from_str(&event).unwrap();
    piped.until("approved, not claimed");
    // Nobody reads the third one any more, which it notices when it has something to say.
    let Going { mut child, lines } = piped;
    drop(lines);
    let claimed = assent(&server, &["claim", &id, "--attempt", "w1"]).await;
    assert_eq!(claimed.code(), Some(0), "{claimed:?}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    text.until("approved, claimed, running");
    json.until("EXECUTION_CLAIMED");
    assert_eq!(
        (&event["suspension"]["id"], event.get("initial")),
        (&json!(id), None)
    );

    server.terminate();
    let ended = "the server has ended the watch: run it again".to_owned();
    assert_eq!(text.end(), (vec![ended], Some(0)));
    assert_eq!(json.end(), (Vec::new(), Some(0)));
    let gone = assent(&server, &["watch"]).await;
    assert_eq!(gone.code(), Some(1), "{gone:?}");
}

#[tokio::test]
async fn the_whole_loop_can_be_tried_from_a_shell() {
    let server = Process::start(&[]);
    let flag = format!(" --server {}", server.address());

    let decided = assent(
        &server,
        &[
            &["decide"],
            REFUND,
            &["--principal", "user-7", "--expires-in", "110s"],
        ]
        .concat(),
    )
    .await;
    assert_eq!((decided.code(), decided.stderr.as_str()), (Some(3), ""));
    assert_eq!(value(&decided, "decision"), "SUSPEND: do not run it now");
    assert_eq!(value(&decided, "class"), "destructive");
    assert_eq!(value(&decided, "selected by"), "@destructive");
    let id = value(&decided, "suspension").to_owned();
    assert_eq!(
        value(&decided, "next"),
        format!("assent approve {id} --by YOU{flag}")
    );

    let pending = assent(&server, &["pending"]).await;
    let lines: Vec<_> = pending.stdout.lines().collect();
    assert_eq!(
        (pending.code(), lines.len()),
        (Some(0), 2),
        "{}",
        pending.stdout
    );
    for part in [&id, "client.issue_refund", "user-7", "in 1m", "destructive"] {
        assert!(lines[1].contains(part), "{part} in {}", lines[1]);
    }

    let shown = assent(&server, &["show", &id]).await;
    assert_eq!(value(&shown, "status"), "pending, deadline in 1m");
    assert!(
        shown.stdout.contains("\"cents\": 420000\n"),
        "{}",
        shown.stdout
    );

    let approved = assent(&server, &["approve", &id, "--by", "manager-7"]).await;
    assert_eq!(
        (approved.code(), value(&approved, "answer")),
        (Some(0), "accepted")
    );
    assert_eq!(
        value(&approved, "next"),
        format!("assent claim {id} --attempt NEW_ID{flag}")
    );

    let claimed = assent(&server, &["claim", &id, "--attempt", "a-1"]).await;
    assert_eq!(claimed.code(), Some(0), "{}", claimed.stderr);
    assert!(
        claimed.stdout.contains("\"cents\": 420000\n"),
        "{}",
        claimed.stdout
    );
    assert_eq!(
        value(&claimed, "next"),
        format!("assent complete {id} --attempt a-1 --outcome success{flag}")
    );

    let completed = assent(
        &server,
        &["complete", &id, "--attempt", "a-1", "--outcome", "success"],
    )
    .await;
    assert_eq!(completed.code(), Some(0), "{}", completed.stderr);
    assert_eq!(value(&completed, "status"), "approved, executed");
    assert_eq!(value(&completed, "ended by"), "manager-7");

    let again = assent(&server, &["claim", &id, "--attempt", "a-2"]).await;
    assert_eq!(
        failed(&again),
        (
            Some(1),
            "error: the approval was already claimed by attempt `a-1`; for another question, `assent decide` \
             with a new `--call-id` (FAILED_PRECONDITION / ALREADY_CLAIMED)"
        )
    );
    assert_eq!(
        assent(&server, &["pending"]).await.stdout,
        "nothing to list\n"
    );
}

#[tokio::test]
async fn the_exit_code_of_decide_is_its_effect() {
    let server = Process::start(&[]);
    let decide = async |flags: &[&str]| {
        let ended = assent(
            &server,
            &[&["decide", "--tool", "client.t"], flags].concat(),
        )
        .await;
        (ended.code(), value(&ended, "decision").to_owned())
    };
    assert_eq!(
        decide(&["--read-only"]).await,
        (Some(0), "ALLOW: run it now".to_owned())
    );
    assert_eq!(
        decide(&["--write"]).await,
        (Some(3), "SUSPEND: do not run it now".to_owned())
    );
    assert_eq!(
        decide(&["--write", "--in-program"]).await,
        (Some(4), "DENY: do not run it".to_owned())
    );
    // Wrong input is neither.
    let wrong = assent(&server, &["decide", "--tool", "t", "--args", "[]"]).await;
    assert_eq!(wrong.code(), Some(1));
    assert!(
        wrong.stderr.contains("`call.arguments_json`"),
        "{}",
        wrong.stderr
    );
    assert!(
        wrong
            .stderr
            .ends_with("(INVALID_ARGUMENT / INVALID_REQUEST)\n"),
        "{}",
        wrong.stderr
    );
    let dry = assent(&server, &["decide", "--tool", "dry", "--dry-run"]).await;
    assert_eq!(dry.code(), Some(3));
    assert!(!assent(&server, &["pending"]).await.stdout.contains("dry"));
}

#[tokio::test]
async fn a_denial_has_a_reason_that_the_next_approver_reads() {
    let server = Process::start(&[]);
    let id = suspended(&server, &["--run", "r-1", "--call-id", "c-1"]).await;

    let denied = assent(
        &server,
        &["deny", &id, "--by", "boss", "--reason", "over the limit"],
    )
    .await;
    assert_eq!(
        (denied.code(), value(&denied, "status")),
        (Some(0), "denied")
    );
    let repeated = assent(
        &server,
        &["deny", &id, "--by", "boss", "--reason", "over the limit"],
    )
    .await;
    assert_eq!(
        value(&repeated, "answer"),
        "recorded before: nothing was changed"
    );

    let late = assent(&server, &["approve", &id, "--by", "other"]).await;
    let (code, words) = failed(&late);
    assert_eq!(code, Some(1));
    assert!(
        words.starts_with("error: nothing was changed: it is denied already, by boss at 20"),
        "{words}"
    );
    assert!(
        words.ends_with(
            "ago), reason: `over the limit`; `assent show ID` has the rest (FAILED_PRECONDITION / ALREADY_RESOLVED)"
        ) || words.contains("(now), reason: `over the limit`;"),
        "{words}"
    );

    let shown = assent(&server, &["show", &id]).await;
    assert_eq!(value(&shown, "saying"), "over the limit");
    let claim = assent(&server, &["claim", &id, "--attempt", "a"]).await;
    assert!(
        claim
            .stderr
            .ends_with("(FAILED_PRECONDITION / NOT_APPROVED)\n"),
        "{}",
        claim.stderr
    );

    let resumed = ["--run", "r-1", "--call-id", "c-1", "--resumed"];
    let (code, answer) = assent_json(&server, &[&["decide"], REFUND, &resumed].concat()).await;
    assert_eq!((code, &answer["kind"]), (Some(4), &json!("denied")));
    assert!(
        answer["messageForModel"]
            .as_str()
            .unwrap()
            .contains("over the limit"),
        "{answer}"
    );
}

#[tokio::test]
async fn json_is_proto3_json_one_document_a_line() {
    let server = Process::start(&[]);
    let id = suspended(&server, &["--session", "s", "--call-id", "c"]).await;

    let (code, shown) = assent_json(&server, &["show", &id]).await;
    assert_eq!(code, Some(0));
    assert_eq!(shown["kind"], "SUSPENSION_KIND_APPROVAL");
    assert_eq!(shown["status"], "SUSPENSION_STATUS_PENDING");
    assert_eq!(shown["call"]["argumentsJson"], "{\"cents\":420000}");
    assert_eq!(shown["scope"]["sessionId"], "s");
    assert!(shown["expireTime"].as_str().unwrap().ends_with('Z'));
    assert!(
        shown["version"].is_string(),
        "64 bits are a string in proto3 JSON"
    );
    assert!(shown.get("resolution").is_none());

    let (_, class) = assent_json(&server, &["classify", "--tool", "t", "--read-only"]).await;
    assert_eq!(class["riskClass"], "RISK_CLASS_READ_ONLY");
    assert!(class.get("approvalRequired").is_none(), "false is left out");

    suspended(&server, &["--session", "s", "--call-id", "d"]).await;
    let pages = assent(&server, &["pending", "--all", "--page-size", "1", "--json"]).await;
    let ids: Vec<Value> = pages
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .flat_map(|page| page["suspensions"].as_array().cloned().unwrap_or_default())
        .map(|suspension| suspension["id"].clone())
        .collect();
    assert_eq!(ids.len(), 2, "{}", pages.stdout);
    let first = assent(&server, &["pending", "--page-size", "1"]).await;
    assert!(
        first
            .stdout
            .ends_with("there are more: `--all` lists them all\n"),
        "{}",
        first.stdout
    );

    let approve = [
        "approve",
        id.as_str(),
        "--by",
        "boss",
        "--edit-args",
        "{\"cents\":1}",
    ];
    let (_, approved) = assent_json(&server, &approve).await;
    assert_eq!(approved["outcome"], "RESUME_OUTCOME_ACCEPTED");
    let (_, claimed) = assent_json(&server, &["claim", &id, "--attempt", "a"]).await;
    assert_eq!(claimed["argumentsJson"], "{\"cents\":1}");
    let complete = [
        "complete",
        id.as_str(),
        "--attempt",
        "a",
        "--outcome",
        "failure",
        "--detail",
        "no route",
    ];
    let (_, completed) = assent_json(&server, &complete).await;
    assert_eq!(completed["claims"][0]["outcome"], "COMPLETION_FAILURE");
}

#[tokio::test]
async fn what_is_withdrawn_is_counted() {
    let server = Process::start(&[]);
    let one = suspended(&server, &[]).await;
    let ended = assent(
        &server,
        &["cancel", &one, "--by", "ops", "--reason", "a mistake"],
    )
    .await;
    assert_eq!(
        (ended.code(), ended.stdout),
        (
            Some(0),
            format!("1 pending cancelled, 0 approved and unclaimed voided\n  {one}\n")
        )
    );
    let again = assent(&server, &["cancel", &one, "--by", "ops"]).await;
    assert_eq!(
        (again.code(), again.stdout.as_str()),
        (Some(0), "nothing was open: nothing was withdrawn\n")
    );

    let of_run = suspended(&server, &["--session", "s", "--run", "r", "--call-id", "c"]).await;
    let ended = assent(
        &server,
        &["cancel", "--run", "r", "--session", "s", "--by", "ops"],
    )
    .await;
    assert_eq!(
        ended.stdout,
        format!(
            "1 pending cancelled, 0 approved and unclaimed voided\n  {of_run}\n\
             the run is over: it opens nothing new\n"
        )
    );
    let listed = assent(&server, &["pending", "--status", "cancelled"]).await;
    assert_eq!(listed.stdout.lines().count(), 3, "{}", listed.stdout);
    let refused = assent(&server, &["approve", &one, "--by", "boss"]).await;
    assert_eq!(
        failed(&refused),
        (
            Some(1),
            "error: the suspension was cancelled (FAILED_PRECONDITION / SUSPENSION_CANCELLED)"
        )
    );
}

#[tokio::test]
async fn a_grant_is_given_listed_and_revoked_from_a_shell() {
    let server = Process::start(&[]);
    let none = assent(&server, &["grants"]).await;
    assert_eq!(none.stdout, "no live grants\n");
    let id = suspended(&server, &["--session", "s", "--principal", "user-7"]).await;
    let approved = assent(&server, &["approve", &id, "--by", "boss", "--for-session"]).await;
    assert_eq!(value(&approved, "answer"), "accepted");
    let grant = value(&approved, "grant").to_owned();
    let again = ["--session", "s", "--principal", "user-7"];
    let again = [&["decide"], REFUND, &again].concat();
    let decided = assent(&server, &again).await;
    assert_eq!(
        (decided.code(), value(&decided, "grant")),
        (Some(0), grant.as_str())
    );
    let listed = assent(&server, &["grants", "--session", "s", "--all"]).await;
    let seen = [
        "grant",
        "tool",
        "session",
        "principal",
        "given by",
        "approval",
    ];
    assert_eq!(
        seen.map(|label| value(&listed, label)),
        [
            grant.as_str(),
            "client.issue_refund",
            "s",
            "user-7",
            "boss",
            id.as_str()
        ]
    );
    let next = format!(
        "assent revoke {grant} --by YOU --server {}",
        server.address()
    );
    assert_eq!(value(&listed, "to end it"), next);
    let (code, page) = assent_json(&server, &["grants"]).await;
    assert_eq!(
        (code, page["grants"][0]["id"].as_str()),
        (Some(0), Some(grant.as_str()))
    );

    for _ in 0..2 {
        let revoked = assent(&server, &["revoke", &grant, "--by", "boss"]).await;
        assert_eq!(
            (revoked.code(), value(&revoked, "grant")),
            (Some(0), grant.as_str())
        );
    }
    assert_eq!(assent(&server, &again).await.code(), Some(3));
    let unknown = assent(&server, &["revoke", &id, "--by", "boss"]).await;
    assert_eq!(
        failed(&unknown),
        (
            Some(1),
            format!("error: no grant has the id `{id}` (NOT_FOUND / GRANT_NOT_FOUND)").as_str()
        )
    );
}

#[tokio::test]
async fn a_wait_ends_with_the_answer() {
    let server = Process::start(&[]);
    let id = suspended(&server, &[]).await;
    let waiting = ["show", id.as_str(), "--wait", "20s"];
    let denying = ["deny", id.as_str(), "--by", "boss"];
    let (shown, denied) = tokio::join!(assent(&server, &waiting), assent(&server, &denying));
    assert_eq!(denied.code(), Some(0));
    assert_eq!(value(&shown, "status"), "denied");
}

#[tokio::test]
async fn tenants_are_kept_apart_and_the_next_command_names_them() {
    let server = Process::start(&[]);
    let tenant = "acme; ls";
    let ended = assent(&server, &[&["decide", "--tenant", tenant], REFUND].concat()).await;
    let id = value(&ended, "suspension").to_owned();
    let next = format!(
        "assent approve {id} --tenant='acme; ls' --by YOU --server {}",
        server.address()
    );
    assert_eq!(value(&ended, "next"), next);
    let other = assent(&server, &["show", &id]).await;
    assert_eq!(
        failed(&other),
        (
            Some(1),
            "error: the suspension belongs to another tenant; name the tenant it belongs to with `--tenant` \
             (PERMISSION_DENIED / ACCESS_DENIED)"
        )
    );
    assert_eq!(
        assent(&server, &["show", &id, "--tenant", tenant])
            .await
            .code(),
        Some(0)
    );
    assert_eq!(
        assent(&server, &["pending"]).await.stdout,
        "nothing to list\n"
    );
}

#[tokio::test]
async fn nothing_that_others_wrote_commands_the_terminal() {
    let server = Process::start(&[]);
    let title = "Refund\u{1b}[2J\u{202e}000024\nstatus        approved";
    let arguments = "{\"note\":\"\u{202e}\u{9b}31m\"}";
    let flags = ["--tool", "t", "--args", arguments, "--title", title];
    let decided = assent(&server, &[&["decide"], &flags[..]].concat()).await;
    let id = value(&decided, "suspension").to_owned();
    let shown = assent(&server, &["show", &id]).await;
    let listed = assent(&server, &["pending"]).await;
    let json = assent(&server, &["show", &id, "--json"]).await;
    for page in [&decided, &shown, &listed, &json] {
        let unsafe_text = page.stdout.chars().find(|c| {
            (c.is_control() && *c != '\n')
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        });
        assert_eq!(unsafe_text, None, "{}", page.stdout);
    }
    assert!(
        value(&shown, "title").starts_with("Refund\\u{1b}[2J\\u{202e}000024"),
        "{}",
        shown.stdout
    );
    assert!(
        shown.stdout.contains("\"note\": \"\\u202e\\u009b31m\""),
        "{}",
        shown.stdout
    );
    assert!(
        !shown
            .stdout
            .lines()
            .any(|line| line.starts_with("status        approved"))
    );
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (&json["title"], &json["call"]["argumentsJson"]),
        (&json!(title), &json!(arguments))
    );
}

#[tokio::test]
async fn arguments_can_be_piped_in() {
    let server = Process::start(&[]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_assent"))
        .args([
            "decide",
            "--tool",
            "t",
            "--args-file",
            "-",
            "--json",
            "--server",
            server.address(),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"{\"n\": 1.50}\n")
        .unwrap();
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap())
        .await
        .unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(
        answer["suspension"]["call"]["argumentsJson"]
            .as_str()
            .map(str::trim),
        Some("{\"n\": 1.50}")
    );
}

#[tokio::test]
async fn what_is_no_approval_is_listed_shown_and_answered() {
    let server = Process::start(&[]);
    for (request, flags, key, recorded) in [
        (
            pb::SuspendRequest {
                kind: pb::SuspensionKind::Question.into(),
                questions: vec![pb::Question {
                    key: "region".to_owned(),
                    text: "Which region?".to_owned(),
                    ..Default::default()
                }],
                ..Default::default()
            },
            &["--answer", "region=eu"][..],
            "answers",
            json!({"region": "eu"}),
        ),
        (
            pb::SuspendRequest {
                kind: pb::SuspensionKind::External.into(),
                event: "paid".to_owned(),
                payload_schema_json: r#"{"type":"array"}"#.to_owned(),
                ..Default::default()
            },
            &["--payload", "[1.0]"],
            "payloadJson",
            json!("[1.0]"),
        ),
        (
            pb::SuspendRequest {
                kind: pb::SuspensionKind::ClientTool.into(),
                call: Some(pb::ToolCall {
                    tool: "client.clipboard".to_owned(),
                    ..Default::default()
                }),
                ..Default::default()
            },
            &["--error", "no clipboard"],
            "toolError",
            json!("no clipboard"),
        ),
        (
            pb::SuspendRequest {
                kind: pb::SuspensionKind::SignIn.into(),
                sources: vec!["github".to_owned(), "jira".to_owned()],
                ..Default::default()
            },
            &["--connected", "github", "--denied", "jira"],
            "denied",
            json!(["jira"]),
        ),
    ] {
        let opened = server.client().suspend(request).await.unwrap().into_inner();
        let listed = assent(&server, &["pending"]).await;
        assert!(listed.stdout.contains(&opened.id), "{listed:?}");
        let shown = assent(&server, &["show", &opened.id]).await;
        let next = value(&shown, "next");
        let command = format!("assent answer {} --by YOU {}", opened.id, flags[0]);
        // What failed has another flag than what the client tool returned.
        let command = command.replace("--error", "--result");
        assert!(next.starts_with(&command), "{next}");

        let refused = assent(&server, &["approve", &opened.id, "--by", "ann"]).await;
        let (code, sentence) = failed(&refused);
        assert_eq!(code, Some(1));
        assert!(sentence.contains("KIND_MISMATCH"), "{sentence}");

        let answer = [&["answer", opened.id.as_str(), "--by", "ann"], flags].concat();
        let (code, answered) = assent_json(&server, &answer).await;
        assert_eq!(code, Some(0));
        let resolution = &answered["suspension"]["resolution"];
        assert_eq!(
            (&resolution["by"], &resolution[key]),
            (&json!("ann"), &recorded)
        );
        let again = assent(&server, &answer).await;
        assert_eq!(
            value(&again, "answer"),
            "recorded before: nothing was changed"
        );
        assert_eq!(value(&again, "status"), "answered");
    }
    let ended = assent(&server, &["pending"]).await;
    assert_eq!(ended.stdout, "nothing to list\n");
}

#[tokio::test]
async fn a_socket_is_an_address_too() {
    let directory = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", directory.path().join("assent.sock").display());
    let server = Process::start(&["--listen", &socket]);
    let ended = Process::run(&["pending", "--server", &socket], &[]).await;
    assert_eq!(
        (ended.code(), ended.stdout.as_str()),
        (Some(0), "nothing to list\n"),
        "{}",
        ended.stderr
    );
    let ended = Process::run(&["pending"], &[("ASSENT_SERVER", server.address())]).await;
    assert_eq!(
        (ended.code(), ended.stdout.as_str()),
        (Some(0), "nothing to list\n"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_to_be_missing() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let ended = Process::run(&["pending", "--server", &free], &[]).await;
    let (code, words) = failed(&ended);
    assert_eq!(code, Some(1));
    let expected = format!(
        "error: no Assent server answers at {free}: start one with `assent serve`, or say where with `--server` ("
    );
    assert!(words.starts_with(&expected), "{words}");

    for address in ["nowhere", "ftp://h:1", "https://h:1", "unix:"] {
        let ended = Process::run(&["pending", "--server", address], &[]).await;
        let (code, words) = failed(&ended);
        assert_eq!(code, Some(2), "{words}");
        assert!(
            words.starts_with(&format!("error: `{address}` ")),
            "{words}"
        );
    }
    let ended = Process::run(
        &["decide", "--tool", "t", "--args-file", "missing.json"],
        &[],
    )
    .await;
    let (code, words) = failed(&ended);
    assert_eq!(code, Some(2));
    assert!(
        words.starts_with("error: cannot read the arguments from `missing.json`: "),
        "{words}"
    );
}

#[tokio::test]
async fn something_else_that_listens_is_no_assent_server() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let talks = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n");
    });
    let ended = Process::run(&["pending", "--server", &address], &[]).await;
    talks.join().unwrap();
    let (code, words) = failed(&ended);
    assert_eq!(code, Some(1));
    assert!(
        words.contains(" Assent server ") && words.contains(&address),
        "{words}"
    );
}

#[tokio::test]
async fn an_id_that_is_unknown_or_no_id_is_told_so() {
    let server = Process::start(&[]);
    let unknown = assent(&server, &["show", "6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07"]).await;
    assert_eq!(
        failed(&unknown),
        (
            Some(1),
            "error: no suspension has the id `6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07`; `assent pending` lists the \
             open ones (NOT_FOUND / SUSPENSION_NOT_FOUND)"
        )
    );
    let usage = assent(
        &server,
        &["approve", "6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07"],
    )
    .await;
    assert_eq!(usage.code(), Some(2));
    assert!(usage.stderr.contains("--by"), "{}", usage.stderr);
}

#[tokio::test]
async fn errors_are_json_where_json_is_wanted() {
    let server = Process::start(&[]);
    let error = async |arguments: &[&str]| {
        let ended = assent(&server, &[arguments, &["--json"]].concat()).await;
        assert_eq!(ended.stdout, "");
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        let error: Value = serde_json::from_str(&ended.stderr).unwrap();
        (ended.code(), error["error"].clone())
    };
    let (code, refused) = error(&["show", "nothing"]).await;
    assert_eq!(code, Some(1));
    assert_eq!(
        (&refused["code"], &refused["reason"]),
        (&json!("INVALID_ARGUMENT"), &json!("INVALID_REQUEST"))
    );
    let violations = refused["fieldViolations"].as_array().unwrap();
    assert_eq!(violations.len(), 1, "{refused}");
    assert_eq!(violations[0]["field"], "suspension_id");

    let unknown = "6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07";
    let (_, refused) = error(&["show", unknown]).await;
    assert_eq!(
        (
            &refused["code"],
            &refused["reason"],
            &refused["fieldViolations"]
        ),
        (
            &json!("NOT_FOUND"),
            &json!("SUSPENSION_NOT_FOUND"),
            &json!([])
        )
    );
    let (code, refused) = error(&["health", "--service", "nothing"]).await;
    assert_eq!((code, &refused["code"]), (Some(1), &json!("NOT_FOUND")));
    let (code, refused) = error(&["decide", "--tool", "t", "--args", ""]).await;
    assert_eq!(code, Some(2));
    assert_eq!(
        refused,
        json!({"code": null, "message": "`--args` is empty: write `{}` for no arguments, or leave the flag out"})
    );
}

#[tokio::test]
async fn a_cancel_of_a_run_says_that_it_is_over() {
    let server = Process::start(&[]);
    let run = ["cancel", "--run", "r-1", "--session", "s-1", "--by", "ops"];
    let ended = assent(&server, &run).await;
    assert_eq!(
        ended.stdout,
        "nothing was open: nothing was withdrawn\nthe run is over: it opens nothing new\n"
    );
    let (code, answer) = assent_json(
        &server,
        &[
            &["decide"],
            REFUND,
            &["--run", "r-1", "--session", "s-1", "--call-id", "c"],
        ]
        .concat(),
    )
    .await;
    assert_eq!((code, &answer["kind"]), (Some(4), &json!("cancelled")));
}

#[tokio::test]
async fn a_dry_run_says_nowhere_that_somebody_was_asked() {
    let server = Process::start(&[]);
    let (code, answer) = assent_json(&server, &[&["decide", "--dry-run"], REFUND].concat()).await;
    assert_eq!((code, &answer["kind"]), (Some(3), &json!("suspended")));
    let message = answer["messageForModel"].as_str().unwrap();
    assert!(message.contains("Nobody has been asked"), "{message}");
    let (_, answer) = assent_json(&server, &[&["decide"], REFUND].concat()).await;
    let message = answer["messageForModel"].as_str().unwrap();
    assert!(message.contains("a person has been asked"), "{message}");
}
