//! Settles what nobody answers, within a second of its deadline (S6).
//!
//! Every process sweeps; that two of them meet the same record is harmless, since one of their
//! commits is stale. What a sweep costs follows what is due, not what is pending.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;

use super::ending::{abandons, settled};
use super::{Engine, EngineError, partition_of};
use crate::domain::Timestamp;
use crate::policy::Policy;
use crate::store::{KeyHash, Member, StoreError};

/// How often it looks.
const EVERY: Duration = Duration::from_millis(250);

/// How many records it takes at a time.
const BATCH: usize = 500;

/// How many of them it settles side by side.
const CONCURRENCY: usize = 16;

/// Sweeps for ever; drop the future to stop. A store that fails is tried again with the next tick.
pub async fn run(engine: Arc<Engine>) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        ticks.tick().await;
        match engine.sweep().await {
            Ok(()) => failing = false,
            Err(error) if failing => tracing::debug!(%error, "the sweep still fails"),
            Err(error) => {
                failing = true;
                tracing::warn!(%error, "the sweep failed, overdue suspensions settle when the store answers");
            }
        }
    }
}

impl Engine {
    /// Settles everything that is due now.
    ///
    /// # Errors
    /// When the store does not answer; what is due stays due.
    pub async fn sweep(&self) -> Result<(), EngineError> {
        loop {
            let policy = self.policy();
            let due = self.store.due(BATCH).await?;
            let now = due.now;
            let settled: Vec<_> = stream::iter(one_of_each_run(due.members, now))
                .map(|member| self.settle_due(&policy, member, now))
                .buffer_unordered(CONCURRENCY)
                .collect()
                .await;
            let mut failed = false;
            for result in settled {
                match result {
                    Ok(_) => {}
                    Err(EngineError::Store(StoreError::Unavailable(cause))) => {
                        return Err(StoreError::Unavailable(cause).into());
                    }
                    // One record that cannot be settled does not keep the others waiting.
                    Err(error) => {
                        failed = true;
                        tracing::error!(%error, "a suspension could not be settled");
                    }
                }
            }
            // What failed is due again at once: not before the next tick.
            if failed || !due.more {
                return Ok(());
            }
        }
    }

    async fn settle_due(
        &self,
        policy: &Policy,
        member: Member,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        if abandons(&member, now) {
            // Which run it is stands in the body.
            match self.read(member.id).await {
                Ok((suspension, now)) => {
                    return self.settle(policy, suspension, now).await.map(drop);
                }
                Err(EngineError::NotFound(_)) => return Ok(()),
                // It expires all the same, and would be due for ever if it did not.
                Err(EngineError::Store(error @ StoreError::Corrupt { .. })) => {
                    tracing::error!(%error, "a suspension expired, and its run cannot be ended with it");
                }
                Err(error) => return Err(error),
            }
        }
        let Some(state) = settled(&member, now) else {
            return Ok(());
        };
        // When somebody else was first there is nothing left to do.
        let _done_or_stale = self
            .end_part(
                policy,
                partition_of(member.id),
                &[Member { state, ..member }],
                None,
            )
            .await?;
        Ok(())
    }
}

/// Leaves out what another record of the list takes along: the end of a run settles all of it.
fn one_of_each_run(due: Vec<Member>, now: Timestamp) -> Vec<Member> {
    let mut ended: HashSet<Option<KeyHash>> = HashSet::new();
    due.into_iter()
        .filter(|member| !abandons(member, now) || ended.insert(member.run))
        .collect()
}
