//! `assent health`: asks a running server for its health, for probes.

use std::io::{self, Write as _};
use std::time::Duration;

use tokio::time::timeout;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::error::{CliError, root_cause};
use super::{Exit, server, text};

/// Probes have a deadline of their own, and its usual length is a second or more.
const DEADLINE: Duration = Duration::from_secs(2);

/// Asks the server for the health of one of its services, or of the whole with an empty name, prints the answer as a
/// word or as JSON, and tells whether it is SERVING.
///
/// # Errors
/// When nobody answers in time, or there is no such service.
pub async fn health(address: &str, service: &str, json: bool) -> Result<Exit, CliError> {
    let status = check(address, service).await?;
    let name = status.as_str_name();
    // What counts is the exit status; a probe may well have closed standard output.
    let _ = if json {
        writeln!(io::stdout(), "{{\"status\":\"{name}\"}}")
    } else {
        writeln!(io::stdout(), "{name}")
    };
    Ok(match status {
        ServingStatus::Serving => Exit::Success,
        ServingStatus::Unknown | ServingStatus::NotServing | ServingStatus::ServiceUnknown => {
            Exit::Failed
        }
    })
}

async fn check(address: &str, service: &str) -> Result<ServingStatus, CliError> {
    let endpoint = server::endpoint(address)?;
    let unreachable = |cause: String| CliError::Unreachable {
        address: text::line(address),
        cause: text::line(&cause),
    };
    let asking = async {
        let channel = endpoint
            .connect()
            .await
            .map_err(|error| unreachable(root_cause(&error)))?;
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        match HealthClient::new(channel).check(request).await {
            Ok(answer) => Ok(answer.into_inner().status()),
            Err(status) if status.code() == Code::NotFound => Err(CliError::NoHealthEntry {
                address: text::line(address),
                service: text::line(service),
            }),
            Err(status) => Err(unreachable(status.message().to_owned())),
        }
    };
    timeout(DEADLINE, asking)
        .await
        .map_err(|_| unreachable("no answer in time".to_owned()))?
}
