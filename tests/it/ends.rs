//! The end of a run or a session when there is much in it, or something broken: through the use cases, on both stores.

mod broken_off;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use assent::arguments::Arguments;
use assent::domain::{AskedCall, Id, Scope, Timestamp, ToolCall};
use assent::engine::{
    Action, Cancelled, DecideRequest, Decided, Effect, Engine, EngineError, Target,
};
use assent::grpc::PortClient;
use assent::policy::{Policy, Source};
use assent::store::clock::ClockOffset;
use assent::store::redis::{RedisSettings, RedisStore};
use assent::store::{Group, StoreError, SuspensionStore};
use assent::suspension::{
    Answer, Approval, Claim, Execution, GrantScope, Refusal, Reply, Status, Suspension,
    SuspensionId,
};
use assent::watch::Waiters;

use self::broken_off::BrokenOff;
use crate::support::redis::RedisServer;
use crate::support::stores::{Home, Homes};

/// An agent, a person and a worker, all of one tenant.
struct World {
    engine: Engine,
    policy: Arc<Policy>,
}

fn id(text: &str) -> Id {
    Id::parse(text).unwrap()
}

fn run_r() -> Group {
    Group::Run {
        tenant: Id::default(),
        session: Some(id("s")),
        run: id("r"),
    }
}

impl World {
    fn over(store: Arc<dyn SuspensionStore>) -> Self {
        Self::under("limits: {pending_per_session: 5000}", store)
    }

    fn under(policy: &str, store: Arc<dyn SuspensionStore>) -> Self {
        let source = Source {
            name: "policy.yaml".to_owned(),
            text: policy.to_owned(),
        };
        let policy = Arc::new(Policy::compile(&[source]).unwrap());
        let current = Arc::new(ArcSwap::from(Arc::clone(&policy)));
        let clock = || Timestamp::from_millis(0);
        Self {
            engine: Engine::new(
                store,
                current,
                Arc::new(PortClient::default()),
                Waiters::default(),
                clock,
            ),
            policy,
        }
    }

    /// Asks for a call of run `r` of session `s`, which waits for a person.
    async fn suspend(&self, call: &str) -> SuspensionId {
        self.suspend_for(call, None).await
    }

    /// The same, for a shorter time than the policy's.
    async fn suspend_for(&self, call: &str, expires_in: Option<Duration>) -> SuspensionId {
        let decided = self.decide(call, expires_in).await;
        decided.suspension.unwrap().id
    }

    async fn decide(&self, call: &str, expires_in: Option<Duration>) -> Decided {
        let request = DecideRequest {
            scope: Scope {
                session_id: id("s"),
                run_id: id("r"),
                ..Scope::default()
            },
            action: Action::Call(Box::new(AskedCall {
                call: ToolCall {
                    call_id: id(call),
                    step_id: Id::default(),
                    tool: id("client.open_case"),
                    server: Id::default(),
                    origin: None,
                    annotations: None,
                    arguments: Arguments::parse("{}", 2).unwrap(),
                    in_program: false,
                    parent_call_id: Id::default(),
                    wrapped: None,
                },
                target: None,
            })),
            expires_in,
            resumed: false,
            dry_run: false,
        };
        self.engine.decide(&self.policy, request).await.unwrap()
    }

    async fn approve(&self, suspension: SuspensionId) -> Result<Suspension, EngineError> {
        let reply = Reply {
            by: id("ann"),
            by_roles: Vec::new(),
            arguments_digest: None,
            answer: Some(Answer::Approval(Approval {
                approved: true,
                reason: String::new(),
                edited_arguments: None,
                grant_scope: GrantScope::Once,
            })),
            flaw: None,
        };
        let tenant = Id::default();
        let resumed = self
            .engine
            .resume(&self.policy, &tenant, suspension, &reply)
            .await?;
        Ok(resumed.suspension)
    }

    async fn claim(&self, suspension: SuspensionId) -> Result<Suspension, EngineError> {
        let claim = Claim {
            attempt_id: id("attempt"),
            arguments_digest: None,
            force: false,
            by: id("worker"),
        };
        let tenant = Id::default();
        let receipt = self
            .engine
            .claim(&self.policy, &tenant, suspension, &claim)
            .await?;
        Ok(receipt.suspension)
    }

    async fn cancel_run(&self, reason: &str) -> Cancelled {
        self.try_to_cancel_run(reason).await.unwrap()
    }

    async fn try_to_cancel_run(&self, reason: &str) -> Result<Cancelled, EngineError> {
        let run = Target::All(run_r());
        let (tenant, by) = (Id::default(), id("ops"));
        let cancelled = self.engine.cancel(&self.policy, &tenant, &run, &by, reason);
        cancelled.await
    }
}

async fn a_run_that_is_too_large_for_one_commit_ends_whole(home: Home) {
    let homes = Homes::start(home).await;
    let store = homes.fresh().await;
    let world = World::over(Arc::clone(&store));
    let mut opened = Vec::new();
    for call in 0..1_100 {
        opened.push(world.suspend(&format!("c{call}")).await);
    }
    for approved in &opened[..10] {
        world.approve(*approved).await.unwrap();
    }
    let cancelled = world.cancel_run("no longer needed").await;
    assert_eq!((cancelled.cancelled, cancelled.voided), (1_090, 10));
    let mut ids = cancelled.ids;
    ids.sort_unstable();
    opened.sort_unstable();
    assert_eq!(ids, opened);
    assert_eq!(store.count_open(&run_r()).await.unwrap(), 0);
    let again = world.cancel_run("once more").await;
    assert_eq!((again.cancelled, again.voided), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_too_large_for_one_commit_ends_whole_on_sqlite() {
    a_run_that_is_too_large_for_one_commit_ends_whole(Home::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_too_large_for_one_commit_ends_whole_on_redis() {
    a_run_that_is_too_large_for_one_commit_ends_whole(Home::Redis).await;
}

async fn reasons_that_are_too_large_for_one_commit_are_written_in_parts(home: Home) {
    let homes = Homes::start(home).await;
    let world = World::over(homes.fresh().await);
    for call in 0..300 {
        world.suspend(&format!("c{call}")).await;
    }
    let cancelled = world.cancel_run(&"why ".repeat(2_000)).await;
    assert_eq!((cancelled.cancelled, cancelled.voided), (300, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn reasons_that_are_too_large_for_one_commit_are_written_in_parts_on_sqlite() {
    reasons_that_are_too_large_for_one_commit_are_written_in_parts(Home::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reasons_that_are_too_large_for_one_commit_are_written_in_parts_on_redis() {
    reasons_that_are_too_large_for_one_commit_are_written_in_parts(Home::Redis).await;
}

/// Writes the end of run `r` alone, as another process may have done that is about to withdraw what is in it.
async fn write_the_end_alone(store: &dyn SuspensionStore) {
    use assent::store::{Closing, Commit};
    let group = run_r();
    let commit = Commit {
        partition: group.partition().unwrap(),
        operation: uuid::Uuid::new_v4(),
        changes: Vec::new(),
        not_after: None,
        unless_closed: Vec::new(),
        giving: None,
        closing: Some(Closing {
            group,
            open: None,
            retention: std::time::Duration::from_secs(3600),
        }),
    };
    store.commit(&commit).await.unwrap();
}

async fn what_an_end_has_not_reached_yet_can_no_more_be_claimed_or_answered(home: Home) {
    let homes = Homes::start(home).await;
    let store = homes.fresh().await;
    let world = World::over(Arc::clone(&store));
    let approved = world.suspend("c1").await;
    world.approve(approved).await.unwrap();
    let pending = world.suspend("c2").await;
    let held = world.suspend("c3").await;
    world.approve(held).await.unwrap();
    world.claim(held).await.unwrap();
    write_the_end_alone(store.as_ref()).await;
    for refused in [
        world.claim(approved).await.unwrap_err(),
        world.approve(pending).await.unwrap_err(),
    ] {
        assert!(
            matches!(
                refused,
                EngineError::Refused {
                    refusal: Refusal::Cancelled,
                    ..
                }
            ),
            "{refused:?}"
        );
    }
    // Whoever wrote the end may never come to them: what is told is what is then.
    let state = async |id| store.read(id).await.unwrap().0.unwrap().state;
    assert_eq!(state(approved).await.execution, Execution::Voided);
    assert_eq!(state(pending).await.status, Status::Cancelled);
    let cancelled = world.cancel_run("").await;
    assert_eq!((cancelled.cancelled, cancelled.voided), (0, 0));
    // What was claimed before the end goes on: the tool may be running.
    let receipt = world.claim(held).await.unwrap();
    assert_eq!(receipt.state.execution, Execution::Claimed);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_end_has_not_reached_yet_can_no_more_be_claimed_or_answered_on_sqlite() {
    what_an_end_has_not_reached_yet_can_no_more_be_claimed_or_answered(Home::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_end_has_not_reached_yet_can_no_more_be_claimed_or_answered_on_redis() {
    what_an_end_has_not_reached_yet_can_no_more_be_claimed_or_answered(Home::Redis).await;
}

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn an_expirys_end_that_breaks_off_is_finished_by_the_next_sweep(home: Home) {
    let homes = Homes::start(home).await;
    let clock = ClockOffset::default();
    let store = BrokenOff::over(homes.fresh_at(clock.clone()).await);
    let world = World::over(Arc::<BrokenOff>::clone(&store));
    let trigger = world.suspend_for("first", Some(HOUR)).await;
    let mut others = Vec::new();
    for call in 0..1_100 {
        others.push(world.suspend(&format!("c{call}")).await);
    }
    world.approve(others[0]).await.unwrap();
    clock.advance(HOUR);

    // Each sweep is broken off a little later: at once, after the end itself, after some of the records.
    let mut open = 1_101;
    for commits in [0, 1, 3] {
        store.break_off_after(commits);
        let broken = world.engine.sweep().await.unwrap_err();
        assert!(
            matches!(broken, EngineError::Store(StoreError::Unavailable(_))),
            "{broken:?}"
        );
        let still = store.count_open(&run_r()).await.unwrap();
        assert!(still <= open && still > 0, "{still} of {open}");
        open = still;
        let first = store.read(trigger).await.unwrap().0.unwrap();
        assert_eq!(
            first.state.status,
            Status::Pending,
            "it is due until all is done"
        );
    }
    assert!(open < 1_101);
    store.mend();
    world.engine.sweep().await.unwrap();
    assert_eq!(store.count_open(&run_r()).await.unwrap(), 0);
    let status = async |id| store.read(id).await.unwrap().0.unwrap().state.status;
    assert_eq!(status(trigger).await, Status::Expired);
    let voided = store.read(others[0]).await.unwrap().0.unwrap().state;
    assert_eq!(voided.execution, Execution::Voided);
    for id in &others[1..] {
        assert_eq!(status(*id).await, Status::Cancelled);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expirys_end_that_breaks_off_is_finished_by_the_next_sweep_on_sqlite() {
    an_expirys_end_that_breaks_off_is_finished_by_the_next_sweep(Home::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expirys_end_that_breaks_off_is_finished_by_the_next_sweep_on_redis() {
    an_expirys_end_that_breaks_off_is_finished_by_the_next_sweep(Home::Redis).await;
}

async fn an_end_that_broke_off_holds_until_the_last_deadline_that_was_open(home: Home) {
    let homes = Homes::start(home).await;
    let clock = ClockOffset::default();
    let store = BrokenOff::over(homes.fresh_at(clock.clone()).await);
    let policy = "suspensions: {approval: {expires: 30d}, retention: 7d}\n\
                  limits: {pending_per_session: 5000}";
    let world = World::under(policy, Arc::<BrokenOff>::clone(&store));
    // More than one look takes, and the last of them is the one that waits longest.
    for call in 0..1_050 {
        world.suspend_for(&format!("c{call}"), Some(20 * DAY)).await;
    }
    let longest = world.suspend("longest").await;
    store.break_off_after(1);
    world.try_to_cancel_run("").await.unwrap_err();
    store.mend();

    clock.advance(19 * DAY);
    world.engine.sweep().await.unwrap();
    clock.advance(10 * DAY + 23 * HOUR);
    let decided = world.decide("late", None).await;
    assert_eq!(decided.effect, Effect::Deny, "the run is over");
    let refused = world.approve(longest).await.unwrap_err();
    assert!(
        matches!(
            refused,
            EngineError::Refused {
                refusal: Refusal::Cancelled,
                ..
            }
        ),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_broke_off_holds_until_the_last_deadline_that_was_open_on_sqlite() {
    an_end_that_broke_off_holds_until_the_last_deadline_that_was_open(Home::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_broke_off_holds_until_the_last_deadline_that_was_open_on_redis() {
    an_end_that_broke_off_holds_until_the_last_deadline_that_was_open(Home::Redis).await;
}

async fn what_is_opened_while_a_large_end_is_written_ends_with_it(home: Home) {
    let homes = Homes::start(home).await;
    let store = BrokenOff::over(homes.fresh().await);
    let world = World::over(Arc::<BrokenOff>::clone(&store));
    for call in 0..300 {
        world.suspend(&format!("c{call}")).await;
    }
    store.open_another_before_the_next_commit();
    let cancelled = world.cancel_run(&"why ".repeat(2_000)).await;
    assert_eq!((cancelled.cancelled, cancelled.voided), (301, 0));
    assert_eq!(store.count_open(&run_r()).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_opened_while_a_large_end_is_written_ends_with_it_on_sqlite() {
    what_is_opened_while_a_large_end_is_written_ends_with_it(Home::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_opened_while_a_large_end_is_written_ends_with_it_on_redis() {
    what_is_opened_while_a_large_end_is_written_ends_with_it(Home::Redis).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_lacks_a_field_keeps_no_run_from_ending_and_is_not_claimed_after_it() {
    let server = RedisServer::start(&[]);
    let settings = RedisSettings::new(server.url());
    let store = RedisStore::connect(&settings, ClockOffset::default());
    let store = Arc::new(store.await.unwrap());
    let world = World::over(Arc::<RedisStore>::clone(&store));
    let client = redis::Client::open(server.url()).unwrap();
    let mut raw = client.get_multiplexed_async_connection().await.unwrap();
    let mut ids = Vec::new();
    for call in ["c1", "c2", "c3", "c4"] {
        let suspension = world.suspend(call).await;
        world.approve(suspension).await.unwrap();
        ids.push(suspension);
    }
    for (id, field) in ids.iter().zip(["indexes", "open", "run"]) {
        let mut keys = redis::cmd("KEYS");
        let keys: Vec<String> = keys
            .arg(format!("*:r:{id}"))
            .query_async(&mut raw)
            .await
            .unwrap();
        let mut damage = redis::cmd("HDEL");
        let gone: i64 = damage
            .arg(&keys[0])
            .arg(field)
            .query_async(&mut raw)
            .await
            .unwrap();
        assert_eq!(gone, 1);
    }
    let cancelled = world.cancel_run("").await;
    assert_eq!((cancelled.ids, cancelled.voided), (vec![ids[3]], 1));
    assert_eq!(store.set_aside(), 3);
    for id in &ids {
        let refused = world.claim(*id).await.unwrap_err();
        let never_runs = matches!(
            refused,
            EngineError::Refused {
                refusal: Refusal::Cancelled,
                ..
            } | EngineError::Store(StoreError::Corrupt { .. })
        );
        assert!(never_runs, "{refused:?}");
    }
    // What was set aside does not keep the end from being repeated.
    let again = world.cancel_run("").await;
    assert_eq!((again.ids, again.voided), (vec![], 0));
}
