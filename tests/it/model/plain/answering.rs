//! Resume: the eleven checks of S6, in their order.

use assent::pb;
use assent::pb::client_tool_answer::Result as ToolEnd;
use assent::pb::resume_request::Answer as Said;
use tonic::Code;

use super::deciding::principal;
use super::rules::{Approvers, Finding, GRANT};
use super::{Answer, Plain, Refused, answered, failed, invalid, json, refused, scope_of, ticks};

impl Plain {
    pub fn resume(&mut self, request: pb::ResumeRequest) -> Answer {
        answered(self.try_resume(request))
    }

    fn try_resume(&mut self, request: pb::ResumeRequest) -> Result<Answer, Refused> {
        if request.by.is_empty() || request.answer.as_ref().is_some_and(is_malformed) {
            return Err(invalid());
        }
        let index = self.named(&request.suspension_id, request.scope.as_ref())?;
        let record = &self.records[index];
        let shown = &record.shown;
        match shown.status() {
            pb::SuspensionStatus::Pending => {}
            pb::SuspensionStatus::Expired => return Err(failed("SUSPENSION_EXPIRED")),
            pb::SuspensionStatus::Cancelled => return Err(failed("SUSPENSION_CANCELLED")),
            _ if self.was_given(index, &request) => {
                return Ok(self.resumed(index, pb::ResumeOutcome::Duplicate));
            }
            _ => {
                let winner = pb::Suspension {
                    id: shown.id.clone(),
                    kind: shown.kind,
                    status: shown.status,
                    resolution: shown.resolution.clone(),
                    ..Default::default()
                };
                return Err(Refused {
                    winner: Some(Box::new(winner)),
                    ..failed("ALREADY_RESOLVED")
                });
            }
        }
        let answer = request.answer.clone();
        let answer = answer.filter(|answer| says_something(answer, shown.kind()));
        let Some(answer) = answer else {
            return Err(refused(Code::InvalidArgument, "KIND_MISMATCH"));
        };
        let digest = &request.arguments_digest;
        if !digest.is_empty() && *digest != shown.arguments_digest {
            return Err(failed("DIGEST_MISMATCH"));
        }
        if !fits(&answer, shown) {
            return Err(invalid());
        }
        let rule = Approvers::of(shown.approvers.as_ref());
        let requester = principal(scope_of(shown));
        if rule.exclude_requester && (requester.is_empty() || requester == request.by) {
            return Err(refused(Code::PermissionDenied, "SELF_APPROVAL"));
        }
        if !rule.admits(requester, &request.by, &request.by_roles) {
            return Err(refused(Code::PermissionDenied, "APPROVER_NOT_ELIGIBLE"));
        }
        if let Said::Approval(approval) = &answer
            && !approval.edited_arguments_json.is_empty()
        {
            let approvers = vec![(request.by.clone(), request.by_roles.clone())];
            self.judge_again(index, &approval.edited_arguments_json, &approvers)?;
        }
        Ok(self.accept(index, &request, answer))
    }

    /// Whether policy would let it run now, with these arguments and after these approvals.
    pub(super) fn judge_again(
        &self,
        index: usize,
        arguments: &str,
        approvers: &[(String, Vec<String>)],
    ) -> Result<(), Refused> {
        let shown = &self.records[index].shown;
        let call = shown.call.as_ref().unwrap();
        let verdict = self.judge(&call.tool, call.annotations.as_ref(), arguments);
        let rule = verdict.terms.approvers;
        let requester = principal(scope_of(shown));
        let mut people: Vec<&str> = approvers
            .iter()
            .filter(|(by, roles)| rule.admits(requester, by, roles))
            .map(|(by, _)| by.as_str())
            .collect();
        people.sort_unstable();
        people.dedup();
        match verdict.finding {
            Finding::Deny => Err(failed("POLICY_DENIED")),
            Finding::Review if people.len() < rule.quorum => Err(failed("APPROVAL_INSUFFICIENT")),
            Finding::Review | Finding::Allow => Ok(()),
        }
    }

    /// The same answer by the same person, or a further approval by one who has voted.
    fn was_given(&self, index: usize, request: &pb::ResumeRequest) -> bool {
        let record = &self.records[index];
        let resolution = record.shown.resolution.as_ref().unwrap();
        let (Some(first), Some(again)) = (&record.answer, &request.answer) else {
            return false;
        };
        if resolution.by == request.by && is_same(first, again) {
            return true;
        }
        let Said::Approval(approval) = again else {
            return false;
        };
        record.shown.status() == pb::SuspensionStatus::Approved
            && approval.approved == Some(true)
            && approval.edited_arguments_json.is_empty()
            && approval.grant_scope() == pb::GrantScope::Unspecified
            && record.shown.votes.iter().any(|vote| vote.by == request.by)
    }

    fn accept(&mut self, index: usize, request: &pb::ResumeRequest, answer: Said) -> Answer {
        let now = self.time(self.now);
        let mut resolution = pb::Resolution {
            by: request.by.clone(),
            by_roles: request.by_roles.clone(),
            resolve_time: now,
            ..Default::default()
        };
        let shown = &mut self.records[index].shown;
        let mut status = pb::SuspensionStatus::Answered;
        match answer.clone() {
            Said::Approval(approval) => {
                let approved = approval.approved.unwrap();
                let quorum = Approvers::of(shown.approvers.as_ref()).quorum;
                if approved && quorum > 1 {
                    if shown.votes.iter().any(|vote| vote.by == request.by) {
                        return self.resumed(index, pb::ResumeOutcome::Duplicate);
                    }
                    shown.votes.push(pb::Vote {
                        by: request.by.clone(),
                        by_roles: request.by_roles.clone(),
                        vote_time: now,
                        reason: approval.reason.clone(),
                    });
                    if shown.votes.len() < quorum {
                        return self.resumed(index, pb::ResumeOutcome::VoteRecorded);
                    }
                }
                resolution.approved = Some(approved);
                resolution.reason = approval.reason.clone();
                resolution.edited_arguments_json = approval.edited_arguments_json.clone();
                if approved {
                    status = pb::SuspensionStatus::Approved;
                } else {
                    status = pb::SuspensionStatus::Denied;
                    resolution.kind = "denied".to_owned();
                    resolution.message_for_model = "refused".to_owned();
                }
                if approval.grant_scope() == pb::GrantScope::Session {
                    resolution.grant_id = self.give(index, request);
                }
            }
            Said::Question(question) => resolution.answers = question.answers,
            Said::External(external) => resolution.payload_json = external.payload_json,
            Said::ClientTool(ended) => match ended.result.unwrap() {
                ToolEnd::ResultJson(result) => resolution.tool_result_json = result,
                ToolEnd::Error(error) => resolution.tool_error = error,
            },
            Said::SignIn(sign_in) => {
                resolution.connected = sorted(&sign_in.connected);
                resolution.denied = sorted(&sign_in.denied);
            }
        }
        let record = &mut self.records[index];
        record.shown.status = status.into();
        record.shown.resolution = Some(resolution);
        record.answer = Some(answer);
        self.resumed(index, pb::ResumeOutcome::Accepted)
    }

    /// Gives a session grant. One at a time is live for the same calls.
    fn give(&mut self, index: usize, request: &pb::ResumeRequest) -> String {
        let shown = &self.records[index].shown;
        let call = shown.call.as_ref().unwrap();
        let grant = pb::Grant {
            id: format!("g{}", self.grants.len()),
            scope: Some(pb::Scope {
                run_id: String::new(),
                parent_run_id: String::new(),
                ..scope_of(shown).clone()
            }),
            tool: call.tool.clone(),
            server: call.server.clone(),
            arguments_digest: shown.arguments_digest.clone(),
            by: request.by.clone(),
            suspension_id: shown.id.clone(),
            create_time: self.time(self.now),
            expire_time: self.time(self.now + GRANT),
            policy_revision: shown.policy_revision.clone(),
        };
        let now = self.time(self.now);
        let before = self.grants.iter_mut().filter(|other| {
            ticks(&other.expire_time) > self.now
                && other.scope == grant.scope
                && other.tool == grant.tool
                && other.server == grant.server
                && other.arguments_digest == grant.arguments_digest
                && other.policy_revision == grant.policy_revision
        });
        before.for_each(|other| other.expire_time = now);
        let id = grant.id.clone();
        self.grants.push(grant);
        id
    }

    fn resumed(&self, index: usize, outcome: pb::ResumeOutcome) -> Answer {
        Answer::Resumed(Box::new(pb::ResumeResponse {
            suspension: Some(self.records[index].shown.clone()),
            outcome: outcome.into(),
        }))
    }
}

/// What can be seen without the suspension.
fn is_malformed(answer: &Said) -> bool {
    match answer {
        Said::Approval(approval) => {
            let denies = approval.approved == Some(false);
            let grants = approval.grant_scope != 0;
            let edits = !approval.edited_arguments_json.is_empty();
            pb::GrantScope::try_from(approval.grant_scope).is_err()
                || denies && (grants || edits)
                || grants && edits
        }
        Said::ClientTool(ended) => match &ended.result {
            None => true,
            Some(ToolEnd::Error(error)) => error.is_empty(),
            Some(ToolEnd::ResultJson(_)) => false,
        },
        Said::SignIn(sign_in) => [&sign_in.connected, &sign_in.denied]
            .iter()
            .any(|sources| sources.iter().any(|s| count(sources, s) > 1)),
        Said::Question(_) | Said::External(_) => false,
    }
}

/// An answer of the kind that is asked for; there is no default.
fn says_something(answer: &Said, kind: pb::SuspensionKind) -> bool {
    match answer {
        Said::Approval(approval) => {
            kind == pb::SuspensionKind::Approval && approval.approved.is_some()
        }
        Said::Question(_) => kind == pb::SuspensionKind::Question,
        Said::External(_) => kind == pb::SuspensionKind::External,
        Said::ClientTool(_) => kind == pb::SuspensionKind::ClientTool,
        Said::SignIn(_) => kind == pb::SuspensionKind::SignIn,
    }
}

/// Check 8: schema, questions and options, sources, edits and grants.
fn fits(answer: &Said, shown: &pb::Suspension) -> bool {
    match answer {
        Said::Approval(approval) => {
            let quorum = Approvers::of(shown.approvers.as_ref()).quorum;
            let edited = &approval.edited_arguments_json;
            let edits = edited.is_empty()
                || quorum <= 1 && json(edited).is_some_and(|json| json.is_object());
            let grants =
                approval.grant_scope == 0 || quorum <= 1 && !scope_of(shown).session_id.is_empty();
            edits && grants
        }
        Said::Question(said) => {
            let fits = |question: &pb::Question| {
                said.answers.get(&question.key).is_some_and(|answer| {
                    !question.options_only || question.options.contains(answer)
                })
            };
            said.answers.len() == shown.questions.len() && shown.questions.iter().all(fits)
        }
        // The one schema that is used here wants an object with an integer `n`.
        Said::External(external) => json(&external.payload_json)
            .is_some_and(|payload| payload.get("n").is_some_and(|n| n.is_i64())),
        Said::ClientTool(ended) => match ended.result.as_ref().unwrap() {
            ToolEnd::ResultJson(result) => json(result).is_some(),
            ToolEnd::Error(_) => true,
        },
        Said::SignIn(sign_in) => {
            let both = [sign_in.connected.clone(), sign_in.denied.clone()].concat();
            sorted(&both) == sorted(&shown.sources)
        }
    }
}

/// Whether two answers say the same, everything in them.
fn is_same(first: &Said, again: &Said) -> bool {
    let same_json = |one: &str, other: &str| json(one).is_some() && json(one) == json(other);
    match (first, again) {
        (Said::Approval(one), Said::Approval(other)) => {
            let (mine, theirs) = (&one.edited_arguments_json, &other.edited_arguments_json);
            one.approved == other.approved
                && one.reason == other.reason
                && one.grant_scope == other.grant_scope
                && (mine.is_empty() && theirs.is_empty() || same_json(mine, theirs))
        }
        (Said::Question(one), Said::Question(other)) => one == other,
        (Said::External(one), Said::External(other)) => {
            same_json(&one.payload_json, &other.payload_json)
        }
        (Said::ClientTool(one), Said::ClientTool(other)) => match (&one.result, &other.result) {
            (Some(ToolEnd::ResultJson(one)), Some(ToolEnd::ResultJson(other))) => {
                same_json(one, other)
            }
            (one, other) => one == other,
        },
        (Said::SignIn(one), Said::SignIn(other)) => {
            sorted(&one.connected) == sorted(&other.connected)
                && sorted(&one.denied) == sorted(&other.denied)
        }
        _ => false,
    }
}

fn sorted(texts: &[String]) -> Vec<String> {
    let mut texts = texts.to_vec();
    texts.sort();
    texts
}

fn count(texts: &[String], text: &str) -> usize {
    texts.iter().filter(|other| *other == text).count()
}
