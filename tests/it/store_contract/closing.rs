//! The end of a run or a session: nothing opens there any more, and nothing stays open.

use std::time::Duration;

use assent::store::{Closing, Commit, Committed, Group, Opening, Place};
use assent::suspension::Suspension;
use futures_util::future::join_all;
use tokio::join;

use super::fixture::{Fixture, RETENTION, approved, cancelled, closing, commit, facts};

/// Ends a group that has one open record, in the partition of that record.
async fn end(on: &Fixture, group: &Group, partition: u8) {
    let members = on.store.members(partition, group).await.unwrap();
    assert_eq!((members.members.len(), members.open), (1, 1), "{group:?}");
    let suspension = on.read(members.members[0].id).await.unwrap();
    let state = cancelled(&suspension, members.now);
    let ended = on.end(group, partition, &[(&suspension, &state)], 1).await;
    assert_eq!(ended, Committed::Done);
    let read = on.read(suspension.id).await.unwrap();
    assert_eq!(
        (read.version, read.state),
        (2, state),
        "what was open ends with it"
    );
    let members = on.store.members(partition, group).await.unwrap();
    assert_eq!((members.members.len(), members.open), (0, 0), "{group:?}");
}

/// What openings in some places meet.
async fn met(on: &Fixture, places: &[(&str, &str)]) -> Vec<&'static str> {
    let openings = places
        .iter()
        .map(|(session, run)| on.opening(session, run, ""));
    let mut met = Vec::new();
    for opening in openings {
        let found = on.store.find(&opening.place, None, None).await.unwrap();
        let word = on.met(&opening).await;
        assert_eq!(found.closed, word == "closed");
        assert_eq!(on.read(opening.id).await.is_some(), word == "created");
        met.push(word);
    }
    met
}

pub(super) async fn an_ended_run_of_a_session_takes_nothing_new(on: &Fixture) {
    let suspension = on.open("s", "r", "c").await;
    let partition = suspension.id.partition().unwrap();
    end(on, &on.in_run(Some("s"), "r"), partition).await;
    let places = [("s", "r"), ("s", "q"), ("s", ""), ("t", "r"), ("", "r")];
    let expected = ["closed", "created", "created", "created", "created"];
    assert_eq!(met(on, &places).await, expected);
    assert_eq!(met(&on.beside(), &places).await, ["created"; 5]);
}

pub(super) async fn an_ended_run_without_a_session_takes_nothing_new(on: &Fixture) {
    let suspension = on.open("", "r", "c").await;
    let partition = suspension.id.partition().unwrap();
    end(on, &on.in_run(Some(""), "r"), partition).await;
    let places = [("", "r"), ("", "q"), ("s", "r"), ("", "")];
    assert_eq!(
        met(on, &places).await,
        ["closed", "created", "created", "created"]
    );
}

pub(super) async fn a_run_ended_in_any_session_takes_nothing_new(on: &Fixture) {
    on.open("s", "r", "c").await;
    on.open("", "r", "c").await;
    let group = on.in_run(None, "r");
    for partition in 0..64 {
        on.end_all(&group, partition).await;
    }
    let places = [("s", "r"), ("t", "r"), ("", "r"), ("s", "q")];
    assert_eq!(
        met(on, &places).await,
        ["closed", "closed", "closed", "created"]
    );
    assert_eq!(on.list(&group, true).await.len(), 0);
    assert_eq!(on.list(&group, false).await.len(), 2);
}

pub(super) async fn an_ended_session_takes_nothing_new(on: &Fixture) {
    let suspension = on.open("s", "r", "c").await;
    let partition = suspension.id.partition().unwrap();
    end(on, &on.in_session("s"), partition).await;
    let places = [("s", "r"), ("s", "q"), ("s", ""), ("t", "r"), ("", "r")];
    let expected = ["closed", "closed", "closed", "created", "created"];
    assert_eq!(met(on, &places).await, expected);
}

pub(super) async fn an_end_is_said_before_a_limit_and_after_a_key(on: &Fixture) {
    let suspension = on.open("s", "r", "c").await;
    let partition = suspension.id.partition().unwrap();
    let run = on.in_run(Some("s"), "r");
    let full = |call| Opening {
        limit: 0,
        ..on.opening("s", "r", call)
    };
    assert_eq!(on.met(&full("d")).await, "full");
    end(on, &run, partition).await;
    assert_eq!(on.met(&full("d")).await, "closed");
    assert_eq!(on.met(&full("c")).await, "existing");
    let opening = on.opening("s", "r", "c");
    let found = on
        .store
        .find(&opening.place, opening.key.as_ref(), None)
        .await
        .unwrap();
    assert_eq!(
        (found.suspension.unwrap().id, found.closed),
        (suspension.id, true)
    );

    // Ending it once more is harmless.
    assert_eq!(on.end(&run, partition, &[], 0).await, Committed::Done);
    assert_eq!(on.met(&full("d")).await, "closed");
}

pub(super) async fn an_end_is_forgotten_after_its_retention(on: &Fixture) {
    let partition = on.opening("s", "r", "c").place.partition;
    let ended = on.end(&on.in_run(Some("s"), "r"), partition, &[], 0).await;
    assert_eq!(ended, Committed::Done);
    let until = on.now().await.after(RETENTION);
    on.advance_towards(until).await;
    on.sweep().await;
    assert_eq!(on.met(&on.opening("s", "r", "c")).await, "closed");
    on.advance_past(until).await;
    on.sweep().await;
    assert_eq!(on.met(&on.opening("s", "r", "c")).await, "created");
}

pub(super) async fn an_end_that_is_written_again_is_remembered_no_shorter(on: &Fixture) {
    let partition = on.opening("s", "r", "c").place.partition;
    let end_for = |retention| Commit {
        partition,
        closing: Some(Closing {
            retention,
            ..closing(&on.in_run(Some("s"), "r"), None)
        }),
        ..commit(&[])
    };
    for retention in [RETENTION, Duration::from_secs(1)] {
        let ended = on.store.commit(&end_for(retention)).await.unwrap();
        assert_eq!(ended, Committed::Done);
    }
    let until = on.now().await.after(RETENTION);
    on.advance_towards(until).await;
    on.sweep().await;
    assert_eq!(on.met(&on.opening("s", "r", "c")).await, "closed");
    let ended = on.store.commit(&end_for(RETENTION)).await.unwrap();
    assert_eq!(ended, Committed::Done);
    on.advance_past(until).await;
    on.sweep().await;
    assert_eq!(on.met(&on.opening("s", "r", "c")).await, "closed");
}

pub(super) async fn what_would_be_answered_or_claimed_after_an_end_is_refused(on: &Fixture) {
    let opening = on.opening("s", "r", "c");
    let left = on.opened(&opening).await;
    let elsewhere = on.open("s", "q", "c").await;
    let partition = left.id.partition().unwrap();
    let over = Commit {
        partition,
        closing: Some(closing(&on.in_run(Some("s"), "r"), None)),
        ..commit(&[])
    };
    assert_eq!(on.store.commit(&over).await.unwrap(), Committed::Done);

    let answer = |suspension, state| Commit {
        unless_closed: Place::of(&Suspension::clone(suspension).body.scope, 0).closings,
        ..commit(&[(suspension, state)])
    };
    let state = approved(&left, None, on.now().await);
    let late = answer(&left, &state);
    assert_eq!(on.store.commit(&late).await.unwrap(), Committed::Closed);
    assert_eq!(facts(&on.read(left.id).await.unwrap()), facts(&left));
    let state = approved(&elsewhere, None, on.now().await);
    let other = answer(&elsewhere, &state);
    assert_eq!(on.store.commit(&other).await.unwrap(), Committed::Done);

    // The end itself still reaches what it finds.
    on.cancel(&left).await;
    // A repeat of what was written is told so, whatever has ended since.
    let session = Commit {
        partition,
        closing: Some(closing(&on.in_session("s"), None)),
        ..commit(&[])
    };
    assert_eq!(on.store.commit(&session).await.unwrap(), Committed::Done);
    assert_eq!(on.store.commit(&other).await.unwrap(), Committed::Done);
}

pub(super) async fn an_end_needs_every_open_record(on: &Fixture) {
    let first = on.open("s", "r", "c").await;
    let partition = first.id.partition().unwrap();
    let run = on.in_run(Some("s"), "r");
    let state = cancelled(&first, on.now().await);

    let second = on.open("s", "r", "d").await;
    let ended = on.end(&run, partition, &[(&first, &state)], 1).await;
    assert_eq!(ended, Committed::Stale, "one was opened meanwhile");

    on.cancel(&second).await;
    let third = on.open("s", "r", "e").await;
    let other = cancelled(&second, on.now().await);
    let changes = [(&first, &state), (&second, &other)];
    let ended = on.end(&run, partition, &changes, 2).await;
    assert_eq!(
        ended,
        Committed::Stale,
        "one was opened and another settled"
    );

    for suspension in [&first, &third] {
        assert_eq!(
            facts(&on.read(suspension.id).await.unwrap()),
            facts(suspension)
        );
    }
    assert_eq!(
        on.met(&on.opening("s", "r", "f")).await,
        "created",
        "it has not ended"
    );
}

pub(super) async fn an_end_is_not_fooled_by_a_namesake_in_another_session(on: &Fixture) {
    let partition = on.opening("s", "r", "").place.partition;
    let session = (0..)
        .map(|n| format!("another session {n}"))
        .find(|session| on.opening(session, "r", "").place.partition == partition)
        .unwrap();
    let namesake = on.open(&session, "r", "c").await;
    let run = on.in_run(Some("s"), "r");
    let members = on.store.members(partition, &run).await.unwrap();
    assert!(members.members.is_empty());

    on.cancel(&namesake).await;
    let opened = on.open("s", "r", "c").await;
    let ended = on.end(&run, partition, &[], members.open).await;
    assert_eq!(ended, Committed::Stale);
    assert_eq!(facts(&on.read(opened.id).await.unwrap()), facts(&opened));
}

pub(super) async fn an_end_that_races_with_openings_leaves_nothing_open(on: &Fixture) {
    for round in 0..10 {
        let run = format!("r{round}");
        let group = on.in_run(Some("s"), &run);
        let partition = on.opening("s", &run, "").place.partition;
        let openings: Vec<_> = (0..8).map(|_| on.opening("s", &run, "")).collect();
        let (opened, rest) = openings.split_at(3);
        join_all(opened.iter().map(|opening| on.met(opening))).await;
        let racing = join_all(rest.iter().map(|opening| on.met(opening)));
        let (met, ()) = join!(racing, on.end_all(&group, partition));
        assert!(
            met.iter().all(|met| ["created", "closed"].contains(met)),
            "{met:?}"
        );
        assert_eq!(on.store.count_open(&group).await.unwrap(), 0, "{met:?}");
        assert_eq!(on.list(&group, true).await.len(), 0, "{met:?}");
        let created = met.iter().filter(|met| **met == "created").count();
        assert_eq!(on.list(&group, false).await.len(), 3 + created);
    }
}
