use super::*;
use crate::arguments::Json;
use crate::domain::{Annotations, Origin, RunStart, WrapperTarget};
use crate::engine::ListRequest;
use crate::suspension::{
    Answer, Approval, Execution, GrantScope, Kind, Refusal, SignIn, Status, ToolResult,
};

const ID: &str = "0192f0c1-0000-7000-8000-00000000000a";

fn limits() -> Limits {
    Limits {
        max_arguments_bytes: 64,
        max_payload_bytes: 32,
        ..Limits::default()
    }
}

fn call(change: impl FnOnce(&mut pb::ToolCall)) -> pb::DecideRequest {
    let mut call = pb::ToolCall {
        tool: "client.a".to_owned(),
        ..Default::default()
    };
    change(&mut call);
    pb::DecideRequest {
        action: Some(pb::decide_request::Action::Call(call)),
        ..Default::default()
    }
}

fn scoped(change: impl FnOnce(&mut pb::Scope)) -> pb::DecideRequest {
    let mut scope = pb::Scope::default();
    change(&mut scope);
    pb::DecideRequest {
        scope: Some(scope),
        ..call(|_| {})
    }
}

fn principal(change: impl FnOnce(&mut pb::Principal)) -> pb::DecideRequest {
    let mut principal = pb::Principal::default();
    change(&mut principal);
    scoped(|scope| scope.principal = Some(principal))
}

fn annotated(annotations: pb::Annotations) -> pb::DecideRequest {
    call(|call| call.annotations = Some(annotations))
}

fn targeted(change: impl FnOnce(&mut pb::ToolCall)) -> pb::DecideRequest {
    let mut target = pb::ToolCall {
        tool: "srv__b".to_owned(),
        ..Default::default()
    };
    change(&mut target);
    call(|call| call.target = Some(Box::new(target)))
}

fn expiring(seconds: i64, nanos: i32) -> pb::DecideRequest {
    pb::DecideRequest {
        expires_in: Some(prost_types::Duration { seconds, nanos }),
        ..call(|_| {})
    }
}

fn many(count: usize) -> Vec<String> {
    vec!["x".to_owned(); count]
}

fn bidi() -> String {
    "client.\u{202e}open".to_owned()
}

fn path<T>(result: Converted<T>) -> String {
    result.err().unwrap().path.into_owned()
}

#[test]
fn a_field_of_decide_that_is_refused_is_named_by_its_path() {
    let run = |version: String| pb::DecideRequest {
        action: Some(pb::decide_request::Action::Run(pb::RunStart { version })),
        ..Default::default()
    };
    let long = "x".repeat(257);
    let refused = [
        ("action", pb::DecideRequest::default()),
        ("run.version", run(long.clone())),
        ("expires_in", expiring(0, 0)),
        ("expires_in", expiring(-1, 0)),
        ("expires_in", expiring(1, -1)),
        ("scope.tenant", scoped(|s| s.tenant = bidi())),
        ("scope.session_id", scoped(|s| s.session_id = long.clone())),
        ("scope.run_id", scoped(|s| s.run_id = "a\nb".to_owned())),
        (
            "scope.parent_run_id",
            scoped(|s| s.parent_run_id = "\0".to_owned()),
        ),
        ("scope.agent_path", scoped(|s| s.agent_path = many(65))),
        (
            "scope.agent_path[1]",
            scoped(|s| s.agent_path = vec![String::new(), "x".repeat(1025)]),
        ),
        ("scope.principal.id", principal(|p| p.id = long.clone())),
        ("scope.principal.roles", principal(|p| p.roles = many(65))),
        (
            "scope.principal.roles[0]",
            principal(|p| p.roles = vec!["x".repeat(1025)]),
        ),
        (
            "scope.principal.attributes",
            principal(|p| p.attributes = (0..65).map(|n| (n.to_string(), String::new())).collect()),
        ),
        (
            "scope.principal.attributes",
            principal(|p| p.attributes = [("key".to_owned(), "x".repeat(1022))].into()),
        ),
        ("call.call_id", call(|c| c.call_id = long.clone())),
        ("call.step_id", call(|c| c.step_id = bidi())),
        ("call.tool", call(|c| c.tool = String::new())),
        ("call.tool", call(|c| c.tool = bidi())),
        ("call.server", call(|c| c.server = long.clone())),
        ("call.origin", call(|c| c.origin = 6)),
        ("call.origin", call(|c| c.origin = -1)),
        (
            "call.parent_call_id",
            call(|c| c.parent_call_id = long.clone()),
        ),
        ("call.target.tool", targeted(|t| t.tool = String::new())),
        ("call.target.tool", targeted(|t| t.tool = bidi())),
        ("call.target.server", targeted(|t| t.server = long.clone())),
        (
            "call.target.arguments_json",
            targeted(|t| t.arguments_json = "1".to_owned()),
        ),
        (
            "call.target.arguments_json",
            targeted(|t| t.arguments_json = format!(r#"{{"a":"{}"}}"#, "x".repeat(64))),
        ),
        (
            "call.target.annotations.title",
            targeted(|t| {
                t.annotations = Some(pb::Annotations {
                    title: "x".repeat(8193),
                    ..Default::default()
                });
            }),
        ),
        (
            "call.target.annotations.labels",
            targeted(|t| {
                t.annotations = Some(pb::Annotations {
                    labels: many(65),
                    ..Default::default()
                });
            }),
        ),
        (
            "call.arguments_json",
            call(|c| c.arguments_json = "[1]".to_owned()),
        ),
        (
            "call.arguments_json",
            call(|c| c.arguments_json = format!(r#"{{"a":"{}"}}"#, "x".repeat(64))),
        ),
        (
            "call.annotations.title",
            annotated(pb::Annotations {
                title: "x".repeat(8193),
                ..Default::default()
            }),
        ),
        (
            "call.annotations.labels",
            annotated(pb::Annotations {
                labels: many(65),
                ..Default::default()
            }),
        ),
        (
            "call.annotations.labels[0]",
            annotated(pb::Annotations {
                labels: vec!["x".repeat(1025)],
                ..Default::default()
            }),
        ),
    ];
    for (field, wire) in refused {
        assert_eq!(path(decide(wire, &limits())), field);
    }
}

#[test]
fn a_refusal_says_what_is_wrong_and_where() {
    let wire = call(|c| c.arguments_json = r#"{"a":1,"b":2,"a":3}"#.to_owned());
    assert_eq!(
        decide(wire, &limits()).unwrap_err().to_string(),
        "`call.arguments_json`: duplicate key `a` at offset 13"
    );
    let wire = call(|c| c.origin = 17);
    assert_eq!(
        decide(wire, &limits()).unwrap_err().to_string(),
        "`call.origin`: the value 17 is not known"
    );
}

#[test]
fn of_a_target_only_what_is_its_own_is_taken() {
    let text = str::to_owned;
    let target = |change: &dyn Fn(&mut pb::ToolCall)| {
        let request = decide(targeted(change), &limits()).unwrap();
        let Action::Call(asked) = request.action else {
            panic!("a call")
        };
        assert_eq!(asked.call.tool.as_str(), "client.a");
        let WrapperTarget {
            tool,
            server,
            annotations,
            arguments,
            wraps,
        } = *asked.target.unwrap();
        let title = annotations.map(|annotations| annotations.title);
        let (tool, server) = (tool.to_string(), server.to_string());
        (tool, server, title, arguments.text().to_owned(), wraps)
    };
    assert_eq!(
        target(&|t| {
            // These are the wrapper call's, and nobody reads the target's.
            t.call_id = bidi();
            t.origin = 99;
            t.in_program = true;
        }),
        (text("srv__b"), text(""), None, text("{}"), false)
    );
    assert_eq!(
        target(&|t| {
            t.server = text("srv");
            t.arguments_json = text("{ }");
            t.annotations = Some(pb::Annotations {
                title: text("B"),
                ..Default::default()
            });
            t.target = Some(Box::default());
        }),
        (
            text("srv__b"),
            text("srv"),
            Some(text("B")),
            text("{ }"),
            true
        )
    );
}

#[test]
fn a_call_arrives_whole() {
    let annotations = pb::Annotations {
        read_only_hint: Some(false),
        destructive_hint: None,
        idempotent_hint: Some(true),
        open_world_hint: None,
        title: "Open".to_owned(),
        labels: vec!["write".to_owned()],
    };
    let wire = pb::DecideRequest {
        resumed: true,
        dry_run: true,
        scope: Some(pb::Scope {
            tenant: "acme".to_owned(),
            principal: Some(pb::Principal {
                id: "p".to_owned(),
                roles: vec!["r".to_owned()],
                attributes: [("k".to_owned(), "v".to_owned())].into(),
            }),
            session_id: "s".to_owned(),
            run_id: "run".to_owned(),
            parent_run_id: "parent".to_owned(),
            agent_path: vec!["root".to_owned(), "leaf".to_owned()],
        }),
        ..call(|call| {
            call.call_id = "c".to_owned();
            call.step_id = "step".to_owned();
            call.server = "srv".to_owned();
            call.origin = pb::Origin::A2a.into();
            call.annotations = Some(annotations);
            call.arguments_json = r#"{"a": 1}"#.to_owned();
            call.in_program = true;
            call.parent_call_id = "pc".to_owned();
        })
    };
    let request = decide(wire, &limits()).unwrap();
    assert!(request.resumed && request.dry_run);
    let id = |text| Id::parse(text).unwrap();
    let scope = request.scope;
    assert_eq!(
        [
            &scope.tenant,
            &scope.session_id,
            &scope.run_id,
            &scope.parent_run_id,
            &scope.principal.id
        ],
        [&id("acme"), &id("s"), &id("run"), &id("parent"), &id("p")]
    );
    assert_eq!(scope.agent_path, ["root", "leaf"]);
    assert_eq!(scope.principal.roles, ["r"]);
    assert_eq!(
        scope.principal.attributes,
        [("k".to_owned(), "v".to_owned())].into()
    );
    let Action::Call(asked) = request.action else {
        panic!("a call")
    };
    let AskedCall { call, target } = *asked;
    assert!(target.is_none());
    assert_eq!(
        [
            &call.call_id,
            &call.step_id,
            &call.tool,
            &call.server,
            &call.parent_call_id
        ],
        [
            &id("c"),
            &id("step"),
            &id("client.a"),
            &id("srv"),
            &id("pc")
        ]
    );
    assert_eq!((call.origin, call.in_program), (Some(Origin::A2a), true));
    assert_eq!(call.arguments.text(), r#"{"a": 1}"#);
    assert_eq!(
        call.annotations,
        Some(Annotations {
            read_only_hint: Some(false),
            destructive_hint: None,
            idempotent_hint: Some(true),
            open_world_hint: None,
            title: "Open".to_owned(),
            labels: vec!["write".to_owned()],
        })
    );
}

#[test]
fn what_is_left_out_is_absent_and_arguments_are_an_empty_object() {
    let request = decide(call(|_| {}), &limits()).unwrap();
    let Action::Call(asked) = request.action else {
        panic!("a call")
    };
    let AskedCall { call, target } = *asked;
    assert!(target.is_none());
    assert_eq!(request.scope, Scope::default());
    assert_eq!(request.expires_in, None);
    assert_eq!((call.origin, call.annotations), (None, None));
    assert_eq!(call.arguments.text(), "{}");
    let run = pb::DecideRequest {
        action: Some(pb::decide_request::Action::Run(pb::RunStart::default())),
        ..Default::default()
    };
    let Action::Run(start) = decide(run, &limits()).unwrap().action else {
        panic!("a run start")
    };
    assert_eq!(
        start,
        RunStart {
            version: Id::default()
        }
    );
}

#[test]
fn classify_needs_a_call_and_checks_it() {
    assert_eq!(
        path(classify(pb::ClassifyRequest::default(), &limits())),
        "call"
    );
    let wire = pb::ClassifyRequest {
        call: Some(pb::ToolCall {
            tool: "t".to_owned(),
            arguments_json: "{bad".to_owned(),
            ..Default::default()
        }),
    };
    assert_eq!(path(classify(wire, &limits())), "call.arguments_json");
}

#[test]
fn a_batch_is_bounded_in_requests_and_bytes() {
    let batch_of = |requests| batch(pb::BatchDecideRequest { requests });
    assert_eq!(batch_of(vec![]).unwrap().len(), 0);
    assert_eq!(batch_of(vec![call(|_| {}); 100]).unwrap().len(), 100);
    assert_eq!(path(batch_of(vec![call(|_| {}); 101])), "requests");
    let large = call(|c| c.arguments_json = "x".repeat(MAX_BATCH_BYTES / 2));
    assert_eq!(batch_of(vec![large.clone(); 2]).unwrap().len(), 2);
    let more = call(|c| c.arguments_json = "x".to_owned());
    assert_eq!(path(batch_of(vec![large.clone(), large, more])), "requests");
}

fn answered(answer: pb::resume_request::Answer) -> pb::ResumeRequest {
    pb::ResumeRequest {
        suspension_id: ID.to_owned(),
        by: "m".to_owned(),
        answer: Some(answer),
        ..Default::default()
    }
}

fn approval(approved: Option<bool>, grant_scope: i32, edits: &str) -> pb::ResumeRequest {
    answered(pb::resume_request::Answer::Approval(pb::Approval {
        approved,
        reason: String::new(),
        grant_scope,
        edited_arguments_json: edits.to_owned(),
    }))
}

#[test]
fn a_field_of_resume_that_is_refused_is_named_by_its_path() {
    use pb::resume_request::Answer as Wire;
    let session = pb::GrantScope::Session.into();
    let with = |change: fn(&mut pb::ResumeRequest)| {
        let mut wire = approval(Some(true), 0, "");
        change(&mut wire);
        wire
    };
    let tool = |result| answered(Wire::ClientTool(pb::ClientToolAnswer { result }));
    let refused = [
        ("suspension_id", with(|r| r.suspension_id = String::new())),
        (
            "suspension_id",
            with(|r| r.suspension_id = "not-an-id".to_owned()),
        ),
        (
            "suspension_id",
            with(|r| r.suspension_id = ID.to_uppercase()),
        ),
        ("by", with(|r| r.by = String::new())),
        ("by", with(|r| r.by = "x".repeat(257))),
        ("by_roles", with(|r| r.by_roles = vec![String::new(); 65])),
        (
            "arguments_digest",
            with(|r| r.arguments_digest = "00".to_owned()),
        ),
        (
            "scope.tenant",
            with(|r| {
                r.scope = Some(pb::Scope {
                    tenant: "\u{7f}".to_owned(),
                    ..Default::default()
                });
            }),
        ),
        (
            "approval.reason",
            with(|r| {
                r.answer = Some(Wire::Approval(pb::Approval {
                    reason: "x".repeat(8193),
                    ..Default::default()
                }));
            }),
        ),
        ("approval.grant_scope", approval(Some(false), session, "")),
        ("approval.grant_scope", approval(Some(true), session, "{}")),
        ("approval.grant_scope", approval(Some(true), 2, "")),
        (
            "approval.edited_arguments_json",
            approval(Some(false), 0, "{}"),
        ),
        (
            "question.answers",
            answered(Wire::Question(pb::QuestionAnswer {
                answers: [("q".to_owned(), "x".repeat(8193))].into(),
            })),
        ),
        (
            "external.payload_json",
            answered(Wire::External(pb::ExternalAnswer {
                payload_json: "1".repeat(33),
            })),
        ),
        (
            "question.answers",
            answered(Wire::Question(pb::QuestionAnswer {
                answers: [(String::new(), "x".to_owned())].into(),
            })),
        ),
        ("client_tool.result", tool(None)),
        (
            "client_tool.error",
            tool(Some(pb::client_tool_answer::Result::Error(String::new()))),
        ),
        (
            "sign_in.connected",
            answered(Wire::SignIn(pb::SignInAnswer {
                connected: many(2),
                denied: Vec::new(),
            })),
        ),
        (
            "client_tool.result_json",
            tool(Some(pb::client_tool_answer::Result::ResultJson(
                "1".repeat(33),
            ))),
        ),
        (
            "client_tool.error",
            tool(Some(pb::client_tool_answer::Result::Error("e".repeat(33)))),
        ),
        (
            "sign_in.denied",
            answered(Wire::SignIn(pb::SignInAnswer {
                connected: vec!["a".to_owned()],
                denied: vec![String::new()],
            })),
        ),
    ];
    for (field, wire) in refused {
        assert_eq!(path(resume(wire, &limits())), field);
    }
}

#[test]
fn an_answer_without_a_decision_is_no_answer() {
    let none = pb::ResumeRequest {
        answer: None,
        ..approval(None, 0, "")
    };
    let wires = [none, approval(None, 0, ""), approval(None, 0, "{}")];
    for wire in wires {
        assert_eq!(resume(wire, &limits()).ok().unwrap().reply.answer, None);
    }
}

#[test]
fn the_answers_of_the_other_kinds_arrive_whole() {
    use pb::client_tool_answer::Result as End;
    use pb::resume_request::Answer as Wire;
    let id = |text| Id::required(text).unwrap();
    let json = |text| Json::parse(text, 100).unwrap();
    let answers = [
        (
            Wire::Question(pb::QuestionAnswer {
                answers: [("q".to_owned(), String::new())].into(),
            }),
            Answer::Question([(id("q"), String::new())].into()),
        ),
        (
            Wire::External(pb::ExternalAnswer {
                payload_json: " [1.0]".to_owned(),
            }),
            Answer::External(json("[1]")),
        ),
        (
            Wire::ClientTool(pb::ClientToolAnswer {
                result: Some(End::ResultJson("null".to_owned())),
            }),
            Answer::ClientTool(ToolResult::Returned(json("null"))),
        ),
        (
            Wire::ClientTool(pb::ClientToolAnswer {
                result: Some(End::Error("no".to_owned())),
            }),
            Answer::ClientTool(ToolResult::Failed("no".to_owned())),
        ),
        (
            Wire::SignIn(pb::SignInAnswer {
                connected: vec!["b".to_owned(), "a".to_owned()],
                denied: vec!["c".to_owned()],
            }),
            Answer::SignIn(SignIn {
                connected: [id("a"), id("b")].into(),
                denied: [id("c")].into(),
            }),
        ),
    ];
    for (wire, answer) in answers {
        let reply = resume(answered(wire), &limits()).ok().unwrap().reply;
        assert_eq!((reply.answer, reply.flaw), (Some(answer), None));
    }
}

#[test]
fn a_payload_that_is_no_json_is_a_flaw_for_the_engine_to_tell_in_its_turn() {
    use pb::client_tool_answer::Result as End;
    use pb::resume_request::Answer as Wire;
    for text in ["", "{", r#"{"a":1,"a":1}"#, "1e9999"] {
        for (wire, field) in [
            (
                Wire::External(pb::ExternalAnswer {
                    payload_json: text.to_owned(),
                }),
                "external.payload_json",
            ),
            (
                Wire::ClientTool(pb::ClientToolAnswer {
                    result: Some(End::ResultJson(text.to_owned())),
                }),
                "client_tool.result_json",
            ),
        ] {
            let reply = resume(answered(wire), &limits()).ok().unwrap().reply;
            let Some(Refusal::Invalid { field: flawed, .. }) = reply.flaw else {
                panic!("{text}: {:?}", reply.flaw);
            };
            assert_eq!(flawed, field, "{text}");
        }
    }
}

#[test]
fn edits_that_are_no_arguments_are_a_flaw_for_the_engine_to_tell_in_its_turn() {
    for (edits, says) in [("[]", "expected"), (r#"{"a":1,"a":1}"#, "duplicate key")] {
        let wire = approval(Some(true), 0, edits);
        let reply = resume(wire, &limits()).ok().unwrap().reply;
        let Some(Refusal::Invalid { field, message }) = reply.flaw else {
            panic!("{edits} has no flaw")
        };
        assert_eq!(field, "approval.edited_arguments_json");
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn an_approval_arrives_whole() {
    let digest = "ab".repeat(32);
    let wire = pb::ResumeRequest {
        scope: Some(pb::Scope {
            tenant: "acme".to_owned(),
            ..Default::default()
        }),
        by_roles: vec!["manager".to_owned()],
        arguments_digest: digest.clone(),
        ..approval(Some(true), 0, r#"{"a":2}"#)
    };
    let Resume { tenant, id, reply } = resume(wire, &limits()).ok().unwrap();
    assert_eq!((tenant.as_str(), id.to_string().as_str()), ("acme", ID));
    assert_eq!(
        (reply.by.as_str(), reply.by_roles),
        ("m", vec!["manager".to_owned()])
    );
    assert_eq!(reply.arguments_digest.unwrap().to_string(), digest);
    let Some(Answer::Approval(Approval {
        approved,
        reason,
        edited_arguments,
        grant_scope: GrantScope::Once,
    })) = reply.answer
    else {
        panic!("an approval")
    };
    assert_eq!((approved, reason.as_str()), (true, ""));
    assert_eq!(edited_arguments.unwrap().text(), r#"{"a":2}"#);
}

#[test]
fn a_claim_names_its_attempt_and_a_forced_one_who_forces() {
    let wire = pb::ClaimRequest {
        suspension_id: ID.to_owned(),
        attempt_id: "w1".to_owned(),
        ..Default::default()
    };
    let taken = claim(wire.clone()).ok().unwrap().claim;
    assert_eq!(
        (taken.attempt_id.as_str(), taken.by.as_str(), taken.force),
        ("w1", "", false)
    );
    let refused = [
        (
            "suspension_id",
            pb::ClaimRequest {
                suspension_id: "x".to_owned(),
                ..wire.clone()
            },
        ),
        (
            "attempt_id",
            pb::ClaimRequest {
                attempt_id: String::new(),
                ..wire.clone()
            },
        ),
        (
            "arguments_digest",
            pb::ClaimRequest {
                arguments_digest: "x".to_owned(),
                ..wire.clone()
            },
        ),
        (
            "by",
            pb::ClaimRequest {
                by: bidi(),
                ..wire.clone()
            },
        ),
        (
            "by",
            pb::ClaimRequest {
                force: true,
                ..wire
            },
        ),
    ];
    for (field, wire) in refused {
        assert_eq!(path(claim(wire)), field);
    }
}

#[test]
fn a_completion_says_how_it_ended() {
    let wire = |outcome: i32| pb::CompleteRequest {
        suspension_id: ID.to_owned(),
        attempt_id: "w1".to_owned(),
        outcome,
        ..Default::default()
    };
    for (number, outcome) in [
        (1, Completion::Success),
        (2, Completion::Failure),
        (3, Completion::Unknown),
    ] {
        assert_eq!(complete(wire(number)).ok().unwrap().outcome, outcome);
    }
    assert_eq!(path(complete(wire(0))), "outcome");
    assert_eq!(path(complete(wire(4))), "outcome");
    let wire = |change: fn(&mut pb::CompleteRequest)| {
        let mut wire = wire(1);
        change(&mut wire);
        wire
    };
    assert_eq!(path(complete(wire(|c| c.attempt_id.clear()))), "attempt_id");
    assert_eq!(
        path(complete(wire(|c| c.detail = "x".repeat(8193)))),
        "detail"
    );
    assert_eq!(
        path(complete(wire(|c| c.suspension_id.clear()))),
        "suspension_id"
    );
}

#[test]
fn a_cancel_names_its_target() {
    use pb::cancel_request::Target as Wire;
    let wire = |target, session: &str| pb::CancelRequest {
        target,
        scope: Some(pb::Scope {
            tenant: "acme".to_owned(),
            session_id: session.to_owned(),
            ..Default::default()
        }),
        by: "u".to_owned(),
        reason: String::new(),
    };
    let group = |wire| match cancel(wire).ok().unwrap().target {
        Target::All(group) => group,
        Target::One(id) => panic!("{id}"),
    };
    let id = |text| Id::parse(text).unwrap();
    let run = |session| Group::Run {
        tenant: id("acme"),
        session,
        run: id("r"),
    };
    let run_id = || Some(Wire::RunId("r".to_owned()));
    assert_eq!(group(wire(run_id(), "")), run(None));
    assert_eq!(group(wire(run_id(), "s")), run(Some(id("s"))));
    assert_eq!(
        group(wire(Some(Wire::SessionId("s1".to_owned())), "s")),
        Group::Session {
            tenant: id("acme"),
            session: id("s1")
        }
    );
    let one = cancel(wire(Some(Wire::SuspensionId(ID.to_owned())), ""))
        .ok()
        .unwrap();
    assert!(matches!(one.target, Target::One(id) if id.to_string() == ID));
    let refused = [
        ("target", wire(None, "")),
        (
            "suspension_id",
            wire(Some(Wire::SuspensionId(String::new())), ""),
        ),
        ("run_id", wire(Some(Wire::RunId(String::new())), "")),
        ("session_id", wire(Some(Wire::SessionId(String::new())), "")),
        (
            "by",
            pb::CancelRequest {
                by: String::new(),
                ..wire(run_id(), "")
            },
        ),
        (
            "reason",
            pb::CancelRequest {
                reason: "x".repeat(8193),
                ..wire(run_id(), "")
            },
        ),
    ];
    for (field, wire) in refused {
        assert_eq!(path(cancel(wire)), field);
    }
}

#[test]
fn a_wait_is_at_most_five_minutes() {
    let wire = |seconds, nanos| pb::GetSuspensionRequest {
        suspension_id: ID.to_owned(),
        scope: None,
        wait: Some(prost_types::Duration { seconds, nanos }),
    };
    assert_eq!(get(wire(300, 0)).ok().unwrap().wait, MAX_WAIT);
    assert_eq!(get(wire(0, 1)).ok().unwrap().wait, Duration::from_nanos(1));
    for refused in [wire(300, 1), wire(-1, 0), wire(0, -1), wire(i64::MAX, 0)] {
        assert_eq!(path(get(refused)), "wait");
    }
    let absent = pb::GetSuspensionRequest {
        wait: None,
        ..wire(0, 0)
    };
    assert_eq!(get(absent).ok().unwrap().wait, Duration::ZERO);
}

#[test]
fn a_list_has_defaults_and_bounds() {
    let wire = |tenant: &str, session: &str, run: &str| pb::ListSuspensionsRequest {
        tenant: tenant.to_owned(),
        session_id: session.to_owned(),
        run_id: run.to_owned(),
        ..Default::default()
    };
    let id = |text| Id::parse(text).unwrap();
    let tenant = || id("acme");
    let request = list(wire("acme", "", "")).unwrap();
    assert_eq!(request.group, Group::Tenant { tenant: tenant() });
    assert_eq!(
        (request.statuses.as_slice(), request.page_size),
        (&[Status::Pending][..], 50)
    );
    assert!(request.kinds.is_empty() && request.executions.is_empty() && request.after.is_none());
    let group = |session, run| list(wire("acme", session, run)).unwrap().group;
    assert_eq!(
        group("s", ""),
        Group::Session {
            tenant: tenant(),
            session: id("s")
        }
    );
    assert_eq!(
        group("", "r"),
        Group::Run {
            tenant: tenant(),
            session: None,
            run: id("r")
        }
    );
    assert_eq!(
        group("s", "r"),
        Group::Run {
            tenant: tenant(),
            session: Some(id("s")),
            run: id("r")
        }
    );

    let with = |change: &dyn Fn(&mut pb::ListSuspensionsRequest)| {
        let mut wire = wire("acme", "", "");
        change(&mut wire);
        list(wire)
    };
    assert_eq!(with(&|l| l.page_size = 1000).unwrap().page_size, 1000);
    let filtered = with(&|l| {
        l.kinds = vec![1, 5, 1];
        l.statuses = vec![2, 2, 6];
        l.executions = vec![4, 4];
    });
    let ListRequest {
        kinds,
        statuses,
        executions,
        ..
    } = filtered.unwrap();
    assert_eq!(kinds, [Kind::Approval, Kind::SignIn]);
    assert_eq!(statuses, [Status::Approved, Status::Cancelled]);
    assert_eq!(executions, [Execution::InDoubt]);
    assert_eq!(path(with(&|l| l.page_size = -1)), "page_size");
    assert_eq!(path(with(&|l| l.page_size = 1001)), "page_size");
    assert_eq!(path(with(&|l| l.kinds = vec![1, 6])), "kinds[1]");
    assert_eq!(path(with(&|l| l.kinds = vec![0])), "kinds[0]");
    assert_eq!(path(with(&|l| l.statuses = vec![7])), "statuses[0]");
    assert_eq!(path(with(&|l| l.executions = vec![0])), "executions[0]");
    assert_eq!(path(with(&|l| l.tenant = bidi())), "tenant");
    assert_eq!(path(with(&|l| l.session_id = bidi())), "session_id");
    assert_eq!(path(with(&|l| l.run_id = bidi())), "run_id");
    assert_eq!(
        path(with(&|l| l.page_token = "nonsense".to_owned())),
        "page_token"
    );
}
