//! How records are spelled, and how large they may be.

use uuid::Uuid;

use super::*;
use crate::domain::{Id, OnExpiry, Scope};
use crate::suspension::{
    Answer, ClaimRecord, Completion, Execution, MAX_CLAIMS, Matter, Question, Resolution, Status,
    Subject, Vote, Wait, Withdrawal,
};

/// An approval as the first release wrote it, word for word.
const APPROVAL: &str = r#"{"scope":{"tenant":"acme","principal":{"id":"zoe","roles":["clerk"],"attributes":{"site":"north"}},"session_id":"s","run_id":"r","parent_run_id":"","agent_path":["root"]},"subject":{"call":{"call_id":"c","step_id":"","tool":"client.open_case","server":"github","origin":"mcp","annotations":{"read_only_hint":false,"destructive_hint":null,"idempotent_hint":null,"open_world_hint":null,"title":"","labels":[]},"arguments":"{\"a\": 1.0}","in_program":false,"parent_call_id":""}},"risk_class":"destructive","title":"Open","reason":"why","arguments_digest":"9c5fcdf10ed4d1a6b9a4ad2fc1ee60dafa0ea2d5c8a2e2d9a6f1f7a0a1b2c3d4","on_expiry":"deny","approvers":{"roles":["lead"],"quorum":2,"exclude_requester":true},"matched_rule":"cases","policy_revision":"6ab1"}"#;
const APPROVED: &str = r#"{"status":"approved","execution":"claimed","votes":[{"by":"ann","by_roles":[],"vote_time":7,"reason":"ok"}],"resolution":{"by":"bob","by_roles":["lead"],"resolve_time":9,"answer":{"approval":{"approved":true,"reason":"fine","edited_arguments":"{\"a\":2}"}},"reason":"fine","outcome":null},"claims":[{"attempt_id":"w1","by":"","forced":false,"claim_time":10,"lease_expire_time":20,"outcome":null,"detail":""}],"withdrawal":null,"changed":10}"#;

fn stored<'a>(format: u32, body: &'a str, state: &'a str) -> Stored<'a> {
    Stored {
        id: SuspensionId::new(Uuid::nil(), 7),
        format,
        body: body.as_bytes(),
        state: state.as_bytes(),
        create_time: Timestamp::from_millis(1),
        expire_time: Timestamp::from_millis(100),
        version: 3,
    }
}

fn wait(matter: Matter) -> Body {
    Body {
        scope: Scope::default(),
        subject: Subject::Wait(Box::new(Wait {
            call_id: Id::default(),
            step_id: Id::default(),
            matter,
        })),
        risk_class: None,
        title: String::new(),
        reason: String::new(),
        arguments_digest: None,
        on_expiry: OnExpiry::Abandon,
        approvers: Default::default(),
        matched_rule: String::new(),
        policy_revision: String::new(),
    }
}

#[test]
fn an_approval_is_read_as_it_was_written_before_there_were_other_kinds() {
    let record = stored(1, APPROVAL, APPROVED).decode().unwrap();
    assert_eq!(format_of(&record.body), 1);
    assert_eq!(encode_body(record.id, &record.body).unwrap(), APPROVAL);
    let resolution = record.state.resolution.unwrap();
    let edited = record.state.claims.len() == 1 && resolution.answer.is_some();
    assert!(edited && resolution.grant_id.is_none());
}

#[test]
fn another_kind_is_of_a_format_that_the_release_before_leaves_alone() {
    let body = wait(Matter::SignIn(Vec::new()));
    assert_eq!(format_of(&body), FORMAT);
    let text = encode_body(SuspensionId::new(Uuid::nil(), 7), &body).unwrap();
    let state = encode_state(SuspensionId::new(Uuid::nil(), 7), &State::pending()).unwrap();
    assert!(stored(FORMAT, &text, &state).decode().is_ok());
    for other in [0, FORMAT + 1] {
        let error = stored(other, &text, &state).decode().unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }));
    }
}

/// A record that has no room left.
fn full() -> Body {
    let question = |bytes| Question {
        key: Id::default(),
        text: "x".repeat(bytes),
        options: Vec::new(),
        options_only: false,
    };
    let bare = bytes(
        &wait(Matter::Question(vec![question(0)])),
        &State::pending(),
    );
    let body = wait(Matter::Question(vec![question(
        MAX_BYTES - RESERVED - bare,
    )]));
    assert_eq!(bytes(&body, &State::pending()), MAX_BYTES - RESERVED);
    body
}

#[test]
fn what_callers_write_leaves_the_room_that_is_kept() {
    let mut body = full();
    let state = State::pending();
    assert_eq!(check_size(&body, &state), Ok(()));
    body.title.push('x');
    assert_eq!(check_size(&body, &state), Err(TooLarge(1)));
    let voted = State {
        votes: vec![Vote {
            by: Id::default(),
            by_roles: Vec::new(),
            vote_time: Timestamp::default(),
            reason: String::new(),
        }],
        ..State::pending()
    };
    assert!(check_size(&full(), &voted).is_err());
}

#[test]
fn every_claim_and_every_end_has_room() {
    // The longest ids and texts, of what takes the most room at rest.
    let id = || Id::required(&"\u{10348}".repeat(256)).unwrap();
    let text = || "\u{1}".repeat(8 * 1024);
    let time = Timestamp::from_millis(i64::MIN);
    let mut completed = State {
        status: Status::Approved,
        execution: Execution::Completed,
        changed: time,
        ..State::pending()
    };
    completed.claims = vec![
        ClaimRecord {
            attempt_id: id(),
            by: id(),
            forced: true,
            claim_time: time,
            lease_expire_time: time,
            outcome: None,
            detail: String::new(),
        };
        MAX_CLAIMS
    ];
    if let Some(last) = completed.claims.last_mut() {
        last.outcome = Some(Completion::Success);
        last.detail = text();
    }
    let cancelled = State {
        status: Status::Cancelled,
        resolution: Some(Resolution {
            by: id(),
            by_roles: Vec::new(),
            resolve_time: time,
            answer: None::<Answer>,
            reason: text(),
            outcome: Some(crate::outcome::Outcome::cancelled(&text())),
            grant_id: None,
        }),
        withdrawal: Some(Withdrawal {
            by: id(),
            reason: text(),
        }),
        ..State::pending()
    };
    for end in [completed, cancelled] {
        let whole = bytes(&full(), &end);
        assert!(whole <= MAX_BYTES, "{whole}");
        assert!(whole > MAX_BYTES - RESERVED);
    }
}
