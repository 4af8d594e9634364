//! What was asked: the five kinds of wait, and when two of them ask the same.

use serde::{Deserialize, Serialize};

use crate::arguments::{Digest, Json};
use crate::domain::{ApproverRule, Id, OnExpiry, RiskClass, RunStart, Scope, ToolCall};

/// What was asked: written once, when the suspension is opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Body {
    /// Where, and on whose behalf.
    pub scope: Scope,
    /// What waits.
    pub subject: Subject,
    /// The class the call was judged to have; none where nothing was judged.
    pub risk_class: Option<RiskClass>,
    /// A short name for people; may be empty.
    pub title: String,
    /// Why a person is asked.
    pub reason: String,
    /// The digest of the call's tool and arguments; none where there is no call.
    pub arguments_digest: Option<Digest>,
    /// What happens when nobody answers.
    pub on_expiry: OnExpiry,
    /// Who may answer.
    pub approvers: ApproverRule,
    /// What in policy decided: a rule id, `default` or `mode`; empty where no rules were asked.
    pub matched_rule: String,
    /// The revision of the policy that it was opened under.
    pub policy_revision: String,
}

/// What waits for an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A tool call or a workflow step that needs an approval.
    Call(Box<ToolCall>),
    /// A run start that needs an approval.
    Run(RunStart),
    /// Anything that is no approval.
    Wait(Box<Wait>),
}

/// What a runtime waits for, and in which of its calls or steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// The call that waits; may be empty.
    pub call_id: Id,
    /// The workflow step that waits; may be empty.
    pub step_id: Id,
    /// For what.
    pub matter: Matter,
}

/// What is awaited, where it is no approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Matter {
    /// Answers to questions: at least one, each with a key of its own.
    Question(Vec<Question>),
    /// A payload from outside.
    External {
        /// The name of the event; may be empty.
        event: String,
        /// The JSON Schema that the payload must fit; without one any JSON does.
        schema: Option<Json>,
    },
    /// The result of a tool that the client runs.
    ClientTool(ToolCall),
    /// The user signing in to these sources: at least one, each once.
    SignIn(Vec<Id>),
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Under which it is answered.
    pub key: Id,
    /// As people read it.
    pub text: String,
    /// Answers to offer.
    pub options: Vec<String>,
    /// Whether only these are accepted.
    pub options_only: bool,
}

/// The five kinds of wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// May this call run?
    Approval,
    /// What does the person say?
    Question,
    /// What does the webhook bring?
    External,
    /// What did the client's own tool return?
    ClientTool,
    /// Which sources did the person connect?
    SignIn,
}

impl Body {
    /// Which of the five kinds this is.
    pub fn kind(&self) -> Kind {
        match &self.subject {
            Subject::Call(_) | Subject::Run(_) => Kind::Approval,
            Subject::Wait(wait) => wait.matter.kind(),
        }
    }

    /// The call that waits for an approval or for its result, if it is a call.
    pub fn call(&self) -> Option<&ToolCall> {
        match &self.subject {
            Subject::Call(call) => Some(call),
            Subject::Run(_) => None,
            Subject::Wait(wait) => match &wait.matter {
                Matter::ClientTool(call) => Some(call),
                Matter::Question(_) | Matter::External { .. } | Matter::SignIn(_) => None,
            },
        }
    }

    /// The JSON Schema that the answer must fit, if there is one.
    pub fn schema(&self) -> Option<&Json> {
        match &self.subject {
            Subject::Call(_) | Subject::Run(_) => None,
            Subject::Wait(wait) => match &wait.matter {
                Matter::External { schema, .. } => schema.as_ref(),
                Matter::Question(_) | Matter::ClientTool(_) | Matter::SignIn(_) => None,
            },
        }
    }

    /// Whether `other` asks about the very same thing, so that one answer serves both: the same tool
    /// of the same server with the same arguments, the same version of the agent, or the same wait in
    /// the same words. Scope and expiry do not count. What an unresolved wrapper call would run is
    /// another thing than the call in whose place it was judged.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        match (&self.subject, &other.subject) {
            (Subject::Call(mine), Subject::Call(theirs)) => {
                mine.tool == theirs.tool
                    && mine.server == theirs.server
                    && mine.unresolved() == theirs.unresolved()
                    && self.arguments_digest == other.arguments_digest
            }
            (Subject::Run(mine), Subject::Run(theirs)) => mine == theirs,
            (Subject::Wait(mine), Subject::Wait(theirs)) => {
                mine == theirs && self.title == other.title && self.reason == other.reason
            }
            (Subject::Call(_) | Subject::Run(_) | Subject::Wait(_), _) => false,
        }
    }
}

impl Matter {
    /// Which of the kinds but an approval this is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Question(_) => Kind::Question,
            Self::External { .. } => Kind::External,
            Self::ClientTool(_) => Kind::ClientTool,
            Self::SignIn(_) => Kind::SignIn,
        }
    }
}
