//! What is asked about: the call, what its tool claims, and who makes it from where.

use super::card::Card;
use crate::cli::text;
use crate::pb;

pub(super) fn draw_call(card: &mut Card, call: &pb::ToolCall) {
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
        target,
    } = call;
    card.line("tool", tool);
    card.line("mcp server", server);
    card.line(
        "origin",
        match pb::Origin::try_from(*origin) {
            Ok(pb::Origin::Code) => "code",
            Ok(pb::Origin::Http) => "http",
            Ok(pb::Origin::Mcp) => "mcp",
            Ok(pb::Origin::A2a) => "a2a",
            Ok(pb::Origin::Workflow) => "workflow",
            Ok(pb::Origin::Unspecified) => "",
            Err(_) => "unknown to this client",
        },
    );
    match arguments_json.as_str() {
        "" => card.json("arguments", "{}"),
        arguments => card.json("arguments", arguments),
    }
    if let Some(annotations) = annotations {
        card.line("claims", &claims_text(annotations));
    }
    card.line("call id", call_id);
    card.line("step id", step_id);
    card.line("parent call", parent_call_id);
    if *in_program {
        card.line("made by", "a program that the model wrote");
    }
    if let Some(target) = target {
        card.line("target", "of the wrapper call:");
        draw_call(card, target);
    }
}

/// What the tool's author claims about it, in MCP's words.
fn claims_text(annotations: &pb::Annotations) -> String {
    let pb::Annotations {
        read_only_hint,
        destructive_hint,
        idempotent_hint,
        open_world_hint,
        title,
        labels,
    } = annotations;
    let mut claims = Vec::new();
    for (name, hint) in [
        ("readOnlyHint", read_only_hint),
        ("destructiveHint", destructive_hint),
        ("idempotentHint", idempotent_hint),
        ("openWorldHint", open_world_hint),
    ] {
        if let Some(hint) = hint {
            claims.push(format!("{name} {hint}"));
        }
    }
    if !title.is_empty() {
        claims.push(format!("title {}", text::name(title)));
    }
    if !labels.is_empty() {
        claims.push(format!("labels {}", text::names(labels)));
    }
    claims.join("; ")
}

pub(super) fn draw_scope(card: &mut Card, scope: &pb::Scope) {
    let pb::Scope {
        tenant,
        principal,
        session_id,
        run_id,
        parent_run_id,
        agent_path,
    } = scope;
    if let Some(pb::Principal {
        id,
        roles,
        attributes,
    }) = principal
    {
        card.line("asked by", id);
        card.names("its roles", roles);
        let mut attributes: Vec<_> = attributes
            .iter()
            .map(|(key, value)| format!("{}={}", text::name(key), text::name(value)))
            .collect();
        attributes.sort_unstable();
        card.line("its facts", &attributes.join(", "));
    }
    card.line("tenant", tenant);
    card.line("session", session_id);
    card.line("run", run_id);
    card.line("parent run", parent_run_id);
    card.names("agents", agent_path);
}
