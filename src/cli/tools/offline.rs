//! A decision without a server: the service as it serves, over a store that holds nothing, and nothing is kept.

use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use async_trait::async_trait;

use crate::domain::{Decision, Timestamp};
use crate::engine::{Engine, PolicyPort, PortAnswer, PortError, Question, Trace};
use crate::grpc::Service;
use crate::pb;
use crate::policy::{Policy, PortSettings};
use crate::store::nothing::Nothing;
use crate::watch::Waiters;

/// What decides.
pub(super) struct Offline {
    service: Service,
}

impl Offline {
    /// A policy at a moment (none is this one), whose port answers so; none is a port that cannot be reached.
    pub(super) fn new(
        policy: &Arc<Policy>,
        now: Option<Timestamp>,
        port: Option<Decision>,
    ) -> Self {
        let now = now.unwrap_or_else(machine_time);
        let engine = Engine::new(
            Arc::new(Nothing::at(now)),
            Arc::new(ArcSwap::new(Arc::clone(policy))),
            Arc::new(SaidPort(port)),
            Waiters::default(),
            move || now,
        );
        Self {
            service: Service::new(Arc::new(engine)),
        }
    }

    /// What Decide answers, and how it came to it.
    pub(super) async fn decide(
        &self,
        scope: pb::Scope,
        call: pb::ToolCall,
        trace: &mut impl Trace,
    ) -> Result<pb::DecideResponse, tonic::Status> {
        let request = pb::DecideRequest {
            scope: Some(scope),
            action: Some(pb::decide_request::Action::Call(call)),
            expires_in: None,
            resumed: false,
            dry_run: true,
        };
        self.service.decide_traced(request, trace).await
    }
}

fn machine_time() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp::default().after(since.unwrap_or_default())
}

/// A port that is not asked, but said.
struct SaidPort(Option<Decision>);

#[async_trait]
impl PolicyPort for SaidPort {
    async fn ask(&self, _: &PortSettings, _: Question<'_>) -> Result<PortAnswer, PortError> {
        let decision = self.0.ok_or(PortError::Unreachable)?;
        Ok(PortAnswer {
            decision,
            reason: String::new(),
        })
    }
}
