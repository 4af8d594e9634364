//! What only the shared home has to get right: the server behind it, its keys, and other replicas.
//! What both homes share is in `store_contract.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may fail by panicking"
)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use assent::domain::{ApproverRule, Id, OnExpiry, RunStart, Scope, Timestamp};
use assent::store::clock::ClockOffset;
use assent::store::redis::{RedisSettings, RedisStore};
use assent::store::{
    CallKey, Change, Commit, Committed, Cursor, Group, Heard, Member, Opened, Opening, Place,
    Query, StoreError, SuspensionStore,
};
use assent::suspension::{
    Body, Execution, State, Status, Subject, Suspension, SuspensionId, Upkeep,
};
use redis::aio::MultiplexedConnection;
use uuid::Uuid;

use crate::support::redis::RedisServer;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const MINUTE: Duration = Duration::from_secs(60);

/// A server with one store on it, and a connection to look behind it.
struct Home {
    server: RedisServer,
    store: RedisStore,
    clock: ClockOffset,
    raw: MultiplexedConnection,
}

impl Home {
    async fn start(extra_args: &[&str]) -> Self {
        let server = RedisServer::start(extra_args);
        let clock = ClockOffset::default();
        let store = RedisStore::connect(&settings(&server), clock.clone())
            .await
            .unwrap();
        let raw = raw(&server).await;
        Self {
            server,
            store,
            clock,
            raw,
        }
    }

    /// Another replica on the same server.
    async fn replica(&self) -> RedisStore {
        RedisStore::connect(&settings(&self.server), self.clock.clone())
            .await
            .unwrap()
    }

    async fn run<T: redis::FromRedisValue>(&mut self, command: &[&str]) -> T {
        let mut cmd = redis::cmd(command[0]);
        cmd.arg(&command[1..]);
        cmd.query_async(&mut self.raw).await.unwrap()
    }

    async fn keys(&mut self) -> BTreeSet<String> {
        self.run(&["KEYS", "*"]).await
    }

    /// The key of a record.
    async fn record(&mut self, id: SuspensionId) -> String {
        let keys = self.keys().await;
        keys.into_iter()
            .find(|key| key.ends_with(&format!(":r:{id}")))
            .unwrap()
    }
}

fn settings(server: &RedisServer) -> RedisSettings {
    RedisSettings::new(server.url())
}

async fn raw(server: &RedisServer) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

async fn refusal(settings: &RedisSettings) -> String {
    match RedisStore::connect(settings, ClockOffset::default()).await {
        Ok(_) => panic!("it started"),
        Err(error @ StoreError::Unusable(_)) => error.to_string(),
        Err(error) => panic!("not a refusal to start: {error:?}"),
    }
}

fn id(text: &str) -> Id {
    Id::parse(text).unwrap()
}

fn scope(session: &str, run: &str) -> Scope {
    Scope {
        tenant: id("acme"),
        session_id: id(session),
        run_id: id(run),
        ..Scope::default()
    }
}

/// An opening that waits a minute and is kept for a day.
fn opening(scope: &Scope, key: Option<CallKey>) -> Opening {
    let place = Place::of(scope, Uuid::new_v4().as_bytes()[0]);
    Opening {
        id: SuspensionId::new(Uuid::new_v4(), place.partition),
        place,
        key,
        grant: None,
        body: Body {
            scope: scope.clone(),
            subject: Subject::Run(RunStart { version: id("1") }),
            risk_class: None,
            title: String::new(),
            reason: "why".to_owned(),
            arguments_digest: None,
            on_expiry: OnExpiry::Deny,
            approvers: ApproverRule::default(),
            matched_rule: String::new(),
            policy_revision: "r1".to_owned(),
        },
        expires: MINUTE,
        retention: DAY,
        limit: 1000,
    }
}

async fn open(store: &RedisStore, opening: &Opening) -> Suspension {
    match store.open(opening).await.unwrap() {
        Opened::Created(suspension) => suspension,
        other => panic!("not created: {other:?}"),
    }
}

fn change(suspension: &Suspension, state: State) -> Change {
    let upkeep = state.upkeep(suspension.expire_time, DAY);
    Change {
        id: suspension.id,
        version: suspension.version,
        state,
        upkeep,
    }
}

fn member_change(member: &Member, state: State) -> Change {
    Change {
        id: member.id,
        version: member.version,
        upkeep: state.upkeep(member.expire_time, DAY),
        state,
    }
}

fn commit(changes: Vec<Change>) -> Commit {
    Commit {
        partition: changes[0].id.partition().unwrap(),
        operation: Uuid::new_v4(),
        changes,
        not_after: None,
        unless_closed: Vec::new(),
        giving: None,
        closing: None,
    }
}

fn tenant() -> Group {
    Group::Tenant { tenant: id("acme") }
}

fn session(session: &str) -> Group {
    Group::Session {
        tenant: id("acme"),
        session: id(session),
    }
}

async fn list(store: &RedisStore, group: Group, open_only: bool, page: usize) -> Vec<SuspensionId> {
    let mut query = Query {
        group,
        open_only,
        after: None,
        limit: page,
    };
    let mut ids = Vec::new();
    loop {
        let slice = store.list(&query).await.unwrap();
        assert!(slice.suspensions.len() <= page);
        ids.extend(slice.suspensions.iter().map(|suspension| suspension.id));
        match slice.next {
            None => return ids,
            next => query.after = next,
        }
    }
}

/// Settles whatever is due, as the engine's sweeper does; how many commits were its own.
async fn sweep(store: &RedisStore) -> usize {
    let mut settled = 0;
    loop {
        let due = store.due(10).await.unwrap();
        for member in &due.members {
            let next = member
                .state
                .settled(member.expire_time, member.on_expiry, due.now);
            if let Some(state) = next {
                let commit = commit(vec![member_change(member, state)]);
                if store.commit(&commit).await.unwrap() == Committed::Done {
                    settled += 1;
                }
            }
        }
        if !due.more {
            return settled;
        }
    }
}

/// Waits until something is so; never a fixed sleep.
async fn eventually<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "it never happened"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn another_layout_or_number_of_partitions_refuses_to_start() {
    let mut home = Home::start(&[]).await;
    for (field, found) in [("partitions", "32"), ("layout", "2")] {
        let before: String = home.run(&["HGET", "assent:meta", field]).await;
        let _: i64 = home.run(&["HSET", "assent:meta", field, found]).await;
        let refusal = refusal(&settings(&home.server)).await;
        assert!(refusal.contains("another key prefix"), "{refusal}");
        let _: i64 = home.run(&["HSET", "assent:meta", field, &before]).await;
    }
    home.replica().await;
    let settings = RedisSettings {
        prefix: "a{b}".to_owned(),
        ..settings(&home.server)
    };
    assert!(refusal(&settings).await.contains("without braces"));
}

#[tokio::test]
async fn a_server_that_may_evict_is_refused_unless_that_is_allowed() {
    let server = RedisServer::start(&["--maxmemory-policy", "allkeys-lru"]);
    let refusal = refusal(&settings(&server)).await;
    assert!(
        refusal.contains("allkeys-lru") && refusal.contains("--allow-eviction"),
        "{refusal}"
    );
    let settings = RedisSettings {
        allow_eviction: true,
        ..settings(&server)
    };
    let store = RedisStore::connect(&settings, ClockOffset::default())
        .await
        .unwrap();
    assert!(
        store
            .warnings()
            .iter()
            .any(|warning| warning.contains("allkeys-lru"))
    );
}

#[tokio::test]
async fn a_server_without_an_append_only_file_is_a_warning() {
    let home = Home::start(&[]).await;
    assert_eq!(home.store.warnings().len(), 1);
    assert!(home.store.warnings()[0].contains("no append-only file"));
    let home = Home::start(&["--appendonly", "yes"]).await;
    assert_eq!(home.store.warnings(), Vec::<String>::new());
}

#[tokio::test]
async fn who_cannot_get_in_is_told_why_and_the_password_is_never_shown() {
    let mut server = RedisServer::start(&["--requirepass", "s3cret"]);
    let at =
        |secret: &str| RedisSettings::new(format!("redis://:{secret}@127.0.0.1:{}", server.port()));
    let (right, wrong, none) = (at("s3cret"), at("wr0ng"), settings(&server));
    let store = RedisStore::connect(&right, ClockOffset::default())
        .await
        .unwrap();
    store.check().await.unwrap();
    for settings in [&wrong, &none] {
        let refusal = refusal(settings).await;
        assert!(
            refusal.contains("127.0.0.1") && !refusal.contains("wr0ng"),
            "{refusal}"
        );
    }
    assert!(
        refusal(&wrong)
            .await
            .contains("refused the user or the password")
    );
    assert!(refusal(&none).await.contains("asks for a password"));
    let far = RedisSettings::new(format!("redis://:s3cret@127.0.0.1:{}/99", server.port()));
    let refused = refusal(&far).await;
    assert!(
        refused.contains("refused the database 99") && !refused.contains("s3cret"),
        "{refused}"
    );
    server.stop();
    let right = RedisSettings {
        connect_timeout: Duration::from_millis(300),
        ..right
    };
    let refused = refusal(&right).await;
    assert!(
        refused.contains("did not answer within 300ms") && !refused.contains("s3cret"),
        "{refused}"
    );
    server.kill();
    let refused = refusal(&right).await;
    assert!(
        refused.contains("no Redis could be reached") && !refused.contains("s3cret"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_hung_server_is_unavailable_in_time_and_works_again_when_it_goes_on() {
    let home = Home::start(&[]).await;
    let settings = RedisSettings {
        response_timeout: Duration::from_millis(500),
        ..settings(&home.server)
    };
    let store = RedisStore::connect(&settings, ClockOffset::default())
        .await
        .unwrap();
    let held = open(&store, &opening(&scope("s", "r"), None)).await;
    home.server.stop();
    for _ in 0..3 {
        let started = Instant::now();
        let (opened, read, listed, due) = tokio::join!(
            async { store.open(&opening(&scope("s", "r"), None)).await.map(drop) },
            async { store.read(held.id).await.map(drop) },
            async {
                store
                    .list(&Query {
                        group: tenant(),
                        open_only: false,
                        after: None,
                        limit: 5,
                    })
                    .await
                    .map(drop)
            },
            async { store.due(10).await.map(drop) },
        );
        assert!(
            started.elapsed() < Duration::from_millis(2500),
            "{:?}",
            started.elapsed()
        );
        for answer in [opened, read, listed, due] {
            assert!(
                matches!(answer, Err(StoreError::Unavailable(_))),
                "{answer:?}"
            );
        }
    }
    home.server.cont();
    eventually(async || store.check().await.ok()).await;
    assert!(store.read(held.id).await.unwrap().0.is_some());
}

#[tokio::test]
async fn a_restarted_server_is_found_again_with_all_that_was_acknowledged() {
    let mut home = Home::start(&["--appendonly", "yes", "--appendfsync", "always"]).await;
    let mut changes = home.store.changes();
    let held = open(&home.store, &opening(&scope("s", "r"), None)).await;
    assert_eq!(changes.recv().await.unwrap(), Heard::Changed(held.id));
    home.server.restart();
    // Sent again on the new connection, so that the caller notices nothing.
    let (read, _) = home.store.read(held.id).await.unwrap();
    assert_eq!(read.unwrap().version, 1);
    // The subscription comes back too, and says that something may have been missed.
    let heard = eventually(async || {
        open(&home.store, &opening(&scope("s", "r"), None)).await;
        changes.try_recv().ok()
    })
    .await;
    assert_eq!(heard, Heard::Missed);
    let opened = open(&home.store, &opening(&scope("s", "r"), None)).await;
    let all = eventually(async || {
        changes
            .try_recv()
            .ok()
            .filter(|heard| *heard == Heard::Changed(opened.id))
    });
    all.await;
}

#[tokio::test]
async fn a_server_that_was_restarted_empty_is_told_the_layout_again_and_another_is_noticed() {
    let mut home = Home::start(&["--save", "", "--appendonly", "no"]).await;
    let held = open(&home.store, &opening(&scope("s", "r"), None)).await;
    home.server.restart();
    home.raw = raw(&home.server).await;
    const META: [&str; 4] = ["HMGET", "assent:meta", "layout", "partitions"];
    let nothing: Vec<Option<String>> = home.run(&META).await;
    assert_eq!(nothing, [None, None]);
    home.store.check().await.unwrap();
    assert!(home.store.read(held.id).await.unwrap().0.is_none());
    let written: Vec<Option<String>> = home.run(&META).await;
    assert_eq!(written[1].as_deref(), Some("64"));
    let _: u64 = home.run(&["DEL", "assent:meta"]).await;
    let _: u64 = home
        .run(&["HSET", "assent:meta", "layout", "1", "partitions", "32"])
        .await;
    let error = home.store.check().await.unwrap_err();
    assert!(matches!(error, StoreError::Unusable(_)), "{error:?}");
}

#[tokio::test]
async fn a_server_that_stays_away_fails_at_once_after_a_while() {
    let mut home = Home::start(&[]).await;
    home.server.kill();
    let eager = eventually(async || {
        let started = Instant::now();
        let error = home.store.check().await.unwrap_err();
        (started.elapsed() < Duration::from_millis(100)).then_some(error)
    })
    .await;
    assert!(matches!(eager, StoreError::Unavailable(_)), "{eager:?}");
}

#[tokio::test]
async fn scripts_that_were_forgotten_are_sent_again() {
    let mut home = Home::start(&[]).await;
    for _ in 0..2 {
        let _: String = home.run(&["SCRIPT", "FLUSH"]).await;
        let held = open(&home.store, &opening(&scope("", ""), None)).await;
        let _: String = home.run(&["SCRIPT", "FLUSH"]).await;
        assert!(
            list(&home.store, tenant(), true, 10)
                .await
                .contains(&held.id)
        );
        let _: String = home.run(&["SCRIPT", "FLUSH"]).await;
        assert_eq!(home.store.due(10).await.unwrap().members.len(), 0);
    }
}

#[tokio::test]
async fn a_server_without_memory_is_unavailable_writes_nothing_by_half_and_still_collects() {
    let mut home = Home::start(&[]).await;
    let held = open(&home.store, &opening(&scope("s", "r"), None)).await;
    let before = home.keys().await;
    let _: String = home.run(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = home.store.open(&opening(&scope("s2", "r"), None)).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    let state = held.cancelled(&id("ann"), "", held.create_time).unwrap();
    let refused = home
        .store
        .commit(&commit(vec![change(&held, state.clone())]))
        .await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    assert_eq!(home.keys().await, before);
    assert_eq!(
        home.store.read(held.id).await.unwrap().0.unwrap().version,
        1
    );
    assert_eq!(home.store.count_open(&tenant()).await.unwrap(), 1);

    let _: String = home.run(&["CONFIG", "SET", "maxmemory", "0"]).await;
    let done = home
        .store
        .commit(&commit(vec![change(&held, state)]))
        .await
        .unwrap();
    assert_eq!(done, Committed::Done);
    let _: String = home.run(&["CONFIG", "SET", "maxmemory", "1"]).await;
    home.clock.advance(2 * DAY);
    assert_eq!(home.store.due(10).await.unwrap().members.len(), 0);
    assert_eq!(
        home.keys().await,
        BTreeSet::from(["assent:meta".to_owned()])
    );
}

#[tokio::test]
async fn a_corrupt_record_stops_no_sweep_no_list_and_no_end_of_a_run() {
    let mut home = Home::start(&[]).await;
    let scope = scope("s", "r");
    let mut garbled = Vec::new();
    for _ in 0..7 {
        garbled.push(open(&home.store, &opening(&scope, None)).await.id);
    }
    let good = open(&home.store, &opening(&scope, None)).await;
    let mut records = Vec::new();
    for id in &garbled {
        records.push(home.record(*id).await);
    }
    let _: i64 = home.run(&["HSET", &records[0], "body", "{"]).await;
    let _: i64 = home.run(&["HSET", &records[1], "state", "[]"]).await;
    let _: i64 = home.run(&["HSET", &records[2], "version", "one"]).await;
    let _: i64 = home
        .run(&[
            "HDEL",
            &records[3],
            "body",
            "state",
            "deadline",
            "indexes",
            "then",
        ])
        .await;
    let _: i64 = home.run(&["HSET", &records[4], "format", "0"]).await;
    let _: String = home.run(&["SET", &records[5], "not a hash"]).await;
    let due_key = format!("{}due", records[6].split("r:").next().unwrap());
    let _: i64 = home.run(&["HSET", &records[6], "then", "\u{0}"]).await;
    let _: i64 = home.run(&["HSET", &records[6], "body", "\u{0}"]).await;
    let _: i64 = home
        .run(&["ZADD", &due_key, "1", "stray", "2", "\u{1}"])
        .await;

    assert_eq!(list(&home.store, session("s"), true, 3).await, [good.id]);
    assert_eq!(list(&home.store, tenant(), false, 100).await, [good.id]);
    let members = home
        .store
        .members(good.id.partition().unwrap(), &session("s"))
        .await
        .unwrap();
    // What is wrong with a body alone keeps no record from its end.
    let mut readable: Vec<_> = members.members.iter().map(|member| member.id).collect();
    readable.sort_unstable();
    let mut expected = [garbled[0], garbled[6], good.id];
    expected.sort_unstable();
    assert_eq!((readable.as_slice(), members.open), (&expected[..], 8));
    for id in &garbled {
        let read = home.store.read(*id).await;
        assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
    }
    // A state that no commit reads must not be written by half either.
    let state = good.cancelled(&id("ann"), "", good.create_time).unwrap();
    let both = vec![
        change(&good, state.clone()),
        Change {
            id: garbled[3],
            version: 1,
            state,
            upkeep: good.state.upkeep(good.expire_time, DAY),
        },
    ];
    let refused = home.store.commit(&commit(both)).await;
    assert!(
        matches!(&refused, Err(StoreError::Corrupt { id, .. }) if *id == garbled[3].to_string()),
        "{refused:?}"
    );
    assert_eq!(
        home.store.read(good.id).await.unwrap().0.unwrap().version,
        1
    );

    home.clock.advance(2 * MINUTE);
    let before = home.store.set_aside();
    for _ in 0..2 {
        let due = home.store.due(100).await.unwrap();
        let mut ids: Vec<_> = due.members.iter().map(|due| due.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, expected);
    }
    // Once each; what names no record at all is only taken out.
    assert_eq!(home.store.set_aside() - before, 5);
    let mut left: Vec<String> = home.run(&["ZRANGE", &due_key, "0", "-1"]).await;
    left.sort_unstable();
    assert_eq!(left, expected.map(|id| id.to_string()));
    // Set aside, and not deleted: somebody may want to look.
    let set_aside: i64 = home.run(&["EXISTS", &records[0]]).await;
    assert_eq!(set_aside, 1);
}

#[tokio::test]
async fn an_index_that_is_none_stops_only_its_own_partition() {
    let mut home = Home::start(&[]).await;
    let broken = open(&home.store, &opening(&scope("a", ""), None)).await;
    let mut number = 0;
    let good = loop {
        let scope = scope(&format!("b{number}"), "");
        if Place::of(&scope, 0).partition != broken.id.partition().unwrap() {
            break open(&home.store, &opening(&scope, None)).await;
        }
        number += 1;
    };
    let record = home.record(broken.id).await;
    let due = format!("{}due", record.split("r:").next().unwrap());
    let _: String = home.run(&["SET", &due, "not a sorted set"]).await;
    home.clock.advance(2 * MINUTE);
    let due = home.store.due(10).await.unwrap();
    assert_eq!(
        due.members.iter().map(|due| due.id).collect::<Vec<_>>(),
        [good.id]
    );
    let refused = home.store.open(&opening(&scope("a", ""), None)).await;
    assert!(
        matches!(refused, Err(StoreError::Corrupt { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_record_of_a_newer_release_is_left_to_it() {
    let mut home = Home::start(&[]).await;
    let newer = open(&home.store, &opening(&scope("s", "r"), None)).await;
    let record = home.record(newer.id).await;
    let _: i64 = home
        .run(&["HSET", &record, "format", "2", "body", "<newer>"])
        .await;
    home.clock.advance(2 * MINUTE);
    let due = home.store.due(1).await.unwrap();
    assert_eq!((due.members.len(), due.more), (0, false));
    let due_key = format!("{}due", record.split("r:").next().unwrap());
    let left: Vec<String> = home.run(&["ZRANGE", &due_key, "0", "-1"]).await;
    assert_eq!(left, [newer.id.to_string()]);
}

#[tokio::test]
async fn a_record_that_went_without_the_sweeper_leaves_lists_and_limits() {
    let mut home = Home::start(&[]).await;
    let scope = scope("s", "r");
    let gone = open(&home.store, &opening(&scope, None)).await;
    let limited = Opening {
        limit: 1,
        ..opening(&scope, None)
    };
    assert!(matches!(
        home.store.open(&limited).await.unwrap(),
        Opened::Full
    ));
    let record = home.record(gone.id).await;
    let _: i64 = home.run(&["DEL", &record]).await;
    let held = open(&home.store, &limited).await;
    assert_eq!(home.store.count_open(&session("s")).await.unwrap(), 1);
    // A count takes it out, so that it does not count for ever.
    assert_eq!(list(&home.store, tenant(), false, 10).await, [held.id]);
    assert_eq!(home.store.count_open(&tenant()).await.unwrap(), 1);

    let record = home.record(held.id).await;
    let _: i64 = home.run(&["DEL", &record]).await;
    let members = home
        .store
        .members(held.id.partition().unwrap(), &session("s"))
        .await
        .unwrap();
    assert_eq!((members.open, members.members.len()), (0, 0));
    assert_eq!(home.store.count_open(&session("s")).await.unwrap(), 0);
    // A call whose record is gone is asked anew.
    let key = CallKey::of_run_start(&scope);
    let first = open(&home.store, &opening(&scope, key)).await;
    let record = home.record(first.id).await;
    let _: i64 = home.run(&["DEL", &record]).await;
    let again = open(&home.store, &opening(&scope, key)).await;
    let met = home.store.open(&opening(&scope, key)).await.unwrap();
    assert!(matches!(met, Opened::Existing(found, _) if found.id == again.id));
}

#[tokio::test]
async fn each_key_of_a_suspension_has_one_hash_tag_and_goes_on_its_own_unless_it_is_an_index() {
    let mut home = Home::start(&[]).await;
    let scope = scope("s", "r");
    let held = open(&home.store, &opening(&scope, CallKey::of_run_start(&scope))).await;
    let keys = home.keys().await;
    let mut tags = BTreeSet::new();
    for key in keys.iter().filter(|key| *key != "assent:meta") {
        let (tag, name) = key
            .strip_prefix("assent:{")
            .unwrap()
            .split_once("}:")
            .unwrap();
        tags.insert(tag.to_owned());
        let ttl: i64 = home.run(&["PTTL", key]).await;
        let index = name == "due" || name.starts_with("o:");
        let kept = i64::try_from((MINUTE + DAY).as_millis()).unwrap();
        assert_eq!(ttl == -1, index, "{key}");
        assert!(index || ttl > kept, "{key} goes before it may: {ttl}");
    }
    assert_eq!(tags.len(), 1);
    // due, the record, the call key, and an index for each of tenant, session and run.
    assert_eq!(keys.len(), 1 + 6);

    // What may be in doubt never goes on its own, until somebody says how it ended.
    let mut state = held.state.clone();
    (state.status, state.execution) = (Status::Approved, Execution::Claimed);
    let claimed = Change {
        upkeep: Upkeep {
            open: false,
            wake: None,
            keep_until: None,
        },
        ..change(&held, state.clone())
    };
    home.store.commit(&commit(vec![claimed])).await.unwrap();
    let record = home.record(held.id).await;
    let keys = home.keys().await;
    for key in keys.iter().filter(|key| *key != "assent:meta") {
        assert_eq!(home.run::<i64>(&["PTTL", key]).await, -1, "{key}");
        assert!(!key.ends_with(":due") && !key.contains(":o:"), "{key}");
    }
    state.execution = Execution::Completed;
    let completed = Change {
        version: 2,
        ..change(&held, state)
    };
    home.store.commit(&commit(vec![completed])).await.unwrap();
    assert!(home.run::<i64>(&["PTTL", &record]).await > 0);
}

#[tokio::test]
async fn when_all_is_collected_nothing_remains_but_meta() {
    let mut home = Home::start(&[]).await;
    for number in 0..20 {
        let scope = scope(["", "s"][number % 2], &format!("r{number}"));
        open(&home.store, &opening(&scope, CallKey::of_run_start(&scope))).await;
    }
    for _ in 0..5 {
        open(&home.store, &opening(&scope("", ""), None)).await;
    }
    home.clock.advance(2 * MINUTE);
    assert_eq!(sweep(&home.store).await, 25);
    assert_eq!(list(&home.store, tenant(), false, 7).await.len(), 25);
    assert_eq!(home.store.count_open(&tenant()).await.unwrap(), 0);
    home.clock.advance(2 * DAY);
    assert_eq!(sweep(&home.store).await, 0);
    assert_eq!(
        home.keys().await,
        BTreeSet::from(["assent:meta".to_owned()])
    );
}

#[tokio::test]
async fn two_replicas_sweep_the_same_records_and_each_is_settled_once() {
    let home = Home::start(&[]).await;
    let other = home.replica().await;
    for number in 0..60 {
        open(
            &home.store,
            &opening(&scope(&format!("s{}", number % 7), "r"), None),
        )
        .await;
    }
    home.clock.advance(2 * MINUTE);
    let (here, there) = tokio::join!(sweep(&home.store), sweep(&other));
    assert_eq!(here + there, 60);
    for suspension in list(&other, tenant(), false, 100).await {
        let (read, _) = home.store.read(suspension).await.unwrap();
        let read = read.unwrap();
        assert_eq!((read.state.status, read.version), (Status::Expired, 2));
    }
    home.clock.advance(2 * DAY);
    tokio::join!(sweep(&home.store), sweep(&other));
    assert_eq!(list(&other, tenant(), false, 100).await, []);
}

#[tokio::test]
async fn another_replica_hears_of_every_opening_and_every_change() {
    let home = Home::start(&[]).await;
    let other = home.replica().await;
    let mut changes = other.changes();
    let mut heard = async || {
        tokio::time::timeout(MINUTE, changes.recv())
            .await
            .unwrap()
            .unwrap()
    };
    let first = open(&home.store, &opening(&scope("s", "r"), None)).await;
    let second = open(&home.store, &opening(&scope("s", "r"), None)).await;
    let changed = |held: &Suspension| Heard::Changed(held.id);
    assert_eq!(
        [heard().await, heard().await],
        [changed(&first), changed(&second)]
    );
    let cancel = |held: &Suspension| {
        change(
            held,
            held.cancelled(&id("ann"), "", held.create_time).unwrap(),
        )
    };
    home.store
        .commit(&commit(vec![cancel(&second), cancel(&first)]))
        .await
        .unwrap();
    assert_eq!(
        [heard().await, heard().await],
        [changed(&second), changed(&first)]
    );
}

#[tokio::test]
async fn records_with_one_deadline_are_listed_by_id_and_paging_misses_none() {
    let mut home = Home::start(&[]).await;
    let mut ids = Vec::new();
    for number in 0..40 {
        let held = open(&home.store, &opening(&scope("s", "r"), None)).await;
        ids.push(held.id);
        if number % 3 == 0 {
            let state = held.cancelled(&id("ann"), "", held.create_time).unwrap();
            home.store
                .commit(&commit(vec![change(&held, state)]))
                .await
                .unwrap();
        }
    }
    // The same moment for all, by hand, as no test can make it so.
    let keys = home.keys().await;
    for key in keys
        .iter()
        .filter(|key| key.contains(":o:") || key.contains(":c:"))
    {
        let members: Vec<String> = home.run(&["ZRANGE", key, "0", "-1"]).await;
        for member in &members {
            let _: i64 = home.run(&["ZADD", key, "2000000000000", member]).await;
        }
    }
    for id in &ids {
        let record = home.record(*id).await;
        let _: i64 = home
            .run(&["HSET", &record, "deadline", "2000000000000"])
            .await;
    }
    let open_ids: BTreeSet<_> = ids
        .iter()
        .enumerate()
        .filter(|(number, _)| number % 3 != 0)
        .map(|(_, id)| *id)
        .collect();
    ids.sort();
    for page in [1, 2, 7, 13, 39, 40, 41] {
        for group in [tenant(), session("s")] {
            assert_eq!(
                list(&home.store, group.clone(), false, page).await,
                ids,
                "{page}"
            );
            let open = list(&home.store, group, true, page).await;
            assert_eq!(open, open_ids.iter().copied().collect::<Vec<_>>(), "{page}");
        }
    }
    // Going on behind a record that is no longer there.
    let after = Cursor {
        expire_time: Timestamp::from_millis(2_000_000_000_000),
        id: ids[20],
    };
    let record = home.record(ids[20]).await;
    let _: i64 = home.run(&["DEL", &record]).await;
    let query = Query {
        group: session("s"),
        open_only: false,
        after: Some(after),
        limit: 100,
    };
    let rest = home.store.list(&query).await.unwrap();
    assert_eq!(
        rest.suspensions
            .iter()
            .map(|held| held.id)
            .collect::<Vec<_>>(),
        ids[21..]
    );
    assert_eq!(rest.next, None);
}

#[tokio::test]
async fn a_tenants_list_is_in_order_over_all_partitions() {
    let home = Home::start(&[]).await;
    let mut expected = Vec::new();
    for number in 0..300_u64 {
        let opening = Opening {
            expires: Duration::from_millis(60_000 + number * 7919 % 500),
            ..opening(&scope(&format!("s{}", number % 90), ""), None)
        };
        let held = open(&home.store, &opening).await;
        expected.push((held.expire_time, held.id));
    }
    expected.sort_unstable();
    let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
    for page in [1, 10, 64, 299, 300, 1000] {
        assert_eq!(
            list(&home.store, tenant(), true, page).await,
            expected,
            "{page}"
        );
    }
    assert_eq!(home.store.count_open(&tenant()).await.unwrap(), 300);
}

#[tokio::test]
async fn a_write_that_is_sent_twice_happens_once() {
    let home = Home::start(&[]).await;
    let scope = scope("s", "r");
    for key in [None, CallKey::of_run_start(&scope)] {
        let opening = Opening {
            limit: 2,
            ..opening(&scope, key)
        };
        let first = open(&home.store, &opening).await;
        let second = open(&home.store, &opening).await;
        assert_eq!(
            (first.id, first.expire_time),
            (second.id, second.expire_time)
        );
        let state = first.cancelled(&id("ann"), "", first.create_time).unwrap();
        let commit = Commit {
            not_after: Some(first.expire_time),
            ..commit(vec![change(&first, state)])
        };
        assert_eq!(home.store.commit(&commit).await.unwrap(), Committed::Done);
        assert_eq!(home.store.commit(&commit).await.unwrap(), Committed::Done);
        assert_eq!(
            home.store.read(first.id).await.unwrap().0.unwrap().version,
            2
        );
        let other = Commit {
            operation: Uuid::new_v4(),
            ..commit
        };
        assert_eq!(home.store.commit(&other).await.unwrap(), Committed::Stale);
    }
}
