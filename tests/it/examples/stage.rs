//! One server on one store, one shop with its ledger, and the agents of one language.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use assent::pb;
use serde_json::Value;
use tempfile::TempDir;
use uuid::Uuid;

use super::gate::{Gate, Line};
use super::setup::{Example, Language};
use crate::support::redis::RedisServer;
use crate::support::server::Process;
use crate::support::{SOON, eventually};

/// Where the server keeps what it is told.
#[derive(Clone, Copy)]
pub enum Store {
    /// One file.
    Sqlite,
    /// A Redis of the test's own.
    Redis,
}

/// All that a story needs.
pub struct Stage {
    /// What the tools go through to reach the shop.
    pub gate: Gate,
    /// What the agents go through to reach the server.
    pub line: Line,
    /// The run of this story.
    pub run: String,
    server: Option<Process>,
    example: &'static Example,
    ledger: PathBuf,
    folder: TempDir,
    _shop: Running,
    _redis: Option<RedisServer>,
}

impl Stage {
    /// Starts everything. Without a policy document the server has its default one.
    pub async fn set(language: Language, store: Store, policy: Option<&str>) -> Self {
        let example = language.example();
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();

        let redis = matches!(store, Store::Redis).then(|| RedisServer::start(&[]));
        let store = redis
            .as_ref()
            .map_or_else(|| format!("sqlite:{}", path("assent.db")), RedisServer::url);
        let mut arguments = vec!["--store".to_owned(), store];
        if let Some(policy) = policy {
            fs::write(path("policy.yaml"), policy).unwrap();
            arguments.extend(["--policy".to_owned(), path("policy.yaml")]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let server = Process::start(&arguments);
        let line = Line::open().await;
        line.lead_to(Some(server.address()));

        let ledger = folder.path().join("refunds.jsonl");
        let mut shop = Command::new("python3");
        shop.arg("shop.py")
            .arg("0")
            .arg(&ledger)
            .current_dir(example.folder.parent().unwrap());
        let mut shop = shop
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the shop needs `python3`");
        let mut said = String::new();
        BufReader::new(shop.stdout.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        let (_, address) = said
            .trim()
            .split_once("http://")
            .expect("the shop says where it listens");
        let gate = Gate::before(address.to_owned()).await;

        let run = format!("run-{}", Uuid::new_v4());
        let shop = Running {
            child: shop,
            output: PathBuf::new(),
        };
        Self {
            gate,
            line,
            run,
            server: Some(server),
            example,
            ledger,
            folder,
            _shop: shop,
            _redis: redis,
        }
    }

    /// Starts the agent, in a new process, on this story's run.
    pub fn agent(&self) -> Running {
        self.spawn(&self.example.agent, &[&self.run])
    }

    /// Has a person answer a suspension, from another process.
    pub async fn answer(&self, suspension: &str, verdict: &str, reason: &str) -> Ended {
        self.spawn(&self.example.answer, &[suspension, verdict, reason])
            .ended()
            .await
    }

    fn spawn(&self, command: &[String], arguments: &[&str]) -> Running {
        let output = self.folder.path().join(format!("{}.log", Uuid::new_v4()));
        let log = File::create(&output).unwrap();
        let child = Command::new(&command[0])
            .args(&command[1..])
            .args(arguments)
            .current_dir(&self.example.folder)
            .env("ASSENT_SERVER", &self.line.address)
            .env("SHOP", &self.gate.address)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        Running {
            child: child.unwrap_or_else(|error| panic!("{command:?}: {error}")),
            output,
        }
    }

    fn server(&self) -> &Process {
        self.server
            .as_ref()
            .expect("it is taken only to be started again")
    }

    /// Kills the server with `kill -9`, and leaves it so.
    pub fn kill_the_server(&mut self) {
        self.line.lead_to(None);
        self.server().kill9();
    }

    /// Starts the server again, on the same store.
    pub fn start_the_server(&mut self) {
        self.server = self.server.take().map(Process::restart);
        self.line.lead_to(Some(self.server().address()));
    }

    /// Kills the server and starts it again.
    pub fn restart_the_server(&mut self) {
        self.kill_the_server();
        self.start_the_server();
    }

    /// The cents of each refund that was really made, in the order in which they were made.
    pub fn refunds(&self) -> Vec<i64> {
        let ledger = fs::read_to_string(&self.ledger).unwrap_or_default();
        let cents = |line: &str| {
            serde_json::from_str::<Value>(line).unwrap()["refund"]["cents"]
                .as_i64()
                .unwrap()
        };
        ledger.lines().map(cents).collect()
    }

    /// The suspension that is recorded for a call of the run.
    pub async fn suspension(&self, call_id: &str) -> pb::Suspension {
        use pb::SuspensionStatus::{Approved, Cancelled, Denied, Expired, Pending};
        let request = pb::ListSuspensionsRequest {
            tenant: "shop".to_owned(),
            session_id: self.run.clone(),
            run_id: self.run.clone(),
            statuses: [Pending, Approved, Denied, Expired, Cancelled]
                .map(i32::from)
                .to_vec(),
            ..Default::default()
        };
        let listed = self
            .server()
            .client()
            .list_suspensions(request)
            .await
            .unwrap()
            .into_inner();
        let is_asked_for =
            |suspension: &&pb::Suspension| suspension.call.as_ref().unwrap().call_id == call_id;
        let mut of_the_call = listed.suspensions.iter().filter(is_asked_for);
        let suspension = of_the_call
            .next()
            .unwrap_or_else(|| panic!("no suspension is recorded for {call_id}"));
        assert!(
            of_the_call.next().is_none(),
            "{call_id} has more than one suspension"
        );
        suspension.clone()
    }

    /// Has a person approve a call with `assent approve`, as the README says.
    pub fn approve_by_command(&self, suspension: &str) {
        let ended = self.server().client_command(&[
            "approve",
            "--tenant",
            "shop",
            "--by",
            "the manager",
            suspension,
        ]);
        assert!(ended.status.success(), "{ended:?}");
    }

    /// Has a person approve a call with other arguments.
    pub async fn approve_edited(&self, suspension: pb::Suspension, arguments: &str) {
        let approval = pb::Approval {
            approved: Some(true),
            edited_arguments_json: arguments.to_owned(),
            ..Default::default()
        };
        let request = pb::ResumeRequest {
            suspension_id: suspension.id,
            scope: suspension.scope,
            by: "the manager".to_owned(),
            answer: Some(pb::resume_request::Answer::Approval(approval)),
            ..Default::default()
        };
        self.server().client().resume(request).await.unwrap();
    }

    /// Loses what the agent remembers of the run.
    pub fn lose_the_state(&self) {
        fs::remove_file(self.example.folder.join(format!("{}.json", self.run))).unwrap();
    }
}

/// A process of an example. It is killed when this is dropped.
pub struct Running {
    child: Child,
    output: PathBuf,
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub code: Option<i32>,
    /// What it wrote.
    pub output: String,
}

impl Running {
    /// Kills it as `kill -9` does. It must not have ended by itself.
    pub fn kill9(mut self) {
        assert_eq!(
            self.child.try_wait().unwrap(),
            None,
            "it was to be killed in the midst of its work"
        );
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub async fn ended(mut self) -> Ended {
        let mut status = None;
        let in_time = eventually(SOON * 2, async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let in_time = in_time.await;
        let output = fs::read_to_string(&self.output).unwrap();
        assert!(in_time, "it does not end: {output}");
        Ended {
            code: status.unwrap().code(),
            output,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "status {:?}:\n{}", self.code, self.output)
    }
}
