//! What to watch: wire -> domain.

use super::Converted;
use crate::engine::Watched;
use crate::grpc::convert::field::{self, InvalidField};
use crate::pb;
use crate::store::Group;

/// The most suspensions that one watch names.
const MAX_IDS: usize = 1000;

/// What to watch.
pub(in crate::grpc) fn watch(wire: pb::WatchSuspensionsRequest) -> Converted<Watched> {
    let pb::WatchSuspensionsRequest {
        tenant,
        suspension_ids,
        session_id,
        run_id,
    } = wire;
    let tenant = field::id("tenant", tenant)?;
    let session = field::id("session_id", session_id)?;
    let run = field::id("run_id", run_id)?;
    if suspension_ids.is_empty() {
        let group = if session.is_empty() {
            Group::Tenant { tenant }
        } else {
            Group::Session { tenant, session }
        };
        let run = (!run.is_empty()).then_some(run);
        return Ok(Watched::Group { group, run });
    }
    let refused = |problem: String| Err(InvalidField::new("suspension_ids", problem));
    if !session.is_empty() || !run.is_empty() {
        return refused("cannot stand beside `session_id` or `run_id`".to_owned());
    }
    if suspension_ids.len() > MAX_IDS {
        let count = suspension_ids.len();
        return refused(format!("has {count} ids, at most {MAX_IDS} are allowed"));
    }
    let mut ids = Vec::with_capacity(suspension_ids.len());
    for id in &suspension_ids {
        let id = field::record_id("suspension_ids", id)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(Watched::Suspensions { tenant, ids })
}
