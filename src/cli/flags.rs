//! The flags of the client commands and the help that goes with them. What they become is in `request.rs`.

use std::path::PathBuf;

use clap::Args;
use prost_types::Duration;

use super::choice::{CompletionFlag, OriginFlag, StatusFlag};
use super::duration;

const ASKING: &str = "How it is decided";

/// Where a call comes from and on whose behalf.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Where the call comes from")]
pub struct ScopeFlags {
    /// The tenant; none is a tenant of its own
    #[arg(long, default_value = "", hide_default_value = true)]
    pub tenant: String,
    /// The session: the conversation or job, shared by subagents
    #[arg(long, default_value = "", hide_default_value = true)]
    pub session: String,
    /// The run; with a call or step id, asking again then finds the same suspension
    #[arg(long, default_value = "", hide_default_value = true)]
    pub run: String,
    /// Who the agent acts for
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub principal: String,
    /// A role of the principal (repeatable)
    #[arg(long = "role", value_name = "ROLE")]
    pub roles: Vec<String>,
    /// A fact about the principal, for rules to read (repeatable)
    #[arg(long = "attribute", value_name = "KEY=VALUE", value_parser = key_value)]
    pub attributes: Vec<(String, String)>,
    /// The agents from the root to the one that calls, root first (repeatable)
    #[arg(long = "agent-path", value_name = "AGENT")]
    pub agent_path: Vec<String>,
}

/// The call itself, the same for `classify` and `decide`.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "The call")]
pub struct CallFlags {
    /// The stable id of the tool, such as `client.issue_refund`
    #[arg(long, value_name = "ID")]
    pub tool: String,
    /// The arguments: one JSON object, sent as it is written
    #[arg(long, value_name = "JSON")]
    pub args: Option<String>,
    /// Read the arguments from a file, or from standard input if it is `-`
    #[arg(long, value_name = "FILE", conflicts_with = "args")]
    pub args_file: Option<PathBuf>,
    /// The tool may destroy: MCP's destructiveHint = true
    #[arg(long, conflicts_with = "write")]
    pub destructive: bool,
    /// The tool changes nothing: MCP's readOnlyHint = true
    #[arg(long)]
    pub read_only: bool,
    /// The tool changes something but destroys nothing: MCP's destructiveHint = false
    #[arg(long)]
    pub write: bool,
    /// The tool's name for people: MCP's title
    #[arg(long, default_value = "", hide_default_value = true)]
    pub title: String,
    /// A label: `read-only`, `write` or `destructive` (repeatable)
    #[arg(long = "label", value_name = "LABEL")]
    pub labels: Vec<String>,
    /// The MCP server that offers the tool
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub mcp_server: String,
    /// Where the tool runs
    #[arg(long, value_enum)]
    pub origin: Option<OriginFlag>,
    /// The id of the call, unique in its run
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub call_id: String,
    /// The id of a workflow step, instead of a call id
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub step_id: String,
    /// A program that the model wrote makes the call, and cannot wait for a person
    #[arg(long)]
    pub in_program: bool,
}

/// `assent classify`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  assent classify --tool client.lookup_order --read-only
  assent classify --tool client.issue_refund --destructive --args '{\"cents\": 420000}'

A tool without any hint, label or title is a write. Rules are not asked here: for the whole answer use
`assent decide --dry-run`.")]
pub struct ClassifyCommand {
    /// The call.
    #[command(flatten)]
    pub call: CallFlags,
}

/// `assent decide`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  assent decide --tool client.issue_refund --args '{\"cents\": 420000}' --destructive
  assent decide --tool client.lookup_order --read-only --dry-run
  assent decide --tool client.issue_refund --args-file refund.json --destructive \\
      --session s-1 --run r-1 --call-id c-1 --principal user-7 --role support

Exit codes: 0 allow, 3 suspend (a person must be asked, or has been), 4 deny; 1 and 2 are errors. So
`assent decide … && run-the-tool` runs nothing that is not allowed.

The call that waits: `assent pending` lists it, `assent approve ID --by YOU` answers, and
`assent claim ID --attempt A` gives the arguments to run, once.")]
pub struct DecideCommand {
    /// The call.
    #[command(flatten)]
    pub call: CallFlags,
    /// Where it comes from.
    #[command(flatten)]
    pub scope: ScopeFlags,
    /// How long a person may take, such as `10m`; it can only shorten what policy says
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = duration::parse,
        help_heading = ASKING
    )]
    pub expires_in: Option<Duration>,
    /// The call is asked about again: let what is recorded for it answer (needs --run and an id)
    #[arg(long, help_heading = ASKING)]
    pub resumed: bool,
    /// Decide and explain, but ask nobody and store nothing
    #[arg(long, help_heading = ASKING)]
    pub dry_run: bool,
}

/// `assent pending`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  assent pending
  assent pending --tenant acme --session s-1
  assent pending --status approved --status denied --all
  assent pending --all --json | jq -r '.suspensions[]?.id'

With --all, --json prints one document for each page.")]
pub struct PendingCommand {
    /// The tenant; none is a tenant of its own
    #[arg(long, default_value = "", hide_default_value = true)]
    pub tenant: String,
    /// Only of this session
    #[arg(long, default_value = "", hide_default_value = true)]
    pub session: String,
    /// Only of this run
    #[arg(long, default_value = "", hide_default_value = true)]
    pub run: String,
    /// Only with this status instead of pending (repeatable)
    #[arg(long = "status", value_name = "STATUS", value_enum)]
    pub statuses: Vec<StatusFlag>,
    /// How many to ask for at once, at most 1000
    #[arg(
        long,
        value_name = "N",
        default_value_t = 50,
        value_parser = clap::value_parser!(i32).range(1..=1000)
    )]
    pub page_size: i32,
    /// List all of them, not the first page only
    #[arg(long)]
    pub all: bool,
}

/// Which suspension.
#[derive(Clone, Debug, Args)]
pub struct SuspensionFlags {
    /// The suspension's id
    pub id: String,
    /// Its tenant
    #[arg(long, default_value = "", hide_default_value = true)]
    pub tenant: String,
}

/// `assent show`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  assent show 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07
  assent show 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --wait 30s

Whatever others wrote is printed with control and direction characters spelled out, such as \\u{202e}.")]
pub struct ShowCommand {
    /// Which suspension.
    #[command(flatten)]
    pub suspension: SuspensionFlags,
    /// Wait up to so long for an answer while it is pending, at most `5m`
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub wait: Option<Duration>,
}

/// `assent watch`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  assent watch
  assent watch --tenant acme --session s-1
  assent watch --run r-1 --json | jq -c 'select(.suspension.status == \"SUSPENSION_STATUS_PENDING\") | .suspension.id'
  assent watch 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07

First what is open (of suspensions, a session or a run also what has ended), then a line for each change. It ends with
Ctrl-C, which changes nothing, or when the server stops.")]
pub struct WatchCommand {
    /// Only these suspensions
    #[arg(value_name = "ID", conflicts_with_all = ["session", "run"])]
    pub ids: Vec<String>,
    /// The tenant; none is a tenant of its own
    #[arg(long, default_value = "", hide_default_value = true)]
    pub tenant: String,
    /// Only of this session
    #[arg(long, default_value = "", hide_default_value = true)]
    pub session: String,
    /// Only of this run, and of the runs that descend from it
    #[arg(long, default_value = "", hide_default_value = true)]
    pub run: String,
}

/// What every answer to a suspension has.
#[derive(Clone, Debug, Args)]
pub struct AnswerFlags {
    /// Which suspension.
    #[command(flatten)]
    pub suspension: SuspensionFlags,
    /// Who decides; goes on record
    #[arg(long, value_name = "WHO")]
    pub by: String,
    /// A role of who decides, where policy wants one (repeatable)
    #[arg(long = "role", value_name = "ROLE")]
    pub roles: Vec<String>,
    /// Why; on a denial the model is told
    #[arg(long, default_value = "", hide_default_value = true)]
    pub reason: String,
    /// The arguments digest as you saw it: refused if it is another
    #[arg(
        long,
        value_name = "SHA256",
        default_value = "",
        hide_default_value = true
    )]
    pub digest: String,
}

/// `assent approve`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  assent approve 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by manager-7
  assent approve 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by manager-7 --role manager --reason 'seen the receipt'
  assent approve 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by manager-7 --edit-args '{\"cents\": 100000}'
  assent approve 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by manager-7 --for-session

Look at it first: `assent show ID`. An approval is for one execution, which `assent claim` takes. With
--for-session the same call, with the same arguments, by the same principal and agent in the same session,
is allowed without asking afterwards: `assent grants` lists such grants and `assent revoke` ends one.")]
pub struct ApproveCommand {
    /// Who answers what.
    #[command(flatten)]
    pub answer: AnswerFlags,
    /// Approve these arguments instead: one JSON object
    #[arg(long, value_name = "JSON")]
    pub edit_args: Option<String>,
    /// Allow the same call again in this session without asking, until the grant ends
    #[arg(long)]
    pub for_session: bool,
}

/// `assent grants`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  assent grants
  assent grants --tenant acme --session s-1
  assent grants --all --json | jq -r '.grants[]?.id'

With --all, --json prints one document for each page.")]
pub struct GrantsCommand {
    /// The tenant; none is a tenant of its own
    #[arg(long, default_value = "", hide_default_value = true)]
    pub tenant: String,
    /// Only of this session
    #[arg(long, default_value = "", hide_default_value = true)]
    pub session: String,
    /// How many to ask for at once, at most 1000
    #[arg(
        long,
        value_name = "N",
        default_value_t = 50,
        value_parser = clap::value_parser!(i32).range(1..=1000)
    )]
    pub page_size: i32,
    /// List all of them, not the first page only
    #[arg(long)]
    pub all: bool,
}

/// `assent revoke`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  assent revoke 5b1f7d2a-3c8e-4e0b-a6f4-9d0c2e7b1a05 --by manager-7

What the grant allowed asks again from now on. Repeating it is harmless.")]
pub struct RevokeCommand {
    /// The grant's id
    pub id: String,
    /// Its tenant
    #[arg(long, default_value = "", hide_default_value = true)]
    pub tenant: String,
    /// Who revokes; goes on record
    #[arg(long, value_name = "WHO")]
    pub by: String,
}

/// `assent deny`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  assent deny 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by manager-7 --reason 'over the limit'")]
pub struct DenyCommand {
    /// Who answers what.
    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// `assent cancel`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "\
Examples:
  assent cancel 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by ops --reason 'opened by mistake'
  assent cancel --run r-1 --session s-1 --by ops
  assent cancel --session s-1 --by ops

What is pending is cancelled, what is approved and unclaimed is voided. A cancelled run or session opens
nothing new. Repeating it is harmless.",
    group = clap::ArgGroup::new("target").args(["id", "run", "session"]).required(true).multiple(true)
)]
pub struct CancelCommand {
    /// One suspension, by its id
    #[arg(conflicts_with_all = ["run", "session"])]
    pub id: Option<String>,
    /// All suspensions of this run
    #[arg(long)]
    pub run: Option<String>,
    /// All suspensions of this session, and its grants; beside --run, the session of that run
    #[arg(long)]
    pub session: Option<String>,
    /// The tenant
    #[arg(long, default_value = "", hide_default_value = true)]
    pub tenant: String,
    /// Who withdraws; goes on record
    #[arg(long, value_name = "WHO")]
    pub by: String,
    /// Why
    #[arg(long, default_value = "", hide_default_value = true)]
    pub reason: String,
}

/// `assent claim`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  assent claim 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --attempt a-1
  assent claim 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --attempt a-1 --json | jq -r .argumentsJson | run-the-tool

Exactly one attempt gets the arguments. Run these and no others, then `assent complete` before the lease ends;
else the execution is in doubt, and only --force takes it over.")]
pub struct ClaimCommand {
    /// Which suspension.
    #[command(flatten)]
    pub suspension: SuspensionFlags,
    /// An id for this execution: fresh for each, the same when you repeat the command
    #[arg(long, value_name = "ID")]
    pub attempt: String,
    /// The arguments digest as you saw it: refused if it is another
    #[arg(
        long,
        value_name = "SHA256",
        default_value = "",
        hide_default_value = true
    )]
    pub digest: String,
    /// Take over an execution that is in doubt: the call may then run a second time
    #[arg(long, requires = "by")]
    pub force: bool,
    /// Who claims; goes on record
    #[arg(long, value_name = "WHO")]
    pub by: Option<String>,
}

/// `assent complete`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  assent complete 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --attempt a-1 --outcome success")]
pub struct CompleteCommand {
    /// Which suspension.
    #[command(flatten)]
    pub suspension: SuspensionFlags,
    /// The attempt that claimed it
    #[arg(long, value_name = "ID")]
    pub attempt: String,
    /// How the execution ended
    #[arg(long, value_enum)]
    pub outcome: CompletionFlag,
    /// More on the outcome, for people
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub detail: String,
}

/// Why a text is no `KEY=VALUE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write KEY=VALUE, such as `department=sales`")]
pub(super) struct KeyValueError;

pub(super) fn key_value(text: &str) -> Result<(String, String), KeyValueError> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err(KeyValueError),
    }
}
