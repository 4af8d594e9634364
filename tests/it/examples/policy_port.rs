//! The policy port of the examples, in Python: asked by the real server, with the example's own policy.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use assent::pb;
use tempfile::TempDir;

use super::setup;
use crate::support::server::Process;
use crate::wire;

/// The port on a free port, with a database of its own. It is killed when this is dropped.
struct PythonPort {
    child: Child,
    address: String,
}

impl PythonPort {
    fn start(folder: &Path, command: &[String], database: &Path) -> Self {
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .arg("0")
            .arg(database)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        let (_, address) = said
            .trim()
            .split_once(" listens on ")
            .unwrap_or_else(|| panic!("it does not say where it listens: {said}"));
        Self {
            address: address.to_owned(),
            child,
        }
    }
}

impl Drop for PythonPort {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn python(folder: &Path, arguments: &[&str]) {
    let status = Command::new(folder.join(".venv/bin/python"))
        .args(arguments)
        .current_dir(folder)
        .status()
        .unwrap();
    assert!(status.success(), "{arguments:?}");
}

fn scope(person: &str, run: &str) -> pb::Scope {
    pb::Scope {
        tenant: "shop".to_owned(),
        principal: Some(pb::Principal {
            id: person.to_owned(),
            // It is the database that knows the roles.
            roles: vec!["manager".to_owned()],
            ..Default::default()
        }),
        session_id: "s1".to_owned(),
        run_id: run.to_owned(),
        ..Default::default()
    }
}

fn refund(person: &str, call_id: &str, arguments: &str) -> pb::DecideRequest {
    pb::DecideRequest {
        scope: Some(scope(person, "r1")),
        action: Some(pb::decide_request::Action::Call(pb::ToolCall {
            call_id: call_id.to_owned(),
            tool: "orders.issue_refund".to_owned(),
            arguments_json: arguments.to_owned(),
            ..Default::default()
        })),
        ..Default::default()
    }
}

fn start(run: &str, version: &str) -> pb::DecideRequest {
    pb::DecideRequest {
        scope: Some(scope("ada", run)),
        action: Some(pb::decide_request::Action::Run(pb::RunStart {
            version: version.to_owned(),
        })),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shops_database_decides() {
    let (folder, command) = tokio::task::spawn_blocking(setup::policy_port)
        .await
        .unwrap();
    let home = TempDir::new().unwrap();
    let database = home.path().join("staff.db");
    let database_text = database.to_str().unwrap();
    python(folder, &["seed.py", database_text]);
    let port = PythonPort::start(folder, command, &database);
    let written = std::fs::read_to_string(folder.join("policy.yaml")).unwrap();
    let policy = home.path().join("policy.yaml");
    let here = written
        .replace("http://127.0.0.1:7000", &port.address)
        .replace("500ms", "10s");
    assert_ne!(here, written);
    std::fs::write(&policy, here).unwrap();
    let server = Process::start(&["--policy", policy.to_str().unwrap()]);
    let client = server.client();
    let decide = async |request| {
        let decided = client.clone().decide(request).await.unwrap().into_inner();
        let gist = (decided.effect(), decided.reason.clone());
        (gist, decided)
    };

    const ALLOW: pb::Effect = pb::Effect::Allow;
    const DENY: pb::Effect = pb::Effect::Deny;
    const SUSPEND: pb::Effect = pb::Effect::Suspend;
    let mut opened = None;
    for (request, effect, reason) in [
        (refund("ada", "c1", r#"{"cents": 1000}"#), ALLOW, ""),
        (
            refund("ada", "c2", r#"{"cents": 1001}"#),
            SUSPEND,
            "ada alone may refund at most 1000 cents",
        ),
        (
            refund("ada", "c3", r#"{"cents": true}"#),
            SUSPEND,
            "ada alone may refund at most 1000 cents",
        ),
        (refund("grace", "c4", r#"{"cents": 420000}"#), ALLOW, ""),
        (
            refund("mallory", "c5", r#"{"cents": 1}"#),
            DENY,
            "mallory may not use orders.issue_refund",
        ),
        (
            refund("", "c6", r#"{"cents": 1}"#),
            DENY,
            "nobody may not use orders.issue_refund",
        ),
        // It cannot say, and that is a denial.
        (
            refund("ada", "c7", "{}"),
            DENY,
            "the authorization service failed",
        ),
        (start("r1", "v1"), ALLOW, ""),
        (start("r2", "v2"), SUSPEND, "version v2 is on trial"),
        (start("r3", "v3"), DENY, "version v3 is not released"),
    ] {
        let told = format!("{request:?}");
        let (gist, decided) = decide(request).await;
        assert_eq!(gist, (effect, reason.to_owned()), "{told}");
        opened = opened.or(decided.suspension);
    }

    // Approved, it is claimed only as long as the database still says so.
    let opened = opened.unwrap();
    let mut answer = wire::answer(&opened.id, true);
    answer.scope = opened.scope.clone();
    client.clone().resume(answer).await.unwrap();
    let claim = pb::ClaimRequest {
        suspension_id: opened.id,
        scope: opened.scope,
        attempt_id: "w1".to_owned(),
        ..Default::default()
    };
    let change = |statement: &str| {
        let run = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()";
        python(folder, &["-c", run, database_text, statement]);
    };
    change("UPDATE staff SET role = 'former ' || role WHERE person = 'ada'");
    let refused = client.clone().claim(claim.clone()).await.unwrap_err();
    assert_eq!(wire::reason(&refused), "POLICY_DENIED");
    change("UPDATE staff SET role = 'support' WHERE person = 'ada'");
    client.clone().claim(claim).await.unwrap();
}
