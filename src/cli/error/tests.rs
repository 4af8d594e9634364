//! Statuses to sentences, compared whole.

use std::collections::HashMap;

use tonic_types::{ErrorDetails, pb as rpc};

use super::*;

const NOW: Timestamp = Timestamp {
    seconds: 1_767_348_180,
    nanos: 0,
};

fn refused(code: tonic::Code, reason: &str, message: &str) -> String {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, ERROR_DOMAIN, HashMap::new());
    read(&tonic::Status::with_error_details(code, message, details))
}

fn read(status: &tonic::Status) -> String {
    CliError::from_status(status, "127.0.0.1:1", &NOW).to_string()
}

/// A status whose details hold an `ErrorInfo` and one message more.
fn with_winner(winner: &pb::Suspension) -> tonic::Status {
    let info = rpc::ErrorInfo {
        reason: "ALREADY_RESOLVED".to_owned(),
        domain: ERROR_DOMAIN.to_owned(),
        metadata: [].into(),
    };
    let any = |name: &str, value| prost_types::Any {
        type_url: format!("type.googleapis.com/{name}"),
        value,
    };
    let details = rpc::Status {
        code: tonic::Code::FailedPrecondition.into(),
        message: "the suspension was already resolved".to_owned(),
        details: vec![
            any("google.rpc.ErrorInfo", info.encode_to_vec()),
            any("assent.v1.Suspension", winner.encode_to_vec()),
        ],
    };
    tonic::Status::with_details(
        tonic::Code::FailedPrecondition,
        details.message.clone(),
        details.encode_to_vec().into(),
    )
}

#[test]
fn a_refusal_says_what_is_wrong_what_to_do_and_the_reason() {
    assert_eq!(
        refused(
            tonic::Code::NotFound,
            "SUSPENSION_NOT_FOUND",
            "no suspension has the id `x`"
        ),
        "no suspension has the id `x`; `assent pending` lists the open ones (NOT_FOUND / SUSPENSION_NOT_FOUND)"
    );
    assert_eq!(
        refused(
            tonic::Code::Unavailable,
            "STORE_UNAVAILABLE",
            "busy: try again"
        ),
        "busy: try again (UNAVAILABLE / STORE_UNAVAILABLE)"
    );
    assert_eq!(
        refused(tonic::Code::Aborted, "NEW_REASON", "odd\u{1b}[1m"),
        "odd\\u{1b}[1m (ABORTED / NEW_REASON)"
    );
}

#[test]
fn a_bad_field_is_named_once() {
    let status = |message: &str| {
        let mut details = ErrorDetails::new();
        details.set_error_info("INVALID_REQUEST", ERROR_DOMAIN, HashMap::new());
        details.add_bad_request_violation("call.tool", "must not be empty");
        tonic::Status::with_error_details(tonic::Code::InvalidArgument, message, details)
    };
    let expected = "`call.tool`: must not be empty (INVALID_ARGUMENT / INVALID_REQUEST)";
    assert_eq!(read(&status("`call.tool`: must not be empty")), expected);
    assert_eq!(read(&status("bad")), format!("bad; {expected}"));
}

#[test]
fn who_won_is_told() {
    let mut winner = pb::Suspension {
        id: "i-1".to_owned(),
        status: pb::SuspensionStatus::Denied.into(),
        resolution: Some(pb::Resolution {
            by: "bob, the \u{202e}boss".to_owned(),
            resolve_time: Some(Timestamp {
                seconds: 1_767_348_000,
                nanos: 5,
            }),
            reason: "too\nmuch".to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    assert_eq!(
        read(&with_winner(&winner)),
        "nothing was changed: it is denied already, by \"bob, the \\u{202e}boss\" at 2026-01-02T10:00:00Z \
         (3m ago), reason: `too\\nmuch`; `assent show ID` has the rest (FAILED_PRECONDITION / ALREADY_RESOLVED)"
    );
    winner.resolution = None;
    assert_eq!(
        read(&with_winner(&winner)),
        "nothing was changed: it is denied already; `assent show ID` has the rest \
         (FAILED_PRECONDITION / ALREADY_RESOLVED)"
    );
    assert_eq!(
        refused(
            tonic::Code::FailedPrecondition,
            "ALREADY_RESOLVED",
            "it was already resolved"
        ),
        "it was already resolved; `assent show ID` has the rest (FAILED_PRECONDITION / ALREADY_RESOLVED)"
    );
}

#[test]
fn what_is_no_error_of_assent_is_told_apart() {
    assert_eq!(
        read(&tonic::Status::unimplemented("no such service")),
        "what answers at 127.0.0.1:1 is no Assent server, or one of another version: no such service \
         (UNIMPLEMENTED)"
    );
    assert_eq!(
        read(&tonic::Status::deadline_exceeded("")),
        "the server at 127.0.0.1:1 did not answer in time, and whether anything was changed is not known: \
         look with `assent pending` before you repeat it (DEADLINE_EXCEEDED)"
    );
    let broken = tonic::Status::from_error(Box::new(io::Error::other("reset")));
    assert_eq!(
        read(&broken),
        "no answer from an Assent server at 127.0.0.1:1, and whether anything was changed is not known: \
         look with `assent pending` before you repeat it (reset)"
    );
}

#[test]
fn a_wrong_command_line_has_the_exit_code_of_clap() {
    let refusal = CliError::from_status(&tonic::Status::internal(""), "a", &NOW);
    assert_eq!(refusal.code(), 1);
    assert_eq!(CliError::Address("a".to_owned()).code(), 2);
    assert_eq!(
        CliError::Address("a\u{7}".to_owned()).to_string(),
        "`a\\u{7}` is no server address: write host:port, http://host:port or unix:PATH"
    );
}
