//! The service over one store, spoken to as the model is: the model's names for what the service named, ticks for
//! times, and nothing that differs from one run to the next.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use assent::engine::Engine;
use assent::grpc::{PortClient, Service};
use assent::pb;
use assent::pb::decision_service_server::DecisionService as _;
use assent::policy::{Policy, Source};
use assent::store::clock::{self, ClockOffset};
use assent::watch::Waiters;
use tonic::{Request, Response, Status};

use super::operation::Call;
use super::plain::{Answer, POLICIES, Refused, SOME_TEXT, TICK_SECONDS};
use crate::support::stores::Homes;
use crate::wire;

const TICK_MILLIS: i64 = TICK_SECONDS as i64 * 1000;

/// Enough for any list of a test.
const MAX_PAGES: usize = 1000;

/// A service, without a sweeper that would come and go as it likes.
pub struct Home {
    service: Service,
    engine: Arc<Engine>,
    policy: Arc<ArcSwap<Policy>>,
    clock: ClockOffset,
    began: i64,
    /// The service's ids by the model's, and the other way round.
    theirs: HashMap<String, String>,
    ours: HashMap<String, String>,
    /// Each suspension as it was shown last.
    shown: HashMap<String, pb::Suspension>,
}

/// The policies, compiled.
pub fn policies() -> Vec<Arc<Policy>> {
    let compile = |text: &&str| {
        let source = Source {
            name: "policy.yaml".to_owned(),
            text: (*text).to_owned(),
        };
        Arc::new(Policy::compile(&[source]).unwrap())
    };
    POLICIES.iter().map(compile).collect()
}

impl Home {
    pub async fn fresh(homes: &Homes, policy: Arc<Policy>) -> Self {
        let clock = ClockOffset::default();
        let store = homes.fresh_at(clock.clone()).await;
        let policy = Arc::new(ArcSwap::new(policy));
        let engine = Arc::new(Engine::new(
            store,
            Arc::clone(&policy),
            Arc::new(PortClient::default()),
            Waiters::default(),
            clock::now,
        ));
        Self {
            service: Service::new(Arc::clone(&engine)),
            engine,
            policy,
            clock,
            began: clock::now().millis(),
            theirs: HashMap::new(),
            ours: HashMap::new(),
            shown: HashMap::new(),
        }
    }

    /// Makes a call, and tells the answer in the model's terms. `expected` names what is new in it.
    pub async fn ask(
        &mut self,
        call: &Call,
        expected: &Answer,
        policies: &[Arc<Policy>],
    ) -> Result<Answer, String> {
        let answer = match call.clone() {
            Call::Decide(request) => {
                let response = self.service.decide(Request::new(request)).await;
                response.map(|response| Answer::Decided(Box::new(response.into_inner())))
            }
            Call::Suspend(request) => suspension(self.service.suspend(Request::new(request)).await),
            Call::Resume(mut request) => {
                self.rename(&mut request.suspension_id);
                let response = self.service.resume(Request::new(request)).await;
                response.map(|response| Answer::Resumed(Box::new(response.into_inner())))
            }
            Call::Claim(mut request) => {
                self.rename(&mut request.suspension_id);
                let response = self.service.claim(Request::new(request)).await;
                response.map(|response| Answer::Claimed(Box::new(response.into_inner())))
            }
            Call::Complete(mut request) => {
                self.rename(&mut request.suspension_id);
                suspension(self.service.complete(Request::new(request)).await)
            }
            Call::Cancel(mut request) => {
                if let Some(pb::cancel_request::Target::SuspensionId(id)) = &mut request.target {
                    self.rename(id);
                }
                let response = self.service.cancel(Request::new(request)).await;
                response.map(|response| Answer::Cancelled(response.into_inner()))
            }
            Call::Get(mut request) => {
                self.rename(&mut request.suspension_id);
                suspension(self.service.get_suspension(Request::new(request)).await)
            }
            Call::List(request) => self.list(request).await?,
            Call::ListGrants(request) => self.list_grants(request).await?,
            Call::Revoke(mut request) => {
                self.rename(&mut request.grant_id);
                let response = self.service.revoke_grant(Request::new(request)).await;
                response.map(|response| Answer::Grant(Box::new(response.into_inner())))
            }
            Call::Advance(ticks) => {
                let ticks = u32::try_from(ticks).unwrap();
                let time = Duration::from_secs(u64::from(TICK_SECONDS)) * ticks;
                self.clock.advance(time);
                Ok(Answer::Done)
            }
            Call::Sweep => {
                self.engine
                    .sweep()
                    .await
                    .map_err(|error| error.to_string())?;
                Ok(Answer::Done)
            }
            Call::SwapPolicy(policy) => {
                self.policy.store(Arc::clone(&policies[policy]));
                Ok(Answer::Done)
            }
        };
        let mut answer = answer.unwrap_or_else(|status| {
            Answer::Refused(Refused {
                code: status.code(),
                reason: wire::reason(&status),
                winner: wire::suspension_detail(&status).map(Box::new),
            })
        });
        self.in_the_models_terms(&mut answer, expected)?;
        Ok(answer)
    }

    /// All pages, each no longer than was asked for, in the order of lists.
    async fn list(
        &self,
        mut request: pb::ListSuspensionsRequest,
    ) -> Result<Result<Answer, Status>, String> {
        let mut all = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = match self
                .service
                .list_suspensions(Request::new(request.clone()))
                .await
            {
                Ok(page) => page.into_inner(),
                Err(status) => return Ok(Err(status)),
            };
            if page.suspensions.len() > usize::try_from(request.page_size).unwrap() {
                return Err("a page is longer than was asked for".to_owned());
            }
            all.extend(page.suspensions);
            if page.next_page_token.is_empty() {
                let place = |shown: &pb::Suspension| (millis(&shown.expire_time), shown.id.clone());
                return if all.is_sorted_by_key(place) {
                    Ok(Ok(Answer::Listed(all)))
                } else {
                    Err(format!("the list is not in order: {all:#?}"))
                };
            }
            request.page_token = page.next_page_token;
        }
        Err("the list does not end".to_owned())
    }

    async fn list_grants(
        &self,
        mut request: pb::ListGrantsRequest,
    ) -> Result<Result<Answer, Status>, String> {
        let mut all = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = match self
                .service
                .list_grants(Request::new(request.clone()))
                .await
            {
                Ok(page) => page.into_inner(),
                Err(status) => return Ok(Err(status)),
            };
            if page.grants.len() > usize::try_from(request.page_size).unwrap() {
                return Err("a page is longer than was asked for".to_owned());
            }
            all.extend(page.grants);
            if page.next_page_token.is_empty() {
                return Ok(Ok(Answer::Grants(all)));
            }
            request.page_token = page.next_page_token;
        }
        Err("the list does not end".to_owned())
    }

    /// The service's name for what the model calls so; what the model does not know is its own name.
    fn rename(&self, id: &mut String) {
        if let Some(theirs) = self.theirs.get(id) {
            theirs.clone_into(id);
        }
    }

    fn in_the_models_terms(
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

    /// How much time the test itself took, which must be less than a tick.
    pub fn is_in_time(&self) -> bool {
        clock::now().millis() - self.began < TICK_MILLIS / 2
    }
}

fn suspension(response: Result<Response<pb::Suspension>, Status>) -> Result<Answer, Status> {
    response.map(|response| Answer::Suspension(Box::new(response.into_inner())))
}

fn millis(time: &Option<prost_types::Timestamp>) -> i64 {
    let time = time.as_ref().unwrap();
    time.seconds * 1000 + i64::from(time.nanos) / 1_000_000
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
