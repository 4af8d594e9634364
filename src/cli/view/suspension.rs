//! One suspension with all that is known about it, and what can be done with it next.

use prost_types::Timestamp;

use super::call::{draw_call, draw_scope};
use super::card::Card;
use super::history::{draw_claim, draw_resolution, draw_vote};
use super::{class, command, status};
use crate::cli::output::Screen;
use crate::cli::{text, time};
use crate::pb;

/// What `show` and `complete` print.
pub(in crate::cli) fn suspension(suspension: &pb::Suspension, screen: &Screen) -> String {
    let pb::Suspension {
        id,
        kind,
        status: _,
        scope,
        call,
        run,
        risk_class,
        title,
        reason,
        questions,
        create_time,
        expire_time,
        resolution,
        execution: _,
        version,
        payload_schema_json,
        event,
        sources,
        arguments_digest,
        on_expiry,
        approvers,
        votes,
        claims,
        matched_rule,
        policy_revision,
        call_id,
        step_id,
    } = suspension;
    let now = &screen.now;
    let mut card = Card::default();
    card.line("suspension", id);
    card.line("kind", kind_name(*kind));
    card.line("status", &standing(suspension, now));
    card.text("title", title);
    match call {
        Some(call) => draw_call(&mut card, call),
        None => {
            card.line("call id", call_id);
            card.line("step id", step_id);
        }
    }
    if let Some(pb::RunStart { version }) = run {
        card.line(
            "run start",
            &format!("agent version {}", text::name(version)),
        );
    }
    if *risk_class != 0 {
        card.line("class", class(*risk_class));
    }
    card.text("reason", reason);
    card.line("rule", matched_rule);
    for question in questions {
        draw_question(&mut card, question);
    }
    card.line("event", event);
    card.json("schema", payload_schema_json);
    card.names("sources", sources);
    if let Some(scope) = scope {
        draw_scope(&mut card, scope);
    }
    card.moment("opened", create_time.as_ref(), now);
    card.moment("deadline", expire_time.as_ref(), now);
    card.line("if late", on_expiry_text(*on_expiry));
    if let Some(approvers) = approvers {
        draw_approvers(&mut card, approvers);
    }
    for vote in votes {
        draw_vote(&mut card, vote, now);
    }
    if let Some(resolution) = resolution {
        draw_resolution(&mut card, resolution, now);
    }
    for claim in claims {
        draw_claim(&mut card, claim, now);
    }
    card.line("digest", arguments_digest);
    card.line("policy", policy_revision);
    card.line("version", &version.to_string());
    next_commands(&mut card, suspension, screen);
    card.render(screen)
}

/// Status and execution in a few words.
pub(super) fn standing(suspension: &pb::Suspension, now: &Timestamp) -> String {
    let status_name = status(suspension.status);
    match pb::SuspensionStatus::try_from(suspension.status) {
        Ok(pb::SuspensionStatus::Pending) => match &suspension.expire_time {
            Some(deadline) => {
                format!("{status_name}, deadline {}", time::relative(deadline, now))
            }
            None => status_name.to_owned(),
        },
        Ok(pb::SuspensionStatus::Approved) => {
            let execution = match pb::Execution::try_from(suspension.execution) {
                Ok(pb::Execution::None) => "not claimed",
                Ok(pb::Execution::Claimed) => "claimed, running",
                Ok(pb::Execution::Completed) => "executed",
                Ok(pb::Execution::InDoubt) => "in doubt: it may or may not have run",
                Ok(pb::Execution::Voided) => "voided: it does not run",
                Ok(pb::Execution::Unspecified) | Err(_) => "execution unknown to this client",
            };
            format!("{status_name}, {execution}")
        }
        Ok(
            pb::SuspensionStatus::Denied
            | pb::SuspensionStatus::Answered
            | pb::SuspensionStatus::Expired
            | pb::SuspensionStatus::Cancelled
            | pb::SuspensionStatus::Unspecified,
        )
        | Err(_) => status_name.to_owned(),
    }
}

/// What it is about: the tool, whose id a title cannot stand in for; where there is none, the title or the event.
pub(super) fn subject(suspension: &pb::Suspension) -> &str {
    match (&suspension.call, &suspension.run) {
        (Some(call), _) => &call.tool,
        (None, Some(_)) => "(run start)",
        (None, None) if !suspension.title.is_empty() => &suspension.title,
        (None, None) if !suspension.event.is_empty() => &suspension.event,
        (None, None) => kind_name(suspension.kind),
    }
}

/// The commands that take it further, if any does.
pub(super) fn next_commands(card: &mut Card, suspension: &pb::Suspension, screen: &Screen) {
    let approval: i32 = pb::SuspensionKind::Approval.into();
    if suspension.kind != approval {
        next_answer(card, suspension, screen);
        return;
    }
    let command = |verb, rest| command(verb, suspension, rest, screen);
    let status = pb::SuspensionStatus::try_from(suspension.status);
    let execution = pb::Execution::try_from(suspension.execution);
    match (status, execution) {
        (Ok(pb::SuspensionStatus::Pending), _) => {
            let roles = suspension.approvers.iter().flat_map(|rule| &rule.roles);
            // Where one of several is needed, the first stands for it.
            let role = roles
                .take(1)
                .map(|role| format!(" --role {}", text::shell_word(role)));
            let role: String = role.collect();
            let approve = format!(" --by YOU{role}");
            card.command("next", &command("approve", &approve));
            let deny = format!(" --by YOU{role} --reason WHY");
            card.command("or", &command("deny", &deny));
        }
        (Ok(pb::SuspensionStatus::Approved), Ok(pb::Execution::None)) => {
            card.command("next", &command("claim", " --attempt NEW_ID"));
        }
        (
            Ok(pb::SuspensionStatus::Approved),
            Ok(pb::Execution::Claimed | pb::Execution::InDoubt),
        ) => {
            let attempt = suspension
                .claims
                .last()
                .map_or("", |claim| &claim.attempt_id);
            let attempt = text::shell_word(attempt);
            let rest = format!(" --attempt {attempt} --outcome success|failure|unknown");
            card.command("next", &command("complete", &rest));
        }
        _ => {}
    }
}

/// How to answer what is no approval, as far as the suspension itself says it.
fn next_answer(card: &mut Card, suspension: &pb::Suspension, screen: &Screen) {
    let pending: i32 = pb::SuspensionStatus::Pending.into();
    if suspension.status != pending {
        return;
    }
    let flags: String = match pb::SuspensionKind::try_from(suspension.kind) {
        Ok(pb::SuspensionKind::Question) => suspension
            .questions
            .iter()
            .map(|question| format!(" --answer {}=TEXT", text::shell_word(&question.key)))
            .collect(),
        Ok(pb::SuspensionKind::External) => " --payload JSON".to_owned(),
        Ok(pb::SuspensionKind::ClientTool) => " --result JSON".to_owned(),
        Ok(pb::SuspensionKind::SignIn) => suspension
            .sources
            .iter()
            .map(|source| format!(" --connected {}", text::shell_word(source)))
            .collect(),
        Ok(pb::SuspensionKind::Approval | pb::SuspensionKind::Unspecified) | Err(_) => return,
    };
    let rest = format!(" --by YOU{flags}");
    card.command("next", &command("answer", suspension, &rest, screen));
}

pub(super) fn kind_name(kind: i32) -> &'static str {
    match pb::SuspensionKind::try_from(kind) {
        Ok(pb::SuspensionKind::Approval) => "approval",
        Ok(pb::SuspensionKind::Question) => "question",
        Ok(pb::SuspensionKind::External) => "external event",
        Ok(pb::SuspensionKind::ClientTool) => "client tool",
        Ok(pb::SuspensionKind::SignIn) => "sign-in",
        Ok(pb::SuspensionKind::Unspecified) | Err(_) => "unknown to this client",
    }
}

fn on_expiry_text(on_expiry: i32) -> &'static str {
    match pb::OnExpiry::try_from(on_expiry) {
        Ok(pb::OnExpiry::Abandon) => "the run is over",
        Ok(pb::OnExpiry::Deny) => "only this call is refused",
        Ok(pb::OnExpiry::Unspecified) | Err(_) => "",
    }
}

fn draw_question(card: &mut Card, question: &pb::Question) {
    let pb::Question {
        key,
        text: asked,
        options,
        options_only,
    } = question;
    card.line("question", key);
    card.text("", asked);
    for option in options {
        card.line("", &format!("- {}", text::name(option)));
    }
    if *options_only {
        card.line("", "only one of these is accepted");
    }
}

fn draw_approvers(card: &mut Card, approvers: &pb::ApproverRule) {
    let pb::ApproverRule {
        roles,
        quorum,
        exclude_requester,
    } = approvers;
    if *quorum > 1 {
        card.line("approvers", &format!("{quorum} different people"));
    }
    if !roles.is_empty() {
        card.line(
            "approvers",
            &format!("with one of the roles {}", text::names(roles)),
        );
    }
    if *exclude_requester {
        card.line("approvers", "not the one who asked");
    }
}
