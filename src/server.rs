//! The server itself: [`run`] serves on a listener until it is told to stop, and then ends in good order.
//!
//! What it is made of comes in as parameters: listener, store, policy and shutdown. No flag, no file and no signal
//! is read here.

mod background;
mod health;
mod workers;

use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::{Stream, StreamExt as _, stream};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{sleep, timeout};
use tonic::transport::server::Router;
use tower::layer::util::{Identity, Stack};

use crate::engine::{Engine, sweeper};
use crate::grpc::{self, CompleteErrors};
use crate::listener::{Listener, SocketFile};
use crate::pb;
use crate::pb::decision_service_server::DecisionServiceServer;
use crate::policy::Policy;
use crate::reload::Reload;
use crate::store::{SuspensionStore, clock};
use crate::watch::Waiters;

use self::background::Background;
use self::health::ServerHealth;
use self::workers::{Portable, Workers};

/// The largest message that is read: the 3 MiB of arguments that a batch may have and a whole suspension of 2 MiB
/// both fit (S9), with what stands around them.
const MAX_MESSAGE_BYTES: usize = 6 * 1024 * 1024;

/// How many calls one connection may have under way. Waits count, and a runtime may wait for many people over one
/// connection: with too few, its answers would queue behind its waits.
const MAX_STREAMS: u32 = 10_000;

/// How often a quiet connection is asked whether its client is still there, so that the waits of dead ones end.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// How long it may take to say so.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Past the longest wait (S9): what takes longer is stuck.
const CALL_TIMEOUT: Duration = Duration::from_secs(6 * 60);

/// How long to accept nothing after accepting failed, as it does when there are no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How often the store is asked whether it answers.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How long it may take to say so.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// What a server is made of.
pub struct Parts {
    /// Where suspensions rest.
    pub store: Arc<dyn SuspensionStore>,
    /// What decides; whoever holds the other end may swap it.
    pub policy: Arc<ArcSwap<Policy>>,
    /// What swaps it when its files change, if it has files.
    pub reload: Option<Arc<Reload>>,
    /// How long calls under way may take to end when the server stops.
    pub drain_timeout: Duration,
}

/// Why a server ended that was not told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The descriptors of the services cannot be read.
    #[error("the services cannot be described: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// Connections cannot be served.
    #[error("connections cannot be served: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// There is no thread to serve on.
    #[error("cannot start threads: {0}")]
    NoThread(#[from] io::Error),
    /// A thread that serves has ended, which is a bug.
    #[error("a thread that serves connections has ended")]
    WorkerGone,
}

/// Serves until `shutdown` is ready, then drains: health says NOT_SERVING, waits end with what is, no connection is
/// accepted any more, and calls under way may end within the drain timeout.
///
/// # Errors
/// When it cannot serve. That calls were cut by the drain timeout is logged and no error.
pub async fn run(
    listener: Listener,
    parts: Parts,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let Parts {
        store,
        policy,
        reload,
        drain_timeout,
    } = parts;
    let waiters = Waiters::default();
    let engine = Arc::new(Engine::new(
        Arc::clone(&store),
        policy,
        Arc::new(grpc::PortClient::default()),
        waiters.clone(),
        // Deadlines are judged by the store's.
        clock::now,
    ));
    let health = ServerHealth::new().await;
    let router = routes(&engine, &health)?;

    let mut background = Background::default();
    background.keep("the sweeper", {
        let engine = Arc::clone(&engine);
        move || sweeper::run(Arc::clone(&engine))
    });
    background.keep("the wake-ups", {
        let (store, waiters) = (Arc::clone(&store), waiters.clone());
        move || waiters.clone().listen(Arc::clone(&store))
    });
    background.keep("the check of the store", {
        let (store, health) = (Arc::clone(&store), health.clone());
        move || check_store(Arc::clone(&store), health.clone())
    });
    if let Some(reload) = reload {
        let health = health.clone();
        background.keep("the reload of the policy", move || {
            let (reload, health) = (Arc::clone(&reload), health.clone());
            async move {
                let tell = |usable| health.policy_is_usable(usable);
                reload.follow(tell).await;
            }
        });
    }

    match listener {
        Listener::Tcp(tcp) => {
            let accepted = accept_tcp(tcp);
            let drain = drain(&health, &waiters, None);
            serve(accepted, &router, shutdown, drain, drain_timeout).await?;
        }
        Listener::Unix(unix, file) => {
            let accepted = accept_unix(unix);
            let drain = drain(&health, &waiters, Some(file));
            serve(accepted, &router, shutdown, drain, drain_timeout).await?;
        }
    }
    tracing::info!("stopped");
    Ok(())
}

/// Hands connections to workers until it is time to stop, and lets what is under way end.
async fn serve<S: Portable>(
    accepted: impl Stream<Item = S>,
    router: &Services,
    shutdown: impl Future<Output = ()>,
    drain: impl Future<Output = ()>,
    drain_timeout: Duration,
) -> Result<(), ServeError> {
    let mut workers = Workers::start(router)?;
    let ended = workers.ended();
    let mut ended = pin!(ended);
    {
        let accepting = accepted.for_each(async |connection| workers.serve(connection));
        tokio::select! {
            ended = &mut ended => return ended,
            () = accepting => {}
            () = shutdown => {}
        }
        tracing::info!(timeout = ?drain_timeout, "stopping: calls under way may end");
        drain.await;
    }
    workers.drain();
    match timeout(drain_timeout, ended).await {
        Ok(ended) => ended?,
        Err(_) => tracing::warn!(
            "the drain timeout is over: connections that still had calls under way are cut"
        ),
    }
    Ok(())
}

/// Says that nothing new is served, and lets the waits end with what is.
async fn drain(health: &ServerHealth, waiters: &Waiters, socket: Option<SocketFile>) {
    health.drain().await;
    waiters.close();
    // While the listener still is there: the next process must not find, and lose, a file without one.
    drop(socket);
}

/// The services, with what all calls pass through.
type Services = Router<Stack<CompleteErrors, Identity>>;

/// The services, and how they are served.
fn routes(engine: &Arc<Engine>, health: &ServerHealth) -> Result<Services, ServeError> {
    let decisions = DecisionServiceServer::new(grpc::Service::new(Arc::clone(engine)))
        .max_decoding_message_size(MAX_MESSAGE_BYTES);
    let router = tonic::transport::Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .layer(CompleteErrors::new(CALL_TIMEOUT))
        .add_service(decisions)
        .add_service(health.service())
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    Ok(router)
}

/// Describes what is served here, and no more: the policy port is in our descriptors too, and is served by others.
fn reflection() -> tonic_reflection::server::Builder<'static> {
    use tonic_reflection::pb::{v1, v1alpha};
    tonic_reflection::server::Builder::configure()
        .include_reflection_service(false)
        .register_encoded_file_descriptor_set(pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        // The details of an error, so that clients without our sources can show them.
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(v1::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(v1alpha::FILE_DESCRIPTOR_SET)
        .with_service_name(pb::decision_service_server::SERVICE_NAME)
        .with_service_name(tonic_health::pb::health_server::SERVICE_NAME)
        .with_service_name(v1::server_reflection_server::SERVICE_NAME)
        .with_service_name(v1alpha::server_reflection_server::SERVICE_NAME)
}

fn accept_tcp(listener: TcpListener) -> impl Stream<Item = TcpStream> {
    stream::unfold(listener, |listener| async {
        loop {
            match listener.accept().await {
                Ok((connection, _)) => {
                    if let Err(error) = connection.set_nodelay(true) {
                        tracing::debug!(%error, "a connection stays slow");
                    }
                    return Some((connection, listener));
                }
                Err(error) => pause_after(&error).await,
            }
        }
    })
}

fn accept_unix(listener: UnixListener) -> impl Stream<Item = UnixStream> {
    stream::unfold(listener, |listener| async {
        loop {
            match listener.accept().await {
                Ok((connection, _)) => return Some((connection, listener)),
                Err(error) => pause_after(&error).await,
            }
        }
    })
}

/// A client that went away while it waited is no reason to pause; anything else may well happen again at once.
async fn pause_after(error: &io::Error) {
    if !matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    ) {
        tracing::warn!(%error, "a connection cannot be accepted");
        sleep(ACCEPT_PAUSE).await;
    }
}

/// Follows for ever whether the store answers.
async fn check_store(store: Arc<dyn SuspensionStore>, health: ServerHealth) {
    let mut answered = true;
    loop {
        let why = match timeout(CHECK_TIMEOUT, store.check()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {CHECK_TIMEOUT:?}")),
        };
        match &why {
            None if !answered => tracing::info!("the store answers again"),
            Some(why) if answered => tracing::warn!(error = %why, "the store does not answer"),
            None | Some(_) => {}
        }
        answered = why.is_none();
        health.store_answers(answered).await;
        sleep(CHECK_INTERVAL).await;
    }
}
