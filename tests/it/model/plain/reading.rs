//! What is read: one suspension, lists of them, and grants.

use assent::pb;
use tonic::Code;

use super::{Answer, Plain, Refused, answered, invalid, refused, scope_of, ticks};

impl Plain {
    pub fn get(&mut self, request: pb::GetSuspensionRequest) -> Answer {
        let named = self.named(&request.suspension_id, request.scope.as_ref());
        answered(named.map(|index| self.show(index)))
    }

    /// Lists show the stored state.
    pub fn list(&self, request: &pb::ListSuspensionsRequest) -> Answer {
        let pending = [pb::SuspensionStatus::Pending.into()];
        let statuses: &[i32] = if request.statuses.is_empty() {
            &pending
        } else {
            &request.statuses
        };
        let wanted = |shown: &pb::Suspension| {
            let scope = scope_of(shown);
            let or_any = |asked: &str, own: &str| asked.is_empty() || asked == own;
            let one_of = |asked: &[i32], own| asked.is_empty() || asked.contains(&own);
            scope.tenant == request.tenant
                && or_any(&request.session_id, &scope.session_id)
                && or_any(&request.run_id, &scope.run_id)
                && statuses.contains(&shown.status)
                && one_of(&request.kinds, shown.kind)
                && one_of(&request.executions, shown.execution)
        };
        let all = self.records.iter().map(|record| &record.shown);
        Answer::Listed(all.filter(|shown| wanted(shown)).cloned().collect())
    }

    pub fn list_grants(&self, request: &pb::ListGrantsRequest) -> Answer {
        let live = self.grants.iter().filter(|grant| {
            let scope = grant.scope.as_ref().unwrap();
            ticks(&grant.expire_time) > self.now
                && scope.tenant == request.tenant
                && (request.session_id.is_empty() || request.session_id == scope.session_id)
        });
        Answer::Grants(live.cloned().collect())
    }

    pub fn revoke_grant(&mut self, request: &pb::RevokeGrantRequest) -> Answer {
        answered(self.try_revoke(request))
    }

    fn try_revoke(&mut self, request: &pb::RevokeGrantRequest) -> Result<Answer, Refused> {
        if request.by.is_empty() {
            return Err(invalid());
        }
        let now = self.time(self.now);
        let found = self
            .grants
            .iter_mut()
            .find(|grant| grant.id == request.grant_id)
            .ok_or_else(|| refused(Code::NotFound, "GRANT_NOT_FOUND"))?;
        let tenant = request.scope.as_ref().map_or("", |scope| &scope.tenant);
        if found.scope.as_ref().unwrap().tenant != tenant {
            return Err(refused(Code::PermissionDenied, "ACCESS_DENIED"));
        }
        if ticks(&found.expire_time) > self.now {
            found.expire_time = now;
        }
        Ok(Answer::Grant(Box::new(found.clone())))
    }
}
