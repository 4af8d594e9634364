//! Opening what is no approval: once for each key, under the policy's terms and limits.

use super::*;

on_both_stores! {
    an_opening_shows_what_was_asked: "";
    the_same_request_finds_the_same_suspension: "";
    an_id_that_was_used_for_something_else_is_refused: "";
    without_ids_every_request_opens_another: "";
    how_long_it_waits_follows_the_policy:
        "suspensions: {question: {expires: 2h, on_expiry: deny}, external: {expires: 1d}}";
    a_shorter_wait_may_be_asked_for_and_a_longer_one_may_not: "";
    what_waits_counts_against_the_limits: "limits: {pending_per_session: 2}";
    a_tenants_limit_refuses_the_new_and_finds_the_known: "limits: {pending_per_tenant: 1}";
    a_cancelled_run_takes_no_wait: "";
    an_approval_is_not_opened_by_suspend: "";
}

async fn an_opening_shows_what_was_asked(world: World) {
    for kind in KINDS {
        let asked = request(kind, "c1");
        let opened = world.suspend(asked.clone()).await.unwrap();
        let call = asked.call.map(|call| pb::ToolCall {
            call_id: "c1".to_owned(),
            ..call
        });
        let scope = asked.scope.map(|scope| pb::Scope {
            principal: Some(pb::Principal::default()),
            ..scope
        });
        let expected = pb::Suspension {
            kind: asked.kind,
            status: pb::SuspensionStatus::Pending.into(),
            scope,
            call,
            title: asked.title,
            reason: asked.reason,
            questions: asked.questions,
            payload_schema_json: asked.payload_schema_json,
            event: asked.event,
            sources: asked.sources,
            call_id: asked.call_id,
            step_id: asked.step_id,
            on_expiry: pb::OnExpiry::Abandon.into(),
            execution: pb::Execution::None.into(),
            version: 1,
            // Made by the server.
            id: opened.id.clone(),
            create_time: opened.create_time,
            expire_time: opened.expire_time,
            arguments_digest: opened.arguments_digest.clone(),
            policy_revision: opened.policy_revision.clone(),
            ..Default::default()
        };
        assert_eq!(opened, expected);
        let has_digest = kind == Kind::ClientTool;
        assert_eq!(!opened.arguments_digest.is_empty(), has_digest);
        assert!(!opened.policy_revision.is_empty());
        assert_eq!(world.read(&opened).await, opened);
    }
}

async fn the_same_request_finds_the_same_suspension(world: World) {
    for kind in KINDS {
        let opened = world.wait_for(kind, "c1").await;
        // Scope and expiry are not what is asked.
        let mut again = request(kind, "c1");
        again.expires_in = Some(seconds(60));
        again.on_expiry = pb::OnExpiry::Deny.into();
        again.scope.as_mut().unwrap().agent_path = vec!["root".to_owned()];
        if let Some(call) = &mut again.call {
            call.arguments_json = r#"{"format":"text"}"#.to_owned();
            call.call_id = "c1".to_owned();
        }
        assert_eq!(world.suspend(again.clone()).await.unwrap(), opened);
        let answered = world.accepted(by("ann", &opened, fitting(kind))).await;
        assert_eq!(world.suspend(again).await.unwrap(), answered);
    }
    // One id for each kind.
    let opened = world.wait_for(Kind::Question, "c2").await;
    let other = world.wait_for(Kind::SignIn, "c2").await;
    assert_ne!(opened.id, other.id);
    // A step is found like a call.
    let step = || pb::SuspendRequest {
        call_id: String::new(),
        step_id: "step".to_owned(),
        ..request(Kind::Question, "")
    };
    let opened = world.suspend(step()).await.unwrap();
    assert_eq!(world.suspend(step()).await.unwrap(), opened);
}

async fn an_id_that_was_used_for_something_else_is_refused(world: World) {
    type Change = fn(&mut pb::SuspendRequest);
    let changes: [(Kind, Change); 15] = [
        (Kind::Question, |r| r.title.push('!')),
        (Kind::Question, |r| r.reason.clear()),
        (Kind::Question, |r| r.step_id = "step".to_owned()),
        (Kind::Question, |r| r.questions[0].text.push('!')),
        (Kind::Question, |r| r.questions[0].options_only = false),
        (Kind::Question, |r| r.questions.swap(0, 1)),
        (Kind::Question, |r| r.questions.truncate(1)),
        (Kind::External, |r| r.event.push('!')),
        (Kind::External, |r| r.payload_schema_json.clear()),
        (Kind::External, |r| {
            r.payload_schema_json = "true".to_owned()
        }),
        (Kind::ClientTool, |r| {
            r.call.as_mut().unwrap().tool = "client.other".to_owned();
        }),
        (Kind::ClientTool, |r| {
            r.call.as_mut().unwrap().server = "desk".to_owned();
        }),
        (Kind::ClientTool, |r| {
            r.call.as_mut().unwrap().arguments_json = "{}".to_owned();
        }),
        (Kind::ClientTool, |r| {
            r.call.as_mut().unwrap().in_program = true;
        }),
        (Kind::SignIn, |r| r.sources = vec!["github".to_owned()]),
    ];
    for (number, (kind, change)) in changes.into_iter().enumerate() {
        let call_id = format!("c{number}");
        let opened = world.wait_for(kind, &call_id).await;
        let mut other = request(kind, &call_id);
        change(&mut other);
        let status = world.suspend(other).await.unwrap_err();
        assert_eq!(status.code(), Code::AlreadyExists, "{number}");
        assert_eq!(wire::reason(&status), "CALL_ID_REUSED", "{number}");
        let details = status.get_error_details();
        let named = &details.error_info().unwrap().metadata["suspension_id"];
        assert_eq!(*named, opened.id);
        assert_eq!(world.read(&opened).await, opened);
    }
}

async fn without_ids_every_request_opens_another(world: World) {
    for kind in KINDS {
        let without_run = pb::SuspendRequest {
            scope: None,
            ..request(kind, "c1")
        };
        for nameless in [without_run, request(kind, "")] {
            let first = world.suspend(nameless.clone()).await.unwrap();
            let second = world.suspend(nameless).await.unwrap();
            assert_ne!(first.id, second.id);
        }
    }
}

/// How many seconds it waits.
fn waits(suspension: &pb::Suspension) -> i64 {
    let moment = |time: Option<prost_types::Timestamp>| {
        let time = time.unwrap();
        time.seconds * 1000 + i64::from(time.nanos / 1_000_000)
    };
    (moment(suspension.expire_time) - moment(suspension.create_time)) / 1000
}

const HOUR: i64 = 60 * 60;

async fn how_long_it_waits_follows_the_policy(world: World) {
    let terms = async |kind| {
        let opened = world.wait_for(kind, "").await;
        (waits(&opened), opened.on_expiry())
    };
    use pb::OnExpiry::{Abandon, Deny};
    assert_eq!(terms(Kind::Question).await, (2 * HOUR, Deny));
    assert_eq!(terms(Kind::External).await, (24 * HOUR, Abandon));
    assert_eq!(terms(Kind::ClientTool).await, (24 * HOUR, Abandon));
    assert_eq!(terms(Kind::SignIn).await, (24 * HOUR, Abandon));
    world.swap_policy(
        "suspensions: {client_tool: {expires: 5m}, sign_in: {expires: 30s, on_expiry: deny}}",
    );
    assert_eq!(terms(Kind::Question).await, (24 * HOUR, Abandon));
    assert_eq!(terms(Kind::External).await, (7 * 24 * HOUR, Abandon));
    assert_eq!(terms(Kind::ClientTool).await, (300, Abandon));
    assert_eq!(terms(Kind::SignIn).await, (30, Deny));
}

async fn a_shorter_wait_may_be_asked_for_and_a_longer_one_may_not(world: World) {
    for kind in KINDS {
        let most = if kind == Kind::External {
            7 * 24 * HOUR
        } else {
            24 * HOUR
        };
        for (asked, given) in [
            (60, 60),
            (most, most),
            (most + 1, most),
            (i64::pow(10, 11), most),
        ] {
            let wish = pb::SuspendRequest {
                expires_in: Some(seconds(asked)),
                ..request(kind, "")
            };
            assert_eq!(waits(&world.suspend(wish).await.unwrap()), given);
        }
        let none = pb::SuspendRequest {
            expires_in: Some(seconds(0)),
            ..request(kind, "")
        };
        let status = world.suspend(none).await.unwrap_err();
        assert_eq!(fields(&status), ["expires_in"]);
    }
}

async fn what_waits_counts_against_the_limits(world: World) {
    let question = world.wait_for(Kind::Question, "c1").await;
    world.wait_for(Kind::SignIn, "c2").await;
    for full in [Kind::External, Kind::ClientTool] {
        let status = world.suspend(request(full, "c3")).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(wire::reason(&status), "TOO_MANY_PENDING");
    }
    let status = world
        .client
        .clone()
        .decide(in_run("r1", "c3"))
        .await
        .unwrap_err();
    assert_eq!(wire::reason(&status), "TOO_MANY_PENDING");
    assert_eq!(
        world.suspend(request(Kind::Question, "c1")).await.unwrap(),
        question,
        "what is recorded is found all the same"
    );
    world
        .accepted(by("ann", &question, fitting(Kind::Question)))
        .await;
    world.wait_for(Kind::External, "c3").await;
}

async fn a_tenants_limit_refuses_the_new_and_finds_the_known(world: World) {
    let known = world.wait_for(Kind::External, "c1").await;
    // The tenant's count is at most a second old.
    let refused = crate::support::eventually(crate::support::SOON, async || {
        let opened = world.suspend(request(Kind::SignIn, "")).await;
        opened.is_err_and(|status| wire::reason(&status) == "TOO_MANY_PENDING")
    })
    .await;
    assert!(refused);
    assert_eq!(
        world.suspend(request(Kind::External, "c1")).await.unwrap(),
        known
    );
}

async fn a_cancelled_run_takes_no_wait(world: World) {
    let opened = world.wait_for(Kind::Question, "c1").await;
    let scope = pb::Scope {
        session_id: "s1".to_owned(),
        ..Default::default()
    };
    let run = pb::cancel_request::Target::RunId("r1".to_owned());
    let cancelled = world.cancel(scope, run).await;
    assert_eq!(cancelled.suspension_ids, [opened.id]);
    for kind in KINDS {
        let status = world.suspend(request(kind, "c2")).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert_eq!(wire::reason(&status), "SUSPENSION_CANCELLED");
    }
    let found = world.suspend(request(Kind::Question, "c1")).await.unwrap();
    assert_eq!(found.status(), pb::SuspensionStatus::Cancelled);
}

async fn an_approval_is_not_opened_by_suspend(world: World) {
    for kind in [Kind::Approval, Kind::Unspecified] {
        let status = world.suspend(request(kind, "c1")).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(wire::reason(&status), "INVALID_REQUEST");
        assert_eq!(fields(&status), ["kind"]);
    }
    let foreign = pb::SuspendRequest {
        sources: vec!["github".to_owned()],
        ..request(Kind::Question, "c1")
    };
    assert_eq!(
        fields(&world.suspend(foreign).await.unwrap_err()),
        ["sources"]
    );
}
