//! Answering: the checks of Resume, in their order, and the state that follows.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::fit::{check_fit, takes};
use super::{Kind, Refusal, Resolution, State, Status, Suspension, Vote};
use crate::arguments::{Arguments, Digest, Json};
use crate::domain::{ApproverRule, Id, Timestamp};
use crate::outcome::Outcome;

/// What somebody answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To an approval.
    Approval(Approval),
    /// To questions: what was said, by the question's key.
    Question(BTreeMap<Id, String>),
    /// The payload of a webhook.
    External(Json),
    /// How the client's tool ended.
    ClientTool(ToolResult),
    /// To a sign-in.
    SignIn(SignIn),
}

/// How a client's tool ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolResult {
    /// What it returned.
    Returned(Json),
    /// Why it failed; never empty.
    Failed(String),
}

/// Which sources the user signed in to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignIn {
    /// These.
    pub connected: BTreeSet<Id>,
    /// Not these.
    pub denied: BTreeSet<Id>,
}

impl Answer {
    /// The kind of suspension that it answers.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Approval(_) => Kind::Approval,
            Self::Question(_) => Kind::Question,
            Self::External(_) => Kind::External,
            Self::ClientTool(_) => Kind::ClientTool,
            Self::SignIn(_) => Kind::SignIn,
        }
    }
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
        let kind = self.body.kind();
        let answer = reply.answer.as_ref().filter(|a| a.kind() == kind);
        let answer = answer.ok_or(Refusal::KindMismatch(takes(kind)))?;
        if reply.arguments_digest.is_some() && reply.arguments_digest != self.body.arguments_digest
        {
            return Err(Refusal::DigestMismatch);
        }
        if let Some(flaw) = &reply.flaw {
            return Err(flaw.clone());
        }
        check_fit(&self.body, answer)?;
        self.check_answerer(reply)?;
        Ok(match answer {
            Answer::Approval(approval) => self.accept(reply, approval, now),
            Answer::Question(_)
            | Answer::External(_)
            | Answer::ClientTool(_)
            | Answer::SignIn(_) => Resumed::Settled(self.answered(reply, now)),
        })
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

    fn answered(&self, reply: &Reply, now: Timestamp) -> State {
        State {
            status: Status::Answered,
            resolution: Some(Resolution {
                by: reply.by.clone(),
                by_roles: reply.by_roles.clone(),
                resolve_time: now,
                answer: reply.answer.clone(),
                reason: String::new(),
                outcome: None,
                grant_id: None,
            }),
            changed: now,
            ..self.state.clone()
        }
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
