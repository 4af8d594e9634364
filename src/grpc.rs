//! The contract over gRPC: convert, call, convert. Nothing is decided here.
//!
//! Every request takes the policy of its moment once, and sees no other (S12).

mod complete_errors;
mod convert;
mod page_token;
mod port;
mod status;

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use tonic::{Request, Response, Status};

use self::convert::request::{self, Cancel, ClaimOf, Complete, Get, MAX_BATCH, Resume, Revoke};
use self::convert::response;
use self::status::Problem;
use crate::engine::{Engine, Judged, Trace};
use crate::pb;
use crate::pb::decision_service_server::DecisionService;
use crate::policy::{Policy, Untraced};

pub use self::complete_errors::{CompleteErrors, WithCompleteErrors};
pub use self::port::PortClient;

/// `assent.v1.DecisionService`, over an engine.
#[derive(Clone)]
pub struct Service {
    engine: Arc<Engine>,
}

impl Service {
    /// Serves what `engine` decides.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Decides as the `Decide` RPC does, and lets `trace` hear each step.
    ///
    /// # Errors
    /// The status that the RPC would end with.
    pub async fn decide_traced(
        &self,
        wire: pb::DecideRequest,
        trace: &mut impl Trace,
    ) -> Result<pb::DecideResponse, Status> {
        let policy = self.engine.policy();
        Ok(self.decide_one(&policy, wire, trace).await?)
    }

    async fn decide_one(
        &self,
        policy: &Policy,
        wire: pb::DecideRequest,
        trace: &mut impl Trace,
    ) -> Result<pb::DecideResponse, Problem> {
        let request = request::decide(wire, policy.limits())?;
        let decided = self.engine.decide_traced(policy, request, trace).await?;
        Ok(response::decided(decided))
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl DecisionService for Service {
    async fn classify(&self, wire: Request<pb::ClassifyRequest>) -> Answer<pb::ClassifyResponse> {
        let policy = self.engine.policy();
        let asked = request::classify(wire.into_inner(), policy.limits())?;
        let judged = Judged::new(&policy, &asked);
        Ok(Response::new(response::classified(judged, &policy)))
    }

    async fn decide(&self, wire: Request<pb::DecideRequest>) -> Answer<pb::DecideResponse> {
        let answer = self.decide_traced(wire.into_inner(), &mut Untraced).await?;
        Ok(Response::new(answer))
    }

    async fn batch_decide(
        &self,
        wire: Request<pb::BatchDecideRequest>,
    ) -> Answer<pb::BatchDecideResponse> {
        use pb::batch_decide_result::Result as Wire;
        let policy = self.engine.policy();
        let requests = request::batch(wire.into_inner())?;
        // All side by side, so that a policy port or a store that is slow is waited for once.
        let mut results = stream::iter(requests)
            .map(async |wire| self.decide_one(&policy, wire, &mut Untraced).await)
            .buffered(MAX_BATCH);
        let mut responses = Vec::new();
        let mut room = response::Room::default();
        while let Some(result) = results.next().await {
            let result = match result {
                Ok(decision) => match room.take(&decision) {
                    Ok(()) => Wire::Decision(decision),
                    Err(crowded) => Wire::Error(Problem::from(crowded).into()),
                },
                Err(problem) => Wire::Error(problem.into()),
            };
            responses.push(pb::BatchDecideResult {
                result: Some(result),
            });
            // Decisions that do not wait would otherwise hold this thread one after the other.
            tokio::task::yield_now().await;
        }
        Ok(Response::new(pb::BatchDecideResponse { responses }))
    }

    async fn suspend(&self, wire: Request<pb::SuspendRequest>) -> Answer<pb::Suspension> {
        let policy = self.engine.policy();
        let request = request::suspend(wire.into_inner(), policy.limits())?;
        let suspension = self.engine.suspend(&policy, request).await?;
        Ok(Response::new(response::suspension(suspension)))
    }

    async fn resume(&self, wire: Request<pb::ResumeRequest>) -> Answer<pb::ResumeResponse> {
        let policy = self.engine.policy();
        let Resume { tenant, id, reply } = request::resume(wire.into_inner(), policy.limits())?;
        let resumption = self.engine.resume(&policy, &tenant, id, &reply).await?;
        Ok(Response::new(response::resumed(resumption)))
    }

    async fn claim(&self, wire: Request<pb::ClaimRequest>) -> Answer<pb::ClaimResponse> {
        let policy = self.engine.policy();
        let ClaimOf { tenant, id, claim } = request::claim(wire.into_inner())?;
        let receipt = self.engine.claim(&policy, &tenant, id, &claim).await?;
        Ok(Response::new(response::claimed(receipt)))
    }

    async fn complete(&self, wire: Request<pb::CompleteRequest>) -> Answer<pb::Suspension> {
        let policy = self.engine.policy();
        let Complete {
            tenant,
            id,
            attempt_id,
            outcome,
            detail,
        } = request::complete(wire.into_inner())?;
        let suspension = self
            .engine
            .complete(&policy, &tenant, id, &attempt_id, outcome, &detail)
            .await?;
        Ok(Response::new(response::suspension(suspension)))
    }

    async fn cancel(&self, wire: Request<pb::CancelRequest>) -> Answer<pb::CancelResponse> {
        let policy = self.engine.policy();
        let Cancel {
            tenant,
            target,
            by,
            reason,
        } = request::cancel(wire.into_inner())?;
        let cancelled = self
            .engine
            .cancel(&policy, &tenant, &target, &by, &reason)
            .await?;
        Ok(Response::new(response::cancelled(cancelled)))
    }

    async fn get_suspension(
        &self,
        wire: Request<pb::GetSuspensionRequest>,
    ) -> Answer<pb::Suspension> {
        let policy = self.engine.policy();
        let Get { tenant, id, wait } = request::get(wire.into_inner())?;
        let read = self.engine.get(&policy, &tenant, id, wait).await;
        let suspension = read.map_err(status::reading)?;
        Ok(Response::new(response::suspension(suspension)))
    }

    async fn list_suspensions(
        &self,
        wire: Request<pb::ListSuspensionsRequest>,
    ) -> Answer<pb::ListSuspensionsResponse> {
        let request = request::list(wire.into_inner())?;
        let listed = self.engine.list(&request).await.map_err(status::reading)?;
        Ok(Response::new(response::listed(listed, &request)))
    }

    type WatchSuspensionsStream = BoxStream<'static, Result<pb::WatchEvent, Status>>;

    async fn watch_suspensions(
        &self,
        wire: Request<pb::WatchSuspensionsRequest>,
    ) -> Answer<Self::WatchSuspensionsStream> {
        let watched = request::watch(wire.into_inner())?;
        let events = self.engine.watch(watched).map(|event| match event {
            Ok(event) => Ok(response::watch_event(event)),
            Err(error) => Err(status::reading(error).into()),
        });
        Ok(Response::new(events.boxed()))
    }

    async fn list_grants(
        &self,
        wire: Request<pb::ListGrantsRequest>,
    ) -> Answer<pb::ListGrantsResponse> {
        let request = request::list_grants(wire.into_inner())?;
        let listed = self.engine.list_grants(&request).await;
        let listed = listed.map_err(status::reading)?;
        Ok(Response::new(response::grants_listed(listed, &request)))
    }

    async fn revoke_grant(&self, wire: Request<pb::RevokeGrantRequest>) -> Answer<pb::Grant> {
        let Revoke { tenant, id, by } = request::revoke_grant(wire.into_inner())?;
        let grant = self.engine.revoke_grant(&tenant, id, &by).await?;
        Ok(Response::new(response::grant(grant)))
    }
}

#[cfg(test)]
mod tests;
