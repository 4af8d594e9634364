//! The embedded home: one SQLite file of one process, durable, with nothing to install (S10).
//!
//! One thread writes and commits for many callers at once; a few read. What the file looks like is in
//! `schema.rs`, who may use it in `file.rs`, the threads are in `worker.rs`, and the statements in
//! `records.rs`, `groups.rs`, `grants.rs`, `writes.rs` and `sweep.rs`. Nothing else knows SQLite. Unix only: the
//! file's mode keeps others out.

mod file;
mod grants;
mod groups;
mod records;
mod schema;
mod sweep;
mod worker;
mod writes;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::broadcast;
use tokio::task::spawn_blocking;

use self::file::Held;
use self::records::SetAside;
use self::worker::{DEADLINE, Queue, Reader, Writer};
use super::clock::ClockOffset;
use super::key::{CallKey, GrantKey, Group, Place};
use super::record::{encode_body, encode_leave, encode_state};
use super::{
    Commit, Committed, Due, Found, GrantQuery, GrantSlice, Heard, Members, Opened, Opening, Query,
    Slice, StoreError, SuspensionStore,
};
use crate::domain::Timestamp;
use crate::suspension::{Grant, GrantId, State, Suspension, SuspensionId};

/// How many threads read.
const READERS: usize = 4;

/// How many changes a listener may be behind before it misses some.
const CHANGES: usize = 4096;

/// Suspensions in one SQLite file, which this process alone uses for as long as this lives.
pub struct SqliteStore {
    writer: Queue,
    readers: Queue,
    threads: Arc<Threads>,
    changes: broadcast::Sender<Heard>,
    commits: Arc<AtomicU64>,
    set_aside: SetAside,
}

/// How the connection that writes is set up, as SQLite reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durability {
    /// `PRAGMA journal_mode`: `wal`.
    pub journal_mode: String,
    /// `PRAGMA synchronous`: 2, which is FULL.
    pub synchronous: i64,
}

impl SqliteStore {
    /// Opens the file, makes it if there is none, and brings it to this version's schema. Blocks: it is
    /// for the start.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] when the file cannot be written, is in use by another process, is no
    /// database of Assent or was written by a newer version; the text names the path and what to do.
    pub fn open(path: &Path, clock: ClockOffset) -> Result<Self, StoreError> {
        let held = Arc::new(file::hold(path)?);
        let (changes, _) = broadcast::channel(CHANGES);
        let commits = Arc::new(AtomicU64::default());
        let writer = Writer {
            db: schema::open_writer(&held.path)?,
            clock: clock.clone(),
            changes: changes.clone(),
            commits: Arc::clone(&commits),
        };
        let readers = (0..READERS)
            .map(|_| schema::open_reader(&held.path))
            .collect::<Result<Vec<_>, _>>()?;

        let (threads, presence) = Threads::new(held);
        let (writing, jobs) = Queue::new(DEADLINE);
        worker::spawn("assent-store-writer", presence.clone(), move || {
            writer.work(&jobs);
        })?;
        let (reading, jobs) = Queue::new(DEADLINE);
        let jobs = Arc::new(Mutex::new(jobs));
        for db in readers {
            let (clock, jobs) = (clock.clone(), Arc::clone(&jobs));
            worker::spawn("assent-store-reader", presence.clone(), move || {
                Reader { db, clock }.work(&jobs);
            })?;
        }
        Ok(Self {
            writer: writing,
            readers: reading,
            threads: Arc::new(threads),
            changes,
            commits,
            set_aside: SetAside::default(),
        })
    }

    /// How durable a commit is, read from the connection that commits.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn durability(&self) -> Result<Durability, StoreError> {
        let read = |step: &mut worker::Step<'_>| {
            Ok(Durability {
                journal_mode: step
                    .db
                    .pragma_query_value(None, "journal_mode", |row| row.get(0))?,
                synchronous: step
                    .db
                    .pragma_query_value(None, "synchronous", |row| row.get(0))?,
            })
        };
        self.writer.run(read).await
    }

    /// How many commits have written something since the start.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// How often a record was met that cannot be read, since the start.
    pub fn set_aside(&self) -> u64 {
        self.set_aside.count()
    }
}

#[async_trait]
impl SuspensionStore for SqliteStore {
    async fn open(&self, opening: &Opening) -> Result<Opened, StoreError> {
        let opening = opening.clone();
        let body = encode_body(opening.id, &opening.body)?;
        let state = State::pending();
        let state_json = encode_state(opening.id, &state)?;
        let set_aside = self.set_aside.clone();
        self.writer
            .run(move |step| writes::open(step, &opening, &body, (state, &state_json), &set_aside))
            .await
    }

    async fn read(&self, id: SuspensionId) -> Result<(Option<Suspension>, Timestamp), StoreError> {
        self.readers
            .run(move |step| Ok((records::read(step, id)?, step.now)))
            .await
    }

    async fn find(
        &self,
        place: &Place,
        key: Option<&CallKey>,
        grant: Option<&GrantKey>,
    ) -> Result<Found, StoreError> {
        let (place, key, grant) = (place.clone(), key.copied(), grant.copied());
        let set_aside = self.set_aside.clone();
        self.readers
            .run(move |step| records::find(step, &place, key.as_ref(), grant.as_ref(), &set_aside))
            .await
    }

    async fn members(&self, partition: u8, group: &Group) -> Result<Members, StoreError> {
        let (group, set_aside) = (group.clone(), self.set_aside.clone());
        self.readers
            .run(move |step| groups::members(step, partition, &group, &set_aside))
            .await
    }

    async fn commit(&self, commit: &Commit) -> Result<Committed, StoreError> {
        let commit = commit.clone();
        let states = commit
            .changes
            .iter()
            .map(|change| encode_state(change.id, &change.state))
            .collect::<Result<Vec<_>, _>>()?;
        let leave = match &commit.giving {
            Some(giving) => Some(encode_leave(giving.grant.id, &giving.grant.leave)?),
            None => None,
        };
        self.writer
            .run(move |step| writes::commit(step, &commit, &states, leave.as_deref()))
            .await
    }

    async fn list(&self, query: &Query) -> Result<Slice, StoreError> {
        let (query, set_aside) = (query.clone(), self.set_aside.clone());
        self.readers
            .run(move |step| groups::list(step, &query, &set_aside))
            .await
    }

    async fn count_open(&self, tenant: &Group) -> Result<u64, StoreError> {
        let tenant = tenant.clone();
        self.readers
            .run(move |step| groups::count_open(step, &tenant))
            .await
    }

    async fn due(&self, limit: usize) -> Result<Due, StoreError> {
        let set_aside = self.set_aside.clone();
        let sweep = self
            .readers
            .run(move |step| sweep::due(step, limit, &set_aside))
            .await?;
        if sweep.is_untidy() {
            self.writer.run(move |step| sweep::tidy(step, sweep)).await
        } else {
            Ok(sweep.due)
        }
    }

    async fn read_grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        self.readers.run(move |step| grants::read(step, id)).await
    }

    async fn end_grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        self.writer.run(move |step| grants::end(step, id)).await
    }

    async fn list_grants(&self, query: &GrantQuery) -> Result<GrantSlice, StoreError> {
        let (query, set_aside) = (query.clone(), self.set_aside.clone());
        self.readers
            .run(move |step| grants::list(step, &query, &set_aside))
            .await
    }

    fn changes(&self) -> broadcast::Receiver<Heard> {
        self.changes.subscribe()
    }

    async fn check(&self) -> Result<(), StoreError> {
        // Both kinds of thread: a read does not see that the writer hangs.
        self.readers.run(|step| records::check(step)).await?;
        self.writer.run(|step| records::check(step)).await
    }

    async fn close(&self) {
        self.readers.close();
        self.writer.close();
        let threads = Arc::clone(&self.threads);
        // A thread for waiting, as a disk that hangs may keep it.
        let _waited = spawn_blocking(move || threads.wait()).await;
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Unavailable(Box::new(error))
    }
}

/// What each thread holds until it has closed its connection: the right to the file among it.
#[derive(Clone)]
struct Presence {
    _held: Arc<Held>,
    _present: Sender<()>,
}

/// The end of the threads, so that the file is whole and free afterwards.
struct Threads(Mutex<Receiver<()>>);

impl Threads {
    fn new(held: Arc<Held>) -> (Self, Presence) {
        let (sender, receiver) = channel();
        let presence = Presence {
            _held: held,
            _present: sender,
        };
        (Self(Mutex::new(receiver)), presence)
    }

    /// Nothing is ever sent: this ends when the last thread has, or when the disk hangs.
    fn wait(&self) {
        let receiver = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ended = receiver.recv_timeout(DEADLINE);
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.readers.close();
        self.writer.close();
        self.threads.wait();
    }
}
