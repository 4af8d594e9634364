//! Claim and Complete: one approval is one execution (S6).

use assent::pb;

use super::rules::LEASE;
use super::{Answer, Plain, Refused, answered, digest, failed, invalid};

impl Plain {
    pub fn claim(&mut self, request: pb::ClaimRequest) -> Answer {
        answered(self.try_claim(request))
    }

    fn try_claim(&mut self, request: pb::ClaimRequest) -> Result<Answer, Refused> {
        if request.attempt_id.is_empty() || request.force && request.by.is_empty() {
            return Err(invalid());
        }
        let index = self.named(&request.suspension_id, request.scope.as_ref())?;
        let shown = &self.records[index].shown;
        if shown.status() != pb::SuspensionStatus::Approved {
            return Err(failed("NOT_APPROVED"));
        }
        let tried = |attempt: &pb::ClaimRecord| attempt.attempt_id == request.attempt_id;
        let holds = shown.claims.last().is_some_and(tried);
        let forced = match shown.execution() {
            pb::Execution::Voided => return Err(failed("SUSPENSION_CANCELLED")),
            pb::Execution::Completed => return Err(failed("ALREADY_CLAIMED")),
            pb::Execution::Claimed if !holds => return Err(failed("ALREADY_CLAIMED")),
            // A forced claim is a fresh attempt.
            pb::Execution::InDoubt if !request.force || shown.claims.iter().any(tried) => {
                return Err(failed("IN_DOUBT"));
            }
            pb::Execution::None if self.is_stale(shown) => return Err(failed("APPROVAL_STALE")),
            pb::Execution::InDoubt => true,
            pb::Execution::Claimed | pb::Execution::None => false,
            pb::Execution::Unspecified => unreachable!("every suspension says"),
        };
        if !request.arguments_digest.is_empty()
            && request.arguments_digest != shown.arguments_digest
        {
            return Err(failed("DIGEST_MISMATCH"));
        }
        let resolution = shown.resolution.as_ref().unwrap();
        let call = shown.call.as_ref().unwrap();
        let arguments = if resolution.edited_arguments_json.is_empty() {
            call.arguments_json.clone()
        } else {
            resolution.edited_arguments_json.clone()
        };
        let tool = call.tool.clone();
        if !holds {
            let votes = shown
                .votes
                .iter()
                .map(|v| (v.by.clone(), v.by_roles.clone()));
            let last = (resolution.by.clone(), resolution.by_roles.clone());
            let approvers: Vec<_> = votes.chain([last]).collect();
            self.judge_again(index, &arguments, &approvers)?;
            let claim = pb::ClaimRecord {
                attempt_id: request.attempt_id,
                by: request.by,
                forced,
                claim_time: self.time(self.now),
                lease_expire_time: self.time(self.now + LEASE),
                ..Default::default()
            };
            let shown = &mut self.records[index].shown;
            shown.claims.push(claim);
            shown.execution = pb::Execution::Claimed.into();
        }
        let shown = self.records[index].shown.clone();
        Ok(Answer::Claimed(Box::new(pb::ClaimResponse {
            arguments_digest: digest(&tool, &arguments),
            arguments_json: arguments,
            lease_expire_time: shown.claims.last().unwrap().lease_expire_time,
            suspension: Some(shown),
        })))
    }

    pub fn complete(&mut self, request: pb::CompleteRequest) -> Answer {
        answered(self.try_complete(request))
    }

    fn try_complete(&mut self, request: pb::CompleteRequest) -> Result<Answer, Refused> {
        if request.attempt_id.is_empty() || request.outcome == 0 {
            return Err(invalid());
        }
        let index = self.named(&request.suspension_id, request.scope.as_ref())?;
        let shown = &mut self.records[index].shown;
        let execution = shown.execution();
        let holder = shown.claims.last_mut();
        let Some(held) = holder.filter(|claim| claim.attempt_id == request.attempt_id) else {
            return Err(failed("NOT_CLAIMED"));
        };
        match execution {
            pb::Execution::Claimed | pb::Execution::InDoubt => {
                held.outcome = request.outcome;
                held.detail = request.detail;
                shown.execution = pb::Execution::Completed.into();
            }
            _ if held.outcome != request.outcome => return Err(failed("NOT_CLAIMED")),
            _ => {}
        }
        Ok(self.show(index))
    }
}
