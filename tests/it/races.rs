//! Racing answers and claims: of a hundred at once exactly one wins, and every loser names it.

use std::sync::Arc;

use assent::pb;
use assent::pb::decision_service_client::DecisionServiceClient;
use tokio::sync::Barrier;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::support::redis::RedisServer;
use crate::support::server::{InProcess, Process, in_process};
use crate::support::stores::{Home, Homes};
use crate::wire;

const ROUNDS: usize = 50;
const ANSWERS: usize = 100;
const CONNECTIONS: usize = 8;

type Client = DecisionServiceClient<Channel>;

#[tokio::test(flavor = "multi_thread")]
async fn of_racing_answers_one_wins_on_sqlite() {
    on_one_server(Home::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_racing_answers_one_wins_on_redis() {
    on_one_server(Home::Redis).await;
}

async fn on_one_server(home: Home) {
    let homes = Homes::start(home).await;
    let server = in_process(None, homes.fresh().await).await;
    race_answers(&connections(&server).await).await;
    race_claims(&connections(&server).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_racing_answers_to_two_servers_on_one_redis_one_wins() {
    let redis = RedisServer::start(&[]);
    let servers = [
        Process::start(&["--store", &redis.url()]),
        Process::start(&["--store", &redis.url()]),
    ];
    let mut clients = Vec::new();
    for connection in 0..CONNECTIONS {
        let server = &servers[connection % servers.len()];
        clients.push(wire::connect(server.address()).await);
    }
    race_answers(&clients).await;
    race_claims(&clients).await;
}

async fn connections(server: &InProcess) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(wire::connect(server.address()).await);
    }
    clients
}

/// Approvals and denials, mixed, from different people.
async fn race_answers(clients: &[Client]) {
    for round in 0..ROUNDS {
        let suspension = wire::suspend(&clients[0], &format!("answers-{round}")).await;
        let answers = at_once(clients, ANSWERS, |mut client, number| {
            let request = pb::ResumeRequest {
                by: format!("person-{number}"),
                ..wire::answer(&suspension.id, number % 2 == 0)
            };
            async move {
                client
                    .resume(request)
                    .await
                    .map(tonic::Response::into_inner)
            }
        })
        .await;

        let mut winners = Vec::new();
        let mut named = Vec::new();
        for (number, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(accepted) => {
                    assert_eq!(accepted.outcome(), pb::ResumeOutcome::Accepted);
                    winners.push((format!("person-{number}"), accepted.suspension.unwrap()));
                }
                Err(status) => named.push(winner_named_by(&status)),
            }
        }
        let [(winner, settled)] = winners.as_slice() else {
            panic!("round {round}: {} answers were accepted", winners.len());
        };
        assert_eq!(named.len(), ANSWERS - 1);
        for named in named {
            assert_eq!(named, (winner.clone(), settled.status()), "round {round}");
        }
        let read = wire::get(&clients[0], &suspension.id).await;
        assert_eq!(&read, settled, "round {round}");
    }
}

/// Who won and how, as an `ALREADY_RESOLVED` tells it.
fn winner_named_by(status: &Status) -> (String, pb::SuspensionStatus) {
    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "ALREADY_RESOLVED");
    let winner = wire::suspension_detail(status).unwrap();
    let status = winner.status();
    (winner.resolution.unwrap().by, status)
}

/// Workers that all want to run the same approved call.
async fn race_claims(clients: &[Client]) {
    for round in 0..ROUNDS / 5 {
        let suspension = wire::suspend(&clients[0], &format!("claims-{round}")).await;
        wire::approve(&clients[0], &suspension.id).await;
        let claims = at_once(clients, ANSWERS, |mut client, number| {
            let request = pb::ClaimRequest {
                suspension_id: suspension.id.clone(),
                attempt_id: format!("worker-{number}"),
                ..Default::default()
            };
            async move { client.claim(request).await.map(tonic::Response::into_inner) }
        })
        .await;
        let mut receipts = 0;
        for claim in claims {
            match claim {
                Ok(_) => receipts += 1,
                Err(status) => assert_eq!(wire::reason(&status), "ALREADY_CLAIMED"),
            }
        }
        assert_eq!(receipts, 1, "round {round}");
    }
}

/// Runs `count` calls over all connections, released together.
async fn at_once<T, F>(
    clients: &[Client],
    count: usize,
    call: impl Fn(Client, usize) -> F,
) -> Vec<Result<T, Status>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Status>> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(count));
    let tasks: Vec<_> = (0..count)
        .map(|number| {
            let client = clients[number % clients.len()].clone();
            let barrier = barrier.clone();
            let call = call(client, number);
            tokio::spawn(async move {
                barrier.wait().await;
                call.await
            })
        })
        .collect();
    let mut answers = Vec::with_capacity(count);
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}
