//! Session grants: domain -> wire.

use super::{scope, suspension, timestamp};
use crate::engine::{GrantsListed, GrantsRequest};
use crate::grpc::page_token;
use crate::pb;
use crate::suspension::{Grant, Leave};

/// A page of grants, and the token of the next one.
pub(in crate::grpc) fn grants_listed(
    listed: GrantsListed,
    request: &GrantsRequest,
) -> pb::ListGrantsResponse {
    let GrantsListed { grants, next } = listed;
    pb::ListGrantsResponse {
        grants: grants.into_iter().map(grant).collect(),
        next_page_token: next.map_or_else(String::new, |next| page_token::write(next, request)),
    }
}

/// One grant.
pub(in crate::grpc) fn grant(grant: Grant) -> pb::Grant {
    let Grant {
        id,
        leave,
        create_time,
        expire_time,
    } = grant;
    let Leave {
        scope: holds_in,
        tool,
        server,
        arguments_digest,
        // What it was given for bounds what it covers; it is not part of the contract, nor are these roles.
        risk_class: _,
        by_roles: _,
        policy_revision,
        by,
        suspension_id,
    } = leave;
    pb::Grant {
        id: id.to_string(),
        scope: Some(scope(holds_in)),
        tool: tool.into(),
        server: server.into(),
        arguments_digest: suspension::digest(Some(arguments_digest)),
        by: by.into(),
        suspension_id: suspension_id.to_string(),
        create_time: Some(timestamp(create_time)),
        expire_time: Some(timestamp(expire_time)),
        policy_revision,
    }
}
