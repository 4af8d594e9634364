//! The use cases: what each RPC does, in the domain's own terms.
//!
//! Policy and store meet here and nowhere else. A change of a record is always the same loop: read it
//! with the store's time, settle what time has changed, run the pure transition, commit if nothing has
//! moved, else read again. No wire types, no SQL, no Redis here.

mod cancel;
mod decide;
mod decided;
mod execute;
mod judge;
mod list;
mod port;
mod resume;
mod run_start;
pub mod sweeper;
mod tenants;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use uuid::Uuid;

use crate::domain::{Id, OnExpiry, Timestamp};
use crate::policy::Policy;
use crate::store::{Change, Closing, Commit, Committed, Group, StoreError, SuspensionStore};
use crate::suspension::{Refusal, State, Status, Suspension, SuspensionId};
use crate::watch::Waiters;

pub use self::cancel::{Cancelled, Target};
pub use self::decide::{Action, DecideRequest};
pub use self::decided::{Decided, Effect};
pub use self::execute::Receipt;
pub use self::list::{ListRequest, Listed, position};
pub use self::port::{PolicyPort, PortAnswer, PortError, Question};
pub use self::resume::{ResumeOutcome, Resumption};

use self::tenants::TenantLoad;

/// How often a change is tried again because somebody else was first.
const MAX_ATTEMPTS: usize = 32;

/// How often the end of a run is tried in one commit, before it is ended record by record.
const WHOLE_ATTEMPTS: usize = 4;

/// How long a waiter goes without reading again, should every message be lost.
const RE_READ: Duration = Duration::from_secs(10);

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
    clock: fn() -> Timestamp,
}

impl Engine {
    /// An engine that asks `port` where the policy says so, and whose conditions read `clock`; deadlines are the
    /// store's affair.
    pub fn new(
        store: Arc<dyn SuspensionStore>,
        policy: Arc<ArcSwap<Policy>>,
        port: Arc<dyn PolicyPort>,
        waiters: Waiters,
        clock: fn() -> Timestamp,
    ) -> Self {
        Self {
            store,
            policy,
            port,
            waiters,
            tenants: TenantLoad::default(),
            clock,
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
            let (suspension, _) = self.load(policy, tenant, id).await?;
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
            return self.write(policy, suspension, state, None).await;
        }
        let run = Group::Run {
            tenant: scope.tenant.clone(),
            session: Some(scope.session_id.clone()),
            run: scope.run_id.clone(),
        };
        let reason = format!("suspension {} expired and its run with it", suspension.id);
        let ended = self
            .end(
                policy,
                &run,
                partition_of(&suspension),
                &Id::default(),
                &reason,
            )
            .await?;
        let own = ended.into_iter().find(|other| other.id == suspension.id);
        Ok(own)
    }

    /// Writes the next state of one record. `None` when it is not as it was read any more.
    async fn write(
        &self,
        policy: &Policy,
        suspension: Suspension,
        state: State,
        not_after: Option<Timestamp>,
    ) -> Result<Option<Suspension>, EngineError> {
        let commit = Commit {
            partition: partition_of(&suspension),
            operation: Uuid::new_v4(),
            changes: vec![change(policy, &suspension, state.clone())],
            not_after,
            closing: None,
        };
        Ok(match self.store.commit(&commit).await? {
            Committed::Done => Some(with_state(suspension, state)),
            Committed::Stale => None,
        })
    }

    /// Ends a run or a session in one partition: what is past its deadline expires, what is pending is
    /// cancelled, what is approved and unclaimed is voided, and nothing opens there any more. Gives the
    /// records that this changed.
    ///
    /// It is one commit, unless the run changes faster than it can be read: then the end is written first,
    /// and each record after it by its own version, so that a busy run cannot outrun its end.
    async fn end(
        &self,
        policy: &Policy,
        group: &Group,
        partition: u8,
        by: &Id,
        reason: &str,
    ) -> Result<Vec<Suspension>, EngineError> {
        let mut ended = Vec::new();
        for attempt in 0..MAX_ATTEMPTS {
            let whole = attempt < WHOLE_ATTEMPTS;
            if attempt == WHOLE_ATTEMPTS {
                self.close(policy, group, partition, Vec::new(), None)
                    .await?;
            }
            let members = self.store.members(partition, group).await?;
            let now = members.now;
            let next: Vec<(Suspension, State)> = members
                .suspensions
                .into_iter()
                .filter(|suspension| group.holds(&suspension.body.scope))
                .filter_map(|suspension| {
                    let settled = suspension.settled(now);
                    let state = settled.or_else(|| suspension.cancelled(by, reason, now))?;
                    Some((suspension, state))
                })
                .collect();
            if whole {
                let changes = next.iter();
                let changes = changes.map(|(was, state)| change(policy, was, state.clone()));
                let open = Some(members.open);
                match self
                    .close(policy, group, partition, changes.collect(), open)
                    .await?
                {
                    Committed::Done => {
                        let next = next.into_iter();
                        return Ok(next.map(|(was, state)| with_state(was, state)).collect());
                    }
                    Committed::Stale => continue,
                }
            }
            let mut missed = false;
            for (suspension, state) in next {
                match self.write(policy, suspension, state, None).await? {
                    Some(changed) => ended.push(changed),
                    None => missed = true,
                }
            }
            if !missed {
                return Ok(ended);
            }
        }
        Err(EngineError::Contended)
    }

    async fn close(
        &self,
        policy: &Policy,
        group: &Group,
        partition: u8,
        changes: Vec<Change>,
        open: Option<u64>,
    ) -> Result<Committed, EngineError> {
        let commit = Commit {
            partition,
            operation: Uuid::new_v4(),
            changes,
            not_after: None,
            closing: Some(Closing {
                group: group.clone(),
                open,
                retention: policy.retention(),
            }),
        };
        Ok(self.store.commit(&commit).await?)
    }
}

fn change(policy: &Policy, suspension: &Suspension, state: State) -> Change {
    Change {
        id: suspension.id,
        version: suspension.version,
        upkeep: state.upkeep(suspension.expire_time, policy.retention()),
        state,
    }
}

fn with_state(suspension: Suspension, state: State) -> Suspension {
    Suspension {
        version: suspension.version + 1,
        state,
        ..suspension
    }
}

/// The partition of a record that exists, and so has one.
fn partition_of(suspension: &Suspension) -> u8 {
    suspension.id.partition().unwrap_or_default()
}

fn refused(refusal: Refusal, suspension: Suspension) -> EngineError {
    EngineError::Refused {
        refusal,
        suspension: Box::new(suspension),
    }
}
