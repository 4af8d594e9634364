//! What the bodies share: a store, its clock, a tenant of one's own, and short words for long types.

use std::sync::Arc;
use std::time::Duration;

use assent::arguments::Arguments;
use assent::domain::{
    Annotations, ApproverRule, Id, OnExpiry, Origin, Principal, RiskClass, Scope, Timestamp,
    ToolCall,
};
use assent::store::clock::ClockOffset;
use assent::store::{
    CallKey, Change, Closing, Commit, Committed, Group, Member, Opened, Opening, Place, Query,
    SuspensionStore,
};
use assent::suspension::{
    Answer, Approval, Body, Claim, Claimed, GrantScope, Kind, Reply, Resumed, State, Subject,
    Suspension, SuspensionId,
};
use serde_json::{Value, json};
use uuid::Uuid;

/// How long an opening waits, unless a test says otherwise.
pub(super) const EXPIRES: Duration = Duration::from_secs(60 * 60);
/// How long records and ends are kept.
pub(super) const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a claim holds.
pub(super) const LEASE: Duration = Duration::from_secs(5 * 60);
/// More than the two clocks of a test and its store differ, and less than any deadline here.
pub(super) const MOMENT: Duration = Duration::from_secs(60);

pub(super) struct Fixture {
    pub(super) store: Arc<dyn SuspensionStore>,
    pub(super) clock: ClockOffset,
    pub(super) tenant: Id,
}

pub(super) fn id(text: &str) -> Id {
    Id::parse(text).unwrap()
}

impl Fixture {
    pub(super) fn new(store: Arc<dyn SuspensionStore>, clock: ClockOffset) -> Self {
        Self {
            store,
            clock,
            tenant: id(&format!("tenant {}", Uuid::new_v4())),
        }
    }

    /// Another tenant of the same store.
    pub(super) fn beside(&self) -> Self {
        Self::new(Arc::clone(&self.store), self.clock.clone())
    }

    pub(super) fn scope(&self, session: &str, run: &str) -> Scope {
        Scope {
            tenant: self.tenant.clone(),
            session_id: id(session),
            run_id: id(run),
            ..Scope::default()
        }
    }

    /// An opening for a call; without a call id it has no key.
    pub(super) fn opening(&self, session: &str, run: &str, call: &str) -> Opening {
        let scope = self.scope(session, run);
        let random = Uuid::new_v4();
        let place = Place::of(&scope, random.as_bytes()[0]);
        Opening {
            id: SuspensionId::new(random, place.partition),
            key: CallKey::of_call(&scope, Kind::Approval, &id(call), &Id::default()),
            grant: None,
            place,
            body: body(scope, call, r#"{"amount": 1}"#),
            expires: EXPIRES,
            retention: RETENTION,
            limit: 1_000,
        }
    }

    /// Opens what must be new.
    pub(super) async fn opened(&self, opening: &Opening) -> Suspension {
        match self.store.open(opening).await.unwrap() {
            Opened::Created(suspension) => suspension,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn open(&self, session: &str, run: &str, call: &str) -> Suspension {
        self.opened(&self.opening(session, run, call)).await
    }

    /// What an opening meets, in one word.
    pub(super) async fn met(&self, opening: &Opening) -> &'static str {
        match self.store.open(opening).await.unwrap() {
            Opened::Created(_) => "created",
            Opened::Existing(..) => "existing",
            Opened::Closed => "closed",
            Opened::Granted(_) => "granted",
            Opened::Full => "full",
        }
    }

    pub(super) async fn read(&self, id: SuspensionId) -> Option<Suspension> {
        self.store.read(id).await.unwrap().0
    }

    pub(super) async fn now(&self) -> Timestamp {
        let unknown = SuspensionId::new(Uuid::new_v4(), 0);
        self.store.read(unknown).await.unwrap().1
    }

    /// Moves time to just after a moment.
    pub(super) async fn advance_past(&self, time: Timestamp) {
        let now = self.now().await.millis();
        let ahead = u64::try_from(time.millis() - now).unwrap_or(0);
        self.clock.advance(Duration::from_millis(ahead));
    }

    /// Moves time to a moment well before another.
    pub(super) async fn advance_towards(&self, time: Timestamp) {
        let before = i64::try_from(MOMENT.as_millis()).unwrap();
        self.advance_past(Timestamp::from_millis(time.millis() - before))
            .await;
    }

    pub(super) async fn write(&self, suspension: &Suspension, state: &State) -> Committed {
        self.store
            .commit(&commit(&[(suspension, state)]))
            .await
            .unwrap()
    }

    /// Writes a state that must be written, and gives the record as it is then.
    pub(super) async fn changed(&self, suspension: &Suspension, state: State) -> Suspension {
        assert_eq!(self.write(suspension, &state).await, Committed::Done);
        Suspension {
            version: suspension.version + 1,
            state,
            ..suspension.clone()
        }
    }

    pub(super) async fn cancel(&self, suspension: &Suspension) -> Suspension {
        let state = cancelled(suspension, self.now().await);
        self.changed(suspension, state).await
    }

    pub(super) async fn approve(&self, suspension: &Suspension) -> Suspension {
        let state = approved(suspension, None, self.now().await);
        self.changed(suspension, state).await
    }

    pub(super) async fn claim(&self, suspension: &Suspension) -> Suspension {
        let now = self.now().await;
        let claim = Claim {
            attempt_id: id("attempt"),
            arguments_digest: None,
            force: false,
            by: id("worker"),
        };
        match suspension.claim(&claim, now, RETENTION, LEASE).unwrap() {
            Claimed::Taken { state, .. } => self.changed(suspension, *state).await,
            Claimed::Receipt => panic!("it was claimed before"),
        }
    }

    /// Settles what time has changed, as the sweeper does.
    pub(super) async fn settle(&self, suspension: &Suspension) -> Suspension {
        let state = suspension.settled(self.now().await).unwrap();
        self.changed(suspension, state).await
    }

    pub(super) fn in_tenant(&self) -> Group {
        Group::Tenant {
            tenant: self.tenant.clone(),
        }
    }

    pub(super) fn in_session(&self, session: &str) -> Group {
        Group::Session {
            tenant: self.tenant.clone(),
            session: id(session),
        }
    }

    pub(super) fn in_run(&self, session: Option<&str>, run: &str) -> Group {
        Group::Run {
            tenant: self.tenant.clone(),
            session: session.map(id),
            run: id(run),
        }
    }

    /// The whole list of a group, in pages of two.
    pub(super) async fn list(&self, group: &Group, open_only: bool) -> Vec<Value> {
        let mut query = Query {
            group: group.clone(),
            open_only,
            after: None,
            limit: 2,
        };
        let mut all = Vec::new();
        loop {
            let slice = self.store.list(&query).await.unwrap();
            all.extend(slice.suspensions.iter().map(facts));
            query.after = slice.next;
            if query.after.is_none() {
                return all;
            }
        }
    }

    /// Ends a group in one partition, with these changes, after so many open ones were read.
    pub(super) async fn end(
        &self,
        group: &Group,
        partition: u8,
        changes: &[(&Suspension, &State)],
        open: u64,
    ) -> Committed {
        let commit = Commit {
            partition,
            closing: Some(closing(group, Some(open))),
            ..commit(changes)
        };
        self.store.commit(&commit).await.unwrap()
    }

    /// Ends a group in one partition as the engine does: reads, cancels, and reads again when stale.
    pub(super) async fn end_all(&self, group: &Group, partition: u8) {
        for _ in 0..100 {
            let members = self.store.members(partition, group).await.unwrap();
            let changes = members.members.iter().map(|member| {
                let state = member.state.cancelled(&id("somebody"), "over", members.now);
                member_change(member, state.unwrap())
            });
            let commit = Commit {
                partition,
                operation: Uuid::new_v4(),
                changes: changes.collect(),
                not_after: None,
                unless_closed: Vec::new(),
                giving: None,
                closing: Some(closing(group, Some(members.open))),
            };
            if self.store.commit(&commit).await.unwrap() == Committed::Done {
                return;
            }
        }
        panic!("it is stale each time");
    }

    /// Sweeps as often as there is more, and gives what was due. Nothing is settled.
    pub(super) async fn sweep(&self) -> Vec<Member> {
        for _ in 0..100 {
            let due = self.store.due(100).await.unwrap();
            if !due.more {
                return due.members;
            }
        }
        panic!("there is always more");
    }
}

/// A body with something in every field.
pub(super) fn body(scope: Scope, call: &str, arguments: &str) -> Body {
    let arguments = Arguments::parse(arguments, 256 * 1024).unwrap();
    let tool = "client.open_case";
    Body {
        scope: Scope {
            principal: Principal {
                id: id("zoë"),
                roles: vec!["clerk".to_owned()],
                attributes: [("team".to_owned(), "north \u{1f9ed}".to_owned())].into(),
            },
            parent_run_id: id("parent"),
            agent_path: vec!["root".to_owned(), "sub agent".to_owned()],
            ..scope
        },
        risk_class: Some(RiskClass::Destructive),
        title: "Open a case".to_owned(),
        reason: "a \"quoted\"\nreason \u{0} with \u{2028} in it".to_owned(),
        arguments_digest: Some(arguments.digest(tool)),
        subject: Subject::Call(Box::new(ToolCall {
            call_id: id(call),
            step_id: id("step"),
            tool: id(tool),
            server: id("github"),
            origin: Some(Origin::Mcp),
            annotations: Some(Annotations {
                read_only_hint: Some(false),
                destructive_hint: None,
                idempotent_hint: Some(true),
                open_world_hint: None,
                title: "A title".to_owned(),
                labels: vec!["write".to_owned()],
            }),
            arguments,
            in_program: true,
            parent_call_id: id("wrapper"),
            wrapped: None,
        })),
        on_expiry: OnExpiry::Deny,
        approvers: ApproverRule {
            roles: vec!["lead".to_owned()],
            quorum: 1,
            exclude_requester: true,
        },
        matched_rule: "cases".to_owned(),
        policy_revision: "6ab1".to_owned(),
    }
}

/// All that is known of a suspension, for comparing whole values.
pub(super) fn facts(suspension: &Suspension) -> Value {
    let Suspension {
        id,
        body,
        create_time,
        expire_time,
        state,
        version,
    } = suspension;
    json!({
        "id": id,
        "body": body,
        "create_time": create_time,
        "expire_time": expire_time,
        "state": state,
        "version": version,
    })
}

pub(super) fn cancelled(suspension: &Suspension, now: Timestamp) -> State {
    suspension
        .cancelled(&id("somebody"), "no longer needed", now)
        .unwrap()
}

pub(super) fn approved(
    suspension: &Suspension,
    edited_arguments: Option<Arguments>,
    now: Timestamp,
) -> State {
    let reply = Reply {
        by: id("lea"),
        by_roles: vec!["lead".to_owned()],
        arguments_digest: None,
        answer: Some(Answer::Approval(Approval {
            approved: true,
            reason: "fine".to_owned(),
            edited_arguments,
            grant_scope: GrantScope::Once,
        })),
        flaw: None,
    };
    match suspension.resume(&reply, now).unwrap() {
        Resumed::Settled(state) => state,
        other => panic!("{other:?}"),
    }
}

/// The end of a group that has so many open records.
pub(super) fn closing(group: &Group, open: Option<u64>) -> Closing {
    Closing {
        group: group.clone(),
        open,
        retention: RETENTION,
    }
}

/// The next state of a record whose body was not read.
pub(super) fn member_change(member: &Member, state: State) -> Change {
    Change {
        id: member.id,
        version: member.version,
        upkeep: state.upkeep(member.expire_time, RETENTION),
        state,
    }
}

/// All that a record says without its body, for comparing whole values.
pub(super) fn light_facts(member: &Member) -> Value {
    let Member {
        id,
        expire_time,
        on_expiry,
        run,
        state,
        version,
    } = member;
    json!({
        "id": id,
        "expire_time": expire_time,
        "on_expiry": on_expiry,
        "run": run.map(|run| run.to_string()),
        "state": state,
        "version": version,
    })
}

/// What [`light_facts`] are of the record without its body.
pub(super) fn light_facts_of(suspension: &Suspension) -> Value {
    light_facts(&Member {
        id: suspension.id,
        expire_time: suspension.expire_time,
        on_expiry: suspension.body.on_expiry,
        run: Place::of(&suspension.body.scope, 0).own_run,
        state: suspension.state.clone(),
        version: suspension.version,
    })
}

/// A commit of changes that are all in one partition.
pub(super) fn commit(changes: &[(&Suspension, &State)]) -> Commit {
    let partition = changes
        .first()
        .and_then(|(suspension, _)| suspension.id.partition());
    Commit {
        partition: partition.unwrap_or(0),
        operation: Uuid::new_v4(),
        changes: changes
            .iter()
            .map(|(suspension, state)| Change {
                id: suspension.id,
                version: suspension.version,
                state: (*state).clone(),
                upkeep: state.upkeep(suspension.expire_time, RETENTION),
            })
            .collect(),
        not_after: None,
        unless_closed: Vec::new(),
        giving: None,
        closing: None,
    }
}
