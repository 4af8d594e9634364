//! What Assent is compared with: a tonic service that decides nothing and answers with a message prepared before.
//!
//! For a suspension its handler also runs one bare script, which writes the keys that an opening writes.

use std::fs;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::Path;
use std::thread;

use assent::pb;
use assent::pb::decision_service_server::{DecisionService, DecisionServiceServer};
use prost::Message;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, async_trait};

use crate::opening::BareStore;

/// The file with the answer, in the directory that the child is given.
pub(crate) const ANSWER: &str = "answer.bin";
/// The file with what an opening writes; without it no store is touched.
pub(crate) const OPENING: &str = "opening.json";

/// Serves until the parent's end of the standard input closes. The first line of output is the address.
pub(crate) async fn serve(directory: &Path) {
    let answer = fs::read(directory.join(ANSWER)).expect("the answer was written");
    let answer = pb::DecideResponse::decode(answer.as_slice()).expect("the answer is whole");
    let store = match fs::read(directory.join(OPENING)) {
        Ok(opening) => {
            let opening = serde_json::from_slice(&opening).expect("the opening is whole");
            Some(BareStore::connect(opening).await)
        }
        Err(_) => None,
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("there is a free port");
    println!("{}", listener.local_addr().expect("it is bound"));
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    // As Assent does: without it, answers that take several packets wait for 40 ms.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .add_service(DecisionServiceServer::new(NoOp { answer, store }))
        .serve_with_incoming(incoming)
        .await
        .expect("the listener works");
}

struct NoOp {
    answer: pb::DecideResponse,
    store: Option<BareStore>,
}

/// The service: Decide as above, and the RPCs that are not measured.
macro_rules! service {
    ($($name:ident: $request:ident -> $response:ident;)*) => {
        #[async_trait]
        impl DecisionService for NoOp {
            type WatchSuspensionsStream = futures_util::stream::Empty<Result<pb::WatchEvent, Status>>;

            async fn decide(
                &self,
                request: Request<pb::DecideRequest>,
            ) -> Result<Response<pb::DecideResponse>, Status> {
                if let Some(store) = &self.store {
                    let written = store.write(request.get_ref()).await;
                    written.map_err(|error| Status::unavailable(error.to_string()))?;
                }
                Ok(Response::new(self.answer.clone()))
            }

            async fn watch_suspensions(
                &self,
                _: Request<pb::WatchSuspensionsRequest>,
            ) -> Result<Response<Self::WatchSuspensionsStream>, Status> {
                Err(Status::unimplemented("not measured"))
            }

            $(async fn $name(
                &self,
                _: Request<pb::$request>,
            ) -> Result<Response<pb::$response>, Status> {
                Err(Status::unimplemented("not measured"))
            })*
        }
    };
}

service! {
    classify: ClassifyRequest -> ClassifyResponse;
    batch_decide: BatchDecideRequest -> BatchDecideResponse;
    suspend: SuspendRequest -> Suspension;
    resume: ResumeRequest -> ResumeResponse;
    claim: ClaimRequest -> ClaimResponse;
    complete: CompleteRequest -> Suspension;
    cancel: CancelRequest -> CancelResponse;
    get_suspension: GetSuspensionRequest -> Suspension;
    list_suspensions: ListSuspensionsRequest -> ListSuspensionsResponse;
    list_grants: ListGrantsRequest -> ListGrantsResponse;
    revoke_grant: RevokeGrantRequest -> Grant;
}
