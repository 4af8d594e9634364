//! Requests: wire -> domain. What comes out is valid (S9), and whatever is not is refused here, before
//! anything is looked up.

mod answer;
mod call;
mod grant;
mod list;
mod suspend;
mod watch;

use std::time::Duration;

use super::field::{self, InvalidField, known};
use crate::domain::{AskedCall, Id, Scope};
use crate::engine::{Action, DecideRequest, Target};
use crate::pb;
use crate::policy::Limits;
use crate::store::Group;
use crate::suspension::{Claim, Completion, SuspensionId};

pub(in crate::grpc) use self::answer::{Resume, resume};
pub(in crate::grpc) use self::grant::{Revoke, list_grants, revoke_grant};
pub(in crate::grpc) use self::list::list;
pub(in crate::grpc) use self::suspend::suspend;
pub(in crate::grpc) use self::watch::watch;

use self::call::{asked_call, run_start, scope, tool_call};

/// The most requests of one batch.
pub(in crate::grpc) const MAX_BATCH: usize = 100;

/// The most bytes of arguments of one batch: with the rest of it, an ordinary client takes the answer.
const MAX_BATCH_BYTES: usize = 3 * 1024 * 1024;

/// The longest that GetSuspension holds an answer back.
const MAX_WAIT: Duration = Duration::from_secs(5 * 60);

type Converted<T> = Result<T, InvalidField>;

/// The call to classify.
pub(in crate::grpc) fn classify(
    wire: pb::ClassifyRequest,
    limits: &Limits,
) -> Converted<AskedCall> {
    let pb::ClassifyRequest { call } = wire;
    match call {
        Some(wire) => asked_call(wire, limits),
        None => Err(InvalidField::missing("call")),
    }
}

/// What to decide.
pub(in crate::grpc) fn decide(
    wire: pb::DecideRequest,
    limits: &Limits,
) -> Converted<DecideRequest> {
    let pb::DecideRequest {
        scope: wire_scope,
        expires_in,
        resumed,
        dry_run,
        action,
    } = wire;
    let action = match action {
        Some(pb::decide_request::Action::Call(wire)) => {
            Action::Call(Box::new(asked_call(wire, limits)?))
        }
        Some(pb::decide_request::Action::Run(wire)) => Action::Run(run_start(wire)?),
        None => return Err(InvalidField::missing("action")),
    };
    Ok(DecideRequest {
        scope: scope(wire_scope)?,
        action,
        expires_in: field::expires_in("expires_in", expires_in)?,
        resumed,
        dry_run,
    })
}

/// The requests of a batch, each to be converted by itself.
pub(in crate::grpc) fn batch(wire: pb::BatchDecideRequest) -> Converted<Vec<pb::DecideRequest>> {
    let pb::BatchDecideRequest { requests } = wire;
    if requests.len() > MAX_BATCH {
        let problem = format!(
            "has {} requests, at most {MAX_BATCH} are allowed",
            requests.len()
        );
        return Err(InvalidField::new("requests", problem));
    }
    let bytes: usize = requests.iter().map(argument_bytes).sum();
    if bytes > MAX_BATCH_BYTES {
        let problem =
            format!("has {bytes} bytes of arguments, at most {MAX_BATCH_BYTES} are allowed");
        return Err(InvalidField::new("requests", problem));
    }
    Ok(requests)
}

fn argument_bytes(wire: &pb::DecideRequest) -> usize {
    let Some(pb::decide_request::Action::Call(call)) = &wire.action else {
        return 0;
    };
    let target = call.target.as_ref();
    call.arguments_json.len() + target.map_or(0, |target| target.arguments_json.len())
}

/// A claim, and on which suspension of which tenant.
pub(in crate::grpc) struct ClaimOf {
    pub(in crate::grpc) tenant: Id,
    pub(in crate::grpc) id: SuspensionId,
    pub(in crate::grpc) claim: Claim,
}

/// A claim.
pub(in crate::grpc) fn claim(wire: pb::ClaimRequest) -> Converted<ClaimOf> {
    let pb::ClaimRequest {
        suspension_id,
        scope: wire_scope,
        attempt_id,
        arguments_digest,
        force,
        by,
    } = wire;
    let id = field::record_id("suspension_id", &suspension_id)?;
    let Scope { tenant, .. } = scope(wire_scope)?;
    let claim = Claim {
        attempt_id: field::required_id("attempt_id", attempt_id)?,
        arguments_digest: field::digest("arguments_digest", &arguments_digest)?,
        force,
        by: if force {
            field::required_id("by", by)?
        } else {
            field::id("by", by)?
        },
    };
    Ok(ClaimOf { tenant, id, claim })
}

/// How an execution ended.
pub(in crate::grpc) struct Complete {
    pub(in crate::grpc) tenant: Id,
    pub(in crate::grpc) id: SuspensionId,
    pub(in crate::grpc) attempt_id: Id,
    pub(in crate::grpc) outcome: Completion,
    pub(in crate::grpc) detail: String,
}

/// How an execution ended.
pub(in crate::grpc) fn complete(wire: pb::CompleteRequest) -> Converted<Complete> {
    let pb::CompleteRequest {
        suspension_id,
        scope: wire_scope,
        attempt_id,
        outcome,
        detail,
    } = wire;
    let id = field::record_id("suspension_id", &suspension_id)?;
    let Scope { tenant, .. } = scope(wire_scope)?;
    Ok(Complete {
        tenant,
        id,
        attempt_id: field::required_id("attempt_id", attempt_id)?,
        outcome: match known("outcome", outcome)? {
            pb::Completion::Unspecified => return Err(InvalidField::missing("outcome")),
            pb::Completion::Success => Completion::Success,
            pb::Completion::Failure => Completion::Failure,
            pb::Completion::Unknown => Completion::Unknown,
        },
        detail: field::text("detail", detail)?,
    })
}

/// What to withdraw, and who does.
pub(in crate::grpc) struct Cancel {
    pub(in crate::grpc) tenant: Id,
    pub(in crate::grpc) target: Target,
    pub(in crate::grpc) by: Id,
    pub(in crate::grpc) reason: String,
}

/// What to withdraw.
pub(in crate::grpc) fn cancel(wire: pb::CancelRequest) -> Converted<Cancel> {
    use pb::cancel_request::Target as Wire;
    let pb::CancelRequest {
        scope: wire_scope,
        by,
        reason,
        target,
    } = wire;
    let Scope {
        tenant, session_id, ..
    } = scope(wire_scope)?;
    let target = match target {
        Some(Wire::SuspensionId(id)) => Target::One(field::record_id("suspension_id", &id)?),
        Some(Wire::RunId(run)) => Target::All(Group::Run {
            tenant: tenant.clone(),
            session: (!session_id.is_empty()).then_some(session_id),
            run: field::required_id("run_id", run)?,
        }),
        Some(Wire::SessionId(session)) => Target::All(Group::Session {
            tenant: tenant.clone(),
            session: field::required_id("session_id", session)?,
        }),
        None => return Err(InvalidField::missing("target")),
    };
    Ok(Cancel {
        tenant,
        target,
        by: field::required_id("by", by)?,
        reason: field::text("reason", reason)?,
    })
}

/// What to read, and how long to wait for it to change.
pub(in crate::grpc) struct Get {
    pub(in crate::grpc) tenant: Id,
    pub(in crate::grpc) id: SuspensionId,
    pub(in crate::grpc) wait: Duration,
}

/// What to read.
pub(in crate::grpc) fn get(wire: pb::GetSuspensionRequest) -> Converted<Get> {
    let pb::GetSuspensionRequest {
        suspension_id,
        scope: wire_scope,
        wait,
    } = wire;
    let id = field::record_id("suspension_id", &suspension_id)?;
    let Scope { tenant, .. } = scope(wire_scope)?;
    let wait = match wait {
        Some(wire) => field::duration("wait", wire)?,
        None => Duration::ZERO,
    };
    if wait > MAX_WAIT {
        return Err(InvalidField::new("wait", "must be at most 5 minutes"));
    }
    Ok(Get { tenant, id, wait })
}

#[cfg(test)]
mod tests;
