//! The commands of the binary beside serving: what a person or a script asks of a running server, and of a policy's
//! files (`cli/tools.rs`).
//!
//! Here is the list of commands and how each is carried out: flags to request (`cli/flags.rs`,
//! `cli/request.rs`), the call (`cli/server.rs`), answer to text (`cli/view.rs`) or JSON (`cli/json.rs`). No
//! decision is made here, and nothing is read from the environment.

mod answer;
mod choice;
mod duration;
mod error;
mod flags;
mod health;
mod input;
mod json;
mod output;
mod request;
mod server;
mod text;
mod time;
pub mod tools;
mod view;

pub use answer::AnswerCommand;
pub use choice::{CompletionFlag, OriginFlag, StatusFlag};
pub use error::{CliError, Refusal};
pub use flags::{
    AnswerFlags, ApproveCommand, CallFlags, CancelCommand, ClaimCommand, ClassifyCommand,
    CompleteCommand, DecideCommand, DenyCommand, GrantsCommand, PendingCommand, RevokeCommand,
    ScopeFlags, ShowCommand, SuspensionFlags, WatchCommand,
};
pub use health::health;

use crate::pb;
use output::Output;
use server::Server;

/// A command against a running server.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum ClientCommand {
    /// Tell how risky a call is, and why; nothing is decided or stored
    Classify(ClassifyCommand),
    /// Decide one tool call: allow it, refuse it, or ask a person first
    Decide(DecideCommand),
    /// List what waits for an answer, the earliest deadline first
    Pending(PendingCommand),
    /// Show one suspension with all that is known about it
    Show(ShowCommand),
    /// Follow suspensions: what is now, then a line for each change, until you stop it
    Watch(WatchCommand),
    /// Approve a call that waits: it may then run once
    Approve(ApproveCommand),
    /// Decline a call that waits: it does not run
    Deny(DenyCommand),
    /// Answer a question, an external event, a client tool or a sign-in
    Answer(AnswerCommand),
    /// Withdraw one suspension, or all of a run or a session
    Cancel(CancelCommand),
    /// List the live session grants: what is allowed without asking
    Grants(GrantsCommand),
    /// End a session grant: what it allowed asks again
    Revoke(RevokeCommand),
    /// Take an approved call for execution, once, and print the arguments to run
    Claim(ClaimCommand),
    /// Record how the execution of a claimed call ended
    Complete(CompleteCommand),
}

/// How a command ended that got its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done; for `decide`, the call may run.
    Success,
    /// `decide`: a person must be asked, or has been; do not run the call now.
    Suspended,
    /// `decide`: the call is refused.
    Denied,
    /// `check` or `test`: what was looked at does not hold.
    Failed,
}

impl Exit {
    /// The exit code: 0, 1, 3 or 4. Errors have 1 and 2, see [`CliError::code`].
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Suspended => 3,
            Self::Denied => 4,
        }
    }
}

/// Carries out one command against the server at `server` (`host:port`, `http://host:port` or `unix:PATH`) and
/// prints its answer to standard output: for people, or as proto3 JSON, one document a line.
///
/// # Errors
/// When the flags make no request, the server cannot be reached or refuses, or the answer cannot be written. The
/// error's text is one sentence for the terminal.
pub async fn run(server: &str, command: ClientCommand, json: bool) -> Result<Exit, CliError> {
    let mut server = Server::at(server)?;
    let output = Output::new(json, server.flag());
    match command {
        ClientCommand::Classify(command) => {
            let answer = server.classify(command.request()?).await?;
            output.print("ClassifyResponse", &answer, |screen| {
                view::classification(&answer, screen)
            })?;
        }
        ClientCommand::Decide(command) => {
            let answer = server.decide(command.request()?).await?;
            output.print("DecideResponse", &answer, |screen| {
                view::decision(&answer, command.dry_run, screen)
            })?;
            return Ok(exit_of(&answer));
        }
        ClientCommand::Pending(command) => pending(&mut server, &command, &output).await?,
        ClientCommand::Show(command) => {
            let answer = server.get_suspension(command.request()).await?;
            output.print("Suspension", &answer, |screen| {
                view::suspension(&answer, screen)
            })?;
        }
        ClientCommand::Watch(command) => watch(&mut server, &command, &output).await?,
        ClientCommand::Approve(command) => {
            let answer = server.resume(command.request()?).await?;
            output.print("ResumeResponse", &answer, |screen| {
                view::answered(&answer, screen)
            })?;
        }
        ClientCommand::Deny(command) => {
            let answer = server.resume(command.request()).await?;
            output.print("ResumeResponse", &answer, |screen| {
                view::answered(&answer, screen)
            })?;
        }
        ClientCommand::Answer(command) => {
            let answer = server.resume(command.request()?).await?;
            output.print("ResumeResponse", &answer, |screen| {
                view::answered(&answer, screen)
            })?;
        }
        ClientCommand::Cancel(command) => {
            let answer = server.cancel(command.request()).await?;
            output.print("CancelResponse", &answer, |_| {
                view::cancelled(&answer, command.ends())
            })?;
        }
        ClientCommand::Grants(command) => grants(&mut server, &command, &output).await?,
        ClientCommand::Revoke(command) => {
            let answer = server.revoke_grant(command.request()).await?;
            output.print("Grant", &answer, |screen| view::revoked(&answer, screen))?;
        }
        ClientCommand::Claim(command) => {
            let answer = server.claim(command.request()).await?;
            output.print("ClaimResponse", &answer, |screen| {
                view::claimed(&answer, &command.attempt, screen)
            })?;
        }
        ClientCommand::Complete(command) => {
            let answer = server.complete(command.request()).await?;
            output.print("Suspension", &answer, |screen| {
                view::suspension(&answer, screen)
            })?;
        }
    }
    Ok(Exit::Success)
}

/// Only ALLOW is success: `assent decide … && run-the-tool` must not run what is refused or waits.
fn exit_of(answer: &pb::DecideResponse) -> Exit {
    match pb::Effect::try_from(answer.effect) {
        Ok(pb::Effect::Allow) => Exit::Success,
        Ok(pb::Effect::Suspend) => Exit::Suspended,
        Ok(pb::Effect::Deny | pb::Effect::Unspecified) | Err(_) => Exit::Denied,
    }
}

/// A line for each suspension as it is and for each change, until nobody reads them or the server ends it, which it does
/// when it stops.
async fn watch(
    server: &mut Server,
    command: &WatchCommand,
    output: &Output,
) -> Result<(), CliError> {
    let mut events = server.watch_suspensions(command.request()).await?;
    while let Some(event) = events.next().await? {
        output.print("WatchEvent", &event, |screen| view::watched(&event, screen))?;
        if output.is_unread() {
            return Ok(());
        }
    }
    output.print_text(|_| "the server has ended the watch: run it again\n".to_owned())
}

/// One page, or with `--all` every page: a table of them all, or a JSON document for each.
async fn pending(
    server: &mut Server,
    command: &PendingCommand,
    output: &Output,
) -> Result<(), CliError> {
    let mut listed = Vec::new();
    let more = pages(command.all, async |token| {
        let page = server.list_suspensions(command.request(token)).await?;
        output.print_json("ListSuspensionsResponse", &page)?;
        if !output.json() {
            listed.extend(page.suspensions);
        }
        Ok(page.next_page_token)
    })
    .await?;
    output.print_text(|screen| view::listing(&listed, more, screen))
}

/// As [`pending`], for grants.
async fn grants(
    server: &mut Server,
    command: &GrantsCommand,
    output: &Output,
) -> Result<(), CliError> {
    let mut listed = Vec::new();
    let more = pages(command.all, async |token| {
        let page = server.list_grants(command.request(token)).await?;
        output.print_json("ListGrantsResponse", &page)?;
        if !output.json() {
            listed.extend(page.grants);
        }
        Ok(page.next_page_token)
    })
    .await?;
    output.print_text(|screen| view::grants(&listed, more, screen))
}

/// Goes over the first page or, where `all` are wanted, every page, and tells whether the server has more. `page` takes
/// the one of a token, and says the token of the next.
async fn pages(
    all: bool,
    mut page: impl AsyncFnMut(String) -> Result<String, CliError>,
) -> Result<bool, CliError> {
    let mut token = String::new();
    loop {
        let next = page(token.clone()).await?;
        // A server that hands out the token it was given would keep us here for ever.
        let stuck = next == token;
        token = next;
        if stuck || token.is_empty() || !all {
            return Ok(!token.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allow_is_success() {
        let exit = |effect: i32| {
            exit_of(&pb::DecideResponse {
                effect,
                ..Default::default()
            })
        };
        assert_eq!(
            [0, 1, 2, 3, 9].map(exit),
            [
                Exit::Denied,
                Exit::Success,
                Exit::Denied,
                Exit::Suspended,
                Exit::Denied
            ]
        );
        assert_eq!(
            [Exit::Success, Exit::Failed, Exit::Suspended, Exit::Denied].map(Exit::code),
            [0, 1, 3, 4]
        );
    }
}
