//! The two homes of suspensions, so that one test body runs on both.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use assent::store::SuspensionStore;
use assent::store::clock::ClockOffset;
use assent::store::redis::{RedisSettings, RedisStore};
use assent::store::sqlite::SqliteStore;
use tempfile::TempDir;

use super::redis::RedisServer;

/// Which home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    Sqlite,
    Redis,
}

/// A place where stores of one home are made; they end with it.
pub struct Homes {
    redis: Option<RedisServer>,
    folder: TempDir,
    made: AtomicUsize,
}

impl Homes {
    /// Starts what the home needs.
    pub async fn start(home: Home) -> Self {
        Self {
            redis: match home {
                Home::Sqlite => None,
                Home::Redis => Some(RedisServer::start(&[])),
            },
            folder: tempfile::tempdir().unwrap(),
            made: AtomicUsize::new(0),
        }
    }

    /// An empty store.
    pub async fn fresh(&self) -> Arc<dyn SuspensionStore> {
        self.fresh_at(ClockOffset::default()).await
    }

    /// An empty store whose time can be moved.
    pub async fn fresh_at(&self, clock: ClockOffset) -> Arc<dyn SuspensionStore> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        match &self.redis {
            None => {
                let path = self.folder.path().join(format!("{number}.db"));
                Arc::new(SqliteStore::open(&path, clock).unwrap())
            }
            Some(redis) => {
                let settings = RedisSettings {
                    prefix: format!("test{number}"),
                    ..RedisSettings::new(redis.url())
                };
                Arc::new(RedisStore::connect(&settings, clock).await.unwrap())
            }
        }
    }
}
