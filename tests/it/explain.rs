//! `assent explain` tells of the decision that a server makes: the calls of the acceptance cases are put to both.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;

use arc_swap::ArcSwap;
use assent::domain::Timestamp;
use assent::engine::{Engine, Step};
use assent::grpc::{PortClient, Service};
use assent::pb;
use assent::policy::{Finding, Policy, RuleStep, Source};
use assent::store::nothing::Nothing;
use assent::watch::Waiters;
use futures_util::{StreamExt as _, stream};
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::{Value as Json, json};

use crate::acceptance;
use crate::support::server::{Process, in_process};
use crate::support::stores::{Home, Homes};

/// A call of an acceptance case that stands for itself, and its policy.
struct Question {
    of: String,
    policy: Option<String>,
    json: Json,
    request: pb::DecideRequest,
}

/// Every Decide of the cases that says nothing of what was recorded before, as a dry run.
fn questions() -> Vec<Question> {
    let pool = DescriptorPool::decode(pb::FILE_DESCRIPTOR_SET).unwrap();
    let message = pool.get_message_by_name("assent.v1.DecideRequest").unwrap();
    let mut questions = Vec::new();
    for case in acceptance::load() {
        if acceptance::NOT_YET.contains(&case["name"].as_str().unwrap()) {
            continue;
        }
        let policy = case["policy"].as_str().map(str::to_owned);
        for step in case["steps"].as_array().into_iter().flatten() {
            let request = &step["request"];
            let asks = step["call"] == "Decide" && request["call"].is_object();
            let leans_on_others = request.to_string().contains("\"$") || request["resumed"] == true;
            if !asks || leans_on_others {
                continue;
            }
            // What no Decide takes has a case of its own, and no answer here.
            let Ok(dynamic) = DynamicMessage::deserialize(message.clone(), request) else {
                continue;
            };
            let mut request: pb::DecideRequest = dynamic.transcode_to().unwrap();
            request.dry_run = true;
            questions.push(Question {
                of: case["name"].as_str().unwrap().to_owned(),
                policy: policy.clone(),
                json: step["request"].clone(),
                request,
            });
        }
    }
    assert!(questions.len() > 60, "only {} questions", questions.len());
    questions
}

fn compile(text: Option<&str>) -> Policy {
    text.map_or_else(Policy::defaults, |text| {
        let source = Source {
            name: "policy.yaml".to_owned(),
            text: text.to_owned(),
        };
        Policy::compile(&[source]).unwrap()
    })
}

/// What is explained: the answer, and the steps to it.
async fn explained(question: &Question) -> (Result<pb::DecideResponse, String>, Vec<Step>) {
    let policy = compile(question.policy.as_deref());
    let now = Timestamp::from_millis(1_767_348_000_000);
    let service = Service::new(Arc::new(Engine::new(
        Arc::new(Nothing::at(now)),
        Arc::new(ArcSwap::from_pointee(policy)),
        Arc::new(PortClient::default()),
        Waiters::default(),
        move || now,
    )));
    let mut steps = Vec::new();
    let answer = service
        .decide_traced(question.request.clone(), &mut steps)
        .await;
    (
        answer
            .map(anonymous)
            .map_err(|status| status.message().to_owned()),
        steps,
    )
}

/// Without the one thing that no two decisions share.
fn anonymous(mut answer: pb::DecideResponse) -> pb::DecideResponse {
    answer.decision_id.clear();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_explained_is_what_a_server_decides() {
    let homes = &Homes::start(Home::Sqlite).await;
    let mut servers = HashMap::new();
    for question in questions() {
        if !servers.contains_key(&question.policy) {
            let server = in_process(question.policy.as_deref(), homes.fresh().await).await;
            servers.insert(question.policy.clone(), server);
        }
        let mut client = servers[&question.policy].client();
        let decided = client.decide(question.request.clone()).await;
        let decided = decided.map(|answer| anonymous(answer.into_inner()));
        let decided = decided.map_err(|status| status.message().to_owned());
        let (explained, steps) = explained(&question).await;
        match (decided, explained) {
            (Ok(decided), Ok(explained)) => {
                assert_eq!(decided, explained, "{}: {}", question.of, question.json);
                steps_lead_to(&explained, &steps, &question.of);
            }
            (Err(message), Err(explained)) => {
                assert_eq!(explained, message);
            }
            (decided, explained) => panic!("{}: {decided:?}, {explained:?}", question.of),
        }
    }
}

/// The steps end where the answer is.
fn steps_lead_to(answer: &pb::DecideResponse, steps: &[Step], of: &str) {
    let class = steps.iter().find_map(|step| match step {
        Step::Classified { tool, class, .. } => Some((tool.to_string(), *class)),
        _ => None,
    });
    let (tool, class) = class.unwrap();
    let class = match class {
        assent::domain::RiskClass::ReadOnly => pb::RiskClass::ReadOnly,
        assent::domain::RiskClass::Write => pb::RiskClass::Write,
        assent::domain::RiskClass::Destructive => pb::RiskClass::Destructive,
    };
    assert_eq!(
        (tool, class),
        (answer.judged_tool.clone(), answer.risk_class()),
        "{of}"
    );
    let selected = steps.iter().find_map(|step| match step {
        Step::Selected { by, .. } => Some(by.clone()),
        _ => None,
    });
    assert_eq!(selected.as_ref(), Some(&answer.selected_by), "{of}");
    let by = steps.iter().find_map(|step| match step {
        Step::Rules { by, .. } => Some(by.clone()),
        _ => None,
    });
    let last_rule = steps.iter().rev().find_map(|step| match step {
        Step::Rule(rule) => Some(rule.clone()),
        _ => None,
    });
    if answer.matched_rule != "policy_port" {
        assert_eq!(by.as_ref(), Some(&answer.matched_rule), "{of}");
    }
    match (by.as_deref(), last_rule) {
        (Some("default" | "mode"), rule) => {
            let passed = |rule: &RuleStep| matches!(rule.finding, Finding::Skipped { .. });
            assert!(rule.iter().all(passed), "{of}: {rule:?}");
        }
        (Some(by), Some(rule)) => {
            assert_eq!(by, rule.rule, "{of}");
            assert!(!matches!(rule.finding, Finding::Skipped { .. }), "{of}");
        }
        (by, rule) => panic!("{of}: {by:?} {rule:?}"),
    }
    let review = steps
        .iter()
        .any(|step| matches!(step, Step::Review { in_program: false }));
    assert_eq!(answer.effect() == pb::Effect::Suspend, review, "{of}");
}

/// The request as flags; none where no flag says it.
fn flags(request: &Json) -> Option<Vec<String>> {
    let mut flags = Vec::new();
    let mut say = |flag: &str, value: &Json| {
        flags.push(format!("--{flag}"));
        flags.push(value.as_str().unwrap().to_owned());
    };
    for (key, value) in request.as_object()? {
        match key.as_str() {
            "call" | "scope" => {}
            _ => return None,
        }
        assert!(value.is_object());
    }
    for (key, value) in request["scope"].as_object().into_iter().flatten() {
        match key.as_str() {
            "tenant" => say("tenant", value),
            "sessionId" => say("session", value),
            "runId" => say("run", value),
            "agentPath" => value
                .as_array()?
                .iter()
                .for_each(|agent| say("agent-path", agent)),
            "principal" => {
                for (key, value) in value.as_object()? {
                    match key.as_str() {
                        "id" => say("principal", value),
                        "roles" => value.as_array()?.iter().for_each(|role| say("role", role)),
                        "attributes" => {
                            for (key, value) in value.as_object()? {
                                say("attribute", &json!(format!("{key}={}", value.as_str()?)));
                            }
                        }
                        _ => return None,
                    }
                }
            }
            _ => return None,
        }
    }
    let mut switches = Vec::new();
    for (key, value) in request["call"].as_object()? {
        match key.as_str() {
            "tool" => say("tool", value),
            "callId" => say("call-id", value),
            "stepId" => say("step-id", value),
            "server" => say("mcp-server", value),
            "argumentsJson" if value != "" => say("args", value),
            "origin" => {
                let name = value.as_str()?.strip_prefix("ORIGIN_")?;
                say("origin", &json!(name.to_lowercase()));
            }
            "inProgram" => switches.push("--in-program"),
            "annotations" => {
                for (key, value) in value.as_object()? {
                    match (key.as_str(), value) {
                        ("readOnlyHint", Json::Bool(true)) => switches.push("--read-only"),
                        ("destructiveHint", Json::Bool(true)) => switches.push("--destructive"),
                        ("destructiveHint", Json::Bool(false)) => switches.push("--write"),
                        ("title", title) => say("title", title),
                        ("labels", labels) => {
                            labels
                                .as_array()?
                                .iter()
                                .for_each(|label| say("label", label));
                        }
                        _ => return None,
                    }
                }
            }
            _ => return None,
        }
    }
    flags.extend(switches.into_iter().map(str::to_owned));
    Some(flags)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_prints_that_answer() {
    let asked: Vec<_> = questions()
        .into_iter()
        .filter_map(|question| Some((flags(&question.json)?, question)))
        .collect();
    assert!(asked.len() > 40, "only {} questions", asked.len());
    stream::iter(asked)
        .for_each_concurrent(4, |(flags, question)| async move {
            let mut file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
            let text = question.policy.as_deref().unwrap_or("version: 1\n");
            file.write_all(text.as_bytes()).unwrap();
            let question = Question {
                policy: Some(text.to_owned()),
                ..question
            };
            let path = file.path().to_str().unwrap();
            let command = ["explain", "--json", "--policy", path];
            let flags: Vec<&str> = command
                .into_iter()
                .chain(flags.iter().map(String::as_str))
                .collect();
            let ended = Process::run(&flags, &[]).await;
            let (explained, _) = explained(&question).await;
            let Ok(answer) = explained else {
                assert_eq!(ended.code(), Some(1), "{ended:?}");
                return;
            };
            let said: Json = serde_json::from_str(&ended.stdout)
                .unwrap_or_else(|_| panic!("{}: {ended:?}", question.of));
            let decision = &said["decision"];
            let code = match answer.effect() {
                pb::Effect::Allow => 0,
                pb::Effect::Suspend => 3,
                pb::Effect::Deny | pb::Effect::Unspecified => 4,
            };
            assert_eq!(ended.code(), Some(code), "{ended:?}");
            for (key, expected) in [
                ("effect", answer.effect().as_str_name()),
                ("riskClass", answer.risk_class().as_str_name()),
                ("reason", &answer.reason),
                ("matchedRule", &answer.matched_rule),
                ("selectedBy", &answer.selected_by),
                ("messageForModel", &answer.message_for_model),
                ("policyRevision", &answer.policy_revision),
                ("argumentsDigest", &answer.arguments_digest),
            ] {
                let got = decision[key].as_str().unwrap_or_default();
                assert_eq!(got, expected, "{}: {key}", question.of);
            }
            assert_eq!(decision["decisionId"], Json::Null);
        })
        .await;
}
