//! Answers to suspensions: wire -> domain. Whether an answer fits what was asked is the engine's to say.

use std::collections::{BTreeMap, BTreeSet};

use super::{Converted, scope};
use crate::arguments::Json;
use crate::domain::{Id, MAX_TEXT_BYTES, Scope};
use crate::grpc::convert::field::{self, InvalidField, known};
use crate::pb;
use crate::pb::client_tool_answer::Result as ToolEnd;
use crate::policy::Limits;
use crate::suspension::{
    Answer, Approval, GrantScope, Refusal, Reply, SignIn, SuspensionId, ToolResult,
};

/// An answer, and to which suspension of which tenant.
pub(in crate::grpc) struct Resume {
    pub(in crate::grpc) tenant: Id,
    pub(in crate::grpc) id: SuspensionId,
    pub(in crate::grpc) reply: Reply,
}

/// An answer. Whether it fits what was asked is the engine's to say.
pub(in crate::grpc) fn resume(wire: pb::ResumeRequest, limits: &Limits) -> Converted<Resume> {
    let pb::ResumeRequest {
        suspension_id,
        scope: wire_scope,
        by,
        by_roles,
        arguments_digest,
        answer,
    } = wire;
    let id = field::record_id("suspension_id", &suspension_id)?;
    let Scope { tenant, .. } = scope(wire_scope)?;
    let by = field::required_id("by", by)?;
    let by_roles = field::entries("by_roles", by_roles)?;
    let arguments_digest = field::digest("arguments_digest", &arguments_digest)?;
    let (answer, flaw) = match answer {
        Some(wire) => self::answer(wire, limits)?,
        None => (None, None),
    };
    let reply = Reply {
        by,
        by_roles,
        arguments_digest,
        answer,
        flaw,
    };
    Ok(Resume { tenant, id, reply })
}

/// What was answered, and what is wrong with its content. No answer when the decision is left out.
type Answered = (Option<Answer>, Option<Refusal>);

fn answer(wire: pb::resume_request::Answer, limits: &Limits) -> Converted<Answered> {
    use pb::resume_request::Answer as Wire;
    match wire {
        Wire::Approval(wire) => approval(wire, limits),
        Wire::Question(pb::QuestionAnswer { answers }) => {
            let mut said = BTreeMap::new();
            for (key, answer) in answers {
                field::sized("question.answers", &answer, MAX_TEXT_BYTES)?;
                said.insert(field::required_id("question.answers", key)?, answer);
            }
            Ok((Some(Answer::Question(said)), None))
        }
        Wire::External(pb::ExternalAnswer { payload_json }) => {
            let (payload, flaw) = json("external.payload_json", &payload_json, limits)?;
            Ok((Some(Answer::External(payload)), flaw))
        }
        Wire::ClientTool(pb::ClientToolAnswer { result }) => {
            let (result, flaw) = match result {
                Some(ToolEnd::ResultJson(text)) => {
                    let (result, flaw) = json("client_tool.result_json", &text, limits)?;
                    (ToolResult::Returned(result), flaw)
                }
                Some(ToolEnd::Error(error)) => {
                    let path = "client_tool.error";
                    field::sized(path, &error, limits.max_payload_bytes)?;
                    if error.is_empty() {
                        return Err(InvalidField::new(path, "must say why the tool failed"));
                    }
                    (ToolResult::Failed(error), None)
                }
                None => return Err(InvalidField::missing("client_tool.result")),
            };
            Ok((Some(Answer::ClientTool(result)), flaw))
        }
        Wire::SignIn(pb::SignInAnswer { connected, denied }) => {
            let sign_in = SignIn {
                connected: sources("sign_in.connected", connected)?,
                denied: sources("sign_in.denied", denied)?,
            };
            Ok((Some(Answer::SignIn(sign_in)), None))
        }
    }
}

/// A payload or a result. One that is no JSON is a flaw, beside which a stand-in will not be looked at.
fn json(path: &'static str, text: &str, limits: &Limits) -> Converted<(Json, Option<Refusal>)> {
    let limit = limits.max_payload_bytes;
    field::sized(path, text, limit)?;
    Ok(match field::json(path, text, limit) {
        Ok(value) => (value, None),
        Err(InvalidField { path: _, message }) => {
            let message = message.into();
            let flaw = Refusal::Invalid {
                field: path,
                message,
            };
            (Json::null(), Some(flaw))
        }
    })
}

fn sources(path: &'static str, wire: Vec<String>) -> Converted<BTreeSet<Id>> {
    let mut sources = BTreeSet::new();
    for source in wire {
        let source = field::required_id(path, source)?;
        if sources.contains(&source) {
            return Err(InvalidField::new(path, format!("names `{source}` twice")));
        }
        sources.insert(source);
    }
    Ok(sources)
}

fn approval(wire: pb::Approval, limits: &Limits) -> Converted<Answered> {
    const EDITS: &str = "approval.edited_arguments_json";
    const SCOPE: &str = "approval.grant_scope";
    let pb::Approval {
        approved,
        reason,
        grant_scope,
        edited_arguments_json,
    } = wire;
    let reason = field::text("approval.reason", reason)?;
    let grant_scope = match known(SCOPE, grant_scope)? {
        pb::GrantScope::Unspecified => GrantScope::Once,
        pb::GrantScope::Session if approved == Some(false) => {
            return Err(InvalidField::new(SCOPE, "a denial grants nothing"));
        }
        pb::GrantScope::Session if !edited_arguments_json.is_empty() => {
            return Err(InvalidField::new(
                SCOPE,
                "a grant is for the call as it was asked about, so it cannot stand beside edited arguments",
            ));
        }
        pb::GrantScope::Session => GrantScope::Session,
    };
    let (edited_arguments, flaw) = if edited_arguments_json.is_empty() {
        (None, None)
    } else if approved == Some(false) {
        return Err(InvalidField::new(EDITS, "a denial edits nothing"));
    } else {
        match field::arguments(EDITS, &edited_arguments_json, limits.max_arguments_bytes) {
            Ok(arguments) => (Some(arguments), None),
            Err(InvalidField { path: _, message }) => {
                let message = message.into();
                (
                    None,
                    Some(Refusal::Invalid {
                        field: EDITS,
                        message,
                    }),
                )
            }
        }
    };
    let answer = approved.map(|approved| {
        Answer::Approval(Approval {
            approved,
            reason,
            edited_arguments,
            grant_scope,
        })
    });
    Ok((answer, flaw))
}
