//! Answering: the checks of Resume, in their order, and the state that follows.

use serde::{Deserialize, Serialize};

use super::{Body, Refusal, Resolution, State, Status, Suspension, Vote};
use crate::arguments::{Arguments, Digest};
use crate::domain::{ApproverRule, Id, Timestamp, ToolCall};
use crate::outcome::Outcome;

/// What somebody answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To an approval.
    Approval(Approval),
}

/// Yes or no to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Yes or no: there is no default.
    pub approved: bool,
    /// Why.
    pub reason: String,
    /// What to call the tool with instead.
    pub edited_arguments: Option<Arguments>,
    /// How far a yes reaches.
    #[serde(default)]
    pub grant_scope: GrantScope,
}

/// How far an approval reaches beyond the one call that it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GrantScope {
    /// Not at all.
    #[default]
    Once,
    /// To the same call in the same session (S8).
    Session,
}

/// What an accepted answer makes of the record.
#[derive(Clone, Debug, PartialEq)]
pub enum Resumed {
    /// It was given before; nothing changes.
    Duplicate,
    /// An approval that counts, but is not the last one needed.
    Vote(State),
    /// The answer that settles it.
    Settled(State),
}

/// One answer, with who gives it.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Who, in the caller's terms.
    pub by: Id,
    /// The roles the caller vouches for.
    pub by_roles: Vec<String>,
    /// The digest of the call the person saw, if the caller says.
    pub arguments_digest: Option<Digest>,
    /// What they said; none when the request left the decision out.
    pub answer: Option<Answer>,
    /// What is wrong with the content of the answer, which is told only when nothing else is wrong
    /// before it.
    pub flaw: Option<Refusal>,
}

impl Suspension {
    /// Checks an answer given at `now` (S6, steps 4 to 9) and says what it would make of the record,
    /// which must be [settled](Suspension::settled).
    ///
    /// # Errors
    /// The first check that fails; the record stays as it is.
    pub fn resume(&self, reply: &Reply, now: Timestamp) -> Result<Resumed, Refusal> {
        match self.state.status {
            Status::Expired => return Err(Refusal::Expired),
            Status::Cancelled => return Err(Refusal::Cancelled),
            Status::Approved | Status::Denied | Status::Answered => {
                return if self.was_given(reply) {
                    Ok(Resumed::Duplicate)
                } else {
                    Err(Refusal::AlreadyResolved)
                };
            }
            Status::Pending => {}
        }
        let Some(answer) = &reply.answer else {
            return Err(Refusal::KindMismatch(
                "this takes an approval: say `approval.approved`, true or false, as there is no default",
            ));
        };
        let Answer::Approval(approval) = answer;
        if reply.arguments_digest.is_some() && reply.arguments_digest != self.body.arguments_digest
        {
            return Err(Refusal::DigestMismatch);
        }
        if let Some(flaw) = &reply.flaw {
            return Err(flaw.clone());
        }
        if approval.edited_arguments.is_some() {
            self.check_edit()?;
        }
        if approval.grant_scope == GrantScope::Session {
            check_grant(&self.body)?;
        }
        self.check_answerer(reply)?;
        Ok(self.accept(reply, approval, now))
    }

    /// Whether this very answer was accepted before: as the resolution, or as a vote of an approval.
    fn was_given(&self, reply: &Reply) -> bool {
        let Some(resolution) = &self.state.resolution else {
            return false;
        };
        if reply.flaw.is_some() {
            return false;
        }
        if resolution.by == reply.by && resolution.answer == reply.answer {
            return true;
        }
        let Some(Answer::Approval(approval)) = &reply.answer else {
            return false;
        };
        approval.approved
            && approval.edited_arguments.is_none()
            && approval.grant_scope == GrantScope::Once
            && self.state.status == Status::Approved
            && self.state.votes.iter().any(|vote| vote.by == reply.by)
    }

    fn check_edit(&self) -> Result<(), Refusal> {
        let call = self.body.call();
        let message = if self.body.approvers.quorum > 1 {
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

    fn check_answerer(&self, reply: &Reply) -> Result<(), Refusal> {
        let rule = &self.body.approvers;
        if rule.exclude_requester {
            let requester = &self.body.scope.principal.id;
            if requester.is_empty() {
                return Err(Refusal::SelfApproval("nobody knows who made this call"));
            }
            if *requester == reply.by {
                return Err(Refusal::SelfApproval("`by` is the principal of the call"));
            }
        }
        if has_role(rule, &reply.by_roles) {
            Ok(())
        } else {
            Err(Refusal::NotEligible(rule.roles.clone()))
        }
    }

    fn accept(&self, reply: &Reply, approval: &Approval, now: Timestamp) -> Resumed {
        let mut state = State {
            changed: now,
            ..self.state.clone()
        };
        let quorum = self.body.approvers.quorum;
        if approval.approved && quorum > 1 {
            if state.votes.iter().any(|vote| vote.by == reply.by) {
                return Resumed::Duplicate;
            }
            state.votes.push(Vote {
                by: reply.by.clone(),
                by_roles: reply.by_roles.clone(),
                vote_time: now,
                reason: approval.reason.clone(),
            });
            if u32::try_from(state.votes.len()).is_ok_and(|votes| votes < quorum) {
                return Resumed::Vote(state);
            }
        }
        state.status = if approval.approved {
            Status::Approved
        } else {
            Status::Denied
        };
        state.resolution = Some(Resolution {
            by: reply.by.clone(),
            by_roles: reply.by_roles.clone(),
            resolve_time: now,
            answer: reply.answer.clone(),
            reason: approval.reason.clone(),
            outcome: (!approval.approved).then(|| Outcome::denied(&approval.reason)),
            grant_id: None,
        });
        Resumed::Settled(state)
    }

    /// Whether the people who approved this would be enough for `rule`, which may ask for more now
    /// than when the call was suspended.
    pub fn meets(&self, rule: &ApproverRule) -> bool {
        let requester = &self.body.scope.principal.id;
        let mut approvers: Vec<&Id> = Vec::new();
        let votes = self
            .state
            .votes
            .iter()
            .map(|vote| (&vote.by, &vote.by_roles));
        let last = self.state.resolution.iter().map(|r| (&r.by, &r.by_roles));
        for (by, roles) in votes.chain(last) {
            if may_answer(rule, requester, by, roles) && !approvers.contains(&by) {
                approvers.push(by);
            }
        }
        u32::try_from(approvers.len()).is_ok_and(|count| count >= rule.quorum)
    }
}

/// Whether an approval by somebody counts for a call that `requester` made; nobody's does where the
/// requester is to be excluded and is not known.
pub(super) fn may_answer(rule: &ApproverRule, requester: &Id, by: &Id, roles: &[String]) -> bool {
    let excluded = rule.exclude_requester && (requester.is_empty() || requester == by);
    !excluded && has_role(rule, roles)
}

fn has_role(rule: &ApproverRule, roles: &[String]) -> bool {
    rule.roles.is_empty() || rule.roles.iter().any(|role| roles.contains(role))
}

/// Whether there is anything that a grant could hold for, and one person could give it.
fn check_grant(body: &Body) -> Result<(), Refusal> {
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
