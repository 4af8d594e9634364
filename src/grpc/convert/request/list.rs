//! What to list: wire -> domain.

use super::Converted;
use crate::engine::ListRequest;
use crate::grpc::convert::field::{self, InvalidField};
use crate::grpc::page_token::{self, Filters};
use crate::pb;
use crate::store::{Cursor, Group};
use crate::suspension::{Execution, Kind, Status};

const DEFAULT_PAGE_SIZE: usize = 50;
const MAX_PAGE_SIZE: usize = 1000;

/// What to list.
pub(in crate::grpc) fn list(wire: pb::ListSuspensionsRequest) -> Converted<ListRequest> {
    let pb::ListSuspensionsRequest {
        tenant,
        session_id,
        run_id,
        kinds,
        statuses,
        executions,
        page_size,
        page_token,
    } = wire;
    let tenant = field::id("tenant", tenant)?;
    let session = field::id("session_id", session_id)?;
    let run = field::id("run_id", run_id)?;
    let group = if !run.is_empty() {
        Group::Run {
            tenant,
            session: (!session.is_empty()).then_some(session),
            run,
        }
    } else if !session.is_empty() {
        Group::Session { tenant, session }
    } else {
        Group::Tenant { tenant }
    };
    let mut statuses = field::filter("statuses", statuses, status)?;
    if statuses.is_empty() {
        statuses.push(Status::Pending);
    }
    let mut request = ListRequest {
        group,
        kinds: field::filter("kinds", kinds, kind)?,
        statuses,
        executions: field::filter("executions", executions, execution)?,
        page_size: self::page_size(page_size)?,
        after: None,
    };
    request.after = self::page_token(&page_token, &request)?;
    Ok(request)
}

/// Where a page begins; none for the first.
pub(super) fn page_token<Of: Copy>(
    wire: &str,
    filters: &impl Filters,
) -> Converted<Option<Cursor<Of>>> {
    if wire.is_empty() {
        return Ok(None);
    }
    let position = page_token::read(wire, filters);
    position
        .map(Some)
        .map_err(|error| InvalidField::new("page_token", error))
}

pub(super) fn page_size(wire: i32) -> Converted<usize> {
    match usize::try_from(wire) {
        Ok(0) => Ok(DEFAULT_PAGE_SIZE),
        Ok(size) if size <= MAX_PAGE_SIZE => Ok(size),
        Ok(_) | Err(_) => Err(InvalidField::new(
            "page_size",
            format_args!("must be from 0, which means {DEFAULT_PAGE_SIZE}, to {MAX_PAGE_SIZE}"),
        )),
    }
}

fn kind(wire: pb::SuspensionKind) -> Option<Kind> {
    match wire {
        pb::SuspensionKind::Unspecified => None,
        pb::SuspensionKind::Approval => Some(Kind::Approval),
        pb::SuspensionKind::Question => Some(Kind::Question),
        pb::SuspensionKind::External => Some(Kind::External),
        pb::SuspensionKind::ClientTool => Some(Kind::ClientTool),
        pb::SuspensionKind::SignIn => Some(Kind::SignIn),
    }
}

fn status(wire: pb::SuspensionStatus) -> Option<Status> {
    match wire {
        pb::SuspensionStatus::Unspecified => None,
        pb::SuspensionStatus::Pending => Some(Status::Pending),
        pb::SuspensionStatus::Approved => Some(Status::Approved),
        pb::SuspensionStatus::Denied => Some(Status::Denied),
        pb::SuspensionStatus::Answered => Some(Status::Answered),
        pb::SuspensionStatus::Expired => Some(Status::Expired),
        pb::SuspensionStatus::Cancelled => Some(Status::Cancelled),
    }
}

fn execution(wire: pb::Execution) -> Option<Execution> {
    match wire {
        pb::Execution::Unspecified => None,
        pb::Execution::None => Some(Execution::None),
        pb::Execution::Claimed => Some(Execution::Claimed),
        pb::Execution::Completed => Some(Execution::Completed),
        pb::Execution::InDoubt => Some(Execution::InDoubt),
        pb::Execution::Voided => Some(Execution::Voided),
    }
}
