//! Short forms of the requests that many tests make, with the generated client.

use assent::pb;
use assent::pb::decision_service_client::DecisionServiceClient;
use tonic::Status;
use tonic::transport::Channel;
use tonic_types::StatusExt as _;
use tonic_types::pb::Status as StatusDetails;

pub type Client = DecisionServiceClient<Channel>;

/// A connection of its own to `HOST:PORT`.
pub async fn connect(address: &str) -> Client {
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    DecisionServiceClient::new(endpoint.connect().await.unwrap())
}

/// A destructive call with an id of its own, in a run of its own.
pub fn destructive(call_id: &str) -> pb::DecideRequest {
    pb::DecideRequest {
        scope: Some(pb::Scope {
            run_id: format!("run-of-{call_id}"),
            ..Default::default()
        }),
        action: Some(pb::decide_request::Action::Call(pb::ToolCall {
            call_id: call_id.to_owned(),
            tool: "client.issue_refund".to_owned(),
            annotations: Some(pb::Annotations {
                destructive_hint: Some(true),
                ..Default::default()
            }),
            arguments_json: r#"{"cents":420000}"#.to_owned(),
            ..Default::default()
        })),
        ..Default::default()
    }
}

/// Asks about [`destructive`], which suspends.
pub async fn suspend(client: &Client, call_id: &str) -> pb::Suspension {
    let decided = client
        .clone()
        .decide(destructive(call_id))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(decided.effect(), pb::Effect::Suspend);
    decided.suspension.unwrap()
}

/// A yes or a no by `tester`.
pub fn answer(suspension_id: &str, approved: bool) -> pb::ResumeRequest {
    pb::ResumeRequest {
        suspension_id: suspension_id.to_owned(),
        by: "tester".to_owned(),
        answer: Some(pb::resume_request::Answer::Approval(pb::Approval {
            approved: Some(approved),
            ..Default::default()
        })),
        ..Default::default()
    }
}

/// A yes by `tester`, accepted.
pub async fn approve(client: &Client, suspension_id: &str) -> pb::Suspension {
    let answered = client
        .clone()
        .resume(answer(suspension_id, true))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answered.outcome(), pb::ResumeOutcome::Accepted);
    answered.suspension.unwrap()
}

/// The suspension as it is.
pub async fn get(client: &Client, suspension_id: &str) -> pb::Suspension {
    let request = pb::GetSuspensionRequest {
        suspension_id: suspension_id.to_owned(),
        ..Default::default()
    };
    client
        .clone()
        .get_suspension(request)
        .await
        .unwrap()
        .into_inner()
}

/// The ErrorInfo's reason.
pub fn reason(status: &Status) -> String {
    let details = status.get_error_details();
    let info = details.error_info();
    info.map_or_else(|| format!("{status:?}"), |info| info.reason.clone())
}

/// The suspension that an error carries.
pub fn suspension_detail(status: &Status) -> Option<pb::Suspension> {
    use prost_reflect::prost::Message as _;
    let details = StatusDetails::decode(status.details()).ok()?.details;
    let mut of_suspension = details
        .into_iter()
        .filter(|any| any.type_url.ends_with("/assent.v1.Suspension"));
    pb::Suspension::decode(of_suspension.next()?.value.as_slice()).ok()
}
