//! Cancel: withdraw one suspension, or all of a run or a session (S6).

use super::{Engine, EngineError, MAX_ATTEMPTS};
use crate::domain::Id;
use crate::policy::Policy;
use crate::store::Group;
use crate::suspension::{PARTITIONS, Status, Suspension, SuspensionId};

/// What to withdraw.
#[derive(Clone, Debug)]
pub enum Target {
    /// One suspension.
    One(SuspensionId),
    /// All of a run or a session, which is over then; never a tenant.
    All(Group),
}

/// What was withdrawn.
#[derive(Clone, Debug, Default)]
pub struct Cancelled {
    /// The suspensions that this request changed.
    pub ids: Vec<SuspensionId>,
    /// How many were pending.
    pub cancelled: u32,
    /// How many were approved and unclaimed.
    pub voided: u32,
}

impl Engine {
    /// Withdraws. Repeating it is harmless and finds nothing left.
    ///
    /// # Errors
    /// When the suspension is unknown or another tenant's, or the store fails; a run or session that
    /// is spread over partitions may then be ended in part, and a repeat ends the rest.
    pub async fn cancel(
        &self,
        policy: &Policy,
        tenant: &Id,
        target: &Target,
        by: &Id,
        reason: &str,
    ) -> Result<Cancelled, EngineError> {
        let mut done = Cancelled::default();
        match target {
            Target::One(id) => {
                if let Some(suspension) = self.cancel_one(policy, tenant, *id, by, reason).await? {
                    done.count(suspension.id, suspension.state.status);
                }
            }
            Target::All(group) => {
                let partitions = match group.partition() {
                    Some(partition) => partition..=partition,
                    None => 0..=PARTITIONS - 1,
                };
                for partition in partitions {
                    let ended = self.end(policy, group, partition, by, reason).await?;
                    ended
                        .iter()
                        .for_each(|member| done.count(member.id, member.state.status));
                }
            }
        }
        Ok(done)
    }

    async fn cancel_one(
        &self,
        policy: &Policy,
        tenant: &Id,
        id: SuspensionId,
        by: &Id,
        reason: &str,
    ) -> Result<Option<Suspension>, EngineError> {
        for _ in 0..MAX_ATTEMPTS {
            let (suspension, now) = self.load(policy, tenant, id).await?;
            let Some(state) = suspension.cancelled(by, reason, now) else {
                return Ok(None);
            };
            let written = self.write(policy, suspension, state).await?;
            if written.is_some() {
                return Ok(written);
            }
        }
        Err(EngineError::Contended)
    }
}

impl Cancelled {
    fn count(&mut self, id: SuspensionId, status: Status) {
        match status {
            Status::Cancelled => self.cancelled += 1,
            Status::Approved => self.voided += 1,
            // Past its deadline when it was met: it expired, nobody withdrew it.
            Status::Pending | Status::Denied | Status::Answered | Status::Expired => return,
        }
        self.ids.push(id);
    }
}
