//! A suspension and its parts: domain -> wire.

use super::history::{claim, resolution, vote};
use crate::arguments::Digest;
use crate::domain::{
    Annotations, ApproverRule, OnExpiry, Origin, Principal, RiskClass, RunStart, Scope, Timestamp,
    ToolCall,
};
use crate::pb;
use crate::suspension::{
    Body, Execution, Kind, Matter, Question, State, Status, Subject, Suspension, Wait,
};

/// The whole record.
pub(in crate::grpc) fn suspension(record: Suspension) -> pb::Suspension {
    let Suspension {
        id,
        body,
        create_time,
        expire_time,
        state,
        version,
    } = record;
    let awaited = kind(body.kind());
    let Body {
        scope: asked_in,
        subject,
        risk_class: class,
        title,
        reason,
        arguments_digest,
        on_expiry: expiry,
        approvers: rule,
        matched_rule,
        policy_revision,
    } = body;
    let asked = self::subject(subject);
    // Who withdrew an approval has no field in the contract; Decide's message has the reason.
    let State {
        status: progress,
        execution: used,
        votes,
        resolution: end,
        claims,
        withdrawal: _,
        changed: _,
    } = state;
    pb::Suspension {
        id: id.to_string(),
        kind: awaited.into(),
        status: status(progress).into(),
        scope: Some(scope(asked_in)),
        risk_class: risk_class(class),
        title,
        reason,
        create_time: Some(timestamp(create_time)),
        expire_time: Some(timestamp(expire_time)),
        resolution: end.map(resolution),
        execution: execution(used).into(),
        version,
        arguments_digest: digest(arguments_digest),
        on_expiry: on_expiry(expiry).into(),
        approvers: approvers(rule),
        votes: votes.into_iter().map(vote).collect(),
        claims: claims.into_iter().map(claim).collect(),
        matched_rule,
        policy_revision,
        ..asked
    }
}

/// A suspension with the fields that say what it waits for, and no other.
fn subject(subject: Subject) -> pb::Suspension {
    let mut asked = pb::Suspension::default();
    let wait = match subject {
        Subject::Call(call) => {
            asked.call_id = call.call_id.clone().into();
            asked.step_id = call.step_id.clone().into();
            asked.call = Some(tool_call(*call));
            return asked;
        }
        Subject::Run(RunStart { version }) => {
            asked.run = Some(pb::RunStart {
                version: version.into(),
            });
            return asked;
        }
        Subject::Wait(wait) => wait,
    };
    let Wait {
        call_id,
        step_id,
        matter,
    } = *wait;
    asked.call_id = call_id.into();
    asked.step_id = step_id.into();
    match matter {
        Matter::Question(questions) => {
            asked.questions = questions.into_iter().map(question).collect();
        }
        Matter::External { event, schema } => {
            asked.event = event;
            asked.payload_schema_json =
                schema.map_or_else(String::new, |schema| schema.text().to_owned());
        }
        Matter::ClientTool(call) => asked.call = Some(tool_call(call)),
        Matter::SignIn(sources) => {
            asked.sources = sources.into_iter().map(String::from).collect();
        }
    }
    asked
}

fn question(question: Question) -> pb::Question {
    let Question {
        key,
        text,
        options,
        options_only,
    } = question;
    pb::Question {
        key: key.into(),
        text,
        options,
        options_only,
    }
}

/// What an error shows of the suspension that somebody else resolved: how it ended, and nothing else.
pub(in crate::grpc) fn winner(record: Suspension) -> pb::Suspension {
    let Suspension {
        id,
        body,
        state,
        version,
        create_time: _,
        expire_time: _,
    } = record;
    pb::Suspension {
        id: id.to_string(),
        kind: kind(body.kind()).into(),
        status: status(state.status).into(),
        version,
        resolution: state.resolution.map(resolution),
        ..pb::Suspension::default()
    }
}

/// Where, and on whose behalf.
pub(in crate::grpc) fn scope(scope: Scope) -> pb::Scope {
    let Scope {
        tenant,
        principal,
        session_id,
        run_id,
        parent_run_id,
        agent_path,
    } = scope;
    let Principal {
        id,
        roles,
        attributes,
    } = principal;
    pb::Scope {
        tenant: tenant.into(),
        principal: Some(pb::Principal {
            id: id.into(),
            roles,
            attributes: attributes.into_iter().collect(),
        }),
        session_id: session_id.into(),
        run_id: run_id.into(),
        parent_run_id: parent_run_id.into(),
        agent_path,
    }
}

/// What wants to run.
pub(in crate::grpc) fn tool_call(call: ToolCall) -> pb::ToolCall {
    let ToolCall {
        call_id,
        step_id,
        tool,
        server,
        origin: place,
        annotations: claims,
        arguments,
        in_program,
        parent_call_id,
        // The judged call is shown, and the reason says what is doubtful about it.
        wrapped: _,
    } = call;
    pb::ToolCall {
        call_id: call_id.into(),
        step_id: step_id.into(),
        tool: tool.into(),
        server: server.into(),
        origin: origin(place).into(),
        annotations: claims.map(annotations),
        arguments_json: arguments.text().to_owned(),
        in_program,
        parent_call_id: parent_call_id.into(),
        target: None,
    }
}

fn annotations(annotations: Annotations) -> pb::Annotations {
    let Annotations {
        read_only_hint,
        destructive_hint,
        idempotent_hint,
        open_world_hint,
        title,
        labels,
    } = annotations;
    pb::Annotations {
        read_only_hint,
        destructive_hint,
        idempotent_hint,
        open_world_hint,
        title,
        labels,
    }
}

/// Who may answer; unset where anybody may.
fn approvers(rule: ApproverRule) -> Option<pb::ApproverRule> {
    if rule == ApproverRule::default() {
        return None;
    }
    let ApproverRule {
        roles,
        quorum,
        exclude_requester,
    } = rule;
    Some(pb::ApproverRule {
        roles,
        quorum,
        exclude_requester,
    })
}

pub(super) fn digest(digest: Option<Digest>) -> String {
    digest.map_or_else(String::new, |digest| digest.to_string())
}

/// The class; unspecified where there is none.
pub(in crate::grpc) fn risk_class(class: Option<RiskClass>) -> i32 {
    match class {
        None => pb::RiskClass::Unspecified,
        Some(RiskClass::ReadOnly) => pb::RiskClass::ReadOnly,
        Some(RiskClass::Write) => pb::RiskClass::Write,
        Some(RiskClass::Destructive) => pb::RiskClass::Destructive,
    }
    .into()
}

/// A moment, no later than the last one that google.protobuf.Timestamp has.
pub(super) fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    const YEAR_1: i64 = -62_135_596_800_000;
    const END_OF_YEAR_9999: i64 = 253_402_300_799_999;
    let millis = time.millis().clamp(YEAR_1, END_OF_YEAR_9999);
    prost_types::Timestamp {
        seconds: millis.div_euclid(1000),
        nanos: i32::try_from(millis.rem_euclid(1000) * 1_000_000).unwrap_or_default(),
    }
}

fn kind(kind: Kind) -> pb::SuspensionKind {
    match kind {
        Kind::Approval => pb::SuspensionKind::Approval,
        Kind::Question => pb::SuspensionKind::Question,
        Kind::External => pb::SuspensionKind::External,
        Kind::ClientTool => pb::SuspensionKind::ClientTool,
        Kind::SignIn => pb::SuspensionKind::SignIn,
    }
}

fn status(status: Status) -> pb::SuspensionStatus {
    match status {
        Status::Pending => pb::SuspensionStatus::Pending,
        Status::Approved => pb::SuspensionStatus::Approved,
        Status::Denied => pb::SuspensionStatus::Denied,
        Status::Answered => pb::SuspensionStatus::Answered,
        Status::Expired => pb::SuspensionStatus::Expired,
        Status::Cancelled => pb::SuspensionStatus::Cancelled,
    }
}

fn execution(execution: Execution) -> pb::Execution {
    match execution {
        Execution::None => pb::Execution::None,
        Execution::Claimed => pb::Execution::Claimed,
        Execution::Completed => pb::Execution::Completed,
        Execution::InDoubt => pb::Execution::InDoubt,
        Execution::Voided => pb::Execution::Voided,
    }
}

fn on_expiry(on_expiry: OnExpiry) -> pb::OnExpiry {
    match on_expiry {
        OnExpiry::Abandon => pb::OnExpiry::Abandon,
        OnExpiry::Deny => pb::OnExpiry::Deny,
    }
}

fn origin(origin: Option<Origin>) -> pb::Origin {
    match origin {
        None => pb::Origin::Unspecified,
        Some(Origin::Code) => pb::Origin::Code,
        Some(Origin::Http) => pb::Origin::Http,
        Some(Origin::Mcp) => pb::Origin::Mcp,
        Some(Origin::A2a) => pb::Origin::A2a,
        Some(Origin::Workflow) => pb::Origin::Workflow,
    }
}
