//! What stands between an agent and the two things that it speaks to, so that a test can act at a chosen moment without
//! a word of it in the agent: a gate before the shop, and a line to the server.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::{SOON, eventually};

/// Where a request is held up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The tool has asked, and the shop has heard nothing of it.
    BeforeTheEffect,
    /// The shop has done it, and the tool has not heard of it.
    AfterTheEffect,
}

/// Passes the tools' requests on to the shop, and holds up the one that it is told to.
pub struct Gate {
    /// Where the tools find the shop.
    pub address: String,
    stops: Arc<Mutex<Vec<Order>>>,
    accepting: JoinHandle<()>,
}

struct Order {
    request: &'static str,
    moment: Moment,
    arrived: oneshot::Sender<oneshot::Sender<()>>,
}

/// A stop that is ordered.
pub struct Stop(oneshot::Receiver<oneshot::Sender<()>>);

/// A request that is held up. Dropping it cuts the tool's connection.
pub struct Held(oneshot::Sender<()>);

impl Gate {
    /// Opens a gate before the shop at this address.
    pub async fn before(shop: String) -> Self {
        let (listener, address) = listen().await;
        let stops = Arc::new(Mutex::new(Vec::new()));
        let orders = Arc::clone(&stops);
        let accepting = tokio::spawn(async move {
            while let Ok((tool, _)) = listener.accept().await {
                let (shop, orders) = (shop.clone(), Arc::clone(&orders));
                // An error is a connection that broke, as when the agent is killed.
                tokio::spawn(async move { pass(tool, &shop, &orders).await });
            }
        });
        Self {
            address: format!("http://{address}"),
            stops,
            accepting,
        }
    }

    /// Orders that the next request which begins like this (`POST /refunds`) is held up.
    pub fn stop(&self, request: &'static str, moment: Moment) -> Stop {
        let (arrived, stop) = oneshot::channel();
        self.stops.lock().unwrap().push(Order {
            request,
            moment,
            arrived,
        });
        Stop(stop)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Stop {
    /// Waits until a request is held up here.
    pub async fn reached(self) -> Held {
        Held(
            timeout(SOON, self.0)
                .await
                .expect("the tool calls the shop")
                .unwrap(),
        )
    }
}

impl Held {
    /// Lets the request go on.
    pub fn go_on(self) {
        self.0.send(()).unwrap();
    }
}

async fn pass(mut tool: TcpStream, shop: &str, orders: &Mutex<Vec<Order>>) -> io::Result<()> {
    let request = whole_request(&mut tool).await?;
    let mut order = {
        let mut orders = orders.lock().unwrap();
        let index = orders
            .iter()
            .position(|order| request.starts_with(order.request.as_bytes()));
        index.map(|index| orders.remove(index))
    };
    if let Some(order) = order.take_if(|order| order.moment == Moment::BeforeTheEffect) {
        hold(order).await?;
    }
    let mut answer = Vec::new();
    let mut shop = TcpStream::connect(shop).await?;
    shop.write_all(&request).await?;
    shop.read_to_end(&mut answer).await?;
    if let Some(order) = order {
        hold(order).await?;
    }
    tool.write_all(&answer).await
}

async fn hold(order: Order) -> io::Result<()> {
    let (go_on, going_on) = oneshot::channel();
    let told = order.arrived.send(go_on).is_ok();
    if told && going_on.await.is_ok() {
        Ok(())
    } else {
        Err(io::ErrorKind::ConnectionAborted.into())
    }
}

/// Reads one HTTP request: its head, and the body that the head announces.
async fn whole_request(tool: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        if tool.read_buf(&mut request).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let announced = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse().unwrap())
        });
        if body.len() >= announced.unwrap_or(0) {
            return Ok(request);
        }
    }
}

/// The one address by which the agents know the server, whichever port it has after a restart.
pub struct Line {
    /// What to give as `ASSENT_SERVER`.
    pub address: String,
    state: Arc<Mutex<LineState>>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct LineState {
    /// None while the server is away: somebody else may have its old port.
    server: Option<String>,
    hung_up: usize,
}

impl Line {
    /// Opens a line that leads nowhere yet.
    pub async fn open() -> Self {
        let (listener, address) = listen().await;
        let state = Arc::new(Mutex::new(LineState::default()));
        let shared = Arc::clone(&state);
        let accepting = tokio::spawn(async move {
            while let Ok((mut agent, _)) = listener.accept().await {
                let server = shared.lock().unwrap().server.clone();
                let Some(server) = server else {
                    shared.lock().unwrap().hung_up += 1;
                    continue;
                };
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(server).await?;
                    copy_bidirectional(&mut agent, &mut server).await
                });
            }
        });
        Self {
            address,
            state,
            accepting,
        }
    }

    /// From now on calls go to this server, or to none.
    pub fn lead_to(&self, server: Option<&str>) {
        *self.state.lock().unwrap() = LineState {
            server: server.map(str::to_owned),
            hung_up: 0,
        };
    }

    /// Waits until somebody has called in vain.
    pub async fn called_in_vain(&self) {
        let called = eventually(SOON, async || self.state.lock().unwrap().hung_up > 0);
        assert!(called.await, "nobody calls the server while it is away");
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}
