//! `assent test`: cases that say what a policy must decide, each decided as a server would.

mod report;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use self::report::{Report, Tested};
use super::offline::Offline;
use crate::cli::output::Output;
use crate::cli::view;
use crate::cli::{CliError, Exit};
use crate::domain::{Annotations, Origin};
use crate::pb;
use crate::policy::cases::{Case, CaseCall, CaseScope, Expectation, Field, TestFile};
use crate::policy::{Policy, Source, Untraced};
use crate::policy_source;

/// `assent test`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  assent test refund_test.yaml

with the policy beside it, in refund_test.yaml:
  policy: refund.yaml
  cases:
    - name: a large refund waits for a manager
      principal: {id: clerk-7, roles: [refunds]}
      call: {tool: client.issue_refund, args: {cents: 420000}, annotations: {destructiveHint: true}}
      expect: {effect: suspend, rule: big-refund}

A case may have `scope` (tenant, session, run, agent_path), `principal` (id, roles, attributes), `now`, and `port`
(what the policy port answers: allow, ask or deny; without it the port cannot be reached). `call` has tool, server,
origin, annotations, args or args_json (the JSON text as it is sent), in_program and target. `expect` has effect
(allow, deny, suspend), rule, class, reason (a part of it), selected_by, kind and judged_tool.

A directory is its *_test.yaml and *_test.yml files, without subfolders. Exit codes: 0 every case holds, 1 one does
not, 2 the cases or the policy cannot be used, or there is no case.")]
pub struct TestCommand {
    /// The cases: a YAML file, or a directory of *_test.yaml files
    #[arg(value_name = "FILE|DIR")]
    pub cases: PathBuf,
    /// The policy to test, whichever the files name
    #[arg(long, value_name = "FILE|DIR")]
    pub policy: Option<PathBuf>,
}

pub(super) async fn run(command: &TestCommand, output: &Output) -> Result<Exit, CliError> {
    let TestCommand { cases, policy } = command;
    let mut policies = HashMap::new();
    let mut report = Report::default();
    for file in files(cases)? {
        let source = Source {
            name: file.display().to_string(),
            text: fs::read_to_string(&file).map_err(|source| unreadable(&file, source))?,
        };
        let tests = TestFile::read(&source).map_err(CliError::Cases)?;
        let path = match (policy, &tests.policy) {
            (Some(path), _) => path.clone(),
            (None, Some(name)) => file.parent().unwrap_or(Path::new("")).join(name),
            (None, None) => return Err(CliError::NoPolicy(file)),
        };
        let policy = match policies.get(&path) {
            Some(policy) => Arc::clone(policy),
            None => {
                let policy = Arc::new(policy_source::load(&path).map_err(CliError::Policy)?);
                policies.insert(path, Arc::clone(&policy));
                policy
            }
        };
        for case in tests.cases {
            report.add(test(&source.name, &policy, case).await);
        }
    }
    output.print_json_value(&report.to_json())?;
    output.print_text(|_| report.page())?;
    Ok(if report.holds() {
        Exit::Success
    } else {
        Exit::Failed
    })
}

/// The file, or the test files of the directory in byte order of name.
fn files(path: &Path) -> Result<Vec<PathBuf>, CliError> {
    let unreadable = |source| unreadable(path, source);
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let is_test = name.to_str().is_some_and(|name| {
            let stem = name.strip_suffix(".yaml").or(name.strip_suffix(".yml"));
            !name.starts_with('.') && stem.is_some_and(|stem| stem.ends_with("_test"))
        });
        if is_test {
            files.push(path.join(name));
        }
    }
    if files.is_empty() {
        return Err(CliError::NoCases(path.to_owned()));
    }
    files.sort();
    Ok(files)
}

fn unreadable(path: &Path, source: std::io::Error) -> CliError {
    CliError::Unreadable {
        path: path.to_owned(),
        source,
    }
}

async fn test(file: &str, policy: &Arc<Policy>, case: Case) -> Tested {
    let Case {
        name,
        line,
        scope: case_scope,
        call,
        now,
        port,
        expect,
    } = case;
    let offline = Offline::new(policy, now, port);
    let decided = offline
        .decide(scope(case_scope), self::call(call), &mut Untraced)
        .await;
    let mut tested = Tested::new(file, line, name);
    match decided {
        Ok(decision) => {
            tested.reason.clone_from(&decision.reason);
            for Expectation { field, value } in expect {
                let got = field_of(&decision, field);
                let holds = match field {
                    Field::Reason => got.contains(&value),
                    Field::Effect
                    | Field::Rule
                    | Field::Class
                    | Field::SelectedBy
                    | Field::Kind
                    | Field::JudgedTool => got == value,
                };
                if !holds {
                    tested.fail(field.name(), value, got);
                }
            }
        }
        Err(status) => {
            let error = CliError::from_status(&status, "", &crate::cli::server::now());
            tested.fail("call", "a decision".to_owned(), error.to_string());
        }
    }
    tested
}

/// A field of a decision, in the words of `expect`.
fn field_of(decision: &pb::DecideResponse, field: Field) -> String {
    match field {
        Field::Effect => match decision.effect() {
            pb::Effect::Allow => "allow".to_owned(),
            pb::Effect::Deny => "deny".to_owned(),
            pb::Effect::Suspend => "suspend".to_owned(),
            pb::Effect::Unspecified => "nothing".to_owned(),
        },
        Field::Rule => decision.matched_rule.clone(),
        Field::Class => view::class(decision.risk_class).to_owned(),
        Field::Reason => decision.reason.clone(),
        Field::SelectedBy => decision.selected_by.clone(),
        Field::Kind => decision.kind.clone(),
        Field::JudgedTool => decision.judged_tool.clone(),
    }
}

fn scope(scope: CaseScope) -> pb::Scope {
    let CaseScope {
        tenant,
        session,
        run,
        agent_path,
        principal,
        roles,
        attributes,
    } = scope;
    pb::Scope {
        tenant,
        principal: Some(pb::Principal {
            id: principal,
            roles,
            attributes: attributes.into_iter().collect(),
        }),
        session_id: session,
        run_id: run,
        parent_run_id: String::new(),
        agent_path,
    }
}

fn call(call: CaseCall) -> pb::ToolCall {
    let CaseCall {
        tool,
        server,
        origin,
        annotations,
        arguments_json,
        in_program,
        target,
    } = call;
    let origin = match origin {
        None => pb::Origin::Unspecified,
        Some(Origin::Code) => pb::Origin::Code,
        Some(Origin::Http) => pb::Origin::Http,
        Some(Origin::Mcp) => pb::Origin::Mcp,
        Some(Origin::A2a) => pb::Origin::A2a,
        Some(Origin::Workflow) => pb::Origin::Workflow,
    };
    pb::ToolCall {
        call_id: String::new(),
        step_id: String::new(),
        tool,
        server,
        origin: origin.into(),
        annotations: annotations.map(self::annotations),
        arguments_json,
        in_program,
        parent_call_id: String::new(),
        target: target.map(|target| Box::new(self::call(*target))),
    }
}

fn annotations(annotations: Annotations) -> pb::Annotations {
    let Annotations {
        read_only_hint,
        destructive_hint,
        idempotent_hint,
        open_world_hint,
        title,
        labels,
    } = annotations;
    pb::Annotations {
        read_only_hint,
        destructive_hint,
        idempotent_hint,
        open_world_hint,
        title,
        labels,
    }
}
