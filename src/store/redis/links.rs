//! A connection for each runtime that asks, so that a request and its answer stay on one thread.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::runtime::{Handle, Id};

use super::link::{Dial, Link};

/// The links of one process to one Redis.
pub(super) struct Links {
    dial: Dial,
    response_timeout: Duration,
    links: RwLock<HashMap<Id, Arc<Link>>>,
}

impl Links {
    /// No links yet.
    pub(super) fn new(dial: Dial, response_timeout: Duration) -> Self {
        Self {
            dial,
            response_timeout,
            links: RwLock::default(),
        }
    }

    /// The link of the runtime that this is called on; it is made when it is first wanted.
    pub(super) fn here(&self) -> Arc<Link> {
        let runtime = Handle::current().id();
        let links = self.links.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = links.get(&runtime).filter(|link| link.is_kept()) {
            return Arc::clone(link);
        }
        drop(links);
        let link = Arc::new(Link::new(self.dial.clone(), self.response_timeout));
        let mut links = self.links.write().unwrap_or_else(PoisonError::into_inner);
        // Those of runtimes that have ended.
        links.retain(|_, link| link.is_kept());
        Arc::clone(links.entry(runtime).or_insert(link))
    }
}
