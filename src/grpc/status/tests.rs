use std::collections::BTreeMap;
use std::fmt;

use super::*;
use crate::arguments::Arguments;
use crate::domain::{ApproverRule, Id, OnExpiry, RunStart, Scope, Timestamp};
use crate::outcome::Outcome;
use crate::suspension::{
    Answer, Approval, Body, GrantScope, Resolution, State, Status as Progress, Subject,
    SuspensionId,
};
use proptest::{prop_assert, prop_assert_eq, proptest};
use tonic::codegen::http::HeaderMap;

const ID: &str = "0192f0c1-0000-7000-8000-00000000000a";
const LIMIT: usize = 6 * 1024;

fn suspension() -> Suspension {
    Suspension {
        id: SuspensionId::parse(ID).unwrap(),
        body: Body {
            scope: Scope::default(),
            subject: Subject::Run(RunStart {
                version: Id::default(),
            }),
            risk_class: None,
            title: "a title".to_owned(),
            reason: "a reason".to_owned(),
            arguments_digest: None,
            on_expiry: OnExpiry::Abandon,
            approvers: ApproverRule::default(),
            matched_rule: "rule".to_owned(),
            policy_revision: "revision".to_owned(),
        },
        create_time: Timestamp::from_millis(1_000),
        expire_time: Timestamp::from_millis(9_000),
        state: State::pending(),
        version: 2,
    }
}

/// One that somebody denied, with all of it as large as it may be.
fn denied(c: char) -> Suspension {
    let id = Id::parse(&c.to_string().repeat(256)).unwrap();
    let text = c.to_string().repeat(8 * 1024 / c.len_utf8());
    let entry = c.to_string().repeat(1024 / c.len_utf8());
    let json = serde_json::json!({ "k": text }).to_string();
    let mut suspension = suspension();
    suspension.state.status = Progress::Denied;
    suspension.state.resolution = Some(Resolution {
        grant_id: None,
        by: id,
        by_roles: vec![entry; 64],
        resolve_time: Timestamp::from_millis(i64::MAX),
        answer: Some(Answer::Approval(Approval {
            approved: false,
            reason: text.clone(),
            edited_arguments: Some(Arguments::parse(&json, usize::MAX).unwrap()),
            grant_scope: GrantScope::Once,
        })),
        reason: text.clone(),
        outcome: Some(Outcome::denied(&text)),
    });
    suspension
}

fn refused(refusal: Refusal) -> EngineError {
    EngineError::Refused {
        refusal,
        suspension: Box::new(suspension()),
    }
}

fn rich(status: &Status) -> tonic_types::Status {
    tonic_types::Status::decode(status.details()).unwrap()
}

fn detail<M: Message + Default>(status: &Status, name: &str) -> Option<M> {
    let url = format!("type.googleapis.com/{name}");
    let details = rich(status).details.into_iter();
    let mut found = details.filter(|packed| packed.type_url == url);
    found
        .next()
        .map(|packed| M::decode(packed.value.as_slice()).unwrap())
}

fn info(status: &Status) -> ErrorInfo {
    detail(status, "google.rpc.ErrorInfo").unwrap()
}

fn field(status: &Status) -> Option<String> {
    let bad: BadRequest = detail(status, "google.rpc.BadRequest")?;
    assert_eq!(bad.field_violations.len(), 1);
    bad.field_violations
        .into_iter()
        .next()
        .map(|violation| violation.field)
}

/// What the status takes in trailers.
fn size(status: &Status) -> usize {
    let mut headers = HeaderMap::new();
    status.add_header(&mut headers).unwrap();
    headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum()
}

#[derive(Debug)]
struct Cause(&'static str, Option<Box<Cause>>);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.as_deref().map(|cause| cause as _)
    }
}

fn table() -> Vec<(EngineError, Code, &'static str, Option<&'static str>)> {
    let id = || SuspensionId::parse(ID).unwrap();
    let attempt = || Id::parse("w1").unwrap();
    let down = || StoreError::Unavailable(Box::new(Cause("secret host", None)));
    vec![
        (
            EngineError::Invalid {
                field: "resumed",
                message: "no".to_owned(),
            },
            Code::InvalidArgument,
            "INVALID_REQUEST",
            Some("resumed"),
        ),
        (
            EngineError::NotFound(ID.to_owned()),
            Code::NotFound,
            "SUSPENSION_NOT_FOUND",
            None,
        ),
        (
            EngineError::AccessDenied,
            Code::PermissionDenied,
            "ACCESS_DENIED",
            None,
        ),
        (
            refused(Refusal::Expired),
            Code::FailedPrecondition,
            "SUSPENSION_EXPIRED",
            None,
        ),
        (
            refused(Refusal::Cancelled),
            Code::FailedPrecondition,
            "SUSPENSION_CANCELLED",
            None,
        ),
        (
            refused(Refusal::AlreadyResolved),
            Code::FailedPrecondition,
            "ALREADY_RESOLVED",
            None,
        ),
        (
            refused(Refusal::KindMismatch("m")),
            Code::InvalidArgument,
            "KIND_MISMATCH",
            Some("answer"),
        ),
        (
            refused(Refusal::DigestMismatch),
            Code::FailedPrecondition,
            "DIGEST_MISMATCH",
            None,
        ),
        (
            refused(Refusal::Invalid {
                field: "approval.edited_arguments_json",
                message: "m".into(),
            }),
            Code::InvalidArgument,
            "INVALID_REQUEST",
            Some("approval.edited_arguments_json"),
        ),
        (
            refused(Refusal::NotEligible(vec![])),
            Code::PermissionDenied,
            "APPROVER_NOT_ELIGIBLE",
            None,
        ),
        (
            refused(Refusal::SelfApproval("m")),
            Code::PermissionDenied,
            "SELF_APPROVAL",
            None,
        ),
        (
            refused(Refusal::NotApproved),
            Code::FailedPrecondition,
            "NOT_APPROVED",
            None,
        ),
        (
            refused(Refusal::AlreadyClaimed(attempt())),
            Code::FailedPrecondition,
            "ALREADY_CLAIMED",
            None,
        ),
        (
            refused(Refusal::InDoubt(attempt())),
            Code::FailedPrecondition,
            "IN_DOUBT",
            None,
        ),
        (
            refused(Refusal::Stale),
            Code::FailedPrecondition,
            "APPROVAL_STALE",
            None,
        ),
        (
            refused(Refusal::NotClaimed),
            Code::FailedPrecondition,
            "NOT_CLAIMED",
            None,
        ),
        (
            EngineError::CallIdReused(id()),
            Code::AlreadyExists,
            "CALL_ID_REUSED",
            None,
        ),
        (
            EngineError::TooManyPending {
                whose: "the session",
                limit: 2,
            },
            Code::ResourceExhausted,
            "TOO_MANY_PENDING",
            None,
        ),
        (
            EngineError::PolicyDenied("no".to_owned()),
            Code::FailedPrecondition,
            "POLICY_DENIED",
            None,
        ),
        (
            EngineError::ApprovalInsufficient,
            Code::FailedPrecondition,
            "APPROVAL_INSUFFICIENT",
            None,
        ),
        (down().into(), Code::Unavailable, "STORE_UNAVAILABLE", None),
        (
            StoreError::Corrupt {
                id: ID.to_owned(),
                cause: "secret".to_owned(),
            }
            .into(),
            Code::Unavailable,
            "STORE_UNAVAILABLE",
            None,
        ),
        (
            StoreError::Unusable("secret".to_owned()).into(),
            Code::Unavailable,
            "STORE_UNAVAILABLE",
            None,
        ),
        (
            EngineError::Contended,
            Code::Unavailable,
            "STORE_UNAVAILABLE",
            None,
        ),
    ]
}

#[test]
fn a_read_that_failed_recorded_nothing_and_does_not_say_that_it_might_have() {
    let down = || EngineError::from(StoreError::Unavailable(Box::new(Cause("gone", None))));
    let text = |problem: Problem| Status::from(problem).message().to_owned();
    assert!(text(down().into()).contains("not known whether anything was recorded"));
    assert!(!text(reading(down())).contains("recorded"));
    for (error, code, reason, path) in table() {
        let status = Status::from(reading(error));
        assert_eq!(
            (status.code(), info(&status).reason.as_str()),
            (code, reason)
        );
        assert_eq!(field(&status).as_deref(), path);
    }
}

#[test]
fn every_error_has_its_code_its_reason_and_its_field() {
    for (error, code, reason, path) in table() {
        let case = format!("{error:?}");
        let status = Status::from(error);
        let ErrorInfo {
            reason: given,
            domain,
            ..
        } = info(&status);
        assert_eq!((status.code(), given.as_str()), (code, reason), "{case}");
        assert_eq!(domain, "assent");
        assert_eq!(field(&status).as_deref(), path, "{case}");
        let winner: Option<pb::Suspension> = detail(&status, "assent.v1.Suspension");
        assert_eq!(winner.is_some(), reason == "ALREADY_RESOLVED", "{case}");
        let rich = rich(&status);
        assert_eq!(
            (rich.code, rich.message.as_str()),
            (code.into(), status.message())
        );
    }
}

#[test]
fn a_batch_shows_the_same_code_reason_and_message() {
    for ((error, code, reason, _), (again, ..)) in table().into_iter().zip(table()) {
        let status = Status::from(error);
        let shown = pb::BatchDecideError::from(Problem::from(again));
        assert_eq!(shown.code, i32::from(code));
        assert_eq!(
            (shown.reason.as_str(), shown.message.as_str()),
            (reason, status.message())
        );
    }
}

#[test]
fn clients_never_read_what_the_store_says() {
    for (error, _, reason, _) in table() {
        let status = Status::from(error);
        assert!(!status.message().contains("secret"), "{reason}");
        assert!(
            !String::from_utf8_lossy(status.details()).contains("secret"),
            "{reason}"
        );
    }
}

#[test]
fn the_log_has_every_cause_once() {
    let inner = Box::new(Cause("connection refused", None));
    let error = StoreError::Unavailable(Box::new(Cause("no node answers", Some(inner))));
    assert_eq!(
        chain(&error),
        "the store did not answer: no node answers: connection refused"
    );
}

#[test]
fn a_bad_field_is_described_without_its_path() {
    let status = Status::from(InvalidField::new("call.tool", "must not be empty"));
    assert_eq!(status.message(), "`call.tool`: must not be empty");
    let bad: BadRequest = detail(&status, "google.rpc.BadRequest").unwrap();
    let violation = bad.field_violations.first().unwrap();
    assert_eq!(
        (violation.field.as_str(), violation.description.as_str()),
        ("call.tool", "must not be empty")
    );
}

#[test]
fn the_metadata_names_the_suspension_or_the_limit() {
    let metadata = |error: EngineError| {
        let metadata = info(&Status::from(error)).metadata;
        metadata.into_iter().collect::<BTreeMap<_, _>>()
    };
    let named = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    assert_eq!(
        metadata(refused(Refusal::Expired)),
        named("suspension_id", ID)
    );
    let id = SuspensionId::parse(ID).unwrap();
    assert_eq!(
        metadata(EngineError::CallIdReused(id)),
        named("suspension_id", ID)
    );
    let full = EngineError::TooManyPending {
        whose: "the run",
        limit: 7,
    };
    assert_eq!(metadata(full), named("limit", "7"));
}

#[test]
fn the_winner_is_told_by_id_kind_status_version_and_resolution() {
    let mut winner = suspension();
    winner.state.status = Progress::Denied;
    winner.state.resolution = Some(Resolution {
        grant_id: None,
        by: Id::parse("ann").unwrap(),
        by_roles: vec!["manager".to_owned()],
        resolve_time: Timestamp::from_millis(1_500),
        answer: Some(Answer::Approval(Approval {
            approved: false,
            reason: "no".to_owned(),
            edited_arguments: None,
            grant_scope: GrantScope::Once,
        })),
        reason: "no".to_owned(),
        outcome: Some(Outcome::denied("no")),
    });
    let status = Status::from(EngineError::Refused {
        refusal: Refusal::AlreadyResolved,
        suspension: Box::new(winner),
    });
    let told: pb::Suspension = detail(&status, "assent.v1.Suspension").unwrap();
    let expected = pb::Suspension {
        id: ID.to_owned(),
        kind: pb::SuspensionKind::Approval.into(),
        status: pb::SuspensionStatus::Denied.into(),
        version: 2,
        resolution: Some(pb::Resolution {
            by: "ann".to_owned(),
            by_roles: vec!["manager".to_owned()],
            resolve_time: Some(prost_types::Timestamp {
                seconds: 1,
                nanos: 500_000_000,
            }),
            approved: Some(false),
            reason: "no".to_owned(),
            kind: "denied".to_owned(),
            message_for_model: Outcome::denied("no").message_for_model,
            ..Default::default()
        }),
        ..Default::default()
    };
    assert_eq!(told, expected);
}

#[test]
fn the_nastiest_status_fits_in_trailers() {
    for c in ['x', '%', '"', 'é', '退', '🦀'] {
        let winner = EngineError::Refused {
            refusal: Refusal::AlreadyResolved,
            suspension: Box::new(denied(c)),
        };
        let text = c.to_string().repeat(100_000);
        let id = Id::parse(&c.to_string().repeat(256)).unwrap();
        let errors = [
            winner,
            EngineError::PolicyDenied(text.clone()),
            EngineError::Invalid {
                field: "scope.principal.attributes",
                message: text.clone(),
            },
            EngineError::NotFound(text.clone()),
            refused(Refusal::AlreadyClaimed(id.clone())),
            refused(Refusal::InDoubt(id)),
            refused(Refusal::NotEligible(vec![text; 64])),
        ];
        for error in errors {
            let status = Status::from(error);
            assert!(
                size(&status) < LIMIT,
                "{c:?} {} {}",
                size(&status),
                status.message()
            );
        }
    }
}

#[test]
fn the_sum_of_all_limits_fits_in_trailers() {
    // A winner beside a message as long as one may be, which no refusal has.
    let problem = Problem {
        message: cut_message(&"x".repeat(10_000)),
        ..Problem::from(EngineError::Refused {
            refusal: Refusal::AlreadyResolved,
            suspension: Box::new(denied('x')),
        })
    };
    let size = size(&Status::from(problem));
    assert!(size < LIMIT, "{size}");
}

proptest! {
    #[test]
    fn every_text_fits_in_trailers(text in "\\PC{0,2000}", path in 0..3usize) {
        let field = ["call.arguments_json", "by", "scope.principal.roles[63]"][path];
        let status = Status::from(InvalidField::new(field, &text));
        prop_assert!(size(&status) < LIMIT);
        prop_assert_eq!(info(&status).reason, "INVALID_REQUEST");
        let status = Status::from(EngineError::PolicyDenied(text));
        prop_assert!(size(&status) < LIMIT);
    }
}
