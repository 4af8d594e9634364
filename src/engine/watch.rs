//! Watch: the present state of some suspensions, then each change (S11).
//!
//! A watch remembers the version of each record that it has sent. So it can look at everything again, whenever something
//! may have been missed, and sends only what is new. Of a whole tenant it cannot: what has ended is not looked at there, so
//! that the watch ends, and whoever watches begins again with what is open.

mod family;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream;
use tokio::time::{Instant, timeout_at};

use self::family::Family;
use super::{Engine, EngineError, ListRequest};
use crate::domain::Id;
use crate::store::{Cursor, Group, StoreError};
use crate::suspension::{Status, Suspension, SuspensionId};
use crate::watch::{Feed, News, Topic};

/// How many records are listed at a time: they wait for a slow reader.
const PAGE: usize = 25;

/// All there are.
const STATUSES: [Status; 6] = [
    Status::Pending,
    Status::Approved,
    Status::Denied,
    Status::Answered,
    Status::Expired,
    Status::Cancelled,
];

/// How long a watch goes without looking at everything again, should every message be lost and no store say so.
const LOOK_AGAIN: Duration = Duration::from_secs(5 * 60);

/// How many watches look at the store at once: after an outage all of them do.
pub(super) const LOOKS: usize = 16;

/// What is watched.
#[derive(Clone, Debug)]
pub enum Watched {
    /// Some suspensions of a tenant.
    Suspensions {
        /// Whose.
        tenant: Id,
        /// Which.
        ids: Vec<SuspensionId>,
    },
    /// All of a tenant or of a session, or only what belongs to a run or to one that descends from it.
    Group {
        /// Never a run.
        group: Group,
        /// The run, if only its own are watched.
        run: Option<Id>,
    },
}

/// What a watch tells.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// What is at the beginning.
    Present(Suspension),
    /// That was all of it.
    AllPresent,
    /// What is now.
    Changed(Suspension),
}

type Told = Result<WatchEvent, EngineError>;

impl Engine {
    /// Watches until the stream is dropped, the store fails or the process is about to stop, at which the stream ends.
    pub fn watch(self: &Arc<Self>, watched: Watched) -> impl Stream<Item = Told> + Send + use<> {
        let watch = Watch::new(Arc::clone(self), watched);
        stream::unfold(Some(watch), async |watch| {
            let mut watch = watch?;
            match watch.next().await {
                Ok(Some(event)) => Some((Ok(event), Some(watch))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}

struct Watch {
    engine: Arc<Engine>,
    watched: Watched,
    /// Opened before anything is read.
    feed: Feed,
    stage: Stage,
    /// Whether the first look is over.
    follows: bool,
    /// When everything is looked at again, whatever is told.
    look_at: Instant,
    /// The version that was sent of each record. Of a tenant, the open ones only.
    sent: HashMap<SuspensionId, u64>,
    family: Family,
}

enum Stage {
    /// Looking at everything; what is read is sent if it is new.
    Looking(Look),
    /// Waiting for what is told.
    Following,
}

#[derive(Default)]
struct Look {
    /// Read and not sent yet.
    read: VecDeque<Suspension>,
    /// Where the next page begins; none for the first.
    after: Option<Cursor>,
    /// Whether all pages are read.
    listed: bool,
    /// To be read one by one: what is watched by its id, or was sent and is in no list any more.
    single: VecDeque<SuspensionId>,
    /// What has been met in the lists.
    met: HashSet<SuspensionId>,
}

impl Watch {
    fn new(engine: Arc<Engine>, watched: Watched) -> Self {
        let topics = match &watched {
            Watched::Suspensions { tenant: _, ids } => {
                ids.iter().copied().map(Topic::Suspension).collect()
            }
            Watched::Group { group, run: _ } => vec![Topic::of(group)],
        };
        let root = match &watched {
            Watched::Suspensions { .. } => None,
            Watched::Group { group: _, run } => run.clone(),
        };
        let feed = engine.waiters.watch(topics);
        let mut watch = Self {
            engine,
            watched,
            feed,
            stage: Stage::Following,
            follows: false,
            look_at: Instant::now(),
            sent: HashMap::new(),
            family: Family::of(root),
        };
        watch.look();
        watch
    }

    /// Begins to look at everything.
    fn look(&mut self) {
        self.family.forget();
        self.look_at = Instant::now() + LOOK_AGAIN;
        self.go_through();
    }

    /// Begins to go through all that is watched.
    fn go_through(&mut self) {
        self.stage = Stage::Looking(match &self.watched {
            Watched::Suspensions { tenant: _, ids } => Look::at(ids.iter().copied()),
            Watched::Group { .. } => Look::default(),
        });
    }

    /// What comes next; none at the end.
    async fn next(&mut self) -> Result<Option<WatchEvent>, EngineError> {
        loop {
            match &mut self.stage {
                Stage::Looking(look) => {
                    if let Some(suspension) = look.read.pop_front() {
                        if let Some(event) = self.read_event(suspension) {
                            return Ok(Some(event));
                        }
                    // Boxed, so that a watch that waits does not carry the room for reading.
                    } else if !Box::pin(self.read()).await? {
                        // Of a run that descends from the one watched, as turned out after it was passed over.
                        if self.family.lacks_some() {
                            self.go_through();
                            continue;
                        }
                        self.stage = Stage::Following;
                        if !std::mem::replace(&mut self.follows, true) {
                            return Ok(Some(WatchEvent::AllPresent));
                        }
                    }
                }
                Stage::Following if self.family.lacks_some() => self.go_through(),
                Stage::Following => match timeout_at(self.look_at, self.feed.news()).await {
                    Ok(News::Changed(suspension)) => {
                        let suspension = Arc::unwrap_or_clone(suspension);
                        if let Some(event) = self.told_event(suspension) {
                            return Ok(Some(event));
                        }
                    }
                    Ok(News::ToBeRead(id)) => self.stage = Stage::Looking(Look::at([id])),
                    Ok(News::Missed) if self.watched.shows_open_only() => {
                        return Err(EngineError::Missed);
                    }
                    Ok(News::Missed) | Err(_) => self.look(),
                    Ok(News::Closed) => return Ok(None),
                },
            }
        }
    }

    /// Reads on. False when everything was looked at.
    async fn read(&mut self) -> Result<bool, EngineError> {
        let Stage::Looking(look) = &mut self.stage else {
            return Ok(false);
        };
        // It is never closed.
        let _turn = self.engine.looks.acquire().await;
        if let (false, Watched::Group { group, run: _ }) = (look.listed, &self.watched) {
            let request = ListRequest {
                group: group.clone(),
                kinds: Vec::new(),
                statuses: if self.watched.shows_open_only() {
                    vec![Status::Pending]
                } else {
                    STATUSES.to_vec()
                },
                executions: Vec::new(),
                page_size: PAGE,
                after: look.after,
            };
            let listed = self.engine.list(&request).await?;
            look.after = listed.next;
            look.listed = listed.next.is_none();
            for suspension in &listed.suspensions {
                look.met.insert(suspension.id);
                self.family.learn(&suspension.body.scope);
            }
            look.read = listed.suspensions.into();
            if look.listed {
                let gone = |id: &&SuspensionId| !look.met.contains(id);
                look.single = self.sent.keys().filter(gone).copied().collect();
            }
            return Ok(true);
        }
        if let Some(id) = look.single.pop_front() {
            let tenant = self.watched.tenant();
            let policy = self.engine.policy();
            // Whoever names it, and has never been told of it, is told that it is not there.
            let is_named = !self.follows && matches!(self.watched, Watched::Suspensions { .. });
            match self.engine.load(&policy, tenant, id).await {
                Ok((suspension, _)) => look.read.push_back(suspension),
                // One that was there is kept no longer.
                Err(EngineError::NotFound(_)) if !is_named => {
                    self.sent.remove(&id);
                }
                // One that cannot be read is passed over, as in every list.
                Err(EngineError::Store(StoreError::Corrupt { .. })) if !is_named => {}
                Err(error) => return Err(error),
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// What is told of a record that was read, if it is watched and not as it was sent.
    fn read_event(&mut self, suspension: Suspension) -> Option<WatchEvent> {
        let sent = self.sent.get(&suspension.id);
        if sent == Some(&suspension.version) || !self.is_watched(&suspension) {
            return None;
        }
        Some(self.event(suspension))
    }

    /// As [`Watch::read_event`], of one that was told of. One that is older than what was sent is read: it may have been
    /// read before that, or the store has lost what came after it.
    fn told_event(&mut self, suspension: Suspension) -> Option<WatchEvent> {
        let sent = self.sent.get(&suspension.id).copied().unwrap_or_default();
        if sent > suspension.version {
            self.stage = Stage::Looking(Look::at([suspension.id]));
            return None;
        }
        self.read_event(suspension)
    }

    fn is_watched(&mut self, suspension: &Suspension) -> bool {
        let Watched::Group { group, run: _ } = &self.watched else {
            return true;
        };
        let scope = &suspension.body.scope;
        self.family.learn(scope);
        group.holds(scope) && self.family.holds(scope)
    }

    fn event(&mut self, suspension: Suspension) -> WatchEvent {
        let (id, version) = (suspension.id, suspension.version);
        if suspension.state.status != Status::Pending && self.watched.shows_open_only() {
            self.sent.remove(&id);
        } else {
            self.sent.insert(id, version);
        }
        if self.follows {
            WatchEvent::Changed(suspension)
        } else {
            WatchEvent::Present(suspension)
        }
    }
}

impl Look {
    /// At these alone.
    fn at(ids: impl IntoIterator<Item = SuspensionId>) -> Self {
        Self {
            listed: true,
            single: ids.into_iter().collect(),
            ..Self::default()
        }
    }
}

impl Watched {
    fn tenant(&self) -> &Id {
        match self {
            Self::Suspensions { tenant, ids: _ } => tenant,
            Self::Group { group, run: _ } => match group {
                Group::Tenant { tenant }
                | Group::Session { tenant, .. }
                | Group::Run { tenant, .. } => tenant,
            },
        }
    }

    /// Of a whole tenant what has ended is not looked at.
    fn shows_open_only(&self) -> bool {
        match self {
            Self::Suspensions { .. } => false,
            Self::Group { group, run } => matches!(group, Group::Tenant { .. }) && run.is_none(),
        }
    }
}
