//! What those who watch many suspensions are told: the latest state of what changed, and never more than a little of it.
//!
//! A feed keeps what was told and not taken yet: the latest state of a few records, and of more of them only the ids, for
//! their reader to read. One that is not taken for too long is emptied, and then says only that something was missed. So
//! a slow reader costs little, and misses no latest state unawares.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Notify;

use crate::store::{Group, KeyHash, Place, record};
use crate::suspension::{Suspension, SuspensionId};

/// The most records that wait to be taken.
const MAX_WAITING: usize = 20_000;
/// How many of them are kept as they are.
const MAX_STATES: usize = 64;
/// How many bytes of them, nearly; one is always kept.
const MAX_STATES_BYTES: usize = 1024 * 1024;

/// What a feed tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// One suspension.
    Suspension(SuspensionId),
    /// All of a tenant or of a session.
    Group {
        /// Its index.
        index: KeyHash,
        /// The one partition that holds it, if one does.
        partition: Option<u8>,
    },
}

/// What is new.
#[derive(Clone, Debug)]
pub enum News {
    /// This record was opened or changed, and is so now.
    Changed(Arc<Suspension>),
    /// This record was opened or changed, and is to be read.
    ToBeRead(SuspensionId),
    /// Any may have been: look at everything again.
    Missed,
    /// The process is about to stop: nothing more is told.
    Closed,
}

/// The feeds of this process.
#[derive(Clone, Default)]
pub(super) struct Feeds(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    by_topic: HashMap<Topic, Vec<Weak<Told>>>,
    /// How many topics lie in each partition; `None` counts those that lie in all of them.
    groups: HashMap<Option<u8>, usize>,
    closed: bool,
}

/// One who watches; dropping it ends the watch.
pub struct Feed {
    topics: Vec<Topic>,
    told: Arc<Told>,
    feeds: Feeds,
}

#[derive(Default)]
struct Told {
    waiting: Mutex<Waiting>,
    wake: Notify,
}

#[derive(Default)]
struct Waiting {
    /// In the order in which they were first told.
    order: VecDeque<SuspensionId>,
    /// Each as it is, or none where it is to be read.
    latest: HashMap<SuspensionId, Option<Kept>>,
    states: usize,
    bytes: usize,
    missed: bool,
    closed: bool,
}

struct Kept {
    suspension: Arc<Suspension>,
    bytes: usize,
}

impl Topic {
    /// What belongs to a tenant or a session. A run's is its session's, or its tenant's.
    pub fn of(group: &Group) -> Self {
        Self::Group {
            index: group.index(),
            partition: group.partition(),
        }
    }
}

impl Feeds {
    pub(super) fn open(&self, topics: Vec<Topic>) -> Feed {
        let told = Arc::new(Told::default());
        self.with(|open| {
            if open.closed {
                told.close();
            }
            for topic in &topics {
                let told = Arc::downgrade(&told);
                open.by_topic.entry(*topic).or_default().push(told);
                if let Topic::Group { partition, .. } = topic {
                    *open.groups.entry(*partition).or_default() += 1;
                }
            }
        });
        Feed {
            topics,
            told,
            feeds: self.clone(),
        }
    }

    /// Whether anybody may be told of that record: what it belongs to is known once it is read.
    pub(super) fn may_hold(&self, id: SuspensionId) -> bool {
        self.with(|open| {
            open.groups.contains_key(&None)
                || open.groups.contains_key(&id.partition())
                || open.by_topic.contains_key(&Topic::Suspension(id))
        })
    }

    /// Tells everybody whom it concerns of a record as it is.
    pub(super) fn tell(&self, suspension: Suspension) {
        let concerned = self.concerned(&suspension);
        if concerned.is_empty() {
            return;
        }
        let bytes = record::bytes(&suspension.body, &suspension.state);
        let suspension = Arc::new(suspension);
        for told in concerned {
            told.tell(&suspension, bytes);
        }
    }

    /// Tells everybody that something may have been missed.
    pub(super) fn tell_missed(&self) {
        for told in self.all() {
            told.miss();
        }
    }

    pub(super) fn close(&self) {
        self.with(|open| open.closed = true);
        for told in self.all() {
            told.close();
        }
    }

    fn concerned(&self, suspension: &Suspension) -> Vec<Arc<Told>> {
        let place = Place::of(&suspension.body.scope, 0);
        let tenant = Topic::Group {
            index: place.tenant,
            partition: None,
        };
        let session = place.session.map(|index| Topic::Group {
            index,
            partition: suspension.id.partition(),
        });
        let topics = [
            Some(Topic::Suspension(suspension.id)),
            Some(tenant),
            session,
        ];
        self.with(|open| {
            let topics = topics.iter().flatten();
            let told = topics.filter_map(|topic| open.by_topic.get(topic));
            told.flatten().filter_map(Weak::upgrade).collect()
        })
    }

    fn all(&self) -> Vec<Arc<Told>> {
        self.with(|open| {
            let mut seen = HashSet::new();
            let told = open.by_topic.values().flatten().filter_map(Weak::upgrade);
            told.filter(|told| seen.insert(Arc::as_ptr(told))).collect()
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Open) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Feed {
    /// Waits for what is new since the watch began or since this last returned. What was missed comes first, and stands
    /// for all that was told before.
    pub async fn news(&self) -> News {
        loop {
            if let Some(news) = self.told.take() {
                return news;
            }
            self.told.wake.notified().await;
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let own = Arc::as_ptr(&self.told);
        self.feeds.with(|open| {
            for topic in &self.topics {
                if let Some(told) = open.by_topic.get_mut(topic) {
                    told.retain(|told| told.as_ptr() != own);
                    if told.is_empty() {
                        open.by_topic.remove(topic);
                    }
                }
                if let Topic::Group { partition, .. } = topic
                    && let Some(count) = open.groups.get_mut(partition)
                {
                    *count -= 1;
                    if *count == 0 {
                        open.groups.remove(partition);
                    }
                }
            }
        });
    }
}

impl Told {
    fn tell(&self, suspension: &Arc<Suspension>, bytes: usize) {
        self.with(|waiting| waiting.put(suspension, bytes));
        self.wake.notify_one();
    }

    fn miss(&self) {
        self.with(Waiting::miss);
        self.wake.notify_one();
    }

    fn close(&self) {
        self.with(|waiting| waiting.closed = true);
        self.wake.notify_one();
    }

    fn take(&self) -> Option<News> {
        self.with(|waiting| {
            if waiting.closed {
                return Some(News::Closed);
            }
            if std::mem::take(&mut waiting.missed) {
                return Some(News::Missed);
            }
            let id = waiting.order.pop_front()?;
            let kept = waiting.latest.remove(&id)?;
            if waiting.order.is_empty() {
                // One that is mostly idle keeps no room.
                *waiting = Waiting::default();
            } else if let Some(kept) = &kept {
                waiting.states -= 1;
                waiting.bytes -= kept.bytes;
            }
            Some(match kept {
                Some(kept) => News::Changed(kept.suspension),
                None => News::ToBeRead(id),
            })
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Waiting) -> T) -> T {
        act(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Waiting {
    fn put(&mut self, suspension: &Arc<Suspension>, bytes: usize) {
        let id = suspension.id;
        if self.missed {
            return;
        }
        match self.latest.get_mut(&id) {
            // It is read when it is taken, and so as it is then.
            Some(None) => return,
            Some(Some(kept)) if kept.suspension.version >= suspension.version => return,
            Some(Some(kept)) => {
                self.bytes -= kept.bytes;
                self.states -= 1;
            }
            None => self.order.push_back(id),
        }
        let fits =
            self.states == 0 || self.states < MAX_STATES && self.bytes + bytes <= MAX_STATES_BYTES;
        let kept = fits.then(|| Kept {
            suspension: Arc::clone(suspension),
            bytes,
        });
        if fits {
            self.states += 1;
            self.bytes += bytes;
        }
        self.latest.insert(id, kept);
        if self.order.len() > MAX_WAITING {
            self.miss();
        }
    }

    fn miss(&mut self) {
        *self = Self {
            missed: true,
            closed: self.closed,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests;
