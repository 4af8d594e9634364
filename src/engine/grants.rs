//! Session grants (S8): giving one with an approval, what one covers, ListGrants and RevokeGrant.

use uuid::Uuid;

use super::list::MAX_BYTES;
use super::{Engine, EngineError, partition_of};
use crate::domain::{Id, Scope, Timestamp};
use crate::policy::Policy;
use crate::store::{Cursor, Giving, GrantKey, GrantQuery, Group};
use crate::suspension::{
    Answer, Body, Grant, GrantId, GrantScope, Leave, OfGrant, Reply, Suspension,
};

/// What a grant has beside callers' texts: ids, times, digests and the revision.
const FIXED_BYTES: usize = 512;

/// What frames a text on the wire, at most.
const FRAME_BYTES: usize = 4;

/// How many grants are read at a time.
const CHUNK: std::ops::RangeInclusive<usize> = 10..=100;

/// Which grants to list.
#[derive(Clone, Debug)]
pub struct GrantsRequest {
    /// Of which tenant or session.
    pub group: Group,
    /// At most so many.
    pub page_size: usize,
    /// After this position.
    pub after: Option<Cursor<OfGrant>>,
}

/// A page of grants.
#[derive(Clone, Debug)]
pub struct GrantsListed {
    /// Those that are live, the soonest to end first.
    pub grants: Vec<Grant>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<Cursor<OfGrant>>,
}

impl Engine {
    /// Reads a page of the live grants. It may be shorter than asked for and still have a next one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_grants(&self, request: &GrantsRequest) -> Result<GrantsListed, EngineError> {
        let mut grants: Vec<Grant> = Vec::new();
        let mut after = request.after;
        let mut bytes = 0;
        loop {
            let left = request.page_size - grants.len();
            let query = GrantQuery {
                group: request.group.clone(),
                after,
                limit: left.clamp(*CHUNK.start(), *CHUNK.end()),
            };
            let slice = self.store.list_grants(&query).await?;
            for grant in slice.grants {
                let weight = weight(&grant);
                let is_full = bytes + weight > MAX_BYTES && !grants.is_empty();
                if is_full || grants.len() == request.page_size {
                    let next = grants.last().map(position);
                    return Ok(GrantsListed { grants, next });
                }
                bytes += weight;
                grants.push(grant);
            }
            after = slice.next;
            if after.is_none() {
                let next = None;
                return Ok(GrantsListed { grants, next });
            }
        }
    }

    /// Ends a grant now. Repeating it is harmless, and so is revoking one that has expired.
    ///
    /// # Errors
    /// When it is unknown or another tenant's, or the store fails.
    pub async fn revoke_grant(
        &self,
        tenant: &Id,
        id: GrantId,
        by: &Id,
    ) -> Result<Grant, EngineError> {
        let unknown = || EngineError::GrantNotFound(id);
        if id.partition().is_none() {
            return Err(unknown());
        }
        let grant = self.store.read_grant(id).await?.ok_or_else(unknown)?;
        if grant.leave.scope.tenant != *tenant {
            return Err(EngineError::GrantAccessDenied);
        }
        let ended = self.store.end_grant(id).await?.ok_or_else(unknown)?;
        tracing::info!(grant = %id, %by, "a session grant is revoked");
        Ok(ended)
    }
}

/// The grant that an answer at `now` gives, with what it is found by; none unless it is an approval for the
/// session.
pub(super) fn giving(
    policy: &Policy,
    suspension: &Suspension,
    reply: &Reply,
    now: Timestamp,
) -> Option<Giving> {
    match &reply.answer {
        Some(Answer::Approval(approval)) => match approval.grant_scope {
            GrantScope::Once => return None,
            GrantScope::Session => {}
        },
        Some(
            Answer::Question(_) | Answer::External(_) | Answer::ClientTool(_) | Answer::SignIn(_),
        )
        | None => return None,
    }
    let leave = Leave::given(suspension, reply)?;
    let Leave {
        scope,
        tool,
        server,
        arguments_digest,
        policy_revision,
        ..
    } = &leave;
    let key = GrantKey::of(scope, tool, server, arguments_digest, policy_revision)?;
    Some(Giving {
        grant: Grant {
            id: GrantId::new(Uuid::new_v4(), partition_of(suspension.id)),
            leave,
            create_time: now,
            expire_time: now.after(policy.grants_expire()),
        },
        key,
        retention: policy.retention(),
    })
}

/// What a grant for a call would be found by; none where no grant can cover it.
pub(super) fn key_of(body: &Body) -> Option<GrantKey> {
    let call = body.call().filter(|call| call.unresolved().is_none())?;
    let digest = body.arguments_digest.as_ref()?;
    let revision = &body.policy_revision;
    GrantKey::of(&body.scope, &call.tool, &call.server, digest, revision)
}

/// Whether a grant that was found for a call lets it through as it is asked about now.
pub(super) fn covers(grant: &Grant, body: &Body) -> bool {
    body.risk_class
        .is_some_and(|class| grant.leave.covers(class, &body.approvers))
}

/// Where a grant stands in every list.
fn position(grant: &Grant) -> Cursor<OfGrant> {
    Cursor {
        expire_time: grant.expire_time,
        id: grant.id,
    }
}

/// How many bytes a grant has at most, nearly.
fn weight(grant: &Grant) -> usize {
    let Leave {
        scope,
        tool,
        server,
        by,
        ..
    } = &grant.leave;
    let Scope {
        tenant,
        principal,
        session_id,
        agent_path,
        ..
    } = scope;
    let ids = [tenant, session_id, &principal.id, tool, server, by];
    let texts = principal.roles.iter().chain(agent_path);
    let attributes = principal.attributes.iter();
    FIXED_BYTES
        + ids.into_iter().map(|id| id.as_str().len()).sum::<usize>()
        + texts.map(|text| text.len() + FRAME_BYTES).sum::<usize>()
        + attributes
            .map(|(key, value)| key.len() + value.len() + 3 * FRAME_BYTES)
            .sum::<usize>()
}
