//! `assent health`: asks a running server for its health, for probes.

use std::io::{self, Write as _};
use std::time::Duration;

use tokio::time::timeout;
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// Probes have a deadline of their own, and its usual length is a second or more.
const DEADLINE: Duration = Duration::from_secs(2);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// `--server` holds no address.
    #[error("`{0}` is no server address: write HOST:PORT or unix:PATH")]
    Address(String),
    /// Nobody answers.
    #[error("no server answers at `{0}`")]
    Unreachable(String),
    /// The server has no such entry.
    #[error("the server at `{server}` has no health entry `{service}`")]
    Unknown {
        /// Which server.
        server: String,
        /// Which entry.
        service: String,
    },
}

/// Asks the server for the health of one of its services, or of the whole with an empty name, prints the answer as a
/// word or as JSON, and tells whether it is SERVING.
///
/// # Errors
/// When nobody answers in time, or there is no such service.
pub async fn run(server: &str, service: &str, json: bool) -> Result<bool, ProbeError> {
    let status = check(server, service).await?;
    let name = status.as_str_name();
    // What counts is the exit status; a probe may well have closed standard output.
    let _ = if json {
        writeln!(io::stdout(), "{{\"status\":\"{name}\"}}")
    } else {
        writeln!(io::stdout(), "{name}")
    };
    Ok(status == ServingStatus::Serving)
}

async fn check(server: &str, service: &str) -> Result<ServingStatus, ProbeError> {
    let uri = if server.starts_with("unix:") || server.starts_with("http://") {
        server.to_owned()
    } else {
        format!("http://{server}")
    };
    let endpoint =
        Endpoint::from_shared(uri).map_err(|_| ProbeError::Address(server.to_owned()))?;
    let unreachable = || ProbeError::Unreachable(server.to_owned());
    let asking = async {
        let channel = endpoint.connect().await.map_err(|_| unreachable())?;
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        match HealthClient::new(channel).check(request).await {
            Ok(answer) => Ok(answer.into_inner().status()),
            Err(status) if status.code() == Code::NotFound => Err(ProbeError::Unknown {
                server: server.to_owned(),
                service: service.to_owned(),
            }),
            Err(_) => Err(unreachable()),
        }
    };
    timeout(DEADLINE, asking).await.map_err(|_| unreachable())?
}
