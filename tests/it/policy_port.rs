//! The operator's own authorization service (S5), asked over real connections: what it is asked, what its answers come
//! to, and what each way in which it can fail costs. On both stores.

mod port;

use std::time::{Duration, Instant};

use assent::pb::{self, Verdict};
use assent::policy::{Policy, Source};
use futures_util::future::join_all;
use tonic::{Code, Status};

use self::port::{Asked, Listening, Port, Says, Stranger, Then, nobody};
use crate::support::server::{InProcess, Process, in_process};
use crate::support::stores::{Home, Homes};
use crate::support::{SOON, eventually};
use crate::wire::{self, Client};

/// Long enough that only what never answers is late, on a machine that does much else.
const PATIENT: &str = "10s";

/// Runs one body on each home.
macro_rules! on_both_stores {
    ($($body:ident)*) => {$(
        mod $body {
            #[tokio::test(flavor = "multi_thread")]
            async fn on_sqlite() {
                super::on(super::Home::Sqlite, async |world| super::$body(world).await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_redis() {
                super::on(super::Home::Redis, async |world| super::$body(world).await).await;
            }
        }
    )*};
}

on_both_stores! {
    the_stricter_of_rules_and_port_wins
    each_failure_denies_and_at_claim_and_for_edits_writes_nothing
    a_prompt_has_the_ports_reason_and_the_rules_terms
    a_new_claim_asks_the_port_about_what_would_run
    edits_are_put_to_the_port
    a_wrapper_call_is_put_to_it_as_the_call_that_it_makes
    what_is_recorded_answers_without_the_port
    run_starts_are_the_ports_alone
    a_run_start_waits_once_for_each_run
    a_batch_waits_for_a_slow_port_once
    a_hanging_port_holds_up_nobody_else
}

/// A server whose policy changes as a test goes.
struct World {
    server: InProcess,
    client: Client,
}

async fn on(home: Home, body: impl AsyncFnOnce(World)) {
    let homes = Homes::start(home).await;
    let server = in_process(None, homes.fresh().await).await;
    let client = wire::connect(server.address()).await;
    body(World { server, client }).await;
}

impl World {
    /// Has the policy name this port, beside what else it says.
    fn use_port(&self, endpoint: &str, timeout: &str, rest: &str) {
        self.use_policy(&format!(
            "policy_port: {{endpoint: \"{endpoint}\", timeout: {timeout}}}\n{rest}"
        ));
    }

    fn use_policy(&self, text: &str) {
        let source = Source {
            name: "policy.yaml".to_owned(),
            text: text.to_owned(),
        };
        self.server.swap(Policy::compile(&[source]).unwrap());
    }

    async fn decide(&self, request: pb::DecideRequest) -> pb::DecideResponse {
        self.try_to_decide(request).await.unwrap()
    }

    async fn try_to_decide(
        &self,
        request: pb::DecideRequest,
    ) -> Result<pb::DecideResponse, Status> {
        let mut client = self.client.clone();
        client
            .decide(request)
            .await
            .map(tonic::Response::into_inner)
    }

    async fn claim(&self, suspension: &pb::Suspension) -> Result<pb::ClaimResponse, Status> {
        let request = pb::ClaimRequest {
            suspension_id: suspension.id.clone(),
            attempt_id: "w1".to_owned(),
            ..Default::default()
        };
        let mut client = self.client.clone();
        client.claim(request).await.map(tonic::Response::into_inner)
    }

    async fn approve_edited(
        &self,
        suspension: &pb::Suspension,
        arguments: &str,
    ) -> Result<pb::Suspension, Status> {
        let mut request = wire::answer(&suspension.id, true);
        if let Some(pb::resume_request::Answer::Approval(approval)) = &mut request.answer {
            approval.edited_arguments_json = arguments.to_owned();
        }
        let resumed = self.client.clone().resume(request).await?.into_inner();
        Ok(resumed.suspension.unwrap())
    }

    async fn read(&self, suspension: &pb::Suspension) -> pb::Suspension {
        wire::get(&self.client, &suspension.id).await
    }
}

/// A call that reads, which selectors let through.
fn read(call_id: &str) -> pb::DecideRequest {
    let mut request = wire::destructive(call_id);
    if let Some(pb::decide_request::Action::Call(call)) = &mut request.action {
        call.tool = "client.lookup_order".to_owned();
        call.annotations = Some(pb::Annotations {
            read_only_hint: Some(true),
            ..Default::default()
        });
    }
    request
}

/// The start of a run of a session.
fn start(run: &str, version: &str) -> pb::DecideRequest {
    pb::DecideRequest {
        scope: Some(pb::Scope {
            tenant: "acme".to_owned(),
            session_id: "s1".to_owned(),
            run_id: run.to_owned(),
            ..Default::default()
        }),
        action: Some(pb::decide_request::Action::Run(pb::RunStart {
            version: version.to_owned(),
        })),
        ..Default::default()
    }
}

/// What a decision comes to, for comparing it whole.
fn gist(decided: &pb::DecideResponse) -> (pb::Effect, &str, &str, &str) {
    (
        decided.effect(),
        &decided.kind,
        &decided.matched_rule,
        &decided.reason,
    )
}

const ALLOW: pb::Effect = pb::Effect::Allow;
const DENY: pb::Effect = pb::Effect::Deny;
const SUSPEND: pb::Effect = pb::Effect::Suspend;

async fn the_stricter_of_rules_and_port_wins(world: World) {
    let port = Port::start(Says::allow());
    let rule = |decision: &str| {
        format!("rules: [{{id: r, tools: ['*'], decision: {decision}, reason: by rule}}]")
    };
    let (allow, ask, deny) = (Says::allow(), Says::ask("by port"), Says::deny("by port"));
    // What the document says, what the port says, what comes of it, and whether the port was asked.
    let table = [
        ("", &allow, (ALLOW, "", "default", ""), true),
        (
            "",
            &ask,
            (SUSPEND, "suspended", "policy_port", "by port"),
            true,
        ),
        (
            "",
            &deny,
            (DENY, "access_denied", "policy_port", "by port"),
            true,
        ),
        (
            "never: ['*']",
            &ask,
            (SUSPEND, "suspended", "policy_port", "by port"),
            true,
        ),
        (
            "never: ['*']",
            &deny,
            (DENY, "access_denied", "policy_port", "by port"),
            true,
        ),
        (
            "always: ['*']",
            &allow,
            (
                SUSPEND,
                "suspended",
                "default",
                "the call is read-only and `always: *` asks for approval",
            ),
            true,
        ),
        (
            "always: ['*']",
            &deny,
            (DENY, "access_denied", "policy_port", "by port"),
            true,
        ),
        (
            "default: ask",
            &deny,
            (DENY, "access_denied", "policy_port", "by port"),
            true,
        ),
        (
            "default: ask",
            &allow,
            (
                SUSPEND,
                "suspended",
                "default",
                "the policy's default asks for approval",
            ),
            true,
        ),
        (
            "default: deny",
            &allow,
            (
                DENY,
                "access_denied",
                "default",
                "no rule matches it, and the policy's default denies",
            ),
            false,
        ),
        (
            "mode: ask",
            &deny,
            (DENY, "access_denied", "policy_port", "by port"),
            true,
        ),
        (
            "mode: ask",
            &allow,
            (
                SUSPEND,
                "suspended",
                "mode",
                "the policy's mode asks for approval of every call",
            ),
            true,
        ),
        (
            "mode: deny",
            &allow,
            (
                DENY,
                "access_denied",
                "mode",
                "the policy's mode denies every call",
            ),
            false,
        ),
        (
            &rule("allow"),
            &ask,
            (SUSPEND, "suspended", "policy_port", "by port"),
            true,
        ),
        (
            &rule("ask"),
            &allow,
            (SUSPEND, "suspended", "r", "by rule"),
            true,
        ),
        (
            &rule("ask"),
            &ask,
            (SUSPEND, "suspended", "r", "by rule"),
            true,
        ),
        (
            &rule("ask"),
            &deny,
            (DENY, "access_denied", "policy_port", "by port"),
            true,
        ),
        (
            &rule("deny"),
            &allow,
            (DENY, "access_denied", "r", "by rule"),
            false,
        ),
        (
            "rules: [{id: r, tools: ['*'], when: args.nothing == 1, decision: allow}]",
            &allow,
            (
                DENY,
                "access_denied",
                "r",
                "rule `r` could not be evaluated: no such key: `nothing`",
            ),
            false,
        ),
    ];
    for (number, (document, says, comes, is_asked)) in table.into_iter().enumerate() {
        world.use_port(&port.endpoint, PATIENT, document);
        port.say(says.clone());
        let decided = world.decide(read(&format!("c{number}"))).await;
        assert_eq!(gist(&decided), comes, "{number}: {document}");
        assert_eq!(!port.asked().is_empty(), is_asked, "{number}: {document}");
        assert_eq!(decided.suspension.is_some(), decided.effect() == SUSPEND);
        let dry = pb::DecideRequest {
            dry_run: true,
            ..read(&format!("dry{number}"))
        };
        let decided = world.decide(dry).await;
        assert_eq!(gist(&decided), comes, "dry {number}: {document}");
        assert_eq!(decided.suspension, None);
        port.asked();
    }
}

/// A way for a port to fail, for as long as this is held.
struct Fault {
    name: &'static str,
    endpoint: String,
    timeout: &'static str,
    reason: &'static str,
    /// Whether another attempt may end differently, or this is an answer that denies.
    passes: bool,
    _port: Box<dyn std::any::Any>,
}

/// Each way that we know, and what the model reads of it.
async fn faults() -> Vec<Fault> {
    const LATE: &str = "the authorization service did not answer in time";
    const AWAY: &str = "the authorization service cannot be reached";
    const FAILED: &str = "the authorization service failed";
    const UNKNOWN: &str = "the authorization service gave no verdict that is known";
    let folder = tempfile::tempdir().unwrap();
    let no_socket = format!("unix:{}", folder.path().join("nobody.sock").display());
    let mut faults = vec![
        Fault {
            name: "down",
            endpoint: format!("http://{}", nobody()),
            timeout: PATIENT,
            reason: AWAY,
            passes: true,
            _port: Box::new(()),
        },
        Fault {
            name: "no socket",
            endpoint: no_socket,
            timeout: PATIENT,
            reason: AWAY,
            passes: true,
            _port: Box::new(folder),
        },
        Fault {
            name: "an unknown host",
            endpoint: "http://nobody.invalid:7000".to_owned(),
            timeout: PATIENT,
            reason: AWAY,
            passes: true,
            _port: Box::new(()),
        },
    ];
    let secret = "password of 10.0.0.7 is wrong";
    let huge = "x".repeat(5 * 1024 * 1024);
    let slow = Duration::from_secs(3);
    for (name, says, timeout, reason, passes) in [
        (
            "slow",
            Says::Late(slow, Verdict::Allow),
            "150ms",
            LATE,
            true,
        ),
        ("hanging", Says::Nothing, "150ms", LATE, true),
        (
            "an error",
            Says::Status(Status::permission_denied(secret)),
            PATIENT,
            FAILED,
            true,
        ),
        (
            "its own deadline",
            Says::Status(Status::deadline_exceeded(secret)),
            PATIENT,
            FAILED,
            true,
        ),
        (
            "unavailable",
            Says::Status(Status::unavailable(secret)),
            PATIENT,
            FAILED,
            true,
        ),
        (
            "a huge answer",
            Says::Verdict(Verdict::Allow.into(), huge),
            PATIENT,
            FAILED,
            true,
        ),
        (
            "no verdict",
            Says::Verdict(0, secret.to_owned()),
            PATIENT,
            UNKNOWN,
            false,
        ),
        (
            "a verdict of tomorrow",
            Says::Verdict(99, secret.to_owned()),
            PATIENT,
            UNKNOWN,
            false,
        ),
        ("dying mid-call", Says::Dies, PATIENT, AWAY, true),
    ] {
        let port = Port::start(says);
        faults.push(Fault {
            name,
            endpoint: port.endpoint.clone(),
            timeout,
            reason,
            passes,
            _port: Box::new(port),
        });
    }
    let http1 = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let garbage = b"\x00\xff\x13\x37 none of this is HTTP/2, and there is enough of it for a frame";
    for (name, stranger, timeout, reason) in [
        ("never answering", Stranger::NeverAnswers, "150ms", LATE),
        ("hanging up", Stranger::HangsUp, PATIENT, AWAY),
        (
            "hanging up when asked",
            Stranger::HangsUpWhenAsked,
            PATIENT,
            AWAY,
        ),
        ("HTTP/1.1", Stranger::Sends(http1), PATIENT, AWAY),
        ("garbage", Stranger::Sends(garbage), PATIENT, AWAY),
        (
            "an allow without a status",
            Stranger::SendsNoStatus(Then::Ends),
            PATIENT,
            FAILED,
        ),
        (
            "an allow that does not end",
            Stranger::SendsNoStatus(Then::Waits),
            "150ms",
            LATE,
        ),
        (
            "an allow that breaks off",
            Stranger::SendsNoStatus(Then::HangsUp),
            PATIENT,
            AWAY,
        ),
    ] {
        let listening = Listening::start(stranger).await;
        faults.push(Fault {
            name,
            endpoint: listening.endpoint.clone(),
            timeout,
            reason,
            passes: true,
            _port: Box::new(listening),
        });
    }
    faults
}

async fn each_failure_denies_and_at_claim_and_for_edits_writes_nothing(world: World) {
    let opened = world.decide(wire::destructive("pending")).await;
    let pending = opened.suspension.unwrap();
    let opened = world.decide(wire::destructive("approved")).await;
    let approved = wire::approve(&world.client, &opened.suspension.unwrap().id).await;
    let opener = Port::start(Says::ask(""));
    world.use_port(&opener.endpoint, PATIENT, "");
    let opened = world.decide(start("approved", "v1")).await;
    let mut answer = wire::answer(&opened.suspension.unwrap().id, true);
    answer.scope = start("approved", "v1").scope;
    let resumed = world.client.clone().resume(answer).await.unwrap();
    let run = resumed.into_inner().suspension.unwrap();
    drop(opener);

    for fault in faults().await {
        let name = fault.name;
        world.use_port(&fault.endpoint, fault.timeout, "never: ['*']");
        let begun = Instant::now();
        let expected = (DENY, "access_denied", "policy_port", fault.reason);
        for decided in [
            world.decide(read(name)).await,
            world.decide(start(name, "v1")).await,
        ] {
            assert_eq!(gist(&decided), expected, "{name}");
            let told = &decided.message_for_model;
            assert!(
                told.starts_with("Not executed:") && told.ends_with(fault.reason),
                "{name}: {told}"
            );
            assert_eq!((decided.retryable, &decided.suspension), (false, &None));
        }

        let scoped = pb::ClaimRequest {
            suspension_id: run.id.clone(),
            scope: run.scope.clone(),
            attempt_id: "w1".to_owned(),
            ..Default::default()
        };
        for refused in [
            world.claim(&approved).await.unwrap_err(),
            world.client.clone().claim(scoped).await.unwrap_err(),
            world.approve_edited(&pending, "{}").await.unwrap_err(),
        ] {
            let (code, reason) = if fault.passes {
                (Code::Unavailable, "POLICY_UNAVAILABLE")
            } else {
                (Code::FailedPrecondition, "POLICY_DENIED")
            };
            assert_eq!(
                (refused.code(), wire::reason(&refused).as_str()),
                (code, reason),
                "{name}"
            );
            let text = refused.message();
            assert!(text.contains(fault.reason), "{name}: {text}");
            assert!(!text.contains("10.0.0.7"), "{name}: {text}");
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{name}");
        assert_eq!(world.read(&approved).await, approved, "{name}");
        assert_eq!(world.read(&pending).await, pending, "{name}");
    }

    // Nothing was lost: once a port answers, all three go on.
    let port = Port::start(Says::allow());
    world.use_port(&port.endpoint, PATIENT, "");
    world.claim(&approved).await.unwrap();
    world.approve_edited(&pending, "{}").await.unwrap();
}

async fn a_prompt_has_the_ports_reason_and_the_rules_terms(world: World) {
    let port = Port::start(Says::ask("more than the shop refunds by itself"));
    let rule = "rules: [{id: refunds, tools: ['client.*'], decision: allow, \
                approval: {expires: 1h, on_expiry: deny, approvers: {roles: [manager], quorum: 2}}}]";
    world.use_port(&port.endpoint, PATIENT, rule);
    let decided = world.decide(read("c1")).await;
    let suspension = decided.suspension.unwrap();
    assert_eq!(suspension.reason, "more than the shop refunds by itself");
    assert_eq!(suspension.matched_rule, "policy_port");
    assert_eq!(suspension.on_expiry(), pb::OnExpiry::Deny);
    let approvers = pb::ApproverRule {
        roles: vec!["manager".to_owned()],
        quorum: 2,
        exclude_requester: false,
    };
    assert_eq!(suspension.approvers, Some(approvers));
    let (opened, late) = (
        suspension.create_time.unwrap(),
        suspension.expire_time.unwrap(),
    );
    assert_eq!(late.seconds - opened.seconds, 3600);

    // What a port writes is limited like every text, and cut between two characters.
    let long = format!("{}é and more", "x".repeat(8 * 1024 - 1));
    port.say(Says::ask(&long));
    let decided = world.decide(read("c2")).await;
    assert_eq!(decided.suspension.unwrap().reason, "x".repeat(8 * 1024 - 1));
    port.say(Says::deny(&long));
    assert_eq!(world.decide(read("c3")).await.reason.len(), 8 * 1024 - 1);

    port.say(Says::ask(" "));
    let decided = world.decide(read("c4")).await;
    assert_eq!(
        decided.suspension.unwrap().reason,
        "the authorization service asks for approval"
    );
    port.say(Says::deny(""));
    assert_eq!(
        world.decide(read("c5")).await.reason,
        "the authorization service refuses it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_port_hears_the_scope_the_call_and_its_class() {
    on(Home::Sqlite, async |world| {
        let port = Port::start(Says::allow());
        world.use_port(&port.endpoint, PATIENT, "");
        let scope = pb::Scope {
            tenant: "acme".to_owned(),
            principal: Some(pb::Principal {
                id: "ann".to_owned(),
                roles: vec!["support".to_owned()],
                attributes: [("region".to_owned(), "eu".to_owned())].into(),
            }),
            session_id: "s1".to_owned(),
            run_id: "r1".to_owned(),
            parent_run_id: "r0".to_owned(),
            agent_path: vec!["root".to_owned(), "refunds".to_owned()],
        };
        let call = pb::ToolCall {
            call_id: "c1".to_owned(),
            step_id: "step-1".to_owned(),
            tool: "client.lookup_order".to_owned(),
            server: "shop".to_owned(),
            origin: pb::Origin::Mcp.into(),
            annotations: Some(pb::Annotations {
                read_only_hint: Some(true),
                title: "Look up an order".to_owned(),
                labels: vec!["read-only".to_owned()],
                ..Default::default()
            }),
            arguments_json: r#"{"order": "A-1", "cents": 9007199254740993}"#.to_owned(),
            in_program: true,
            parent_call_id: "c0".to_owned(),
            target: None,
        };
        let request = pb::DecideRequest {
            scope: Some(scope.clone()),
            action: Some(pb::decide_request::Action::Call(call.clone())),
            ..Default::default()
        };
        assert_eq!(world.decide(request).await.effect(), ALLOW);
        let asked = pb::AllowToolRequest {
            scope: Some(scope.clone()),
            call: Some(call),
            risk_class: pb::RiskClass::ReadOnly.into(),
        };
        assert_eq!(port.asked(), [Asked::Tool(asked)]);

        let run = pb::RunStart {
            version: "v7".to_owned(),
        };
        let request = pb::DecideRequest {
            scope: Some(scope.clone()),
            action: Some(pb::decide_request::Action::Run(run.clone())),
            ..Default::default()
        };
        assert_eq!(world.decide(request).await.effect(), ALLOW);
        let asked = pb::AllowRunRequest {
            scope: Some(scope),
            run: Some(run),
        };
        assert_eq!(port.asked(), [Asked::Run(asked)]);
    })
    .await;
}

async fn a_new_claim_asks_the_port_about_what_would_run(world: World) {
    let port = Port::start(Says::ask("look at it"));
    world.use_port(&port.endpoint, PATIENT, "");
    let opened = world
        .decide(wire::destructive("c1"))
        .await
        .suspension
        .unwrap();
    let approved = world
        .approve_edited(&opened, r#"{"cents": 5}"#)
        .await
        .unwrap();
    port.asked();

    port.say(Says::deny("not any more"));
    let refused = world.claim(&approved).await.unwrap_err();
    assert_eq!(
        (refused.code(), wire::reason(&refused).as_str()),
        (Code::FailedPrecondition, "POLICY_DENIED")
    );
    assert!(
        refused.message().contains("not any more"),
        "{}",
        refused.message()
    );
    let questions = port.asked();
    let [Asked::Tool(asked)] = questions.as_slice() else {
        panic!("it was asked about something else");
    };
    assert_eq!(asked.scope, approved.scope);
    assert_eq!(
        asked.call.as_ref().unwrap().arguments_json,
        r#"{"cents": 5}"#
    );
    assert_eq!(asked.risk_class, i32::from(pb::RiskClass::Destructive));

    // It asks still: whoever approved must be enough for the rule whose terms govern.
    port.say(Says::ask("look at it"));
    let rule = "rules: [{id: r, tools: ['*'], decision: allow, approval: {approvers: {roles: [manager]}}}]";
    world.use_port(&port.endpoint, PATIENT, rule);
    let refused = world.claim(&approved).await.unwrap_err();
    assert_eq!(wire::reason(&refused), "APPROVAL_INSUFFICIENT");
    assert_eq!(world.read(&approved).await, approved);

    world.use_port(&port.endpoint, PATIENT, "");
    let receipt = world.claim(&approved).await.unwrap();
    assert_eq!(receipt.arguments_json, r#"{"cents": 5}"#);
    // The same attempt under its lease is not judged again.
    port.asked();
    port.say(Says::deny("too late"));
    world.claim(&approved).await.unwrap();
    assert_eq!(port.asked(), []);
}

async fn edits_are_put_to_the_port(world: World) {
    let port = Port::start(Says::ask("look at it"));
    world.use_port(&port.endpoint, PATIENT, "");
    let opened = world
        .decide(wire::destructive("c1"))
        .await
        .suspension
        .unwrap();
    port.asked();
    port.say(Says::deny("not so much"));
    let refused = world
        .approve_edited(&opened, r#"{"cents": 6}"#)
        .await
        .unwrap_err();
    assert_eq!(
        (refused.code(), wire::reason(&refused).as_str()),
        (Code::FailedPrecondition, "POLICY_DENIED")
    );
    assert_eq!(world.read(&opened).await, opened);
    let questions = port.asked();
    let [Asked::Tool(asked)] = questions.as_slice() else {
        panic!("it was asked about something else");
    };
    assert_eq!(
        asked.call.as_ref().unwrap().arguments_json,
        r#"{"cents": 6}"#
    );

    // A plain yes is not put to it; the Claim will be.
    wire::approve(&world.client, &opened.id).await;
    assert_eq!(port.asked(), []);
}

async fn a_wrapper_call_is_put_to_it_as_the_call_that_it_makes(world: World) {
    let port = Port::start(Says::allow());
    let wrappers =
        "wrappers: [{tool: call_tool, name: /tool, arguments: /arguments}]\nselectors: []\n";
    world.use_port(&port.endpoint, PATIENT, wrappers);
    for (arguments, tool, passed, effect) in [
        (
            r#"{"tool":"wipe","arguments":{"repo":"a"}}"#,
            "wipe",
            r#"{"repo":"a"}"#,
            pb::Effect::Allow,
        ),
        // Its yes is no way round the doubt.
        (
            r#"{"tool":"wipe","arguments":"a"}"#,
            "wipe",
            r#"{"tool":"wipe","arguments":"a"}"#,
            pb::Effect::Suspend,
        ),
    ] {
        let mut request = wire::destructive("");
        if let Some(pb::decide_request::Action::Call(call)) = &mut request.action {
            call.tool = "call_tool".to_owned();
            call.arguments_json = arguments.to_owned();
        }
        assert_eq!(world.decide(request).await.effect(), effect);
        let questions = port.asked();
        let [Asked::Tool(asked)] = questions.as_slice() else {
            panic!("it was asked about something else");
        };
        assert_eq!(asked.risk_class(), pb::RiskClass::Destructive);
        let call = asked.call.as_ref().unwrap();
        assert_eq!(
            (call.tool.as_str(), call.arguments_json.as_str()),
            (tool, passed)
        );
    }
}

async fn what_is_recorded_answers_without_the_port(world: World) {
    let port = Port::start(Says::ask("look at it"));
    world.use_port(&port.endpoint, PATIENT, "");
    let opened = world
        .decide(wire::destructive("c1"))
        .await
        .suspension
        .unwrap();
    world.decide(start("r1", "v1")).await;
    port.asked();
    port.say(Says::Nothing);
    for request in [wire::destructive("c1"), start("r1", "v1")] {
        let again = pb::DecideRequest {
            resumed: true,
            ..request
        };
        assert_eq!(world.decide(again).await.effect(), SUSPEND);
    }
    assert_eq!(port.asked(), []);

    // Not marked as such, it is asked about again, and a deny of today comes first.
    port.say(Says::deny("not today"));
    let decided = world.decide(wire::destructive("c1")).await;
    assert_eq!(
        gist(&decided),
        (DENY, "access_denied", "policy_port", "not today")
    );
    port.say(Says::ask("look at it"));
    let decided = world.decide(wire::destructive("c1")).await;
    assert_eq!(decided.suspension.unwrap().id, opened.id);
}

async fn run_starts_are_the_ports_alone(world: World) {
    let port = Port::start(Says::allow());
    for document in [
        "default: deny",
        "mode: deny",
        "mode: ask",
        "always: ['*']",
        "rules: [{id: r, tools: ['*'], decision: deny}]",
    ] {
        world.use_policy(document);
        let decided = world.decide(start("r1", "v1")).await;
        assert_eq!(gist(&decided), (ALLOW, "", "", ""), "{document}");

        world.use_port(&port.endpoint, PATIENT, document);
        port.say(Says::Verdict(Verdict::Allow.into(), "by port".to_owned()));
        let decided = world.decide(start("r1", "v1")).await;
        assert_eq!(gist(&decided), (ALLOW, "", "policy_port", "by port"));
        port.say(Says::deny("no such version"));
        let decided = world.decide(start("r1", "v1")).await;
        assert_eq!(
            gist(&decided),
            (DENY, "access_denied", "policy_port", "no such version")
        );
        assert!(decided.message_for_model.starts_with("Not executed:"));
        port.say(Says::deny(" "));
        let decided = world.decide(start("r1", "v1")).await;
        assert_eq!(decided.reason, "the authorization service refuses it");
    }
}

async fn a_run_start_waits_once_for_each_run(world: World) {
    let port = Port::start(Says::ask("a new version"));
    world.use_port(
        &port.endpoint,
        PATIENT,
        "suspensions: {approval: {expires: 2h, on_expiry: deny}}",
    );
    let dry = pb::DecideRequest {
        dry_run: true,
        ..start("r1", "v1")
    };
    let decided = world.decide(dry).await;
    assert_eq!((decided.effect(), &decided.suspension), (SUSPEND, &None));

    let decided = world.decide(start("r1", "v1")).await;
    assert_eq!(
        gist(&decided),
        (SUSPEND, "suspended", "policy_port", "a new version")
    );
    let opened = decided.suspension.unwrap();
    assert_eq!(opened.kind(), pb::SuspensionKind::Approval);
    assert_eq!(
        (
            &opened.run,
            &opened.call,
            opened.risk_class(),
            opened.reason.as_str()
        ),
        (
            &Some(pb::RunStart {
                version: "v1".to_owned()
            }),
            &None,
            pb::RiskClass::Unspecified,
            "a new version"
        )
    );
    assert_eq!(
        (opened.matched_rule.as_str(), opened.on_expiry()),
        ("policy_port", pb::OnExpiry::Deny)
    );
    let (from, to) = (opened.create_time.unwrap(), opened.expire_time.unwrap());
    assert_eq!(to.seconds - from.seconds, 7200);

    // Asked again it is the same; another version under the same run is not; another run is another.
    let again = world.decide(start("r1", "v1")).await.suspension.unwrap();
    assert_eq!(again.id, opened.id);
    let reused = world.try_to_decide(start("r1", "v2")).await.unwrap_err();
    assert_eq!(
        (reused.code(), wire::reason(&reused).as_str()),
        (Code::AlreadyExists, "CALL_ID_REUSED")
    );
    let resumed = pb::DecideRequest {
        resumed: true,
        ..start("r1", "v2")
    };
    let reused = world.try_to_decide(resumed).await.unwrap_err();
    assert_eq!(wire::reason(&reused), "CALL_ID_REUSED");
    let other = world.decide(start("r2", "v1")).await.suspension.unwrap();
    assert_ne!(other.id, opened.id);
    // Without a run each is a question of its own, and none can be come back to.
    let (one, two) = (
        world.decide(start("", "v1")).await.suspension.unwrap(),
        world.decide(start("", "v1")).await.suspension.unwrap(),
    );
    assert_ne!(one.id, two.id);
    let resumed = pb::DecideRequest {
        resumed: true,
        ..start("", "v1")
    };
    let refused = world.try_to_decide(resumed).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);

    // Approved it is claimed like a call, after the port was asked again.
    let mut answer = wire::answer(&opened.id, true);
    answer.scope = opened.scope.clone();
    world.client.clone().resume(answer).await.unwrap();
    let again = world.decide(start("r1", "v1")).await;
    assert_eq!(again.effect(), SUSPEND);
    assert_eq!(
        again.suspension.unwrap().status(),
        pb::SuspensionStatus::Approved
    );
    port.asked();
    let claim = pb::ClaimRequest {
        suspension_id: opened.id.clone(),
        scope: opened.scope.clone(),
        attempt_id: "w1".to_owned(),
        ..Default::default()
    };
    port.say(Says::deny("withdrawn"));
    let refused = world.client.clone().claim(claim.clone()).await.unwrap_err();
    assert_eq!(wire::reason(&refused), "POLICY_DENIED");
    port.say(Says::ask("a new version"));
    let receipt = world
        .client
        .clone()
        .claim(claim)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        receipt.suspension.unwrap().execution(),
        pb::Execution::Claimed
    );
    let asked = Asked::Run(pb::AllowRunRequest {
        scope: opened.scope,
        run: opened.run,
    });
    assert_eq!(port.asked(), [asked.clone(), asked]);

    // Without a port there is nobody to ask again.
    let mut answer = wire::answer(&other.id, true);
    answer.scope = other.scope.clone();
    world.client.clone().resume(answer).await.unwrap();
    world.use_policy("mode: deny");
    let claim = pb::ClaimRequest {
        suspension_id: other.id,
        scope: other.scope,
        attempt_id: "w2".to_owned(),
        ..Default::default()
    };
    world.client.clone().claim(claim).await.unwrap();
}

async fn a_batch_waits_for_a_slow_port_once(world: World) {
    const CALLS: usize = 100;
    let late = Duration::from_secs(1);
    let port = Port::start(Says::Late(late, Verdict::Allow));
    world.use_port(&port.endpoint, PATIENT, "");
    let batch = |of: &str| pb::BatchDecideRequest {
        requests: (0..CALLS).map(|n| read(&format!("{of}{n}"))).collect(),
    };
    let begun = Instant::now();
    let answer = world.client.clone().batch_decide(batch("slow")).await;
    let took = begun.elapsed();
    assert!(
        late <= took && took < 4 * late,
        "{CALLS} calls took {took:?}"
    );
    assert_eq!(effects(&answer.unwrap().into_inner()), [ALLOW; CALLS]);

    port.say(Says::Nothing);
    world.use_port(&port.endpoint, "1s", "");
    let begun = Instant::now();
    let answer = world.client.clone().batch_decide(batch("hanging")).await;
    let took = begun.elapsed();
    assert!(
        late <= took && took < 4 * late,
        "{CALLS} calls took {took:?}"
    );
    assert_eq!(effects(&answer.unwrap().into_inner()), [DENY; CALLS]);
}

fn effects(batch: &pb::BatchDecideResponse) -> Vec<pb::Effect> {
    let effect = |result: &pb::BatchDecideResult| match &result.result {
        Some(pb::batch_decide_result::Result::Decision(decision)) => decision.effect(),
        other => panic!("{other:?}"),
    };
    batch.responses.iter().map(effect).collect()
}

async fn a_hanging_port_holds_up_nobody_else(world: World) {
    let port = Port::start(Says::Nothing);
    let rules = "rules: [{id: refunds, tools: [client.issue_refund], decision: deny}]";
    world.use_port(&port.endpoint, PATIENT, rules);
    let hanging: Vec<_> = (0..200)
        .map(|n| {
            let mut client = world.server.client();
            tokio::spawn(async move { client.decide(read(&format!("c{n}"))).await })
        })
        .collect();
    let all_asked = async || port.questions() == 200;
    assert!(eventually(SOON, all_asked).await, "not all are asked about");
    let begun = Instant::now();
    let others = (0..200).map(|n| world.decide(wire::destructive(&format!("d{n}"))));
    for decided in join_all(others).await {
        assert_eq!(gist(&decided).2, "refunds");
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "200 decisions took {took:?}");
    assert!(hanging.iter().all(|decision| !decision.is_finished()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_comes_back_is_asked_within_a_second() {
    on(Home::Sqlite, async |world| {
        let address = nobody();
        world.use_port(&format!("http://{address}"), "500ms", "");
        assert_eq!(world.decide(read("c1")).await.effect(), DENY);
        for round in 0..3 {
            let port = Port::start_at(address, Says::allow());
            answers_within_a_second(&world, &format!("up {round}")).await;
            // It dies between two questions, or under one.
            if round == 1 {
                port.say(Says::Dies);
            } else {
                drop(port);
            }
            let died = async || world.decide(read("died")).await.effect() == DENY;
            assert!(eventually(SOON, died).await);
        }

        // One that hangs and is replaced by one that does not, over a connection that looks well all the while.
        let mut hanging = Listening::start(Stranger::NeverAnswers).await;
        world.use_port(&hanging.endpoint, "100ms", "");
        assert_eq!(world.decide(read("hanging")).await.effect(), DENY);
        let address = hanging.endpoint.strip_prefix("http://").unwrap();
        let address = address.parse().unwrap();
        hanging.stop_accepting().await;
        let _port = Port::start_at(address, Says::allow());
        answers_within_a_second(&world, "replaced").await;
    })
    .await;
}

async fn answers_within_a_second(world: &World, when: &str) {
    let up = Instant::now();
    let allowed = async || world.decide(read("c2")).await.effect() == ALLOW;
    assert!(eventually(SOON, allowed).await, "{when}: never");
    assert!(up.elapsed() < Duration::from_secs(1), "{when}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_may_listen_on_a_unix_socket() {
    on(Home::Sqlite, async |world| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my port.sock");
        let port = Port::start_at_socket(&path, Says::deny("by socket"));
        world.use_port(&port.endpoint, PATIENT, "");
        assert_eq!(world.decide(read("c1")).await.reason, "by socket");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_tells_of_changes_and_of_what_the_model_does_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    let address = nobody();
    let text = format!("policy_port: {{endpoint: 'http://{address}', timeout: 2s}}\n");
    std::fs::write(&policy, text).unwrap();
    let server = Process::start(&["--policy", policy.to_str().unwrap()]);
    assert!(
        server.stdout().contains(&format!("asks http://{address}")),
        "{}",
        server.stdout()
    );
    assert!(!server.stdout().contains("not a security control"));
    let decide = async |call: &str| {
        let decided = server.client().decide(read(call)).await.unwrap();
        decided.into_inner().effect()
    };
    for call in ["c1", "c2", "c3"] {
        assert_eq!(decide(call).await, DENY);
    }
    let port = Port::start_at(address, Says::allow());
    assert!(eventually(SOON, async || decide("c4").await == ALLOW).await);
    assert_eq!(decide("c5").await, ALLOW);
    port.say(Says::Status(Status::internal("table staff is missing")));
    assert_eq!(decide("c6").await, DENY);
    assert_eq!(decide("c7").await, DENY);
    let said = |text: &str| server.stderr().matches(text).count();
    let told = async || said("table staff is missing") == 1;
    assert!(eventually(SOON, told).await, "{}", server.stderr());
    assert_eq!(said("the policy port does not answer"), 2);
    assert_eq!(said("the policy port answers again"), 1);
    assert_eq!(said("Connection refused"), 1, "{}", server.stderr());
}
