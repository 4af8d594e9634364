//! List: the stored state of a group, page by page, in an order that never changes (S10).

use super::{Engine, EngineError};
use crate::store::{Cursor, Group, Query, record};
use crate::suspension::{Execution, Kind, Status, Suspension};

/// How many records one page looks at before it ends early, so that a filter that fits few of many
/// does not hold the store.
const MAX_EXAMINED: usize = 5_000;

/// How many records are read at a time: a small page with a narrow filter reads more than it gives.
const CHUNK: std::ops::RangeInclusive<usize> = 10..=100;

/// How many bytes of text one page gathers before it ends early.
pub(super) const MAX_BYTES: usize = 3 * 1024 * 1024;

/// What to list.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// Of which group.
    pub group: Group,
    /// Of these kinds; empty means all.
    pub kinds: Vec<Kind>,
    /// Of these statuses, at least one.
    pub statuses: Vec<Status>,
    /// Of these executions; empty means all.
    pub executions: Vec<Execution>,
    /// At most so many.
    pub page_size: usize,
    /// After this position.
    pub after: Option<Cursor>,
}

/// A page.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The records, oldest deadline first.
    pub suspensions: Vec<Suspension>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<Cursor>,
}

impl Engine {
    /// Reads a page. It may be shorter than asked for, or empty, and still have a next one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list(&self, request: &ListRequest) -> Result<Listed, EngineError> {
        let open_only = request.statuses.iter().all(|s| *s == Status::Pending);
        let mut suspensions: Vec<Suspension> = Vec::new();
        let mut after = request.after;
        let (mut examined, mut bytes) = (0, 0);
        loop {
            let slice = self
                .store
                .list(&Query {
                    group: request.group.clone(),
                    open_only,
                    after,
                    limit: request.page_size.clamp(*CHUNK.start(), *CHUNK.end()),
                })
                .await?;
            for suspension in slice.suspensions {
                examined += 1;
                if !request.wants(&suspension) {
                    continue;
                }
                if suspensions.len() == request.page_size || bytes > MAX_BYTES {
                    let next = suspensions.last().map(position);
                    return Ok(Listed { suspensions, next });
                }
                bytes += record::bytes(&suspension.body, &suspension.state);
                suspensions.push(suspension);
            }
            after = slice.next;
            if after.is_none() || examined >= MAX_EXAMINED {
                return Ok(Listed {
                    suspensions,
                    next: after,
                });
            }
        }
    }
}

/// Where a record stands in every list.
pub fn position(suspension: &Suspension) -> Cursor {
    Cursor {
        expire_time: suspension.expire_time,
        id: suspension.id,
    }
}

impl ListRequest {
    fn wants(&self, suspension: &Suspension) -> bool {
        let state = &suspension.state;
        self.group.holds(&suspension.body.scope)
            && self.statuses.contains(&state.status)
            && (self.kinds.is_empty() || self.kinds.contains(&suspension.body.kind()))
            && (self.executions.is_empty() || self.executions.contains(&state.execution))
    }
}
