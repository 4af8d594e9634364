//! What became of a suspension, domain -> wire: votes, how it ended, claims.

use std::collections::BTreeSet;

use super::suspension::timestamp;
use crate::domain::Id;
use crate::outcome::Outcome;
use crate::pb;
use crate::suspension::{
    Answer, Approval, ClaimRecord, Completion, Resolution, SignIn, ToolResult, Vote,
};

/// How a suspension ended.
pub(super) fn resolution(resolution: Resolution) -> pb::Resolution {
    let Resolution {
        by,
        by_roles,
        resolve_time,
        answer,
        reason,
        outcome: told,
        grant_id,
    } = resolution;
    let (kind, message_for_model, retryable) = outcome(told);
    let ended = pb::Resolution {
        by: by.into(),
        by_roles,
        resolve_time: Some(timestamp(resolve_time)),
        reason,
        grant_id: grant_id.map_or_else(String::new, |id| id.to_string()),
        kind,
        message_for_model,
        retryable,
        ..pb::Resolution::default()
    };
    match answer {
        Some(answer) => with_answer(ended, answer),
        None => ended,
    }
}

fn with_answer(mut ended: pb::Resolution, answer: Answer) -> pb::Resolution {
    let texts = |ids: BTreeSet<Id>| ids.into_iter().map(String::from).collect();
    match answer {
        Answer::Approval(Approval {
            approved,
            // It stands in the resolution too, where a cancellation has one as well.
            reason: _,
            edited_arguments,
            // The grant that it gave says it.
            grant_scope: _,
        }) => {
            ended.approved = Some(approved);
            ended.edited_arguments_json =
                edited_arguments.map_or_else(String::new, |edited| edited.text().to_owned());
        }
        Answer::Question(answers) => {
            let answers = answers.into_iter();
            ended.answers = answers.map(|(key, text)| (key.into(), text)).collect();
        }
        Answer::External(payload) => payload.text().clone_into(&mut ended.payload_json),
        Answer::ClientTool(ToolResult::Returned(result)) => {
            result.text().clone_into(&mut ended.tool_result_json);
        }
        Answer::ClientTool(ToolResult::Failed(error)) => ended.tool_error = error,
        Answer::SignIn(SignIn { connected, denied }) => {
            ended.connected = texts(connected);
            ended.denied = texts(denied);
        }
    }
    ended
}

pub(super) fn vote(vote: Vote) -> pb::Vote {
    let Vote {
        by,
        by_roles,
        vote_time,
        reason,
    } = vote;
    pb::Vote {
        by: by.into(),
        by_roles,
        vote_time: Some(timestamp(vote_time)),
        reason,
    }
}

pub(super) fn claim(claim: ClaimRecord) -> pb::ClaimRecord {
    let ClaimRecord {
        attempt_id,
        by,
        forced,
        claim_time,
        lease_expire_time,
        outcome,
        detail,
    } = claim;
    let outcome = match outcome {
        None => pb::Completion::Unspecified,
        Some(Completion::Success) => pb::Completion::Success,
        Some(Completion::Failure) => pb::Completion::Failure,
        Some(Completion::Unknown) => pb::Completion::Unknown,
    };
    pb::ClaimRecord {
        attempt_id: attempt_id.into(),
        by: by.into(),
        forced,
        claim_time: Some(timestamp(claim_time)),
        lease_expire_time: Some(timestamp(lease_expire_time)),
        outcome: outcome.into(),
        detail,
    }
}

/// The kind, the text and whether to try again; all empty where the call may go on.
pub(super) fn outcome(outcome: Option<Outcome>) -> (String, String, bool) {
    match outcome {
        Some(Outcome {
            kind,
            message_for_model,
            retryable,
        }) => (kind.name().to_owned(), message_for_model, retryable),
        None => (String::new(), String::new(), false),
    }
}
