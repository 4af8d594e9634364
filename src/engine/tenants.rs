//! The limit of open suspensions per tenant: a count at most a second old (S10), so that an opening
//! does not have to add up 64 partitions.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Engine, EngineError};
use crate::domain::Id;
use crate::policy::Policy;
use crate::store::Group;

/// How old a count may be.
const FRESH: Duration = Duration::from_secs(1);

/// How many tenants are remembered before the old ones are forgotten.
const REMEMBERED: usize = 10_000;

/// What each tenant had open when it was last counted.
#[derive(Default)]
pub(super) struct TenantLoad {
    counts: Mutex<HashMap<Id, (u64, Instant)>>,
}

impl TenantLoad {
    fn fresh(&self, tenant: &Id) -> Option<u64> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, counted) = counts.get(tenant)?;
        (counted.elapsed() < FRESH).then_some(*count)
    }

    fn remember(&self, tenant: &Id, count: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= REMEMBERED {
            counts.retain(|_, (_, counted)| counted.elapsed() < FRESH);
        }
        counts.insert(tenant.clone(), (count, Instant::now()));
    }
}

impl Engine {
    /// Refuses an opening for a tenant that has as much open as it may have.
    pub(super) async fn check_tenant(
        &self,
        policy: &Policy,
        tenant: &Id,
    ) -> Result<(), EngineError> {
        let count = match self.tenants.fresh(tenant) {
            Some(count) => count,
            None => {
                let group = Group::Tenant {
                    tenant: tenant.clone(),
                };
                let count = self.store.count_open(&group).await?;
                self.tenants.remember(tenant, count);
                count
            }
        };
        let limit = policy.limits().pending_per_tenant;
        if count >= limit {
            return Err(EngineError::TooManyPending {
                whose: "the tenant",
                limit,
            });
        }
        Ok(())
    }
}
