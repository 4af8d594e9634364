use super::*;
use crate::domain::Timestamp;
use crate::store::{
    CallKey, Commit, Committed, Due, Found, GrantKey, GrantQuery, GrantSlice, Group, Heard,
    Members, Opened, Opening, Place, Query, Slice, StoreError, SuspensionStore,
};
use crate::suspension::{Grant, GrantId, Suspension, SuspensionId};
use crate::watch::Waiters;
use arc_swap::ArcSwap;
use tokio::sync::broadcast;
use tonic::Code;

/// A store that is down.
struct Down;

fn down<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable("no route to the store".into()))
}

#[async_trait::async_trait]
impl SuspensionStore for Down {
    async fn open(&self, _: &Opening) -> Result<Opened, StoreError> {
        down()
    }
    async fn read(&self, _: SuspensionId) -> Result<(Option<Suspension>, Timestamp), StoreError> {
        down()
    }
    async fn find(
        &self,
        _: &Place,
        _: Option<&CallKey>,
        _: Option<&GrantKey>,
    ) -> Result<Found, StoreError> {
        down()
    }
    async fn members(&self, _: u8, _: &Group) -> Result<Members, StoreError> {
        down()
    }
    async fn commit(&self, _: &Commit) -> Result<Committed, StoreError> {
        down()
    }
    async fn list(&self, _: &Query) -> Result<Slice, StoreError> {
        down()
    }
    async fn count_open(&self, _: &Group) -> Result<u64, StoreError> {
        Ok(0)
    }
    async fn due(&self, _: usize) -> Result<Due, StoreError> {
        down()
    }
    async fn read_grant(&self, _: GrantId) -> Result<Option<Grant>, StoreError> {
        down()
    }
    async fn end_grant(&self, _: GrantId) -> Result<Option<Grant>, StoreError> {
        down()
    }
    async fn list_grants(&self, _: &GrantQuery) -> Result<GrantSlice, StoreError> {
        down()
    }
    fn changes(&self) -> broadcast::Receiver<Heard> {
        broadcast::channel(1).1
    }
    async fn check(&self) -> Result<(), StoreError> {
        down()
    }
    async fn close(&self) {}
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

fn service() -> Service {
    let policy = Arc::new(ArcSwap::from_pointee(Policy::defaults()));
    let clock = || Timestamp::from_millis(0);
    Service::new(Arc::new(Engine::new(
        Arc::new(Down),
        policy,
        Arc::new(PortClient::default()),
        Waiters::default(),
        clock,
    )))
}

fn call(tool: &str, read_only: bool) -> pb::ToolCall {
    pb::ToolCall {
        tool: tool.to_owned(),
        annotations: Some(pb::Annotations {
            read_only_hint: Some(read_only),
            destructive_hint: Some(!read_only),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn decide(call: pb::ToolCall) -> pb::DecideRequest {
    pb::DecideRequest {
        action: Some(pb::decide_request::Action::Call(call)),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_batch_answers_each_request_in_its_place() {
    let requests: Vec<_> = (0..100)
        .map(|n| match n % 3 {
            0 => decide(call(&format!("t{n}"), true)),
            1 => decide(call("", true)),
            _ => decide(call(&format!("t{n}"), false)),
        })
        .collect();
    let wire = Request::new(pb::BatchDecideRequest { requests });
    let responses = service()
        .batch_decide(wire)
        .await
        .unwrap()
        .into_inner()
        .responses;
    assert_eq!(responses.len(), 100);
    for (n, response) in responses.into_iter().enumerate() {
        use pb::batch_decide_result::Result as Wire;
        match (n % 3, response.result) {
            (0, Some(Wire::Decision(decision))) => {
                assert_eq!(decision.effect(), pb::Effect::Allow);
                assert_eq!(decision.judged_tool, format!("t{n}"));
            }
            (1, Some(Wire::Error(error))) => {
                assert_eq!((error.code, error.reason.as_str()), (3, "INVALID_REQUEST"));
                assert_eq!(error.message, "`call.tool`: must not be empty");
            }
            // It needs a person, and the store that would keep the question is down.
            (2, Some(Wire::Error(error))) => {
                assert_eq!(
                    (error.code, error.reason.as_str()),
                    (14, "STORE_UNAVAILABLE")
                );
                assert!(!error.message.contains("route"));
            }
            (_, other) => panic!("{n}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn classify_says_the_class_why_and_who_asks() {
    let wire = pb::ClassifyRequest {
        call: Some(call("client.wipe", false)),
    };
    let answer = service()
        .classify(Request::new(wire))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.risk_class(), pb::RiskClass::Destructive);
    assert!(answer.approval_required && !answer.basis.is_empty());
    assert_eq!(
        (answer.selected_by.as_str(), answer.judged_tool.as_str()),
        ("@destructive", "client.wipe")
    );
    assert!(!answer.policy_revision.is_empty());
}

#[tokio::test]
async fn a_malformed_request_is_refused_before_the_store_is_asked() {
    let service = service();
    let wire = pb::ResumeRequest {
        suspension_id: "0192f0c1-0000-7000-8000-000000000001".to_owned(),
        ..Default::default()
    };
    let code = |status: Result<_, Status>| status.err().map(|status: Status| status.code());
    assert_eq!(
        code(service.resume(Request::new(wire.clone())).await),
        Some(Code::InvalidArgument)
    );
    let whole = pb::ResumeRequest {
        by: "m".to_owned(),
        ..wire
    };
    assert_eq!(
        code(service.resume(Request::new(whole)).await),
        Some(Code::Unavailable)
    );
}

#[tokio::test]
async fn what_is_traced_is_what_the_rpc_decides() {
    use crate::engine::Step;
    let request = || decide(call("t", false));
    let mut steps: Vec<Step> = Vec::new();
    let mut dry = request();
    dry.dry_run = true;
    let traced = service().decide_traced(dry, &mut steps).await;
    // The store is down, and the steps before it were taken.
    let plain = service().decide(Request::new(request())).await;
    assert_eq!(traced.unwrap_err().code(), plain.unwrap_err().code());
    let expected = [
        Step::Classified {
            tool: crate::domain::Id::parse("t").unwrap(),
            class: crate::domain::RiskClass::Destructive,
            basis: "destructiveHint is true".into(),
        },
        Step::Selected {
            asks: true,
            by: "@destructive".to_owned(),
        },
        Step::Rules {
            decision: crate::domain::Decision::Allow,
            by: "default".to_owned(),
            reason: None,
        },
        Step::Review { in_program: false },
    ];
    assert_eq!(steps, expected);
}
