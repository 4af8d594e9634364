//! Whether an answer fits what was asked (S6, step 8): edits, keys and options, sources. Whether a payload
//! fits its JSON Schema takes longer and is found out elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use super::{Answer, Approval, Body, GrantScope, Kind, Matter, Question, Refusal, SignIn, Subject};
use crate::domain::{Id, ToolCall};

/// Checks an answer of the right kind.
pub(super) fn check_fit(body: &Body, answer: &Answer) -> Result<(), Refusal> {
    let matter = match &body.subject {
        Subject::Call(_) | Subject::Run(_) => None,
        Subject::Wait(wait) => Some(&wait.matter),
    };
    match (answer, matter) {
        (Answer::Approval(approval), None) => {
            check_edit(body, approval)?;
            check_grant(body, approval)
        }
        (Answer::Question(answers), Some(Matter::Question(questions))) => {
            check_answers(questions, answers)
        }
        (Answer::SignIn(sign_in), Some(Matter::SignIn(sources))) => check_sources(sources, sign_in),
        (Answer::External(_), Some(Matter::External { .. }))
        | (Answer::ClientTool(_), Some(Matter::ClientTool(_))) => Ok(()),
        (
            Answer::Approval(_)
            | Answer::Question(_)
            | Answer::External(_)
            | Answer::ClientTool(_)
            | Answer::SignIn(_),
            _,
        ) => Err(Refusal::KindMismatch(takes(body.kind()))),
    }
}

fn check_edit(body: &Body, approval: &Approval) -> Result<(), Refusal> {
    if approval.edited_arguments.is_none() {
        return Ok(());
    }
    let call = body.call();
    let message = if body.approvers.quorum > 1 {
        "an approval that needs several people takes no edited arguments: they would approve different calls"
    } else if call.is_none() {
        "a run start has no arguments to edit"
    } else if call.and_then(ToolCall::unresolved).is_some() {
        "it is not known for sure which tool these arguments name, so they cannot be edited: deny the call, and the agent can make another"
    } else {
        return Ok(());
    };
    Err(Refusal::Invalid {
        field: "approval.edited_arguments_json",
        message: message.into(),
    })
}

/// Whether there is anything that a grant could hold for, and one person could give it.
fn check_grant(body: &Body, approval: &Approval) -> Result<(), Refusal> {
    if approval.grant_scope == GrantScope::Once {
        return Ok(());
    }
    let message = if body.scope.session_id.is_empty() {
        "the suspension has no session that a grant could hold for"
    } else if body.call().is_none() {
        "a run start is granted once"
    } else if body.call().and_then(ToolCall::unresolved).is_some() {
        "nobody knows for sure what the call runs, so it is approved once"
    } else if body.approvers.quorum > 1 {
        "what several people must approve is not granted by one"
    } else {
        return Ok(());
    };
    Err(Refusal::Invalid {
        field: "approval.grant_scope",
        message: message.into(),
    })
}

/// Every question is answered, and nothing else is.
fn check_answers(questions: &[Question], answers: &BTreeMap<Id, String>) -> Result<(), Refusal> {
    let invalid = |message: String| {
        Err(Refusal::Invalid {
            field: "question.answers",
            message: message.into(),
        })
    };
    for Question {
        key,
        text: _,
        options,
        options_only,
    } in questions
    {
        match answers.get(key) {
            None => return invalid(format!("`{key}` is not answered")),
            Some(answer) if *options_only && !options.contains(answer) => {
                let options: Vec<String> = options.iter().map(|o| format!("`{o}`")).collect();
                return invalid(format!(
                    "`{key}` takes one of {} and nothing else",
                    options.join(", ")
                ));
            }
            Some(_) => {}
        }
    }
    let is_asked = |key: &Id| questions.iter().any(|question| question.key == *key);
    match answers.keys().find(|key| !is_asked(key)) {
        Some(stray) => invalid(format!("`{stray}` was not asked")),
        None => Ok(()),
    }
}

/// Every source is in exactly one of the lists, and nothing else is.
fn check_sources(sources: &[Id], sign_in: &SignIn) -> Result<(), Refusal> {
    let SignIn { connected, denied } = sign_in;
    let invalid = |field, message: String| {
        Err(Refusal::Invalid {
            field,
            message: message.into(),
        })
    };
    if let Some(both) = connected.intersection(denied).next() {
        return invalid("sign_in.denied", format!("`{both}` is connected as well"));
    }
    let asked: BTreeSet<&Id> = sources.iter().collect();
    for (field, list) in [("sign_in.connected", connected), ("sign_in.denied", denied)] {
        if let Some(stray) = list.iter().find(|source| !asked.contains(source)) {
            return invalid(field, format!("`{stray}` was not asked for"));
        }
    }
    match sources
        .iter()
        .find(|source| !connected.contains(*source) && !denied.contains(*source))
    {
        Some(missing) => invalid(
            "sign_in.connected",
            format!("`{missing}` is in neither list"),
        ),
        None => Ok(()),
    }
}

/// What a suspension of a kind wants to hear, in the words of the request.
pub(super) fn takes(kind: Kind) -> &'static str {
    match kind {
        Kind::Approval => {
            "this takes an approval: say `approval.approved`, true or false, as there is no default"
        }
        Kind::Question => "this asks questions: answer in `question.answers`",
        Kind::External => "this waits for a payload: send it in `external.payload_json`",
        Kind::ClientTool => {
            "this waits for the result of a client tool: send `client_tool.result_json` or `client_tool.error`"
        }
        Kind::SignIn => {
            "this waits for a sign-in: name each source in `sign_in.connected` or `sign_in.denied`"
        }
    }
}
