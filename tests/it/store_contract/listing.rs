//! Lists and members: their order, their pages, and what they must not show.

use std::collections::BTreeSet;
use std::time::Duration;

use assent::store::{MEMBERS, Opening, Query};
use assent::suspension::{Suspension, SuspensionId};
use serde_json::Value;

use super::fixture::{EXPIRES, Fixture, facts, light_facts, light_facts_of};

pub(super) async fn a_list_is_ordered_by_deadline_and_id(on: &Fixture) {
    let mut opened = Vec::new();
    for n in 0_u32..9 {
        let session = ["s", "t", ""][n as usize % 3];
        opened.push(
            on.opened(&Opening {
                expires: EXPIRES * (10 - n / 3),
                ..on.opening(session, "r", &format!("c{n}"))
            })
            .await,
        );
    }
    opened.sort_by_key(|suspension| (suspension.expire_time, suspension.id));
    let expected: Vec<Value> = opened.iter().map(facts).collect();
    assert_eq!(on.list(&on.in_tenant(), false).await, expected);
    assert_eq!(on.list(&on.in_tenant(), true).await, expected);
    assert_eq!(on.list(&on.in_run(None, "r"), false).await, expected);
    let in_session = |session: &str| -> Vec<Value> {
        opened
            .iter()
            .filter(|suspension| suspension.body.scope.session_id.as_str() == session)
            .map(facts)
            .collect()
    };
    assert_eq!(on.list(&on.in_session("s"), false).await, in_session("s"));
    assert_eq!(
        on.list(&on.in_run(Some("t"), "r"), false).await,
        in_session("t")
    );
    assert_eq!(
        on.list(&on.in_run(Some(""), "r"), false).await,
        in_session("")
    );
}

pub(super) async fn pages_miss_nothing_and_double_nothing_while_records_settle(on: &Fixture) {
    // Some of these have the same deadline to the millisecond.
    let mut opened = Vec::new();
    for n in 0..30 {
        let session = ["s", "t", "u"][n % 3];
        opened.push(on.open(session, "r", &format!("c{n}")).await);
    }
    for open_only in [false, true] {
        let mut query = Query {
            group: on.in_tenant(),
            open_only,
            after: None,
            limit: 4,
        };
        let mut seen: Vec<SuspensionId> = Vec::new();
        let mut pages = 0;
        loop {
            let slice = on.store.list(&query).await.unwrap();
            assert!(slice.suspensions.len() <= 4);
            seen.extend(slice.suspensions.iter().map(|suspension| suspension.id));
            pages += 1;
            // One that was seen and one that was not settle, and a new one comes, always later.
            let (behind, ahead) = opened.split_at(pages.min(14) * 2);
            for suspension in [behind.last(), ahead.last()].into_iter().flatten() {
                settle(on, suspension).await;
            }
            on.opened(&Opening {
                expires: EXPIRES * 2,
                ..on.opening("s", "late", "")
            })
            .await;
            query.after = slice.next;
            if query.after.is_none() || pages > 100 {
                break;
            }
        }
        let distinct: BTreeSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len(), "something is doubled");
        let mut stays = Vec::new();
        for suspension in &opened {
            let now = on.read(suspension.id).await.unwrap();
            if !open_only || now.state.is_open() {
                stays.push(now.id);
            }
        }
        let missed: Vec<_> = stays.iter().filter(|id| !distinct.contains(id)).collect();
        assert_eq!(missed, Vec::<&SuspensionId>::new());
    }
}

async fn settle(on: &Fixture, suspension: &Suspension) {
    let now = on.read(suspension.id).await.unwrap();
    if now.state.is_open() {
        on.cancel(&now).await;
    }
}

pub(super) async fn tenants_do_not_see_each_other(on: &Fixture) {
    let other = on.beside();
    let mine = on.open("s", "r", "c").await;
    let theirs = other.open("s", "r", "c").await;
    assert_ne!(mine.id, theirs.id);
    for (tenant, expected) in [(on, &mine), (&other, &theirs)] {
        for group in [
            tenant.in_tenant(),
            tenant.in_session("s"),
            tenant.in_run(Some("s"), "r"),
            tenant.in_run(None, "r"),
        ] {
            assert_eq!(on.list(&group, false).await, [facts(expected)], "{group:?}");
            let partition = expected.id.partition().unwrap();
            let members = on.store.members(partition, &group).await.unwrap();
            assert_eq!(members.open, 1, "{group:?}");
        }
        assert_eq!(on.store.count_open(&tenant.in_tenant()).await.unwrap(), 1);
    }
}

pub(super) async fn sessions_do_not_see_each_other(on: &Fixture) {
    let in_s = on.open("s", "r", "c").await;
    let in_t = on.open("t", "q", "c").await;
    let in_none = on.open("", "p", "c").await;
    assert_eq!(on.list(&on.in_session("s"), false).await, [facts(&in_s)]);
    assert_eq!(on.list(&on.in_session("t"), false).await, [facts(&in_t)]);
    assert_eq!(
        on.list(&on.in_run(Some(""), "p"), false).await,
        [facts(&in_none)]
    );
    for (session, run) in [("s", "q"), ("t", "r"), ("", "r"), ("s", "")] {
        let group = on.in_run(Some(session), run);
        assert_eq!(
            on.list(&group, false).await,
            Vec::<Value>::new(),
            "{group:?}"
        );
    }
    assert_eq!(on.list(&on.in_tenant(), false).await.len(), 3);
}

pub(super) async fn runs_of_one_name_in_two_sessions_do_not_see_each_other(on: &Fixture) {
    let partition = on.opening("s", "r", "").place.partition;
    // In one partition they share an index on some stores.
    let session = (0..)
        .map(|n| format!("another session {n}"))
        .find(|session| on.opening(session, "r", "").place.partition == partition)
        .unwrap();
    let one = on.open("s", "r", "c").await;
    let two = on.open(&session, "r", "c").await;
    for (session, expected) in [("s", &one), (session.as_str(), &two)] {
        let group = on.in_run(Some(session), "r");
        for open_only in [false, true] {
            assert_eq!(
                on.list(&group, open_only).await,
                [facts(expected)],
                "{session}"
            );
        }
        let members = on.store.members(partition, &group).await.unwrap();
        let members: Vec<Value> = members.members.iter().map(light_facts).collect();
        assert_eq!(members, [light_facts_of(expected)], "{session}");
    }
    let members = on
        .store
        .members(partition, &on.in_run(None, "r"))
        .await
        .unwrap();
    assert_eq!((members.members.len(), members.open), (2, 2));
    assert_eq!(on.list(&on.in_run(None, "r"), false).await.len(), 2);
}

pub(super) async fn names_are_told_apart_wherever_they_are_cut(on: &Fixture) {
    let one = on.open("ab", "c", "d").await;
    let two = on.open("a", "bc", "d").await;
    let three = on.open("a", "b", "cd").await;
    assert_eq!(on.list(&on.in_session("ab"), false).await, [facts(&one)]);
    assert_eq!(
        on.list(&on.in_run(Some("a"), "bc"), false).await,
        [facts(&two)]
    );
    assert_eq!(
        on.list(&on.in_run(Some("a"), "b"), false).await,
        [facts(&three)]
    );
    assert_eq!(
        on.list(&on.in_run(Some("ab"), "bc"), false).await,
        Vec::<Value>::new()
    );
}

pub(super) async fn members_of_a_large_group_are_read_in_part_and_counted_whole(on: &Fixture) {
    let count = MEMBERS + 40;
    for _ in 0..count {
        on.opened(&Opening {
            limit: u64::MAX,
            ..on.opening("s", "r", "")
        })
        .await;
    }
    let last = on
        .opened(&Opening {
            limit: u64::MAX,
            expires: 2 * EXPIRES,
            ..on.opening("s", "r", "")
        })
        .await;
    let count = count + 1;
    let partition = on.in_session("s").partition().unwrap();
    let run = on.in_run(Some("s"), "r");
    let members = on.store.members(partition, &run).await.unwrap();
    assert!(members.more);
    assert_eq!(members.latest, Some(last.expire_time));
    assert!((MEMBERS..count).contains(&members.members.len()));
    assert_eq!(members.open, u64::try_from(count).unwrap());
}

pub(super) async fn members_are_the_open_records_of_one_partition(on: &Fixture) {
    let pending = on.open("s", "r", "c").await;
    let partition = pending.id.partition().unwrap();
    let approved = on.approve(&on.open("s", "r", "d").await).await;
    let settled = on.open("s", "r", "e").await;
    on.cancel(&settled).await;
    let claimed = on.approve(&on.open("s", "r", "f").await).await;
    on.claim(&claimed).await;

    let before = on.now().await;
    let members = on
        .store
        .members(partition, &on.in_session("s"))
        .await
        .unwrap();
    assert!(members.now >= before && members.now <= before.after(Duration::from_secs(60)));
    let mut found: Vec<Value> = members.members.iter().map(light_facts).collect();
    let mut expected = vec![light_facts_of(&pending), light_facts_of(&approved)];
    found.sort_by_key(Value::to_string);
    expected.sort_by_key(Value::to_string);
    assert_eq!((found, members.open), (expected, 2));
    let latest = pending.expire_time.max(approved.expire_time);
    assert_eq!(members.latest, Some(latest));

    let elsewhere = on
        .store
        .members((partition + 1) % 64, &on.in_session("s"))
        .await
        .unwrap();
    assert_eq!((elsewhere.members.len(), elsewhere.open), (0, 0));
    assert_eq!(elsewhere.latest, None);
}
