//! A server that answers Decide with what no server of today says. A client must take all of it for a denial.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use assent::pb::decision_service_server::{DecisionService, DecisionServiceServer};
use assent::pb::{
    self, DecideRequest, DecideResponse, Effect, Suspension, SuspensionStatus, decide_request,
};
use futures_util::Stream;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// A value that no enum of the contract has.
const UNHEARD_OF: i32 = 99;

/// The server. It serves until its runtime ends.
pub struct OddServer {
    /// Where it listens.
    pub address: String,
    /// The RPCs that were called beside Decide.
    pub called: Arc<Mutex<Vec<&'static str>>>,
}

struct Odd {
    called: Arc<Mutex<Vec<&'static str>>>,
}

impl OddServer {
    /// Starts it on a free port.
    pub async fn start() -> Self {
        let called = Arc::new(Mutex::new(Vec::new()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let service = DecisionServiceServer::new(Odd {
            called: Arc::clone(&called),
        });
        tokio::spawn(
            Server::builder()
                .add_service(service)
                .serve_with_incoming(TcpIncoming::from(listener)),
        );
        Self { address, called }
    }
}

fn odd_answer(call_id: &str) -> DecideResponse {
    let suspension = |status| {
        Some(Suspension {
            id: "0".to_owned(),
            status,
            ..Default::default()
        })
    };
    match call_id {
        "call-1" => DecideResponse {
            effect: UNHEARD_OF,
            suspension: suspension(SuspensionStatus::Approved.into()),
            ..Default::default()
        },
        "call-2" => DecideResponse {
            effect: Effect::Suspend.into(),
            suspension: suspension(UNHEARD_OF),
            ..Default::default()
        },
        _ => DecideResponse {
            effect: Effect::Suspend.into(),
            ..Default::default()
        },
    }
}

macro_rules! odd {
    ($($rpc:ident $request:ident $response:ident;)*) => {
        #[tonic::async_trait]
        impl DecisionService for Odd {
            type WatchSuspensionsStream = Pin<Box<dyn Stream<Item = Result<pb::WatchEvent, Status>> + Send>>;

            async fn decide(&self, request: Request<DecideRequest>) -> Result<Response<DecideResponse>, Status> {
                match request.into_inner().action {
                    Some(decide_request::Action::Call(call)) => Ok(Response::new(odd_answer(&call.call_id))),
                    _ => Err(Status::invalid_argument("no call")),
                }
            }

            async fn watch_suspensions(
                &self,
                _: Request<pb::WatchSuspensionsRequest>,
            ) -> Result<Response<Self::WatchSuspensionsStream>, Status> {
                self.called.lock().unwrap().push("watch_suspensions");
                Err(Status::unimplemented(""))
            }

            $(async fn $rpc(&self, _: Request<pb::$request>) -> Result<Response<pb::$response>, Status> {
                self.called.lock().unwrap().push(stringify!($rpc));
                Err(Status::unimplemented(""))
            })*
        }
    };
}

odd! {
    classify ClassifyRequest ClassifyResponse;
    batch_decide BatchDecideRequest BatchDecideResponse;
    suspend SuspendRequest Suspension;
    resume ResumeRequest ResumeResponse;
    claim ClaimRequest ClaimResponse;
    complete CompleteRequest Suspension;
    cancel CancelRequest CancelResponse;
    get_suspension GetSuspensionRequest Suspension;
    list_suspensions ListSuspensionsRequest ListSuspensionsResponse;
    list_grants ListGrantsRequest ListGrantsResponse;
    revoke_grant RevokeGrantRequest Grant;
}
