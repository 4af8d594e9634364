//! What becomes of a suspension when time passes, runs end and policy changes, on both stores.

use std::time::Duration;

use assent::pb;
use assent::policy::{Policy, Source};
use assent::store::clock::ClockOffset;
use tonic::{Code, Status};

use crate::support::server::{InProcess, in_process};
use crate::support::stores::{Home, Homes};
use crate::support::{SOON, eventually};
use crate::wire::{self, Client};

/// Runs one body on each home, with a server, a client and a clock that can be moved.
macro_rules! on_both_stores {
    ($($body:ident: $policy:expr;)*) => {$(
        mod $body {
            #[tokio::test(flavor = "multi_thread")]
            async fn on_sqlite() {
                let home = $crate::support::stores::Home::Sqlite;
                $crate::lifecycle::on(home, $policy, async |world| super::$body(world).await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_redis() {
                let home = $crate::support::stores::Home::Redis;
                $crate::lifecycle::on(home, $policy, async |world| super::$body(world).await).await;
            }
        }
    )*};
}
pub(crate) use on_both_stores;

on_both_stores! {
    an_abandoned_run_takes_its_other_suspensions_along: "";
    a_cancelled_run_opens_nothing_more: "";
    a_busy_run_does_not_outrun_its_end: "";
    a_cancelled_session_ends_all_its_runs: "";
    a_denied_expiry_leaves_the_run_alone: "suspensions: {approval: {on_expiry: deny}}";
    an_approval_that_nobody_used_grows_stale: "";
    a_claim_asks_the_policy_of_the_moment: "";
    edits_are_judged_as_the_call_would_be:
        "rules: [{id: cap, tools: ['*'], when: args.cents > 500000, decision: deny, reason: too much}]";
    a_tenants_limit_refuses_the_new_and_answers_for_the_known: "limits: {pending_per_tenant: 1}";
    a_refusal_by_mode_or_default_says_so: "default: deny";
    a_dry_run_tells_what_is_recorded_and_writes_nothing: "";
    a_call_from_a_program_hears_what_was_recorded_for_it: "";
}

/// A server over a store of its own.
pub struct World {
    pub server: InProcess,
    pub client: Client,
    pub clock: ClockOffset,
}

pub async fn on(home: Home, policy: &str, body: impl AsyncFnOnce(World)) {
    let homes = Homes::start(home).await;
    let clock = ClockOffset::default();
    let store = homes.fresh_at(clock.clone()).await;
    let policy = (!policy.is_empty()).then_some(policy);
    let server = in_process(policy, store).await;
    let client = wire::connect(server.address()).await;
    body(World {
        server,
        client,
        clock,
    })
    .await;
}

impl World {
    pub fn swap_policy(&self, text: &str) {
        let source = Source {
            name: "policy.yaml".to_owned(),
            text: text.to_owned(),
        };
        self.server.swap(Policy::compile(&[source]).unwrap());
    }

    pub async fn decide(&self, request: pb::DecideRequest) -> pb::DecideResponse {
        self.client
            .clone()
            .decide(request)
            .await
            .unwrap()
            .into_inner()
    }

    /// A call of one run, which suspends.
    pub async fn open(&self, run: &str, call: &str) -> pb::Suspension {
        let decided = self.decide(in_run(run, call)).await;
        assert_eq!(decided.effect(), pb::Effect::Suspend);
        decided.suspension.unwrap()
    }

    pub async fn read(&self, suspension: &pb::Suspension) -> pb::Suspension {
        wire::get(&self.client, &suspension.id).await
    }

    pub async fn claim(&self, suspension: &pb::Suspension) -> Result<pb::ClaimResponse, Status> {
        let request = pb::ClaimRequest {
            suspension_id: suspension.id.clone(),
            attempt_id: "w1".to_owned(),
            ..Default::default()
        };
        self.client
            .clone()
            .claim(request)
            .await
            .map(tonic::Response::into_inner)
    }

    pub async fn cancel(
        &self,
        scope: pb::Scope,
        target: pb::cancel_request::Target,
    ) -> pb::CancelResponse {
        let request = pb::CancelRequest {
            target: Some(target),
            scope: Some(scope),
            by: "user-1".to_owned(),
            reason: "interrupted".to_owned(),
        };
        self.client
            .clone()
            .cancel(request)
            .await
            .unwrap()
            .into_inner()
    }
}

pub fn in_run(run: &str, call: &str) -> pb::DecideRequest {
    let mut request = wire::destructive(call);
    let scope = request.scope.as_mut().unwrap();
    scope.session_id = "s1".to_owned();
    scope.run_id = run.to_owned();
    request
}

async fn an_abandoned_run_takes_its_other_suspensions_along(world: World) {
    let short = pb::DecideRequest {
        expires_in: Some(prost_types::Duration {
            seconds: 60,
            nanos: 0,
        }),
        ..in_run("r1", "c1")
    };
    let expiring = world.decide(short).await.suspension.unwrap();
    let sibling = world.open("r1", "c2").await;
    let unclaimed = wire::approve(&world.client, &world.open("r1", "c3").await.id).await;
    let elsewhere = world.open("r2", "c4").await;

    world.clock.advance(Duration::from_secs(60));
    let expired = world.read(&expiring).await;
    assert_eq!(expired.status(), pb::SuspensionStatus::Expired);
    assert_eq!(expired.resolution.unwrap().kind, "suspension_expired");
    let sibling = world.read(&sibling).await;
    assert_eq!(sibling.status(), pb::SuspensionStatus::Cancelled);
    let unclaimed = world.read(&unclaimed).await;
    assert_eq!(unclaimed.execution(), pb::Execution::Voided);
    let refused = world.claim(&unclaimed).await.unwrap_err();
    assert_eq!(wire::reason(&refused), "SUSPENSION_CANCELLED");
    let elsewhere = world.read(&elsewhere).await;
    assert_eq!(elsewhere.status(), pb::SuspensionStatus::Pending);

    let later = world.decide(in_run("r1", "c5")).await;
    assert_eq!(
        (later.effect(), later.kind.as_str()),
        (pb::Effect::Deny, "cancelled")
    );
    let voided = world.decide(in_run("r1", "c3")).await;
    assert_eq!(
        (voided.effect(), voided.kind.as_str()),
        (pb::Effect::Deny, "cancelled")
    );
    let first = world.decide(in_run("r1", "c1")).await;
    assert_eq!(first.kind, "suspension_expired");
    assert_eq!(
        world.decide(in_run("r2", "c6")).await.effect(),
        pb::Effect::Suspend
    );
}

async fn a_cancelled_run_opens_nothing_more(world: World) {
    let pending = world.open("r1", "c1").await;
    let approved = wire::approve(&world.client, &world.open("r1", "c2").await.id).await;
    let claimed = wire::approve(&world.client, &world.open("r1", "c3").await.id).await;
    world.claim(&claimed).await.unwrap();

    // Without the session, so that it is looked for in every partition.
    let target = pb::cancel_request::Target::RunId("r1".to_owned());
    let cancelled = world.cancel(pb::Scope::default(), target.clone()).await;
    assert_eq!((cancelled.cancelled_count, cancelled.voided_count), (1, 1));
    let repeated = world.cancel(pb::Scope::default(), target).await;
    assert_eq!((repeated.cancelled_count, repeated.voided_count), (0, 0));

    let resolution = world.read(&pending).await.resolution.unwrap();
    assert_eq!(
        (resolution.by.as_str(), resolution.kind.as_str()),
        ("user-1", "cancelled")
    );
    assert_eq!(
        world.read(&approved).await.execution(),
        pb::Execution::Voided
    );
    assert_eq!(
        world.read(&claimed).await.execution(),
        pb::Execution::Claimed
    );
    let later = world.decide(in_run("r1", "c4")).await;
    assert_eq!(
        (later.effect(), later.kind.as_str()),
        (pb::Effect::Deny, "cancelled")
    );
    let dry = pb::DecideRequest {
        dry_run: true,
        ..in_run("r1", "c5")
    };
    assert_eq!(world.decide(dry).await.kind, "cancelled");
}

async fn a_busy_run_does_not_outrun_its_end(world: World) {
    let mut approved = Vec::new();
    for number in 0..60 {
        let opened = world.open("r1", &format!("c{number}")).await;
        approved.push(wire::approve(&world.client, &opened.id).await);
    }
    // Whoever claims changes a record of the run, again and again, while it is being ended.
    let claims = async {
        for suspension in &approved {
            let _claimed_or_voided = world.claim(suspension).await;
        }
    };
    let target = pb::cancel_request::Target::RunId("r1".to_owned());
    let scope = pb::Scope {
        session_id: "s1".to_owned(),
        ..Default::default()
    };
    let (cancelled, ()) = tokio::join!(world.cancel(scope, target), claims);
    let mut voided = 0;
    for suspension in &approved {
        match world.read(suspension).await.execution() {
            pb::Execution::Claimed => {}
            pb::Execution::Voided => voided += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(cancelled.voided_count, voided);
    assert_eq!(world.decide(in_run("r1", "later")).await.kind, "cancelled");
}

async fn a_cancelled_session_ends_all_its_runs(world: World) {
    let one = world.open("r1", "c1").await;
    let other = world.open("r2", "c2").await;
    let target = pb::cancel_request::Target::SessionId("s1".to_owned());
    let foreign = pb::Scope {
        tenant: "rival".to_owned(),
        ..Default::default()
    };
    let nothing = world.cancel(foreign, target.clone()).await;
    assert_eq!(nothing.cancelled_count, 0);
    let cancelled = world.cancel(pb::Scope::default(), target).await;
    assert_eq!(cancelled.cancelled_count, 2);
    let mut ids = vec![one.id, other.id];
    ids.sort();
    let mut named = cancelled.suspension_ids;
    named.sort();
    assert_eq!(named, ids);
    assert_eq!(world.decide(in_run("r3", "c3")).await.kind, "cancelled");
}

async fn a_denied_expiry_leaves_the_run_alone(world: World) {
    let short = pb::DecideRequest {
        expires_in: Some(prost_types::Duration {
            seconds: 60,
            nanos: 0,
        }),
        ..in_run("r1", "c1")
    };
    let expiring = world.decide(short).await.suspension.unwrap();
    let sibling = world.open("r1", "c2").await;
    world.clock.advance(Duration::from_secs(60));
    let expired = world.read(&expiring).await.resolution.unwrap();
    assert_eq!(
        (expired.kind.as_str(), expired.retryable),
        ("expired", true)
    );
    assert_eq!(
        world.read(&sibling).await.status(),
        pb::SuspensionStatus::Pending
    );
    assert_eq!(
        world.decide(in_run("r1", "c3")).await.effect(),
        pb::Effect::Suspend
    );
}

async fn an_approval_that_nobody_used_grows_stale(world: World) {
    let approved = wire::approve(&world.client, &world.open("r1", "c1").await.id).await;
    world.clock.advance(Duration::from_secs(3601));
    let refused = world.claim(&approved).await.unwrap_err();
    assert_eq!(wire::reason(&refused), "APPROVAL_STALE");
    let asked = pb::DecideRequest {
        resumed: true,
        ..in_run("r1", "c1")
    };
    let decided = world.decide(asked).await;
    assert_eq!(
        (decided.effect(), decided.kind.as_str()),
        (pb::Effect::Deny, "expired")
    );
    assert!(decided.retryable);
}

async fn a_claim_asks_the_policy_of_the_moment(world: World) {
    let approved = wire::approve(&world.client, &world.open("r1", "c1").await.id).await;
    let other = wire::approve(&world.client, &world.open("r1", "c2").await.id).await;

    world.swap_policy("mode: deny");
    let refused = world.claim(&approved).await.unwrap_err();
    assert_eq!(wire::reason(&refused), "POLICY_DENIED");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    world.swap_policy(
        "rules: [{id: two, tools: ['*'], decision: ask, approval: {approvers: {quorum: 2}}}]",
    );
    let refused = world.claim(&approved).await.unwrap_err();
    assert_eq!(wire::reason(&refused), "APPROVAL_INSUFFICIENT");
    world.swap_policy(
        "rules: [{id: broken, tools: ['*'], when: args.nothing == 1, decision: allow}]",
    );
    let refused = world.claim(&approved).await.unwrap_err();
    assert_eq!(wire::reason(&refused), "POLICY_DENIED");
    assert!(refused.message().contains("broken"), "{refused:?}");
    assert_eq!(
        world.read(&approved).await,
        approved,
        "a refused claim writes nothing"
    );

    world.swap_policy("default: ask");
    let receipt = world.claim(&approved).await.unwrap();
    world.swap_policy("mode: deny");
    assert_eq!(
        world.claim(&approved).await.unwrap(),
        receipt,
        "a repeat asks no policy"
    );
    assert!(world.claim(&other).await.is_err());
}

async fn edits_are_judged_as_the_call_would_be(world: World) {
    let pending = world.open("r1", "c1").await;
    let edit = async |json: &str| {
        let mut request = wire::answer(&pending.id, true);
        let Some(pb::resume_request::Answer::Approval(approval)) = &mut request.answer else {
            panic!("an approval");
        };
        approval.edited_arguments_json = json.to_owned();
        world
            .client
            .clone()
            .resume(request)
            .await
            .map(tonic::Response::into_inner)
    };
    let refused = edit(r#"{"cents":600000}"#).await.unwrap_err();
    assert_eq!(wire::reason(&refused), "POLICY_DENIED");
    let refused = edit(r#"{"amount":1}"#).await.unwrap_err();
    assert_eq!(
        wire::reason(&refused),
        "POLICY_DENIED",
        "a condition that fails denies"
    );
    let refused = edit("[1]").await.unwrap_err();
    assert_eq!(wire::reason(&refused), "INVALID_REQUEST");
    assert_eq!(world.read(&pending).await, pending, "it is still pending");
    edit(r#"{"cents":100}"#).await.unwrap();
    let receipt = world.claim(&pending).await.unwrap();
    assert_eq!(receipt.arguments_json, r#"{"cents":100}"#);
    assert_ne!(receipt.arguments_digest, pending.arguments_digest);
}

async fn a_tenants_limit_refuses_the_new_and_answers_for_the_known(world: World) {
    let first = world.open("r1", "c1").await;
    let other = pb::cancel_request::Target::RunId("r2".to_owned());
    world.cancel(pb::Scope::default(), other).await;
    // The count may be a second old, so that some more get in.
    let mut opened = vec![first.id.clone()];
    let full = async || {
        let call = format!("more-{}", opened.len());
        match world.client.clone().decide(in_run("r1", &call)).await {
            Ok(decided) => {
                opened.push(decided.into_inner().suspension.unwrap().id);
                false
            }
            Err(status) => wire::reason(&status) == "TOO_MANY_PENDING",
        }
    };
    assert!(eventually(SOON, full).await);
    let again = world.decide(in_run("r1", "c1")).await;
    assert_eq!(again.suspension, Some(first.clone()));
    assert_eq!(world.decide(in_run("r2", "c3")).await.kind, "cancelled");
    let foreign = {
        let mut request = in_run("r1", "c4");
        request.scope.as_mut().unwrap().tenant = "rival".to_owned();
        request
    };
    assert_eq!(world.decide(foreign).await.effect(), pb::Effect::Suspend);
    for id in &opened {
        world
            .client
            .clone()
            .resume(wire::answer(id, false))
            .await
            .unwrap();
    }
    let room = async || {
        world
            .client
            .clone()
            .decide(in_run("r1", "c5"))
            .await
            .is_ok()
    };
    assert!(eventually(SOON, room).await);
}

async fn a_refusal_by_mode_or_default_says_so(world: World) {
    let denied = world.decide(in_run("r1", "c1")).await;
    assert_eq!(
        denied.reason,
        "no rule matches it, and the policy's default denies"
    );
    world.swap_policy("mode: deny");
    let denied = world.decide(in_run("r1", "c1")).await;
    assert_eq!(denied.reason, "the policy's mode denies every call");
    assert!(denied.message_for_model.contains(&denied.reason));
}

async fn a_dry_run_tells_what_is_recorded_and_writes_nothing(world: World) {
    let dry = |call| pb::DecideRequest {
        dry_run: true,
        ..in_run("r1", call)
    };
    let unknown = world.decide(dry("c1")).await;
    assert_eq!(
        (unknown.effect(), unknown.suspension),
        (pb::Effect::Suspend, None)
    );
    let pending = world.open("r1", "c1").await;
    let known = world.decide(dry("c1")).await;
    assert_eq!(known.suspension, Some(pending.clone()));
    let denied = pb::ResumeRequest {
        suspension_id: pending.id.clone(),
        ..wire::answer(&pending.id, false)
    };
    world.client.clone().resume(denied).await.unwrap();
    assert_eq!(world.decide(dry("c1")).await.kind, "denied");
}

async fn a_call_from_a_program_hears_what_was_recorded_for_it(world: World) {
    let program = |call: &str| {
        let mut request = in_run("r1", call);
        let Some(pb::decide_request::Action::Call(call)) = &mut request.action else {
            panic!("a call");
        };
        call.in_program = true;
        request
    };
    let refused = world.decide(program("c1")).await;
    assert_eq!(refused.kind, "approval_required_in_program");
    let pending = world.open("r1", "c1").await;
    world
        .client
        .clone()
        .resume(wire::answer(&pending.id, false))
        .await
        .unwrap();
    assert_eq!(world.decide(program("c1")).await.kind, "denied");
    let listed = pb::ListSuspensionsRequest::default();
    let open = world
        .client
        .clone()
        .list_suspensions(listed)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(open.suspensions, vec![]);
}
