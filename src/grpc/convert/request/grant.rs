//! Which grants to list and which to revoke: wire -> domain.

use super::list::{page_size, page_token};
use super::{Converted, scope};
use crate::domain::{Id, Scope};
use crate::engine::GrantsRequest;
use crate::grpc::convert::field;
use crate::pb;
use crate::store::Group;
use crate::suspension::GrantId;

/// A grant to end, and who ends it.
pub(in crate::grpc) struct Revoke {
    pub(in crate::grpc) tenant: Id,
    pub(in crate::grpc) id: GrantId,
    pub(in crate::grpc) by: Id,
}

/// Which grants to list.
pub(in crate::grpc) fn list_grants(wire: pb::ListGrantsRequest) -> Converted<GrantsRequest> {
    let pb::ListGrantsRequest {
        tenant,
        session_id,
        page_size: wire_size,
        page_token: wire_token,
    } = wire;
    let tenant = field::id("tenant", tenant)?;
    let session = field::id("session_id", session_id)?;
    let mut request = GrantsRequest {
        group: if session.is_empty() {
            Group::Tenant { tenant }
        } else {
            Group::Session { tenant, session }
        },
        page_size: page_size(wire_size)?,
        after: None,
    };
    request.after = page_token(&wire_token, &request)?;
    Ok(request)
}

/// Which grant to end.
pub(in crate::grpc) fn revoke_grant(wire: pb::RevokeGrantRequest) -> Converted<Revoke> {
    let pb::RevokeGrantRequest {
        grant_id,
        scope: wire_scope,
        by,
    } = wire;
    let id = field::record_id("grant_id", &grant_id)?;
    let Scope { tenant, .. } = scope(wire_scope)?;
    let by = field::required_id("by", by)?;
    Ok(Revoke { tenant, id, by })
}
