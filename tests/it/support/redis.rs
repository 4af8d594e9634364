//! A real Redis of one's own: on a free port of the loopback, in a folder of its own, gone with its owner.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may fail by panicking"
)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a server may take to start.
const START: Duration = Duration::from_secs(20);
/// How often another port is tried when somebody took the one that was free.
const PORTS: usize = 10;

/// A running `redis-server`.
pub(crate) struct RedisServer {
    child: Child,
    folder: TempDir,
    port: u16,
    extra_args: Vec<String>,
}

impl RedisServer {
    /// Starts one that saves nothing, with these arguments on top (`["--appendonly", "yes"]`).
    ///
    /// Panics when there is no `redis-server`, or it does not start.
    pub(crate) fn start(extra_args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let extra_args: Vec<String> = extra_args.iter().map(ToString::to_string).collect();
        for _ in 0..PORTS {
            let port = TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            if let Some(child) = launch(&folder, port, &extra_args) {
                return Self {
                    child,
                    folder,
                    port,
                    extra_args,
                };
            }
        }
        panic!(
            "redis-server does not start: {}",
            std::fs::read_to_string(log_of(&folder)).unwrap_or_default()
        );
    }

    /// Its address: `redis://127.0.0.1:<port>`.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Hangs it: connections stay open and are accepted, and nothing is answered.
    pub(crate) fn stop(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub(crate) fn cont(&self) {
        self.signal("CONT");
    }

    /// Kills it, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Kills it and starts it again, on the same port and with what its append-only file holds.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.child = launch(&self.folder, self.port, &self.extra_args)
            .expect("redis-server starts again on its own port");
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("sh")
            .args(["-c", "kill -s \"$0\" \"$1\"", signal])
            .arg(self.pid().to_string())
            .status()
            .unwrap();
        assert!(status.success(), "SIG{signal} to redis-server");
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server and waits until it answers; `None` when it ends at once, as on a port that is taken.
fn launch(folder: &TempDir, port: u16, extra_args: &[String]) -> Option<Child> {
    let log = log_of(folder);
    let _ = std::fs::remove_file(&log);
    let mut child = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port"])
        .arg(port.to_string())
        .args(["--save", "", "--appendonly", "no", "--dir"])
        .arg(folder.path())
        .arg("--logfile")
        .arg(&log)
        .args(extra_args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| {
            panic!(
                "cannot run `redis-server` ({error}): these tests need Redis 7 in PATH, for instance \
                 from `apt-get install redis-server` or `brew install redis`"
            )
        });
    let started = Instant::now();
    while started.elapsed() < START {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        // Its own word first: on this port somebody else might be answering.
        let ready = std::fs::read_to_string(&log)
            .is_ok_and(|log| log.contains("Ready to accept connections"));
        if ready && answers(port) {
            return Some(child);
        }
        sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Whether it says PONG, or asks for a password.
fn answers(port: u16) -> bool {
    let ping = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 64];
        let length = stream.read(&mut answer)?;
        let answer = &answer[..length];
        Ok(answer.starts_with(b"+PONG") || answer.starts_with(b"-NOAUTH"))
    };
    ping().unwrap_or(false)
}

fn log_of(folder: &TempDir) -> PathBuf {
    folder.path().join("redis.log")
}
