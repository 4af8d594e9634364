//! `assent explain`: one decision, step by step, as the service that decides tells it.

mod steps;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use prost_types::Timestamp as WireTime;
use serde_json::json;

use super::offline::Offline;
use crate::cli::output::Output;
use crate::cli::{CallFlags, CliError, Exit, ScopeFlags, exit_of, json as wire_json, server, view};
use crate::domain::{Decision, Timestamp};
use crate::engine::Step;
use crate::policy_source;

/// `assent explain`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  assent explain --policy policy.yaml --tool client.issue_refund --args '{\"cents\": 420000}' --destructive \\
      --principal clerk-7 --role refunds

It says of each rule for the tool why it was skipped, decided or failed. No server is asked and nothing is
recorded, so recorded answers and grants have no part in it. The exit codes are those of `assent decide`.")]
pub struct ExplainCommand {
    /// The policy: a YAML file, or a directory of *.yaml and *.yml files
    #[arg(long, value_name = "FILE|DIR")]
    pub policy: PathBuf,
    /// The call.
    #[command(flatten)]
    pub call: CallFlags,
    /// Where it comes from.
    #[command(flatten)]
    pub scope: ScopeFlags,
    /// The time that conditions read, as in `2026-01-02T10:00:00Z`; without it, now
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = "How it is decided")]
    pub now: Option<Timestamp>,
    /// What the policy port answers; without it, the port cannot be reached
    #[arg(long, value_enum, help_heading = "How it is decided")]
    pub port: Option<PortFlag>,
}

/// What a policy port answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PortFlag {
    /// It may run
    Allow,
    /// A person must be asked
    Ask,
    /// It is refused
    Deny,
}

impl PortFlag {
    fn decision(self) -> Decision {
        match self {
            Self::Allow => Decision::Allow,
            Self::Ask => Decision::Ask,
            Self::Deny => Decision::Deny,
        }
    }
}

/// Why a text is no moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write it as in `2026-01-02T10:00:00Z`")]
struct MomentError;

fn moment(text: &str) -> Result<Timestamp, MomentError> {
    let WireTime { seconds, nanos } = text.parse().map_err(|_| MomentError)?;
    let millis = seconds.checked_mul(1000).ok_or(MomentError)?;
    Ok(Timestamp::from_millis(
        millis.saturating_add(i64::from(nanos / 1_000_000)),
    ))
}

pub(super) async fn run(command: &ExplainCommand, output: &Output) -> Result<Exit, CliError> {
    let ExplainCommand {
        policy,
        call,
        scope,
        now,
        port,
    } = command;
    let policy = Arc::new(policy_source::load(policy).map_err(CliError::Policy)?);
    let offline = Offline::new(&policy, *now, port.map(PortFlag::decision));
    let mut trace: Vec<Step> = Vec::new();
    let mut answer = offline
        .decide(scope.scope(), call.call()?, &mut trace)
        .await
        .map_err(|status| CliError::from_status(&status, "", &server::now()))?;
    // Nothing was decided that a log could have under this id.
    answer.decision_id.clear();
    let steps = steps::all(&policy, &trace);
    if output.json() {
        let decision = wire_json::to_value("DecideResponse", &answer)?;
        let steps: Vec<_> = steps.iter().map(steps::to_json).collect();
        output.print_json_value(&json!({"steps": steps, "decision": decision}))?;
    }
    output.print_text(|screen| {
        let mut page = steps::page(&steps, screen);
        page.push_str(&view::decision(&answer, false, screen));
        page
    })?;
    Ok(exit_of(&answer))
}
