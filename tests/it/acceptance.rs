//! The language-neutral acceptance cases (tests/cases/*.yaml), on both stores, over real gRPC.
//!
//! Requests and answers are proto3 JSON, turned into messages by the descriptors that the server also
//! reflects, so that a case tests the wire and nothing of ours stands between.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use assent::pb;
use assent::policy::{Policy, Source};
use assent::store::SuspensionStore;
use futures_util::{StreamExt as _, stream};
use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor, SerializeOptions};
use serde_json::{Map, Value as Json, json};
use tonic::Status;
use tonic::transport::Channel;
use tonic_types::StatusExt as _;

use crate::dynamic;
use crate::support::server::in_process;
use crate::support::stores::{self, Home};

/// Cases of later issues. They are run too, and must not pass: whoever makes one pass takes it out.
pub const NOT_YET: &[&str] = &[];

#[tokio::test(flavor = "multi_thread")]
async fn every_case_passes_on_sqlite() {
    run_all(Home::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_case_passes_on_redis() {
    run_all(Home::Redis).await;
}

async fn run_all(home: Home) {
    let cases = load();
    assert!(cases.len() > 50, "only {} cases were found", cases.len());
    let home = &stores::Homes::start(home).await;
    let results: Vec<_> = stream::iter(cases)
        .map(|case| async move {
            let store = home.fresh().await;
            (name(&case).to_owned(), run(&case, store).await)
        })
        .buffer_unordered(8)
        .collect()
        .await;
    let mut report = String::new();
    let mut passed = 0;
    for (name, result) in results {
        match (result, NOT_YET.contains(&name.as_str())) {
            (Ok(()), false) => passed += 1,
            (Err(_), true) => {}
            (Ok(()), true) => _ = writeln!(report, "{name}: passes, take it out of NOT_YET"),
            (Err(error), false) => _ = writeln!(report, "{name}: {error}"),
        }
    }
    assert!(report.is_empty(), "{passed} cases passed, but\n{report}");
}

/// All cases of all files, each a map with a unique name.
pub fn load() -> Vec<Json> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut cases = Vec::new();
    let mut names = HashMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let loaded: Vec<Json> = serde_saphyr::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!loaded.is_empty(), "{} holds no case", path.display());
        for case in loaded {
            let earlier = names.insert(name(&case).to_owned(), path.clone());
            assert_eq!(earlier, None, "`{}` is in two places", name(&case));
            cases.push(case);
        }
    }
    cases
}

fn name(case: &Json) -> &str {
    case["name"].as_str().expect("a case has a name")
}

async fn run(case: &Json, store: Arc<dyn SuspensionStore>) -> Result<(), String> {
    let policy = case["policy"].as_str();
    if let Some(expected) = case.get("policyError") {
        let source = Source {
            name: "policy.yaml".to_owned(),
            text: policy.expect("a policyError case has a policy").to_owned(),
        };
        let Err(error) = Policy::compile(&[source]) else {
            return Err("the document was accepted".to_owned());
        };
        return compare("policyError", expected, &json!(error.to_string()));
    }
    if let Some(text) = policy {
        let source = Source {
            name: "policy.yaml".to_owned(),
            text: text.to_owned(),
        };
        Policy::compile(&[source]).map_err(|error| error.to_string())?;
    }
    let server = in_process(policy, store).await;
    let mut session = Session {
        channel: server.channel(),
        pool: DescriptorPool::decode(pb::FILE_DESCRIPTOR_SET).unwrap(),
        saved: HashMap::new(),
    };
    let steps = case["steps"].as_array().expect("a case has steps");
    for (number, step) in steps.iter().enumerate() {
        session
            .step(step)
            .await
            .map_err(|error| format!("step {}: {error}", number + 1))?;
    }
    Ok(())
}

/// One case on its way: the connection and what was saved.
struct Session {
    channel: Channel,
    pool: DescriptorPool,
    saved: HashMap<String, Json>,
}

impl Session {
    async fn step(&mut self, step: &Json) -> Result<(), String> {
        if let Some(seconds) = step["wait"].as_f64() {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            return Ok(());
        }
        let service = self
            .pool
            .get_service_by_name("assent.v1.DecisionService")
            .unwrap();
        let call = step["call"]
            .as_str()
            .ok_or("a step needs `call` or `wait`")?;
        let method = service
            .methods()
            .find(|method| method.name() == call)
            .ok_or_else(|| format!("no RPC is called `{call}`"))?;
        let request = self.fill(step.get("request").unwrap_or(&json!({})))?;
        let request = DynamicMessage::deserialize(method.input(), request)
            .map_err(|error| format!("the request is no {}: {error}", method.input().name()))?;
        let answer = dynamic::unary(&self.channel, &method, request).await;
        match (answer, step.get("wantError")) {
            (Ok(answer), None) => {
                let answer = to_json(&answer);
                if let Some(want) = step.get("want") {
                    compare("", &self.fill(want)?, &answer)?;
                }
                self.save(step, &answer)
            }
            (Err(status), Some(want)) => {
                let want = self.fill(want)?;
                self.compare_error(&method, &want, &status)
            }
            (Ok(answer), Some(_)) => Err(format!("no error, but {}", to_json(&answer))),
            (Err(status), None) => Err(format!("{status:?}")),
        }
    }

    fn save(&mut self, step: &Json, answer: &Json) -> Result<(), String> {
        for (variable, path) in step["save"].as_object().into_iter().flatten() {
            let path = path.as_str().ok_or("a saved path is a text")?;
            let value = path
                .split('.')
                .try_fold(answer, |value, key| value.get(key));
            let value = value.ok_or_else(|| format!("the answer has no `{path}`: {answer}"))?;
            self.saved.insert(variable.clone(), value.clone());
        }
        Ok(())
    }

    /// Puts saved values where `$name` stands, also behind a `!` or `~`.
    fn fill(&self, value: &Json) -> Result<Json, String> {
        Ok(match value {
            Json::String(text) => match text.split_once('$') {
                Some((mark @ ("" | "!" | "~"), variable)) if !variable.is_empty() => {
                    let saved = self.saved.get(variable);
                    let saved =
                        saved.ok_or_else(|| format!("nothing was saved as `{variable}`"))?;
                    match saved.as_str() {
                        Some(saved) => json!(format!("{mark}{saved}")),
                        None => saved.clone(),
                    }
                }
                _ => value.clone(),
            },
            Json::Array(items) => items
                .iter()
                .map(|item| self.fill(item))
                .collect::<Result<_, _>>()?,
            Json::Object(fields) => fields
                .iter()
                .map(|(key, value)| Ok((key.clone(), self.fill(value)?)))
                .collect::<Result<Map<_, _>, String>>()?
                .into(),
            Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
        })
    }

    fn compare_error(
        &self,
        method: &MethodDescriptor,
        want: &Json,
        status: &Status,
    ) -> Result<(), String> {
        let details = status.get_error_details();
        let info = details
            .error_info()
            .ok_or_else(|| format!("no ErrorInfo in {status:?}"))?;
        if info.domain != "assent" {
            return Err(format!("the domain is `{}`", info.domain));
        }
        let mut had = json!({
            "code": code_name(status),
            "reason": info.reason,
            "message": status.message(),
        });
        if let Some(suspension) = self.suspension_detail(method, status) {
            had["suspension"] = suspension;
        }
        let mut want = want.clone();
        if let Some(field) = want.as_object_mut().and_then(|want| want.remove("field")) {
            let field = field.as_str().ok_or("`field` is a text")?;
            let fields: Vec<_> = details
                .bad_request()
                .iter()
                .flat_map(|bad| &bad.field_violations)
                .collect();
            if !fields
                .iter()
                .any(|violation| violation.field.contains(field))
            {
                return Err(format!(
                    "no violation of `{field}` in {fields:?}: {status:?}"
                ));
            }
        }
        compare("error", &want, &had)
    }

    fn suspension_detail(&self, method: &MethodDescriptor, status: &Status) -> Option<Json> {
        let details = tonic_types::pb::Status::decode(status.details())
            .ok()?
            .details;
        let detail = details
            .into_iter()
            .find(|any| any.type_url.ends_with("/assent.v1.Suspension"))?;
        let suspension = method
            .parent_pool()
            .get_message_by_name("assent.v1.Suspension")?;
        Some(to_json(
            &DynamicMessage::decode(suspension, detail.value.as_slice()).ok()?,
        ))
    }
}

/// proto3 JSON with defaults filled in, so that a field left out compares as its default.
fn to_json(message: &DynamicMessage) -> Json {
    let options = SerializeOptions::new().skip_default_fields(false);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .unwrap()
}

fn code_name(status: &Status) -> String {
    let name = format!("{:?}", status.code());
    let mut upper = String::new();
    for (position, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && position > 0 {
            upper.push('_');
        }
        upper.extend(letter.to_uppercase());
    }
    upper
}

/// Whether `had` has all that `want` names.
fn compare(path: &str, want: &Json, had: &Json) -> Result<(), String> {
    let wrong = || Err(format!("`{path}` is {had}, not {want}"));
    match (want, had) {
        (Json::Null, Json::Null) => Ok(()),
        (Json::Null, _) => wrong(),
        (Json::Object(fields), Json::Object(_)) => fields.iter().try_for_each(|(key, want)| {
            let had = had.get(key).unwrap_or(&Json::Null);
            compare(&format!("{path}.{key}"), want, had)
        }),
        (Json::Array(wants), Json::Array(hads)) if wants.len() == hads.len() => {
            let mut pairs = wants.iter().zip(hads).enumerate();
            pairs.try_for_each(|(at, (want, had))| compare(&format!("{path}[{at}]"), want, had))
        }
        (Json::String(want), Json::String(had)) => {
            let fits = if let Some(part) = want.strip_prefix('~') {
                had.contains(part)
            } else if let Some(other) = want.strip_prefix('!') {
                had != other
            } else {
                had == want
            };
            if fits { Ok(()) } else { wrong() }
        }
        (want, had) if want == had => Ok(()),
        _ => wrong(),
    }
}

#[test]
fn the_comparison_itself_can_fail() {
    let had = json!({"a": "text", "list": [{"x": 1, "y": 2}], "none": null});
    for fits in [
        json!({"a": "text"}),
        json!({"a": "~ex"}),
        json!({"a": "!other"}),
        json!({"list": [{"x": 1}]}),
        json!({"none": null, "absent": null}),
    ] {
        assert_eq!(compare("", &fits, &had), Ok(()), "{fits}");
    }
    for wrong in [
        json!({"a": "other"}),
        json!({"a": "~z"}),
        json!({"a": "!text"}),
        json!({"a": null}),
        json!({"list": []}),
        json!({"list": [{"x": 2}]}),
        json!({"absent": "x"}),
    ] {
        assert!(compare("", &wrong, &had).is_err(), "{wrong}");
    }
}
