//! The short words of operations, as requests spell them.

use assent::pb;

use super::{CallId, Expires, Named, Person, Place, Principal, Tool};
use crate::model::plain::{TICK_SECONDS, digest};

impl Place {
    pub(super) fn scope(self) -> pb::Scope {
        let named = |letter: &str, number: u8| match number {
            0 => String::new(),
            number => format!("{letter}{number}"),
        };
        let principal = match self.principal {
            Principal::Unknown => "",
            Principal::Ann => "ann",
            Principal::Bob => "bob",
        };
        pb::Scope {
            tenant: named("tenant", self.tenant),
            principal: Some(pb::Principal {
                id: principal.to_owned(),
                ..Default::default()
            }),
            session_id: named("session", self.session),
            run_id: named("run", self.run),
            parent_run_id: String::new(),
            agent_path: self
                .agent
                .then(|| "helper".to_owned())
                .into_iter()
                .collect(),
        }
    }
}

impl CallId {
    pub(super) fn texts(self) -> (String, String) {
        match self {
            Self::None => (String::new(), String::new()),
            Self::Call(number) => (format!("call{number}"), String::new()),
            Self::Step(number) => (String::new(), format!("step{number}")),
        }
    }
}

impl Tool {
    pub(super) fn call(self) -> pb::ToolCall {
        let claims = |read_only: Option<bool>, destructive: Option<bool>| {
            Some(pb::Annotations {
                read_only_hint: read_only,
                destructive_hint: destructive,
                ..Default::default()
            })
        };
        let (tool, annotations) = match self {
            Self::PayOne => ("pay.one", None),
            Self::PayTwo => ("pay.two", claims(None, Some(true))),
            Self::PayOther => ("pay.other", None),
            Self::Wipe => ("wipe", None),
            Self::Note => ("note", claims(None, Some(false))),
            Self::NoteDestructive => ("note", claims(None, Some(true))),
            Self::Look => ("look", claims(Some(true), None)),
            Self::Nothing => ("", None),
        };
        pb::ToolCall {
            tool: tool.to_owned(),
            annotations,
            ..Default::default()
        }
    }
}

impl Expires {
    pub(super) fn duration(self) -> Option<prost_types::Duration> {
        match self {
            Self::AsUsual => None,
            Self::Ticks(ticks) => Some(prost_types::Duration {
                seconds: ticks * i64::from(TICK_SECONDS),
                nanos: 0,
            }),
        }
    }
}

impl Person {
    pub(super) fn texts(self) -> (String, Vec<String>) {
        match self {
            Self::Nobody => (String::new(), Vec::new()),
            Self::Ann => ("ann".to_owned(), Vec::new()),
            Self::Manager(number) => (format!("manager{number}"), vec!["manager".to_owned()]),
        }
    }
}

impl Named {
    pub(super) fn text(self, shown: Option<&pb::Suspension>) -> String {
        match self {
            Self::Not => String::new(),
            Self::Rightly => shown.map_or_else(String::new, |shown| shown.arguments_digest.clone()),
            Self::Wrongly => digest("another", "{}"),
        }
    }
}

/// The fields that are a kind's own.
pub(super) fn wait(kind: pb::SuspensionKind) -> pb::SuspendRequest {
    let mut request = pb::SuspendRequest::default();
    match kind {
        pb::SuspensionKind::Question => {
            let question = |key: &str, options: &[&str]| pb::Question {
                key: key.to_owned(),
                text: "which?".to_owned(),
                options: options.iter().map(|option| (*option).to_owned()).collect(),
                options_only: !options.is_empty(),
            };
            request.questions = vec![question("which", &["a", "b"]), question("why", &[])];
        }
        pb::SuspensionKind::External => {
            request.event = "paid".to_owned();
            request.payload_schema_json =
                r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}"#
                    .to_owned();
        }
        pb::SuspensionKind::ClientTool => {
            request.call = Some(pb::ToolCall {
                tool: "camera".to_owned(),
                arguments_json: r#"{"zoom":2}"#.to_owned(),
                ..Default::default()
            });
        }
        pb::SuspensionKind::SignIn => {
            request.sources = vec!["mail".to_owned(), "disk".to_owned()];
        }
        pb::SuspensionKind::Approval | pb::SuspensionKind::Unspecified => {
            unreachable!("Suspend opens no approval")
        }
    }
    request
}
