//! A whole suspension has at most 2 MiB (S9): what would make it larger is refused, what ends it never is.

use super::*;

const LARGE: &str = "limits: {max_payload_bytes: 1048576, max_arguments_bytes: 1048576}";
const MANY_VOTES: &str = "
suspensions: {claim_lease: 1s}
rules: [{id: r, tools: ['*'], decision: ask, approval: {approvers: {quorum: 1000}}}]";

on_both_stores! {
    what_is_too_large_is_not_opened: super::LARGE;
    an_answer_that_makes_it_too_large_is_refused: super::LARGE;
    votes_fill_it_until_no_more_fit: super::MANY_VOTES;
    an_approval_is_taken_over_so_often_and_no_more: "suspensions: {claim_lease: 1s}";
    a_batch_whose_answer_would_be_too_large_says_of_which_call: "";
}

/// A JSON string of so many bytes.
fn json_of(bytes: usize) -> String {
    format!(r#""{}""#, "x".repeat(bytes - 2))
}

async fn what_is_too_large_is_not_opened(world: World) {
    let option = "o".repeat(8 * 1024);
    let mut large = request(Kind::Question, "c1");
    large.questions = (0..5)
        .map(|number| pb::Question {
            key: format!("q{number}"),
            options: vec![option.clone(); 50],
            ..Default::default()
        })
        .collect();
    let status = world.suspend(large.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(wire::reason(&status), "INVALID_REQUEST");
    assert!(
        status
            .message()
            .starts_with("the whole suspension would be "),
        "{status:?}"
    );
    large.questions.truncate(4);
    world.suspend(large).await.unwrap();

    // Control characters and quotes take more room at rest than on the wire.
    let mut call = in_run("r1", "c2");
    let Some(pb::decide_request::Action::Call(tool)) = &mut call.action else {
        panic!("it is a call");
    };
    tool.arguments_json = format!(r#"{{"a":"{}"}}"#, r#"\""#.repeat(500 * 1024));
    let status = world.client.clone().decide(call).await.unwrap_err();
    assert_eq!(wire::reason(&status), "INVALID_REQUEST");
}

async fn an_answer_that_makes_it_too_large_is_refused(world: World) {
    let mut large = request(Kind::External, "c1");
    large.payload_schema_json = format!(r#"{{"description":{}}}"#, json_of(1024 * 1000));
    let opened = world.suspend(large).await.unwrap();
    let too_large = by("ann", &opened, payload(&json_of(1024 * 1000)));
    let status = world.resume(too_large).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert_eq!(wire::reason(&status), "INVALID_REQUEST");
    assert!(status.message().contains("too large"), "{status:?}");
    assert_eq!(world.read(&opened).await, opened);
    let fits = by("ann", &opened, payload(&json_of(500 * 1024)));
    world.accepted(fits).await;
}

async fn votes_fill_it_until_no_more_fit(world: World) {
    let opened = world.open("r1", "c1").await;
    let mut votes = 0;
    let refused = loop {
        let vote = pb::ResumeRequest {
            by: format!("person-{votes}"),
            by_roles: vec!["r".repeat(1024); 64],
            ..wire::answer(&opened.id, true)
        };
        match world.resume(vote).await {
            Ok(answer) => assert_eq!(answer.outcome(), pb::ResumeOutcome::VoteRecorded),
            Err(status) => break status,
        }
        votes += 1;
        assert!(votes < 40, "there is no end");
    };
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert_eq!(wire::reason(&refused), "INVALID_REQUEST");
    let full = world.read(&opened).await;
    assert_eq!(
        (full.votes.len(), full.status()),
        (votes, pb::SuspensionStatus::Pending)
    );
    assert!(votes > 20, "{votes}");
    // A denial has no need of that room, and a cancellation always fits.
    let denial = pb::ResumeRequest {
        by: "boss".to_owned(),
        ..wire::answer(&opened.id, false)
    };
    assert_eq!(
        world.accepted(denial).await.status(),
        pb::SuspensionStatus::Denied
    );
}

async fn an_approval_is_taken_over_so_often_and_no_more(world: World) {
    let opened = world.open("r1", "c1").await;
    wire::approve(&world.client, &opened.id).await;
    let claim = async |number: usize, force| {
        let request = pb::ClaimRequest {
            suspension_id: opened.id.clone(),
            attempt_id: format!("w{number}"),
            force,
            by: "ops".to_owned(),
            ..Default::default()
        };
        world.client.clone().claim(request).await
    };
    for number in 0..100 {
        claim(number, number > 0).await.unwrap();
        world.clock.advance(Duration::from_secs(2));
    }
    let status = claim(100, true).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(wire::reason(&status), "IN_DOUBT");
    assert!(
        status.message().starts_with("100 attempts took"),
        "{status:?}"
    );
    // Who held it last may still say how it ended.
    let complete = pb::CompleteRequest {
        suspension_id: opened.id.clone(),
        attempt_id: "w99".to_owned(),
        outcome: pb::Completion::Failure.into(),
        detail: "\u{1}".repeat(8 * 1024),
        ..Default::default()
    };
    let completed = world
        .client
        .clone()
        .complete(complete)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(completed.execution(), pb::Execution::Completed);
    assert_eq!(completed.claims.len(), 100);
}

async fn a_batch_whose_answer_would_be_too_large_says_of_which_call(world: World) {
    let mut requests = Vec::new();
    for number in 0..20 {
        let call_id = format!("c{number}");
        let opened = world.open("r1", &call_id).await;
        let edits = format!(r#"{{"a":{}}}"#, json_of(200 * 1024));
        let mut answer = wire::answer(&opened.id, true);
        let Some(Answer::Approval(approval)) = &mut answer.answer else {
            panic!("it is an approval");
        };
        approval.edited_arguments_json = edits;
        world.accepted(answer).await;
        requests.push(pb::DecideRequest {
            resumed: true,
            ..in_run("r1", &call_id)
        });
    }
    let batch = pb::BatchDecideRequest {
        requests: requests.clone(),
    };
    let answer = world.client.clone().batch_decide(batch).await.unwrap();
    let responses = answer.into_inner().responses;
    let mut decided = 0;
    for (request, response) in requests.into_iter().zip(responses) {
        match response.result.unwrap() {
            pb::batch_decide_result::Result::Decision(decision) => {
                assert_eq!(decision.effect(), pb::Effect::Suspend);
                decided += 1;
            }
            pb::batch_decide_result::Result::Error(error) => {
                assert_eq!((error.code, error.reason.as_str()), (3, "INVALID_REQUEST"));
                assert!(error.message.contains("by itself"), "{}", error.message);
                assert_eq!(world.decide(request).await.effect(), pb::Effect::Suspend);
            }
        }
    }
    assert_eq!(decided, 3 * 1024 / 201);
}
