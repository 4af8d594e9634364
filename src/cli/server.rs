//! The running server: where it is, and one method for each RPC that a command uses. Each await has a deadline.

use std::time::{Duration, SystemTime};

use prost_types::Timestamp;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};

use super::error::{CliError, root_cause};
use super::text;
use crate::pb;
use crate::pb::decision_service_client::DecisionServiceClient;

/// Where a server listens unless it was told otherwise.
const DEFAULT_ADDRESS: &str = "127.0.0.1:50051";
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// Long enough for a policy port and a store that are slow, short enough for a person.
const ANSWER_DEADLINE: Duration = Duration::from_secs(15);

type Client = DecisionServiceClient<Channel>;

/// A server, connected to when it is first asked something.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// As it was named.
    address: String,
    endpoint: Endpoint,
    client: Option<Client>,
}

impl Server {
    /// The server at an address, which is read as [`endpoint`] does.
    pub(super) fn at(address: &str) -> Result<Self, CliError> {
        let endpoint = endpoint(address)?.connect_timeout(CONNECT_DEADLINE);
        Ok(Self {
            address: address.to_owned(),
            endpoint,
            client: None,
        })
    }

    /// What a next command needs to reach the same server: nothing for the default address.
    pub(super) fn flag(&self) -> String {
        match self.address.as_str() {
            DEFAULT_ADDRESS => String::new(),
            address => format!(" --server {}", text::shell_word(address)),
        }
    }

    pub(super) async fn classify(
        &mut self,
        request: pb::ClassifyRequest,
    ) -> Result<pb::ClassifyResponse, CliError> {
        self.ask(request, ANSWER_DEADLINE, async |client, request| {
            client.classify(request).await
        })
        .await
    }

    pub(super) async fn decide(
        &mut self,
        request: pb::DecideRequest,
    ) -> Result<pb::DecideResponse, CliError> {
        self.ask(request, ANSWER_DEADLINE, async |client, request| {
            client.decide(request).await
        })
        .await
    }

    pub(super) async fn list_suspensions(
        &mut self,
        request: pb::ListSuspensionsRequest,
    ) -> Result<pb::ListSuspensionsResponse, CliError> {
        self.ask(request, ANSWER_DEADLINE, async |client, request| {
            client.list_suspensions(request).await
        })
        .await
    }

    /// The deadline comes after the wait that is asked for.
    pub(super) async fn get_suspension(
        &mut self,
        request: pb::GetSuspensionRequest,
    ) -> Result<pb::Suspension, CliError> {
        let wait = request
            .wait
            .and_then(|wait| Duration::try_from(wait).ok())
            .unwrap_or_default();
        let deadline = ANSWER_DEADLINE.saturating_add(wait);
        self.ask(request, deadline, async |client, request| {
            client.get_suspension(request).await
        })
        .await
    }

    pub(super) async fn watch_suspensions(
        &mut self,
        request: pb::WatchSuspensionsRequest,
    ) -> Result<Events, CliError> {
        let stream = self
            .ask(request, ANSWER_DEADLINE, async |client, request| {
                client.watch_suspensions(request).await
            })
            .await?;
        Ok(Events {
            stream,
            address: self.safe_address(),
        })
    }

    pub(super) async fn resume(
        &mut self,
        request: pb::ResumeRequest,
    ) -> Result<pb::ResumeResponse, CliError> {
        self.ask(request, ANSWER_DEADLINE, async |client, request| {
            client.resume(request).await
        })
        .await
    }

    pub(super) async fn cancel(
        &mut self,
        request: pb::CancelRequest,
    ) -> Result<pb::CancelResponse, CliError> {
        self.ask(request, ANSWER_DEADLINE, async |client, request| {
            client.cancel(request).await
        })
        .await
    }

    pub(super) async fn claim(
        &mut self,
        request: pb::ClaimRequest,
    ) -> Result<pb::ClaimResponse, CliError> {
        self.ask(request, ANSWER_DEADLINE, async |client, request| {
            client.claim(request).await
        })
        .await
    }

    pub(super) async fn list_grants(
        &mut self,
        request: pb::ListGrantsRequest,
    ) -> Result<pb::ListGrantsResponse, CliError> {
        self.ask(request, ANSWER_DEADLINE, async |client, request| {
            client.list_grants(request).await
        })
        .await
    }

    pub(super) async fn revoke_grant(
        &mut self,
        request: pb::RevokeGrantRequest,
    ) -> Result<pb::Grant, CliError> {
        self.ask(request, ANSWER_DEADLINE, async |client, request| {
            client.revoke_grant(request).await
        })
        .await
    }

    pub(super) async fn complete(
        &mut self,
        request: pb::CompleteRequest,
    ) -> Result<pb::Suspension, CliError> {
        self.ask(request, ANSWER_DEADLINE, async |client, request| {
            client.complete(request).await
        })
        .await
    }

    async fn ask<Q, A>(
        &mut self,
        message: Q,
        deadline: Duration,
        send: impl AsyncFnOnce(&mut Client, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, CliError> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.connect().await?,
        };
        let request = Request::new(message);
        // The server hears nothing of the deadline: it may finish what it began, and we say that we do not know.
        let answered = tokio::time::timeout(deadline, send(&mut client, request)).await;
        self.client = Some(client);
        match answered {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(CliError::from_status(&status, &self.safe_address(), &now())),
            Err(_) => Err(CliError::TimedOut {
                address: self.safe_address(),
            }),
        }
    }

    async fn connect(&self) -> Result<Client, CliError> {
        let unreachable = |cause: String| CliError::Unreachable {
            address: self.safe_address(),
            cause: text::line(&cause),
        };
        match tokio::time::timeout(CONNECT_DEADLINE, self.endpoint.connect()).await {
            Ok(Ok(channel)) => Ok(DecisionServiceClient::new(channel)),
            Ok(Err(error)) => Err(unreachable(root_cause(&error))),
            Err(_) => Err(unreachable("no answer in time".to_owned())),
        }
    }

    fn safe_address(&self) -> String {
        text::line(&self.address)
    }
}

/// What a watch tells. To wait for the next event has no deadline: there may be none for a day.
pub(super) struct Events {
    stream: Streaming<pb::WatchEvent>,
    address: String,
}

impl Events {
    /// The next event; none when the server has ended the watch.
    pub(super) async fn next(&mut self) -> Result<Option<pb::WatchEvent>, CliError> {
        let event = self.stream.message().await;
        event.map_err(|status| CliError::from_status(&status, &self.address, &now()))
    }
}

/// Reads an address: `host:port`, `http://host:port` or `unix:PATH`.
pub(super) fn endpoint(address: &str) -> Result<Endpoint, CliError> {
    let endpoint = match address.split_once(':') {
        Some(("https", _)) => return Err(CliError::Tls(address.to_owned())),
        Some(("unix", path)) if !path.trim_start_matches('/').is_empty() => {
            Endpoint::from_shared(address.to_owned()).ok()
        }
        Some(("http", _)) => Endpoint::from_shared(address.to_owned()).ok(),
        Some(_) => Endpoint::from_shared(format!("http://{address}"))
            .ok()
            .filter(|endpoint| endpoint.uri().port().is_some()),
        None => None,
    };
    endpoint.ok_or_else(|| CliError::Address(address.to_owned()))
}

/// This machine's time as the contract writes it. Deadlines are by the store's clock, so what is said relative to
/// this is a hint for people.
pub(super) fn now() -> Timestamp {
    Timestamp::from(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_port_a_url_or_a_socket() {
        for address in [
            "127.0.0.1:50051",
            "localhost:1",
            "[::1]:50051",
            "http://assent.internal:50051",
            "unix:/run/assent.sock",
            "unix:///run/assent.sock",
            "unix:assent.sock",
        ] {
            assert!(Server::at(address).is_ok(), "{address}");
        }
    }

    #[test]
    fn anything_else_is_no_address() {
        for address in [
            "",
            "localhost",
            "50051",
            "unix:",
            "unix://",
            "ftp://h:1",
            "h:x",
            "h:99999",
            "a b:1",
            "http://",
        ] {
            assert!(
                matches!(Server::at(address), Err(CliError::Address(named)) if named == address),
                "{address}"
            );
        }
        assert!(matches!(
            Server::at("https://assent.internal:443"),
            Err(CliError::Tls(_))
        ));
    }

    #[test]
    fn only_another_server_needs_to_be_named() {
        let flag = |address| Server::at(address).unwrap().flag();
        assert_eq!(flag("127.0.0.1:50051"), "");
        assert_eq!(flag("127.0.0.1:9"), " --server 127.0.0.1:9");
        assert_eq!(flag("unix:/a b"), " --server 'unix:/a b'");
    }
}
