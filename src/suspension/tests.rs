//! The state machine, transition by transition: the checks in their order and what each one leaves.

use uuid::Uuid;

use super::*;
use crate::domain::{
    ApproverRule, OnExpiry, Origin, RiskClass, RunStart, Scope, ToolCall, Wrapped,
};
use crate::outcome::{Kind as OutcomeKind, Outcome};

const HOUR: Duration = Duration::from_secs(3600);
const LEASE: Duration = Duration::from_secs(300);
const DEADLINE: i64 = 10_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn id(text: &str) -> Id {
    Id::required(text).unwrap()
}

fn pending_with(approvers: ApproverRule, on_expiry: OnExpiry) -> Suspension {
    let arguments = Arguments::parse(r#"{"cents":420000}"#, 1000).unwrap();
    let digest = arguments.digest("client.issue_refund");
    let mut scope = Scope::default();
    scope.principal.id = id("agent-2");
    Suspension {
        id: SuspensionId::new(Uuid::nil(), 7),
        body: Body {
            scope,
            subject: Subject::Call(Box::new(ToolCall {
                call_id: id("c1"),
                step_id: Id::default(),
                tool: id("client.issue_refund"),
                server: Id::default(),
                origin: Some(Origin::Code),
                annotations: None,
                arguments,
                in_program: false,
                parent_call_id: Id::default(),
                wrapped: None,
            })),
            risk_class: Some(RiskClass::Destructive),
            title: "Refund".to_owned(),
            reason: "refunds need a manager".to_owned(),
            arguments_digest: Some(digest),
            on_expiry,
            approvers,
            matched_rule: "big-refund".to_owned(),
            policy_revision: "r1".to_owned(),
        },
        create_time: at(0),
        expire_time: at(DEADLINE),
        state: State::pending(),
        version: 1,
    }
}

fn pending() -> Suspension {
    pending_with(ApproverRule::default(), OnExpiry::Abandon)
}

fn yes() -> Option<Answer> {
    Some(Answer::Approval(Approval {
        approved: true,
        reason: String::new(),
        edited_arguments: None,
        grant_scope: GrantScope::Once,
    }))
}

fn no(reason: &str) -> Option<Answer> {
    Some(Answer::Approval(Approval {
        approved: false,
        reason: reason.to_owned(),
        edited_arguments: None,
        grant_scope: GrantScope::Once,
    }))
}

fn edited(json: &str) -> Option<Answer> {
    Some(Answer::Approval(Approval {
        approved: true,
        reason: String::new(),
        edited_arguments: Some(Arguments::parse(json, 1000).unwrap()),
        grant_scope: GrantScope::Once,
    }))
}

fn reply(by: &str, answer: Option<Answer>) -> Reply {
    Reply {
        by: id(by),
        by_roles: Vec::new(),
        arguments_digest: None,
        answer,
        flaw: None,
    }
}

fn with_roles(roles: &[&str], reply: Reply) -> Reply {
    Reply {
        by_roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        ..reply
    }
}

fn settle(suspension: Suspension, reply: &Reply) -> Suspension {
    match suspension.resume(reply, at(100)) {
        Ok(Resumed::Settled(state) | Resumed::Vote(state)) => Suspension {
            state,
            version: suspension.version + 1,
            ..suspension
        },
        other => panic!("{other:?}"),
    }
}

fn approved() -> Suspension {
    settle(pending(), &reply("ann", yes()))
}

fn attempt(attempt_id: &str) -> Claim {
    Claim {
        attempt_id: id(attempt_id),
        arguments_digest: None,
        force: false,
        by: Id::default(),
    }
}

fn claim_at(suspension: &Suspension, claim: &Claim, now: i64) -> Result<Claimed, Refusal> {
    suspension.claim(claim, at(now), HOUR, LEASE)
}

fn claimed(attempt_id: &str, now: i64) -> Suspension {
    let suspension = approved();
    match claim_at(&suspension, &attempt(attempt_id), now) {
        Ok(Claimed::Taken { state, .. }) => Suspension {
            state: *state,
            ..suspension
        },
        other => panic!("{other:?}"),
    }
}

fn in_doubt() -> Suspension {
    let suspension = claimed("w1", 200);
    let state = suspension.settled(at(200).after(LEASE)).unwrap();
    Suspension {
        state,
        ..suspension
    }
}

#[test]
fn an_answer_at_the_deadline_is_late_and_just_before_it_is_not() {
    let suspension = pending();
    assert_eq!(suspension.settled(at(DEADLINE - 1)), None);
    let state = suspension.settled(at(DEADLINE)).unwrap();
    assert_eq!(state.status, Status::Expired);
    let expired = Suspension {
        state,
        ..suspension
    };
    for answer in [yes(), no(""), None] {
        assert_eq!(
            expired.resume(&reply("ann", answer), at(DEADLINE)),
            Err(Refusal::Expired)
        );
    }
    assert_eq!(expired.settled(at(i64::MAX)), None);
}

#[test]
fn what_an_expiry_tells_the_model_follows_on_expiry() {
    for (on_expiry, kind) in [
        (OnExpiry::Abandon, OutcomeKind::SuspensionExpired),
        (OnExpiry::Deny, OutcomeKind::Expired),
    ] {
        let suspension = pending_with(ApproverRule::default(), on_expiry);
        let state = suspension.settled(at(DEADLINE)).unwrap();
        let outcome = state.resolution.unwrap().outcome.unwrap();
        assert_eq!(outcome.kind, kind);
    }
}

#[test]
fn an_answer_says_who_and_when_and_a_denial_what_the_model_is_told() {
    let yes = settle(pending(), &reply("ann", yes()));
    let resolution = yes.state.resolution.unwrap();
    assert_eq!(yes.state.status, Status::Approved);
    assert_eq!(
        (resolution.by, resolution.resolve_time),
        (id("ann"), at(100))
    );
    assert_eq!(resolution.outcome, None);

    let no = settle(pending(), &reply("bob", no("not this quarter")));
    let resolution = no.state.resolution.unwrap();
    assert_eq!(no.state.status, Status::Denied);
    assert_eq!(
        resolution.outcome,
        Some(Outcome::denied("not this quarter"))
    );
}

#[test]
fn the_same_answer_by_the_same_person_is_a_retry_and_anything_else_is_too_late() {
    let denied = settle(pending(), &reply("ann", no("no")));
    let again = |reply: Reply| denied.resume(&reply, at(200));
    assert_eq!(again(reply("ann", no("no"))), Ok(Resumed::Duplicate));
    for other in [
        reply("bob", no("no")),
        reply("ann", no("never")),
        reply("ann", yes()),
        reply("ann", None),
    ] {
        assert_eq!(again(other), Err(Refusal::AlreadyResolved));
    }
    let edited_once = settle(pending(), &reply("ann", edited(r#"{"cents":1}"#)));
    assert_eq!(
        edited_once.resume(&reply("ann", edited(r#"{"cents":2}"#)), at(200)),
        Err(Refusal::AlreadyResolved)
    );
    assert_eq!(
        edited_once.resume(&reply("ann", yes()), at(200)),
        Err(Refusal::AlreadyResolved)
    );
}

#[test]
fn a_missing_decision_is_refused_before_the_digest_is_looked_at() {
    let mut nothing = reply("ann", None);
    nothing.arguments_digest = Some(Arguments::parse("", 2).unwrap().digest("other"));
    assert!(matches!(
        pending().resume(&nothing, at(1)),
        Err(Refusal::KindMismatch(_))
    ));
}

#[test]
fn the_digest_is_looked_at_before_who_answers() {
    let rule = ApproverRule {
        roles: vec!["manager".to_owned()],
        ..ApproverRule::default()
    };
    let suspension = pending_with(rule, OnExpiry::Deny);
    let mut stale_click = reply("ann", yes());
    stale_click.arguments_digest = Some(Arguments::parse("", 2).unwrap().digest("other"));
    assert_eq!(
        suspension.resume(&stale_click, at(1)),
        Err(Refusal::DigestMismatch)
    );
    stale_click.arguments_digest = suspension.body.arguments_digest;
    assert_eq!(
        suspension.resume(&stale_click, at(1)),
        Err(Refusal::NotEligible(vec!["manager".to_owned()]))
    );
    assert!(matches!(
        suspension.resume(&with_roles(&["x", "manager"], stale_click), at(1)),
        Ok(Resumed::Settled(_))
    ));
}

#[test]
fn a_flaw_in_the_answer_is_told_after_the_digest_and_before_who_answers() {
    let rule = ApproverRule {
        roles: vec!["manager".to_owned()],
        ..ApproverRule::default()
    };
    let flaw = Refusal::Invalid {
        field: "approval.edited_arguments_json",
        message: "expected `}` at offset 4".into(),
    };
    let mut broken = reply("ann", yes());
    broken.flaw = Some(flaw.clone());
    let suspension = pending_with(rule, OnExpiry::Deny);
    assert_eq!(suspension.resume(&broken, at(1)), Err(flaw));
    assert_eq!(
        approved().resume(&broken, at(1)),
        Err(Refusal::AlreadyResolved),
        "it is no repeat of the answer that was accepted"
    );
    broken.arguments_digest = Some(Arguments::parse("", 2).unwrap().digest("other"));
    assert_eq!(
        suspension.resume(&broken, at(1)),
        Err(Refusal::DigestMismatch)
    );
}

#[test]
fn whoever_made_the_call_may_not_answer_it_where_the_rule_says_so() {
    let rule = ApproverRule {
        exclude_requester: true,
        ..ApproverRule::default()
    };
    let mut suspension = pending_with(rule, OnExpiry::Deny);
    for answer in [yes(), no("")] {
        assert!(matches!(
            suspension.resume(&reply("agent-2", answer), at(1)),
            Err(Refusal::SelfApproval(_))
        ));
    }
    assert!(suspension.resume(&reply("ann", yes()), at(1)).is_ok());
    suspension.body.scope.principal.id = Id::default();
    assert!(matches!(
        suspension.resume(&reply("ann", yes()), at(1)),
        Err(Refusal::SelfApproval(_))
    ));
}

#[test]
fn a_quorum_takes_that_many_different_people_and_one_denial_ends_it() {
    let rule = ApproverRule {
        quorum: 2,
        ..ApproverRule::default()
    };
    let first = settle(
        pending_with(rule.clone(), OnExpiry::Deny),
        &reply("ann", yes()),
    );
    assert_eq!(first.state.status, Status::Pending);
    assert_eq!(
        first.resume(&reply("ann", yes()), at(2)),
        Ok(Resumed::Duplicate)
    );
    let second = settle(first.clone(), &reply("bob", yes()));
    assert_eq!(second.state.status, Status::Approved);
    for voter in ["ann", "bob"] {
        assert_eq!(
            second.resume(&reply(voter, yes()), at(3)),
            Ok(Resumed::Duplicate),
            "{voter}"
        );
    }
    assert_eq!(
        second.resume(&reply("ann", edited("{}")), at(3)),
        Err(Refusal::AlreadyResolved),
        "what was approved had no edits"
    );
    assert_eq!(
        second.resume(&reply("eve", yes()), at(3)),
        Err(Refusal::AlreadyResolved)
    );
    let denied = settle(first, &reply("ann", no("on second thoughts")));
    assert_eq!(denied.state.status, Status::Denied);
    assert_eq!(
        denied.resume(&reply("ann", yes()), at(3)),
        Err(Refusal::AlreadyResolved)
    );
    assert!(matches!(
        pending_with(rule, OnExpiry::Deny).resume(&reply("ann", edited("{}")), at(1)),
        Err(Refusal::Invalid { .. })
    ));
}

#[test]
fn an_approval_meets_only_rules_that_its_approvers_satisfy() {
    let suspension = settle(pending(), &with_roles(&["clerk"], reply("ann", yes())));
    let rule = |roles: &[&str], quorum, exclude_requester| ApproverRule {
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        quorum,
        exclude_requester,
    };
    assert!(suspension.meets(&rule(&[], 1, true)));
    assert!(suspension.meets(&rule(&["clerk", "manager"], 1, false)));
    assert!(!suspension.meets(&rule(&["manager"], 1, false)));
    assert!(!suspension.meets(&rule(&[], 2, false)));
    let by_requester = settle(pending(), &reply("agent-2", yes()));
    assert!(!by_requester.meets(&rule(&[], 1, true)));
    let mut nobody_known = suspension;
    nobody_known.body.scope.principal.id = Id::default();
    assert!(!nobody_known.meets(&rule(&[], 1, true)));
}

#[test]
fn one_attempt_gets_the_claim_and_its_repeats_the_receipt() {
    let suspension = claimed("w1", 200);
    assert_eq!(
        claim_at(&suspension, &attempt("w1"), 300),
        Ok(Claimed::Receipt)
    );
    for force in [false, true] {
        let other = Claim {
            force,
            ..attempt("w2")
        };
        assert_eq!(
            claim_at(&suspension, &other, 300),
            Err(Refusal::AlreadyClaimed(id("w1")))
        );
    }
}

#[test]
fn only_an_approval_can_be_claimed() {
    let denied = settle(pending(), &reply("ann", no("")));
    for suspension in [pending(), denied] {
        assert_eq!(
            claim_at(&suspension, &attempt("w1"), 200),
            Err(Refusal::NotApproved)
        );
    }
}

#[test]
fn an_approval_grows_stale_after_claim_within_but_not_at_it() {
    let suspension = approved();
    let last = at(100).after(HOUR).millis();
    let Ok(Claimed::Taken { not_after, .. }) = claim_at(&suspension, &attempt("w1"), last) else {
        panic!("it is not stale yet");
    };
    assert_eq!(not_after, Some(at(last + 1)));
    assert!(!suspension.is_stale(at(last), HOUR));
    assert!(suspension.is_stale(at(last + 1), HOUR));
    assert_eq!(
        claim_at(&suspension, &attempt("w1"), last + 1),
        Err(Refusal::Stale)
    );
}

#[test]
fn a_digest_that_differs_is_refused_even_from_who_holds_the_claim() {
    let other = Claim {
        arguments_digest: Some(Arguments::parse("", 2).unwrap().digest("other")),
        ..attempt("w1")
    };
    for suspension in [approved(), claimed("w1", 200)] {
        assert_eq!(
            claim_at(&suspension, &other, 300),
            Err(Refusal::DigestMismatch)
        );
    }
}

#[test]
fn a_lease_without_an_end_is_in_doubt_and_only_force_with_a_fresh_attempt_takes_over() {
    let suspension = in_doubt();
    assert_eq!(suspension.state.execution, Execution::InDoubt);
    for repeat in ["w1", "w2"] {
        assert_eq!(
            claim_at(&suspension, &attempt(repeat), 999_999),
            Err(Refusal::InDoubt(id("w1")))
        );
    }
    let force = |attempt_id| Claim {
        force: true,
        by: id("oncall"),
        ..attempt(attempt_id)
    };
    assert_eq!(
        claim_at(&suspension, &force("w1"), 999_999),
        Err(Refusal::InDoubt(id("w1")))
    );
    let Ok(Claimed::Taken { state, not_after }) = claim_at(&suspension, &force("w2"), i64::MAX / 2)
    else {
        panic!("force takes over, however old the approval is");
    };
    assert_eq!(not_after, None);
    assert_eq!(state.execution, Execution::Claimed);
    let last = state.claims.last().unwrap();
    assert!(last.forced);
    assert_eq!((&last.attempt_id, &last.by), (&id("w2"), &id("oncall")));
    assert_eq!(state.claims.len(), 2);
}

#[test]
fn a_claim_is_in_doubt_at_the_end_of_its_lease_and_not_before() {
    let suspension = claimed("w1", 200);
    let end = at(200).after(LEASE);
    assert_eq!(suspension.settled(at(end.millis() - 1)), None);
    assert_eq!(
        suspension.settled(end).unwrap().execution,
        Execution::InDoubt
    );
}

#[test]
fn the_holder_completes_also_from_in_doubt_and_nobody_else_does() {
    for suspension in [claimed("w1", 200), in_doubt()] {
        let complete =
            |attempt: &str, outcome| suspension.complete(&id(attempt), outcome, "done", at(300));
        assert_eq!(
            complete("w2", Completion::Success),
            Err(Refusal::NotClaimed)
        );
        let state = complete("w1", Completion::Failure).unwrap().unwrap();
        assert_eq!(state.execution, Execution::Completed);
        let completed = Suspension {
            state,
            ..suspension.clone()
        };
        let again = |outcome| completed.complete(&id("w1"), outcome, "", at(400));
        assert_eq!(again(Completion::Failure), Ok(None));
        assert_eq!(again(Completion::Success), Err(Refusal::NotClaimed));
        assert_eq!(
            claim_at(&completed, &attempt("w3"), 500),
            Err(Refusal::AlreadyClaimed(id("w1")))
        );
    }
    assert_eq!(
        approved().complete(&id("w1"), Completion::Success, "", at(1)),
        Err(Refusal::NotClaimed)
    );
}

#[test]
fn cancelling_withdraws_what_is_open_and_leaves_the_rest() {
    let by = id("user-1");
    let state = pending().cancelled(&by, "interrupted", at(5)).unwrap();
    assert_eq!(state.status, Status::Cancelled);
    let cancelled = Suspension { state, ..pending() };
    assert_eq!(
        cancelled.resume(&reply("ann", yes()), at(6)),
        Err(Refusal::Cancelled)
    );
    assert_eq!(cancelled.cancelled(&by, "again", at(7)), None);

    let state = approved().cancelled(&by, "interrupted", at(5)).unwrap();
    assert_eq!(
        (state.status, state.execution),
        (Status::Approved, Execution::Voided)
    );
    let voided = Suspension {
        state,
        ..approved()
    };
    assert_eq!(
        claim_at(&voided, &attempt("w1"), 200),
        Err(Refusal::Cancelled)
    );
    assert_eq!(voided.cancelled(&by, "again", at(7)), None);
    assert_eq!(claimed("w1", 200).cancelled(&by, "", at(300)), None);
}

#[test]
fn what_an_unresolved_wrapper_call_runs_is_not_edited_and_not_another_call() {
    let direct = pending();
    let wrapped = |tool: &str, resolved| {
        let mut suspension = pending();
        let Subject::Call(call) = &mut suspension.body.subject else {
            panic!("a call")
        };
        call.wrapped = Some(Box::new(Wrapped {
            tool: id(tool),
            server: Id::default(),
            resolved,
        }));
        suspension
    };
    let resolved = wrapped("call_tool", true);
    assert!(direct.body.asks_the_same(&resolved.body));
    assert!(wrapped("other", true).body.asks_the_same(&resolved.body));
    let doubtful = wrapped("call_tool", false);
    assert!(doubtful.body.asks_the_same(&doubtful.body));
    for other in [&direct, &resolved, &wrapped("other", false)] {
        assert!(!doubtful.body.asks_the_same(&other.body));
        assert!(!other.body.asks_the_same(&doubtful.body));
    }

    let edits = reply("ann", edited("{}"));
    assert!(resolved.resume(&edits, at(1)).is_ok());
    let Err(Refusal::Invalid { field, .. }) = doubtful.resume(&edits, at(1)) else {
        panic!("accepted")
    };
    assert_eq!(field, "approval.edited_arguments_json");
    assert!(doubtful.resume(&reply("ann", yes()), at(1)).is_ok());
}

#[test]
fn edited_arguments_are_what_would_run() {
    let suspension = settle(pending(), &reply("ann", edited(r#"{"cents":100}"#)));
    let arguments = suspension.approved_arguments().unwrap();
    assert_eq!(arguments.text(), r#"{"cents":100}"#);
    let unedited = approved();
    let arguments = unedited.approved_arguments().unwrap();
    assert_eq!(arguments.text(), r#"{"cents":420000}"#);
}

#[test]
fn what_is_claimed_or_in_doubt_is_kept_for_ever_and_the_rest_for_its_retention() {
    let retention = Duration::from_secs(60);
    let upkeep =
        |suspension: &Suspension| suspension.state.upkeep(suspension.expire_time, retention);
    let until = at(DEADLINE).after(retention);
    let kept = |open, wake, keep_until| Upkeep {
        open,
        wake,
        keep_until,
    };
    assert_eq!(
        upkeep(&pending()),
        kept(true, Some(at(DEADLINE)), Some(until))
    );
    assert_eq!(upkeep(&approved()), kept(true, Some(until), Some(until)));
    let lease_end = at(200).after(LEASE);
    assert_eq!(
        upkeep(&claimed("w1", 200)),
        kept(false, Some(lease_end), None)
    );
    assert_eq!(upkeep(&in_doubt()), kept(false, None, None));
    let late = at(DEADLINE + 77);
    let state = pending().settled(late).unwrap();
    let expired = Suspension { state, ..pending() };
    let until = late.after(retention);
    assert_eq!(upkeep(&expired), kept(false, Some(until), Some(until)));
}

#[test]
fn a_record_survives_its_spelling() {
    let mut suspension = claimed("w1", 200);
    suspension.state.votes.push(Vote {
        by: id("ann"),
        by_roles: vec!["manager".to_owned()],
        vote_time: at(3),
        reason: "fine".to_owned(),
    });
    let body = serde_json::to_string(&suspension.body).unwrap();
    let state = serde_json::to_string(&suspension.state).unwrap();
    let body: Body = serde_json::from_str(&body).unwrap();
    assert_eq!(
        serde_json::from_str::<State>(&state).unwrap(),
        suspension.state
    );
    assert_eq!(format!("{body:?}"), format!("{:?}", suspension.body));
}

fn for_session() -> Option<Answer> {
    Some(Answer::Approval(Approval {
        approved: true,
        reason: String::new(),
        edited_arguments: None,
        grant_scope: GrantScope::Session,
    }))
}

fn in_session(mut suspension: Suspension) -> Suspension {
    suspension.body.scope.session_id = id("s1");
    suspension.body.scope.run_id = id("r1");
    suspension
}

#[test]
fn only_one_persons_yes_to_a_call_of_a_session_can_hold_for_the_session() {
    let granting = reply("ann", for_session());
    let taken = in_session(pending()).resume(&granting, at(1));
    assert!(matches!(taken, Ok(Resumed::Settled(_))), "{taken:?}");
    let rule = ApproverRule {
        quorum: 2,
        ..ApproverRule::default()
    };
    let mut start = in_session(pending());
    start.body.subject = Subject::Run(RunStart { version: id("v1") });
    for suspension in [
        pending(),
        in_session(pending_with(rule, OnExpiry::Deny)),
        start,
    ] {
        let refused = suspension.resume(&granting, at(1));
        assert!(
            matches!(
                refused,
                Err(Refusal::Invalid {
                    field: "approval.grant_scope",
                    ..
                })
            ),
            "{refused:?}"
        );
    }
}

#[test]
fn the_same_yes_for_once_is_another_answer_than_one_for_the_session() {
    let granted = settle(in_session(pending()), &reply("ann", for_session()));
    let again = |answer| granted.resume(&reply("ann", answer), at(200));
    assert_eq!(again(for_session()), Ok(Resumed::Duplicate));
    assert_eq!(again(yes()), Err(Refusal::AlreadyResolved));
}

#[test]
fn a_leave_covers_no_stricter_class_and_only_approvers_that_who_gave_it_would_be() {
    let mut suspension = in_session(pending());
    suspension.body.risk_class = Some(RiskClass::Write);
    let giver = with_roles(&["clerk"], reply("ann", for_session()));
    let leave = Leave::given(&suspension, &giver).unwrap();
    assert_eq!(leave.scope.run_id, Id::default(), "it holds in any run");
    let anybody = ApproverRule::default();
    for (class, covered) in [
        (RiskClass::ReadOnly, true),
        (RiskClass::Write, true),
        (RiskClass::Destructive, false),
    ] {
        assert_eq!(leave.covers(class, &anybody), covered, "{class}");
    }
    let rule = |roles: &[&str], quorum, exclude_requester| ApproverRule {
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        quorum,
        exclude_requester,
    };
    for (rule, covered) in [
        (rule(&["clerk", "lead"], 1, false), true),
        (rule(&["lead"], 1, false), false),
        (rule(&[], 2, false), false),
        (rule(&[], 1, true), true),
    ] {
        assert_eq!(leave.covers(RiskClass::Write, &rule), covered, "{rule:?}");
    }
    let by_requester = Leave {
        by: id("agent-2"),
        ..leave.clone()
    };
    let mut of_nobody = leave;
    of_nobody.scope.principal.id = Id::default();
    for leave in [by_requester, of_nobody] {
        assert!(!leave.covers(RiskClass::Write, &rule(&[], 1, true)));
    }
    suspension.body.scope.session_id = Id::default();
    assert_eq!(Leave::given(&suspension, &giver), None);
}
