//! Opening a suspension, finding what is recorded, and the other kinds than approvals (S6).

use assent::pb;
use tonic::Code;

use super::rules::OPEN;
use super::{
    Answer, Key, Plain, Record, Refused, answered, digest, failed, invalid, refused, scope_of,
};

/// What an opening comes to.
pub(super) enum Met {
    Created(usize),
    Existing(usize),
    Granted(String),
    Over,
}

impl Plain {
    /// What the same call asked again is found by.
    pub(super) fn key(
        scope: &pb::Scope,
        kind: pb::SuspensionKind,
        call: &str,
        step: &str,
    ) -> Option<Key> {
        let (is_call, id) = if call.is_empty() {
            (false, step)
        } else {
            (true, call)
        };
        (!scope.run_id.is_empty() && !id.is_empty()).then(|| {
            (
                scope.tenant.clone(),
                scope.session_id.clone(),
                scope.run_id.clone(),
                kind.into(),
                is_call,
                id.to_owned(),
            )
        })
    }

    pub(super) fn recorded(&self, key: Option<&Key>) -> Option<usize> {
        let key = key?;
        self.records
            .iter()
            .position(|record| record.key.as_ref() == Some(key))
    }

    pub(super) fn is_over(&self, scope: &pb::Scope) -> bool {
        self.ends.iter().any(|end| end.holds(scope))
    }

    /// What is recorded answers, then the end of the run, then a grant, then the limit.
    pub(super) fn open(
        &mut self,
        key: Option<Key>,
        asked: pb::Suspension,
        wait: Option<pb::SuspendRequest>,
        expires: i64,
    ) -> Result<Met, Refused> {
        if let Some(found) = self.recorded(key.as_ref()) {
            return Ok(Met::Existing(found));
        }
        let scope = scope_of(&asked);
        if self.is_over(scope) {
            return Ok(Met::Over);
        }
        if let Some(grant) = self.covering(&asked) {
            return Ok(Met::Granted(grant));
        }
        if self.is_full(scope) {
            return Err(refused(Code::ResourceExhausted, "TOO_MANY_PENDING"));
        }
        let index = self.records.len();
        self.records.push(Record {
            shown: pb::Suspension {
                id: format!("s{index}"),
                status: pb::SuspensionStatus::Pending.into(),
                execution: pb::Execution::None.into(),
                create_time: self.time(self.now),
                expire_time: self.time(self.now + expires),
                policy_revision: self.revision().to_owned(),
                ..asked
            },
            key,
            wait,
            answer: None,
        });
        Ok(Met::Created(index))
    }

    fn is_full(&self, scope: &pb::Scope) -> bool {
        let counts = |other: &pb::Scope| {
            other.tenant == scope.tenant
                && other.session_id == scope.session_id
                && (!scope.session_id.is_empty() || other.run_id == scope.run_id)
        };
        let limited = !scope.session_id.is_empty() || !scope.run_id.is_empty();
        let open = self
            .records
            .iter()
            .filter(|record| counts(scope_of(&record.shown)) && super::ending::is_open(record));
        limited && open.count() >= OPEN
    }

    pub fn suspend(&mut self, request: pb::SuspendRequest) -> Answer {
        answered(self.try_suspend(request))
    }

    fn try_suspend(&mut self, request: pb::SuspendRequest) -> Result<Answer, Refused> {
        let shorter = shorter(request.expires_in.as_ref())?;
        let scope = request.scope.clone().unwrap_or_default();
        let kind = request.kind();
        let call = request.call.clone().map(|call| pb::ToolCall {
            call_id: request.call_id.clone(),
            step_id: request.step_id.clone(),
            ..call
        });
        let (longest, on_expiry) = Self::waits(kind);
        let asked = pb::Suspension {
            kind: kind.into(),
            scope: Some(scope.clone()),
            title: request.title.clone(),
            reason: request.reason.clone(),
            arguments_digest: call
                .as_ref()
                .map_or_else(String::new, |call| digest(&call.tool, &call.arguments_json)),
            call,
            questions: request.questions.clone(),
            payload_schema_json: request.payload_schema_json.clone(),
            event: request.event.clone(),
            sources: request.sources.clone(),
            call_id: request.call_id.clone(),
            step_id: request.step_id.clone(),
            on_expiry: match request.on_expiry() {
                pb::OnExpiry::Unspecified => on_expiry,
                said => said,
            }
            .into(),
            ..Default::default()
        };
        let key = Self::key(&scope, kind, &request.call_id, &request.step_id);
        // Scope and expiry may differ.
        let wait = pb::SuspendRequest {
            scope: None,
            expires_in: None,
            on_expiry: 0,
            ..request
        };
        let expires = shorter.map_or(longest, |shorter| shorter.min(longest));
        match self.open(key, asked, Some(wait.clone()), expires)? {
            Met::Created(index) => Ok(self.show(index)),
            Met::Existing(index) if self.records[index].wait.as_ref() != Some(&wait) => {
                Err(refused(Code::AlreadyExists, "CALL_ID_REUSED"))
            }
            Met::Existing(index) => {
                self.settle(index);
                Ok(self.show(index))
            }
            Met::Over => Err(failed("SUSPENSION_CANCELLED")),
            Met::Granted(_) => unreachable!("a grant is for approvals"),
        }
    }

    pub(super) fn show(&self, index: usize) -> Answer {
        Answer::Suspension(Box::new(self.records[index].shown.clone()))
    }
}

/// A wait that was asked for, in ticks; zero or less is no wait.
pub(super) fn shorter(asked: Option<&prost_types::Duration>) -> Result<Option<i64>, Refused> {
    match asked {
        None => Ok(None),
        Some(duration) if duration.seconds <= 0 => Err(invalid()),
        Some(duration) => Ok(Some(
            duration.seconds / i64::from(super::rules::TICK_SECONDS),
        )),
    }
}
