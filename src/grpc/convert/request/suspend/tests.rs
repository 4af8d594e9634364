use super::*;
use crate::arguments::{Arguments, Json};
use crate::domain::{Scope, ToolCall};
use pb::SuspensionKind as Wire;
use std::time::Duration;

fn limits() -> Limits {
    Limits {
        max_arguments_bytes: 64,
        max_payload_bytes: 32,
        ..Limits::default()
    }
}

fn id(text: &str) -> Id {
    Id::required(text).unwrap()
}

/// A request of a kind with all that the kind needs.
fn of(kind: Wire) -> pb::SuspendRequest {
    let mut wire = pb::SuspendRequest {
        kind: kind.into(),
        ..Default::default()
    };
    match kind {
        Wire::Question => wire.questions = vec![question("q")],
        Wire::ClientTool => {
            wire.call = Some(pb::ToolCall {
                tool: "client.t".to_owned(),
                ..Default::default()
            });
        }
        Wire::SignIn => wire.sources = vec!["github".to_owned()],
        Wire::External | Wire::Approval | Wire::Unspecified => {}
    }
    wire
}

fn question(key: &str) -> pb::Question {
    pb::Question {
        key: key.to_owned(),
        text: "Which?".to_owned(),
        ..Default::default()
    }
}

fn with(kind: Wire, change: impl FnOnce(&mut pb::SuspendRequest)) -> pb::SuspendRequest {
    let mut wire = of(kind);
    change(&mut wire);
    wire
}

fn ask(change: impl FnOnce(&mut pb::Question)) -> pb::SuspendRequest {
    with(Wire::Question, |wire| change(&mut wire.questions[0]))
}

fn tool(change: impl FnOnce(&mut pb::ToolCall)) -> pb::SuspendRequest {
    with(Wire::ClientTool, |wire| change(wire.call.as_mut().unwrap()))
}

fn refusal(wire: pb::SuspendRequest) -> String {
    suspend(wire, &limits()).unwrap_err().to_string()
}

#[test]
fn a_kind_that_suspend_does_not_open_is_refused() {
    for (wire, expected) in [
        (of(Wire::Unspecified), "`kind`: is required"),
        (
            of(Wire::Approval),
            "`kind`: an approval is opened by Decide, which judges the call first",
        ),
        (
            pb::SuspendRequest {
                kind: 99,
                ..Default::default()
            },
            "`kind`: the value 99 is not known",
        ),
    ] {
        assert_eq!(refusal(wire), expected);
    }
}

#[test]
fn a_field_of_another_kind_is_refused_by_its_path() {
    let kinds = [
        Wire::Question,
        Wire::External,
        Wire::ClientTool,
        Wire::SignIn,
    ];
    type Set = fn(&mut pb::SuspendRequest);
    let fields: [(&str, Wire, Set); 5] = [
        ("call", Wire::ClientTool, |wire| {
            wire.call = of(Wire::ClientTool).call
        }),
        ("questions", Wire::Question, |wire| {
            wire.questions = of(Wire::Question).questions;
        }),
        ("payload_schema_json", Wire::External, |wire| {
            wire.payload_schema_json = "true".to_owned();
        }),
        ("event", Wire::External, |wire| {
            wire.event = "paid".to_owned()
        }),
        ("sources", Wire::SignIn, |wire| {
            wire.sources = of(Wire::SignIn).sources
        }),
    ];
    for kind in kinds {
        assert!(suspend(of(kind), &limits()).is_ok(), "{kind:?}");
        for (path, owner, set) in fields {
            let result = suspend(with(kind, set), &limits());
            if owner == kind {
                assert!(result.is_ok(), "{kind:?} {path}");
            } else {
                assert_eq!(result.unwrap_err().path, path, "{kind:?}");
            }
        }
    }
    assert_eq!(
        refusal(with(Wire::SignIn, |wire| wire.event = "e".to_owned())),
        "`event`: is for SUSPENSION_KIND_EXTERNAL and this is a SUSPENSION_KIND_SIGN_IN: leave it out"
    );
}

#[test]
fn what_a_kind_needs_is_checked_whole() {
    let long = || "x".repeat(8193);
    let many = |count: usize| (0..count).map(|n| format!("s{n}"));
    for (wire, path) in [
        (with(Wire::Question, |w| w.questions.clear()), "questions"),
        (
            with(Wire::Question, |w| {
                w.questions = many(65).map(|key| question(&key)).collect();
            }),
            "questions",
        ),
        (ask(|q| q.key = String::new()), "questions[0].key"),
        (ask(|q| q.key = "x".repeat(257)), "questions[0].key"),
        (ask(|q| q.key = "\u{202e}".to_owned()), "questions[0].key"),
        (
            with(Wire::Question, |w| w.questions.push(question("q"))),
            "questions[1].key",
        ),
        (ask(|q| q.text = long()), "questions[0].text"),
        (
            ask(|q| q.options = vec!["a".to_owned(), long()]),
            "questions[0].options[1]",
        ),
        (
            ask(|q| q.options = many(65).collect()),
            "questions[0].options",
        ),
        (ask(|q| q.options_only = true), "questions[0].options_only"),
        (with(Wire::External, |w| w.event = long()), "event"),
        (
            with(Wire::External, |w| w.payload_schema_json = "{".to_owned()),
            "payload_schema_json",
        ),
        (
            with(Wire::External, |w| {
                w.payload_schema_json = format!("\"{}\"", "x".repeat(31));
            }),
            "payload_schema_json",
        ),
        (with(Wire::ClientTool, |w| w.call = None), "call"),
        (tool(|call| call.tool = String::new()), "call.tool"),
        (
            tool(|call| call.arguments_json = "[]".to_owned()),
            "call.arguments_json",
        ),
        (tool(|call| call.call_id = "c".to_owned()), "call.call_id"),
        (
            tool(|call| call.target = Some(Box::default())),
            "call.target",
        ),
        (
            with(Wire::ClientTool, |w| {
                w.step_id = "s".to_owned();
                w.call.as_mut().unwrap().step_id = "t".to_owned();
            }),
            "call.step_id",
        ),
        (with(Wire::SignIn, |w| w.sources.clear()), "sources"),
        (
            with(Wire::SignIn, |w| w.sources = many(65).collect()),
            "sources",
        ),
        (
            with(Wire::SignIn, |w| w.sources.push(String::new())),
            "sources[1]",
        ),
        (
            with(Wire::SignIn, |w| w.sources.push("github".to_owned())),
            "sources[1]",
        ),
    ] {
        assert_eq!(suspend(wire, &limits()).unwrap_err().path, path);
    }
}

#[test]
fn what_every_kind_has_is_checked() {
    let long = || "x".repeat(8193);
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    for (wire, path) in [
        (with(Wire::External, |w| w.title = long()), "title"),
        (with(Wire::External, |w| w.reason = long()), "reason"),
        (
            with(Wire::External, |w| w.call_id = "\n".to_owned()),
            "call_id",
        ),
        (
            with(Wire::External, |w| w.step_id = "x".repeat(257)),
            "step_id",
        ),
        (
            with(Wire::External, |w| w.expires_in = seconds(0)),
            "expires_in",
        ),
        (
            with(Wire::External, |w| w.expires_in = seconds(-1)),
            "expires_in",
        ),
        (with(Wire::External, |w| w.on_expiry = 9), "on_expiry"),
    ] {
        assert_eq!(suspend(wire, &limits()).unwrap_err().path, path);
    }
}

#[test]
fn a_request_arrives_whole() {
    let wire = with(Wire::ClientTool, |wire| {
        wire.scope = Some(pb::Scope {
            tenant: "acme".to_owned(),
            ..Default::default()
        });
        wire.call_id = "c1".to_owned();
        wire.title = "Clipboard".to_owned();
        wire.reason = "to paste it".to_owned();
        wire.expires_in = Some(prost_types::Duration {
            seconds: 60,
            nanos: 0,
        });
        wire.on_expiry = pb::OnExpiry::Deny.into();
    });
    let SuspendRequest {
        scope,
        wait,
        title,
        reason,
        expires_in,
        on_expiry,
    } = suspend(wire, &limits()).unwrap();
    let tenant = id("acme");
    assert_eq!(
        scope,
        Scope {
            tenant,
            ..Scope::default()
        }
    );
    let call = ToolCall {
        call_id: id("c1"),
        step_id: Id::default(),
        tool: id("client.t"),
        server: Id::default(),
        origin: None,
        annotations: None,
        arguments: Arguments::parse("{}", 2).unwrap(),
        in_program: false,
        parent_call_id: Id::default(),
        wrapped: None,
    };
    let expected = Wait {
        call_id: id("c1"),
        step_id: Id::default(),
        matter: Matter::ClientTool(call),
    };
    assert_eq!(wait, expected);
    assert_eq!(
        (title.as_str(), reason.as_str()),
        ("Clipboard", "to paste it")
    );
    assert_eq!(expires_in, Some(Duration::from_secs(60)));
    assert_eq!(on_expiry, Some(OnExpiry::Deny));

    let external = with(Wire::External, |wire| {
        wire.event = "paid".to_owned();
        wire.payload_schema_json = "{\"type\":\"object\"}".to_owned();
    });
    let schema = Json::parse("{\"type\":\"object\"}", 100).unwrap();
    assert_eq!(
        suspend(external, &limits()).unwrap().wait.matter,
        Matter::External {
            event: "paid".to_owned(),
            schema: Some(schema),
        }
    );
}
