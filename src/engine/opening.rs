//! Opening: what Decide and Suspend have in common once it is clear that something must wait (S6).

use std::time::Duration;

use uuid::Uuid;

use super::grants::covers;
use super::{Engine, EngineError, MAX_ATTEMPTS};
use crate::domain::{Scope, Timestamp};
use crate::policy::Policy;
use crate::store::record::check_size;
use crate::store::{CallKey, Found, GrantKey, Opened, Opening, Place};
use crate::suspension::{Body, Grant, PARTITIONS, State, Suspension, SuspensionId};

/// What an opening came to.
pub(super) enum Met {
    /// It is new.
    Created(Suspension),
    /// The key was used before, for this one, read at this time.
    Existing(Suspension, Timestamp),
    /// A grant covers it: nothing was opened.
    Granted(Grant),
    /// Its run or session is over: nothing opens in it any more.
    Closed,
}

impl Engine {
    /// Opens a suspension, or finds what its key was used for, or a grant that covers it. What is recorded,
    /// over or granted answers before a limit does.
    pub(super) async fn open(
        &self,
        policy: &Policy,
        key: Option<CallKey>,
        grant: Option<GrantKey>,
        body: Body,
        expires: Duration,
    ) -> Result<Met, EngineError> {
        if let Err(full) = self.check_tenant(policy, &body.scope.tenant).await {
            let found = self.find(&body.scope, key.as_ref(), grant).await?;
            return match found.suspension {
                Some(suspension) => Ok(Met::Existing(suspension, found.now)),
                None if found.closed => Ok(Met::Closed),
                None => match found.grant.filter(|grant| covers(grant, &body)) {
                    Some(grant) => Ok(Met::Granted(grant)),
                    None => Err(full),
                },
            };
        }
        check_size(&body, &State::pending())?;
        let random = Uuid::new_v4();
        let [first, ..] = *random.as_bytes();
        let place = Place::of(&body.scope, first % PARTITIONS);
        let limit = policy.limits().pending_per_session;
        let whose = if body.scope.session_id.is_empty() {
            "the run"
        } else {
            "the session"
        };
        let mut opening = Opening {
            id: SuspensionId::new(Uuid::new_v4(), place.partition),
            place,
            key,
            grant,
            body,
            expires,
            retention: policy.retention(),
            limit,
        };
        let mut opened = self.store.open(&opening).await?;
        if let Opened::Granted(grant) = opened {
            if covers(&grant, &opening.body) {
                return Ok(Met::Granted(grant));
            }
            // The call is stricter than it was, or asks for other approvers: as if there were none.
            opening.grant = None;
            opened = self.store.open(&opening).await?;
        }
        match opened {
            Opened::Created(suspension) => Ok(Met::Created(suspension)),
            Opened::Existing(suspension, now) => Ok(Met::Existing(suspension, now)),
            Opened::Closed => Ok(Met::Closed),
            // No grant was looked for.
            Opened::Granted(_) => Err(EngineError::Contended),
            Opened::Full => Err(EngineError::TooManyPending { whose, limit }),
        }
    }

    /// What is recorded for a key and for a grant's, and whether their place is closed.
    pub(super) async fn find(
        &self,
        scope: &Scope,
        key: Option<&CallKey>,
        grant: Option<GrantKey>,
    ) -> Result<Found, EngineError> {
        let place = Place::of(scope, 0);
        Ok(self.store.find(&place, key, grant.as_ref()).await?)
    }

    /// Settles a record that was found by its key, and gives it with the time it was read at last.
    pub(super) async fn settle_found(
        &self,
        policy: &Policy,
        mut suspension: Suspension,
        mut now: Timestamp,
    ) -> Result<(Suspension, Timestamp), EngineError> {
        let id = suspension.id;
        for _ in 0..MAX_ATTEMPTS {
            match self.settle(policy, suspension, now).await? {
                Some(settled) => return Ok((settled, now)),
                None => (suspension, now) = self.read(id).await?,
            }
        }
        Err(EngineError::Contended)
    }
}
