//! The example agents, set up as their README says and run against the real server on both stores. What a tool did is
//! counted by the shop, outside every program that is killed here.

mod gate;
mod odd_server;
mod policy_port;
mod setup;
mod stage;

use assent::pb::{Completion, Execution, Suspension, SuspensionStatus};

use self::gate::Moment::{AfterTheEffect, BeforeTheEffect};
use self::odd_server::OddServer;
use self::setup::Language;
use self::stage::{Ended, Stage, Store};
use crate::support::{SOON, eventually};

const FINISHED: Option<i32> = Some(0);
const OPEN: Option<i32> = Some(3);

/// Tests each story in each language on each store.
macro_rules! stories {
    ($($story:ident $policy:expr;)*) => {
        stories!(@language python Python $($story $policy;)*);
        stories!(@language typescript TypeScript $($story $policy;)*);
        stories!(@language go Go $($story $policy;)*);
    };
    (@language $module:ident $language:ident $($story:ident $policy:expr;)*) => {
        mod $module {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn what_is_not_known_is_a_denial() {
                use super::{Language, Stage, Store};
                super::what_is_not_known_is_a_denial(Stage::set(Language::$language, Store::Sqlite, None).await).await;
            }

            $(mod $story {
                use super::super::{Language, Stage, Store};

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_sqlite() {
                    super::super::$story(Stage::set(Language::$language, Store::Sqlite, $policy).await).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_redis() {
                    super::super::$story(Stage::set(Language::$language, Store::Redis, $policy).await).await;
                }
            })*
        }
    };
}

stories! {
    an_approved_refund_is_made_once_whatever_is_killed None;
    a_server_that_is_away_is_waited_for None;
    a_refund_that_was_declined_is_never_made None;
    what_was_edited_is_what_runs None;
    a_tool_that_refuses_is_told_of_as_a_failure None;
    two_processes_at_once_make_one_refund None;
    a_lost_state_file_repeats_nothing None;
    a_lease_that_ended_leaves_the_call_in_doubt Some("suspensions: {claim_lease: 1s}");
    what_the_policy_keeps_for_a_manager_is_left_open Some(
        "rules: [{id: refunds, tools: [orders.issue_refund], decision: ask, approval: {approvers: {roles: [manager]}}}]"
    );
    what_the_policy_denies_is_told_to_the_model Some(
        "rules: [{id: refunds, tools: [orders.issue_refund], decision: deny, reason: no refunds today}]"
    );
}

async fn an_approved_refund_is_made_once_whatever_is_killed(mut stage: Stage) {
    // Everything is asked and the small refund approved by the program's handler: killed right then.
    let stop = stage.gate.stop("GET /orders/A-1042", BeforeTheEffect);
    let agent = stage.agent();
    let held = stop.reached().await;
    assert_eq!(
        state(&stage.suspension("call-2").await),
        (SuspensionStatus::Approved, Execution::None)
    );
    assert_eq!(
        state(&stage.suspension("call-3").await),
        (SuspensionStatus::Pending, Execution::None)
    );
    agent.kill9();
    drop(held);
    stage.restart_the_server();

    let ended = killed_around_the_effect(&mut stage, &[], &[500]).await;
    has_ended(&ended, OPEN, &["call-2: {\"id\": \"refund-1\""]);
    was_executed_once(&stage.suspension("call-2").await, Completion::Success);

    let big = stage.suspension("call-3").await;
    assert_eq!(state(&big), (SuspensionStatus::Pending, Execution::None));
    has_ended(
        &ended,
        OPEN,
        &[&format!(
            "call-3 is open: orders.issue_refund {{\"order\": \"A-1042\", \"cents\": 420000}} as {}",
            big.id
        )],
    );
    stage.restart_the_server();
    has_ended(
        &stage.answer(&big.id, "approve", "checked").await,
        FINISHED,
        &["420000", "ACCEPTED", "APPROVED"],
    );
    stage.restart_the_server();

    let ended = killed_around_the_effect(&mut stage, &[500], &[500, 420_000]).await;
    has_ended(&ended, FINISHED, &["call-3: {\"id\": \"refund-2\""]);
    was_executed_once(&stage.suspension("call-3").await, Completion::Success);

    has_ended(&stage.agent().ended().await, FINISHED, &[]);
    assert_eq!(stage.refunds(), [500, 420_000]);
}

/// Kills the agent and the server after the Claim of a refund and before its effect, then after its effect and before
/// Complete, then lets an agent end by itself.
async fn killed_around_the_effect(stage: &mut Stage, before: &[i64], after: &[i64]) -> Ended {
    for (moment, refunds) in [(BeforeTheEffect, before), (AfterTheEffect, after)] {
        let stop = stage.gate.stop("POST /refunds", moment);
        let agent = stage.agent();
        let held = stop.reached().await;
        assert_eq!(stage.refunds(), refunds);
        agent.kill9();
        drop(held);
        stage.restart_the_server();
    }
    let ended = stage.agent().ended().await;
    assert_eq!(stage.refunds(), after, "{ended}");
    ended
}

async fn a_server_that_is_away_is_waited_for(mut stage: Stage) {
    stage.kill_the_server();
    let agent = stage.agent();
    stage.line.called_in_vain().await;
    stage.start_the_server();
    has_ended(&agent.ended().await, OPEN, &["call-3 is open"]);

    let big = stage.suspension("call-3").await;
    has_ended(
        &stage.answer(&big.id, "approve", "").await,
        FINISHED,
        &["APPROVED"],
    );

    // It goes away between Claim and Complete, under a connection that was in use.
    let stop = stage.gate.stop("POST /refunds", AfterTheEffect);
    let agent = stage.agent();
    let held = stop.reached().await;
    stage.kill_the_server();
    held.go_on();
    stage.line.called_in_vain().await;
    stage.start_the_server();
    has_ended(&agent.ended().await, FINISHED, &["call-3: {"]);
    assert_eq!(stage.refunds(), [500, 420_000]);
    was_executed_once(&stage.suspension("call-3").await, Completion::Success);
}

async fn a_refund_that_was_declined_is_never_made(mut stage: Stage) {
    let read = "call-1: {\"order\": \"A-1042\"";
    has_ended(
        &stage.agent().ended().await,
        OPEN,
        &[read, "call-2: {", "call-3 is open"],
    );
    let big = stage.suspension("call-3").await;
    let declined = stage.answer(&big.id, "deny", "the customer withdrew").await;
    has_ended(&declined, FINISHED, &["ACCEPTED", "DENIED"]);
    stage.restart_the_server();
    // Nobody can turn it round.
    let late = stage.answer(&big.id, "approve", "").await;
    assert_eq!(late.code, Some(1), "{late}");

    let ended = stage.agent().ended().await;
    has_ended(
        &ended,
        FINISHED,
        &["call-3: Not executed:", "the customer withdrew"],
    );
    assert_eq!(stage.refunds(), [500]);
    assert_eq!(
        state(&stage.suspension("call-3").await),
        (SuspensionStatus::Denied, Execution::None)
    );
}

async fn what_was_edited_is_what_runs(stage: Stage) {
    has_ended(&stage.agent().ended().await, OPEN, &["call-3 is open"]);
    let big = stage.suspension("call-3").await;
    stage
        .approve_edited(big, r#"{"order": "A-1042", "cents": 300000}"#)
        .await;
    has_ended(&stage.agent().ended().await, FINISHED, &["300000"]);
    assert_eq!(stage.refunds(), [500, 300_000]);
}

async fn a_tool_that_refuses_is_told_of_as_a_failure(stage: Stage) {
    has_ended(&stage.agent().ended().await, OPEN, &["call-3 is open"]);
    let big = stage.suspension("call-3").await;
    stage
        .approve_edited(big, r#"{"order": "A-9999", "cents": 300000}"#)
        .await;
    has_ended(
        &stage.agent().ended().await,
        FINISHED,
        &["call-3: The tool failed: ", "no such order"],
    );
    assert_eq!(stage.refunds(), [500]);
    was_executed_once(&stage.suspension("call-3").await, Completion::Failure);
}

async fn two_processes_at_once_make_one_refund(stage: Stage) {
    has_ended(&stage.agent().ended().await, OPEN, &["call-3 is open"]);
    stage.approve_by_command(&stage.suspension("call-3").await.id);

    let (one, other) = (stage.agent(), stage.agent());
    let (one, other) = (one.ended().await, other.ended().await);
    let finished = [&one, &other]
        .iter()
        .filter(|ended| ended.code == FINISHED)
        .count();
    let open = [&one, &other]
        .iter()
        .filter(|ended| ended.code == OPEN)
        .count();
    assert!(
        finished >= 1 && finished + open == 2,
        "one: {one}\nother: {other}"
    );
    assert_eq!(stage.refunds(), [500, 420_000]);
    has_ended(&stage.agent().ended().await, FINISHED, &[]);
    assert_eq!(stage.refunds(), [500, 420_000]);
    was_executed_once(&stage.suspension("call-3").await, Completion::Success);
}

async fn a_lost_state_file_repeats_nothing(stage: Stage) {
    has_ended(&stage.agent().ended().await, OPEN, &["call-3 is open"]);
    stage.lose_the_state();
    has_ended(
        &stage.agent().ended().await,
        OPEN,
        &["call-2: {\"id\": \"refund-1\"", "call-3 is open"],
    );
    assert_eq!(stage.refunds(), [500]);

    // With the state the attempt's id is lost, and so is the right to go on under its claim.
    let big = stage.suspension("call-3").await;
    has_ended(
        &stage.answer(&big.id, "approve", "").await,
        FINISHED,
        &["APPROVED"],
    );
    let stop = stage.gate.stop("POST /refunds", AfterTheEffect);
    let agent = stage.agent();
    drop(stop.reached().await);
    // The tool has no clear answer, so the agent ends and says so.
    let ended = agent.ended().await;
    assert_eq!(ended.code, Some(1), "{ended}");
    stage.lose_the_state();
    has_ended(
        &stage.agent().ended().await,
        OPEN,
        &["call-3 was not run", "call-3 is open"],
    );
    assert_eq!(stage.refunds(), [500, 420_000]);
}

async fn a_lease_that_ended_leaves_the_call_in_doubt(stage: Stage) {
    let stop = stage.gate.stop("POST /refunds", BeforeTheEffect);
    let agent = stage.agent();
    let held = stop.reached().await;
    agent.kill9();
    drop(held);
    let in_doubt = eventually(SOON, async || {
        stage.suspension("call-2").await.execution() == Execution::InDoubt
    });
    assert!(in_doubt.await, "the lease does not end");
    has_ended(
        &stage.agent().ended().await,
        OPEN,
        &["call-2 was not run", "call-2 is open", "call-3 is open"],
    );
    assert!(stage.refunds().is_empty());
}

async fn what_the_policy_keeps_for_a_manager_is_left_open(stage: Stage) {
    has_ended(
        &stage.agent().ended().await,
        OPEN,
        &["call-1: {", "call-2 is open", "call-3 is open"],
    );
    assert!(stage.refunds().is_empty());
}

async fn what_the_policy_denies_is_told_to_the_model(stage: Stage) {
    let told = &[
        "call-1: {",
        "call-2: Not executed:",
        "call-3: Not executed:",
        "no refunds today",
    ];
    has_ended(&stage.agent().ended().await, FINISHED, told);
    assert!(stage.refunds().is_empty());
}

async fn what_is_not_known_is_a_denial(stage: Stage) {
    let odd = OddServer::start().await;
    stage.line.lead_to(Some(&odd.address));
    let told = &[
        "call-1: Not executed.",
        "call-2: Not executed.",
        "call-3: Not executed.",
    ];
    has_ended(&stage.agent().ended().await, FINISHED, told);
    assert!(
        odd.called.lock().unwrap().is_empty(),
        "nothing else is asked"
    );
    assert!(stage.refunds().is_empty());
}

#[track_caller]
fn has_ended(ended: &Ended, code: Option<i32>, wrote: &[&str]) {
    assert_eq!(ended.code, code, "{ended}");
    for text in wrote {
        assert!(
            ended.output.contains(text),
            "it did not write `{text}`, but ended with {ended}"
        );
    }
}

fn state(suspension: &Suspension) -> (SuspensionStatus, Execution) {
    (suspension.status(), suspension.execution())
}

/// One attempt only, not forced, and its end is on record.
#[track_caller]
fn was_executed_once(suspension: &Suspension, outcome: Completion) {
    assert_eq!(
        state(suspension),
        (SuspensionStatus::Approved, Execution::Completed)
    );
    let attempts: Vec<_> = suspension
        .claims
        .iter()
        .map(|claim| (claim.forced, claim.outcome()))
        .collect();
    assert_eq!(attempts, [(false, outcome)]);
}
