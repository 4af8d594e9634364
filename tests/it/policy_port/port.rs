//! Policy ports for tests: a real one that says what it is told to say, in a runtime of its own, so that it can die like
//! a process; and listeners that are no policy port at all.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assent::pb::policy_port_service_server::{PolicyPortService, PolicyPortServiceServer};
use assent::pb::{AllowRunRequest, AllowRunResponse, AllowToolRequest, AllowToolResponse, Verdict};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener};
use tokio::runtime::{self, Runtime};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// What a port says to whatever it is asked.
#[derive(Clone)]
pub enum Says {
    /// This verdict, for this reason.
    Verdict(i32, String),
    /// This verdict, late.
    Late(Duration, Verdict),
    /// Nothing, ever.
    Nothing,
    /// An error.
    Status(Status),
    /// Nothing more: it dies of the question.
    Dies,
}

impl Says {
    /// It may run.
    pub fn allow() -> Self {
        Self::Verdict(Verdict::Allow.into(), String::new())
    }

    /// A person must be asked.
    pub fn ask(reason: &str) -> Self {
        Self::Verdict(Verdict::Ask.into(), reason.to_owned())
    }

    /// It must not run.
    pub fn deny(reason: &str) -> Self {
        Self::Verdict(Verdict::Deny.into(), reason.to_owned())
    }
}

/// A question as it came over the wire.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    Tool(AllowToolRequest),
    Run(AllowRunRequest),
}

/// A running port. It dies with this, as a process would that is killed.
pub struct Port {
    /// Where it listens, as a policy names it.
    pub endpoint: String,
    shared: Shared,
}

/// What the service shares with its owner: what it says, what it was asked, and what it lives on.
#[derive(Clone)]
struct Shared {
    says: Arc<Mutex<Says>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    life: Arc<Mutex<Option<Runtime>>>,
}

impl Port {
    /// Starts one on a free port.
    pub fn start(says: Says) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), says)
    }

    /// Starts one at an address, where another one may have listened before.
    pub fn start_at(address: SocketAddr, says: Says) -> Self {
        let (shared, runtime) = Shared::new(says);
        let listener = {
            let _inside = runtime.enter();
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(true).unwrap();
            socket.bind(address).unwrap();
            socket.listen(1024).unwrap()
        };
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let serving = Server::builder()
            .add_service(PolicyPortServiceServer::new(shared.clone()))
            .serve_with_incoming(TcpIncoming::from(listener));
        runtime.spawn(serving);
        shared.live_on(runtime);
        Self { endpoint, shared }
    }

    /// Starts one on a Unix socket.
    pub fn start_at_socket(path: &Path, says: Says) -> Self {
        let (shared, runtime) = Shared::new(says);
        let listener = {
            let _inside = runtime.enter();
            UnixListener::bind(path).unwrap()
        };
        let serving = Server::builder()
            .add_service(PolicyPortServiceServer::new(shared.clone()))
            .serve_with_incoming(UnixListenerStream::new(listener));
        runtime.spawn(serving);
        shared.live_on(runtime);
        Self {
            endpoint: format!("unix:{}", path.display()),
            shared,
        }
    }

    /// Has it say something else from now on.
    pub fn say(&self, says: Says) {
        *self.shared.says.lock().unwrap() = says;
    }

    /// What it was asked since this was last called.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.shared.asked.lock().unwrap())
    }

    /// How many questions that are.
    pub fn questions(&self) -> usize {
        self.shared.asked.lock().unwrap().len()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.shared.die();
    }
}

impl Shared {
    fn new(says: Says) -> (Self, Runtime) {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let shared = Self {
            says: Arc::new(Mutex::new(says)),
            asked: Arc::default(),
            life: Arc::default(),
        };
        (shared, runtime)
    }

    fn live_on(&self, runtime: Runtime) {
        *self.life.lock().unwrap() = Some(runtime);
    }

    /// Drops every connection and every answer under way.
    fn die(&self) {
        if let Some(runtime) = self.life.lock().unwrap().take() {
            runtime.shutdown_background();
        }
    }

    async fn answer(&self, asked: Asked) -> Result<(i32, String), Status> {
        self.asked.lock().unwrap().push(asked);
        let says = self.says.lock().unwrap().clone();
        match says {
            Says::Verdict(verdict, reason) => Ok((verdict, reason)),
            Says::Late(after, verdict) => {
                sleep(after).await;
                Ok((verdict.into(), String::new()))
            }
            Says::Nothing => std::future::pending().await,
            Says::Status(status) => Err(status),
            Says::Dies => {
                self.die();
                std::future::pending().await
            }
        }
    }
}

#[tonic::async_trait]
impl PolicyPortService for Shared {
    async fn allow_tool(
        &self,
        request: Request<AllowToolRequest>,
    ) -> Result<Response<AllowToolResponse>, Status> {
        let asked = Asked::Tool(request.into_inner());
        let (verdict, reason) = self.answer(asked).await?;
        Ok(Response::new(AllowToolResponse { verdict, reason }))
    }

    async fn allow_run(
        &self,
        request: Request<AllowRunRequest>,
    ) -> Result<Response<AllowRunResponse>, Status> {
        let asked = Asked::Run(request.into_inner());
        let (verdict, reason) = self.answer(asked).await?;
        Ok(Response::new(AllowRunResponse { verdict, reason }))
    }
}

/// What a listener that is no policy port does with a connection.
#[derive(Clone, Copy)]
pub enum Stranger {
    /// Reads, and never writes.
    NeverAnswers,
    /// Closes it at once.
    HangsUp,
    /// Closes it once it was asked.
    HangsUpWhenAsked,
    /// Sends these bytes when it was asked.
    Sends(&'static [u8]),
    /// Sends a whole message that says ALLOW to each question, and no status with it.
    SendsNoStatus(Then),
}

/// What follows a message without a status.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The end of the stream.
    Ends,
    /// Nothing.
    Waits,
    /// The end of the connection.
    HangsUp,
}

/// A listener that is no policy port.
pub struct Listening {
    /// Where.
    pub endpoint: String,
    accepting: JoinHandle<()>,
}

impl Listening {
    /// Starts it.
    pub async fn start(stranger: Stranger) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let accepting = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(stranger.meet(connection));
            }
        });
        Self {
            endpoint,
            accepting,
        }
    }

    /// Stops listening, and leaves the connections that there are as they are.
    pub async fn stop_accepting(&mut self) {
        self.accepting.abort();
        let _aborted = (&mut self.accepting).await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Stranger {
    async fn meet(self, mut connection: TcpStream) {
        let mut read = [0; 4096];
        match self {
            Self::HangsUp => {}
            Self::HangsUpWhenAsked => {
                until_asked(&mut connection, PREFACE).await;
            }
            Self::NeverAnswers => while let Ok(1..) = connection.read(&mut read).await {},
            Self::Sends(bytes) => {
                until_asked(&mut connection, PREFACE).await;
                let _ = connection.write_all(bytes).await;
                while let Ok(1..) = connection.read(&mut read).await {}
            }
            Self::SendsNoStatus(then) => {
                let mut stream = until_asked(&mut connection, PREFACE).await;
                let _ = connection.write_all(&frame(SETTINGS, 0, 0, &[])).await;
                while let Some(question) = stream {
                    let headers = b"\x88\x5f\x10application/grpc";
                    let message = b"\0\0\0\0\x02\x08\x01";
                    let end = u8::from(then == Then::Ends);
                    let mut answer = frame(HEADERS, END_HEADERS, question, headers);
                    answer.extend(frame(DATA, end, question, message));
                    let _ = connection.write_all(&answer).await;
                    if then == Then::HangsUp {
                        return;
                    }
                    stream = until_asked(&mut connection, 0).await;
                }
            }
        }
    }
}

/// What a client of HTTP/2 sends before its first frame.
const PREFACE: usize = 24;
/// Types of frames, and the flag that the headers are complete.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_HEADERS: u8 = 4;

/// Reads frames up to the next one that has headers, which are those of a question, and gives the stream that it is on.
async fn until_asked(connection: &mut TcpStream, skipped: usize) -> Option<u32> {
    let mut skipped = vec![0; skipped];
    loop {
        let mut head = [0; 9];
        connection.read_exact(&mut skipped).await.ok()?;
        connection.read_exact(&mut head).await.ok()?;
        let [a, b, c, kind, _, stream @ ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]);
        skipped = vec![0; usize::try_from(length).unwrap()];
        if kind == HEADERS {
            connection.read_exact(&mut skipped).await.ok()?;
            return Some(u32::from_be_bytes(stream));
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![a, b, c, kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// An address of this machine where nobody listens.
pub fn nobody() -> SocketAddr {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}
