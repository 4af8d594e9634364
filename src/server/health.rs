//! `grpc.health.v1`: what is served, and how well.
//!
//! tonic-health answers; this adds that the health streams end when the server stops, as an open stream would
//! keep its connection until the drain timeout cuts it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{Stream, StreamExt, stream};
use tokio::sync::Mutex;
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_check_response::ServingStatus as WireStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_health::server::{HealthReporter, HealthService};

use crate::pb;

/// The server as a whole: it answers. It does so without its store, as a call that nobody need be asked about
/// is decided without one.
const SERVER: &str = "";
/// Whether the newest document is the one in use. A broken one is not; the one before it goes on deciding.
const POLICY: &str = "assent.policy";
/// Whether the store answers.
const STORE: &str = "assent.store";

const ENTRIES: [&str; 4] = [
    SERVER,
    pb::decision_service_server::SERVICE_NAME,
    POLICY,
    STORE,
];

/// The health of one server; clones share it.
#[derive(Clone)]
pub(super) struct ServerHealth {
    reporter: HealthReporter,
    draining: Arc<AtomicBool>,
    /// Held while something changes, so that nothing is said to serve again once all of it does not.
    changing: Arc<Mutex<()>>,
}

impl ServerHealth {
    /// Everything serves but the store, which has not been asked yet.
    pub(super) async fn new() -> Self {
        let reporter = HealthReporter::new();
        for entry in ENTRIES {
            let status = if entry == STORE {
                ServingStatus::NotServing
            } else {
                ServingStatus::Serving
            };
            reporter.set_service_status(entry, status).await;
        }
        Self {
            reporter,
            draining: Arc::default(),
            changing: Arc::default(),
        }
    }

    /// The service that tells it.
    pub(super) fn service(&self) -> HealthServer<impl Health> {
        HealthServer::new(DrainingHealth {
            answers: HealthService::from_health_reporter(self.reporter.clone()),
            draining: Arc::clone(&self.draining),
        })
    }

    /// Says whether the store answers.
    pub(super) async fn store_answers(&self, answers: bool) {
        self.set(STORE, answers).await;
    }

    /// Says whether the newest policy document could be taken.
    pub(super) async fn policy_is_usable(&self, usable: bool) {
        self.set(POLICY, usable).await;
    }

    async fn set(&self, entry: &str, serves: bool) {
        let _one_at_a_time = self.changing.lock().await;
        if !self.draining.load(Ordering::SeqCst) {
            let status = if serves {
                ServingStatus::Serving
            } else {
                ServingStatus::NotServing
            };
            self.reporter.set_service_status(entry, status).await;
        }
    }

    /// Says for good that nothing is served any more, and ends every stream with that.
    pub(super) async fn drain(&self) {
        let _one_at_a_time = self.changing.lock().await;
        self.draining.store(true, Ordering::SeqCst);
        for entry in ENTRIES {
            self.reporter
                .set_service_status(entry, ServingStatus::NotServing)
                .await;
        }
    }
}

struct DrainingHealth {
    answers: HealthService,
    draining: Arc<AtomicBool>,
}

type Statuses = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Health for DrainingHealth {
    type WatchStream = Statuses;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        self.answers.check(request).await
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Statuses>, Status> {
        let statuses = self.answers.watch(request).await?.into_inner();
        Ok(Response::new(until_drained(
            statuses,
            Arc::clone(&self.draining),
        )))
    }
}

/// The statuses up to the one that says that the server stops.
fn until_drained(
    statuses: impl Stream<Item = Result<HealthCheckResponse, Status>> + Send + Unpin + 'static,
    draining: Arc<AtomicBool>,
) -> Statuses {
    let step = |(rest, draining): (Option<_>, Arc<AtomicBool>)| async move {
        let mut rest: Box<_> = rest?;
        let status: Result<HealthCheckResponse, Status> = StreamExt::next(&mut *rest).await?;
        let stops = status.as_ref().map_or(true, |status| {
            status.status == i32::from(WireStatus::NotServing)
        });
        let is_last = stops && draining.load(Ordering::SeqCst);
        Some((status, ((!is_last).then_some(rest), draining)))
    };
    Box::pin(stream::unfold((Some(Box::new(statuses)), draining), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(entry: &str) -> Request<HealthCheckRequest> {
        Request::new(HealthCheckRequest {
            service: entry.to_owned(),
        })
    }

    fn endpoint(health: &ServerHealth) -> DrainingHealth {
        DrainingHealth {
            answers: HealthService::from_health_reporter(health.reporter.clone()),
            draining: Arc::clone(&health.draining),
        }
    }

    #[tokio::test]
    async fn streams_end_with_not_serving_when_the_server_drains() {
        let health = ServerHealth::new().await;
        let endpoint = endpoint(&health);
        for entry in ENTRIES {
            let mut statuses = endpoint.watch(named(entry)).await.unwrap().into_inner();
            let first = statuses.next().await.unwrap().unwrap();
            assert_eq!(first.status() == WireStatus::Serving, entry != STORE);
        }
        let mut statuses = endpoint.watch(named(SERVER)).await.unwrap().into_inner();
        health.drain().await;
        let rest: Vec<_> = statuses
            .by_ref()
            .map(|status| status.unwrap().status())
            .collect()
            .await;
        assert_eq!(rest, [WireStatus::NotServing]);
        let late = endpoint.watch(named(STORE)).await.unwrap().into_inner();
        assert_eq!(late.count().await, 1);
    }

    #[tokio::test]
    async fn nothing_serves_again_once_it_drains() {
        let health = ServerHealth::new().await;
        health.store_answers(true).await;
        health.drain().await;
        health.store_answers(true).await;
        health.policy_is_usable(true).await;
        for entry in ENTRIES {
            let status = endpoint(&health)
                .check(named(entry))
                .await
                .unwrap()
                .into_inner();
            assert_eq!(status.status(), WireStatus::NotServing);
        }
    }
}
