//! A real store whose writes break off when a test says so, as when its process is killed or it cannot be reached.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use assent::domain::Timestamp;
use assent::store::{
    CallKey, Commit, Committed, Due, Found, GrantKey, GrantQuery, GrantSlice, Group, Heard,
    Members, Opened, Opening, Place, Query, Slice, StoreError, SuspensionStore,
};
use assent::suspension::{Grant, GrantId, Suspension, SuspensionId};
use async_trait::async_trait;
use tokio::sync::broadcast;
use uuid::Uuid;

pub(super) struct BrokenOff {
    store: Arc<dyn SuspensionStore>,
    commits_left: AtomicUsize,
    opens_before_next_commit: AtomicBool,
    last_opening: Mutex<Option<Opening>>,
}

impl BrokenOff {
    pub(super) fn over(store: Arc<dyn SuspensionStore>) -> Arc<Self> {
        Arc::new(Self {
            store,
            commits_left: AtomicUsize::new(usize::MAX),
            opens_before_next_commit: AtomicBool::new(false),
            last_opening: Mutex::new(None),
        })
    }

    /// Lets only so many more commits through.
    pub(super) fn break_off_after(&self, commits: usize) {
        self.commits_left.store(commits, Ordering::SeqCst);
    }

    pub(super) fn mend(&self) {
        self.break_off_after(usize::MAX);
    }

    /// Opens another one like the last just before the next commit, as another caller may.
    pub(super) fn open_another_before_the_next_commit(&self) {
        self.opens_before_next_commit.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl SuspensionStore for BrokenOff {
    async fn commit(&self, commit: &Commit) -> Result<Committed, StoreError> {
        if self.opens_before_next_commit.swap(false, Ordering::SeqCst) {
            let like = self.last_opening.lock().unwrap().clone().unwrap();
            let another = Opening {
                id: SuspensionId::new(Uuid::new_v4(), like.place.partition),
                key: None,
                ..like
            };
            let opened = self.store.open(&another).await?;
            assert!(matches!(opened, Opened::Created(_)), "{opened:?}");
        }
        let spend = |left: usize| left.checked_sub(1);
        let (set, fetch) = (Ordering::SeqCst, Ordering::SeqCst);
        match self.commits_left.fetch_update(set, fetch, spend) {
            Ok(_) => self.store.commit(commit).await,
            Err(_) => Err(StoreError::Unavailable("it broke off".into())),
        }
    }

    async fn open(&self, opening: &Opening) -> Result<Opened, StoreError> {
        *self.last_opening.lock().unwrap() = Some(opening.clone());
        self.store.open(opening).await
    }

    async fn read(&self, id: SuspensionId) -> Result<(Option<Suspension>, Timestamp), StoreError> {
        self.store.read(id).await
    }

    async fn find(
        &self,
        place: &Place,
        key: Option<&CallKey>,
        grant: Option<&GrantKey>,
    ) -> Result<Found, StoreError> {
        self.store.find(place, key, grant).await
    }

    async fn members(&self, partition: u8, group: &Group) -> Result<Members, StoreError> {
        self.store.members(partition, group).await
    }

    async fn list(&self, query: &Query) -> Result<Slice, StoreError> {
        self.store.list(query).await
    }

    async fn count_open(&self, tenant: &Group) -> Result<u64, StoreError> {
        self.store.count_open(tenant).await
    }

    async fn due(&self, limit: usize) -> Result<Due, StoreError> {
        self.store.due(limit).await
    }

    async fn read_grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        self.store.read_grant(id).await
    }

    async fn end_grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        self.store.end_grant(id).await
    }

    async fn list_grants(&self, query: &GrantQuery) -> Result<GrantSlice, StoreError> {
        self.store.list_grants(query).await
    }

    fn changes(&self) -> broadcast::Receiver<Heard> {
        self.store.changes()
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.store.check().await
    }

    async fn close(&self) {
        self.store.close().await;
    }

    fn warnings(&self) -> Vec<String> {
        self.store.warnings()
    }
}
