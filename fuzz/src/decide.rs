//! The bytes of a `DecideRequest`: refused as invalid, or an answer that the policy stands behind.

use std::cell::LazyCell;
use std::sync::Arc;

use arc_swap::ArcSwap;
use assent::domain::Timestamp;
use assent::engine::{Engine, PolicyPort, PortAnswer, PortError, Question};
use assent::grpc::Service;
use assent::pb;
use assent::policy::{Policy, PortSettings, Source, Untraced};
use assent::store::nothing::Nothing;
use assent::watch::Waiters;
use prost::Message as _;
use tonic::{Code, Status};

/// Nothing but a read, or what `free.` names, runs without a person; what `locked.` names never does.
const POLICY: &str = r#"
never: ["free.*"]
rules:
  - {id: locked, tools: ["locked.*", "*__locked.*"], decision: deny}
  - {id: shell, tools: ["*bash*"], decision: ask, denylist: ["*rm -rf*"], sensitive: ["*sudo *"], allowlist: ["*pwd*"]}
  - {id: origin, tools: ["*refund*"], origins: [code, mcp], when: args.cents > 400000 && 'refunds' in principal.roles, decision: ask}
  - {id: classes, tools: ["*"], classes: [destructive], when: "has(args.list) && args.list.exists(x, x == 'prod')", decision: deny}
tools:
  - {tool: github__delete_repo, server: github, annotations: {destructiveHint: true}}
  - {tool: "free.lookup", annotations: {title: Look up, readOnlyHint: true}}
trusted_servers: [github]
wrappers:
  - {tool: call_tool, name: /tool, server: /server, arguments: /arguments}
  - {tool: run, name: /name}
limits: {max_arguments_bytes: 4096}
"#;

struct Asked {
    service: Service,
    runtime: tokio::runtime::Runtime,
}

thread_local! {
    static ASKED: LazyCell<Asked> = LazyCell::new(asked);
}

/// Always a dry run, as there is no store to suspend in.
pub fn check(bytes: &[u8]) {
    let Ok(request) = pb::DecideRequest::decode(bytes) else {
        return;
    };
    let request = pb::DecideRequest {
        dry_run: true,
        ..request
    };
    let answer = ASKED.with(|asked| asked.decide(request.clone()));
    let again = ASKED.with(|asked| asked.decide(request.clone()));
    let (answer, again) = match (answer, again) {
        (Ok(answer), Ok(again)) => (answer, again),
        (Err(status), Err(again)) => {
            assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
            assert_eq!(status.message(), again.message());
            return;
        }
        (answer, again) => panic!("{answer:?} became {again:?}"),
    };
    assert_ne!(answer.decision_id, again.decision_id);
    let same = pb::DecideResponse {
        decision_id: answer.decision_id.clone(),
        ..again
    };
    assert_eq!(answer, same);
    holds(&request, &answer);
}

/// What this policy must have said.
fn holds(request: &pb::DecideRequest, answer: &pb::DecideResponse) {
    let call = match request.action.as_ref().expect("an answer had an action") {
        pb::decide_request::Action::Call(call) => Some(call),
        pb::decide_request::Action::Run(_) => None,
    };
    let tool = answer.judged_tool.as_str();
    let locked = tool.starts_with("locked.") || tool.contains("__locked.");
    match answer.effect() {
        pb::Effect::Unspecified => panic!("no answer: {answer:?}"),
        pb::Effect::Allow => {
            assert!(!locked, "{answer:?}");
            let Some(call) = call else {
                return;
            };
            let read = answer.risk_class() == pb::RiskClass::ReadOnly;
            assert!(read || tool.starts_with("free."), "{answer:?}");
            let wraps = ["call_tool", "run"].contains(&call.tool.as_str());
            assert!(
                wraps || call.target.is_none(),
                "an unresolved call runs: {answer:?}"
            );
            // What is known of it beats what it says of itself.
            assert_ne!(tool, "github__delete_repo");
        }
        pb::Effect::Suspend => {
            assert!(!locked, "{answer:?}");
            let in_program = call.is_some_and(|call| call.in_program);
            assert!(!in_program, "a program waits: {answer:?}");
        }
        pb::Effect::Deny => assert!(!answer.message_for_model.is_empty(), "{answer:?}"),
    }
}

impl Asked {
    fn decide(&self, request: pb::DecideRequest) -> Result<pb::DecideResponse, Status> {
        let mut trace = Untraced;
        let decided = self.service.decide_traced(request, &mut trace);
        self.runtime.block_on(decided)
    }
}

fn asked() -> Asked {
    let source = Source {
        name: "policy.yaml".to_owned(),
        text: POLICY.to_owned(),
    };
    let policy = Policy::compile(&[source]).expect("the policy compiles");
    let now = Timestamp::from_millis(1_767_225_600_000);
    let engine = Engine::new(
        Arc::new(Nothing::at(now)),
        Arc::new(ArcSwap::from_pointee(policy)),
        Arc::new(NoPort),
        Waiters::default(),
        move || now,
    );
    Asked {
        service: Service::new(Arc::new(engine)),
        runtime: tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime starts"),
    }
}

/// The policy names none.
struct NoPort;

#[async_trait::async_trait]
impl PolicyPort for NoPort {
    async fn ask(&self, _: &PortSettings, _: Question<'_>) -> Result<PortAnswer, PortError> {
        Err(PortError::Unreachable)
    }
}
