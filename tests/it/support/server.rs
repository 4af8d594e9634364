//! Servers for tests: the real binary in a process of its own, or the library's server in this one.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use assent::listener::Listener;
use assent::pb::decision_service_client::DecisionServiceClient;
use assent::policy::{Policy, Source};
use assent::server::{self, Parts, ServeError};
use assent::store::SuspensionStore;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::{SOON, eventually};

/// How a run of the binary ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// All that it wrote to standard output.
    pub stdout: String,
    /// All that it wrote to standard error.
    pub stderr: String,
}

impl Ended {
    /// The exit code; none if a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

/// The binary in a process of its own, killed when this is dropped.
///
/// Its environment is empty but for `HOME`, a fresh directory, and what [`Process::start_with`] adds: a server that is
/// given no store has one of its own.
pub struct Process {
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    home: Arc<TempDir>,
    child: Mutex<Child>,
    stdout: Output,
    stderr: Output,
    address: String,
}

impl Process {
    /// Starts `assent` with these arguments, on a free port unless they say `--listen`, and waits until it serves.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// As [`Process::start`], with environment variables.
    pub fn start_with(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self::launch(
            arguments
                .iter()
                .map(|argument| (*argument).to_owned())
                .collect(),
            variables.iter().map(pair).collect(),
            Arc::new(tempfile::tempdir().unwrap()),
        )
    }

    /// Runs the binary to its end: for what does not stay. The arguments are all there is; no port is chosen.
    pub async fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
        let home = Arc::new(tempfile::tempdir().unwrap());
        let process = Self::spawn(arguments, variables.iter().copied(), home);
        process.wait().await
    }

    fn launch(
        arguments: Vec<String>,
        variables: Vec<(String, String)>,
        home: Arc<TempDir>,
    ) -> Self {
        let mut all: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let listens = |name: &str| name == "--listen" || name == "ASSENT_LISTEN";
        if !arguments
            .iter()
            .chain(variables.iter().map(|(name, _)| name))
            .any(|name| listens(name))
        {
            all.extend(["--listen", "127.0.0.1:0"]);
        }
        let pairs = variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let mut process = Self::spawn(&all, pairs, home);
        process.until_it_serves();
        process.arguments = arguments;
        process.variables = variables;
        process
    }

    fn spawn<'a>(
        arguments: &[&str],
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
        home: Arc<TempDir>,
    ) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_assent"))
            .args(arguments)
            .env_clear()
            .env("HOME", home.path())
            .envs(variables)
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            arguments: Vec::new(),
            variables: Vec::new(),
            home,
            stdout: Output::of(child.stdout.take().unwrap()),
            stderr: Output::of(child.stderr.take().unwrap()),
            child: Mutex::new(child),
            address: String::new(),
        }
    }

    /// Blocks until it has said where it listens and its health is SERVING.
    fn until_it_serves(&mut self) {
        let until = Instant::now() + SOON;
        loop {
            if let Some(status) = self.exited() {
                panic!("the server ended with {status}: {}", self.stderr.whole());
            }
            let stdout = self.stdout.text();
            let announced = stdout
                .lines()
                .find_map(|line| line.split_once(" listens on "));
            // Only a whole line has the whole address.
            if let Some((_, address)) = announced
                && stdout.contains("try: ")
            {
                address.clone_into(&mut self.address);
                if self.client_command(&["health"]).status.success() {
                    return;
                }
            }
            assert!(
                Instant::now() < until,
                "it does not serve: {stdout} {}",
                self.stderr.text()
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs a client command against it, to its end.
    pub fn client_command(&self, arguments: &[&str]) -> Ended {
        let output = Command::new(env!("CARGO_BIN_EXE_assent"))
            .args(arguments)
            .env_clear()
            .env("ASSENT_SERVER", &self.address)
            .output()
            .unwrap();
        Ended {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Where it listens, as `--server` takes it. Another one after [`Process::restart`].
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    /// Its home directory.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Where its suspensions rest if it was given no store.
    pub fn default_store(&self) -> PathBuf {
        self.home().join(".local/share/assent/assent.db")
    }

    /// A connection to it, made when it is first used.
    pub fn channel(&self) -> Channel {
        connect(&self.address)
    }

    /// A client with a connection of its own.
    pub fn client(&self) -> DecisionServiceClient<Channel> {
        DecisionServiceClient::new(self.channel())
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub fn kill9(&self) {
        let mut child = self.child.lock().unwrap();
        // It may be gone already.
        let _ = child.kill();
        child.wait().unwrap();
    }

    /// Sends it SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends it a signal by its name without `SIG`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("sh")
            .args(["-c", "kill -s \"$0\" \"$1\"", name, &self.pid().to_string()])
            .status()
            .unwrap();
        assert!(status.success(), "no signal could be sent");
    }

    /// Waits for its end.
    pub async fn wait(&self) -> Ended {
        let mut ended = None;
        let in_time = eventually(SOON, async || {
            ended = self.exited();
            ended.is_some()
        })
        .await;
        assert!(
            in_time,
            "it does not end: {} {}",
            self.stdout.text(),
            self.stderr.text()
        );
        Ended {
            status: ended.unwrap(),
            stdout: self.stdout.whole(),
            stderr: self.stderr.whole(),
        }
    }

    fn exited(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap().try_wait().unwrap()
    }

    /// What it has written to standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Kills it if it still runs, and starts it again with the same arguments, environment and home. If the port was a
    /// free one it is another one now: somebody else may have the old one.
    pub fn restart(self) -> Self {
        self.kill9();
        Self::launch(
            self.arguments.clone(),
            self.variables.clone(),
            Arc::clone(&self.home),
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// The library's server in this process. It ends with this, and with [`InProcess::stop`] in good order.
pub struct InProcess {
    address: String,
    policy: Arc<ArcSwap<Policy>>,
    shutdown: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<Result<(), ServeError>>>,
}

/// Serves a policy (the default one without a text) over a store, on a free port.
pub async fn in_process(policy_text: Option<&str>, store: Arc<dyn SuspensionStore>) -> InProcess {
    let policy = policy_text.map_or_else(Policy::defaults, |text| {
        let source = Source {
            name: "policy.yaml".to_owned(),
            text: text.to_owned(),
        };
        Policy::compile(&[source]).unwrap()
    });
    let policy = Arc::new(ArcSwap::from_pointee(policy));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (shutdown, stops) = oneshot::channel::<()>();
    let parts = Parts {
        store,
        policy: Arc::clone(&policy),
        reload: None,
        drain_timeout: Duration::from_secs(5),
    };
    let serving = tokio::spawn(server::run(Listener::Tcp(listener), parts, async {
        let _ = stops.await;
    }));
    InProcess {
        address,
        policy,
        shutdown: Some(shutdown),
        serving: Some(serving),
    }
}

impl InProcess {
    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Swaps the policy, as a reload does.
    pub fn swap(&self, policy: Policy) {
        self.policy.store(Arc::new(policy));
    }

    /// A connection to it, made when it is first used.
    pub fn channel(&self) -> Channel {
        connect(&self.address)
    }

    /// A client with a connection of its own.
    pub fn client(&self) -> DecisionServiceClient<Channel> {
        DecisionServiceClient::new(self.channel())
    }

    /// Stops it as SIGTERM stops the binary.
    pub async fn stop(mut self) {
        drop(self.shutdown.take());
        if let Some(serving) = self.serving.take() {
            serving.await.unwrap().unwrap();
        }
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        if let Some(serving) = &self.serving {
            serving.abort();
        }
    }
}

/// The health of one of a server's entries; `None` when it does not say.
pub async fn health(address: &str, service: &str) -> Option<ServingStatus> {
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    let answer = HealthClient::new(connect(address))
        .check(request)
        .await
        .ok()?;
    Some(answer.into_inner().status())
}

fn connect(address: &str) -> Channel {
    let uri = if address.starts_with("unix:") {
        address.to_owned()
    } else {
        format!("http://{address}")
    };
    Endpoint::from_shared(uri)
        .unwrap()
        .connect_timeout(SOON)
        .connect_lazy()
}

/// A stream of a process, read as it comes so that the process is never held up.
struct Output {
    text: Arc<Mutex<Vec<u8>>>,
    reading: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Output {
    fn of(mut stream: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let read = Arc::clone(&text);
        let reading = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                read.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Self {
            text,
            reading: Mutex::new(Some(reading)),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }

    /// All of it, for a process that has ended.
    fn whole(&self) -> String {
        if let Some(reading) = self.reading.lock().unwrap().take() {
            reading.join().unwrap();
        }
        self.text()
    }
}
