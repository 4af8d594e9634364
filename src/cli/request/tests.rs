//! Command lines to requests, compared whole.

use std::path::PathBuf;

use clap::Parser;

use super::*;
use crate::cli::ClientCommand;

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: ClientCommand,
}

fn parse(line: &[&str]) -> Result<ClientCommand, clap::Error> {
    Cli::try_parse_from(["assent"].iter().chain(line)).map(|cli| cli.command)
}

fn decide(line: &[&str]) -> pb::DecideRequest {
    match parse(&[&["decide"], line].concat()) {
        Ok(ClientCommand::Decide(command)) => command.request().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn call(line: &[&str]) -> pb::ToolCall {
    match decide(line).action {
        Some(pb::decide_request::Action::Call(call)) => call,
        other => panic!("{other:?}"),
    }
}

fn tenant(tenant: &str) -> Option<pb::Scope> {
    Some(pb::Scope {
        tenant: tenant.to_owned(),
        ..Default::default()
    })
}

#[test]
fn the_help_is_well_formed() {
    use clap::CommandFactory;
    Cli::command().debug_assert();
}

#[test]
fn a_tool_alone_is_a_call_without_annotations() {
    assert_eq!(
        decide(&["--tool", "client.list"]),
        pb::DecideRequest {
            scope: Some(pb::Scope::default()),
            action: Some(pb::decide_request::Action::Call(pb::ToolCall {
                tool: "client.list".to_owned(),
                ..Default::default()
            })),
            expires_in: None,
            resumed: false,
            dry_run: false,
        }
    );
}

#[test]
fn every_flag_of_decide_has_its_field() {
    let line = "--tool t --args {\"a\":1} --destructive --read-only --title T --label write --label x \
                --mcp-server github --origin mcp --call-id c --step-id st --in-program --tenant acme \
                --session s --run r --principal u --role a --role b --attribute k=v=w --agent-path root \
                --agent-path child --expires-in 10m --resumed --dry-run";
    let line: Vec<_> = line.split_whitespace().collect();
    assert_eq!(
        decide(&line),
        pb::DecideRequest {
            scope: Some(pb::Scope {
                tenant: "acme".to_owned(),
                principal: Some(pb::Principal {
                    id: "u".to_owned(),
                    roles: vec!["a".to_owned(), "b".to_owned()],
                    attributes: [("k".to_owned(), "v=w".to_owned())].into(),
                }),
                session_id: "s".to_owned(),
                run_id: "r".to_owned(),
                parent_run_id: String::new(),
                agent_path: vec!["root".to_owned(), "child".to_owned()],
            }),
            action: Some(pb::decide_request::Action::Call(pb::ToolCall {
                call_id: "c".to_owned(),
                step_id: "st".to_owned(),
                tool: "t".to_owned(),
                server: "github".to_owned(),
                origin: pb::Origin::Mcp.into(),
                annotations: Some(pb::Annotations {
                    read_only_hint: Some(true),
                    destructive_hint: Some(true),
                    idempotent_hint: None,
                    open_world_hint: None,
                    title: "T".to_owned(),
                    labels: vec!["write".to_owned(), "x".to_owned()],
                }),
                arguments_json: "{\"a\":1}".to_owned(),
                in_program: true,
                parent_call_id: String::new(),
                target: None,
            })),
            expires_in: Some(prost_types::Duration {
                seconds: 600,
                nanos: 0
            }),
            resumed: true,
            dry_run: true,
        }
    );
}

#[test]
fn a_hint_that_is_not_given_is_not_sent() {
    let hints = |flags: &[&str]| {
        call(&[&["--tool", "t"], flags].concat())
            .annotations
            .map(|claims| (claims.read_only_hint, claims.destructive_hint))
    };
    assert_eq!(hints(&[]), None);
    assert_eq!(hints(&["--write"]), Some((None, Some(false))));
    assert_eq!(hints(&["--destructive"]), Some((None, Some(true))));
    assert_eq!(hints(&["--read-only"]), Some((Some(true), None)));
    assert_eq!(
        hints(&["--read-only", "--write"]),
        Some((Some(true), Some(false)))
    );
    assert_eq!(hints(&["--title", "T"]), Some((None, None)));
}

#[test]
fn arguments_can_come_from_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("args.json");
    std::fs::write(&file, "{\"n\": 1.0}\n").unwrap();
    let from_file = call(&["--tool", "t", "--args-file", file.to_str().unwrap()]);
    assert_eq!(from_file.arguments_json, "{\"n\": 1.0}\n");

    let missing = CallFlags {
        args_file: Some(PathBuf::from("no/such/file")),
        ..Default::default()
    };
    assert!(matches!(
        missing.call(),
        Err(CliError::ArgumentsFile { path, .. }) if path.as_os_str() == "no/such/file"
    ));
}

#[test]
fn a_flag_for_json_that_holds_nothing_is_not_taken_for_an_empty_object() {
    for empty in ["", " \n"] {
        let command = parse(&["decide", "--tool", "t", "--args", empty]).unwrap();
        let ClientCommand::Decide(command) = command else {
            panic!("{command:?}");
        };
        assert_eq!(
            command.request().unwrap_err().to_string(),
            "`--args` is empty: write `{}` for no arguments, or leave the flag out"
        );
        let command = parse(&["approve", "ID", "--by", "me", "--edit-args", empty]).unwrap();
        let ClientCommand::Approve(command) = command else {
            panic!("{command:?}");
        };
        assert!(matches!(
            command.request(),
            Err(CliError::EmptyJson("--edit-args"))
        ));
    }
}

#[test]
fn classify_sends_the_same_call_as_decide() {
    let flags = ["--tool", "t", "--write", "--origin", "a2a", "--args", "{}"];
    let classified = match parse(&[&["classify"], &flags[..]].concat()) {
        Ok(ClientCommand::Classify(command)) => command.request().unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(classified.call, Some(call(&flags)));
}

#[test]
fn an_answer_says_yes_or_no_and_nothing_by_default() {
    let line = "i-1 --tenant acme --by boss --role manager --role cfo --reason why --digest d1";
    let answer = |verb: &str, more: &[&str]| {
        let line: Vec<_> = line.split_whitespace().collect();
        match parse(&[&[verb], &line[..], more].concat()) {
            Ok(ClientCommand::Approve(command)) => command.request().unwrap(),
            Ok(ClientCommand::Deny(command)) => command.request(),
            other => panic!("{other:?}"),
        }
    };
    let expected = |approved, edited: &str| pb::ResumeRequest {
        suspension_id: "i-1".to_owned(),
        scope: tenant("acme"),
        by: "boss".to_owned(),
        by_roles: vec!["manager".to_owned(), "cfo".to_owned()],
        arguments_digest: "d1".to_owned(),
        answer: Some(pb::resume_request::Answer::Approval(pb::Approval {
            approved: Some(approved),
            reason: "why".to_owned(),
            grant_scope: 0,
            edited_arguments_json: edited.to_owned(),
        })),
    };
    assert_eq!(
        answer("approve", &["--edit-args", "{\"a\":2}"]),
        expected(true, "{\"a\":2}")
    );
    assert_eq!(answer("deny", &[]), expected(false, ""));
}

#[test]
fn an_answer_is_of_one_kind_and_sent_as_it_is_written() {
    use pb::client_tool_answer::Result as End;
    use pb::resume_request::Answer;
    let answer = |more: &[&str]| {
        let line = ["answer", "i-1", "--by", "ann", "--tenant", "acme"];
        match parse(&[&line, more].concat()) {
            Ok(ClientCommand::Answer(command)) => command.request().ok(),
            Ok(other) => panic!("{other:?}"),
            Err(_) => None,
        }
    };
    let expected = |answer| {
        Some(pb::ResumeRequest {
            suspension_id: "i-1".to_owned(),
            scope: tenant("acme"),
            by: "ann".to_owned(),
            by_roles: Vec::new(),
            arguments_digest: String::new(),
            answer: Some(answer),
        })
    };
    let tool = |result| {
        expected(Answer::ClientTool(pb::ClientToolAnswer {
            result: Some(result),
        }))
    };
    assert_eq!(
        answer(&["--answer", "region=eu", "--answer", "note=a=b"]),
        expected(Answer::Question(pb::QuestionAnswer {
            answers: [
                ("region".to_owned(), "eu".to_owned()),
                ("note".to_owned(), "a=b".to_owned()),
            ]
            .into(),
        }))
    );
    assert_eq!(
        answer(&["--payload", " {} "]),
        expected(Answer::External(pb::ExternalAnswer {
            payload_json: " {} ".to_owned(),
        }))
    );
    assert_eq!(
        answer(&["--result", "null"]),
        tool(End::ResultJson("null".to_owned()))
    );
    assert_eq!(
        answer(&["--error", "no clipboard"]),
        tool(End::Error("no clipboard".to_owned()))
    );
    assert_eq!(
        answer(&["--denied", "jira", "--connected", "github"]),
        expected(Answer::SignIn(pb::SignInAnswer {
            connected: vec!["github".to_owned()],
            denied: vec!["jira".to_owned()],
        }))
    );
    for mixed in [
        &[][..],
        &["--answer", "a=1", "--answer", "a=2"],
        &["--answer", "a"],
        &["--answer", "a=1", "--payload", "{}"],
        &["--payload", "{}", "--result", "{}"],
        &["--result", "{}", "--error", "e"],
        &["--error", "e", "--denied", "jira"],
        &["--connected", "a", "--answer", "a=1"],
    ] {
        assert_eq!(answer(mixed), None, "{mixed:?}");
    }
}

#[test]
fn a_cancel_has_one_target() {
    use pb::cancel_request::Target;
    let cancel = |line: &[&str]| match parse(&[&["cancel", "--by", "ops"], line].concat()) {
        Ok(ClientCommand::Cancel(command)) => Some(command.request()),
        Ok(other) => panic!("{other:?}"),
        Err(_) => None,
    };
    let expected = |target, session: &str| {
        Some(pb::CancelRequest {
            scope: Some(pb::Scope {
                session_id: session.to_owned(),
                ..Default::default()
            }),
            by: "ops".to_owned(),
            reason: String::new(),
            target: Some(target),
        })
    };
    assert_eq!(
        cancel(&["i-1"]),
        expected(Target::SuspensionId("i-1".to_owned()), "")
    );
    assert_eq!(
        cancel(&["--run", "r"]),
        expected(Target::RunId("r".to_owned()), "")
    );
    assert_eq!(
        cancel(&["--run", "r", "--session", "s"]),
        expected(Target::RunId("r".to_owned()), "s")
    );
    assert_eq!(
        cancel(&["--session", "s"]),
        expected(Target::SessionId("s".to_owned()), "")
    );
    assert_eq!(cancel(&[]), None);
    assert_eq!(cancel(&["i-1", "--run", "r"]), None);
    assert_eq!(cancel(&["i-1", "--session", "s"]), None);
}

#[test]
fn reading_and_executing_name_the_suspension() {
    match parse(&["show", "i-1", "--tenant", "acme", "--wait", "30s"]) {
        Ok(ClientCommand::Show(command)) => assert_eq!(
            command.request(),
            pb::GetSuspensionRequest {
                suspension_id: "i-1".to_owned(),
                scope: tenant("acme"),
                wait: Some(prost_types::Duration {
                    seconds: 30,
                    nanos: 0
                }),
            }
        ),
        other => panic!("{other:?}"),
    }
    let line =
        "pending --tenant acme --session s --run r --status denied --status expired --page-size 7";
    match parse(&line.split(' ').collect::<Vec<_>>()) {
        Ok(ClientCommand::Pending(command)) => assert_eq!(
            command.request("token".to_owned()),
            pb::ListSuspensionsRequest {
                tenant: "acme".to_owned(),
                session_id: "s".to_owned(),
                run_id: "r".to_owned(),
                kinds: Vec::new(),
                statuses: vec![3, 5],
                executions: Vec::new(),
                page_size: 7,
                page_token: "token".to_owned(),
            }
        ),
        other => panic!("{other:?}"),
    }
    match parse(&["claim", "i-1", "--attempt", "a", "--force", "--by", "ops"]) {
        Ok(ClientCommand::Claim(command)) => assert_eq!(
            command.request(),
            pb::ClaimRequest {
                suspension_id: "i-1".to_owned(),
                scope: tenant(""),
                attempt_id: "a".to_owned(),
                arguments_digest: String::new(),
                force: true,
                by: "ops".to_owned(),
            }
        ),
        other => panic!("{other:?}"),
    }
    let line = "complete i-1 --attempt a --outcome unknown --detail timeout";
    match parse(&line.split(' ').collect::<Vec<_>>()) {
        Ok(ClientCommand::Complete(command)) => assert_eq!(
            command.request(),
            pb::CompleteRequest {
                suspension_id: "i-1".to_owned(),
                scope: tenant(""),
                attempt_id: "a".to_owned(),
                outcome: pb::Completion::Unknown.into(),
                detail: "timeout".to_owned(),
            }
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for line in [
        "decide",
        "decide --tool t --destructive --write",
        "decide --tool t --args {} --args-file f",
        "decide --tool t --expires-in 10",
        "decide --tool t --attribute k",
        "decide --tool t --origin ftp",
        "approve i-1",
        "deny --by boss",
        "claim i-1",
        "claim i-1 --attempt a --force",
        "complete i-1 --attempt a",
        "pending --page-size 0",
        "pending --page-size 1001",
    ] {
        assert!(
            parse(&line.split(' ').collect::<Vec<_>>()).is_err(),
            "{line}"
        );
    }
}
