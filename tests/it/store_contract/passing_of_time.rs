//! What time does: deadlines, leases, and records that go when nobody needs them any more.

use assent::domain::Timestamp;
use assent::store::{Committed, Member, Opening};
use assent::suspension::{Completion, Suspension, SuspensionId};

use super::fixture::{
    EXPIRES, Fixture, LEASE, MOMENT, RETENTION, facts, id, light_facts, light_facts_of,
};

fn ids(members: &[Member]) -> Vec<SuspensionId> {
    members.iter().map(|member| member.id).collect()
}

fn ids_of(suspensions: &[Suspension]) -> Vec<SuspensionId> {
    suspensions.iter().map(|suspension| suspension.id).collect()
}

/// Opens some, the first the last to be due, in as many partitions.
async fn staggered(on: &Fixture, count: u32) -> Vec<Suspension> {
    let mut opened = Vec::new();
    for n in 0..count {
        let session = format!("s{n}");
        opened.push(
            on.opened(&Opening {
                expires: EXPIRES * (count - n),
                ..on.opening(&session, "r", "c")
            })
            .await,
        );
    }
    opened.reverse();
    opened
}

pub(super) async fn only_what_is_due_is_swept_and_the_soonest_first(on: &Fixture) {
    let opened = staggered(on, 6).await;
    assert_eq!(ids(&on.sweep().await), []);
    on.advance_towards(opened[0].expire_time).await;
    assert_eq!(ids(&on.sweep().await), []);
    on.advance_past(opened[3].expire_time).await;
    let due = on.store.due(100).await.unwrap();
    assert!(due.now >= opened[3].expire_time && due.now < opened[4].expire_time);
    assert!(!due.more);
    let found: Vec<_> = due.members.iter().map(light_facts).collect();
    let expected: Vec<_> = opened[..4].iter().map(light_facts_of).collect();
    assert_eq!(found, expected);
    // Nothing was settled, so it is still due.
    assert_eq!(ids(&on.sweep().await), ids_of(&opened[..4]));
}

pub(super) async fn a_sweep_takes_no_more_than_its_limit_and_says_when_there_is_more(on: &Fixture) {
    let opened = staggered(on, 5).await;
    on.advance_past(opened[4].expire_time).await;
    let mut swept = Vec::new();
    for _ in 0..100 {
        let due = on.store.due(2).await.unwrap();
        assert!(due.members.len() <= 2);
        for member in &due.members {
            on.settle(&on.read(member.id).await.unwrap()).await;
            swept.push(member.id);
        }
        if !due.more {
            break;
        }
    }
    assert_eq!(swept, ids_of(&opened));
    assert_eq!(ids(&on.sweep().await), []);
}

pub(super) async fn a_settled_suspension_is_not_due_again(on: &Fixture) {
    let suspension = on.open("s", "r", "c").await;
    let cancelled = on.open("s", "r", "d").await;
    on.cancel(&cancelled).await;
    let approved = on.open("s", "r", "e").await;
    on.approve(&approved).await;
    on.advance_past(suspension.expire_time).await;
    assert_eq!(ids(&on.sweep().await), [suspension.id]);
    let expired = on.settle(&suspension).await;
    assert_eq!(ids(&on.sweep().await), []);
    assert_eq!(
        facts(&on.read(suspension.id).await.unwrap()),
        facts(&expired)
    );
    assert_eq!(on.store.count_open(&on.in_tenant()).await.unwrap(), 1);
}

pub(super) async fn a_claim_is_due_when_its_lease_ends(on: &Fixture) {
    let claimed = on
        .claim(&on.approve(&on.open("s", "r", "c").await).await)
        .await;
    let lease = claimed.state.claims[0].lease_expire_time;
    on.advance_towards(lease).await;
    assert_eq!(ids(&on.sweep().await), []);
    on.advance_past(lease).await;
    let due = on.sweep().await;
    let due: Vec<_> = due.iter().map(light_facts).collect();
    assert_eq!(due, [light_facts_of(&claimed)]);
    on.settle(&claimed).await;
    assert_eq!(ids(&on.sweep().await), []);
    on.clock.advance(EXPIRES + RETENTION * 10);
    assert_eq!(ids(&on.sweep().await), [], "time changes it no more");
}

/// Holds that a record is there until a moment, and then nowhere.
async fn goes_at(on: &Fixture, suspension: &Suspension, time: Timestamp) {
    let expected = facts(suspension);
    let opening = on.opening("s", "r", "c");
    on.advance_towards(time).await;
    on.sweep().await;
    assert_eq!(facts(&on.read(suspension.id).await.unwrap()), expected);
    assert_eq!(on.list(&on.in_session("s"), false).await, [expected]);
    let found = on
        .store
        .find(&opening.place, opening.key.as_ref(), None)
        .await
        .unwrap();
    assert_eq!(found.suspension.unwrap().id, suspension.id);

    on.advance_past(time).await;
    assert_eq!(
        ids(&on.sweep().await),
        [],
        "nothing about it is left to be settled"
    );
    assert!(on.read(suspension.id).await.is_none());
    let found = on
        .store
        .find(&opening.place, opening.key.as_ref(), None)
        .await
        .unwrap();
    assert!(found.suspension.is_none());
    assert_eq!(
        on.write(suspension, &suspension.state).await,
        Committed::Stale
    );
    for group in [
        on.in_tenant(),
        on.in_session("s"),
        on.in_run(Some("s"), "r"),
    ] {
        assert!(on.list(&group, false).await.is_empty());
        assert!(on.list(&group, true).await.is_empty());
        assert_eq!(on.store.count_open(&group).await.unwrap(), 0);
    }
}

pub(super) async fn what_is_settled_early_is_kept_until_its_deadline_and_retention(on: &Fixture) {
    let suspension = on.open("s", "r", "c").await;
    let settled = on.cancel(&suspension).await;
    goes_at(on, &settled, suspension.expire_time.after(RETENTION)).await;
}

pub(super) async fn what_changed_late_is_kept_for_the_retention_after_the_change(on: &Fixture) {
    let suspension = on.open("s", "r", "c").await;
    let claimed = on.claim(&on.approve(&suspension).await).await;
    on.advance_past(suspension.expire_time.after(RETENTION * 3))
        .await;
    let now = on.now().await;
    let completed = claimed.complete(&id("attempt"), Completion::Success, "", now);
    let completed = on.changed(&claimed, completed.unwrap().unwrap()).await;
    goes_at(on, &completed, completed.state.changed.after(RETENTION)).await;
}

pub(super) async fn what_is_claimed_or_in_doubt_is_never_collected(on: &Fixture) {
    let claimed = on
        .claim(&on.approve(&on.open("s", "r", "c").await).await)
        .await;
    let in_doubt = on
        .claim(&on.approve(&on.open("s", "r", "d").await).await)
        .await;
    on.clock.advance(LEASE);
    let in_doubt = on.settle(&in_doubt).await;
    for _ in 0..3 {
        on.clock.advance(EXPIRES + RETENTION * 100);
        assert_eq!(ids(&on.sweep().await), [claimed.id]);
        for suspension in [&claimed, &in_doubt] {
            let read = on.read(suspension.id).await.unwrap();
            assert_eq!(facts(&read), facts(suspension));
        }
        assert_eq!(on.list(&on.in_tenant(), false).await.len(), 2);
        assert_eq!(on.met(&on.opening("s", "r", "d")).await, "existing");
    }
}

pub(super) async fn an_approval_that_nobody_used_is_collected_too(on: &Fixture) {
    let approved = on.approve(&on.open("s", "r", "c").await).await;
    goes_at(on, &approved, approved.expire_time.after(RETENTION)).await;
}

pub(super) async fn a_key_goes_with_its_record(on: &Fixture) {
    let opening = on.opening("s", "r", "c");
    let first = on.opened(&opening).await;
    let settled = on.cancel(&first).await;
    on.advance_towards(first.expire_time.after(RETENTION)).await;
    on.sweep().await;
    let again = on.opening("s", "r", "c");
    assert_eq!(on.met(&again).await, "existing");
    assert_eq!(on.list(&on.in_session("s"), false).await, [facts(&settled)]);

    on.clock.advance(MOMENT);
    on.sweep().await;
    let second = on.opened(&again).await;
    on.sweep().await;
    let found = on
        .store
        .find(&opening.place, opening.key.as_ref(), None)
        .await
        .unwrap();
    assert_eq!(facts(&found.suspension.unwrap()), facts(&second));
    assert_eq!(on.list(&on.in_session("s"), false).await, [facts(&second)]);
}
