//! Why a client command failed, in one sentence that says what to do next.

use std::error::Error;
use std::fmt::Write;
use std::io;
use std::path::PathBuf;

use prost::Message;
use prost_types::Timestamp;
use serde_json::json;
use tonic_types::StatusExt;

use super::json::JsonError;
use super::{text, time, view};
use crate::pb;
use crate::policy::PolicyError;
use crate::policy::import::ImportError;
use crate::policy_source::PolicySourceError;

/// The domain of Assent's own `google.rpc.ErrorInfo` details.
const ERROR_DOMAIN: &str = "assent";

/// Why a client command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// `--server` holds no address.
    #[error(
        "`{}` is no server address: write host:port, http://host:port or unix:PATH",
        text::line(.0)
    )]
    Address(String),
    /// `--server` asks for TLS.
    #[error(
        "`{}` asks for TLS, which this client does not speak: write http://, or reach the server over a tunnel",
        text::line(.0)
    )]
    Tls(String),
    /// `--args-file` cannot be read.
    #[error("cannot read the arguments from `{}`: {source}", text::line(&path.to_string_lossy()))]
    ArgumentsFile {
        /// The file as it was named.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A flag that takes JSON was given, and is empty.
    #[error("`{0}` is empty: write `{{}}` for no arguments, or leave the flag out")]
    EmptyJson(&'static str),
    /// A file cannot be read.
    #[error("cannot read `{}`: {source}", text::line(&path.to_string_lossy()))]
    Unreadable {
        /// The file as it was named.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What `check` was asked about cannot be used.
    #[error("{}", text::line(&.0.to_string()))]
    Check(PolicySourceError),
    /// A policy that another command needs cannot be used.
    #[error("{}", text::line(&.0.to_string()))]
    Policy(PolicySourceError),
    /// A file of test cases cannot be used.
    #[error("{}", text::line(&.0.to_string()))]
    Cases(PolicyError),
    /// A file of test cases names no policy, and no flag does.
    #[error(
        "`{}` names no policy: write `policy: FILE` in it, or say `--policy`",
        text::line(&.0.to_string_lossy())
    )]
    NoPolicy(PathBuf),
    /// A directory has no test cases: that is no test which passes.
    #[error(
        "`{}` has no test: write at least one visible file in it that ends in `_test.yaml` or `_test.yml`",
        text::line(&.0.to_string_lossy())
    )]
    NoCases(PathBuf),
    /// A policy cannot be imported.
    #[error("cannot import `{}`: {}", text::line(&path.to_string_lossy()), text::line(&source.to_string()))]
    Import {
        /// The file as it was named.
        path: PathBuf,
        /// Why.
        source: ImportError,
    },
    /// One question was answered twice.
    #[error("`{}` is answered twice: give one `--answer` for each question", text::line(.0))]
    AnsweredTwice(String),
    /// Nothing listens there.
    #[error(
        "no Assent server answers at {address}: start one with `assent serve`, or say where with `--server` ({cause})"
    )]
    Unreachable {
        /// The address as it was named, safe to print.
        address: String,
        /// What the system said.
        cause: String,
    },
    /// No answer in time.
    #[error(
        "the server at {address} did not answer in time, and whether anything was changed is not known: \
         look with `assent pending` before you repeat it (DEADLINE_EXCEEDED)"
    )]
    TimedOut {
        /// The address as it was named, safe to print.
        address: String,
    },
    /// The connection broke, or what listens there speaks something else.
    #[error(
        "no answer from an Assent server at {address}, and whether anything was changed is not known: \
         look with `assent pending` before you repeat it ({cause})"
    )]
    Broken {
        /// The address as it was named, safe to print.
        address: String,
        /// What the system or the peer said, safe to print.
        cause: String,
    },
    /// A gRPC error that is none of Assent's.
    #[error(
        "what answers at {address} is no Assent server, or one of another version: {message} ({code})"
    )]
    Foreign {
        /// The address as it was named, safe to print.
        address: String,
        /// The gRPC status code's name.
        code: &'static str,
        /// What it said, safe to print.
        message: String,
    },
    /// The server refused the request.
    #[error("{0}")]
    Refused(Refusal),
    /// The server was asked for the health of what it does not have.
    #[error("the server at {address} has no health entry `{service}`")]
    NoHealthEntry {
        /// The address as it was named, safe to print.
        address: String,
        /// Which entry, safe to print.
        service: String,
    },
    /// The answer could not be put into JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// Standard output cannot be written.
    #[error("cannot write the answer: {0}")]
    Output(#[source] io::Error),
}

impl CliError {
    /// The exit code: 2 if the command line is wrong, as clap has it, else 1.
    pub fn code(&self) -> u8 {
        match self {
            Self::Address(_)
            | Self::Tls(_)
            | Self::ArgumentsFile { .. }
            | Self::EmptyJson(_)
            | Self::Unreadable { .. }
            | Self::Policy(_)
            | Self::Cases(_)
            | Self::NoPolicy(_)
            | Self::NoCases(_)
            | Self::AnsweredTwice(_) => 2,
            Self::Check(_)
            | Self::Import { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Broken { .. }
            | Self::Foreign { .. }
            | Self::Refused(_)
            | Self::NoHealthEntry { .. }
            | Self::Json(_)
            | Self::Output(_) => 1,
        }
    }

    /// The error for scripts: one line of JSON, with what the server's error had of code, reason and fields.
    pub fn to_json(&self) -> String {
        let error = if let Self::Refused(refusal) = self {
            let violations: Vec<_> = refusal
                .violations
                .iter()
                .map(|(field, description)| json!({"field": field, "description": description}))
                .collect();
            json!({
                "code": refusal.code,
                "reason": refusal.reason,
                "message": refusal.sentence,
                "next": refusal.next,
                "fieldViolations": violations,
            })
        } else {
            json!({"code": self.status_code(), "message": self.to_string()})
        };
        json!({ "error": error }).to_string()
    }

    /// The name of the gRPC status code where the server, or the way to it, is at fault.
    fn status_code(&self) -> Option<&'static str> {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } => Some("UNAVAILABLE"),
            Self::NoHealthEntry { .. } => Some("NOT_FOUND"),
            Self::TimedOut { .. } => Some("DEADLINE_EXCEEDED"),
            Self::Foreign { code, .. } => Some(code),
            Self::Refused(refusal) => Some(refusal.code),
            Self::Address(_)
            | Self::Tls(_)
            | Self::ArgumentsFile { .. }
            | Self::EmptyJson(_)
            | Self::AnsweredTwice(_)
            | Self::Unreadable { .. }
            | Self::Check(_)
            | Self::Policy(_)
            | Self::Cases(_)
            | Self::NoPolicy(_)
            | Self::NoCases(_)
            | Self::Import { .. }
            | Self::Json(_)
            | Self::Output(_) => None,
        }
    }

    /// Reads the status that a call ended with; `address` is safe to print.
    pub(super) fn from_status(status: &tonic::Status, address: &str, now: &Timestamp) -> Self {
        let code = code_name(status.code());
        let address = address.to_owned();
        let ours = status
            .get_details_error_info()
            .filter(|info| info.domain == ERROR_DOMAIN);
        if let Some(info) = ours {
            return Self::Refused(Refusal {
                code,
                sentence: sentence(status, &info.reason, now),
                next: next_step(&info.reason),
                violations: violations(status),
                reason: text::line(&info.reason),
            });
        }
        if let Some(source) = status.source() {
            // No status came over the wire: tonic made this one up from an error of the connection.
            let cause = text::line(&root_cause(source));
            return Self::Broken { address, cause };
        }
        let message = text::line(status.message());
        match status.code() {
            tonic::Code::DeadlineExceeded => Self::TimedOut { address },
            tonic::Code::Unavailable | tonic::Code::Cancelled => Self::Broken {
                address,
                cause: message,
            },
            _ => Self::Foreign {
                address,
                code,
                message,
            },
        }
    }
}

/// What lies under tonic's "transport error": what the system said.
pub(super) fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// An error that the server answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The gRPC status code's name.
    code: &'static str,
    /// The reason of its `ErrorInfo`.
    reason: String,
    /// What is wrong.
    sentence: String,
    /// What to do about it; empty if there is nothing to say.
    next: &'static str,
    /// The fields that are wrong, and how.
    violations: Vec<(String, String)>,
}

impl Refusal {
    /// The reason of the error's `google.rpc.ErrorInfo`, such as `ALREADY_RESOLVED`.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            code,
            reason,
            sentence,
            next,
            violations: _,
        } = self;
        f.write_str(sentence)?;
        if !next.is_empty() && !sentence.contains(next) {
            write!(f, "; {next}")?;
        }
        write!(f, " ({code} / {reason})")
    }
}

/// The server's own words, with the fields it names and, where somebody else was first, who and when.
fn sentence(status: &tonic::Status, reason: &str, now: &Timestamp) -> String {
    if reason == "ALREADY_RESOLVED"
        && let Some(winner) = winner(status)
    {
        return resolved(&winner, now);
    }
    let mut sentence = text::line(status.message());
    for (field, description) in violations(status) {
        if !sentence.contains(&field) || !sentence.contains(&description) {
            // Writing to a String does not fail.
            let _ = write!(sentence, "; `{field}`: {description}");
        }
    }
    sentence
}

/// The fields that the server names, and what is wrong with each.
fn violations(status: &tonic::Status) -> Vec<(String, String)> {
    let bad_request = status.get_details_bad_request();
    let violations = bad_request.map(|bad| bad.field_violations);
    let violations = violations.unwrap_or_default().into_iter();
    violations
        .map(|violation| {
            (
                text::line(&violation.field),
                text::line(&violation.description),
            )
        })
        .collect()
}

/// The suspension as it was resolved, which `ALREADY_RESOLVED` carries beside the usual details.
fn winner(status: &tonic::Status) -> Option<pb::Suspension> {
    let details = tonic_types::pb::Status::decode(status.details())
        .ok()?
        .details;
    let any = details
        .iter()
        .find(|any| any.type_url.ends_with("/assent.v1.Suspension"))?;
    pb::Suspension::decode(any.value.as_slice()).ok()
}

fn resolved(winner: &pb::Suspension, now: &Timestamp) -> String {
    let mut sentence = format!(
        "nothing was changed: it is {} already",
        view::status(winner.status)
    );
    let Some(resolution) = &winner.resolution else {
        return sentence;
    };
    // Writing to a String does not fail.
    if !resolution.by.is_empty() {
        let _ = write!(sentence, ", by {}", text::name(&resolution.by));
    }
    if let Some(resolve_time) = &resolution.resolve_time {
        let _ = write!(sentence, " at {}", time::absolute(resolve_time, now));
    }
    if !resolution.reason.is_empty() {
        let _ = write!(sentence, ", reason: `{}`", text::line(&resolution.reason));
    }
    sentence
}

/// What the person at the terminal can do about an error, beside what the server says itself.
fn next_step(reason: &str) -> &'static str {
    match reason {
        "ACCESS_DENIED" => "name the tenant it belongs to with `--tenant`",
        "ALREADY_CLAIMED" | "APPROVAL_STALE" | "SUSPENSION_EXPIRED" => {
            "for another question, `assent decide` with a new `--call-id`"
        }
        "ALREADY_RESOLVED" => "`assent show ID` has the rest",
        "APPROVER_NOT_ELIGIBLE" => "say your roles with `--role`",
        "DIGEST_MISMATCH" => "`assent show ID` shows it",
        "IN_DOUBT" => {
            "that is `assent complete ID --attempt A --outcome O`, or `assent claim ID --attempt NEW_ID --force --by YOU`"
        }
        "KIND_MISMATCH" => "`approve` and `deny` answer approvals only, see `assent show ID`",
        "NOT_APPROVED" => "`assent show ID` tells how it stands",
        "NOT_CLAIMED" => "first `assent claim ID` with the same `--attempt`",
        "POLICY_DENIED" => "no approval overrules that",
        "POLICY_UNAVAILABLE" | "STORE_UNAVAILABLE" => "try again",
        "SUSPENSION_NOT_FOUND" => "`assent pending` lists the open ones",
        "TOO_MANY_PENDING" => "`assent pending` lists them",
        _ => "",
    }
}

fn code_name(code: tonic::Code) -> &'static str {
    match code {
        tonic::Code::Ok => "OK",
        tonic::Code::Cancelled => "CANCELLED",
        tonic::Code::Unknown => "UNKNOWN",
        tonic::Code::InvalidArgument => "INVALID_ARGUMENT",
        tonic::Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        tonic::Code::NotFound => "NOT_FOUND",
        tonic::Code::AlreadyExists => "ALREADY_EXISTS",
        tonic::Code::PermissionDenied => "PERMISSION_DENIED",
        tonic::Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        tonic::Code::FailedPrecondition => "FAILED_PRECONDITION",
        tonic::Code::Aborted => "ABORTED",
        tonic::Code::OutOfRange => "OUT_OF_RANGE",
        tonic::Code::Unimplemented => "UNIMPLEMENTED",
        tonic::Code::Internal => "INTERNAL",
        tonic::Code::Unavailable => "UNAVAILABLE",
        tonic::Code::DataLoss => "DATA_LOSS",
        tonic::Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests;
