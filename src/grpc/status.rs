//! Errors on the wire: the one place where a `tonic::Status` is made.
//!
//! Every error has a gRPC code and a `google.rpc.ErrorInfo`, a bad field a `google.rpc.BadRequest` too
//! (S9). Clients never read the text of an internal error: that goes to the log, with all its causes.
//!
//! A status travels in HTTP/2 trailers, and gRPC cores drop those past 8 KiB. What is put in here is cut so
//! that none passes 6 KiB: see `size`.

mod size;

use std::error::Error;

use http::HeaderMap;
use prost::Message;
use tonic::{Code, Status};
use tonic_types::pb::bad_request::FieldViolation;
use tonic_types::pb::{BadRequest, ErrorInfo};

use self::size::{cut_message, trim_resolution};
use super::convert::field::{FieldPath, InvalidField};
use super::convert::response;
use crate::engine::EngineError;
use crate::pb;
use crate::store::StoreError;
use crate::suspension::{Refusal, Suspension};

/// The domain of every `ErrorInfo`.
const DOMAIN: &str = "assent";

/// What an RPC, or one request of a batch, ends with when it has no answer.
#[derive(Debug)]
pub(super) struct Problem {
    code: Code,
    reason: &'static str,
    message: String,
    field: Option<InvalidField>,
    metadata: Vec<(&'static str, String)>,
    winner: Option<Box<pb::Suspension>>,
}

impl Problem {
    fn new(code: Code, reason: &'static str, message: &str) -> Self {
        Self {
            code,
            reason,
            message: cut_message(message),
            field: None,
            metadata: Vec::new(),
            winner: None,
        }
    }

    fn about(self, path: impl Into<FieldPath>, message: &str) -> Self {
        Self {
            field: Some(InvalidField::new(path, cut_message(message))),
            ..self
        }
    }

    fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.metadata.push((key, value.to_string()));
        self
    }
}

/// What a call ends with that took longer than it may, or than its client waits.
pub(super) fn late() -> Status {
    let text = "the call took too long, so it is not known whether anything was recorded: send the same request again";
    Problem::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", text).into()
}

/// The status that an answer ought to have whose headers have one without details: tonic made it, as nothing here does.
/// `None` when there is nothing to add, as for every answer of a method.
pub(super) fn completed(headers: &HeaderMap) -> Option<Status> {
    if !headers.contains_key(Status::GRPC_STATUS) {
        return None;
    }
    let status = Status::from_header_map(headers)?;
    if status.code() == Code::Ok || !status.details().is_empty() {
        return None;
    }
    let text = status.message();
    let problem = match status.code() {
        // The bytes of the request are no message of the method.
        Code::Internal => {
            let text = format!("the request cannot be read: {text}");
            Problem::new(Code::InvalidArgument, "INVALID_REQUEST", &text)
        }
        Code::OutOfRange => {
            let text = format!("the request is too large: {text}");
            Problem::new(Code::InvalidArgument, "INVALID_REQUEST", &text)
        }
        Code::Unimplemented if text.is_empty() => Problem::new(
            Code::Unimplemented,
            "UNIMPLEMENTED",
            "this version serves no such method",
        ),
        Code::Unimplemented => Problem::new(Code::Unimplemented, "UNIMPLEMENTED", text),
        code => Problem::new(code, "INTERNAL", text),
    };
    Some(problem.into())
}

impl From<InvalidField> for Problem {
    fn from(error: InvalidField) -> Self {
        let text = error.to_string();
        let InvalidField { path, message } = error;
        Self::new(Code::InvalidArgument, "INVALID_REQUEST", &text).about(path, &message)
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let text = error.to_string();
        match error {
            EngineError::Invalid { field, message } => InvalidField::new(field, message).into(),
            EngineError::NotFound(_) => Self::new(Code::NotFound, "SUSPENSION_NOT_FOUND", &text),
            EngineError::GrantNotFound(_) => Self::new(Code::NotFound, "GRANT_NOT_FOUND", &text),
            EngineError::AccessDenied | EngineError::GrantAccessDenied => {
                Self::new(Code::PermissionDenied, "ACCESS_DENIED", &text)
            }
            EngineError::Refused {
                refusal,
                suspension,
            } => refused(&refusal, *suspension),
            EngineError::CallIdReused(recorded) => {
                Self::new(Code::AlreadyExists, "CALL_ID_REUSED", &text)
                    .with("suspension_id", recorded)
            }
            EngineError::Closed => {
                Self::new(Code::FailedPrecondition, "SUSPENSION_CANCELLED", &text)
            }
            EngineError::TooLarge(_) => Self::new(Code::InvalidArgument, "INVALID_REQUEST", &text),
            EngineError::TooManyPending { whose: _, limit } => {
                Self::new(Code::ResourceExhausted, "TOO_MANY_PENDING", &text).with("limit", limit)
            }
            EngineError::PolicyDenied(_) => {
                Self::new(Code::FailedPrecondition, "POLICY_DENIED", &text)
            }
            EngineError::ApprovalInsufficient => {
                Self::new(Code::FailedPrecondition, "APPROVAL_INSUFFICIENT", &text)
            }
            EngineError::Store(error) => store(
                &error,
                "the store gave no answer, so it is not known whether anything was recorded: \
                 send the same request again (a Decide without run id and call id may then ask twice)",
            ),
            EngineError::PolicyUnavailable(_) => {
                Self::new(Code::Unavailable, "POLICY_UNAVAILABLE", &text)
            }
            EngineError::Busy => Self::new(
                Code::Unavailable,
                "STORE_UNAVAILABLE",
                "too many JSON Schemas are being checked, and nothing was recorded: try again",
            ),
            EngineError::Missed => Self::new(Code::Unavailable, "STORE_UNAVAILABLE", &text),
            // Nothing was written, and trying again is all that a client can do, as when the store is
            // away: clients that retry `UNAVAILABLE` by themselves do the right thing.
            EngineError::Contended => Self::new(
                Code::Unavailable,
                "STORE_UNAVAILABLE",
                "the suspension is being changed too fast, and nothing was recorded: try again",
            ),
        }
    }
}

fn refused(refusal: &Refusal, suspension: Suspension) -> Problem {
    let text = refusal.to_string();
    let id = suspension.id;
    let failed = |reason| Problem::new(Code::FailedPrecondition, reason, &text);
    let barred = |reason| Problem::new(Code::PermissionDenied, reason, &text);
    let problem = match refusal {
        Refusal::Expired => failed("SUSPENSION_EXPIRED"),
        Refusal::Cancelled => failed("SUSPENSION_CANCELLED"),
        Refusal::AlreadyResolved => Problem {
            winner: Some(Box::new(trim_resolution(response::winner(suspension)))),
            ..failed("ALREADY_RESOLVED")
        },
        Refusal::KindMismatch(message) => {
            Problem::new(Code::InvalidArgument, "KIND_MISMATCH", &text).about("answer", message)
        }
        Refusal::DigestMismatch => failed("DIGEST_MISMATCH"),
        Refusal::Invalid { field, message } => InvalidField::new(*field, message).into(),
        Refusal::NotEligible(_) => barred("APPROVER_NOT_ELIGIBLE"),
        Refusal::SelfApproval(_) => barred("SELF_APPROVAL"),
        Refusal::NotApproved => failed("NOT_APPROVED"),
        Refusal::AlreadyClaimed(_) => failed("ALREADY_CLAIMED"),
        Refusal::InDoubt(_) | Refusal::TakenOverTooOften => failed("IN_DOUBT"),
        Refusal::Stale => failed("APPROVAL_STALE"),
        Refusal::NotClaimed => failed("NOT_CLAIMED"),
    };
    problem.with("suspension_id", id)
}

/// As [`Problem::from`], for what changes nothing that the client asked to change.
pub(super) fn reading(error: EngineError) -> Problem {
    match error {
        EngineError::Store(error) => store(
            &error,
            "the store gave no answer, so there is nothing to read now: try again",
        ),
        error => error.into(),
    }
}

/// The store's own words are for the log; the client reads `text`.
fn store(error: &StoreError, text: &str) -> Problem {
    let reason = match error {
        StoreError::Unavailable(_) => "the store gave no answer",
        StoreError::Corrupt { .. } => "the store holds a record that cannot be read",
        StoreError::Unusable(_) => "the store cannot be used",
    };
    tracing::error!(error = chain(error), "{reason}");
    Problem::new(Code::Unavailable, "STORE_UNAVAILABLE", text)
}

/// An error with its causes, each told once: many errors end with the text of their cause.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

impl From<Problem> for Status {
    fn from(problem: Problem) -> Self {
        let Problem {
            code,
            reason,
            message,
            field,
            metadata,
            winner,
        } = problem;
        let metadata = metadata.into_iter();
        let info = ErrorInfo {
            reason: reason.to_owned(),
            domain: DOMAIN.to_owned(),
            metadata: metadata
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        };
        let mut details = vec![any("google.rpc.ErrorInfo", &info)];
        if let Some(InvalidField { path, message }) = field {
            let violation = FieldViolation {
                field: path.into_owned(),
                description: message,
                reason: String::new(),
                localized_message: None,
            };
            let bad_request = BadRequest {
                field_violations: vec![violation],
            };
            details.push(any("google.rpc.BadRequest", &bad_request));
        }
        if let Some(winner) = winner {
            details.push(any("assent.v1.Suspension", winner.as_ref()));
        }
        // Clients compare the two messages, and refuse details in which they differ.
        let rich = tonic_types::Status {
            code: code.into(),
            message: message.clone(),
            details,
        };
        Self::with_details(code, message, rich.encode_to_vec().into())
    }
}

fn any(name: &str, message: &impl Message) -> prost_types::Any {
    prost_types::Any {
        type_url: format!("type.googleapis.com/{name}"),
        value: message.encode_to_vec(),
    }
}

impl From<InvalidField> for Status {
    fn from(error: InvalidField) -> Self {
        Problem::from(error).into()
    }
}

impl From<EngineError> for Status {
    fn from(error: EngineError) -> Self {
        Problem::from(error).into()
    }
}

impl From<Problem> for pb::BatchDecideError {
    fn from(problem: Problem) -> Self {
        let Problem {
            code,
            reason,
            message,
            field: _,
            metadata: _,
            winner: _,
        } = problem;
        Self {
            code: code.into(),
            reason: reason.to_owned(),
            message,
        }
    }
}

#[cfg(test)]
mod tests;
