//! The service over one store, spoken to as the model is: the model's names for what the service named, ticks for
//! times, and nothing that differs from one run to the next.

mod naming;

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
use super::plain::{Answer, POLICIES, Refused, TICK_SECONDS};
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
