//! WatchSuspensions over gRPC: what is, then each change, on both stores and from any replica.

use std::collections::HashMap;
use std::time::Duration;

use assent::pb;
use tokio::time::timeout;
use tonic::{Code, Streaming};

use crate::support::redis::RedisServer;
use crate::support::server::{InProcess, Process, in_process};
use crate::support::stores::{Home, Homes};
use crate::wire::{self, Client, reason};

/// How long an event may take on a busy machine.
const SOON: Duration = Duration::from_secs(20);
/// How long nothing must happen where nothing may.
const QUIET: Duration = Duration::from_millis(300);

struct World {
    server: InProcess,
    client: Client,
}

async fn on_both_stores(body: impl AsyncFn(World)) {
    for home in [Home::Sqlite, Home::Redis] {
        let homes = Homes::start(home).await;
        let server = in_process(None, homes.fresh().await).await;
        let client = wire::connect(server.address()).await;
        body(World { server, client }).await;
    }
}

fn scope(tenant: &str, session: &str, run: &str, parent: &str) -> pb::Scope {
    pb::Scope {
        tenant: tenant.to_owned(),
        session_id: session.to_owned(),
        run_id: run.to_owned(),
        parent_run_id: parent.to_owned(),
        ..Default::default()
    }
}

async fn suspend(client: &Client, scope: pb::Scope, call_id: &str) -> pb::Suspension {
    let request = pb::DecideRequest {
        scope: Some(scope),
        ..wire::destructive(call_id)
    };
    let decided = client.clone().decide(request).await.unwrap();
    decided.into_inner().suspension.unwrap()
}

async fn answer(client: &Client, suspension: &pb::Suspension, approved: bool) {
    let request = pb::ResumeRequest {
        scope: suspension.scope.clone(),
        ..wire::answer(&suspension.id, approved)
    };
    client.clone().resume(request).await.unwrap();
}

async fn claim(client: &Client, suspension: &pb::Suspension) {
    let request = pb::ClaimRequest {
        suspension_id: suspension.id.clone(),
        scope: suspension.scope.clone(),
        attempt_id: "w1".to_owned(),
        ..Default::default()
    };
    client.clone().claim(request).await.unwrap();
}

/// Of a session; of the tenant without a name where it has none.
fn session(session_id: &str) -> pb::WatchSuspensionsRequest {
    pb::WatchSuspensionsRequest {
        session_id: session_id.to_owned(),
        ..Default::default()
    }
}

fn run(session_id: &str, run_id: &str) -> pb::WatchSuspensionsRequest {
    pb::WatchSuspensionsRequest {
        run_id: run_id.to_owned(),
        ..session(session_id)
    }
}

fn ids(suspensions: &[&pb::Suspension]) -> pb::WatchSuspensionsRequest {
    pb::WatchSuspensionsRequest {
        suspension_ids: suspensions.iter().map(|it| it.id.clone()).collect(),
        ..Default::default()
    }
}

struct Watch(Streaming<pb::WatchEvent>);

impl Watch {
    async fn begin(client: &Client, request: pb::WatchSuspensionsRequest) -> Self {
        let stream = client.clone().watch_suspensions(request).await.unwrap();
        Self(stream.into_inner())
    }

    async fn event(&mut self) -> pb::WatchEvent {
        let event = timeout(SOON, self.0.message()).await;
        let event = event.expect("an event comes").unwrap();
        event.expect("the watch goes on")
    }

    /// The first state, whose end is told.
    async fn present(&mut self) -> Vec<pb::Suspension> {
        let mut present = Vec::new();
        loop {
            let event = self.event().await;
            if event.initial_complete {
                assert_eq!((event.suspension, event.initial), (None, false));
                return present;
            }
            assert!(event.initial);
            present.push(event.suspension.unwrap());
        }
    }

    /// The ids of the first state.
    async fn present_ids(&mut self) -> Vec<String> {
        let present = self.present().await.into_iter();
        let mut ids: Vec<_> = present.map(|suspension| suspension.id).collect();
        ids.sort();
        ids
    }

    async fn change(&mut self) -> pb::Suspension {
        let event = self.event().await;
        assert!(!event.initial && !event.initial_complete);
        event.suspension.unwrap()
    }

    async fn is_quiet(&mut self) {
        let event = timeout(QUIET, self.0.message()).await;
        assert!(event.is_err(), "{event:?}");
    }
}

fn sorted(suspensions: &[&pb::Suspension]) -> Vec<String> {
    let mut ids: Vec<_> = suspensions.iter().map(|it| it.id.clone()).collect();
    ids.sort();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_sent_as_it_is_then_its_end_then_each_change() {
    on_both_stores(
        async |World {
                   server: _server,
                   client,
               }| {
            let open = suspend(&client, scope("", "s1", "r1", ""), "c1").await;
            let denied = suspend(&client, scope("", "s1", "r2", ""), "c2").await;
            answer(&client, &denied, false).await;
            suspend(&client, scope("", "s2", "r1", ""), "c3").await;

            let mut watch = Watch::begin(&client, session("s1")).await;
            let present = watch.present().await;
            let status = |suspension: &pb::Suspension| (suspension.id.clone(), suspension.status());
            let mut statuses: Vec<_> = present.iter().map(status).collect();
            statuses.sort();
            let mut expected = vec![
                (open.id.clone(), pb::SuspensionStatus::Pending),
                (denied.id.clone(), pb::SuspensionStatus::Denied),
            ];
            expected.sort();
            assert_eq!(statuses, expected);

            // What belongs to others is not told.
            suspend(&client, scope("", "s2", "r1", ""), "c4").await;
            suspend(&client, scope("other", "s1", "r1", ""), "c5").await;
            answer(&client, &open, true).await;
            let approved = watch.change().await;
            assert_eq!(
                status(&approved),
                (open.id.clone(), pb::SuspensionStatus::Approved)
            );
            claim(&client, &open).await;
            assert_eq!(watch.change().await.execution(), pb::Execution::Claimed);
            let new = suspend(&client, scope("", "s1", "r3", ""), "c6").await;
            let told = watch.change().await;
            assert_eq!((told.id.clone(), told.version), (new.id, 1));
            assert_eq!(told, wire::get(&client, &told.id).await);
            watch.is_quiet().await;
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_tenant_only_what_is_open_is_present_and_every_change_is_told() {
    on_both_stores(
        async |World {
                   server: _server,
                   client,
               }| {
            let open = suspend(&client, scope("acme", "", "r1", ""), "c1").await;
            let ended = suspend(&client, scope("acme", "s", "r2", ""), "c2").await;
            answer(&client, &ended, true).await;
            suspend(&client, scope("", "", "r1", ""), "c3").await;

            let tenant = pb::WatchSuspensionsRequest {
                tenant: "acme".to_owned(),
                ..Default::default()
            };
            let mut watch = Watch::begin(&client, tenant).await;
            assert_eq!(watch.present_ids().await, sorted(&[&open]));
            answer(&client, &open, false).await;
            let told = watch.change().await;
            assert_eq!(
                (told.id.clone(), told.status()),
                (open.id, pb::SuspensionStatus::Denied)
            );
            let new = suspend(&client, scope("acme", "s3", "", ""), "").await;
            assert_eq!(watch.change().await.id, new.id);
            watch.is_quiet().await;
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_watched_with_those_that_descend_from_it() {
    on_both_stores(
        async |World {
                   server: _server,
                   client,
               }| {
            // The grandchild is there before anybody knows whose child its parent is.
            let grandchild = suspend(&client, scope("", "s", "r3", "r2"), "c1").await;
            let own = suspend(&client, scope("", "s", "r1", ""), "c2").await;
            let stranger = suspend(&client, scope("", "s", "r9", "r8"), "c3").await;
            for session in ["s", ""] {
                let mut watch = Watch::begin(&client, run(session, "r1")).await;
                assert_eq!(watch.present_ids().await, sorted(&[&own]), "{session}");
            }
            let mut watch = Watch::begin(&client, run("s", "r1")).await;
            assert_eq!(watch.present_ids().await, sorted(&[&own]));
            let child = suspend(&client, scope("", "s", "r2", "r1"), "c4").await;
            let told = [watch.change().await.id, watch.change().await.id];
            assert_eq!(told, [child.id.clone(), grandchild.id.clone()]);
            answer(&client, &stranger, true).await;
            answer(&client, &grandchild, true).await;
            assert_eq!(
                watch.change().await.status(),
                pb::SuspensionStatus::Approved
            );
            watch.is_quiet().await;

            for session in ["s", ""] {
                let mut watch = Watch::begin(&client, run(session, "r1")).await;
                let family = sorted(&[&own, &child, &grandchild]);
                assert_eq!(watch.present_ids().await, family, "{session}");
            }
            let mut other = Watch::begin(&client, run("elsewhere", "r1")).await;
            assert_eq!(other.present_ids().await, <[String; 0]>::default());
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_answers_is_told_and_so_is_the_end_of_its_run() {
    on_both_stores(
        async |World {
                   server: _server,
                   client,
               }| {
            let sibling = suspend(&client, scope("", "s", "r1", ""), "c1").await;
            let mut watch = Watch::begin(&client, run("s", "r1")).await;
            watch.present().await;
            let request = pb::DecideRequest {
                scope: Some(scope("", "s", "r1", "")),
                expires_in: Some(prost_types::Duration {
                    seconds: 1,
                    nanos: 0,
                }),
                ..wire::destructive("c2")
            };
            let short = client.clone().decide(request).await.unwrap();
            let short = short.into_inner().suspension.unwrap();
            assert_eq!(watch.change().await.id, short.id);
            let mut ended = HashMap::new();
            for _ in 0..2 {
                let told = watch.change().await;
                ended.insert(told.id.clone(), told.status());
            }
            assert_eq!(ended[&short.id], pb::SuspensionStatus::Expired);
            assert_eq!(ended[&sibling.id], pb::SuspensionStatus::Cancelled);
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suspensions_are_watched_by_their_ids_by_their_tenant_only() {
    on_both_stores(
        async |World {
                   server: _server,
                   client,
               }| {
            let one = suspend(&client, scope("", "s", "r1", ""), "c1").await;
            let two = suspend(&client, scope("", "", "r2", ""), "c2").await;
            let third = suspend(&client, scope("", "s", "r1", ""), "c3").await;
            let mut watch = Watch::begin(&client, ids(&[&one, &two, &one])).await;
            assert_eq!(watch.present_ids().await, sorted(&[&one, &two]));
            answer(&client, &third, true).await;
            answer(&client, &two, true).await;
            let told = watch.change().await;
            assert_eq!((told.id, told.version), (two.id.clone(), 2));
            watch.is_quiet().await;

            let refusal = async |request: pb::WatchSuspensionsRequest| {
                let begun = client.clone().watch_suspensions(request).await;
                let mut stream = match begun {
                    Ok(stream) => stream.into_inner(),
                    Err(status) => return (status.code(), reason(&status)),
                };
                loop {
                    // Those before the one that is refused may be sent.
                    match timeout(SOON, stream.message()).await.expect("it ends") {
                        Ok(event) => assert!(event.expect("it is refused").initial),
                        Err(status) => return (status.code(), reason(&status)),
                    }
                }
            };
            let wanted = |code, reason: &str| (code, reason.to_owned());
            let others = pb::WatchSuspensionsRequest {
                tenant: "other".to_owned(),
                ..ids(&[&one])
            };
            assert_eq!(
                refusal(others).await,
                wanted(Code::PermissionDenied, "ACCESS_DENIED")
            );
            let mut unknown = ids(&[&one]);
            let id = "c8a9cf72-3a53-4b20-8f5a-2a0a3a4f5b07";
            unknown.suspension_ids.push(id.to_owned());
            assert_eq!(
                refusal(unknown).await,
                wanted(Code::NotFound, "SUSPENSION_NOT_FOUND")
            );
            let invalid = wanted(Code::InvalidArgument, "INVALID_REQUEST");
            for request in [
                pb::WatchSuspensionsRequest {
                    session_id: "s".to_owned(),
                    ..ids(&[&one])
                },
                pb::WatchSuspensionsRequest {
                    suspension_ids: vec!["c8a9cf72".to_owned()],
                    ..Default::default()
                },
                pb::WatchSuspensionsRequest {
                    suspension_ids: vec![id.to_owned(); 1001],
                    ..Default::default()
                },
                session("a\nb"),
            ] {
                assert_eq!(refusal(request).await, invalid);
            }
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_slow_gets_the_latest_of_everything() {
    on_both_stores(
        async |World {
                   server: _server,
                   client,
               }| {
            let mut watches = Vec::new();
            for request in [session("s"), session(""), run("", "r")] {
                let mut watch = Watch::begin(&client, request).await;
                watch.present().await;
                watches.push(watch);
            }
            // Many more than are kept for a reader as they are, and each changes twice while nobody reads.
            let mut opened = Vec::new();
            for number in 0..200 {
                let call = format!("c{number}");
                opened.push(suspend(&client, scope("", "s", "r", ""), &call).await);
            }
            for suspension in &opened {
                answer(&client, suspension, true).await;
            }
            for suspension in &opened {
                claim(&client, suspension).await;
            }
            for mut watch in watches {
                let mut latest: HashMap<String, u64> = HashMap::new();
                while latest.len() < opened.len() || latest.values().any(|version| *version < 3) {
                    let told = watch.change().await;
                    let before = latest.insert(told.id, told.version);
                    assert!(
                        before.is_none_or(|before| before < told.version),
                        "{before:?}"
                    );
                }
                watch.is_quiet().await;
            }
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_heard_is_looked_for_or_the_watch_ends() {
    let redis = RedisServer::start(&[]);
    let here = Process::start(&["--store", &redis.url()]);
    let there = Process::start(&["--store", &redis.url()]);
    let client = there.client();
    let known = suspend(&client, scope("", "s", "r", ""), "c1").await;
    answer(&client, &known, true).await;
    let mut by_session = Watch::begin(&here.client(), session("s")).await;
    let mut by_tenant = Watch::begin(&here.client(), session("")).await;
    by_session.present().await;
    by_tenant.present().await;

    let mut raw = redis::Client::open(redis.url())
        .unwrap()
        .get_connection()
        .unwrap();
    let kill = ["KILL", "TYPE", "pubsub"];
    let killed: u64 = redis::cmd("CLIENT").arg(&kill).query(&mut raw).unwrap();
    assert_eq!(killed, 2);
    // Before anybody hears again.
    claim(&client, &known).await;
    let short = suspend(&client, scope("", "s", "r", ""), "c2").await;
    answer(&client, &short, false).await;
    let mut told = HashMap::new();
    for _ in 0..2 {
        let change = by_session.change().await;
        told.insert(change.id, change.version);
    }
    assert_eq!(told, HashMap::from([(known.id, 3), (short.id, 2)]));
    // Of a tenant it cannot be said what has ended meanwhile.
    let status = timeout(SOON, by_tenant.0.message())
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(
        (status.code(), reason(&status)),
        (Code::Unavailable, "STORE_UNAVAILABLE".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_has_lost_what_was_told_is_told_as_it_is() {
    let mut redis = RedisServer::start(&["--dbfilename", "kept.rdb"]);
    let server = Process::start(&["--store", &redis.url()]);
    let client = server.client();
    let held = suspend(&client, scope("", "s", "r", ""), "c1").await;
    let mut watch = Watch::begin(&client, session("s")).await;
    watch.present().await;
    {
        let mut raw = redis::Client::open(redis.url())
            .unwrap()
            .get_connection()
            .unwrap();
        let _: () = redis::cmd("SAVE").query(&mut raw).unwrap();
    }
    answer(&client, &held, true).await;
    assert_eq!(watch.change().await.version, 2);
    redis.restart();
    let back = watch.change().await;
    assert_eq!(
        (back.version, back.status()),
        (1, pb::SuspensionStatus::Pending)
    );
    let mut denied = client.clone().resume(wire::answer(&held.id, false)).await;
    while denied.is_err() {
        denied = client.clone().resume(wire::answer(&held.id, false)).await;
    }
    let again = watch.change().await;
    assert_eq!(
        (again.version, again.status()),
        (2, pb::SuspensionStatus::Denied)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_begins_among_changes_misses_no_last_state() {
    on_both_stores(
        async |World {
                   server: _server,
                   client,
               }| {
            for round in 0..10 {
                let name = format!("s{round}");
                let mut answered = Vec::new();
                for number in 0..10 {
                    let suspension =
                        suspend(&client, scope("", &name, "r", ""), &format!("c{number}")).await;
                    let client = client.clone();
                    answered.push(tokio::spawn(async move {
                        answer(&client, &suspension, true).await;
                    }));
                }
                let mut watch = Watch::begin(&client, session(&name)).await;
                let mut approved = std::collections::HashSet::new();
                while approved.len() < 10 {
                    let event = watch.event().await;
                    if let Some(told) = event.suspension
                        && told.status() == pb::SuspensionStatus::Approved
                    {
                        approved.insert(told.id);
                    }
                }
                for task in answered {
                    task.await.unwrap();
                }
            }
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_replica_tells_and_a_restart_of_redis_hides_nothing() {
    let mut redis = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let url = redis.url();
    let here = Process::start(&["--store", &url]);
    let there = Process::start(&["--store", &url]);
    let mut watch = Watch::begin(&here.client(), session("s")).await;
    watch.present().await;
    let first = suspend(&there.client(), scope("", "s", "r", ""), "c1").await;
    assert_eq!(watch.change().await.id, first.id);

    redis.restart();
    // Told by the replica that hears again first, or looked for by the other one once it hears again.
    let request = pb::DecideRequest {
        scope: Some(scope("", "s", "r", "")),
        ..wire::destructive("c2")
    };
    let mut decided = there.client().decide(request.clone()).await;
    while decided.is_err() {
        decided = there.client().decide(request.clone()).await;
    }
    let second = decided.unwrap().into_inner().suspension.unwrap();
    assert_eq!(watch.change().await.id, second.id);
    answer(&there.client(), &first, true).await;
    let told = watch.change().await;
    assert_eq!((told.id, told.version), (first.id, 2));
    watch.is_quiet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_its_watches_in_good_order() {
    on_both_stores(async |World { server, client }| {
        let open = suspend(&client, scope("", "s", "r", ""), "c1").await;
        let mut watches = Vec::new();
        for request in [session("s"), ids(&[&open]), run("", "r"), session("none")] {
            let mut watch = Watch::begin(&client, request).await;
            watch.present().await;
            watches.push(watch);
        }
        let stopped = tokio::spawn(async move { server.stop().await });
        for mut watch in watches {
            let end = timeout(SOON, watch.0.message()).await.expect("it ends");
            assert_eq!(end.unwrap(), None);
        }
        timeout(SOON, stopped).await.expect("it stops").unwrap();
    })
    .await;
}

/// What a process has in memory, in bytes.
fn memory(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_idle_waiters_cost_less_than_100_mb() {
    const CONNECTIONS: usize = 50;
    const EACH: usize = 200;
    let server = Process::start(&[]);
    let client = server.client();
    let open = suspend(&client, scope("", "s", "r", ""), "c1").await;
    let before = memory(&server);
    let mut waiting = Vec::new();
    let mut watches = Vec::new();
    for _ in 0..CONNECTIONS {
        let client = wire::connect(server.address()).await;
        for number in 0..EACH {
            // By id, by session, and in GetSuspension.
            let request = match number % 4 {
                0 => ids(&[&open]),
                1 => session("s"),
                2 => session(&format!("s{number}")),
                _ => {
                    let request = pb::GetSuspensionRequest {
                        suspension_id: open.id.clone(),
                        wait: Some(prost_types::Duration {
                            seconds: 120,
                            nanos: 0,
                        }),
                        ..Default::default()
                    };
                    let mut client = client.clone();
                    waiting.push(tokio::spawn(
                        async move { client.get_suspension(request).await },
                    ));
                    continue;
                }
            };
            let mut watch = Watch::begin(&client, request).await;
            watch.present().await;
            watches.push(watch);
        }
    }
    let cost = memory(&server).saturating_sub(before);
    eprintln!(
        "{} idle waiters cost {} KiB",
        CONNECTIONS * EACH,
        cost / 1024
    );
    assert!(cost < 100_000_000, "{cost}");

    answer(&client, &open, true).await;
    for task in waiting {
        let answered = timeout(SOON, task).await.expect("it is told").unwrap();
        let status = answered.unwrap().into_inner().status();
        assert_eq!(status, pb::SuspensionStatus::Approved);
    }
    let mut told = 0;
    for mut watch in watches {
        if let Ok(event) = timeout(Duration::from_millis(1), watch.0.message()).await {
            assert_eq!(event.unwrap().unwrap().suspension.unwrap().id, open.id);
            told += 1;
        }
    }
    // Half of them watch it; each has the event by the time the last is looked at.
    assert!(told > 0, "nobody was told");
}
