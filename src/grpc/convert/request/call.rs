//! What is judged, and where it comes from: wire -> domain.

use super::Converted;
use crate::domain::{
    Annotations, AskedCall, Origin, Principal, RunStart, Scope, ToolCall, WrapperTarget,
};
use crate::grpc::convert::field::{self, known};
use crate::pb;
use crate::policy::Limits;

pub(super) fn scope(wire: Option<pb::Scope>) -> Converted<Scope> {
    let Some(wire) = wire else {
        return Ok(Scope::default());
    };
    let pb::Scope {
        tenant,
        principal,
        session_id,
        run_id,
        parent_run_id,
        agent_path,
    } = wire;
    Ok(Scope {
        tenant: field::id("scope.tenant", tenant)?,
        principal: match principal {
            Some(wire) => self::principal(wire)?,
            None => Principal::default(),
        },
        session_id: field::id("scope.session_id", session_id)?,
        run_id: field::id("scope.run_id", run_id)?,
        parent_run_id: field::id("scope.parent_run_id", parent_run_id)?,
        agent_path: field::entries("scope.agent_path", agent_path)?,
    })
}

fn principal(wire: pb::Principal) -> Converted<Principal> {
    let pb::Principal {
        id,
        roles,
        attributes,
    } = wire;
    Ok(Principal {
        id: field::id("scope.principal.id", id)?,
        roles: field::entries("scope.principal.roles", roles)?,
        attributes: field::attributes("scope.principal.attributes", attributes.into_iter())?,
    })
}

pub(super) fn asked_call(mut wire: pb::ToolCall, limits: &Limits) -> Converted<AskedCall> {
    let target = wire.target.take();
    Ok(AskedCall {
        call: tool_call(wire, limits)?,
        target: match target {
            Some(wire) => Some(Box::new(self::target(*wire, limits)?)),
            None => None,
        },
    })
}

fn target(wire: pb::ToolCall, limits: &Limits) -> Converted<WrapperTarget> {
    let pb::ToolCall {
        tool,
        server,
        annotations,
        arguments_json,
        target,
        // These are the wrapper call's.
        call_id: _,
        step_id: _,
        origin: _,
        in_program: _,
        parent_call_id: _,
    } = wire;
    Ok(WrapperTarget {
        tool: field::required_id("call.target.tool", tool)?,
        server: field::id("call.target.server", server)?,
        annotations: match annotations {
            Some(wire) => Some(self::annotations(
                wire,
                "call.target.annotations.title",
                "call.target.annotations.labels",
            )?),
            None => None,
        },
        arguments: field::arguments(
            "call.target.arguments_json",
            &arguments_json,
            limits.max_arguments_bytes,
        )?,
        wraps: target.is_some(),
    })
}

/// A call without its target.
pub(super) fn tool_call(wire: pb::ToolCall, limits: &Limits) -> Converted<ToolCall> {
    let pb::ToolCall {
        call_id,
        step_id,
        tool,
        server,
        origin,
        annotations,
        arguments_json,
        in_program,
        parent_call_id,
        target: _,
    } = wire;
    Ok(ToolCall {
        call_id: field::id("call.call_id", call_id)?,
        step_id: field::id("call.step_id", step_id)?,
        tool: field::required_id("call.tool", tool)?,
        server: field::id("call.server", server)?,
        origin: self::origin(known("call.origin", origin)?),
        annotations: match annotations {
            Some(wire) => Some(self::annotations(
                wire,
                "call.annotations.title",
                "call.annotations.labels",
            )?),
            None => None,
        },
        arguments: field::arguments(
            "call.arguments_json",
            &arguments_json,
            limits.max_arguments_bytes,
        )?,
        in_program,
        parent_call_id: field::id("call.parent_call_id", parent_call_id)?,
        wrapped: None,
    })
}

fn annotations(
    wire: pb::Annotations,
    title_path: &'static str,
    labels_path: &'static str,
) -> Converted<Annotations> {
    let pb::Annotations {
        read_only_hint,
        destructive_hint,
        idempotent_hint,
        open_world_hint,
        title,
        labels,
    } = wire;
    Ok(Annotations {
        read_only_hint,
        destructive_hint,
        idempotent_hint,
        open_world_hint,
        title: field::text(title_path, title)?,
        labels: field::entries(labels_path, labels)?,
    })
}

pub(super) fn run_start(wire: pb::RunStart) -> Converted<RunStart> {
    let pb::RunStart { version } = wire;
    Ok(RunStart {
        version: field::id("run.version", version)?,
    })
}

fn origin(wire: pb::Origin) -> Option<Origin> {
    match wire {
        pb::Origin::Unspecified => None,
        pb::Origin::Code => Some(Origin::Code),
        pb::Origin::Http => Some(Origin::Http),
        pb::Origin::Mcp => Some(Origin::Mcp),
        pb::Origin::A2a => Some(Origin::A2a),
        pb::Origin::Workflow => Some(Origin::Workflow),
    }
}
