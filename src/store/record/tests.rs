//! How records are spelled, and how large they may be.

use uuid::Uuid;

use super::*;
use crate::domain::{Id, OnExpiry, Scope};
use crate::suspension::{
    Answer, ClaimRecord, Completion, Execution, MAX_CLAIMS, Matter, Question, Resolution, Status,
    Subject, Vote, Wait, Withdrawal,
};

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
fn a_record_of_a_format_that_is_not_known_is_refused_and_not_guessed_at() {
    let id = SuspensionId::new(Uuid::nil(), 7);
    let body = encode_body(id, &wait(Matter::SignIn(Vec::new()))).unwrap();
    let state = encode_state(id, &State::pending()).unwrap();
    assert!(stored(FORMAT, &body, &state).decode().is_ok());
    for other in [0, FORMAT + 1] {
        let error = stored(other, &body, &state).decode().unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }));
    }
}

#[test]
fn a_record_with_a_field_too_few_is_corrupt() {
    let id = SuspensionId::new(Uuid::nil(), 7);
    let body = encode_body(id, &wait(Matter::SignIn(Vec::new()))).unwrap();
    let state = serde_json::to_value(State::pending()).unwrap();
    for field in ["status", "execution", "votes", "claims", "changed"] {
        let mut less = state.clone();
        less.as_object_mut().unwrap().remove(field).unwrap();
        let error = stored(FORMAT, &body, &less.to_string()).decode();
        assert!(matches!(error, Err(StoreError::Corrupt { .. })), "{field}");
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
