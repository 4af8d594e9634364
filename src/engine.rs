//! The use cases: what each RPC does, in the domain's own terms.
//!
//! Policy and store meet here and nowhere else. A change of a record is always the same loop: read it
//! with the store's time, settle what time has changed, run the pure transition, commit if nothing has
//! moved, else read again. No wire types, no SQL, no Redis here.

mod cancel;
mod decide;
mod decided;
mod ending;
mod execute;
mod grants;
mod judge;
mod list;
mod opening;
mod port;
mod resume;
mod run_start;
mod schemas;
mod suspend;
pub mod sweeper;
mod tenants;
mod trace;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::domain::{Id, OnExpiry, Scope, Timestamp};
use crate::policy::Policy;
use crate::store::record::TooLarge;
use crate::store::{
    Change, Commit, Committed, Giving, Group, KeyHash, Place, StoreError, SuspensionStore,
};
use crate::suspension::{GrantId, Refusal, State, Status, Suspension, SuspensionId};
use crate::watch::Waiters;

pub use self::cancel::{Cancelled, Target};
pub use self::decide::{Action, DecideRequest};
pub use self::decided::{Decided, Effect};
pub use self::execute::Receipt;
pub use self::grants::{GrantsListed, GrantsRequest};
pub use self::judge::Judged;
pub use self::list::{ListRequest, Listed, position};
pub use self::port::{PolicyPort, PortAnswer, PortError, Question};
pub use self::resume::{ResumeOutcome, Resumption};
pub use self::suspend::SuspendRequest;
pub use self::trace::{Step, Trace};
pub use self::watch::{WatchEvent, Watched};

use self::schemas::Schemas;
use self::tenants::TenantLoad;

/// How often a change is tried again because somebody else was first.
const MAX_ATTEMPTS: usize = 32;

/// Why something is refused, or withdrawn, in a run or a session that has ended.
const OVER: &str = "its run or session is over";

/// How long a waiter goes without reading again, should every message be lost and no store say so.
const RE_READ: Duration = Duration::from_secs(60);

/// Why a request was not done. Nothing was let through.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The request is wrong; the caller can mend the field.
    #[error("`{field}`: {message}")]
    Invalid {
        /// Its proto path.
        field: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// No such suspension.
    #[error("no suspension has the id `{0}`")]
    NotFound(String),
    /// It belongs to another tenant.
    #[error("the suspension belongs to another tenant")]
    AccessDenied,
    /// No such grant.
    #[error("no grant has the id `{0}`")]
    GrantNotFound(GrantId),
    /// The grant belongs to another tenant.
    #[error("the grant belongs to another tenant")]
    GrantAccessDenied,
    /// The state of the suspension does not allow it.
    #[error("{refusal}")]
    Refused {
        /// Why.
        refusal: Refusal,
        /// The record as it stands.
        suspension: Box<Suspension>,
    },
    /// The call id or step id was used for something else.
    #[error(
        "the call id or step id was used in this run for another call: a verdict is never reused, give the call an id of its own"
    )]
    CallIdReused(SuspensionId),
    /// The run or the session has ended.
    #[error("the run or the session is over: nothing opens in it any more")]
    Closed,
    /// The texts of the request would make the record larger than it may be.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// There are as many open suspensions as there may be.
    #[error("{whose} has {limit} open suspensions, which is the limit: answer or cancel some")]
    TooManyPending {
        /// Whose limit it is.
        whose: &'static str,
        /// The limit.
        limit: u64,
    },
    /// Policy refuses what would run.
    #[error("policy refuses the call now: {0}")]
    PolicyDenied(String),
    /// Policy asks for more approvers than approved.
    #[error("policy now asks for approvers that this approval does not have")]
    ApprovalInsufficient,
    /// The operator's own authorization could not say whether it may run.
    #[error("{0}, so nothing was recorded: try again")]
    PolicyUnavailable(#[from] PortError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Too many JSON Schemas are being worked on, or this one took too long.
    #[error("no JSON Schema can be worked on now")]
    Busy,
    /// A watch of a whole tenant cannot tell what became of everything.
    #[error("some changes could not be told: watch again, and see what is open now")]
    Missed,
    /// Others changed the record each time before this change could be written.
    #[error("the suspension is changing too fast")]
    Contended,
}

/// The use cases, over one store and the policy of the moment.
pub struct Engine {
    store: Arc<dyn SuspensionStore>,
    policy: Arc<ArcSwap<Policy>>,
    port: Arc<dyn PolicyPort>,
    waiters: Waiters,
    tenants: TenantLoad,
    schemas: Schemas,
    looks: Semaphore,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Engine {
    /// An engine that asks `port` where the policy says so, and whose conditions read `clock`; deadlines are the
    /// store's affair.
    pub fn new(
        store: Arc<dyn SuspensionStore>,
        policy: Arc<ArcSwap<Policy>>,
        port: Arc<dyn PolicyPort>,
        waiters: Waiters,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        Self {
            store,
            policy,
            port,
            waiters,
            tenants: TenantLoad::default(),
            schemas: Schemas::default(),
            looks: Semaphore::new(self::watch::LOOKS),
            clock: Box::new(clock),
        }
    }

    /// The policy of this moment. A request takes it once and sees no other.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// Reads a suspension for its tenant, and waits up to `wait` for it to be no longer pending. The
    /// wait ends early when the process is about to stop, and the answer is then what is.
    ///
    /// # Errors
    /// When it is unknown, another tenant's, or the store fails.
    pub async fn get(
        &self,
        policy: &Policy,
        tenant: &Id,
        id: SuspensionId,
        wait: Duration,
    ) -> Result<Suspension, EngineError> {
        let until = tokio::time::Instant::now() + wait;
        let mut changed = self.waiters.wait_for(id);
        loop {
            // Boxed, so that a call that waits does not carry the room for reading.
            let (suspension, _) = Box::pin(self.load(policy, tenant, id)).await?;
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            let over = left.is_zero() || self.waiters.is_closed();
            if suspension.state.status != Status::Pending || over {
                return Ok(suspension);
            }
            let _woken_or_not = tokio::time::timeout(left.min(RE_READ), changed.changed()).await;
        }
    }

    /// Reads a suspension for its tenant and settles what time has changed (S6, checks 2 to 4).
    async fn load(
        &self,
        policy: &Policy,
        tenant: &Id,
        id: SuspensionId,
    ) -> Result<(Suspension, Timestamp), EngineError> {
        for _ in 0..MAX_ATTEMPTS {
            let (suspension, now) = self.read(id).await?;
            if suspension.body.scope.tenant != *tenant {
                return Err(EngineError::AccessDenied);
            }
            if let Some(settled) = self.settle(policy, suspension, now).await? {
                return Ok((settled, now));
            }
        }
        Err(EngineError::Contended)
    }

    async fn read(&self, id: SuspensionId) -> Result<(Suspension, Timestamp), EngineError> {
        let unknown = || EngineError::NotFound(id.to_string());
        if id.partition().is_none() {
            return Err(unknown());
        }
        let (suspension, now) = self.store.read(id).await?;
        Ok((suspension.ok_or_else(unknown)?, now))
    }

    /// Writes what time has changed. `None` when somebody else changed the record meanwhile, so that
    /// it has to be read again.
    async fn settle(
        &self,
        policy: &Policy,
        suspension: Suspension,
        now: Timestamp,
    ) -> Result<Option<Suspension>, EngineError> {
        let Some(state) = suspension.settled(now) else {
            return Ok(Some(suspension));
        };
        let scope = &suspension.body.scope;
        let abandons = state.status == Status::Expired
            && suspension.body.on_expiry == OnExpiry::Abandon
            && !scope.run_id.is_empty();
        if !abandons {
            return self.write(policy, suspension, state).await;
        }
        let run = Group::Run {
            tenant: scope.tenant.clone(),
            session: Some(scope.session_id.clone()),
            run: scope.run_id.clone(),
        };
        let reason = format!("suspension {} expired and its run with it", suspension.id);
        let partition = partition_of(suspension.id);
        let ended = self
            .end(policy, &run, partition, &Id::default(), &reason)
            .await?;
        match ended.into_iter().find(|member| member.id == suspension.id) {
            Some(own) => Ok(Some(with_state(suspension, own.state))),
            // Somebody else has settled it, or the store set it aside and says why.
            None => self.write(policy, suspension, state).await,
        }
    }

    /// Writes the next state of one record. `None` when it is not as it was read any more.
    async fn write(
        &self,
        policy: &Policy,
        suspension: Suspension,
        state: State,
    ) -> Result<Option<Suspension>, EngineError> {
        let commit = commit_of(policy, &suspension, state.clone());
        let committed = self.store.commit(&commit).await?;
        Ok((committed == Committed::Done).then(|| with_state(suspension, state)))
    }

    /// Writes what somebody made of one record, and the grant that is given with it: before `not_after`, and
    /// only while its run and its session go on. `None` when it is not as it was read any more.
    async fn write_in_time(
        &self,
        policy: &Policy,
        suspension: Suspension,
        state: State,
        not_after: Option<Timestamp>,
        giving: Option<Giving>,
    ) -> Result<Option<Suspension>, EngineError> {
        let commit = Commit {
            not_after,
            giving,
            unless_closed: closings(&suspension.body.scope),
            ..commit_of(policy, &suspension, state.clone())
        };
        match self.store.commit(&commit).await? {
            Committed::Done => Ok(Some(with_state(suspension, state))),
            Committed::Stale => Ok(None),
            // The end has been written, and whoever wrote it may never come to this record.
            Committed::Closed => {
                let now = state.changed;
                let Some(over) = suspension.cancelled(&Id::default(), OVER, now) else {
                    return Err(refused(Refusal::Cancelled, suspension));
                };
                match self.write(policy, suspension, over).await? {
                    Some(withdrawn) => Err(refused(Refusal::Cancelled, withdrawn)),
                    None => Ok(None),
                }
            }
        }
    }
}

fn commit_of(policy: &Policy, suspension: &Suspension, state: State) -> Commit {
    Commit {
        partition: partition_of(suspension.id),
        operation: Uuid::new_v4(),
        changes: vec![Change {
            id: suspension.id,
            version: suspension.version,
            upkeep: state.upkeep(suspension.expire_time, policy.retention()),
            state,
        }],
        not_after: None,
        unless_closed: Vec::new(),
        giving: None,
        closing: None,
    }
}

/// The ends that are the end of what happens in a scope.
fn closings(scope: &Scope) -> Vec<KeyHash> {
    // They are the same in any partition.
    Place::of(scope, 0).closings
}

fn with_state(suspension: Suspension, state: State) -> Suspension {
    Suspension {
        version: suspension.version + 1,
        state,
        ..suspension
    }
}

/// The partition of a record that exists, and so has one.
fn partition_of(id: SuspensionId) -> u8 {
    id.partition().unwrap_or_default()
}

fn refused(refusal: Refusal, suspension: Suspension) -> EngineError {
    EngineError::Refused {
        refusal,
        suspension: Box::new(suspension),
    }
}
