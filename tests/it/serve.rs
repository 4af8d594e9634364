//! The real binary: how it starts, what it says, what it refuses to start with, and how it stops.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use assent::pb;
use assent::store::clock::ClockOffset;
use assent::store::sqlite::SqliteStore;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};

use crate::support::redis::RedisServer;
use crate::support::server::{Ended, Process, health, in_process};
use crate::support::{SOON, eventually};
use crate::wire;

const SERVICE: &str = "assent.v1.DecisionService";

/// What a wait is given that is to be ended by something else.
const LONG: Duration = Duration::from_secs(120);

// --- What it says when it starts ---

#[tokio::test]
async fn with_no_flag_it_keeps_suspensions_in_the_users_data_directory_and_says_so() {
    let server = Process::start(&[]);
    let file = server.default_store();
    assert_eq!(mode(&file), 0o600);
    let said = server.stdout();
    for part in [
        &format!(
            "assent {} listens on {}\n",
            env!("CARGO_PKG_VERSION"),
            server.address()
        ),
        &format!("sqlite:{}\n", file.display()),
        "(revision ",
        "this is not a security control",
        "not authenticated",
        &format!(
            "try: assent --server {} decide --tool client.issue_refund --args '{{\"cents\":420000}}' --destructive\n",
            server.address()
        ),
    ] {
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }
}

#[tokio::test]
async fn the_command_that_it_says_to_try_works() {
    let server = Process::start(&[]);
    let said = server.stdout();
    let command = said
        .lines()
        .find_map(|line| line.strip_prefix("try: assent "))
        .unwrap();
    let words: Vec<&str> = command
        .split(' ')
        .map(|word| word.trim_matches('\''))
        .collect();
    let tried = server.client_command(&words);
    // 3 is what `decide` ends with when a person must be asked.
    assert_eq!(tried.code(), Some(3), "{tried:?}");
}

#[tokio::test]
async fn a_policy_with_rules_is_named_with_its_revision_and_is_a_security_control() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    fs::write(&policy, "default: deny\n").unwrap();
    let server = Process::start(&["serve", "--policy", text(&policy)]);
    let said = server.stdout();
    assert!(
        said.contains(&format!("{} (revision ", policy.display())),
        "{said}"
    );
    assert!(!said.contains("not a security control"), "{said}");
    let decided = server
        .client()
        .decide(wire::destructive("one"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(decided.effect(), pb::Effect::Deny);
}

#[tokio::test]
async fn a_policy_directory_is_read_whole() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), "selectors: []\n").unwrap();
    fs::write(folder.path().join("b.yml"), "never: [\"client.*\"]\n").unwrap();
    let server = Process::start(&["--policy", text(folder.path())]);
    let decided = server
        .client()
        .decide(wire::destructive("one"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(decided.effect(), pb::Effect::Allow);
}

#[tokio::test]
async fn every_flag_is_also_an_environment_variable() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    fs::write(&policy, "default: deny\n").unwrap();
    let store = folder.path().join("here.db");
    let server = Process::start_with(
        &[],
        &[
            ("ASSENT_LISTEN", "0.0.0.0:0"),
            ("ASSENT_ALLOW_REMOTE", "true"),
            ("ASSENT_ALLOW_EVICTION", "false"),
            ("ASSENT_POLICY", text(&policy)),
            ("ASSENT_STORE", &format!("sqlite:{}", store.display())),
            ("ASSENT_DRAIN_TIMEOUT", "3s"),
            ("ASSENT_LOG_FORMAT", "json"),
            ("ASSENT_LOG_LEVEL", "assent=debug"),
            ("ASSENT_POLCY", "a-slip-of-the-pen.yaml"),
        ],
    );
    let said = server.stdout();
    for part in [
        "listens on 0.0.0.0:",
        text(&policy),
        text(&store),
        "nothing is encrypted",
        "ASSENT_POLCY is no setting",
    ] {
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }
    server.terminate();
    let ended = server.wait().await;
    let log: Vec<serde_json::Value> = ended
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(log.iter().any(|line| line["timeout"] == "3s"), "{log:?}");
}

#[tokio::test]
async fn help_teaches_and_shows_no_secret() {
    let secret = [("ASSENT_STORE", "redis://:hunter2@127.0.0.1:1/0")];
    for arguments in [
        ["--help"].as_slice(),
        &["-h"],
        &["serve", "--help"],
        &["health", "--help"],
    ] {
        let ended = Process::run(arguments, &secret).await;
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert!(!ended.stdout.contains("hunter2"), "{}", ended.stdout);
    }
    let whole = Process::run(&["--help"], &[]).await.stdout;
    for part in [
        "May this tool call run",
        "assent decide --tool client.issue_refund",
        "ASSENT_LISTEN",
        "--allow-remote",
    ] {
        assert!(whole.contains(part), "`{part}` is not in: {whole}");
    }
    let version = Process::run(&["--version"], &[]).await;
    assert_eq!(
        version.stdout,
        format!("assent {}\n", env!("CARGO_PKG_VERSION"))
    );
}

// --- What it refuses to start with ---

/// One sentence on standard error, nothing on standard output, and nothing that only a programmer reads.
fn assert_refused(ended: &Ended, code: i32, sentence: &str) {
    assert_eq!(ended.code(), Some(code), "{ended:?}");
    assert_eq!(ended.stdout, "");
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
    assert!(
        ended.stderr.contains(sentence),
        "`{sentence}` is not in: {}",
        ended.stderr
    );
    for noise in ["panicked", "backtrace", "Error", "Os {", "Some("] {
        assert!(!ended.stderr.contains(noise), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_refused_with_a_sentence() {
    for (arguments, sentence) in [
        (
            ["--listen", "50051"],
            "cannot listen on `50051`: write IP:PORT",
        ),
        (
            ["--listen", "0.0.0.0:0"],
            "callers are not authenticated and nothing is encrypted",
        ),
        (
            ["--store", "postgres://h/db"],
            "the store must be `sqlite:PATH` or `redis://HOST:PORT`",
        ),
        (["--store", "sqlite:"], "`sqlite:` needs the path of a file"),
        (
            ["--store", "rediss://:hunter2@h"],
            "does not support `rediss` stores yet",
        ),
        (
            ["--store", "redis+sentinel://h:1/m"],
            "does not support `redis+sentinel` stores yet",
        ),
        (
            ["--store", "redis+cluster://h:1"],
            "does not support `redis+cluster` stores yet",
        ),
        (
            ["--drain-timeout", "soon"],
            "`--drain-timeout` is `soon`: write an integer",
        ),
    ] {
        let ended = Process::run(&arguments, &[]).await;
        assert_refused(&ended, 2, sentence);
        assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
    }
    assert_refused(
        &Process::run(&["--log-level", "inof"], &[]).await,
        1,
        "the log cannot be filtered by `inof`",
    );
    assert_refused(
        &Process::run(&[], &[("HOME", "")]).await,
        2,
        "HOME is not set",
    );
}

#[tokio::test]
async fn flags_that_do_not_exist_or_stand_in_the_wrong_place_are_refused() {
    for (arguments, variables, part) in [
        (
            ["--bogus", "x"].as_slice(),
            [].as_slice(),
            "unexpected argument '--bogus'",
        ),
        (
            &["--policy", "p.yaml", "serve"],
            &[],
            "write `--policy` after `serve`",
        ),
        (
            &["--policy", "p.yaml", "health"],
            &[],
            "`--policy` is a flag of the server",
        ),
        // An empty variable is not the same as none: that would be a policy which allows everything.
        (&[], &[("ASSENT_POLICY", "")], "--policy"),
        (&[], &[("ASSENT_ALLOW_REMOTE", "perhaps")], "--allow-remote"),
        (&["--log-format", "xml"], &[], "--log-format"),
    ] {
        let ended = Process::run(arguments, variables).await;
        assert_eq!(ended.code(), Some(2), "{ended:?}");
        assert!(
            ended.stderr.contains(part),
            "`{part}` is not in: {}",
            ended.stderr
        );
    }
}

#[tokio::test]
async fn a_redis_that_cannot_be_reached_is_refused_without_its_password() {
    // Bound and not listened on for the life of the test: nobody answers there.
    let nobody = tokio::net::TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let place = nobody.local_addr().unwrap();
    let store = format!("redis://me:hunter2@{place}/0");
    let ended = Process::run(&["--listen", "127.0.0.1:0"], &[("ASSENT_STORE", &store)]).await;
    assert_refused(&ended, 1, &place.to_string());
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_port_in_use_is_refused() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = Process::run(&["--listen", &address], &[]).await;
    assert_refused(
        &ended,
        1,
        &format!("cannot listen on `{address}`: it is in use"),
    );
}

#[tokio::test]
async fn a_data_directory_that_cannot_be_written_is_refused() {
    let ended = Process::run(&["--listen", "127.0.0.1:0"], &[("HOME", "/dev/null")]).await;
    assert_refused(&ended, 1, "/dev/null/.local/share/assent");
}

#[tokio::test]
async fn a_second_process_on_the_same_file_is_refused_and_told_who_holds_it() {
    let first = Process::start(&[]);
    let store = format!("sqlite:{}", first.default_store().display());
    let ended = Process::run(&["--listen", "127.0.0.1:0", "--store", &store], &[]).await;
    assert_refused(&ended, 1, &format!("is in use by process {}", first.pid()));
    // The one that holds it is not disturbed.
    assert_eq!(
        health(first.address(), "").await,
        Some(ServingStatus::Serving)
    );
}

#[tokio::test]
async fn a_broken_policy_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    let refuse = async |path: &Path, sentence: &str| {
        let ended = Process::run(&["--listen", "127.0.0.1:0", "--policy", text(path)], &[]).await;
        assert_refused(&ended, 1, sentence);
    };
    let missing = folder.path().join("missing.yaml");
    refuse(
        &missing,
        &format!("the policy `{}` cannot be read", missing.display()),
    )
    .await;
    refuse(folder.path(), "has no document").await;
    fs::write(&policy, "version: 1\nselektors: []\n").unwrap();
    refuse(&policy, &format!("{}:2:1: ", policy.display())).await;
    refuse(folder.path(), &format!("{}:2:1: ", policy.display())).await;
    fs::write(&policy, "# nothing\n").unwrap();
    refuse(&policy, &format!("{}:", policy.display())).await;
}

// --- Health and reflection ---

#[tokio::test]
async fn health_has_an_entry_for_each_thing_that_can_be_well_or_not() {
    let server = Process::start(&[]);
    for entry in ["", SERVICE, "assent.policy", "assent.store"] {
        // The store is asked for the first time when it begins to serve.
        let well = async || health(server.address(), entry).await == Some(ServingStatus::Serving);
        assert!(eventually(SOON, well).await, "`{entry}`");
        let probed = server.client_command(&["health", "--service", entry]);
        assert_eq!(
            (probed.code(), probed.stdout.as_str()),
            (Some(0), "SERVING\n")
        );
    }
    assert_eq!(
        server.client_command(&["health", "--json"]).stdout,
        "{\"status\":\"SERVING\"}\n"
    );
    assert_eq!(health(server.address(), "assent.nothing").await, None);
    let probed = server.client_command(&["health", "--service", "assent.nothing"]);
    assert_refused(&probed, 1, "has no health entry `assent.nothing`");
    server.kill9();
    assert_refused(
        &server.client_command(&["health"]),
        1,
        "no Assent server answers at",
    );
}

#[tokio::test]
async fn without_its_store_the_server_serves_and_the_store_does_not() {
    let redis = RedisServer::start(&[]);
    let server = Process::start(&["--store", &redis.url()]);
    let store_is = async |status| health(server.address(), "assent.store").await == Some(status);
    assert!(eventually(SOON, async || store_is(ServingStatus::Serving).await).await);
    drop(redis);
    assert!(eventually(SOON, async || store_is(ServingStatus::NotServing).await).await);
    assert_eq!(
        health(server.address(), "").await,
        Some(ServingStatus::Serving)
    );
    assert_eq!(
        server
            .client_command(&["health", "--service", "assent.store"])
            .code(),
        Some(1)
    );
}

#[tokio::test]
async fn reflection_lists_what_is_served_and_nothing_else() {
    let server = Process::start(&[]);
    let served = [
        SERVICE,
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ];
    assert_eq!(listed_v1(server.channel()).await, served);
    assert_eq!(listed_v1alpha(server.channel()).await, served);
    // What is listed can be described, and so can the details of an error.
    let details = [
        "google.rpc.ErrorInfo",
        "google.rpc.BadRequest",
        "assent.v1.Suspension",
    ];
    for symbol in served.into_iter().chain(details) {
        use v1::server_reflection_request::MessageRequest;
        use v1::server_reflection_response::MessageResponse;
        let request = v1::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::FileContainingSymbol(symbol.to_owned())),
        };
        let mut client =
            v1::server_reflection_client::ServerReflectionClient::new(server.channel());
        let mut answers = client
            .server_reflection_info(tokio_stream::once(request))
            .await
            .unwrap()
            .into_inner();
        let answer = answers
            .next()
            .await
            .unwrap()
            .unwrap()
            .message_response
            .unwrap();
        assert!(
            matches!(answer, MessageResponse::FileDescriptorResponse(_)),
            "{symbol}: {answer:?}"
        );
    }
}

async fn listed_v1(channel: Channel) -> Vec<String> {
    use v1::server_reflection_request::MessageRequest;
    use v1::server_reflection_response::MessageResponse;
    let request = v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(channel);
    let mut answers = client
        .server_reflection_info(tokio_stream::once(request))
        .await
        .unwrap()
        .into_inner();
    let answer = answers
        .next()
        .await
        .unwrap()
        .unwrap()
        .message_response
        .unwrap();
    let MessageResponse::ListServicesResponse(list) = answer else {
        panic!("{answer:?}")
    };
    let mut names: Vec<String> = list
        .service
        .into_iter()
        .map(|service| service.name)
        .collect();
    names.sort();
    names
}

async fn listed_v1alpha(channel: Channel) -> Vec<String> {
    use v1alpha::server_reflection_request::MessageRequest;
    use v1alpha::server_reflection_response::MessageResponse;
    let request = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(channel);
    let mut answers = client
        .server_reflection_info(tokio_stream::once(request))
        .await
        .unwrap()
        .into_inner();
    let answer = answers
        .next()
        .await
        .unwrap()
        .unwrap()
        .message_response
        .unwrap();
    let MessageResponse::ListServicesResponse(list) = answer else {
        panic!("{answer:?}")
    };
    let mut names: Vec<String> = list
        .service
        .into_iter()
        .map(|service| service.name)
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_batch_with_three_mebibytes_of_arguments_is_read() {
    let server = Process::start(&[]);
    let request = |number: usize| {
        let mut request = wire::destructive(&format!("call-{number}"));
        request.dry_run = true;
        if let Some(pb::decide_request::Action::Call(call)) = &mut request.action {
            call.arguments_json = format!("{{\"text\":\"{}\"}}", "x".repeat(250 * 1024));
        }
        request
    };
    let batch = pb::BatchDecideRequest {
        requests: (0..12).map(request).collect(),
    };
    let decided = server
        .client()
        .batch_decide(batch)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(decided.responses.len(), 12);
}

// --- A Unix socket ---

#[tokio::test]
async fn a_unix_socket_is_for_this_user_only_and_outlives_no_server_that_was_asked_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("assent.sock");
    let address = format!("unix:{}", path.display());
    let server = Process::start(&["--listen", &address]);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(server.address(), address);
    assert!(
        server
            .stdout()
            .contains("only this user can open the socket"),
        "{}",
        server.stdout()
    );
    wire::suspend(&server.client(), "over-the-socket").await;

    let ended = Process::run(&["--listen", &address], &[]).await;
    assert_refused(
        &ended,
        1,
        &format!("cannot listen on `{address}`: it is in use"),
    );

    server.kill9();
    assert!(path.exists(), "nobody was left to remove it");
    let server = server.restart();
    assert_eq!(
        health(server.address(), "").await,
        Some(ServingStatus::Serving)
    );
    server.terminate();
    assert_eq!(server.wait().await.code(), Some(0));
    assert!(!path.exists());
}

// --- How it stops ---

/// A wait for an answer, on its way when this returns.
async fn begin_to_wait(
    server: &Process,
) -> tokio::task::JoinHandle<Result<pb::Suspension, tonic::Status>> {
    let channel = server.channel();
    let client = wire::Client::new(channel.clone());
    let suspension = wire::suspend(&client, "waited-on").await;
    let request = pb::GetSuspensionRequest {
        suspension_id: suspension.id.clone(),
        wait: Some(prost_types::Duration {
            seconds: i64::try_from(LONG.as_secs()).unwrap(),
            nanos: 0,
        }),
        ..Default::default()
    };
    let mut waiting = client.clone();
    let wait = tokio::spawn(async move {
        waiting
            .get_suspension(request)
            .await
            .map(tonic::Response::into_inner)
    });
    // What is sent after it on the same connection is received after it.
    tokio::task::yield_now().await;
    wire::get(&client, &suspension.id).await;
    wait
}

#[tokio::test]
async fn sigterm_answers_who_waits_ends_health_streams_and_exits_with_0() {
    // Longer than anything here may take: nothing is to be cut.
    let server = Process::start(&["--drain-timeout", "100s"]);
    let wait = begin_to_wait(&server).await;
    let request = HealthCheckRequest {
        service: SERVICE.to_owned(),
    };
    let mut health_client = HealthClient::new(server.channel());
    let mut statuses = health_client.watch(request).await.unwrap().into_inner();
    assert_eq!(
        statuses.next().await.unwrap().unwrap().status(),
        ServingStatus::Serving
    );

    server.terminate();
    let waited = wait.await.unwrap().unwrap();
    assert_eq!(
        waited.status(),
        pb::SuspensionStatus::Pending,
        "the wait ends with what is"
    );
    assert_eq!(
        statuses.next().await.unwrap().unwrap().status(),
        ServingStatus::NotServing
    );
    assert!(statuses.next().await.is_none());
    let ended = server.wait().await;
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(
        !ended.stderr.contains("drain timeout is over"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn ctrl_c_stops_it_too() {
    let server = Process::start(&[]);
    server.signal("INT");
    assert_eq!(server.wait().await.code(), Some(0));
}

/// A call that does not end by itself; it does when this is dropped.
async fn hold_open(server: &Process) -> impl Sized + use<> {
    use v1::server_reflection_request::MessageRequest;
    let (requests, receiver) = tokio::sync::mpsc::channel(1);
    let first = v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    requests.send(first).await.unwrap();
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(server.channel());
    let mut answers = client
        .server_reflection_info(ReceiverStream::new(receiver))
        .await
        .unwrap()
        .into_inner();
    answers.next().await.unwrap().unwrap();
    (requests, answers, client)
}

#[tokio::test]
async fn the_drain_timeout_cuts_what_does_not_end() {
    let server = Process::start(&["--drain-timeout", "50ms"]);
    let _held = hold_open(&server).await;
    server.terminate();
    let ended = server.wait().await;
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(
        ended.stderr.contains("the drain timeout is over"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn while_it_drains_nobody_new_is_let_in_and_a_second_signal_stops_it_at_once() {
    let server = Process::start(&["--drain-timeout", "100s"]);
    let _held = hold_open(&server).await;
    server.terminate();
    let refuses = async || {
        tokio::net::TcpStream::connect(server.address())
            .await
            .is_err()
    };
    assert!(eventually(SOON, refuses).await, "{}", server.stderr());
    server.terminate();
    let ended = server.wait().await;
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(
        ended.stderr.contains("stopped at once by a second signal"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn the_librarys_server_stops_in_the_same_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("a.db"), ClockOffset::default()).unwrap();
    let server = in_process(None, Arc::new(store)).await;
    let client = server.client();
    wire::suspend(&client, "one").await;
    let address = server.address().to_owned();
    server.stop().await;
    assert_eq!(health(&address, "").await, None);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
