//! What a feed is told, keeps and lets go.

use uuid::Uuid;

use super::*;
use crate::domain::{ApproverRule, Id, OnExpiry, RunStart, Scope, Timestamp};
use crate::suspension::{Body, State, Subject};

/// An open suspension of a session.
fn pending(session: &str) -> Suspension {
    let scope = Scope {
        session_id: Id::required(session).unwrap(),
        ..Scope::default()
    };
    Suspension {
        id: SuspensionId::new(Uuid::new_v4(), Place::of(&scope, 0).partition),
        body: Body {
            scope,
            subject: Subject::Run(RunStart {
                version: Id::default(),
            }),
            risk_class: None,
            title: String::new(),
            reason: String::new(),
            arguments_digest: None,
            on_expiry: OnExpiry::Abandon,
            approvers: ApproverRule::default(),
            matched_rule: String::new(),
            policy_revision: String::new(),
        },
        create_time: Timestamp::from_millis(0),
        expire_time: Timestamp::from_millis(1),
        state: State::pending(),
        version: 1,
    }
}

fn told(feed: &Feed) -> Option<News> {
    feed.told.take()
}

fn changed(feed: &Feed) -> Option<(SuspensionId, u64)> {
    match told(feed)? {
        News::Changed(suspension) => Some((suspension.id, suspension.version)),
        News::ToBeRead(_) | News::Missed | News::Closed => None,
    }
}

#[test]
fn a_feed_is_told_of_its_topics_and_forgotten_when_it_is_dropped() {
    let feeds = Feeds::default();
    let (own, other) = (pending("s1"), pending("s2"));
    let session = |suspension: &Suspension| {
        let scope = &suspension.body.scope;
        Topic::of(&Group::Session {
            tenant: scope.tenant.clone(),
            session: scope.session_id.clone(),
        })
    };
    let by_session = feeds.open(vec![session(&own)]);
    let by_id = feeds.open(vec![Topic::Suspension(own.id)]);
    assert!(feeds.may_hold(own.id));
    feeds.tell(other.clone());
    feeds.tell(own.clone());
    assert_eq!(changed(&by_session), Some((own.id, 1)));
    assert_eq!(changed(&by_id), Some((own.id, 1)));
    assert!(told(&by_session).is_none() && told(&by_id).is_none());
    drop((by_session, by_id));
    assert!(!feeds.may_hold(own.id));
}

#[test]
fn the_latest_state_of_a_record_takes_the_place_of_the_one_before() {
    let feeds = Feeds::default();
    let mut held = pending("s");
    let feed = feeds.open(vec![Topic::Suspension(held.id)]);
    for version in [1, 3, 2] {
        held.version = version;
        feeds.tell(held.clone());
    }
    assert_eq!(changed(&feed), Some((held.id, 3)));
    assert!(told(&feed).is_none());
}

#[test]
fn of_what_is_not_taken_a_few_states_are_kept_and_of_the_rest_the_ids() {
    let feeds = Feeds::default();
    let all: Vec<_> = (0..MAX_STATES + 2).map(|_| pending("s")).collect();
    let topics = all.iter().map(|held| Topic::Suspension(held.id));
    let feed = feeds.open(topics.collect());
    for held in &all {
        feeds.tell(held.clone());
    }
    for held in &all[..MAX_STATES] {
        assert_eq!(changed(&feed), Some((held.id, 1)));
    }
    for held in &all[MAX_STATES..] {
        assert!(matches!(told(&feed), Some(News::ToBeRead(id)) if id == held.id));
    }
    assert!(told(&feed).is_none());

    let large = |number: usize| {
        let mut large = all[number].clone();
        large.body.reason = "x".repeat(MAX_STATES_BYTES);
        large
    };
    // One is always kept, however large.
    feeds.tell(large(0));
    feeds.tell(large(1));
    assert_eq!(changed(&feed), Some((all[0].id, 1)));
    assert!(matches!(told(&feed), Some(News::ToBeRead(id)) if id == all[1].id));
    feeds.tell(large(1));
    assert_eq!(changed(&feed), Some((all[1].id, 1)));
}

#[test]
fn what_is_not_taken_for_too_long_is_missed_and_what_comes_then_is_told() {
    let feeds = Feeds::default();
    let scope = pending("s").body.scope;
    let feed = feeds.open(vec![Topic::of(&Group::Tenant {
        tenant: scope.tenant,
    })]);
    for _ in 0..MAX_WAITING {
        feeds.tell(pending("s"));
    }
    assert!(matches!(told(&feed), Some(News::Changed(_))));
    feeds.tell(pending("s"));
    feeds.tell(pending("s"));
    assert!(matches!(told(&feed), Some(News::Missed)));
    assert!(told(&feed).is_none());
    let next = pending("s");
    feeds.tell(next.clone());
    assert_eq!(changed(&feed), Some((next.id, 1)));
}

#[test]
fn a_feed_that_is_closed_says_so_first_and_so_does_a_new_one() {
    let feeds = Feeds::default();
    let held = pending("s");
    let feed = feeds.open(vec![Topic::Suspension(held.id)]);
    feeds.tell(held.clone());
    feeds.close();
    assert!(matches!(told(&feed), Some(News::Closed)));
    let late = feeds.open(vec![Topic::Suspension(held.id)]);
    assert!(matches!(told(&late), Some(News::Closed)));
}
