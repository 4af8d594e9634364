//! The shared home: Redis 7, for many replicas.
//!
//! Each operation is one script on one partition, whose keys have one hash tag (`layout`), or one pipeline of
//! independent ones. A script knows versions, times and indexes, never a transition. This file and those in
//! `redis/` are the only ones that know the client library.

mod changes;
mod failure;
mod grants;
mod layout;
mod link;
mod links;
mod list;
mod row;
mod script;
mod startup;
mod sweep;
mod write;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redis::Value;
use tokio::sync::broadcast;

use self::changes::Changes;
use self::failure::{corrupt, unexpected};
use self::layout::{Layout, Partition};
use self::links::Links;
use self::row::Row;
use self::script::{COUNT, Call, FIND, READ};
use super::clock::ClockOffset;
use super::{
    CallKey, Commit, Committed, Due, Found, GrantKey, GrantQuery, GrantSlice, Group, Heard,
    Members, Opened, Opening, Place, Query, Slice, StoreError, SuspensionStore,
};
use crate::domain::Timestamp;
use crate::suspension::{Grant, GrantId, Suspension, SuspensionId};

/// How long keys outlive what they hold, in milliseconds: the sweeper collects a record in time and trims its
/// indexes, and what it could not collect in a day of outage Redis drops.
const GRACE: i64 = 24 * 60 * 60 * 1000;

/// How many ids without a record one count takes out of an index.
const TRIMMED: usize = 1000;

/// The most milliseconds that a script is told, as Lua's numbers are exact up to twice that: 142,000 years.
const MAX_MILLIS: i64 = 1 << 52;

/// How a Redis is reached and used.
#[derive(Clone)]
pub struct RedisSettings {
    /// `redis://[user:password@]host[:port][/db]`.
    pub url: String,
    /// What every key begins with: several services may share one Redis.
    pub prefix: String,
    /// Whether to start although Redis may evict keys.
    pub allow_eviction: bool,
    /// How long an answer may take.
    pub response_timeout: Duration,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
}

impl RedisSettings {
    /// The defaults: prefix `assent`, no eviction, 2 s for an answer and 5 s for a connection.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            prefix: "assent".to_owned(),
            allow_eviction: false,
            response_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(5),
        }
    }
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            url: _,
            prefix,
            allow_eviction,
            response_timeout,
            connect_timeout,
        } = self;
        f.debug_struct("RedisSettings")
            .field("url", &"(hidden, as it may hold a password)")
            .field("prefix", prefix)
            .field("allow_eviction", allow_eviction)
            .field("response_timeout", response_timeout)
            .field("connect_timeout", connect_timeout)
            .finish()
    }
}

/// Suspensions in a Redis that many replicas share.
pub struct RedisStore {
    links: Links,
    layout: Layout,
    channel: String,
    clock: ClockOffset,
    changes: Changes,
    warnings: Vec<String>,
    set_aside: AtomicU64,
}

impl RedisStore {
    /// Connects, and checks that this Redis can be used.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] with one sentence for the operator: the URL, the network, the password, the
    /// version, the eviction policy or the layout of the keys does not fit.
    pub async fn connect(settings: &RedisSettings, clock: ClockOffset) -> Result<Self, StoreError> {
        let layout = Layout::new(&settings.prefix)?;
        let server = startup::Server::of(settings)?;
        server.greet().await?;
        let links = Links::new(server.dial(), settings.response_timeout);
        let warnings = server
            .examine(&links.here(), &layout, settings.allow_eviction)
            .await?;
        let channel = layout.channel();
        let changes = Changes::hear(
            server.dial_for_pushes(),
            channel.clone(),
            settings.response_timeout,
        )
        .await
        .map_err(|error| server.refused(&error))?;
        let set_aside = AtomicU64::new(0);
        Ok(Self {
            links,
            layout,
            channel,
            clock,
            changes,
            warnings,
            set_aside,
        })
    }

    /// How often a record was passed over because it cannot be read.
    pub fn set_aside(&self) -> u64 {
        self.set_aside.load(Ordering::Relaxed)
    }

    fn note(&self, error: &StoreError) {
        self.set_aside.fetch_add(1, Ordering::Relaxed);
        tracing::error!(error = %error, "a record was set aside");
    }

    /// A call whose first argument is the clock offset, as that of most scripts.
    fn timed<'a>(&self, script: &'static script::Script, first_key: String) -> Call<'a> {
        Call::new(script, first_key).number(self.clock.millis())
    }

    fn partition(&self, number: u8) -> Result<&Partition, StoreError> {
        self.layout
            .partition(number)
            .ok_or_else(|| unexpected("a partition that no store has"))
    }
}

#[async_trait]
impl SuspensionStore for RedisStore {
    async fn open(&self, opening: &Opening) -> Result<Opened, StoreError> {
        self.write_opening(opening).await
    }

    async fn read(&self, id: SuspensionId) -> Result<(Option<Suspension>, Timestamp), StoreError> {
        // An id of no partition names nothing; the time is any partition's.
        let number = id.partition().unwrap_or_default();
        let call = self.timed(&READ, self.partition(number)?.record(id));
        let mut answer = row::list(self.links.here().call(call).await?)?;
        let now = row::time(answer.next())?;
        Ok((Row::read(id, answer).suspension()?, now))
    }

    async fn find(
        &self,
        place: &Place,
        key: Option<&CallKey>,
        grant: Option<&GrantKey>,
    ) -> Result<Found, StoreError> {
        let partition = self.partition(place.partition)?;
        let call = self
            .timed(&FIND, partition.due())
            .keys(
                place
                    .closings
                    .iter()
                    .map(|closing| partition.closing(*closing)),
            )
            .keys(key.map(|key| partition.call(key.hash())))
            .keys(grant.map(|key| partition.grant_of(key.hash())))
            .number(place.closings.len())
            .number(u8::from(key.is_some()));
        let mut answer = row::list(self.links.here().call(call).await?)?;
        let now = row::time(answer.next())?;
        let closed = !matches!(answer.next(), Some(Value::Int(0)));
        let grant = self.live_grant(row::list(answer.next().unwrap_or_default())?)?;
        let suspension = match answer.next() {
            None => None,
            named => {
                let id = row::id(named)
                    .ok_or_else(|| corrupt("a call key", "it names no suspension"))?;
                Row::read(id, answer).suspension()?
            }
        };
        Ok(Found {
            suspension,
            closed,
            grant,
            now,
        })
    }

    async fn members(&self, partition: u8, group: &Group) -> Result<Members, StoreError> {
        self.read_members(partition, group).await
    }

    async fn commit(&self, commit: &Commit) -> Result<Committed, StoreError> {
        self.write_commit(commit).await
    }

    async fn list(&self, query: &Query) -> Result<Slice, StoreError> {
        self.read_list(query).await
    }

    async fn count_open(&self, group: &Group) -> Result<u64, StoreError> {
        if let (
            Group::Run {
                session: Some(_), ..
            },
            Some(partition),
        ) = (group, group.partition())
        {
            // Its index may hold another session's run of the same name.
            return self.count_of_run(partition, group).await;
        }
        let index = group.index();
        let counts = self
            .partitions_of(group)?
            .map(|partition| Call::new(&COUNT, partition.open(index)).number(TRIMMED));
        let counts: Vec<_> = counts.collect();
        let mut sum = 0;
        for count in self.links.here().calls(&counts).await? {
            match count? {
                Value::Int(count) => sum += count.unsigned_abs(),
                _ => return Err(unexpected("no count")),
            }
        }
        Ok(sum)
    }

    async fn due(&self, limit: usize) -> Result<Due, StoreError> {
        self.sweep(limit).await
    }

    async fn read_grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        self.read_one_grant(id).await
    }

    async fn end_grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        self.write_end_of_grant(id).await
    }

    async fn list_grants(&self, query: &GrantQuery) -> Result<GrantSlice, StoreError> {
        self.read_grants(query).await
    }

    fn changes(&self) -> broadcast::Receiver<Heard> {
        self.changes.receiver()
    }

    async fn check(&self) -> Result<(), StoreError> {
        // It may have been restarted without its data, or with another's.
        let link = self.links.here();
        let written = startup::written_layout(&link, &self.layout).await?;
        written.map_err(|found| {
            StoreError::Unusable(format!(
                "the keys in Redis have another version's layout and partitions, `{found}`"
            ))
        })
    }

    /// Redis has all of it.
    async fn close(&self) {}

    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
}
