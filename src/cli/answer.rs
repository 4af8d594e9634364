//! `assent answer`: its flags, and the request they make. A yes or a no to a call is `approve` and `deny`.

use std::collections::HashMap;

use clap::{ArgGroup, Args};

use super::error::CliError;
use super::flags::{SuspensionFlags, key_value};
use crate::pb;
use crate::pb::client_tool_answer::Result as ToolEnd;
use crate::pb::resume_request::Answer;

/// `assent answer`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "\
Examples:
  assent answer 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by ann --answer region=eu --answer 'note=as last year'
  assent answer 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by stripe --payload '{\"id\": \"p1\"}'
  assent answer 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by desktop --result '{\"text\": \"copied\"}'
  assent answer 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by desktop --error 'no clipboard'
  assent answer 6f9d0c1e-8f0a-4c57-9d51-0a4f3f1c2b07 --by ann --connected github --denied jira

`assent show ID` tells what is asked. A call that waits for a yes or a no takes `assent approve` or
`assent deny` instead.",
    group = ArgGroup::new("said")
        .args(["answers", "payload", "result", "error", "connected", "denied"])
        .required(true)
        .multiple(true)
)]
pub struct AnswerCommand {
    /// Which suspension.
    #[command(flatten)]
    pub suspension: SuspensionFlags,
    /// Who answers; goes on record
    #[arg(long, value_name = "WHO")]
    pub by: String,
    /// A role of who answers (repeatable)
    #[arg(long = "role", value_name = "ROLE")]
    pub roles: Vec<String>,
    /// The arguments digest of a client tool's call as you saw it: refused if it is another
    #[arg(
        long,
        value_name = "SHA256",
        default_value = "",
        hide_default_value = true
    )]
    pub digest: String,
    /// The answer to one question, by its key (repeatable)
    #[arg(
        long = "answer",
        value_name = "KEY=TEXT",
        value_parser = key_value,
        conflicts_with_all = ["payload", "result", "error", "connected", "denied"]
    )]
    pub answers: Vec<(String, String)>,
    /// The payload of an external event: JSON
    #[arg(
        long,
        value_name = "JSON",
        conflicts_with_all = ["result", "error", "connected", "denied"]
    )]
    pub payload: Option<String>,
    /// What a client tool returned: JSON
    #[arg(
        long,
        value_name = "JSON",
        conflicts_with_all = ["error", "connected", "denied"]
    )]
    pub result: Option<String>,
    /// Why a client tool failed
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["connected", "denied"])]
    pub error: Option<String>,
    /// A source that was signed in to (repeatable)
    #[arg(long, value_name = "SOURCE")]
    pub connected: Vec<String>,
    /// A source that was not (repeatable)
    #[arg(long, value_name = "SOURCE")]
    pub denied: Vec<String>,
}

impl AnswerCommand {
    pub(super) fn request(&self) -> Result<pb::ResumeRequest, CliError> {
        let Self {
            suspension,
            by,
            roles,
            digest,
            answers,
            payload,
            result,
            error,
            connected,
            denied,
        } = self.clone();
        // clap lets only one kind of answer through.
        let answer = if let Some(payload_json) = payload {
            Answer::External(pb::ExternalAnswer { payload_json })
        } else if let Some(result) = result.map(ToolEnd::ResultJson) {
            client_tool(result)
        } else if let Some(error) = error.map(ToolEnd::Error) {
            client_tool(error)
        } else if answers.is_empty() {
            Answer::SignIn(pb::SignInAnswer { connected, denied })
        } else {
            let mut by_key = HashMap::new();
            for (key, text) in answers {
                if by_key.insert(key.clone(), text).is_some() {
                    return Err(CliError::AnsweredTwice(key));
                }
            }
            Answer::Question(pb::QuestionAnswer { answers: by_key })
        };
        Ok(pb::ResumeRequest {
            scope: suspension.scope(),
            suspension_id: suspension.id,
            by,
            by_roles: roles,
            arguments_digest: digest,
            answer: Some(answer),
        })
    }
}

fn client_tool(result: ToolEnd) -> Answer {
    let result = Some(result);
    Answer::ClientTool(pb::ClientToolAnswer { result })
}
