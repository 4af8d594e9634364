//! The kinds of suspension that are no approval, over gRPC and on both stores: opening, every check of an
//! answer in its order, expiry, limits and sizes.

mod hostile;
mod opening;
mod sizes;

use std::time::Duration;

use assent::pb;
use assent::pb::SuspensionKind as Kind;
use assent::pb::resume_request::Answer;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::lifecycle::{World, in_run, on_both_stores};
use crate::wire;

on_both_stores! {
    an_answer_is_recorded_whole: "";
    the_checks_of_an_answer_come_in_their_order: "";
    an_answer_that_does_not_fit_is_refused_by_its_field: "";
    the_same_answer_again_is_a_duplicate_however_it_is_spelled: "";
    an_answer_is_no_approval: "";
    a_late_answer_expires_it: "";
    an_unanswered_wait_abandons_its_run: "";
    an_unanswered_wait_may_leave_its_run_alone: "";
    answers_of_all_kinds_race_and_one_wins: "";
    what_waits_is_listed_by_kind: "";
}

const KINDS: [Kind; 4] = [
    Kind::Question,
    Kind::External,
    Kind::ClientTool,
    Kind::SignIn,
];

/// A request of each kind, in a run of its own.
fn request(kind: Kind, call_id: &str) -> pb::SuspendRequest {
    let mut request = pb::SuspendRequest {
        scope: Some(pb::Scope {
            session_id: "s1".to_owned(),
            run_id: "r1".to_owned(),
            ..Default::default()
        }),
        kind: kind.into(),
        call_id: call_id.to_owned(),
        title: "A title".to_owned(),
        reason: "a reason".to_owned(),
        ..Default::default()
    };
    match kind {
        Kind::Question => {
            request.questions = vec![
                pb::Question {
                    key: "region".to_owned(),
                    text: "Which region?".to_owned(),
                    options: vec!["eu".to_owned(), "us".to_owned()],
                    options_only: true,
                },
                pb::Question {
                    key: "note".to_owned(),
                    text: "Anything else?".to_owned(),
                    options: vec!["no".to_owned()],
                    options_only: false,
                },
            ];
        }
        Kind::External => {
            request.event = "payment.settled".to_owned();
            request.payload_schema_json =
                r#"{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}"#
                    .to_owned();
        }
        Kind::ClientTool => {
            request.call = Some(pb::ToolCall {
                tool: "client.read_clipboard".to_owned(),
                arguments_json: r#"{"format": "text"}"#.to_owned(),
                ..Default::default()
            });
        }
        Kind::SignIn => request.sources = vec!["github".to_owned(), "jira".to_owned()],
        Kind::Approval | Kind::Unspecified => {}
    }
    request
}

fn said<const N: usize>(answers: [(&str, &str); N]) -> Answer {
    let answers = answers.map(|(key, text)| (key.to_owned(), text.to_owned()));
    Answer::Question(pb::QuestionAnswer {
        answers: answers.into(),
    })
}

fn payload(json: &str) -> Answer {
    Answer::External(pb::ExternalAnswer {
        payload_json: json.to_owned(),
    })
}

fn returned(json: &str) -> Answer {
    tool_end(pb::client_tool_answer::Result::ResultJson(json.to_owned()))
}

fn failed(error: &str) -> Answer {
    tool_end(pb::client_tool_answer::Result::Error(error.to_owned()))
}

fn tool_end(result: pb::client_tool_answer::Result) -> Answer {
    Answer::ClientTool(pb::ClientToolAnswer {
        result: Some(result),
    })
}

fn signed_in(connected: &[&str], denied: &[&str]) -> Answer {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Answer::SignIn(pb::SignInAnswer {
        connected: owned(connected),
        denied: owned(denied),
    })
}

fn yes() -> Answer {
    Answer::Approval(pb::Approval {
        approved: Some(true),
        ..Default::default()
    })
}

/// An answer that a suspension of [`request`] takes.
fn fitting(kind: Kind) -> Answer {
    match kind {
        Kind::Question => said([("region", "eu"), ("note", "")]),
        Kind::External => payload(r#"{"id": "p1", "n": 1.0}"#),
        Kind::ClientTool => returned(r#"["copied"]"#),
        Kind::SignIn => signed_in(&["github"], &["jira"]),
        Kind::Approval | Kind::Unspecified => yes(),
    }
}

/// One that it does not take, and the field that is wrong.
fn misfit(kind: Kind) -> (Answer, &'static str) {
    match kind {
        Kind::Question => (said([("region", "mars")]), "question.answers"),
        Kind::External => (payload(r#"{"id":1}"#), "external.payload_json"),
        Kind::ClientTool => (returned("{"), "client_tool.result_json"),
        Kind::SignIn => (signed_in(&["github"], &[]), "sign_in.connected"),
        Kind::Approval | Kind::Unspecified => (yes(), ""),
    }
}

fn by(who: &str, suspension: &pb::Suspension, answer: Answer) -> pb::ResumeRequest {
    pb::ResumeRequest {
        suspension_id: suspension.id.clone(),
        by: who.to_owned(),
        by_roles: vec!["desk".to_owned()],
        answer: Some(answer),
        ..Default::default()
    }
}

impl World {
    async fn suspend(&self, request: pb::SuspendRequest) -> Result<pb::Suspension, Status> {
        let answer = self.client.clone().suspend(request).await;
        answer.map(tonic::Response::into_inner)
    }

    async fn wait_for(&self, kind: Kind, call_id: &str) -> pb::Suspension {
        let opened = self.suspend(request(kind, call_id)).await.unwrap();
        assert_eq!(
            (opened.kind(), opened.status()),
            (kind, pb::SuspensionStatus::Pending)
        );
        opened
    }

    async fn resume(&self, request: pb::ResumeRequest) -> Result<pb::ResumeResponse, Status> {
        let answer = self.client.clone().resume(request).await;
        answer.map(tonic::Response::into_inner)
    }

    async fn accepted(&self, request: pb::ResumeRequest) -> pb::Suspension {
        let answer = self.resume(request).await.unwrap();
        assert_eq!(answer.outcome(), pb::ResumeOutcome::Accepted);
        answer.suspension.unwrap()
    }

    /// The code and the reason of a refusal.
    async fn refusal(&self, request: pb::ResumeRequest) -> (Code, String) {
        let status = self.resume(request).await.unwrap_err();
        (status.code(), wire::reason(&status))
    }
}

fn refused(code: Code, reason: &str) -> (Code, String) {
    (code, reason.to_owned())
}

fn fields(status: &Status) -> Vec<String> {
    let details = status.get_error_details();
    let bad = details
        .bad_request()
        .map(|bad| bad.field_violations.clone());
    let fields = bad.unwrap_or_default().into_iter();
    fields.map(|violation| violation.field).collect()
}

async fn an_answer_is_recorded_whole(world: World) {
    for kind in KINDS {
        let opened = world.wait_for(kind, "c1").await;
        let answered = world.accepted(by("ann", &opened, fitting(kind))).await;
        let resolution = answered.resolution.clone().unwrap();
        let mut expected = pb::Resolution {
            by: "ann".to_owned(),
            by_roles: vec!["desk".to_owned()],
            resolve_time: resolution.resolve_time,
            ..Default::default()
        };
        match kind {
            Kind::Question => {
                expected.answers = [
                    ("region".to_owned(), "eu".to_owned()),
                    ("note".to_owned(), String::new()),
                ]
                .into();
            }
            Kind::External => expected.payload_json = r#"{"id": "p1", "n": 1.0}"#.to_owned(),
            Kind::ClientTool => expected.tool_result_json = r#"["copied"]"#.to_owned(),
            Kind::SignIn => {
                expected.connected = vec!["github".to_owned()];
                expected.denied = vec!["jira".to_owned()];
            }
            Kind::Approval | Kind::Unspecified => {}
        }
        assert_eq!(resolution, expected);
        assert!(resolution.resolve_time.is_some());
        let settled = pb::Suspension {
            status: pb::SuspensionStatus::Answered.into(),
            resolution: Some(expected),
            version: 2,
            ..opened
        };
        assert_eq!(answered, settled);
        assert_eq!(world.read(&settled).await, settled);
    }
    let opened = world.wait_for(Kind::ClientTool, "c2").await;
    let answered = world
        .accepted(by("desktop", &opened, failed("no clipboard")))
        .await;
    let resolution = answered.resolution.unwrap();
    assert_eq!(
        (
            resolution.tool_result_json.as_str(),
            resolution.tool_error.as_str()
        ),
        ("", "no clipboard")
    );
}

async fn the_checks_of_an_answer_come_in_their_order(world: World) {
    for kind in KINDS {
        let opened = world.wait_for(kind, "c1").await;
        let wrong = || pb::ResumeRequest {
            // Wrong in everything that is checked later.
            arguments_digest: "00".repeat(32),
            ..by("ann", &opened, yes())
        };
        // 1. malformed
        let malformed = pb::ResumeRequest {
            by: String::new(),
            scope: tenant("other"),
            ..wrong()
        };
        assert_eq!(
            world.refusal(malformed).await,
            refused(Code::InvalidArgument, "INVALID_REQUEST")
        );
        // 2. unknown
        let unknown = pb::ResumeRequest {
            suspension_id: "0192f0c1-0000-7000-8000-000000000001".to_owned(),
            scope: tenant("other"),
            ..wrong()
        };
        assert_eq!(
            world.refusal(unknown).await,
            refused(Code::NotFound, "SUSPENSION_NOT_FOUND")
        );
        // 3. another tenant's
        let foreign = pb::ResumeRequest {
            scope: tenant("other"),
            ..wrong()
        };
        assert_eq!(
            world.refusal(foreign).await,
            refused(Code::PermissionDenied, "ACCESS_DENIED")
        );
        // 6. another kind, or none
        let others = [Kind::Approval].into_iter().chain(KINDS);
        for other in others.filter(|other| *other != kind) {
            let answer = pb::ResumeRequest {
                answer: Some(fitting(other)),
                ..wrong()
            };
            assert_eq!(
                world.refusal(answer).await,
                refused(Code::InvalidArgument, "KIND_MISMATCH"),
                "{kind:?} {other:?}"
            );
        }
        let none = pb::ResumeRequest {
            answer: None,
            ..wrong()
        };
        assert_eq!(
            world.refusal(none).await,
            refused(Code::InvalidArgument, "KIND_MISMATCH")
        );
        // 7. another digest
        let (unfit, field) = misfit(kind);
        let digest = pb::ResumeRequest {
            answer: Some(unfit.clone()),
            ..wrong()
        };
        assert_eq!(
            world.refusal(digest).await,
            refused(Code::FailedPrecondition, "DIGEST_MISMATCH")
        );
        // 8. no answer to this
        let status = world
            .resume(by("ann", &opened, unfit.clone()))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert_eq!(fields(&status), [field]);
        assert_eq!(world.read(&opened).await, opened, "it is still as it was");
        // 11. the answer
        let answer = pb::ResumeRequest {
            arguments_digest: opened.arguments_digest.clone(),
            ..by("ann", &opened, fitting(kind))
        };
        world.accepted(answer).await;
        // 5. answered, whatever else is wrong
        for late in [
            wrong(),
            by("ann", &opened, unfit.clone()),
            by("bob", &opened, fitting(kind)),
        ] {
            let status = world.resume(late).await.unwrap_err();
            assert_eq!(wire::reason(&status), "ALREADY_RESOLVED");
            let winner = wire::suspension_detail(&status).unwrap();
            assert_eq!(winner.kind(), kind);
            assert_eq!(winner.resolution.unwrap().by, "ann");
        }
        // 5. cancelled
        let withdrawn = world.wait_for(kind, "c2").await;
        let cancel = pb::CancelRequest {
            by: "ops".to_owned(),
            target: Some(pb::cancel_request::Target::SuspensionId(
                withdrawn.id.clone(),
            )),
            ..Default::default()
        };
        world.client.clone().cancel(cancel).await.unwrap();
        for late in [fitting(kind), unfit, yes()] {
            assert_eq!(
                world.refusal(by("ann", &withdrawn, late)).await,
                refused(Code::FailedPrecondition, "SUSPENSION_CANCELLED")
            );
        }
        let resolution = world.read(&withdrawn).await.resolution.unwrap();
        assert_eq!(
            (resolution.by.as_str(), resolution.kind.as_str()),
            ("ops", "cancelled")
        );
    }
}

fn tenant(tenant: &str) -> Option<pb::Scope> {
    Some(pb::Scope {
        tenant: tenant.to_owned(),
        ..Default::default()
    })
}

async fn an_answer_that_does_not_fit_is_refused_by_its_field(world: World) {
    let cases = [
        (
            Kind::Question,
            said([]),
            "question.answers",
            "`region` is not answered",
        ),
        (
            Kind::Question,
            said([("region", "eu")]),
            "question.answers",
            "`note` is not answered",
        ),
        (
            Kind::Question,
            said([("region", "EU"), ("note", "x")]),
            "question.answers",
            "`region` takes one of `eu`, `us` and nothing else",
        ),
        (
            Kind::Question,
            said([("region", "eu"), ("note", "x"), ("more", "y")]),
            "question.answers",
            "`more` was not asked",
        ),
        (
            Kind::External,
            payload(""),
            "external.payload_json",
            "expected a value, found the end of the text at offset 0",
        ),
        (
            Kind::External,
            payload(r#"{"id":"a","id":"b"}"#),
            "external.payload_json",
            "duplicate key `id` at offset 10",
        ),
        (
            Kind::External,
            payload("[]"),
            "external.payload_json",
            "does not fit the schema: value is not of type \"object\"",
        ),
        (
            Kind::External,
            payload(r#"{"id":7}"#),
            "external.payload_json",
            "does not fit the schema at `/id`: value is not of type \"string\"",
        ),
        (
            Kind::ClientTool,
            returned("{} {}"),
            "client_tool.result_json",
            "",
        ),
        (
            Kind::ClientTool,
            failed(""),
            "client_tool.error",
            "must say why the tool failed",
        ),
        (
            Kind::ClientTool,
            Answer::ClientTool(pb::ClientToolAnswer { result: None }),
            "client_tool.result",
            "is required",
        ),
        (
            Kind::SignIn,
            signed_in(&["github"], &[]),
            "sign_in.connected",
            "`jira` is in neither list",
        ),
        (
            Kind::SignIn,
            signed_in(&["github", "jira"], &["jira"]),
            "sign_in.denied",
            "`jira` is connected as well",
        ),
        (
            Kind::SignIn,
            signed_in(&["github", "jira"], &["drive"]),
            "sign_in.denied",
            "`drive` was not asked for",
        ),
        (
            Kind::SignIn,
            signed_in(&["github", "github"], &["jira"]),
            "sign_in.connected",
            "names `github` twice",
        ),
    ];
    for (kind, answer, field, says) in cases {
        let opened = world.wait_for(kind, "c1").await;
        let status = world
            .resume(by("ann", &opened, answer.clone()))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{answer:?}");
        assert_eq!(wire::reason(&status), "INVALID_REQUEST", "{answer:?}");
        assert_eq!(fields(&status), [field], "{answer:?}");
        assert!(
            status.message().contains(says),
            "{answer:?}: {}",
            status.message()
        );
        assert_eq!(world.read(&opened).await, opened, "{answer:?}");
    }
}

async fn the_same_answer_again_is_a_duplicate_however_it_is_spelled(world: World) {
    for (kind, first, same, other) in [
        (
            Kind::Question,
            said([("region", "eu"), ("note", "a")]),
            said([("note", "a"), ("region", "eu")]),
            said([("region", "eu"), ("note", "A")]),
        ),
        (
            Kind::External,
            payload(r#"{"id":"p","n":[1,{"a":1,"b":2}]}"#),
            payload(r#" {"n": [1.0, {"b": 2e0, "a": 1}], "id": "p"}"#),
            payload(r#"{"id":"p","n":[{"a":1,"b":2},1]}"#),
        ),
        (
            Kind::ClientTool,
            returned("null"),
            returned(" null "),
            failed("null"),
        ),
        (
            Kind::SignIn,
            signed_in(&["github", "jira"], &[]),
            signed_in(&["jira", "github"], &[]),
            signed_in(&["github"], &["jira"]),
        ),
    ] {
        let opened = world.wait_for(kind, "c1").await;
        let settled = world.accepted(by("ann", &opened, first.clone())).await;
        for again in [first.clone(), same] {
            let answer = world.resume(by("ann", &opened, again)).await.unwrap();
            assert_eq!(answer.outcome(), pb::ResumeOutcome::Duplicate);
            assert_eq!(answer.suspension.unwrap(), settled, "nothing was changed");
        }
        for another in [by("ann", &opened, other), by("bob", &opened, first)] {
            assert_eq!(
                world.refusal(another).await,
                refused(Code::FailedPrecondition, "ALREADY_RESOLVED")
            );
        }
    }
}

async fn an_answer_is_no_approval(world: World) {
    for kind in KINDS {
        let opened = world.wait_for(kind, "c1").await;
        let refusal = |status: Status| (status.code(), wire::reason(&status));
        let not_approved = refused(Code::FailedPrecondition, "NOT_APPROVED");
        assert_eq!(
            refusal(world.claim(&opened).await.unwrap_err()),
            not_approved
        );
        let answered = world.accepted(by("ann", &opened, fitting(kind))).await;
        assert_eq!(
            refusal(world.claim(&answered).await.unwrap_err()),
            not_approved
        );
        let complete = pb::CompleteRequest {
            suspension_id: opened.id.clone(),
            attempt_id: "w1".to_owned(),
            outcome: pb::Completion::Success.into(),
            ..Default::default()
        };
        let status = world.client.clone().complete(complete).await.unwrap_err();
        assert_eq!(
            refusal(status),
            refused(Code::FailedPrecondition, "NOT_CLAIMED")
        );
        assert_eq!(world.read(&answered).await, answered);
    }
    // A call of the same id that needs an approval is asked about by itself.
    let decided = world.decide(in_run("r1", "c1")).await;
    assert_eq!(decided.effect(), pb::Effect::Suspend);
    assert_eq!(decided.suspension.unwrap().kind(), Kind::Approval);
}

async fn a_late_answer_expires_it(world: World) {
    for kind in KINDS {
        for (on_expiry, told) in [
            (pb::OnExpiry::Deny, "expired"),
            (pb::OnExpiry::Abandon, "suspension_expired"),
        ] {
            let short = pb::SuspendRequest {
                scope: None,
                expires_in: Some(seconds(60)),
                on_expiry: on_expiry.into(),
                ..request(kind, "c1")
            };
            let opened = world.suspend(short).await.unwrap();
            world.clock.advance(Duration::from_secs(60));
            for late in [fitting(kind), misfit(kind).0, yes()] {
                assert_eq!(
                    world.refusal(by("ann", &opened, late)).await,
                    refused(Code::FailedPrecondition, "SUSPENSION_EXPIRED")
                );
            }
            let expired = world.read(&opened).await;
            assert_eq!(expired.status(), pb::SuspensionStatus::Expired);
            let resolution = expired.resolution.unwrap();
            assert_eq!(
                (resolution.by.as_str(), resolution.kind.as_str()),
                ("", told)
            );
            assert!(resolution.message_for_model.starts_with("Not executed:"));
        }
    }
}

fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

async fn an_unanswered_wait_abandons_its_run(world: World) {
    for kind in KINDS {
        let run = kind.as_str_name();
        let scope = in_run(run, "").scope;
        let of_run = |kind, call_id| pb::SuspendRequest {
            scope: scope.clone(),
            ..request(kind, call_id)
        };
        let short = pb::SuspendRequest {
            expires_in: Some(seconds(60)),
            ..of_run(kind, "c1")
        };
        let expiring = world.suspend(short).await.unwrap();
        assert_eq!(expiring.on_expiry(), pb::OnExpiry::Abandon);
        let mut siblings = vec![world.open(run, "c2").await];
        for sibling in KINDS {
            siblings.push(world.suspend(of_run(sibling, "c3")).await.unwrap());
        }
        let unclaimed = world.open(run, "c4").await;
        wire::approve(&world.client, &unclaimed.id).await;

        world.clock.advance(Duration::from_secs(60));
        let expired = world.read(&expiring).await;
        assert_eq!(expired.status(), pb::SuspensionStatus::Expired);
        for sibling in siblings {
            let sibling = world.read(&sibling).await;
            assert_eq!(
                sibling.status(),
                pb::SuspensionStatus::Cancelled,
                "{kind:?}"
            );
        }
        let unclaimed = world.read(&unclaimed).await;
        assert_eq!(unclaimed.execution(), pb::Execution::Voided);
        // The run is over, for Decide and for Suspend; what was recorded in it still answers.
        assert_eq!(world.decide(in_run(run, "c5")).await.kind, "cancelled");
        for later in KINDS {
            let status = world.suspend(of_run(later, "c6")).await.unwrap_err();
            assert_eq!(status.code(), Code::FailedPrecondition);
            assert_eq!(wire::reason(&status), "SUSPENSION_CANCELLED");
        }
        assert_eq!(world.suspend(of_run(kind, "c1")).await.unwrap(), expired);
    }
}

async fn an_unanswered_wait_may_leave_its_run_alone(world: World) {
    let short = pb::SuspendRequest {
        expires_in: Some(seconds(60)),
        on_expiry: pb::OnExpiry::Deny.into(),
        ..request(Kind::Question, "c1")
    };
    let expiring = world.suspend(short).await.unwrap();
    let sibling = world.wait_for(Kind::SignIn, "c2").await;
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(
        world.read(&expiring).await.status(),
        pb::SuspensionStatus::Expired
    );
    assert_eq!(world.read(&sibling).await, sibling);
    world.wait_for(Kind::External, "c3").await;
}

async fn answers_of_all_kinds_race_and_one_wins(world: World) {
    for (round, kind) in (0..).zip(KINDS.iter().cycle().take(12)) {
        let opened = world.wait_for(*kind, &format!("c{round}")).await;
        let racing: Vec<_> = (0..50)
            .map(|number| {
                let answer = match number % 5 {
                    0 => yes(),
                    1 => misfit(*kind).0,
                    2 => fitting(KINDS[number % 4]),
                    _ => fitting(*kind),
                };
                let request = by(&format!("person-{number}"), &opened, answer);
                let mut client = world.client.clone();
                tokio::spawn(async move { client.resume(request).await })
            })
            .collect();
        let mut winners = Vec::new();
        for racer in racing {
            match racer.await.unwrap() {
                Ok(answer) => {
                    let answer = answer.into_inner();
                    assert_eq!(answer.outcome(), pb::ResumeOutcome::Accepted);
                    winners.push(answer.suspension.unwrap());
                }
                Err(status) => {
                    let reason = wire::reason(&status);
                    assert!(
                        ["ALREADY_RESOLVED", "KIND_MISMATCH", "INVALID_REQUEST"]
                            .contains(&reason.as_str()),
                        "{status:?}"
                    );
                }
            }
        }
        let [winner] = winners.as_slice() else {
            panic!("{kind:?}: {} answers were accepted", winners.len());
        };
        assert_eq!(world.read(&opened).await, *winner);
    }
}

async fn what_waits_is_listed_by_kind(world: World) {
    let approval = world.open("r1", "c0").await;
    let mut opened = vec![(Kind::Approval, approval)];
    for kind in KINDS {
        opened.push((kind, world.wait_for(kind, "c1").await));
    }
    for (kind, suspension) in opened {
        let request = pb::ListSuspensionsRequest {
            kinds: vec![kind.into()],
            ..Default::default()
        };
        let page = world.client.clone().list_suspensions(request).await;
        assert_eq!(page.unwrap().into_inner().suspensions, [suspension]);
    }
}
