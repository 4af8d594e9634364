//! What was acknowledged outlives every process: `kill -9` between question, answer, claim and end.

use assent::pb;

use crate::support::redis::RedisServer;
use crate::support::server::Process;
use crate::wire;

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_of_the_server_loses_nothing_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("assent.db").display());
    survives(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_of_the_server_loses_nothing_on_redis() {
    let redis = RedisServer::start(&[]);
    survives(&redis.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_asked_to_stop_leaves_all_in_the_one_file() {
    for round in 0..5 {
        let server = Process::start(&[]);
        let client = wire::connect(server.address()).await;
        let opened = wire::suspend(&client, &format!("call-{round}")).await;
        server.terminate();
        assert_eq!(server.wait().await.code(), Some(0));
        let file = server.default_store();
        let log = file.with_extension("db-wal");
        let left = std::fs::metadata(&log).map_or(0, |metadata| metadata.len());
        assert_eq!(left, 0, "bytes are left in {}", log.display());
        // The file by itself, as a person would copy it.
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy.db");
        std::fs::copy(&file, &copy).unwrap();
        let store = format!("sqlite:{}", copy.display());
        let server = Process::start(&["--store", &store]);
        assert_eq!(wire::get(&server.client(), &opened.id).await, opened);
    }
}

/// Kills the server after every step, and finds each step's result in the next one's.
async fn survives(store: &str) {
    let start = async || {
        let server = Process::start(&["--store", store]);
        let client = wire::connect(server.address()).await;
        (server, client)
    };

    let (server, client) = start().await;
    let mut opened = Vec::new();
    for number in 0..20 {
        opened.push(wire::suspend(&client, &format!("call-{number}")).await);
    }
    server.kill9();

    let (server, client) = start().await;
    for suspension in &opened {
        assert_eq!(&wire::get(&client, &suspension.id).await, suspension);
    }
    let again = wire::suspend(&client, "call-0").await;
    assert_eq!(
        again.id, opened[0].id,
        "the call id still names the suspension"
    );
    let approved = wire::approve(&client, &opened[0].id).await;
    server.kill9();

    let (server, mut client) = start().await;
    assert_eq!(wire::get(&client, &approved.id).await, approved);
    let claim = pb::ClaimRequest {
        suspension_id: approved.id.clone(),
        attempt_id: "w1".to_owned(),
        ..Default::default()
    };
    let receipt = client.claim(claim.clone()).await.unwrap().into_inner();
    server.kill9();

    let (server, mut client) = start().await;
    let repeated = client.claim(claim.clone()).await.unwrap().into_inner();
    assert_eq!(repeated, receipt, "the same attempt gets the same receipt");
    let other = pb::ClaimRequest {
        attempt_id: "w2".to_owned(),
        ..claim
    };
    let refused = client.claim(other).await.unwrap_err();
    assert_eq!(wire::reason(&refused), "ALREADY_CLAIMED");
    let complete = pb::CompleteRequest {
        suspension_id: approved.id.clone(),
        attempt_id: "w1".to_owned(),
        outcome: pb::Completion::Success.into(),
        ..Default::default()
    };
    let completed = client.complete(complete).await.unwrap().into_inner();
    server.kill9();

    let (_server, client) = start().await;
    assert_eq!(wire::get(&client, &approved.id).await, completed);
    assert_eq!(completed.execution(), pb::Execution::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_settle_what_expires_within_a_second() {
    let redis = RedisServer::start(&[]);
    let replicas = [
        Process::start(&["--store", &redis.url()]),
        Process::start(&["--store", &redis.url()]),
    ];
    let mut one = wire::connect(replicas[0].address()).await;
    let mut other = wire::connect(replicas[1].address()).await;
    let request = pb::DecideRequest {
        expires_in: Some(prost_types::Duration {
            seconds: 1,
            nanos: 0,
        }),
        ..wire::destructive("expiring")
    };
    let opened = one
        .decide(request)
        .await
        .unwrap()
        .into_inner()
        .suspension
        .unwrap();
    let wait = pb::GetSuspensionRequest {
        suspension_id: opened.id,
        wait: Some(prost_types::Duration {
            seconds: 10,
            nanos: 0,
        }),
        ..Default::default()
    };
    let began = std::time::Instant::now();
    let heard = other.get_suspension(wait).await.unwrap().into_inner();
    assert_eq!(heard.status(), pb::SuspensionStatus::Expired);
    let late = began.elapsed().as_secs_f64() - 1.0;
    assert!(late < 1.5, "it was heard {late} s after the deadline");
}
