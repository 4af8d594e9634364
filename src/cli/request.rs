//! Flags to requests, field by field.
//!
//! Nothing is checked here that the server checks: it is the one to say what is wrong with a request.

use super::choice::OriginFlag;
use super::error::CliError;
use super::flags::{
    AnswerFlags, ApproveCommand, CallFlags, CancelCommand, ClaimCommand, ClassifyCommand,
    CompleteCommand, DecideCommand, DenyCommand, GrantsCommand, PendingCommand, RevokeCommand,
    ScopeFlags, ShowCommand, SuspensionFlags, WatchCommand,
};
use super::input::read_text;
use crate::pb;

impl ScopeFlags {
    pub(super) fn scope(&self) -> pb::Scope {
        let Self {
            tenant,
            session,
            run,
            principal,
            roles,
            attributes,
            agent_path,
        } = self.clone();
        let principal = pb::Principal {
            id: principal,
            roles,
            attributes: attributes.into_iter().collect(),
        };
        pb::Scope {
            tenant,
            principal: Some(principal).filter(|principal| *principal != pb::Principal::default()),
            session_id: session,
            run_id: run,
            parent_run_id: String::new(),
            agent_path,
        }
    }
}

impl CallFlags {
    pub(super) fn call(&self) -> Result<pb::ToolCall, CliError> {
        let arguments_json = self.arguments()?;
        let Self {
            tool,
            args: _,
            args_file: _,
            destructive,
            read_only,
            write,
            title,
            labels,
            mcp_server,
            origin,
            call_id,
            step_id,
            in_program,
        } = self.clone();
        let annotations = pb::Annotations {
            read_only_hint: read_only.then_some(true),
            destructive_hint: (destructive || write).then_some(destructive),
            idempotent_hint: None,
            open_world_hint: None,
            title,
            labels,
        };
        Ok(pb::ToolCall {
            call_id,
            step_id,
            tool,
            server: mcp_server,
            origin: origin
                .map_or(pb::Origin::Unspecified, OriginFlag::wire)
                .into(),
            annotations: Some(annotations).filter(|claims| *claims != pb::Annotations::default()),
            arguments_json,
            in_program,
            parent_call_id: String::new(),
            target: None,
        })
    }

    fn arguments(&self) -> Result<String, CliError> {
        let Some(path) = &self.args_file else {
            return json_given("--args", self.args.as_deref());
        };
        let text = read_text(path).map_err(|source| CliError::ArgumentsFile {
            path: path.clone(),
            source,
        })?;
        json_given("--args-file", Some(&text))
    }
}

/// The JSON that a flag gives; none is empty on the wire. A flag that was given and holds nothing is a variable that was
/// not set, or a command that printed nothing, and no way to say `{}`.
fn json_given(flag: &'static str, text: Option<&str>) -> Result<String, CliError> {
    match text {
        None => Ok(String::new()),
        Some(text) if text.trim().is_empty() => Err(CliError::EmptyJson(flag)),
        Some(text) => Ok(text.to_owned()),
    }
}

impl SuspensionFlags {
    /// The scope of a request about it, of which only the tenant is compared.
    pub(super) fn scope(&self) -> Option<pb::Scope> {
        Some(pb::Scope {
            tenant: self.tenant.clone(),
            ..Default::default()
        })
    }
}

impl ClassifyCommand {
    pub(super) fn request(&self) -> Result<pb::ClassifyRequest, CliError> {
        let Self { call } = self;
        Ok(pb::ClassifyRequest {
            call: Some(call.call()?),
        })
    }
}

impl DecideCommand {
    pub(super) fn request(&self) -> Result<pb::DecideRequest, CliError> {
        let Self {
            call,
            scope,
            expires_in,
            resumed,
            dry_run,
        } = self;
        Ok(pb::DecideRequest {
            scope: Some(scope.scope()),
            action: Some(pb::decide_request::Action::Call(call.call()?)),
            expires_in: *expires_in,
            resumed: *resumed,
            dry_run: *dry_run,
        })
    }
}

impl PendingCommand {
    pub(super) fn request(&self, page_token: String) -> pb::ListSuspensionsRequest {
        let Self {
            tenant,
            session,
            run,
            statuses,
            page_size,
            all: _,
        } = self.clone();
        pb::ListSuspensionsRequest {
            tenant,
            session_id: session,
            run_id: run,
            kinds: Vec::new(),
            statuses: statuses
                .into_iter()
                .map(|status| status.wire().into())
                .collect(),
            executions: Vec::new(),
            page_size,
            page_token,
        }
    }
}

impl ShowCommand {
    pub(super) fn request(&self) -> pb::GetSuspensionRequest {
        let Self { suspension, wait } = self;
        pb::GetSuspensionRequest {
            suspension_id: suspension.id.clone(),
            scope: suspension.scope(),
            wait: *wait,
        }
    }
}

impl WatchCommand {
    pub(super) fn request(&self) -> pb::WatchSuspensionsRequest {
        let Self {
            ids,
            tenant,
            session,
            run,
        } = self.clone();
        pb::WatchSuspensionsRequest {
            tenant,
            suspension_ids: ids,
            session_id: session,
            run_id: run,
        }
    }
}

impl AnswerFlags {
    fn request(&self, answer: impl FnOnce(String) -> pb::Approval) -> pb::ResumeRequest {
        let Self {
            suspension,
            by,
            roles,
            reason,
            digest,
        } = self.clone();
        pb::ResumeRequest {
            scope: suspension.scope(),
            suspension_id: suspension.id,
            by,
            by_roles: roles,
            arguments_digest: digest,
            answer: Some(pb::resume_request::Answer::Approval(answer(reason))),
        }
    }
}

impl ApproveCommand {
    pub(super) fn request(&self) -> Result<pb::ResumeRequest, CliError> {
        let Self {
            answer,
            edit_args,
            for_session,
        } = self;
        let edited_arguments_json = json_given("--edit-args", edit_args.as_deref())?;
        let grant_scope = if *for_session {
            pb::GrantScope::Session
        } else {
            pb::GrantScope::Unspecified
        };
        Ok(answer.request(|reason| pb::Approval {
            approved: Some(true),
            reason,
            grant_scope: grant_scope.into(),
            edited_arguments_json,
        }))
    }
}

impl DenyCommand {
    pub(super) fn request(&self) -> pb::ResumeRequest {
        let Self { answer } = self;
        answer.request(|reason| pb::Approval {
            approved: Some(false),
            reason,
            grant_scope: pb::GrantScope::Unspecified.into(),
            edited_arguments_json: String::new(),
        })
    }
}

impl CancelCommand {
    /// What is over afterwards, if not one suspension only.
    pub(super) fn ends(&self) -> Option<&'static str> {
        match (&self.run, &self.session) {
            (Some(_), _) => Some("run"),
            (None, Some(_)) => Some("session"),
            (None, None) => None,
        }
    }

    pub(super) fn request(&self) -> pb::CancelRequest {
        use pb::cancel_request::Target;
        let Self {
            id,
            run,
            session,
            tenant,
            by,
            reason,
        } = self.clone();
        // clap lets an id come alone, and a session beside a run: it then narrows the run.
        let (target, session_id) = match (id, run, session) {
            (Some(id), _, _) => (Some(Target::SuspensionId(id)), String::new()),
            (None, Some(run), session) => (Some(Target::RunId(run)), session.unwrap_or_default()),
            (None, None, session) => (session.map(Target::SessionId), String::new()),
        };
        pb::CancelRequest {
            scope: Some(pb::Scope {
                tenant,
                session_id,
                ..Default::default()
            }),
            by,
            reason,
            target,
        }
    }
}

impl GrantsCommand {
    pub(super) fn request(&self, page_token: String) -> pb::ListGrantsRequest {
        let Self {
            tenant,
            session,
            page_size,
            all: _,
        } = self.clone();
        pb::ListGrantsRequest {
            tenant,
            session_id: session,
            page_size,
            page_token,
        }
    }
}

impl RevokeCommand {
    pub(super) fn request(&self) -> pb::RevokeGrantRequest {
        let Self { id, tenant, by } = self.clone();
        pb::RevokeGrantRequest {
            grant_id: id,
            scope: Some(pb::Scope {
                tenant,
                ..Default::default()
            }),
            by,
        }
    }
}

impl ClaimCommand {
    pub(super) fn request(&self) -> pb::ClaimRequest {
        let Self {
            suspension,
            attempt,
            digest,
            force,
            by,
        } = self.clone();
        pb::ClaimRequest {
            scope: suspension.scope(),
            suspension_id: suspension.id,
            attempt_id: attempt,
            arguments_digest: digest,
            force,
            by: by.unwrap_or_default(),
        }
    }
}

impl CompleteCommand {
    pub(super) fn request(&self) -> pb::CompleteRequest {
        let Self {
            suspension,
            attempt,
            outcome,
            detail,
        } = self.clone();
        pb::CompleteRequest {
            scope: suspension.scope(),
            suspension_id: suspension.id,
            attempt_id: attempt,
            outcome: outcome.wire().into(),
            detail,
        }
    }
}

#[cfg(test)]
mod tests;
