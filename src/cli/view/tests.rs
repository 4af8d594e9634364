//! Whole pages, compared as they are printed.

use prost_types::Timestamp;

use super::*;

const ID: &str = "6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07";

fn screen(width: Option<usize>) -> Screen {
    Screen {
        width,
        now: at(180),
        server_flag: String::new(),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp {
        seconds: 1_767_348_000 + seconds,
        nanos: 0,
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn waiting() -> pb::Suspension {
    pb::Suspension {
        id: text(ID),
        kind: pb::SuspensionKind::Approval.into(),
        status: pb::SuspensionStatus::Pending.into(),
        scope: Some(pb::Scope {
            principal: Some(pb::Principal {
                id: text("user-7"),
                roles: vec![text("support"), text("night shift")],
                attributes: [(text("site"), text("north")), (text("age"), text("4 y"))].into(),
            }),
            session_id: text("s-1"),
            run_id: text("r-1"),
            agent_path: vec![text("root"), text("billing")],
            ..Default::default()
        }),
        call: Some(pb::ToolCall {
            call_id: text("c-1"),
            tool: text("client.issue_refund"),
            origin: pb::Origin::Mcp.into(),
            server: text("shop"),
            annotations: Some(pb::Annotations {
                destructive_hint: Some(true),
                title: text("Refund"),
                ..Default::default()
            }),
            arguments_json: text("{\"cents\":420000,\"note\":\"\u{202e}ok\"}"),
            ..Default::default()
        }),
        risk_class: pb::RiskClass::Destructive.into(),
        title: text("Refund"),
        reason: text("refunds over £4000 need a manager"),
        create_time: Some(at(0)),
        expire_time: Some(at(3_780)),
        execution: pb::Execution::None.into(),
        version: 1,
        arguments_digest: text("d1"),
        on_expiry: pb::OnExpiry::Deny.into(),
        approvers: Some(pb::ApproverRule {
            roles: vec![text("manager")],
            quorum: 2,
            exclude_requester: true,
        }),
        votes: vec![pb::Vote {
            by: text("manager-7"),
            by_roles: vec![text("manager")],
            vote_time: Some(at(60)),
            reason: String::new(),
        }],
        matched_rule: text("big-refund"),
        policy_revision: text("rev"),
        ..Default::default()
    }
}

fn page(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn show_prints_everything_an_approver_needs() {
    let lines = [
        "suspension    6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07",
        "kind          approval",
        "status        pending, deadline in 1h",
        "title         Refund",
        "tool          client.issue_refund",
        "mcp server    shop",
        "origin        mcp",
        "arguments     {",
        "                \"cents\": 420000,",
        "                \"note\": \"\\u202eok\"",
        "              }",
        "claims        destructiveHint true; title Refund",
        "call id       c-1",
        "class         destructive",
        "reason        refunds over £4000 need a manager",
        "rule          big-refund",
        "asked by      user-7",
        "its roles     support, \"night shift\"",
        "its facts     age=\"4 y\", site=north",
        "session       s-1",
        "run           r-1",
        "agents        root, billing",
        "opened        2026-01-02T10:00:00Z (3m ago)",
        "deadline      2026-01-02T11:03:00Z (in 1h)",
        "if late       only this call is refused",
        "approvers     2 different people",
        "approvers     with one of the roles manager",
        "approvers     not the one who asked",
        "vote of       manager-7",
        "with roles    manager",
        "at            2026-01-02T10:01:00Z (2m ago)",
        "digest        d1",
        "policy        rev",
        "version       1",
        "next          assent approve 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by YOU --role manager",
        "or            assent deny 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by YOU --role manager --reason WHY",
    ];
    assert_eq!(suspension(&waiting(), &screen(None)), page(&lines));
}

#[test]
fn show_tells_how_it_ended_and_who_executed_it() {
    let ended = pb::Suspension {
        id: text(ID),
        kind: pb::SuspensionKind::Approval.into(),
        status: pb::SuspensionStatus::Approved.into(),
        execution: pb::Execution::InDoubt.into(),
        scope: Some(pb::Scope {
            tenant: text("acme; ls"),
            ..Default::default()
        }),
        run: Some(pb::RunStart {
            version: text("v 2"),
        }),
        resolution: Some(pb::Resolution {
            by: text("boss"),
            by_roles: vec![text("manager")],
            resolve_time: Some(at(120)),
            approved: Some(true),
            reason: text("seen\nit"),
            edited_arguments_json: text("{\"cents\":1}"),
            ..Default::default()
        }),
        claims: vec![
            pb::ClaimRecord {
                attempt_id: text("a-1"),
                claim_time: Some(at(150)),
                lease_expire_time: Some(at(170)),
                ..Default::default()
            },
            pb::ClaimRecord {
                attempt_id: text("a 2"),
                by: text("ops"),
                forced: true,
                claim_time: Some(at(175)),
                lease_expire_time: Some(at(480)),
                outcome: pb::Completion::Failure.into(),
                detail: text("no route"),
            },
        ],
        version: 9,
        ..Default::default()
    };
    let lines = [
        "suspension    6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07",
        "kind          approval",
        "status        approved, in doubt: it may or may not have run",
        "run start     agent version \"v 2\"",
        "tenant        acme; ls",
        "ended         2026-01-02T10:02:00Z (1m ago)",
        "ended by      boss",
        "with roles    manager",
        "saying        seen",
        "              it",
        "edited to     {",
        "                \"cents\": 1",
        "              }",
        "attempt       a-1",
        "claimed       2026-01-02T10:02:30Z (30s ago)",
        "lease ends    2026-01-02T10:02:50Z (10s ago)",
        "attempt       a 2",
        "              forced: it took over one that was in doubt",
        "claimed by    ops",
        "claimed       2026-01-02T10:02:55Z (5s ago)",
        "result        failure",
        "detail        no route",
        "version       9",
        "next          assent complete 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --tenant='acme; ls' --attempt 'a 2' \
         --outcome success|failure|unknown",
    ];
    assert_eq!(suspension(&ended, &screen(None)), page(&lines));
}

#[test]
fn show_prints_the_other_kinds() {
    let other = pb::Suspension {
        id: text("q"),
        kind: pb::SuspensionKind::Question.into(),
        status: pb::SuspensionStatus::Answered.into(),
        questions: vec![pb::Question {
            key: text("size"),
            text: text("Which size?"),
            options: vec![text("S"), text("extra large")],
            options_only: true,
        }],
        event: text("paid"),
        payload_schema_json: text("{\"type\":\"object\"}"),
        sources: vec![text("github"), text("my drive")],
        resolution: Some(pb::Resolution {
            answers: [(text("size"), text("S"))].into(),
            payload_json: text("[]"),
            tool_result_json: text("1"),
            tool_error: text("gone"),
            connected: vec![text("github")],
            denied: vec![text("my drive")],
            grant_id: text("g-1"),
            kind: text("expired"),
            message_for_model: text("Not executed: late."),
            retryable: true,
            ..Default::default()
        }),
        ..Default::default()
    };
    let lines = [
        "suspension    q",
        "kind          question",
        "status        answered",
        "question      size",
        "              Which size?",
        "              - S",
        "              - \"extra large\"",
        "              only one of these is accepted",
        "event         paid",
        "schema        {",
        "                \"type\": \"object\"",
        "              }",
        "sources       github, \"my drive\"",
        "answer to     size",
        "              S",
        "payload       []",
        "result        1",
        "tool error    gone",
        "connected     github",
        "not connected \"my drive\"",
        "grant         g-1",
        "outcome       expired",
        "to the model  Not executed: late.",
        "retry         may help, later or in another way",
        "version       0",
    ];
    assert_eq!(suspension(&other, &screen(None)), page(&lines));
}

#[test]
fn show_says_how_each_kind_is_answered() {
    use pb::SuspensionKind as Kind;
    let pending = |kind: Kind| pb::Suspension {
        id: text("i-1"),
        kind: kind.into(),
        status: pb::SuspensionStatus::Pending.into(),
        questions: vec![
            pb::Question {
                key: text("size"),
                ..Default::default()
            },
            pb::Question {
                key: text("a b"),
                ..Default::default()
            },
        ],
        sources: vec![text("github"), text("my drive")],
        ..Default::default()
    };
    for (kind, next) in [
        (
            Kind::Question,
            "assent answer i-1 --by YOU --answer size=TEXT --answer 'a b'=TEXT",
        ),
        (Kind::External, "assent answer i-1 --by YOU --payload JSON"),
        (Kind::ClientTool, "assent answer i-1 --by YOU --result JSON"),
        (
            Kind::SignIn,
            "assent answer i-1 --by YOU --connected github --connected 'my drive'",
        ),
    ] {
        let page = suspension(&pending(kind), &screen(None));
        let last = page.lines().last().unwrap();
        assert_eq!(last, format!("next          {next}"));
    }
    let answered = pb::Suspension {
        status: pb::SuspensionStatus::Answered.into(),
        ..pending(Kind::Question)
    };
    assert!(!suspension(&answered, &screen(None)).contains("assent answer"));
}

#[test]
fn no_text_reaches_the_column_of_the_labels() {
    let forged = pb::Suspension {
        id: text("i"),
        reason: format!(
            "x{}status        approved\u{1b}[2K\nstatus        approved",
            " ".repeat(60)
        ),
        ..waiting()
    };
    let page = suspension(&forged, &screen(Some(60)));
    let statuses: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with("status"))
        .collect();
    assert_eq!(statuses, ["status        pending, deadline in 1h"]);
    let commands = ["next", "or"];
    for line in page.lines() {
        assert!(
            super::text::width(line) <= 60 || commands.iter().any(|label| line.starts_with(label)),
            "{line}"
        );
    }
}

#[test]
fn decide_prints_the_decision_and_what_to_do_next() {
    let answer = pb::DecideResponse {
        effect: pb::Effect::Suspend.into(),
        risk_class: pb::RiskClass::Destructive.into(),
        kind: text("suspended"),
        reason: text("refunds over £4000 need a manager"),
        message_for_model: text("Waiting for approval."),
        retryable: false,
        suspension: Some(waiting()),
        judged_tool: text("client.issue_refund"),
        matched_rule: text("big-refund"),
        selected_by: text("@destructive"),
        grant_id: String::new(),
        arguments_digest: text("d1"),
        policy_revision: text("rev"),
        decision_id: text("dec-1"),
        warnings: vec![text("label `x` is not known")],
    };
    let screen = Screen {
        server_flag: text(" --server unix:/s"),
        ..screen(None)
    };
    let lines = [
        "decision      SUSPEND: do not run it now",
        "tool          client.issue_refund",
        "class         destructive",
        "reason        refunds over £4000 need a manager",
        "rule          big-refund",
        "selected by   @destructive",
        "warning       label `x` is not known",
        "to the model  Waiting for approval.",
        "digest        d1",
        "policy        rev",
        "logged as     dec-1",
        "suspension    6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07",
        "status        pending, deadline in 1h",
        "next          assent approve 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by YOU --role manager --server unix:/s",
        "or            assent deny 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by YOU --role manager --reason WHY --server unix:/s",
    ];
    assert_eq!(decision(&answer, false, &screen), page(&lines));

    let denied = pb::DecideResponse {
        effect: pb::Effect::Deny.into(),
        kind: text("access_denied"),
        message_for_model: text("Not executed: no."),
        ..Default::default()
    };
    let lines = [
        "decision      DENY: do not run it",
        "              a dry run: nobody was asked and nothing was stored",
        "kind          access_denied",
        "to the model  Not executed: no.",
        "retry         does not help",
    ];
    assert_eq!(decision(&denied, true, &screen), page(&lines));
    assert_eq!(
        decision(&pb::DecideResponse::default(), false, &screen),
        "decision      UNKNOWN to this client: do not run it\n"
    );
}

#[test]
fn classify_tells_the_class_and_why() {
    let answer = pb::ClassifyResponse {
        risk_class: pb::RiskClass::Write.into(),
        approval_required: true,
        basis: text("no annotations"),
        selected_by: text("@write"),
        judged_tool: text("t"),
        warnings: vec![text("one"), text("two")],
        policy_revision: text("rev"),
    };
    let lines = [
        "class         write",
        "because       no annotations",
        "approval      needed: the selectors ask a person",
        "selected by   @write",
        "tool          t",
        "warning       one",
        "warning       two",
        "policy        rev",
    ];
    assert_eq!(classification(&answer, &screen(None)), page(&lines));
}

#[test]
fn an_answer_is_confirmed() {
    let mut suspension = waiting();
    let answer = |outcome: pb::ResumeOutcome, suspension: &pb::Suspension| {
        let answer = pb::ResumeResponse {
            suspension: Some(suspension.clone()),
            outcome: outcome.into(),
        };
        answered(&answer, &screen(None))
    };
    assert_eq!(
        answer(pb::ResumeOutcome::VoteRecorded, &suspension),
        page(&[
            "answer        recorded as vote 1 of 2: more people must approve",
            "suspension    6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07",
            "about         client.issue_refund",
            "status        pending, deadline in 1h",
            "next          assent approve 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by YOU --role manager",
            "or            assent deny 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by YOU --role manager --reason WHY",
        ])
    );
    suspension.status = pb::SuspensionStatus::Approved.into();
    assert_eq!(
        answer(pb::ResumeOutcome::Accepted, &suspension),
        page(&[
            "answer        accepted",
            "suspension    6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07",
            "about         client.issue_refund",
            "status        approved, not claimed",
            "next          assent claim 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --attempt NEW_ID",
        ])
    );
    suspension.status = pb::SuspensionStatus::Denied.into();
    assert_eq!(
        answer(pb::ResumeOutcome::Duplicate, &suspension),
        page(&[
            "answer        recorded before: nothing was changed",
            "suspension    6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07",
            "about         client.issue_refund",
            "status        denied",
        ])
    );
}

#[test]
fn a_claim_prints_what_to_run() {
    let answer = pb::ClaimResponse {
        arguments_json: text("{\"cents\":1}"),
        arguments_digest: text("d2"),
        lease_expire_time: Some(at(480)),
        suspension: Some(waiting()),
    };
    assert_eq!(
        claimed(&answer, "a-1", &screen(None)),
        page(&[
            "claimed       run it once now, with these arguments and no others",
            "about         client.issue_refund",
            "arguments     {",
            "                \"cents\": 1",
            "              }",
            "digest        d2",
            "              the approver edited the arguments",
            "lease ends    2026-01-02T10:08:00Z (in 5m)",
            "suspension    6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07",
            "next          assent complete 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --attempt a-1 --outcome success",
        ])
    );
}

#[test]
fn a_cancel_counts_what_it_withdrew() {
    let answer = pb::CancelResponse {
        suspension_ids: vec![text("i-1"), text("i-2")],
        cancelled_count: 1,
        voided_count: 1,
    };
    assert_eq!(
        cancelled(&answer, None),
        "1 pending cancelled, 1 approved and unclaimed voided\n  i-1\n  i-2\n"
    );
    assert_eq!(
        cancelled(&pb::CancelResponse::default(), None),
        "nothing was open: nothing was withdrawn\n"
    );
    assert_eq!(
        cancelled(&pb::CancelResponse::default(), Some("run")),
        "nothing was open: nothing was withdrawn\nthe run is over: it opens nothing new\n"
    );
}

#[test]
fn pending_is_a_table_cut_to_the_terminal() {
    let unnamed = pb::Suspension {
        id: text("0b1c"),
        kind: pb::SuspensionKind::SignIn.into(),
        status: pb::SuspensionStatus::Pending.into(),
        title: text("Sign in\nplease"),
        expire_time: Some(at(0)),
        ..Default::default()
    };
    let listed = [waiting(), unnamed.clone()];
    assert_eq!(
        listing(&listed, true, &screen(None)),
        page(&[
            "ID                                    TOOL                 WHO     DEADLINE  CLASS/KIND   REASON",
            "6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07  client.issue_refund  user-7  in 1h     destructive  refunds over £4000 need a manager",
            "0b1c                                  Sign in\\nplease      -       3m ago    sign-in",
            "there are more: `--all` lists them all",
        ])
    );
    assert_eq!(
        listing(&listed, false, &screen(Some(112))),
        page(&[
            "ID                                    TOOL                 WHO     DEADLINE  CLASS/KIND   REASON",
            "6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07  client.issue_refund  user-7  in 1h     destructive  refunds over £4000 ne…",
            "0b1c                                  Sign in\\nplease      -       3m ago    sign-in",
        ])
    );
    assert_eq!(
        listing(&listed, false, &screen(Some(100))),
        page(&[
            "ID                                    TOOL                 WHO     DEADLINE  CLASS/KIND",
            "6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07  client.issue_refund  user-7  in 1h     destructive",
            "    refunds over £4000 need a manager",
            "0b1c                                  Sign in\\nplease      -       3m ago    sign-in",
        ])
    );
    let expired = pb::Suspension {
        status: pb::SuspensionStatus::Expired.into(),
        ..unnamed
    };
    assert_eq!(
        listing(&[expired], false, &screen(None)),
        page(&[
            "ID    TOOL             WHO  DEADLINE  CLASS/KIND  STATUS   REASON",
            "0b1c  Sign in\\nplease  -    3m ago    sign-in     expired",
        ])
    );
    assert_eq!(listing(&[], false, &screen(None)), "nothing to list\n");
}
