//! The threads that serve connections: one for each processor, with a runtime of its own, so that a call is served
//! where its bytes arrive and nothing is handed from thread to thread on the way.
//!
//! A connection goes to the worker that has the fewest, and stays there. Whatever waits for long or takes a thread
//! (the store, the sweeper, files) has its threads elsewhere.

use std::io::{self, IoSlice};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread;

use futures_util::future::try_join_all;
use futures_util::{Stream, TryFutureExt as _, stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::transport::server::Connected;

use super::{ServeError, Services};

/// A connection that can move to another runtime.
pub(super) trait Portable:
    AsyncRead + AsyncWrite + Connected + Sized + Unpin + Send + 'static
{
    /// The connection without a runtime.
    type Bare: Send + 'static;

    /// Leaves the runtime it was accepted on.
    fn leave(self) -> io::Result<Self::Bare>;

    /// Joins the runtime of this thread.
    fn join(bare: Self::Bare) -> io::Result<Self>;
}

impl Portable for TcpStream {
    type Bare = std::net::TcpStream;

    fn leave(self) -> io::Result<Self::Bare> {
        self.into_std()
    }

    fn join(bare: Self::Bare) -> io::Result<Self> {
        Self::from_std(bare)
    }
}

impl Portable for UnixStream {
    type Bare = std::os::unix::net::UnixStream;

    fn leave(self) -> io::Result<Self::Bare> {
        self.into_std()
    }

    fn join(bare: Self::Bare) -> io::Result<Self> {
        Self::from_std(bare)
    }
}

/// The workers. They end when this is dropped, with whatever they serve.
pub(super) struct Workers<S: Portable> {
    workers: Vec<Worker<S>>,
    drain: watch::Sender<bool>,
}

struct Worker<S: Portable> {
    connections: mpsc::UnboundedSender<(S::Bare, Seat)>,
    seats: Arc<AtomicUsize>,
    ended: Option<oneshot::Receiver<Result<(), ServeError>>>,
}

impl<S: Portable> Workers<S> {
    /// Starts one worker for each processor.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(router: &Services) -> Result<Self, ServeError> {
        let count = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let (drain, draining) = watch::channel(false);
        let start = |number| Worker::start(number, router.clone(), draining.clone());
        Ok(Self {
            workers: (0..count).map(start).collect::<Result<_, _>>()?,
            drain,
        })
    }

    /// Gives a connection to the worker that has the fewest.
    pub(super) fn serve(&self, connection: S) {
        let load = |worker: &&Worker<S>| worker.seats.load(Ordering::Relaxed);
        let (Some(worker), Ok(bare)) = (self.workers.iter().min_by_key(load), connection.leave())
        else {
            return;
        };
        // A worker that has ended says so to whoever waits for its end.
        let _ = worker.connections.send((bare, Seat::take(&worker.seats)));
    }

    /// Takes no connection any more, and lets each end when no call is under way on it.
    pub(super) fn drain(&self) {
        self.drain.send_replace(true);
    }

    /// Ready when all have ended, or one has failed.
    pub(super) fn ended(&mut self) -> impl Future<Output = Result<(), ServeError>> + use<S> {
        let ends = self.workers.iter_mut().filter_map(|w| w.ended.take());
        let ends = ends.map(|end| async { end.await.unwrap_or(Err(ServeError::WorkerGone)) });
        try_join_all(ends.collect::<Vec<_>>()).map_ok(drop)
    }
}

impl<S: Portable> Worker<S> {
    fn start(
        number: usize,
        router: Services,
        mut draining: watch::Receiver<bool>,
    ) -> Result<Self, ServeError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (connections, arriving) = mpsc::unbounded_channel();
        let (end, ended) = oneshot::channel();
        let mut alive = draining.clone();
        let serve = async move {
            // Also when the sender is gone.
            let drained = async { drop(draining.wait_for(|drain| *drain).await) };
            let serving = router.serve_with_incoming_shutdown(incoming::<S>(arriving), drained);
            tokio::select! {
                ended = serving => ended.map_err(ServeError::from),
                () = async { while alive.changed().await.is_ok() {} } => Ok(()),
            }
        };
        thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || {
                let result = runtime.block_on(serve);
                runtime.shutdown_background();
                // Nobody may wait any more.
                let _ = end.send(result);
            })?;
        Ok(Self {
            connections,
            seats: Arc::default(),
            ended: Some(ended),
        })
    }
}

/// The connections that are handed to a worker, on its own runtime.
fn incoming<S: Portable>(
    arriving: mpsc::UnboundedReceiver<(S::Bare, Seat)>,
) -> impl Stream<Item = io::Result<Seated<S>>> {
    stream::unfold(arriving, |mut arriving| async {
        let (bare, seat) = arriving.recv().await?;
        let seated = S::join(bare).map(|stream| Seated {
            stream,
            _seat: seat,
        });
        Some((seated, arriving))
    })
}

/// A connection's place at a worker, free again when this is dropped.
struct Seat(Arc<AtomicUsize>);

impl Seat {
    fn take(seats: &Arc<AtomicUsize>) -> Self {
        seats.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(seats))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that holds its seat.
struct Seated<S> {
    stream: S,
    _seat: Seat,
}

impl<S: Connected> Connected for Seated<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.connect_info()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Seated<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Seated<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
