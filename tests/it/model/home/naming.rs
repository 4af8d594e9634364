//! The model's terms for what the service says: names for ids, ticks for times.

use assent::pb;

use super::{Home, TICK_MILLIS, millis};
use crate::model::plain::{Answer, SOME_TEXT};

impl Home {
    /// The service's name for what the model calls so; what the model does not know is its own name.
    pub(super) fn rename(&self, id: &mut String) {
        if let Some(theirs) = self.theirs.get(id) {
            theirs.clone_into(id);
        }
    }

    pub(super) fn in_the_models_terms(
        &mut self,
        answer: &mut Answer,
        expected: &Answer,
    ) -> Result<(), String> {
        self.learn(answer, expected)?;
        match answer {
            Answer::Decided(response) => {
                self.name(&mut response.grant_id);
                some_text(&mut response.decision_id);
                told(&mut response.message_for_model);
                if let Answer::Decided(expected) = expected {
                    open_text(&mut response.reason, &expected.reason);
                }
                let expected = match expected {
                    Answer::Decided(expected) => expected.suspension.as_ref(),
                    _ => None,
                };
                if let Some(shown) = &mut response.suspension {
                    self.translate(shown, expected, true)?;
                }
            }
            Answer::Suspension(shown) => {
                let expected = match expected {
                    Answer::Suspension(expected) => Some(&**expected),
                    _ => None,
                };
                self.translate(shown, expected, true)?;
            }
            Answer::Resumed(response) => {
                let expected = match expected {
                    Answer::Resumed(expected) => expected.suspension.as_ref(),
                    _ => None,
                };
                if let Some(shown) = &mut response.suspension {
                    self.translate(shown, expected, true)?;
                }
            }
            Answer::Claimed(response) => {
                self.tick(&mut response.lease_expire_time);
                let expected = match expected {
                    Answer::Claimed(expected) => expected.suspension.as_ref(),
                    _ => None,
                };
                if let Some(shown) = &mut response.suspension {
                    self.translate(shown, expected, true)?;
                }
            }
            Answer::Cancelled(response) => {
                for id in &mut response.suspension_ids {
                    self.name(id);
                }
                response.suspension_ids.sort_by_key(|id| number(id));
            }
            Answer::Listed(all) => {
                for shown in all.iter_mut() {
                    let id = self.ours.get(&shown.id);
                    let expected = match expected {
                        Answer::Listed(expected) => {
                            expected.iter().find(|expected| Some(&expected.id) == id)
                        }
                        _ => None,
                    };
                    self.translate(shown, expected, true)?;
                }
                all.sort_by_key(|shown| number(&shown.id));
            }
            Answer::Grants(all) => {
                for grant in all.iter_mut() {
                    self.translate_grant(grant);
                }
                all.sort_by_key(|grant| number(&grant.id));
            }
            Answer::Grant(grant) => self.translate_grant(grant),
            Answer::Refused(refused) => {
                let expected = match expected {
                    Answer::Refused(expected) => expected.winner.as_deref(),
                    _ => None,
                };
                if let Some(winner) = &mut refused.winner {
                    self.translate(winner, expected, false)?;
                }
            }
            Answer::Done => {}
        }
        Ok(())
    }

    /// Learns the names of what was opened or given just now.
    fn learn(&mut self, answer: &Answer, expected: &Answer) -> Result<(), String> {
        let pair = match (answer, expected) {
            (Answer::Decided(answer), Answer::Decided(expected)) => {
                let shown = answer.suspension.as_ref().zip(expected.suspension.as_ref());
                shown.map(|(answer, expected)| (&answer.id, &expected.id))
            }
            (Answer::Suspension(answer), Answer::Suspension(expected)) => {
                Some((&answer.id, &expected.id))
            }
            (Answer::Resumed(answer), Answer::Resumed(expected)) => {
                let grant = |response: &pb::ResumeResponse| {
                    let resolution = response.suspension.clone()?.resolution?;
                    (!resolution.grant_id.is_empty()).then_some(resolution.grant_id)
                };
                if let (Some(theirs), Some(ours)) = (grant(answer), grant(expected)) {
                    self.call(&theirs, &ours)?;
                }
                None
            }
            _ => None,
        };
        match pair {
            Some((theirs, ours)) => self.call(theirs, ours),
            None => Ok(()),
        }
    }

    fn call(&mut self, theirs: &str, ours: &str) -> Result<(), String> {
        match (self.ours.get(theirs), self.theirs.get(ours)) {
            (None, None) => {
                self.ours.insert(theirs.to_owned(), ours.to_owned());
                self.theirs.insert(ours.to_owned(), theirs.to_owned());
                Ok(())
            }
            (Some(known), _) if known == ours => Ok(()),
            (known, other) => Err(format!(
                "`{theirs}` is answered where the model has `{ours}`: it is {known:?}, and that is {other:?}"
            )),
        }
    }

    fn name(&self, id: &mut String) {
        if let Some(ours) = self.ours.get(id) {
            ours.clone_into(id);
        }
    }

    fn translate(
        &mut self,
        shown: &mut pb::Suspension,
        expected: Option<&pb::Suspension>,
        whole: bool,
    ) -> Result<(), String> {
        if whole {
            self.versions_tell_changes(shown)?;
        }
        shown.version = 0;
        self.name(&mut shown.id);
        self.tick(&mut shown.create_time);
        self.tick(&mut shown.expire_time);
        if let Some(expected) = expected {
            open_text(&mut shown.reason, &expected.reason);
            open_text(&mut shown.title, &expected.title);
        }
        for vote in &mut shown.votes {
            self.tick(&mut vote.vote_time);
        }
        for claim in &mut shown.claims {
            self.tick(&mut claim.claim_time);
            self.tick(&mut claim.lease_expire_time);
        }
        if let Some(resolution) = &mut shown.resolution {
            self.tick(&mut resolution.resolve_time);
            self.name(&mut resolution.grant_id);
            told(&mut resolution.message_for_model);
            let expected = expected.and_then(|expected| expected.resolution.as_ref());
            if let Some(expected) = expected {
                open_text(&mut resolution.reason, &expected.reason);
            }
        }
        Ok(())
    }

    /// Of two copies the one with the larger version is newer, and the same version shows the same.
    fn versions_tell_changes(&mut self, shown: &pb::Suspension) -> Result<(), String> {
        if let Some(before) = self.shown.get(&shown.id) {
            // What a dry run shows has not been written.
            let written = before.version < shown.version || before == shown;
            let settled_in_a_dry_run = before.version == shown.version
                && (before.status != shown.status || before.execution != shown.execution);
            if !written && !settled_in_a_dry_run {
                return Err(format!(
                    "the version of {before:#?} does not tell it from {shown:#?}"
                ));
            }
        }
        self.shown.insert(shown.id.clone(), shown.clone());
        Ok(())
    }

    fn translate_grant(&self, grant: &mut pb::Grant) {
        self.name(&mut grant.id);
        self.name(&mut grant.suspension_id);
        self.tick(&mut grant.create_time);
        self.tick(&mut grant.expire_time);
    }

    fn tick(&self, time: &mut Option<prost_types::Timestamp>) {
        if time.is_some() {
            *time = Some(prost_types::Timestamp {
                seconds: (millis(time) - self.began).div_euclid(TICK_MILLIS),
                nanos: 0,
            });
        }
    }
}

/// The number in a name of the model's.
fn number(name: &str) -> usize {
    name.get(1..)
        .and_then(|number| number.parse().ok())
        .unwrap_or(usize::MAX)
}

fn some_text(text: &mut String) {
    if !text.is_empty() {
        SOME_TEXT.clone_into(text);
    }
}

/// Where the rules leave a text open, any will do.
fn open_text(text: &mut String, expected: &str) {
    if expected == SOME_TEXT {
        some_text(text);
    }
}

/// Whether the model reads a refusal; the texts themselves are held elsewhere.
fn told(message: &mut String) {
    if message.starts_with("Not executed:") {
        "refused".clone_into(message);
    } else if !message.is_empty() {
        "waits".clone_into(message);
    }
}
