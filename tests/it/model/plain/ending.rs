//! What time does, and what is withdrawn (S6).

use assent::pb;

use super::deciding::retryable;
use super::{Answer, End, Plain, Record, Refused, SOME_TEXT, answered, invalid, scope_of, ticks};

/// Pending, or approved and unclaimed.
pub(super) fn is_open(record: &Record) -> bool {
    let shown = &record.shown;
    match shown.status() {
        pb::SuspensionStatus::Pending => true,
        pb::SuspensionStatus::Approved => shown.execution() == pb::Execution::None,
        _ => false,
    }
}

impl Plain {
    /// Settles all that time has changed, as the sweeper does.
    pub fn sweep(&mut self) -> Answer {
        for index in 0..self.records.len() {
            self.settle(index);
        }
        Answer::Done
    }

    /// Whatever meets a suspension past its deadline settles it first.
    pub(super) fn settle(&mut self, index: usize) {
        let was_pending = self.records[index].shown.status() == pb::SuspensionStatus::Pending;
        self.records[index].shown = self.as_settled(index);
        let shown = &self.records[index].shown;
        let scope = scope_of(shown).clone();
        let abandons = was_pending
            && shown.status() == pb::SuspensionStatus::Expired
            && shown.on_expiry() == pb::OnExpiry::Abandon
            && !scope.run_id.is_empty();
        if abandons {
            let run = End::Run {
                tenant: scope.tenant,
                session: Some(scope.session_id),
                run: scope.run_id,
            };
            self.end(run, "", SOME_TEXT);
        }
    }

    /// What time alone has made of it by now.
    pub(super) fn as_settled(&self, index: usize) -> pb::Suspension {
        let mut shown = self.records[index].shown.clone();
        if shown.status() == pb::SuspensionStatus::Pending && self.now >= ticks(&shown.expire_time)
        {
            let kind = match shown.on_expiry() {
                pb::OnExpiry::Abandon => "suspension_expired",
                pb::OnExpiry::Deny => "expired",
                pb::OnExpiry::Unspecified => unreachable!("every suspension says"),
            };
            shown.status = pb::SuspensionStatus::Expired.into();
            shown.resolution = Some(self.refusal(kind, "", ""));
        }
        let lease = shown.claims.last().map(|claim| claim.lease_expire_time);
        if shown.execution() == pb::Execution::Claimed && self.now >= ticks(&lease.unwrap()) {
            shown.execution = pb::Execution::InDoubt.into();
        }
        shown
    }

    pub(super) fn refusal(&self, kind: &str, by: &str, reason: &str) -> pb::Resolution {
        pb::Resolution {
            by: by.to_owned(),
            resolve_time: self.time(self.now),
            reason: reason.to_owned(),
            kind: kind.to_owned(),
            message_for_model: "refused".to_owned(),
            retryable: retryable(kind),
            ..Default::default()
        }
    }

    /// Withdraws one. Whether it was pending, approved, or neither.
    fn withdraw(&mut self, index: usize, by: &str, reason: &str) -> Withdrawn {
        if !is_open(&self.records[index]) {
            return Withdrawn::Nothing;
        }
        let cancelled = self.refusal("cancelled", by, reason);
        let shown = &mut self.records[index].shown;
        if shown.status() == pb::SuspensionStatus::Approved {
            shown.execution = pb::Execution::Voided.into();
            return Withdrawn::Voided;
        }
        shown.status = pb::SuspensionStatus::Cancelled.into();
        shown.resolution = Some(cancelled);
        Withdrawn::Cancelled
    }

    /// Ends a run or a session: what is late expires, the rest is withdrawn.
    fn end(&mut self, end: End, by: &str, reason: &str) -> pb::CancelResponse {
        let mut response = pb::CancelResponse::default();
        for index in 0..self.records.len() {
            if !end.holds(scope_of(&self.records[index].shown)) || !is_open(&self.records[index]) {
                continue;
            }
            let settled = self.as_settled(index);
            if settled.status() == pb::SuspensionStatus::Expired {
                self.records[index].shown = settled;
                continue;
            }
            let withdrawn = self.withdraw(index, by, reason);
            self.count(&mut response, index, withdrawn);
        }
        if let End::Session { tenant, session } = &end {
            let now = self.time(self.now);
            let ended = self.grants.iter_mut().filter(|grant| {
                let scope = grant.scope.as_ref().unwrap();
                scope.tenant == *tenant
                    && scope.session_id == *session
                    && ticks(&grant.expire_time) > self.now
            });
            ended.for_each(|grant| grant.expire_time = now);
        }
        self.ends.push(end);
        response
    }

    fn count(&self, response: &mut pb::CancelResponse, index: usize, withdrawn: Withdrawn) {
        match withdrawn {
            Withdrawn::Nothing => return,
            Withdrawn::Cancelled => response.cancelled_count += 1,
            Withdrawn::Voided => response.voided_count += 1,
        }
        let id = self.records[index].shown.id.clone();
        response.suspension_ids.push(id);
    }

    pub fn cancel(&mut self, request: pb::CancelRequest) -> Answer {
        answered(self.try_cancel(request))
    }

    fn try_cancel(&mut self, request: pb::CancelRequest) -> Result<Answer, Refused> {
        use pb::cancel_request::Target;
        if request.by.is_empty() {
            return Err(invalid());
        }
        let scope = request.scope.clone().unwrap_or_default();
        let (by, reason) = (&request.by, &request.reason);
        let response = match request.target.clone() {
            Some(Target::SuspensionId(id)) => {
                let index = self.named(&id, Some(&scope))?;
                let mut response = pb::CancelResponse::default();
                let withdrawn = self.withdraw(index, by, reason);
                self.count(&mut response, index, withdrawn);
                response
            }
            Some(Target::RunId(run)) if !run.is_empty() => {
                let session = (!scope.session_id.is_empty()).then_some(scope.session_id);
                let run = End::Run {
                    tenant: scope.tenant,
                    session,
                    run,
                };
                self.end(run, by, reason)
            }
            Some(Target::SessionId(session)) if !session.is_empty() => {
                let session = End::Session {
                    tenant: scope.tenant,
                    session,
                };
                self.end(session, by, reason)
            }
            Some(Target::RunId(_) | Target::SessionId(_)) | None => return Err(invalid()),
        };
        Ok(Answer::Cancelled(response))
    }
}

enum Withdrawn {
    Nothing,
    Cancelled,
    Voided,
}

impl End {
    pub(super) fn holds(&self, scope: &pb::Scope) -> bool {
        match self {
            Self::Session { tenant, session } => {
                *tenant == scope.tenant && *session == scope.session_id
            }
            Self::Run {
                tenant,
                session,
                run,
            } => {
                *tenant == scope.tenant
                    && *run == scope.run_id
                    && session
                        .as_ref()
                        .is_none_or(|session| *session == scope.session_id)
            }
        }
    }
}
