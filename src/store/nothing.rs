//! A store in which nothing is and nothing can be put: what a decision is made over when there is no server.

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::{
    CallKey, Commit, Committed, Due, Found, GrantKey, GrantQuery, GrantSlice, Group, Heard,
    Members, Opened, Opening, Place, Query, Slice, StoreError, SuspensionStore,
};
use crate::domain::Timestamp;
use crate::suspension::{Grant, GrantId, Suspension, SuspensionId};

/// Nothing is recorded for any call, no run is over and nothing is granted. What a dry run does not ask for is refused.
#[derive(Clone, Copy, Debug)]
pub struct Nothing {
    now: Timestamp,
}

impl Nothing {
    /// Nothing, at this moment.
    pub fn at(now: Timestamp) -> Self {
        Self { now }
    }
}

fn refused<T>() -> Result<T, StoreError> {
    Err(StoreError::Unusable(
        "without a server nothing is kept".to_owned(),
    ))
}

#[async_trait]
impl SuspensionStore for Nothing {
    async fn open(&self, _: &Opening) -> Result<Opened, StoreError> {
        refused()
    }

    async fn read(&self, _: SuspensionId) -> Result<(Option<Suspension>, Timestamp), StoreError> {
        Ok((None, self.now))
    }

    async fn find(
        &self,
        _: &Place,
        _: Option<&CallKey>,
        _: Option<&GrantKey>,
    ) -> Result<Found, StoreError> {
        Ok(Found {
            suspension: None,
            closed: false,
            grant: None,
            now: self.now,
        })
    }

    async fn members(&self, _: u8, _: &Group) -> Result<Members, StoreError> {
        refused()
    }

    async fn commit(&self, _: &Commit) -> Result<Committed, StoreError> {
        refused()
    }

    async fn list(&self, _: &Query) -> Result<Slice, StoreError> {
        refused()
    }

    async fn count_open(&self, _: &Group) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn due(&self, _: usize) -> Result<Due, StoreError> {
        refused()
    }

    async fn read_grant(&self, _: GrantId) -> Result<Option<Grant>, StoreError> {
        Ok(None)
    }

    async fn end_grant(&self, _: GrantId) -> Result<Option<Grant>, StoreError> {
        refused()
    }

    async fn list_grants(&self, _: &GrantQuery) -> Result<GrantSlice, StoreError> {
        refused()
    }

    fn changes(&self) -> broadcast::Receiver<Heard> {
        broadcast::channel(1).1
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    async fn close(&self) {}
}
