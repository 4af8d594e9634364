//! What became of a suspension: its votes, how it ended, and the attempts to execute it.

use prost_types::Timestamp;

use super::card::Card;
use crate::pb;

pub(super) fn draw_vote(card: &mut Card, vote: &pb::Vote, now: &Timestamp) {
    let pb::Vote {
        by,
        by_roles,
        vote_time,
        reason,
    } = vote;
    card.line("vote of", by);
    card.names("with roles", by_roles);
    card.moment("at", vote_time.as_ref(), now);
    card.text("saying", reason);
}

pub(super) fn draw_resolution(card: &mut Card, resolution: &pb::Resolution, now: &Timestamp) {
    let pb::Resolution {
        by,
        by_roles,
        resolve_time,
        approved: _,
        reason,
        answers,
        payload_json,
        tool_result_json,
        tool_error,
        connected,
        denied,
        edited_arguments_json,
        grant_id,
        kind,
        message_for_model,
        retryable,
    } = resolution;
    card.moment("ended", resolve_time.as_ref(), now);
    card.line("ended by", by);
    card.names("with roles", by_roles);
    card.text("saying", reason);
    let mut answers: Vec<_> = answers.iter().collect();
    answers.sort_unstable();
    for (key, answer) in answers {
        card.line("answer to", key);
        card.text("", answer);
    }
    card.json("payload", payload_json);
    card.json("result", tool_result_json);
    card.text("tool error", tool_error);
    card.names("connected", connected);
    card.names("not connected", denied);
    card.json("edited to", edited_arguments_json);
    card.line("grant", grant_id);
    card.line("outcome", kind);
    card.text("to the model", message_for_model);
    if *retryable {
        card.line("retry", "may help, later or in another way");
    }
}

pub(super) fn draw_claim(card: &mut Card, claim: &pb::ClaimRecord, now: &Timestamp) {
    let pb::ClaimRecord {
        attempt_id,
        by,
        forced,
        claim_time,
        lease_expire_time,
        outcome,
        detail,
    } = claim;
    card.line("attempt", attempt_id);
    if *forced {
        card.line("", "forced: it took over one that was in doubt");
    }
    card.line("claimed by", by);
    card.moment("claimed", claim_time.as_ref(), now);
    match pb::Completion::try_from(*outcome) {
        Ok(pb::Completion::Success) => card.line("result", "success"),
        Ok(pb::Completion::Failure) => card.line("result", "failure"),
        Ok(pb::Completion::Unknown) => card.line("result", "not known"),
        Ok(pb::Completion::Unspecified) => {
            card.moment("lease ends", lease_expire_time.as_ref(), now);
        }
        Err(_) => card.line("result", "unknown to this client"),
    }
    card.text("detail", detail);
}
