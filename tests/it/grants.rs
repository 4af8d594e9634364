//! Session grants over gRPC, on both stores: what one covers, what it never does, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use assent::pb;
use assent::policy::{Policy, Source};
use assent::store::SuspensionStore;
use assent::store::clock::ClockOffset;
use assent::store::redis::{RedisSettings, RedisStore};
use tonic::{Code, Status};

use crate::support::redis::RedisServer;
use crate::support::server::{InProcess, in_process};
use crate::support::stores::{Home, Homes};
use crate::wire::{self, Client};

/// Runs one body on each home, with a server, a client and a clock that can be moved.
macro_rules! on_both_stores {
    ($($body:ident: $policy:expr;)*) => {$(
        mod $body {
            #[tokio::test(flavor = "multi_thread")]
            async fn on_sqlite() {
                super::on(super::Home::Sqlite, $policy, async |world| super::$body(world).await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_redis() {
                super::on(super::Home::Redis, $policy, async |world| super::$body(world).await).await;
            }
        }
    )*};
}

on_both_stores! {
    a_grant_covers_the_same_call_of_the_same_caller_and_no_other: "";
    a_principal_without_an_id_is_the_same_only_with_the_same_roles_and_attributes: "";
    a_grant_holds_under_the_policy_that_asked_only: "";
    a_grant_covers_no_stricter_class_and_no_other_approvers: super::LEADS;
    a_grant_overrides_no_denial_no_record_and_no_program: "";
    a_grant_answers_no_approval_that_is_open: "";
    a_grant_lets_through_where_no_more_may_be_open: "limits: {pending_per_session: 1, pending_per_tenant: 1}";
    what_cannot_be_granted_is_refused_and_stays_pending: "";
    what_several_must_approve_is_not_granted_by_one: super::QUORUM;
    the_same_answer_again_is_a_retry_and_gives_no_second_grant: "";
    a_grant_ends_when_its_time_is_over: "grants: {expires: 2h}";
    grants_are_listed_in_pages_and_revoked_by_their_tenant_only: "";
    a_cancelled_session_has_no_grants: "";
    a_wrapper_that_names_nothing_for_sure_is_never_granted: "wrappers: [{tool: call_tool, name: /tool}]";
}

const LEADS: &str = "
rules:
  - {id: eu, tools: ['*'], when: \"'eu' in scope.agent_path\", decision: ask, approval: {approvers: {roles: [lead]}}}
";
const QUORUM: &str =
    "rules: [{id: two, tools: ['*'], decision: ask, approval: {approvers: {quorum: 2}}}]";

struct World {
    server: InProcess,
    client: Client,
    clock: ClockOffset,
}

async fn on(home: Home, policy: &str, body: impl AsyncFnOnce(World)) {
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

/// A call by `user-1` in session `s1`, with an id of its own.
fn call(call_id: &str) -> pb::DecideRequest {
    let mut request = wire::destructive(call_id);
    let scope = request.scope.as_mut().unwrap();
    scope.session_id = "s1".to_owned();
    scope.agent_path = vec!["root".to_owned()];
    scope.principal = Some(pb::Principal {
        id: "user-1".to_owned(),
        ..Default::default()
    });
    request
}

fn with_scope(
    mut request: pb::DecideRequest,
    edit: impl FnOnce(&mut pb::Scope),
) -> pb::DecideRequest {
    edit(request.scope.as_mut().unwrap());
    request
}

fn with_call(
    mut request: pb::DecideRequest,
    edit: impl FnOnce(&mut pb::ToolCall),
) -> pb::DecideRequest {
    match &mut request.action {
        Some(pb::decide_request::Action::Call(call)) => edit(call),
        other => panic!("{other:?}"),
    }
    request
}

fn for_session(suspension_id: &str) -> pb::ResumeRequest {
    let mut request = wire::answer(suspension_id, true);
    request.answer = Some(pb::resume_request::Answer::Approval(pb::Approval {
        approved: Some(true),
        grant_scope: pb::GrantScope::Session.into(),
        ..Default::default()
    }));
    request
}

impl World {
    async fn decide(&self, request: pb::DecideRequest) -> pb::DecideResponse {
        let mut client = self.client.clone();
        client.decide(request).await.unwrap().into_inner()
    }

    async fn suspend(&self, request: pb::DecideRequest) -> pb::Suspension {
        let decided = self.decide(request).await;
        assert_eq!(decided.effect(), pb::Effect::Suspend);
        decided.suspension.unwrap()
    }

    async fn resume(&self, request: pb::ResumeRequest) -> Result<pb::ResumeResponse, Status> {
        let answered = self.client.clone().resume(request).await;
        answered.map(tonic::Response::into_inner)
    }

    /// Asks about a call and approves it for the session. Gives the grant's id.
    async fn grant(&self, request: pb::DecideRequest) -> String {
        let suspension = self.suspend(request).await;
        let mut answer = for_session(&suspension.id);
        answer.scope = suspension.scope;
        let answered = self.resume(answer).await.unwrap();
        let resolution = answered.suspension.unwrap().resolution.unwrap();
        assert!(!resolution.grant_id.is_empty());
        resolution.grant_id
    }

    async fn list(&self, tenant: &str, session: &str) -> Vec<pb::Grant> {
        let mut request = pb::ListGrantsRequest {
            tenant: tenant.to_owned(),
            session_id: session.to_owned(),
            page_size: 2,
            ..Default::default()
        };
        let mut all = Vec::new();
        loop {
            let page = self.client.clone().list_grants(request.clone()).await;
            let page = page.unwrap().into_inner();
            assert!(page.grants.len() <= 2);
            all.extend(page.grants);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                return all;
            }
        }
    }

    async fn revoke(&self, tenant: &str, id: &str) -> Result<pb::Grant, Status> {
        let request = pb::RevokeGrantRequest {
            grant_id: id.to_owned(),
            scope: Some(pb::Scope {
                tenant: tenant.to_owned(),
                ..Default::default()
            }),
            by: "ops".to_owned(),
        };
        let revoked = self.client.clone().revoke_grant(request).await;
        revoked.map(tonic::Response::into_inner)
    }

    /// What a call meets: the grant that let it through, or nothing.
    async fn met(&self, request: pb::DecideRequest) -> Option<String> {
        let decided = self.decide(request).await;
        match decided.effect() {
            pb::Effect::Allow => {
                assert!(!decided.grant_id.is_empty());
                assert_eq!((decided.kind.as_str(), decided.suspension), ("", None));
                Some(decided.grant_id)
            }
            pb::Effect::Suspend => {
                assert_eq!(decided.grant_id, "");
                None
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn a_grant_covers_the_same_call_of_the_same_caller_and_no_other(world: World) {
    let grant = Some(world.grant(call("c1")).await);
    let same = [
        call("c2"),
        with_scope(call("c3"), |scope| scope.run_id = "another".to_owned()),
        with_scope(call("c4"), |scope| scope.run_id = String::new()),
        with_scope(call("c5"), |scope| scope.parent_run_id = "p".to_owned()),
        with_call(call("c6"), |call| {
            call.arguments_json = r#"{ "cents": 4.2e5 }"#.to_owned();
        }),
        // The class is no stricter.
        with_call(call("c7"), |call| call.annotations = None),
    ];
    for request in same {
        assert_eq!(world.met(request.clone()).await, grant, "{request:?}");
    }
    let others = [
        with_scope(call("d1"), |scope| scope.tenant = "rival".to_owned()),
        with_scope(call("d2"), |scope| scope.session_id = "s2".to_owned()),
        with_scope(call("d3"), |scope| scope.session_id = String::new()),
        with_scope(call("d4"), |scope| scope.principal = None),
        with_scope(call("d5"), |scope| {
            scope.principal.as_mut().unwrap().id = "user-2".to_owned();
        }),
        with_scope(call("d6"), |scope| scope.agent_path.push("sub".to_owned())),
        with_scope(call("d7"), |scope| scope.agent_path.clear()),
        with_call(call("d8"), |call| {
            call.tool = "client.issue_refunds".to_owned()
        }),
        with_call(call("d9"), |call| call.server = "crm".to_owned()),
        with_call(call("d10"), |call| {
            call.arguments_json = r#"{"cents": 420001}"#.to_owned();
        }),
    ];
    for request in others {
        assert_eq!(world.met(request.clone()).await, None, "{request:?}");
    }
    // A dry run shows it, and so does a batch.
    let dry = pb::DecideRequest {
        dry_run: true,
        ..call("c8")
    };
    assert_eq!(world.met(dry).await, grant);
    let decided = world.decide(call("c9")).await;
    assert_eq!(decided.reason, "`tester` has granted it for the session");
    // Nothing was opened for what the grant let through.
    let in_session = pb::ListSuspensionsRequest {
        session_id: "s1".to_owned(),
        ..Default::default()
    };
    let mut client = world.client.clone();
    let open = client.list_suspensions(in_session).await.unwrap();
    let open = open.into_inner().suspensions;
    assert_eq!(open.len(), 7, "those of the others that are in the session");
}

async fn a_principal_without_an_id_is_the_same_only_with_the_same_roles_and_attributes(
    world: World,
) {
    let with_roles = |call_id, roles: &[&str]| {
        with_scope(call(call_id), |scope| {
            scope.principal = Some(pb::Principal {
                roles: roles.iter().map(|role| (*role).to_owned()).collect(),
                ..Default::default()
            });
        })
    };
    let grant = Some(world.grant(with_roles("c1", &["clerk"])).await);
    assert_eq!(world.met(with_roles("c2", &["clerk"])).await, grant);
    assert_eq!(world.met(with_roles("c3", &["lead"])).await, None);
    assert_eq!(world.met(with_roles("c4", &[])).await, None);
    let as_attribute = with_scope(call("c5"), |scope| {
        let principal = scope.principal.get_or_insert_default();
        principal.id = String::new();
        principal
            .attributes
            .insert("clerk".to_owned(), String::new());
    });
    assert_eq!(world.met(as_attribute).await, None);
}

async fn a_grant_holds_under_the_policy_that_asked_only(world: World) {
    let swap = |text: &str| {
        let source = Source {
            name: "policy.yaml".to_owned(),
            text: text.to_owned(),
        };
        world.server.swap(Policy::compile(&[source]).unwrap());
    };
    swap("version: 1");
    let grant = Some(world.grant(call("c1")).await);
    let asked_before = world
        .suspend(with_scope(call("d1"), |scope| {
            scope.session_id = "s2".to_owned()
        }))
        .await;
    swap("default: ask");
    assert_eq!(world.met(call("c2")).await, None);
    // What was asked under another revision is granted for that one.
    world.resume(for_session(&asked_before.id)).await.unwrap();
    let again = |call_id| with_scope(call(call_id), |scope| scope.session_id = "s2".to_owned());
    assert_eq!(world.met(again("d2")).await, None);
    swap("version: 1");
    assert_eq!(world.met(call("c3")).await, grant);
    assert!(world.met(again("d3")).await.is_some());
}

async fn a_grant_covers_no_stricter_class_and_no_other_approvers(world: World) {
    let write = |call_id| {
        with_call(call(call_id), |call| {
            call.annotations = Some(pb::Annotations {
                destructive_hint: Some(false),
                ..Default::default()
            });
        })
    };
    let grant = Some(world.grant(write("c1")).await);
    assert_eq!(world.met(write("c2")).await, grant);
    assert_eq!(world.met(call("c3")).await, None, "it is destructive now");
    let wider = Some(world.grant(call("c4")).await);
    assert_eq!(world.met(call("c5")).await, wider);
    assert_eq!(world.met(write("c6")).await, wider);

    // A lead is asked for, and whoever granted it was none: so the approval is not even taken.
    let eu = |call_id| {
        with_scope(call(call_id), |scope| {
            scope.agent_path = vec!["eu".to_owned()]
        })
    };
    let suspension = world.suspend(eu("d1")).await;
    let refused = world.resume(for_session(&suspension.id)).await.unwrap_err();
    assert_eq!(wire::reason(&refused), "APPROVER_NOT_ELIGIBLE");
    let by_lead = pb::ResumeRequest {
        by_roles: vec!["lead".to_owned()],
        ..for_session(&suspension.id)
    };
    world.resume(by_lead).await.unwrap();
    assert!(world.met(eu("d2")).await.is_some());
}

async fn a_grant_overrides_no_denial_no_record_and_no_program(world: World) {
    let denied = world.suspend(call("denied")).await;
    world.resume(wire::answer(&denied.id, false)).await.unwrap();
    let approved = world.suspend(call("approved")).await;
    world
        .resume(wire::answer(&approved.id, true))
        .await
        .unwrap();
    let grant = Some(world.grant(call("c1")).await);
    for resumed in [false, true] {
        let again = |call_id| pb::DecideRequest {
            resumed,
            ..call(call_id)
        };
        let decided = world.decide(again("denied")).await;
        assert_eq!(
            (decided.effect(), decided.kind.as_str()),
            (pb::Effect::Deny, "denied")
        );
        let decided = world.decide(again("approved")).await;
        assert_eq!(
            decided.effect(),
            pb::Effect::Suspend,
            "one approval is one execution"
        );
        // And so is the one that gave the grant.
        let decided = world.decide(again("c1")).await;
        assert_eq!(decided.effect(), pb::Effect::Suspend);
    }
    let in_program = with_call(call("p1"), |call| call.in_program = true);
    let decided = world.decide(in_program).await;
    assert_eq!(decided.kind, "approval_required_in_program");
    assert_eq!(world.met(call("c2")).await, grant);

    let run = pb::CancelRequest {
        target: Some(pb::cancel_request::Target::RunId("over".to_owned())),
        scope: Some(pb::Scope {
            session_id: "s1".to_owned(),
            ..Default::default()
        }),
        by: "ops".to_owned(),
        ..Default::default()
    };
    world.client.clone().cancel(run).await.unwrap();
    let late = |dry_run| pb::DecideRequest {
        dry_run,
        ..with_scope(call("c3"), |scope| scope.run_id = "over".to_owned())
    };
    for dry_run in [false, true] {
        assert_eq!(world.decide(late(dry_run)).await.kind, "cancelled");
    }

    let source = Source {
        name: "policy.yaml".to_owned(),
        text: "mode: deny".to_owned(),
    };
    world.server.swap(Policy::compile(&[source]).unwrap());
    assert_eq!(world.decide(call("c4")).await.kind, "access_denied");
}

async fn a_grant_answers_no_approval_that_is_open(world: World) {
    let open = world.suspend(call("open")).await;
    let grant = Some(world.grant(call("c1")).await);
    let decided = world.decide(call("open")).await;
    assert_eq!(decided.effect(), pb::Effect::Suspend);
    assert_eq!(decided.suspension.unwrap().id, open.id);
    assert_eq!(
        wire::get(&world.client, &open.id).await.status(),
        pb::SuspensionStatus::Pending
    );
    assert_eq!(world.met(call("c2")).await, grant);
}

async fn a_grant_lets_through_where_no_more_may_be_open(world: World) {
    let grant = Some(world.grant(call("c1")).await);
    // The approval that gave it is not used yet, and so the one that may be open.
    assert_eq!(world.met(call("c2")).await, grant);
    // Once the tenant's count is known to be at its limit too.
    let other = with_call(call("c3"), |call| call.tool = "client.other".to_owned());
    let refused = world.client.clone().decide(other).await.unwrap_err();
    assert_eq!(wire::reason(&refused), "TOO_MANY_PENDING");
    assert_eq!(world.met(call("c4")).await, grant);
}

async fn what_cannot_be_granted_is_refused_and_stays_pending(world: World) {
    let suspension = world.suspend(call("c1")).await;
    let without = |edit: fn(&mut pb::Approval)| {
        let mut request = for_session(&suspension.id);
        match &mut request.answer {
            Some(pb::resume_request::Answer::Approval(approval)) => edit(approval),
            other => panic!("{other:?}"),
        }
        request
    };
    let no_session = with_scope(call("c2"), |scope| scope.session_id = String::new());
    let no_session = world.suspend(no_session).await;
    for (request, pending) in [
        (
            without(|approval| approval.approved = Some(false)),
            &suspension,
        ),
        (
            without(|approval| approval.edited_arguments_json = "{}".to_owned()),
            &suspension,
        ),
        (
            without(|approval| approval.edited_arguments_json = "{".to_owned()),
            &suspension,
        ),
        (without(|approval| approval.grant_scope = 7), &suspension),
        (for_session(&no_session.id), &no_session),
    ] {
        let refused = world.resume(request.clone()).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{request:?}");
        assert_eq!(wire::reason(&refused), "INVALID_REQUEST", "{request:?}");
        let read = wire::get(&world.client, &pending.id).await;
        assert_eq!(read.status(), pb::SuspensionStatus::Pending);
    }
    // That nothing was decided is said first.
    let undecided = without(|approval| approval.approved = None);
    let refused = world.resume(undecided).await.unwrap_err();
    assert_eq!(wire::reason(&refused), "KIND_MISMATCH");
    assert_eq!(world.list("", "").await, []);
}

async fn what_several_must_approve_is_not_granted_by_one(world: World) {
    let suspension = world.suspend(call("c1")).await;
    let refused = world.resume(for_session(&suspension.id)).await.unwrap_err();
    assert_eq!(wire::reason(&refused), "INVALID_REQUEST");
    assert_eq!(wire::get(&world.client, &suspension.id).await.votes, []);
}

async fn the_same_answer_again_is_a_retry_and_gives_no_second_grant(world: World) {
    let suspension = world.suspend(call("c1")).await;
    let first = world.resume(for_session(&suspension.id)).await.unwrap();
    let again = world.resume(for_session(&suspension.id)).await.unwrap();
    assert_eq!(again.outcome(), pb::ResumeOutcome::Duplicate);
    assert_eq!(again.suspension, first.suspension);
    let once = world.resume(wire::answer(&suspension.id, true)).await;
    assert_eq!(wire::reason(&once.unwrap_err()), "ALREADY_RESOLVED");
    assert_eq!(world.list("", "s1").await.len(), 1);
}

async fn a_grant_ends_when_its_time_is_over(world: World) {
    let grant = Some(world.grant(call("c1")).await);
    let listed = world.list("", "s1").await;
    let seconds = |time: &Option<prost_types::Timestamp>| time.as_ref().unwrap().seconds;
    let held = seconds(&listed[0].expire_time) - seconds(&listed[0].create_time);
    assert_eq!(held, 2 * 60 * 60);
    world.clock.advance(Duration::from_secs(2 * 60 * 60 - 60));
    assert_eq!(world.met(call("c2")).await, grant);
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(world.met(call("c3")).await, None);
    assert_eq!(world.list("", "").await, []);
}

async fn grants_are_listed_in_pages_and_revoked_by_their_tenant_only(world: World) {
    let in_tenant = |call_id: &str, session: &str| {
        with_scope(call(call_id), |scope| {
            scope.tenant = "acme".to_owned();
            scope.session_id = session.to_owned();
        })
    };
    let mut ids = Vec::new();
    for session in ["s1", "s2", "s3", "s4", "s5"] {
        ids.push(world.grant(in_tenant("c1", session)).await);
    }
    let listed = world.list("acme", "").await;
    assert_eq!(
        listed.iter().map(|grant| &grant.id).collect::<Vec<_>>(),
        ids.iter().collect::<Vec<_>>()
    );
    assert_eq!(world.list("", "").await, []);
    let of_session = world.list("acme", "s2").await;
    assert_eq!(of_session, [listed[1].clone()]);

    let first = listed[0].clone();
    let asked = world
        .decide(pb::DecideRequest {
            dry_run: true,
            ..in_tenant("c2", "s1")
        })
        .await;
    let expected = pb::Grant {
        id: ids[0].clone(),
        scope: Some(pb::Scope {
            tenant: "acme".to_owned(),
            session_id: "s1".to_owned(),
            principal: Some(pb::Principal {
                id: "user-1".to_owned(),
                ..Default::default()
            }),
            agent_path: vec!["root".to_owned()],
            ..Default::default()
        }),
        tool: "client.issue_refund".to_owned(),
        server: String::new(),
        arguments_digest: asked.arguments_digest,
        by: "tester".to_owned(),
        policy_revision: asked.policy_revision,
        ..first.clone()
    };
    assert_eq!(first, expected);
    let given = pb::GetSuspensionRequest {
        suspension_id: first.suspension_id.clone(),
        scope: first.scope.clone(),
        ..Default::default()
    };
    let given = world
        .client
        .clone()
        .get_suspension(given)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(given.resolution.unwrap().grant_id, ids[0]);

    let foreign = world.revoke("rival", &ids[0]).await.unwrap_err();
    assert_eq!(
        (foreign.code(), wire::reason(&foreign)),
        (Code::PermissionDenied, "ACCESS_DENIED".to_owned())
    );
    assert_eq!(world.met(in_tenant("c3", "s1")).await, Some(ids[0].clone()));
    let unknown = "0192f0c1-0000-7000-8000-00000000000a";
    let nowhere = "0192f0c1-0000-7000-8000-000000000040";
    for id in [unknown, nowhere, &first.suspension_id] {
        let refused = world.revoke("acme", id).await.unwrap_err();
        assert_eq!(
            (refused.code(), wire::reason(&refused)),
            (Code::NotFound, "GRANT_NOT_FOUND".to_owned())
        );
    }
    for id in ["", "x", "0192F0C1-0000-7000-8000-00000000000A"] {
        let refused = world.revoke("acme", id).await.unwrap_err();
        assert_eq!(wire::reason(&refused), "INVALID_REQUEST");
    }

    let revoked = world.revoke("acme", &ids[0]).await.unwrap();
    assert_eq!(
        revoked,
        pb::Grant {
            expire_time: revoked.expire_time,
            ..first
        }
    );
    assert_eq!(world.revoke("acme", &ids[0]).await.unwrap(), revoked);
    assert_eq!(world.met(in_tenant("c4", "s1")).await, None);
    assert_eq!(world.list("acme", "").await, listed[1..]);

    let page = |page_size, page_token: &str| pb::ListGrantsRequest {
        tenant: "acme".to_owned(),
        page_size,
        page_token: page_token.to_owned(),
        ..Default::default()
    };
    for request in [page(1_001, ""), page(-1, ""), page(1, "x")] {
        let refused = world.client.clone().list_grants(request).await.unwrap_err();
        assert_eq!(wire::reason(&refused), "INVALID_REQUEST");
    }
}

async fn a_cancelled_session_has_no_grants(world: World) {
    let grant = world.grant(call("c1")).await;
    let kept = world
        .grant(with_scope(call("d1"), |scope| {
            scope.session_id = "s2".to_owned()
        }))
        .await;
    let session = pb::CancelRequest {
        target: Some(pb::cancel_request::Target::SessionId("s1".to_owned())),
        by: "ops".to_owned(),
        ..Default::default()
    };
    for voided in [1, 0] {
        let cancelled = world.client.clone().cancel(session.clone()).await;
        assert_eq!(cancelled.unwrap().into_inner().voided_count, voided);
        assert_eq!(world.decide(call("c2")).await.kind, "cancelled");
        let left: Vec<String> = world
            .list("", "")
            .await
            .into_iter()
            .map(|grant| grant.id)
            .collect();
        assert_eq!(left, std::slice::from_ref(&kept));
    }
    let ended = world.revoke("", &grant).await.unwrap();
    assert!(ended.expire_time.unwrap().seconds < ended.create_time.unwrap().seconds + 60 * 60);
}

async fn a_wrapper_that_names_nothing_for_sure_is_never_granted(world: World) {
    let wrapper = |call_id| {
        with_call(call(call_id), |call| {
            call.tool = "call_tool".to_owned();
            call.arguments_json = r#"{"tool": 7}"#.to_owned();
        })
    };
    let suspension = world.suspend(wrapper("c1")).await;
    let refused = world.resume(for_session(&suspension.id)).await.unwrap_err();
    assert_eq!(wire::reason(&refused), "INVALID_REQUEST");
    world
        .resume(wire::answer(&suspension.id, true))
        .await
        .unwrap();
    assert_eq!(world.met(wrapper("c2")).await, None);
}

/// A world on a Redis of its own, and what looks behind it.
async fn on_a_redis() -> (
    RedisServer,
    Arc<RedisStore>,
    World,
    redis::aio::MultiplexedConnection,
) {
    let redis = RedisServer::start(&[]);
    let clock = ClockOffset::default();
    let settings = RedisSettings::new(redis.url());
    let store = RedisStore::connect(&settings, clock.clone()).await.unwrap();
    let store = Arc::new(store);
    let shared: Arc<dyn SuspensionStore> = Arc::<RedisStore>::clone(&store);
    let server = in_process(None, shared).await;
    let client = wire::connect(server.address()).await;
    let raw = redis::Client::open(redis.url()).unwrap();
    let raw = raw.get_multiplexed_async_connection().await.unwrap();
    let world = World {
        server,
        client,
        clock,
    };
    (redis, store, world, raw)
}

async fn run<T: redis::FromRedisValue>(
    raw: &mut redis::aio::MultiplexedConnection,
    command: &[&str],
) -> T {
    let mut cmd = redis::cmd(command[0]);
    cmd.arg(&command[1..]);
    cmd.query_async(raw).await.unwrap()
}

/// The one key that holds this text behind its hash tag.
async fn key(raw: &mut redis::aio::MultiplexedConnection, what: &str) -> String {
    let keys: Vec<String> = run(raw, &["KEYS", &format!("*}}:{what}*")]).await;
    assert_eq!(keys.len(), 1, "{what}: {keys:?}");
    keys[0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_key_of_a_grant_on_redis_goes_on_its_own() {
    const HOUR: i64 = 60 * 60 * 1000;
    const GRACE: i64 = 24 * HOUR;
    let (_redis, _store, world, mut raw) = on_a_redis().await;
    let grant = world.grant(call("c1")).await;
    let index: Vec<String> = run(&mut raw, &["KEYS", "*}:l:*"]).await;
    assert_eq!(index.len(), 2, "of the tenant and of the session");
    let record = key(&mut raw, "g:").await;
    assert!(record.ends_with(&grant));
    let finds = key(&mut raw, "a:").await;
    let mut expected = vec![
        (record.clone(), (24 + 7 * 24) * HOUR + GRACE),
        (finds.clone(), 24 * HOUR + GRACE),
    ];
    expected.extend(index.iter().map(|index| (index.clone(), 24 * HOUR + GRACE)));
    for (key, most) in expected {
        let left: i64 = run(&mut raw, &["PTTL", &key]).await;
        assert!(left <= most && left > most - HOUR, "{key}: {left}");
    }

    // Ending one needs no memory, and leaves only the record.
    let _: String = run(&mut raw, &["CONFIG", "SET", "maxmemory", "1"]).await;
    world.revoke("", &grant).await.unwrap();
    let _: String = run(&mut raw, &["CONFIG", "SET", "maxmemory", "0"]).await;
    for key in index.iter().chain([&finds]) {
        let exists: i64 = run(&mut raw, &["EXISTS", key]).await;
        assert_eq!(exists, 0, "{key}");
    }
    assert_eq!(world.revoke("", &grant).await.unwrap().id, grant);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_on_redis_that_cannot_be_read_lets_nothing_through_and_stops_nothing() {
    let (_redis, store, world, mut raw) = on_a_redis().await;
    let damages: [&[&str]; 5] = [
        &["HSET", "KEY", "leave", "{"],
        &["HSET", "KEY", "format", "3"],
        &["HDEL", "KEY", "created"],
        &["HSET", "KEY", "expires", "soon"],
        &["SET", "KEY", "no hash"],
    ];
    for (round, damage) in damages.iter().enumerate() {
        let session = format!("s{round}");
        let asked = |call_id: &str| {
            with_scope(call(call_id), |scope| scope.session_id.clone_from(&session))
        };
        let grant = world.grant(asked(&format!("a{round}"))).await;
        assert_eq!(
            world.met(asked(&format!("b{round}"))).await,
            Some(grant.clone())
        );
        let record = key(&mut raw, &format!("g:{grant}")).await;
        let damage: Vec<&str> = damage
            .iter()
            .map(|word| {
                if *word == "KEY" {
                    record.as_str()
                } else {
                    word
                }
            })
            .collect();
        let _: redis::Value = run(&mut raw, &damage).await;
        let before = store.set_aside();
        let dry = pb::DecideRequest {
            dry_run: true,
            ..asked(&format!("c{round}"))
        };
        assert_eq!(world.met(dry).await, None, "{damage:?}");
        assert_eq!(
            world.met(asked(&format!("d{round}"))).await,
            None,
            "{damage:?}"
        );
        if round < 3 {
            assert!(store.set_aside() > before, "{damage:?}");
        }
        assert_eq!(world.list("", &session).await, []);
        // Another approval takes its place, and the session ends with it or without.
        let next = world.grant(asked(&format!("e{round}"))).await;
        assert_eq!(world.met(asked(&format!("f{round}"))).await, Some(next));
        let _: redis::Value = run(&mut raw, &["SET", &record, "no hash"]).await;
        let over = pb::CancelRequest {
            target: Some(pb::cancel_request::Target::SessionId(session.clone())),
            by: "ops".to_owned(),
            ..Default::default()
        };
        world.client.clone().cancel(over).await.unwrap();
        assert_eq!(
            world.decide(asked(&format!("g{round}"))).await.kind,
            "cancelled"
        );
    }
}
