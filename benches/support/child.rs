//! The child processes: each server runs in one of its own, so that its cost can be told from the load's.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(15);
/// The unit of Linux's processor times, the same on every machine.
const TICK: Duration = Duration::from_millis(10);

/// A server in a process of its own, which ends when this is dropped.
pub(crate) struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts a server that is told where to listen; what it writes goes to a file.
    ///
    /// # Panics
    /// When it does not listen in time: the message ends with what it wrote.
    pub(crate) fn start(command: &mut Command, address: SocketAddr, log: &Path) -> Self {
        let file = fs::File::create(log).expect("the log can be created");
        let errors = file.try_clone().expect("the log can be shared");
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        let process = command.spawn().expect("the server starts");
        let mut server = Self { process, address };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = server.process.try_wait().expect("the server is a child");
            if ended.is_some() || started.elapsed() > START {
                let said = fs::read_to_string(log).unwrap_or_default();
                panic!("{command:?} does not listen on {address}: {said}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Starts a server that chooses its port and says it in its first line of output.
    pub(crate) fn start_and_ask(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the server starts");
        let output = process.stdout.take().expect("the output is piped");
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .expect("the server writes a line");
        let address = line
            .trim()
            .parse()
            .expect("the server says where it listens");
        Self { process, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends SIGHUP, at which Assent loads its policy again.
    pub(crate) fn hang_up(&self) {
        let mut kill = Command::new("kill");
        let status = kill.args(["-HUP", &self.process.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "{kill:?}");
    }

    /// The processor time that the process has used so far; only Linux tells.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).ok()?;
        // The command's name stands in parentheses and may hold anything; `utime` is the 12th field after it.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut times = fields
            .split_ascii_whitespace()
            .skip(11)
            .map(str::parse::<u32>);
        Some(TICK * (times.next()?.ok()? + times.next()?.ok()?))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A loopback port that nobody listens on at the moment.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .expect("there is a free port")
}
