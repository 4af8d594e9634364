//! Answers as text for people. Pure: the clock and the width of the terminal come in with the [`Screen`].
//!
//! Text from elsewhere gets onto the page only by way of a [`Card`], a table or `text::name`, which all neutralise it.

mod call;
mod card;
mod grants;
mod history;
mod listing;
mod suspension;
mod watch;

pub(super) use card::Card;
pub(super) use grants::{grants, revoked};
pub(super) use listing::listing;
pub(super) use suspension::suspension;
pub(super) use watch::watched;

use super::output::Screen;
use super::text;
use crate::pb;

/// What `classify` prints.
pub(super) fn classification(answer: &pb::ClassifyResponse, screen: &Screen) -> String {
    let pb::ClassifyResponse {
        risk_class,
        approval_required,
        basis,
        selected_by,
        judged_tool,
        warnings,
        policy_revision,
    } = answer;
    let mut card = Card::default();
    card.line("class", class(*risk_class));
    card.text("because", basis);
    card.line(
        "approval",
        if *approval_required {
            "needed: the selectors ask a person"
        } else {
            "not needed by the selectors; rules may still ask or deny"
        },
    );
    card.line("selected by", selected_by);
    card.line("tool", judged_tool);
    card.texts("warning", warnings);
    card.line("policy", policy_revision);
    card.render(screen)
}

/// What `decide` prints.
pub(super) fn decision(answer: &pb::DecideResponse, dry_run: bool, screen: &Screen) -> String {
    let pb::DecideResponse {
        effect,
        risk_class,
        kind,
        reason,
        message_for_model,
        retryable,
        suspension,
        judged_tool,
        matched_rule,
        selected_by,
        grant_id,
        arguments_digest,
        policy_revision,
        decision_id,
        warnings,
    } = answer;
    let decided = pb::Effect::try_from(*effect);
    let mut card = Card::default();
    card.line("decision", effect_text(*effect));
    if dry_run {
        card.line("", "a dry run: nobody was asked and nothing was stored");
    }
    card.line("tool", judged_tool);
    if *risk_class != 0 {
        card.line("class", class(*risk_class));
    }
    if decided != Ok(pb::Effect::Suspend) {
        card.line("kind", kind);
    }
    card.text("reason", reason);
    card.line("rule", matched_rule);
    card.line("selected by", selected_by);
    card.line("grant", grant_id);
    card.texts("warning", warnings);
    card.text("to the model", message_for_model);
    if decided == Ok(pb::Effect::Deny) {
        card.line(
            "retry",
            if *retryable {
                "may help, later or in another way"
            } else {
                "does not help"
            },
        );
    }
    card.line("digest", arguments_digest);
    card.line("policy", policy_revision);
    card.line("logged as", decision_id);
    if let Some(suspension) = suspension {
        card.line("suspension", &suspension.id);
        card.line("status", &suspension::standing(suspension, &screen.now));
        suspension::next_commands(&mut card, suspension, screen);
    }
    card.render(screen)
}

fn effect_text(effect: i32) -> &'static str {
    match pb::Effect::try_from(effect) {
        Ok(pb::Effect::Allow) => "ALLOW: run it now",
        Ok(pb::Effect::Deny) => "DENY: do not run it",
        Ok(pb::Effect::Suspend) => "SUSPEND: do not run it now",
        Ok(pb::Effect::Unspecified) | Err(_) => "UNKNOWN to this client: do not run it",
    }
}

/// What `approve`, `deny` and `answer` print.
pub(super) fn answered(answer: &pb::ResumeResponse, screen: &Screen) -> String {
    let pb::ResumeResponse {
        suspension,
        outcome,
    } = answer;
    let suspension = suspension.clone().unwrap_or_default();
    let mut card = Card::default();
    let outcome = match pb::ResumeOutcome::try_from(*outcome) {
        Ok(pb::ResumeOutcome::Accepted) => "accepted".to_owned(),
        Ok(pb::ResumeOutcome::VoteRecorded) => {
            let quorum = suspension.approvers.as_ref().map_or(1, |rule| rule.quorum);
            let votes = suspension.votes.len();
            format!("recorded as vote {votes} of {quorum}: more people must approve")
        }
        Ok(pb::ResumeOutcome::Duplicate) => "recorded before: nothing was changed".to_owned(),
        Ok(pb::ResumeOutcome::Unspecified) | Err(_) => "unknown to this client".to_owned(),
    };
    card.line("answer", &outcome);
    card.line("suspension", &suspension.id);
    card.line("about", suspension::subject(&suspension));
    card.line("status", &suspension::standing(&suspension, &screen.now));
    let resolution = suspension.resolution.as_ref();
    card.line("grant", resolution.map_or("", |end| end.grant_id.as_str()));
    suspension::next_commands(&mut card, &suspension, screen);
    card.render(screen)
}

/// What `claim` prints.
pub(super) fn claimed(answer: &pb::ClaimResponse, attempt: &str, screen: &Screen) -> String {
    let pb::ClaimResponse {
        arguments_json,
        arguments_digest,
        lease_expire_time,
        suspension,
    } = answer;
    let suspension = suspension.clone().unwrap_or_default();
    let mut card = Card::default();
    card.line(
        "claimed",
        "run it once now, with these arguments and no others",
    );
    card.line("about", suspension::subject(&suspension));
    card.json("arguments", arguments_json);
    card.line("digest", arguments_digest);
    if *arguments_digest != suspension.arguments_digest {
        card.line("", "the approver edited the arguments");
    }
    card.moment("lease ends", lease_expire_time.as_ref(), &screen.now);
    card.line("suspension", &suspension.id);
    card.command(
        "next",
        &command(
            "complete",
            &suspension,
            &format!(" --attempt {} --outcome success", text::shell_word(attempt)),
            screen,
        ),
    );
    card.render(screen)
}

/// What `cancel` prints; `ends` is what it ended with all that was open in it, if anything.
pub(super) fn cancelled(answer: &pb::CancelResponse, ends: Option<&str>) -> String {
    let pb::CancelResponse {
        suspension_ids,
        cancelled_count,
        voided_count,
    } = answer;
    let mut page = if *cancelled_count == 0 && *voided_count == 0 {
        "nothing was open: nothing was withdrawn\n".to_owned()
    } else {
        format!(
            "{cancelled_count} pending cancelled, {voided_count} approved and unclaimed voided\n"
        )
    };
    for id in suspension_ids {
        page.push_str(&format!("  {}\n", text::line(id)));
    }
    if let Some(ends) = ends {
        page.push_str(&format!("the {ends} is over: it opens nothing new\n"));
    }
    page
}

/// A command on one suspension, as it can be pasted into a shell.
fn command(verb: &str, suspension: &pb::Suspension, rest: &str, screen: &Screen) -> String {
    let tenant = match suspension.scope.as_ref().map(|scope| scope.tenant.as_str()) {
        None | Some("") => String::new(),
        Some(tenant) => format!(" --tenant={}", text::shell_word(tenant)),
    };
    let id = text::shell_word(&suspension.id);
    format!("assent {verb} {id}{tenant}{rest}{}", screen.server_flag)
}

/// The name of a risk class, as labels and rules write it.
pub(super) fn class(class: i32) -> &'static str {
    match pb::RiskClass::try_from(class) {
        Ok(pb::RiskClass::ReadOnly) => "read-only",
        Ok(pb::RiskClass::Write) => "write",
        Ok(pb::RiskClass::Destructive) => "destructive",
        Ok(pb::RiskClass::Unspecified) => "-",
        Err(_) => "unknown to this client",
    }
}

/// The name of a status.
pub(super) fn status(status: i32) -> &'static str {
    match pb::SuspensionStatus::try_from(status) {
        Ok(pb::SuspensionStatus::Pending) => "pending",
        Ok(pb::SuspensionStatus::Approved) => "approved",
        Ok(pb::SuspensionStatus::Denied) => "denied",
        Ok(pb::SuspensionStatus::Answered) => "answered",
        Ok(pb::SuspensionStatus::Expired) => "expired",
        Ok(pb::SuspensionStatus::Cancelled) => "cancelled",
        Ok(pb::SuspensionStatus::Unspecified) | Err(_) => "unknown",
    }
}

#[cfg(test)]
mod tests;
