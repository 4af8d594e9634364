//! Session grants: given with an approval, found by their key, and over when time, a person or their session ends them.

use std::collections::BTreeSet;
use std::time::Duration;

use assent::domain::{RiskClass, Scope};
use assent::store::{
    Commit, Committed, Cursor, Giving, GrantKey, GrantQuery, Group, Opened, Opening, Place,
};
use assent::suspension::{Grant, GrantId, Leave, State, Suspension};
use futures_util::future::join_all;
use tokio::join;
use uuid::Uuid;

use super::fixture::{Fixture, RETENTION, approved, closing, commit, facts, id};

/// How long the grants of these tests hold.
const HOLDS: Duration = Duration::from_secs(2 * 60 * 60);

/// The grant that the approval of a suspension gives, and what it is found by.
async fn giving(on: &Fixture, suspension: &Suspension) -> Giving {
    let call = suspension.body.call().unwrap();
    let leave = Leave {
        scope: Scope {
            run_id: id(""),
            parent_run_id: id(""),
            ..suspension.body.scope.clone()
        },
        tool: call.tool.clone(),
        server: call.server.clone(),
        arguments_digest: suspension.body.arguments_digest.unwrap(),
        risk_class: RiskClass::Destructive,
        policy_revision: suspension.body.policy_revision.clone(),
        by: id("lea"),
        by_roles: vec!["lead".to_owned()],
        suspension_id: suspension.id,
    };
    let now = on.now().await;
    Giving {
        key: key(&leave),
        grant: Grant {
            id: GrantId::new(Uuid::new_v4(), suspension.id.partition().unwrap()),
            leave,
            create_time: now,
            expire_time: now.after(HOLDS),
        },
        retention: RETENTION,
    }
}

fn key(leave: &Leave) -> GrantKey {
    let Leave {
        scope,
        tool,
        server,
        arguments_digest,
        policy_revision,
        ..
    } = leave;
    GrantKey::of(scope, tool, server, arguments_digest, policy_revision).unwrap()
}

/// An approval that gives a grant, to be committed.
fn approval(suspension: &Suspension, state: &State, giving: &Giving) -> Commit {
    Commit {
        giving: Some(giving.clone()),
        ..commit(&[(suspension, state)])
    }
}

/// Approves a suspension for the session.
async fn granted(on: &Fixture, suspension: &Suspension) -> Giving {
    let giving = giving(on, suspension).await;
    let state = approved(suspension, None, on.now().await);
    let commit = approval(suspension, &state, &giving);
    assert_eq!(on.store.commit(&commit).await.unwrap(), Committed::Done);
    giving
}

/// An opening that a grant may answer.
fn asking(on: &Fixture, session: &str, run: &str, call: &str, key: GrantKey) -> Opening {
    Opening {
        grant: Some(key),
        ..on.opening(session, run, call)
    }
}

async fn found(on: &Fixture, key: GrantKey) -> Option<Grant> {
    let place = on.opening("s", "r", "").place;
    let found = on.store.find(&place, None, Some(&key)).await.unwrap();
    found.grant
}

async fn list(on: &Fixture, group: &Group) -> Vec<GrantId> {
    let mut query = GrantQuery {
        group: group.clone(),
        after: None,
        limit: 2,
    };
    let mut ids = Vec::new();
    loop {
        let slice = on.store.list_grants(&query).await.unwrap();
        assert!(slice.grants.len() <= 2);
        ids.extend(slice.grants.iter().map(|grant| grant.id));
        query.after = slice.next;
        if query.after.is_none() {
            return ids;
        }
    }
}

pub(super) async fn a_grant_reads_back_whole_and_is_found_by_its_key(on: &Fixture) {
    let Giving { grant, key, .. } = granted(on, &on.open("s", "r", "c").await).await;
    let read = on.store.read_grant(grant.id).await.unwrap();
    assert_eq!(read.as_ref(), Some(&grant));
    assert_eq!(found(on, key).await.as_ref(), Some(&grant));
    match on
        .store
        .open(&asking(on, "s", "r2", "c", key))
        .await
        .unwrap()
    {
        Opened::Granted(found) => assert_eq!(found, grant),
        other => panic!("{other:?}"),
    }
    let other = key_of_other_tool(&grant.leave);
    assert_eq!(found(on, other).await, None);
    assert_eq!(on.met(&asking(on, "s", "r2", "c2", other)).await, "created");
    let unknown = GrantId::new(Uuid::new_v4(), 7);
    assert_eq!(on.store.read_grant(unknown).await.unwrap(), None);
    assert_eq!(on.store.end_grant(unknown).await.unwrap(), None);
}

fn key_of_other_tool(leave: &Leave) -> GrantKey {
    key(&Leave {
        tool: id("client.close_case"),
        ..leave.clone()
    })
}

pub(super) async fn a_grant_is_given_with_its_approval_or_not_at_all(on: &Fixture) {
    let suspension = on.open("s", "r", "c").await;
    let giving = giving(on, &suspension).await;
    let state = approved(&suspension, None, on.now().await);
    let late = Commit {
        not_after: Some(suspension.create_time),
        ..approval(&suspension, &state, &giving)
    };
    assert_eq!(on.store.commit(&late).await.unwrap(), Committed::Stale);
    assert_eq!(on.store.read_grant(giving.grant.id).await.unwrap(), None);
    assert_eq!(found(on, giving.key).await, None);
    assert_eq!(
        facts(&on.read(suspension.id).await.unwrap()),
        facts(&suspension)
    );

    let over = Commit {
        closing: Some(closing(&on.in_run(Some("s"), "r"), None)),
        partition: suspension.id.partition().unwrap(),
        ..commit(&[])
    };
    assert_eq!(on.store.commit(&over).await.unwrap(), Committed::Done);
    let closed = Commit {
        unless_closed: Place::of(&suspension.body.scope, 0).closings,
        ..approval(&suspension, &state, &giving)
    };
    assert_eq!(on.store.commit(&closed).await.unwrap(), Committed::Closed);
    assert_eq!(on.store.read_grant(giving.grant.id).await.unwrap(), None);

    // Of racing approvals for the session one gives its grant.
    let raced = on.open("s", "r2", "c").await;
    let state = approved(&raced, None, on.now().await);
    let mut commits = Vec::new();
    for _ in 0..20 {
        commits.push(approval(&raced, &state, &self::giving(on, &raced).await));
    }
    let committed = join_all(commits.iter().map(|commit| on.store.commit(commit))).await;
    let done: Vec<_> = committed
        .iter()
        .zip(&commits)
        .filter(|(committed, _)| *committed.as_ref().unwrap() == Committed::Done)
        .map(|(_, commit)| commit.giving.as_ref().unwrap().grant.id)
        .collect();
    assert_eq!(done.len(), 1);
    assert_eq!(list(on, &on.in_session("s")).await, done);
    // The same write once more is done, and gives nothing more.
    let winner = commits
        .iter()
        .find(|commit| commit.giving.as_ref().unwrap().grant.id == done[0]);
    let again = on.store.commit(winner.unwrap()).await.unwrap();
    assert_eq!(again, Committed::Done);
    assert_eq!(list(on, &on.in_session("s")).await, done);
}

pub(super) async fn a_grant_answers_after_what_is_recorded_or_over_and_before_a_limit(
    on: &Fixture,
) {
    let before = on.open("s", "r", "before").await;
    let Giving { key, .. } = granted(on, &on.open("s", "r", "c").await).await;
    let asking = |run, call| Opening {
        limit: 0,
        ..asking(on, "s", run, call, key)
    };
    let again = Opening {
        id: before.id,
        ..asking("r", "before")
    };
    assert_eq!(on.met(&again).await, "created", "the same write once more");
    assert_eq!(on.met(&asking("r", "before")).await, "existing");
    assert_eq!(on.met(&asking("r", "new")).await, "granted");
    assert_eq!(
        on.met(&Opening {
            grant: None,
            ..asking("r", "new")
        })
        .await,
        "full"
    );
    let over = Commit {
        partition: before.id.partition().unwrap(),
        closing: Some(closing(&on.in_run(Some("s"), "r"), None)),
        ..commit(&[])
    };
    assert_eq!(on.store.commit(&over).await.unwrap(), Committed::Done);
    assert_eq!(on.met(&asking("r", "new")).await, "closed");
    assert_eq!(on.met(&asking("r2", "new")).await, "granted");
}

pub(super) async fn a_grant_ends_with_time(on: &Fixture) {
    let Giving { grant, key, .. } = granted(on, &on.open("s", "r", "c").await).await;
    on.advance_towards(grant.expire_time).await;
    assert_eq!(on.met(&asking(on, "s", "r", "d", key)).await, "granted");
    on.advance_past(grant.expire_time).await;
    assert_eq!(on.met(&asking(on, "s", "r", "d", key)).await, "created");
    assert_eq!(found(on, key).await, None);
    assert_eq!(list(on, &on.in_session("s")).await, []);
    // It can still be looked at, and ended, which changes nothing.
    assert_eq!(on.store.end_grant(grant.id).await.unwrap(), Some(grant));
}

pub(super) async fn a_revoked_grant_covers_nothing_and_ending_it_again_changes_nothing(
    on: &Fixture,
) {
    let Giving { grant, key, .. } = granted(on, &on.open("s", "r", "c").await).await;
    let before = on.now().await;
    let ended = on.store.end_grant(grant.id).await.unwrap().unwrap();
    assert!(ended.expire_time >= before && ended.expire_time <= on.now().await);
    let expected = Grant {
        expire_time: ended.expire_time,
        ..grant.clone()
    };
    assert_eq!(ended, expected);
    assert_eq!(on.met(&asking(on, "s", "r", "d", key)).await, "created");
    assert_eq!(found(on, key).await, None);
    for group in [on.in_session("s"), on.in_tenant()] {
        assert_eq!(list(on, &group).await, []);
    }
    on.clock.advance(Duration::from_secs(1));
    assert_eq!(on.store.end_grant(grant.id).await.unwrap(), Some(expected));
}

pub(super) async fn of_grants_with_one_key_the_last_one_holds(on: &Fixture) {
    let first = on.open("s", "r", "c").await;
    let second = on.open("s", "r", "d").await;
    let first = granted(on, &first).await;
    let second = granted(on, &second).await;
    assert_eq!(first.key, second.key);
    assert_eq!(found(on, first.key).await.as_ref(), Some(&second.grant));
    assert_eq!(list(on, &on.in_tenant()).await, [second.grant.id]);
    // Whoever revokes what they were shown ends that, and nothing is left of the one before.
    on.store.end_grant(first.grant.id).await.unwrap();
    assert_eq!(found(on, first.key).await.as_ref(), Some(&second.grant));
    on.store.end_grant(second.grant.id).await.unwrap();
    assert_eq!(found(on, first.key).await, None);
}

pub(super) async fn an_ended_session_ends_its_grants_and_an_ended_run_does_not(on: &Fixture) {
    let Giving { grant, key, .. } = granted(on, &on.open("s", "r", "c").await).await;
    let other = granted(on, &on.open("t", "r", "c").await).await;
    let partition = grant.id.partition().unwrap();
    let end = async |group: Group| {
        let over = Commit {
            partition,
            closing: Some(closing(&group, None)),
            ..commit(&[])
        };
        assert_eq!(on.store.commit(&over).await.unwrap(), Committed::Done);
    };
    end(on.in_run(Some("s"), "r")).await;
    assert_eq!(found(on, key).await.as_ref(), Some(&grant));
    end(on.in_session("s")).await;
    assert_eq!(found(on, key).await, None);
    let ended = on.store.read_grant(grant.id).await.unwrap().unwrap();
    assert!(ended.expire_time <= on.now().await);
    assert_eq!(list(on, &on.in_session("s")).await, []);
    assert_eq!(list(on, &on.in_tenant()).await, [other.grant.id]);
}

pub(super) async fn a_list_of_grants_has_those_that_live_in_order_of_their_end(on: &Fixture) {
    let stranger = on.beside();
    granted(&stranger, &stranger.open("s", "r", "c").await).await;
    let mut expected = Vec::new();
    for session in 0..9 {
        let session = format!("s{}", session % 3);
        for tool in ["a", "b"] {
            let mut opening = on.opening(&session, "r", "");
            "".clone_into(&mut opening.body.title);
            let suspension = on.opened(&opening).await;
            let mut giving = giving(on, &suspension).await;
            giving.grant.leave.tool = id(&format!("{tool}{}", expected.len()));
            giving.key = key(&giving.grant.leave);
            // Out of order, and some at the same moment.
            let later = Duration::from_secs(60 * (expected.len() as u64 * 7 % 5));
            giving.grant.expire_time = giving.grant.expire_time.after(later);
            let state = approved(&suspension, None, on.now().await);
            let commit = approval(&suspension, &state, &giving);
            assert_eq!(on.store.commit(&commit).await.unwrap(), Committed::Done);
            expected.push(giving.grant);
        }
    }
    let position = |grant: &Grant| Cursor {
        expire_time: grant.expire_time,
        id: grant.id,
    };
    expected.sort_by_key(position);
    let of = |expected: &[Grant]| expected.iter().map(|grant| grant.id).collect::<Vec<_>>();
    assert_eq!(list(on, &on.in_tenant()).await, of(&expected));
    let in_session: Vec<Grant> = expected
        .iter()
        .filter(|grant| grant.leave.scope.session_id == id("s1"))
        .cloned()
        .collect();
    assert_eq!(in_session.len(), 6);
    assert_eq!(list(on, &on.in_session("s1")).await, of(&in_session));

    on.store.end_grant(expected[3].id).await.unwrap();
    let gone = expected.remove(3);
    assert_eq!(list(on, &on.in_tenant()).await, of(&expected));
    let after = GrantQuery {
        group: on.in_tenant(),
        after: Some(position(&gone)),
        limit: 100,
    };
    let rest = on.store.list_grants(&after).await.unwrap();
    assert_eq!((of(&rest.grants), rest.next), (of(&expected[3..]), None));
    on.advance_past(expected[8].expire_time).await;
    let left: Vec<Grant> = expected
        .iter()
        .filter(|grant| grant.expire_time > expected[8].expire_time)
        .cloned()
        .collect();
    assert_eq!(list(on, &on.in_tenant()).await, of(&left));
}

pub(super) async fn grants_that_race_with_a_revocation_are_over_after_it(on: &Fixture) {
    for round in 0..5 {
        let run = format!("r{round}");
        let Giving { grant, key, .. } = granted(on, &on.open("s", &run, "c").await).await;
        let openings: Vec<_> = (0..100)
            .map(|call| asking(on, "s", &run, &format!("d{call}"), key))
            .collect();
        let (early, late) = openings.split_at(50);
        let racing = join_all(early.iter().map(|opening| on.met(opening)));
        let (met, ended) = join!(racing, on.store.end_grant(grant.id));
        ended.unwrap().unwrap();
        let met: BTreeSet<_> = met.into_iter().collect();
        assert!(met.is_subset(&["created", "granted"].into()), "{met:?}");
        let after = join_all(late.iter().map(|opening| on.met(opening))).await;
        assert_eq!(after, ["created"; 50], "nothing is let through after it");
    }
}

pub(super) async fn a_grant_goes_after_its_retention(on: &Fixture) {
    let Giving { grant, .. } = granted(on, &on.open("s", "r", "c").await).await;
    on.advance_towards(grant.expire_time.after(RETENTION)).await;
    on.sweep().await;
    assert!(on.store.read_grant(grant.id).await.unwrap().is_some());
    // On Redis its key goes on its own, a day later at the latest.
    on.advance_past(grant.expire_time.after(RETENTION)).await;
    on.sweep().await;
    assert_eq!(list(on, &on.in_tenant()).await, []);
}
