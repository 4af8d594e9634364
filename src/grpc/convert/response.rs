//! Answers: domain -> wire.

mod grant;
mod history;
mod suspension;

use prost::Message as _;

use super::field::InvalidField;
use crate::classify::Classification;
use crate::engine::{
    Cancelled, Decided, Effect, Judged, ListRequest, Listed, Receipt, ResumeOutcome, Resumption,
    WatchEvent, position,
};
use crate::grpc::page_token;
use crate::pb;
use crate::policy::{Policy, Selection};

pub(in crate::grpc) use self::grant::{grant, grants_listed};
pub(in crate::grpc) use self::suspension::{risk_class, scope, suspension, tool_call, winner};

use self::suspension::timestamp;

/// The most ids that a Cancel answers with.
const MAX_CANCELLED_IDS: usize = 1000;

/// The most bytes of an answer that holds many records: ordinary clients refuse 4 MiB.
const MAX_BYTES: usize = 3 * 1024 * 1024;

/// How a call was classified.
pub(in crate::grpc) fn classified(judged: Judged<'_, '_>, policy: &Policy) -> pb::ClassifyResponse {
    let Classification {
        class,
        basis,
        warnings,
    } = judged.classification;
    let Selection { asks, by } = judged.selection;
    pb::ClassifyResponse {
        risk_class: risk_class(Some(class)),
        approval_required: asks,
        basis: basis.into_owned(),
        selected_by: by.to_owned(),
        judged_tool: judged.call.tool.to_string(),
        warnings,
        policy_revision: policy.revision().to_owned(),
    }
}

/// What a watch tells.
pub(in crate::grpc) fn watch_event(event: WatchEvent) -> pb::WatchEvent {
    let (recorded, initial, initial_complete) = match event {
        WatchEvent::Present(suspension) => (Some(suspension), true, false),
        WatchEvent::AllPresent => (None, false, true),
        WatchEvent::Changed(suspension) => (Some(suspension), false, false),
    };
    pb::WatchEvent {
        suspension: recorded.map(suspension),
        initial,
        initial_complete,
    }
}

/// A decision.
pub(in crate::grpc) fn decided(decided: Decided) -> pb::DecideResponse {
    let Decided {
        effect,
        outcome,
        reason,
        risk_class: class,
        suspension: recorded,
        grant_id,
        judged_tool,
        matched_rule,
        selected_by,
        arguments_digest,
        policy_revision,
        decision_id,
        warnings,
    } = decided;
    let effect = match effect {
        Effect::Allow => pb::Effect::Allow,
        Effect::Deny => pb::Effect::Deny,
        Effect::Suspend => pb::Effect::Suspend,
    };
    let (kind, message_for_model, retryable) = history::outcome(outcome);
    pb::DecideResponse {
        effect: effect.into(),
        risk_class: risk_class(class),
        kind,
        reason,
        message_for_model,
        retryable,
        suspension: recorded.map(suspension),
        judged_tool: judged_tool.map(String::from).unwrap_or_default(),
        matched_rule,
        selected_by,
        grant_id: grant_id.map_or_else(String::new, |id| id.to_string()),
        arguments_digest: suspension::digest(arguments_digest),
        policy_revision,
        decision_id: decision_id.to_string(),
        warnings,
    }
}

/// What is left of the bytes that the answer to a batch may have.
pub(in crate::grpc) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(MAX_BYTES)
    }
}

impl Room {
    /// Takes a decision in, if there is room: a recorded suspension may be much larger than what was asked.
    pub(in crate::grpc) fn take(
        &mut self,
        decision: &pb::DecideResponse,
    ) -> Result<(), InvalidField> {
        let Some(left) = self.0.checked_sub(decision.encoded_len()) else {
            let problem = format!(
                "the answer would be larger than {MAX_BYTES} bytes with the suspension of this call: ask about the call by itself"
            );
            return Err(InvalidField::new("requests", problem));
        };
        self.0 = left;
        Ok(())
    }
}

/// What became of an answer.
pub(in crate::grpc) fn resumed(resumption: Resumption) -> pb::ResumeResponse {
    let Resumption {
        suspension: record,
        outcome,
    } = resumption;
    let outcome = match outcome {
        ResumeOutcome::Accepted => pb::ResumeOutcome::Accepted,
        ResumeOutcome::VoteRecorded => pb::ResumeOutcome::VoteRecorded,
        ResumeOutcome::Duplicate => pb::ResumeOutcome::Duplicate,
    };
    pb::ResumeResponse {
        suspension: Some(suspension(record)),
        outcome: outcome.into(),
    }
}

/// What an attempt may run. A run start has no arguments, and so no digest.
pub(in crate::grpc) fn claimed(receipt: Receipt) -> pb::ClaimResponse {
    let Receipt { suspension: record } = receipt;
    let call = record.body.call();
    let (arguments_json, arguments_digest) = match (call, record.approved_arguments()) {
        (Some(call), Some(arguments)) => (
            arguments.text().to_owned(),
            suspension::digest(Some(arguments.digest(call.tool.as_str()))),
        ),
        (Some(_) | None, _) => (String::new(), String::new()),
    };
    let held = record.state.claims.last();
    pb::ClaimResponse {
        arguments_json,
        arguments_digest,
        lease_expire_time: held.map(|claim| timestamp(claim.lease_expire_time)),
        suspension: Some(suspension(record)),
    }
}

/// What was withdrawn.
pub(in crate::grpc) fn cancelled(cancelled: Cancelled) -> pb::CancelResponse {
    let Cancelled {
        ids,
        cancelled,
        voided,
    } = cancelled;
    let shown = ids.iter().take(MAX_CANCELLED_IDS);
    pb::CancelResponse {
        suspension_ids: shown.map(ToString::to_string).collect(),
        cancelled_count: cancelled,
        voided_count: voided,
    }
}

/// A page. It ends where the next suspension would make it too large, and always holds one.
pub(in crate::grpc) fn listed(
    listed: Listed,
    request: &ListRequest,
) -> pb::ListSuspensionsResponse {
    let Listed { suspensions, next } = listed;
    let mut page = Vec::with_capacity(suspensions.len());
    let mut next = next;
    let mut bytes = 0;
    let mut last = None;
    for record in suspensions {
        let here = position(&record);
        let shown = suspension(record);
        bytes += shown.encoded_len();
        if bytes > MAX_BYTES && last.is_some() {
            next = last;
            break;
        }
        last = Some(here);
        page.push(shown);
    }
    pb::ListSuspensionsResponse {
        suspensions: page,
        next_page_token: match next {
            Some(position) => page_token::write(position, request),
            None => String::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ApproverRule, Id, OnExpiry, RunStart, Scope, Timestamp};
    use crate::store::Group;
    use crate::suspension::OfSuspension;
    use crate::suspension::{Body, State, Status, Subject, Suspension, SuspensionId};
    use uuid::Uuid;

    fn suspension_of(title_bytes: usize, millis: i64) -> Suspension {
        Suspension {
            id: SuspensionId::new(Uuid::from_u128(7), 9),
            body: Body {
                scope: Scope::default(),
                subject: Subject::Run(RunStart {
                    version: Id::default(),
                }),
                risk_class: None,
                title: "x".repeat(title_bytes),
                reason: String::new(),
                arguments_digest: None,
                on_expiry: OnExpiry::Abandon,
                approvers: ApproverRule::default(),
                matched_rule: String::new(),
                policy_revision: String::new(),
            },
            create_time: Timestamp::from_millis(0),
            expire_time: Timestamp::from_millis(millis),
            state: State::pending(),
            version: 1,
        }
    }

    fn page(bytes: &[usize]) -> (usize, Option<i64>) {
        let request = ListRequest {
            group: Group::Tenant {
                tenant: Id::default(),
            },
            kinds: Vec::new(),
            statuses: vec![Status::Pending],
            executions: Vec::new(),
            page_size: 50,
            after: None,
        };
        let suspensions = (1..).zip(bytes);
        let found = Listed {
            suspensions: suspensions
                .map(|(millis, bytes)| suspension_of(*bytes, millis))
                .collect(),
            next: None,
        };
        let page = listed(found, &request);
        assert!(page.encoded_len() < 4 * 1024 * 1024);
        let token = page.next_page_token;
        let next = (!token.is_empty())
            .then(|| page_token::read::<OfSuspension>(&token, &request).unwrap());
        let next = next.map(|position| position.expire_time.millis());
        (page.suspensions.len(), next)
    }

    #[test]
    fn a_page_ends_before_it_is_too_large_and_goes_on_after_its_last() {
        const MIB: usize = 1024 * 1024;
        assert_eq!(page(&[]), (0, None));
        assert_eq!(page(&[MIB, MIB]), (2, None));
        assert_eq!(page(&[MIB, MIB, MIB, 1]), (2, Some(2)));
        assert_eq!(page(&[MAX_BYTES + 1, 1]), (1, Some(1)));
    }

    #[test]
    fn a_moment_is_one_that_protobuf_has() {
        let wire = |millis| {
            let prost_types::Timestamp { seconds, nanos } =
                timestamp(Timestamp::from_millis(millis));
            (seconds, nanos)
        };
        assert_eq!(wire(0), (0, 0));
        assert_eq!(wire(1_999), (1, 999_000_000));
        assert_eq!(wire(-1), (-1, 999_000_000));
        assert_eq!(wire(i64::MAX), (253_402_300_799, 999_000_000));
        assert_eq!(wire(i64::MIN), (-62_135_596_800, 0));
    }
}
