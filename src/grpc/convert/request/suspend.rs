//! What is to wait for something that is no approval: wire -> domain. Each kind takes its own fields whole,
//! and no other's.

use std::collections::HashSet;

use super::{Converted, scope, tool_call};
use crate::domain::{Id, MAX_ENTRIES, MAX_TEXT_BYTES, OnExpiry, TextError, ToolCall};
use crate::engine::SuspendRequest;
use crate::grpc::convert::field::{self, InvalidField, known};
use crate::pb;
use crate::policy::Limits;
use crate::suspension::{Matter, Question, Wait};

/// The fields that belong to one kind each.
struct Own {
    call: Option<pb::ToolCall>,
    questions: Vec<pb::Question>,
    payload_schema_json: String,
    event: String,
    sources: Vec<String>,
}

/// What is to wait.
pub(in crate::grpc) fn suspend(
    wire: pb::SuspendRequest,
    limits: &Limits,
) -> Converted<SuspendRequest> {
    let pb::SuspendRequest {
        scope: wire_scope,
        kind,
        call_id,
        step_id,
        call,
        title,
        reason,
        questions,
        payload_schema_json,
        event,
        sources,
        expires_in,
        on_expiry,
    } = wire;
    let scope = scope(wire_scope)?;
    let kind = known("kind", kind)?;
    let call_id = field::id("call_id", call_id)?;
    let step_id = field::id("step_id", step_id)?;
    let own = Own {
        call,
        questions,
        payload_schema_json,
        event,
        sources,
    };
    own.check_kind(kind)?;
    let Own {
        call,
        questions,
        payload_schema_json,
        event,
        sources,
    } = own;
    let matter = match kind {
        pb::SuspensionKind::Unspecified => return Err(InvalidField::missing("kind")),
        pb::SuspensionKind::Approval => {
            return Err(InvalidField::new(
                "kind",
                "an approval is opened by Decide, which judges the call first",
            ));
        }
        pb::SuspensionKind::Question => Matter::Question(self::questions(questions)?),
        pb::SuspensionKind::External => Matter::External {
            event: field::text("event", event)?,
            schema: if payload_schema_json.is_empty() {
                None
            } else {
                let path = "payload_schema_json";
                let limit = limits.max_payload_bytes;
                Some(field::json(path, &payload_schema_json, limit)?)
            },
        },
        pb::SuspensionKind::ClientTool => {
            let call = call.ok_or_else(|| InvalidField::missing("call"))?;
            if call.target.is_some() {
                let problem = "is for a call that is judged, which this is not: name the tool that the client runs";
                return Err(InvalidField::new("call.target", problem));
            }
            let call = tool_call(call, limits)?;
            Matter::ClientTool(named(call, &call_id, &step_id)?)
        }
        pb::SuspensionKind::SignIn => Matter::SignIn(self::sources(sources)?),
    };
    Ok(SuspendRequest {
        scope,
        wait: Wait {
            call_id,
            step_id,
            matter,
        },
        title: field::text("title", title)?,
        reason: field::text("reason", reason)?,
        expires_in: field::expires_in("expires_in", expires_in)?,
        on_expiry: match known("on_expiry", on_expiry)? {
            pb::OnExpiry::Unspecified => None,
            pb::OnExpiry::Abandon => Some(OnExpiry::Abandon),
            pb::OnExpiry::Deny => Some(OnExpiry::Deny),
        },
    })
}

impl Own {
    /// Refuses a field of another kind, rather than to ignore what a caller meant.
    fn check_kind(&self, kind: pb::SuspensionKind) -> Converted<()> {
        use pb::SuspensionKind as Kind;
        for (path, is_set, owner) in [
            ("call", self.call.is_some(), Kind::ClientTool),
            ("questions", !self.questions.is_empty(), Kind::Question),
            (
                "payload_schema_json",
                !self.payload_schema_json.is_empty(),
                Kind::External,
            ),
            ("event", !self.event.is_empty(), Kind::External),
            ("sources", !self.sources.is_empty(), Kind::SignIn),
        ] {
            let needs_kind = !matches!(kind, Kind::Unspecified | Kind::Approval);
            if is_set && needs_kind && owner != kind {
                let problem = format!(
                    "is for {} and this is a {}: leave it out",
                    owner.as_str_name(),
                    kind.as_str_name()
                );
                return Err(InvalidField::new(path, problem));
            }
        }
        Ok(())
    }
}

/// At least one and not too many.
fn some(path: &'static str, count: usize) -> Converted<()> {
    match count {
        0 => Err(InvalidField::new(path, "needs at least one")),
        1..=MAX_ENTRIES => Ok(()),
        _ => Err(InvalidField::new(path, TextError::TooManyEntries(count))),
    }
}

fn questions(wire: Vec<pb::Question>) -> Converted<Vec<Question>> {
    some("questions", wire.len())?;
    let mut keys = HashSet::new();
    let mut questions = Vec::with_capacity(wire.len());
    for (index, wire) in wire.into_iter().enumerate() {
        let pb::Question {
            key,
            text,
            options,
            options_only,
        } = wire;
        let path = |name: &str| format!("questions[{index}].{name}");
        let key = field::required_id(path("key"), key)?;
        if !keys.insert(key.clone()) {
            let problem = format!("`{key}` is the key of another question");
            return Err(InvalidField::new(path("key"), problem));
        }
        if options.len() > MAX_ENTRIES {
            let error = TextError::TooManyEntries(options.len());
            return Err(InvalidField::new(path("options"), error));
        }
        for (option, text) in options.iter().enumerate() {
            let path = path(&format!("options[{option}]"));
            field::sized(path, text, MAX_TEXT_BYTES)?;
        }
        if options_only && options.is_empty() {
            let problem = "needs `options`, as nothing could be answered";
            return Err(InvalidField::new(path("options_only"), problem));
        }
        questions.push(Question {
            key,
            text: field::text(path("text"), text)?,
            options,
            options_only,
        });
    }
    Ok(questions)
}

fn sources(wire: Vec<String>) -> Converted<Vec<Id>> {
    some("sources", wire.len())?;
    let mut seen = HashSet::new();
    let mut sources = Vec::with_capacity(wire.len());
    for (index, source) in wire.into_iter().enumerate() {
        let path = || format!("sources[{index}]");
        let source = field::required_id(path(), source)?;
        if !seen.insert(source.clone()) {
            let problem = format!("`{source}` is asked for twice");
            return Err(InvalidField::new(path(), problem));
        }
        sources.push(source);
    }
    Ok(sources)
}

/// The call of a client tool, under the ids of the request, which its own must not contradict.
fn named(call: ToolCall, call_id: &Id, step_id: &Id) -> Converted<ToolCall> {
    for (path, own, asked) in [
        ("call.call_id", &call.call_id, call_id),
        ("call.step_id", &call.step_id, step_id),
    ] {
        if !own.is_empty() && own != asked {
            let problem = "must be empty, or the same as the request's";
            return Err(InvalidField::new(path, problem));
        }
    }
    Ok(ToolCall {
        call_id: call_id.clone(),
        step_id: step_id.clone(),
        ..call
    })
}

#[cfg(test)]
mod tests;
