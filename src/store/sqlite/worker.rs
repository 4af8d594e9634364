//! The threads that hold the connections: one writes, with a commit for many jobs, and some read.
//!
//! SQLite blocks, so it never runs on a thread that serves requests. A job is a closure over a
//! [`Step`]; its answer is sent when what it wrote is on disk.

use std::collections::VecDeque;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, Error};
use tokio::sync::{broadcast, oneshot};
use tokio::time::timeout;

use super::StoreError;
use crate::domain::Timestamp;
use crate::store::Heard;
use crate::store::clock::ClockOffset;
use crate::suspension::SuspensionId;

/// How long a caller waits for an answer.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);

/// How many jobs wait for a thread at most; past it callers are turned away at once.
pub(super) const QUEUE: usize = 4096;

/// How many jobs share a commit at most.
const BATCH: usize = 256;

/// Why a job has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("no answer within {0:?}")]
    Late(Duration),
    #[error("{QUEUE} requests are waiting already")]
    QueueFull,
    #[error("the thread of the database has ended")]
    Ended,
    #[error("a request to the database panicked")]
    Panicked,
    #[error("the transaction was undone by an earlier error")]
    Undone,
    #[error("the transaction failed: {0}")]
    Transaction(#[source] Arc<Error>),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        Self::Unavailable(Box::new(failure))
    }
}

/// What a job works with: a connection in a transaction.
pub(super) struct Step<'a> {
    /// The connection.
    pub(super) db: &'a Connection,
    /// The store's time.
    pub(super) now: Timestamp,
    /// The records the job opened or changed, to be told of when they are on disk.
    pub(super) changed: Vec<SuspensionId>,
}

/// The way to one or more threads; they end when it is closed or dropped, after what is in it.
pub(super) struct Queue {
    jobs: RwLock<Option<SyncSender<Box<dyn Job>>>>,
    deadline: Duration,
}

/// The end of [`Queue`] that the threads hold.
pub(super) type Jobs = Receiver<Box<dyn Job>>;

impl Queue {
    /// A queue whose callers wait for `deadline` at most.
    pub(super) fn new(deadline: Duration) -> (Self, Jobs) {
        let (jobs, receiver) = std::sync::mpsc::sync_channel(QUEUE);
        let jobs = RwLock::new(Some(jobs));
        (Self { jobs, deadline }, receiver)
    }

    /// Takes no more work.
    pub(super) fn close(&self) {
        *self.jobs.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Has a thread do some work, and waits for it.
    pub(super) async fn run<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Step<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let task = Task {
            work: Some(work),
            result: None,
            reply,
        };
        self.send(Box::new(task))?;
        match timeout(self.deadline, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Failure::Ended.into()),
            Err(_) => Err(Failure::Late(self.deadline).into()),
        }
    }

    fn send(&self, job: Box<dyn Job>) -> Result<(), Failure> {
        let jobs = self.jobs.read().unwrap_or_else(PoisonError::into_inner);
        let jobs = jobs.as_ref().ok_or(Failure::Ended)?;
        jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => Failure::QueueFull,
            TrySendError::Disconnected(_) => Failure::Ended,
        })
    }
}

/// One piece of work with its answer.
pub(super) trait Job: Send {
    /// Whether anybody still waits for it.
    fn is_wanted(&self) -> bool;
    /// Works. Gives whether what it wrote shall stay.
    fn run(&mut self, step: &mut Step<'_>) -> bool;
    /// Tells the caller.
    fn answer(self: Box<Self>, failure: Option<&Failure>);
}

struct Task<T, F> {
    work: Option<F>,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Task<T, F>
where
    T: Send,
    F: FnOnce(&mut Step<'_>) -> Result<T, StoreError> + Send,
{
    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn run(&mut self, step: &mut Step<'_>) -> bool {
        let work = self.work.take();
        self.result = work.map(|work| work(step));
        matches!(self.result, Some(Ok(_)))
    }

    fn answer(self: Box<Self>, failure: Option<&Failure>) {
        let result = match (self.result, failure) {
            (Some(Ok(_)) | None, Some(failure)) => Err(failure.clone().into()),
            (None, None) => Err(Failure::Panicked.into()),
            (Some(result), _) => result,
        };
        // The caller may have left.
        let _unheard = self.reply.send(result);
    }
}

/// Runs a job in a transaction that is open. Gives whether what it wrote shall stay.
fn run(job: &mut dyn Job, step: &mut Step<'_>) -> bool {
    let ran = catch_unwind(AssertUnwindSafe(|| job.run(step)));
    ran.unwrap_or_else(|_| {
        tracing::error!("a request to the database panicked");
        false
    })
}

/// The one thread that writes.
pub(super) struct Writer {
    pub(super) db: Connection,
    pub(super) clock: ClockOffset,
    pub(super) changes: broadcast::Sender<Heard>,
    /// Counts the commits that wrote something.
    pub(super) commits: Arc<AtomicU64>,
}

impl Writer {
    /// Takes what has queued up, over and over. While one commit waits for the disk the next batch
    /// gathers, so many callers share an fsync and a lone one waits for nobody.
    pub(super) fn work(self, jobs: &Jobs) {
        while let Ok(first) = jobs.recv() {
            let mut batch: VecDeque<_> = iter::once(first)
                .chain(jobs.try_iter().take(BATCH - 1))
                .collect();
            while !batch.is_empty() {
                self.transaction(&mut batch);
            }
        }
        self.merge_log();
    }

    /// Copies the write-ahead log into the file and empties it, so that the file alone is the whole. SQLite does
    /// so with the last connection, but not when several are closed at once.
    fn merge_log(&self) {
        let merged = self
            .db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
                row.get::<_, bool>(0)
            });
        match merged {
            Ok(false) => {}
            Ok(true) => tracing::warn!("the write-ahead log is in use and stays beside the file"),
            Err(error) => tracing::warn!(%error, "the write-ahead log stays beside the file"),
        }
    }

    /// Runs jobs from the front of the batch in one transaction, commits and answers them. What is left
    /// in the batch, after an error that undid the transaction, is for the next one.
    fn transaction(&self, batch: &mut VecDeque<Box<dyn Job>>) {
        if let Err(failure) = self.begin() {
            answer(batch.drain(..), Some(&failure));
            return;
        }
        let written = self.db.total_changes();
        let mut ran = Vec::with_capacity(batch.len());
        let mut changed = Vec::new();
        while let Some(mut job) = batch.pop_front() {
            if !job.is_wanted() {
                continue;
            }
            let kept = self.savepoint(job.as_mut());
            ran.push(job);
            match kept {
                // An error may be such that SQLite undoes the whole transaction, as a full disk can be.
                Ok(_) if self.db.is_autocommit() => {
                    answer(ran, Some(&Failure::Undone));
                    return;
                }
                Ok(ids) => changed.extend(ids),
                Err(error) => {
                    self.give_up(ran, error);
                    return;
                }
            }
        }
        match self.db.execute_batch("COMMIT") {
            Ok(()) => {
                if self.db.total_changes() > written {
                    self.commits.fetch_add(1, Ordering::Relaxed);
                }
                for id in changed {
                    // Nobody may be listening.
                    let _unheard = self.changes.send(Heard::Changed(id));
                }
                answer(ran, None);
            }
            Err(error) => self.give_up(ran, error),
        }
    }

    /// Undoes the transaction and tells those whose work was in it.
    fn give_up(&self, ran: Vec<Box<dyn Job>>, error: Error) {
        tracing::error!(%error, "a transaction of the database failed");
        if !self.db.is_autocommit() {
            // If this fails too, the next transaction begins with it.
            let _undone = self.db.execute_batch("ROLLBACK");
        }
        answer(ran, Some(&Failure::Transaction(Arc::new(error))));
    }

    fn begin(&self) -> Result<(), Failure> {
        let begun = if self.db.is_autocommit() {
            self.db.execute_batch("BEGIN IMMEDIATE")
        } else {
            // The last transaction failed, and so did undoing it.
            self.db.execute_batch("ROLLBACK; BEGIN IMMEDIATE")
        };
        begun.map_err(|error| {
            tracing::error!(%error, "the database takes no transaction");
            Failure::Transaction(Arc::new(error))
        })
    }

    /// Runs a job so that it fails alone. Gives the records it changed.
    fn savepoint(&self, job: &mut dyn Job) -> Result<Vec<SuspensionId>, Error> {
        self.db.prepare_cached("SAVEPOINT job")?.execute([])?;
        let mut step = Step {
            db: &self.db,
            now: self.clock.now(),
            changed: Vec::new(),
        };
        if run(job, &mut step) {
            self.db.prepare_cached("RELEASE job")?.execute([])?;
            return Ok(step.changed);
        }
        if !self.db.is_autocommit() {
            self.db.execute_batch("ROLLBACK TO job; RELEASE job")?;
        }
        Ok(Vec::new())
    }
}

fn answer(jobs: impl IntoIterator<Item = Box<dyn Job>>, failure: Option<&Failure>) {
    for job in jobs {
        job.answer(failure);
    }
}

/// One of the threads that read.
pub(super) struct Reader {
    pub(super) db: Connection,
    pub(super) clock: ClockOffset,
}

impl Reader {
    /// Takes one job at a time from the queue that all readers share.
    pub(super) fn work(self, jobs: &Mutex<Jobs>) {
        loop {
            let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(mut job) = next else { return };
            if job.is_wanted() {
                let failure = self.snapshot(job.as_mut()).err();
                let failure = failure.map(|error| Failure::Transaction(Arc::new(error)));
                job.answer(failure.as_ref());
            }
        }
    }

    /// Runs a job on one state of the database.
    fn snapshot(&self, job: &mut dyn Job) -> Result<(), Error> {
        let transaction = self.db.unchecked_transaction()?;
        let mut step = Step {
            db: &self.db,
            now: self.clock.now(),
            changed: Vec::new(),
        };
        run(job, &mut step);
        transaction.finish()
    }
}

/// Starts a thread that owns `with` until its work is over.
pub(super) fn spawn(
    name: &str,
    with: impl Send + 'static,
    work: impl FnOnce() + Send + 'static,
) -> Result<(), StoreError> {
    let body = move || {
        work();
        drop(with);
    };
    match thread::Builder::new().name(name.to_owned()).spawn(body) {
        Ok(_detached) => Ok(()),
        Err(error) => Err(StoreError::Unusable(format!(
            "no thread could be started for the store: {error}"
        ))),
    }
}
