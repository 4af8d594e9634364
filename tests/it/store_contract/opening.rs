//! Opening: keys, limits, and that what was opened is there.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use assent::store::{Committed, Found, Heard, Opened, Opening};
use assent::suspension::{State, SuspensionId};
use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::timeout;
use uuid::Uuid;

use super::fixture::{EXPIRES, Fixture, body, cancelled, facts, light_facts, light_facts_of};

pub(super) async fn a_new_suspension_reads_back_whole(on: &Fixture) {
    let opening = Opening {
        body: body(
            on.scope("s", "r"),
            "c",
            r#"{"big": 9007199254740993, "huge": 1e400, "text": "\u0000 é \ud83e\udded", "b": [], "a": {}}"#,
        ),
        ..on.opening("s", "r", "c")
    };
    let before = on.now().await;
    let created = on.opened(&opening).await;
    assert!(created.create_time >= before && created.create_time <= on.now().await);
    assert_eq!(created.id, opening.id);
    assert_eq!(created.expire_time, created.create_time.after(EXPIRES));
    assert_eq!((created.version, &created.state), (1, &State::pending()));

    let expected = facts(&created);
    assert_eq!(
        serde_json::to_value(&opening.body).unwrap(),
        expected["body"],
        "the body is what was given"
    );
    let read = on.read(opening.id).await.unwrap();
    assert_eq!(facts(&read), expected);
    let Found {
        suspension, closed, ..
    } = on
        .store
        .find(&opening.place, opening.key.as_ref(), None)
        .await
        .unwrap();
    assert_eq!(
        (facts(&suspension.unwrap()), closed),
        (expected.clone(), false)
    );
    for group in [
        on.in_tenant(),
        on.in_session("s"),
        on.in_run(Some("s"), "r"),
        on.in_run(None, "r"),
    ] {
        for open_only in [false, true] {
            let list = on.list(&group, open_only).await;
            assert_eq!(list, from_ref(&expected), "{group:?}");
        }
        let members = on
            .store
            .members(opening.place.partition, &group)
            .await
            .unwrap();
        let readable: Vec<Value> = members.members.iter().map(light_facts).collect();
        assert_eq!(
            (readable, members.open),
            (vec![light_facts_of(&created)], 1),
            "{group:?}"
        );
    }
}

pub(super) async fn the_same_key_gives_the_same_suspension(on: &Fixture) {
    let first = on.open("s", "r", "c").await;
    let mut again = on.opening("s", "r", "c");
    "something else".clone_into(&mut again.body.reason);
    let Opened::Existing(found, now) = on.store.open(&again).await.unwrap() else {
        panic!("it is not found");
    };
    assert_eq!(facts(&found), facts(&first));
    assert!(now >= first.create_time && now <= on.now().await);
    assert!(on.read(again.id).await.is_none());

    let settled = on.cancel(&first).await;
    let Opened::Existing(found, _) = on.store.open(&again).await.unwrap() else {
        panic!("it is not found");
    };
    assert_eq!(facts(&found), facts(&settled));
    assert_eq!(on.list(&on.in_tenant(), false).await, [facts(&settled)]);
}

pub(super) async fn racing_openings_with_one_key_make_one_suspension(on: &Fixture) {
    let openings: Vec<_> = (0..20).map(|_| on.opening("s", "r", "c")).collect();
    let met = join_all(openings.iter().map(|opening| on.store.open(opening))).await;
    let mut ids = Vec::new();
    let mut created = 0;
    for met in met {
        match met.unwrap() {
            Opened::Created(suspension) => {
                created += 1;
                ids.push(suspension.id);
            }
            Opened::Existing(suspension, _) => ids.push(suspension.id),
            other => panic!("{other:?}"),
        }
    }
    ids.dedup();
    assert_eq!((created, ids.len()), (1, 1));
    assert_eq!(on.store.count_open(&on.in_tenant()).await.unwrap(), 1);
}

pub(super) async fn a_key_holds_for_one_run_and_kind_of_call_only(on: &Fixture) {
    let other = on.beside();
    let openings = [
        on.opening("s", "r", "c"),
        on.opening("s", "r", "d"),
        on.opening("s", "q", "c"),
        on.opening("t", "r", "c"),
        on.opening("", "r", "c"),
        other.opening("s", "r", "c"),
    ];
    for opening in &openings {
        assert_eq!(on.met(opening).await, "created");
        assert_eq!(
            on.met(&Opening {
                id: fresh(opening),
                ..opening.clone()
            })
            .await,
            "existing"
        );
    }
    assert_eq!(on.store.count_open(&on.in_tenant()).await.unwrap(), 5);
}

fn fresh(opening: &Opening) -> SuspensionId {
    SuspensionId::new(Uuid::new_v4(), opening.place.partition)
}

pub(super) async fn the_same_opening_written_twice_is_one(on: &Fixture) {
    for call in ["c", ""] {
        let opening = on.opening("s", "r", call);
        let first = on.opened(&opening).await;
        let second = on.opened(&opening).await;
        assert_eq!(facts(&second), facts(&first), "call `{call}`");
    }
    assert_eq!(on.store.count_open(&on.in_tenant()).await.unwrap(), 2);
}

pub(super) async fn openings_without_a_key_are_separate(on: &Fixture) {
    for (session, run) in [("s", "r"), ("s", ""), ("", "")] {
        let group = on.in_tenant();
        let before = on.store.count_open(&group).await.unwrap();
        let first = on.open(session, run, "").await;
        let second = on.open(session, run, "").await;
        assert_ne!(first.id, second.id);
        assert_eq!(on.store.count_open(&group).await.unwrap(), before + 2);
        let found = on
            .store
            .find(&on.opening(session, run, "").place, None, None)
            .await
            .unwrap();
        assert!(found.suspension.is_none() && !found.closed);
    }
}

pub(super) async fn a_limit_is_exact_under_fifty_racing_openings(on: &Fixture) {
    let openings: Vec<_> = (0..50)
        .map(|n| Opening {
            limit: 10,
            ..on.opening("s", &format!("r{}", n % 3), &format!("c{n}"))
        })
        .collect();
    let met = join_all(openings.iter().map(|opening| on.met(opening))).await;
    let count = |word| met.iter().filter(|met| **met == word).count();
    assert_eq!((count("created"), count("full")), (10, 40));
    assert_eq!(on.store.count_open(&on.in_session("s")).await.unwrap(), 10);
    assert_eq!(on.list(&on.in_session("s"), true).await.len(), 10);
}

pub(super) async fn a_limit_counts_what_is_open_in_the_session_or_else_in_the_run(on: &Fixture) {
    let limited = |session: &str, run: &str| Opening {
        limit: 1,
        ..on.opening(session, run, "")
    };
    for (session, run) in [("s", "r"), ("t", ""), ("", "lonely")] {
        let first = on.opened(&limited(session, run)).await;
        assert_eq!(
            on.met(&limited(session, run)).await,
            "full",
            "{session} {run}"
        );
        // Approved and unclaimed still counts, claimed does not.
        let approved = on.approve(&first).await;
        assert_eq!(
            on.met(&limited(session, run)).await,
            "full",
            "{session} {run}"
        );
        on.claim(&approved).await;
        assert_eq!(
            on.met(&limited(session, run)).await,
            "created",
            "{session} {run}"
        );
    }
    assert_eq!(on.met(&limited("s", "another run")).await, "full");
    assert_eq!(on.met(&limited("another session", "r")).await, "created");
    for _ in 0..3 {
        assert_eq!(
            on.met(&limited("", "")).await,
            "created",
            "nothing limits it"
        );
    }
}

pub(super) async fn a_key_is_found_in_a_full_session(on: &Fixture) {
    let opening = |call| Opening {
        limit: 1,
        ..on.opening("s", "r", call)
    };
    assert_eq!(on.met(&opening("c")).await, "created");
    assert_eq!(on.met(&opening("c")).await, "existing");
    assert_eq!(on.met(&opening("d")).await, "full");
}

pub(super) async fn an_id_in_no_partition_is_unknown(on: &Fixture) {
    let suspension = on.open("s", "r", "c").await;
    for partition in 64..=255 {
        let id = SuspensionId::new(Uuid::new_v4(), partition);
        assert!(on.read(id).await.is_none(), "{partition}");
    }
    let unknown = SuspensionId::new(Uuid::new_v4(), suspension.id.partition().unwrap());
    assert!(on.read(unknown).await.is_none());
}

pub(super) async fn openings_and_changes_are_heard(on: &Fixture) {
    let mut changes = on.store.changes();
    let mut hear = async || {
        let heard = timeout(Duration::from_secs(5), changes.recv()).await;
        match heard.expect("nothing is heard").unwrap() {
            Heard::Changed(id) => id,
            Heard::Missed => panic!("nothing was missed"),
        }
    };
    let first = on.open("s", "r", "c").await;
    assert_eq!(hear().await, first.id);
    let second = on.open("s", "r", "d").await;
    assert_eq!(hear().await, second.id);

    // What changes nothing is not told: the next to be heard is the one after it.
    on.met(&on.opening("s", "r", "c")).await;
    let state = cancelled(&first, on.now().await);
    let stale = assent::suspension::Suspension {
        version: 7,
        ..second.clone()
    };
    assert_eq!(on.write(&stale, &state).await, Committed::Stale);
    on.cancel(&first).await;
    assert_eq!(hear().await, first.id);

    let store = Arc::clone(&on.store);
    let mut late = store.changes();
    on.cancel(&second).await;
    assert_eq!(hear().await, second.id);
    let heard = timeout(Duration::from_secs(5), late.recv()).await;
    assert_eq!(heard.unwrap().unwrap(), Heard::Changed(second.id));
}

pub(super) async fn a_store_that_answers_is_healthy(on: &Fixture) {
    on.store.check().await.unwrap();
}
