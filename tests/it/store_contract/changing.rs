//! Changing records: versions, repeated operations, and moments past which nothing is written.

use assent::arguments::Arguments;
use assent::domain::Timestamp;
use assent::store::{Commit, Committed};
use assent::suspension::{Completion, State, Suspension, SuspensionId, Vote};
use futures_util::future::join_all;
use uuid::Uuid;

use super::fixture::{Fixture, LEASE, approved, cancelled, commit, facts, id};

pub(super) async fn every_state_reads_back_whole(on: &Fixture) {
    let pending = on.open("s", "r", "c").await;
    let vote = Vote {
        by: id("ann"),
        by_roles: vec!["lead".to_owned()],
        vote_time: on.now().await,
        reason: "yes \u{1f44d}".to_owned(),
    };
    let voted = State {
        votes: vec![vote],
        ..pending.state.clone()
    };
    let voted = on.changed(&pending, voted).await;
    assert_eq!(facts(&on.read(pending.id).await.unwrap()), facts(&voted));

    let edited = Arguments::parse(r#"{"amount": 18446744073709551617}"#, 1024).unwrap();
    let state = approved(&voted, Some(edited), on.now().await);
    let approved = on.changed(&voted, state).await;
    assert_eq!(facts(&on.read(pending.id).await.unwrap()), facts(&approved));

    let claimed = on.claim(&approved).await;
    assert_eq!(facts(&on.read(pending.id).await.unwrap()), facts(&claimed));

    on.clock.advance(LEASE);
    let in_doubt = on.settle(&claimed).await;
    assert_eq!(facts(&on.read(pending.id).await.unwrap()), facts(&in_doubt));

    let attempt = id("attempt");
    let now = on.now().await;
    let completed = in_doubt.complete(&attempt, Completion::Failure, "it broke", now);
    let completed = on.changed(&in_doubt, completed.unwrap().unwrap()).await;
    assert_eq!(completed.version, 6);
    let expected = facts(&completed);
    assert_eq!(facts(&on.read(pending.id).await.unwrap()), expected);
    assert_eq!(on.list(&on.in_session("s"), false).await, [expected]);
}

pub(super) async fn of_racing_changes_one_is_written(on: &Fixture) {
    let suspension = on.open("s", "r", "c").await;
    let now = on.now().await;
    let states: Vec<State> = (0..20)
        .map(|n| {
            let by = id(&format!("person {n}"));
            suspension.cancelled(&by, "", now).unwrap()
        })
        .collect();
    let committed = join_all(states.iter().map(|state| on.write(&suspension, state))).await;
    let winners: Vec<&State> = states
        .iter()
        .zip(&committed)
        .filter(|(_, committed)| **committed == Committed::Done)
        .map(|(state, _)| state)
        .collect();
    assert_eq!(winners.len(), 1);
    let read = on.read(suspension.id).await.unwrap();
    assert_eq!((read.version, &read.state), (2, winners[0]));
}

pub(super) async fn a_change_of_what_is_not_there_is_stale(on: &Fixture) {
    let suspension = on.open("s", "r", "c").await;
    let state = cancelled(&suspension, on.now().await);
    let unknown = Suspension {
        id: SuspensionId::new(Uuid::new_v4(), suspension.id.partition().unwrap()),
        ..suspension
    };
    assert_eq!(on.write(&unknown, &state).await, Committed::Stale);
    assert!(on.read(unknown.id).await.is_none());
}

pub(super) async fn changes_are_written_together_or_not_at_all(on: &Fixture) {
    let first = on.open("s", "r", "c").await;
    let second = on.open("s", "q", "c").await;
    let now = on.now().await;
    let (one, two) = (cancelled(&first, now), cancelled(&second, now));
    let outdated = Suspension {
        version: 9,
        ..second.clone()
    };
    for changes in [
        [(&first, &one), (&outdated, &two)],
        [(&outdated, &two), (&first, &one)],
    ] {
        let committed = on.store.commit(&commit(&changes)).await.unwrap();
        assert_eq!(committed, Committed::Stale);
        for suspension in [&first, &second] {
            assert_eq!(
                facts(&on.read(suspension.id).await.unwrap()),
                facts(suspension)
            );
        }
    }
    let changes = commit(&[(&first, &one), (&second, &two)]);
    assert_eq!(on.store.commit(&changes).await.unwrap(), Committed::Done);
    for (suspension, state) in [(&first, &one), (&second, &two)] {
        let read = on.read(suspension.id).await.unwrap();
        assert_eq!((read.version, &read.state), (2, state));
    }
    assert_eq!(on.store.count_open(&on.in_tenant()).await.unwrap(), 0);
}

pub(super) async fn a_repeated_operation_is_done_and_changes_nothing_twice(on: &Fixture) {
    let first = on.open("s", "r", "c").await;
    let second = on.open("s", "r", "d").await;
    let now = on.now().await;
    let (one, two) = (cancelled(&first, now), cancelled(&second, now));
    let operation = Commit {
        not_after: Some(first.expire_time),
        ..commit(&[(&first, &one), (&second, &two)])
    };
    assert_eq!(on.store.commit(&operation).await.unwrap(), Committed::Done);
    let written = on.list(&on.in_tenant(), false).await;
    assert_eq!(on.store.commit(&operation).await.unwrap(), Committed::Done);

    // It was written in time, so a repetition past its last moment is none of a late one.
    on.advance_past(first.expire_time).await;
    assert_eq!(on.store.commit(&operation).await.unwrap(), Committed::Done);
    assert_eq!(on.list(&on.in_tenant(), false).await, written);

    let another = Commit {
        operation: Uuid::new_v4(),
        not_after: None,
        ..operation
    };
    assert_eq!(on.store.commit(&another).await.unwrap(), Committed::Stale);
}

pub(super) async fn a_commit_at_its_last_moment_is_late(on: &Fixture) {
    let suspension = on.open("s", "r", "c").await;
    let write = async |not_after: Timestamp| {
        let state = cancelled(&suspension, on.now().await);
        let commit = Commit {
            not_after: Some(not_after),
            ..commit(&[(&suspension, &state)])
        };
        on.store.commit(&commit).await.unwrap()
    };
    // The store's own clock says when: the moment it reads now is the earliest that is late.
    assert_eq!(write(on.now().await).await, Committed::Stale);
    on.advance_past(suspension.expire_time).await;
    assert_eq!(write(suspension.expire_time).await, Committed::Stale);
    assert_eq!(
        facts(&on.read(suspension.id).await.unwrap()),
        facts(&suspension)
    );
    assert_eq!(
        write(suspension.expire_time.after(LEASE)).await,
        Committed::Done
    );
}
