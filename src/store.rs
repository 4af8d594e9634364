//! Where suspensions rest: one contract, two homes (S10).
//!
//! A store knows versions, times and indexes, and never a transition: the engine reads a record with
//! the store's time, runs a pure transition of `suspension.rs` and commits the result, which succeeds
//! only while nothing it rests on has changed. [`SuspensionStore::open`] is the one richer operation:
//! idempotency key, closed runs, grant, limit and deadline in one atomic step.

pub mod clock;
pub mod key;
pub mod nothing;
pub mod record;
pub mod redis;
pub mod sqlite;

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::domain::{OnExpiry, Timestamp};
use crate::suspension::{
    Body, Grant, GrantId, OfGrant, OfSuspension, RecordId, State, Suspension, SuspensionId, Upkeep,
};

pub use self::key::{CallKey, GrantKey, Group, KeyHash, Place};

/// A suspension to be opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Its id, in the partition of its place.
    pub id: SuspensionId,
    /// Where it belongs.
    pub place: Place,
    /// The idempotency key; without one every opening is a new suspension.
    pub key: Option<CallKey>,
    /// What a grant for the call would be found by; without one none is looked for.
    pub grant: Option<GrantKey>,
    /// What is asked.
    pub body: Body,
    /// How long it waits: the store adds this to its own time.
    pub expires: Duration,
    /// How long it is kept after its end.
    pub retention: Duration,
    /// The most open suspensions its session (or, without one, its run) may have.
    pub limit: u64,
}

/// What an opening met.
#[derive(Clone, Debug)]
pub enum Opened {
    /// It is new.
    Created(Suspension),
    /// The key was used before, for this one; `now` is the store's time.
    Existing(Suspension, Timestamp),
    /// Its run or session is over: nothing was opened.
    Closed,
    /// A live grant was found: nothing was opened. Whether it covers the call is the engine's to say.
    Granted(Grant),
    /// The session (or run) has as many open suspensions as it may have.
    Full,
}

/// What is recorded for an idempotency key.
#[derive(Clone, Debug)]
pub struct Found {
    /// The suspension, if one was opened.
    pub suspension: Option<Suspension>,
    /// Whether the run or the session is over, so that nothing new may be opened.
    pub closed: bool,
    /// The live grant that the key finds, if there is one.
    pub grant: Option<Grant>,
    /// The store's time.
    pub now: Timestamp,
}

/// A change of one record.
#[derive(Clone, Debug)]
pub struct Change {
    /// Which.
    pub id: SuspensionId,
    /// The version it was read at; the change makes it one more.
    pub version: u64,
    /// The next state.
    pub state: State,
    /// How the next state is indexed and kept.
    pub upkeep: Upkeep,
}

/// Changes that happen together or not at all; all in one partition.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The partition of all of it.
    pub partition: u8,
    /// Kept on each changed record, so that a write repeated by a client library is recognised.
    pub operation: Uuid,
    /// The records to change.
    pub changes: Vec<Change>,
    /// The commit fails at this moment and after it, by the store's clock.
    pub not_after: Option<Timestamp>,
    /// The commit fails while one of these ends is remembered: those of [`Place::closings`].
    pub unless_closed: Vec<KeyHash>,
    /// The grant that is given with it.
    pub giving: Option<Giving>,
    /// The run or session that ends with it.
    pub closing: Option<Closing>,
}

/// A grant that is given: it takes the place of one that the same key found before, which ends.
#[derive(Clone, Debug)]
pub struct Giving {
    /// It.
    pub grant: Grant,
    /// What it is found by.
    pub key: GrantKey,
    /// How long it is kept after its end.
    pub retention: Duration,
}

/// The end of a run or a session: what is opened in it afterwards is refused. The grants of a session end
/// with it.
#[derive(Clone, Debug)]
pub struct Closing {
    /// Which; never a tenant.
    pub group: Group,
    /// How many open records of the group were read in this partition: the commit fails when there
    /// are more or fewer. `None` ends it whatever is open.
    pub open: Option<u64>,
    /// How long the end is remembered, if it is not remembered for longer already.
    pub retention: Duration,
}

/// How a commit went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It was written, now or when it was first tried.
    Done,
    /// A version, the group or the time has moved on: nothing was written, read again.
    Stale,
    /// The run or the session is over: nothing was written.
    Closed,
}

/// A record without its body, which may be large: what time and the end of its run make of it.
#[derive(Clone, Debug)]
pub struct Member {
    /// Which.
    pub id: SuspensionId,
    /// Its deadline.
    pub expire_time: Timestamp,
    /// What happens when nobody answers.
    pub on_expiry: OnExpiry,
    /// Its run by a name that no other session's run has, if it is of one.
    pub run: Option<KeyHash>,
    /// What became of it.
    pub state: State,
    /// Its version.
    pub version: u64,
}

/// The open records of a group in one partition.
#[derive(Clone, Debug)]
pub struct Members {
    /// Those that can be read, up to [`MEMBERS`] of them or some MiB of their states. A corrupt one is
    /// left out, counted and logged.
    pub members: Vec<Member>,
    /// Whether there are more that can be read.
    pub more: bool,
    /// How many the index holds, those that cannot be read among them.
    pub open: u64,
    /// The latest deadline of all that the index holds; `None` where it holds none.
    pub latest: Option<Timestamp>,
    /// The store's time.
    pub now: Timestamp,
}

/// How many members are read at a time.
pub const MEMBERS: usize = 1_000;

/// How many bytes of states are read at a time, nearly.
pub const MEMBERS_BYTES: usize = 4 * 1024 * 1024;

/// A position in a list: lists are ordered by (deadline, id), which never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor<Of = OfSuspension> {
    /// The deadline of the last record seen, or the end of the last grant.
    pub expire_time: Timestamp,
    /// Its id.
    pub id: RecordId<Of>,
}

/// What to list.
#[derive(Clone, Debug)]
pub struct Query {
    /// Of which group.
    pub group: Group,
    /// Only those that are open.
    pub open_only: bool,
    /// Only those after this position.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: usize,
}

/// A stretch of a list.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The records that can be read, in order.
    pub suspensions: Vec<Suspension>,
    /// Where to go on; `None` at the end of the list. Corrupt records are passed over.
    pub next: Option<Cursor>,
}

/// Which grants to list.
#[derive(Clone, Debug)]
pub struct GrantQuery {
    /// Of which tenant or session; a run has no grants of its own.
    pub group: Group,
    /// Only those after this position.
    pub after: Option<Cursor<OfGrant>>,
    /// At most so many.
    pub limit: usize,
}

/// A stretch of a list of grants.
#[derive(Clone, Debug)]
pub struct GrantSlice {
    /// The live grants that can be read, the soonest to end first.
    pub grants: Vec<Grant>,
    /// Where to go on; `None` at the end of the list.
    pub next: Option<Cursor<OfGrant>>,
}

/// What the sweeper has to look at.
#[derive(Clone, Debug)]
pub struct Due {
    /// Records whose `wake` has passed and that time may have changed. What was merely due for
    /// collection is collected already; what is corrupt is set aside, counted and logged.
    pub members: Vec<Member>,
    /// The store's time.
    pub now: Timestamp,
    /// Whether the limit was reached, so that there may be more.
    pub more: bool,
}

/// What is heard of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// This record was opened or changed.
    Changed(SuspensionId),
    /// Any may have been: for a while nothing could be heard.
    Missed,
}

/// Why a store did not do what it was asked. The answer is unknown, so it is never a yes.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, or did not answer in time; a write may or may not have happened.
    #[error("the store did not answer: {0}")]
    Unavailable(#[source] BoxedCause),
    /// A record is not what this version wrote or can read.
    #[error("the record `{id}` cannot be read: {cause}")]
    Corrupt {
        /// Which.
        id: String,
        /// Why.
        cause: String,
    },
    /// The store cannot be used as it is set up; said at start.
    #[error("{0}")]
    Unusable(String),
}

/// The error of the database's own client.
pub type BoxedCause = Box<dyn std::error::Error + Send + Sync>;

/// The contract of both homes. Every method has a deadline of its own and answers
/// [`StoreError::Unavailable`] past it.
#[async_trait]
pub trait SuspensionStore: Send + Sync + 'static {
    /// Opens a suspension, or finds what its key was used for.
    async fn open(&self, opening: &Opening) -> Result<Opened, StoreError>;

    /// Reads one record, with the store's time.
    async fn read(&self, id: SuspensionId) -> Result<(Option<Suspension>, Timestamp), StoreError>;

    /// Reads what was recorded for a key, whether its place is closed, and what grant there is.
    async fn find(
        &self,
        place: &Place,
        key: Option<&CallKey>,
        grant: Option<&GrantKey>,
    ) -> Result<Found, StoreError>;

    /// Reads the open records of a group in one partition, without their bodies.
    async fn members(&self, partition: u8, group: &Group) -> Result<Members, StoreError>;

    /// Writes changes, all or none.
    async fn commit(&self, commit: &Commit) -> Result<Committed, StoreError>;

    /// Lists a group's records over all partitions it may be in.
    async fn list(&self, query: &Query) -> Result<Slice, StoreError>;

    /// How many open suspensions a tenant has.
    async fn count_open(&self, tenant: &Group) -> Result<u64, StoreError>;

    /// Takes up to `limit` records whose time has come, soonest first, and collects what may go.
    async fn due(&self, limit: usize) -> Result<Due, StoreError>;

    /// Reads one grant, live or over.
    async fn read_grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError>;

    /// Ends a grant now, unless it is over. Gives it as it is then, if there is one.
    async fn end_grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError>;

    /// Lists the live grants of a tenant or a session, over all partitions they may be in.
    async fn list_grants(&self, query: &GrantQuery) -> Result<GrantSlice, StoreError>;

    /// Hears of each record that was opened or changed, by any process.
    fn changes(&self) -> broadcast::Receiver<Heard>;

    /// Whether the store answers; for health.
    async fn check(&self) -> Result<(), StoreError>;

    /// Ends in good order, once nobody asks any more: what was asked before is done, and what is asked
    /// afterwards is refused. A store that is dropped without it, as when the process is killed, loses nothing
    /// that was acknowledged.
    async fn close(&self);

    /// What the operator should know of this store, found at start: one sentence each.
    fn warnings(&self) -> Vec<String>;
}
