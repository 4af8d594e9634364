//! The measured calls. The configurations in `ghz/` send the same ones.

use assent::pb;

/// The policy that both are decided by: 100 rules, of which 10 have a condition.
pub(crate) const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/policy-100.yaml");

/// How many calls share a session and a run.
const CALLS_PER_SESSION: u64 = 16;

const SEARCH: &str = include_str!("search.json").trim_ascii();
const REFUND: &str = include_str!("refund.json").trim_ascii();

/// One of the measured calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Three conditions are evaluated, the last one allows.
    Allow,
    /// Two conditions are evaluated, the last one asks: a suspension opens.
    Suspend,
}

impl Call {
    /// The request of the `number`th call. Calls of one `prefix` have ids of their own, and spread over sessions.
    pub(crate) fn request(self, prefix: &str, number: u64) -> pb::DecideRequest {
        let (tool, read_only, arguments) = match self {
            Self::Allow => ("crm.search_orders", true, SEARCH),
            Self::Suspend => ("client.issue_refund", false, REFUND),
        };
        let session = number / CALLS_PER_SESSION;
        pb::DecideRequest {
            scope: Some(pb::Scope {
                tenant: "acme".to_owned(),
                principal: Some(pb::Principal {
                    id: "u-318".to_owned(),
                    roles: vec!["support".to_owned(), "refunds".to_owned()],
                    attributes: [("team".to_owned(), "lisbon".to_owned())].into(),
                }),
                session_id: format!("s-{prefix}-{session}"),
                run_id: format!("r-{prefix}-{session}"),
                parent_run_id: String::new(),
                agent_path: vec!["support".to_owned(), "orders".to_owned()],
            }),
            action: Some(pb::decide_request::Action::Call(pb::ToolCall {
                call_id: format!("c-{prefix}-{number}"),
                step_id: String::new(),
                tool: tool.to_owned(),
                server: String::new(),
                origin: pb::Origin::Code.into(),
                annotations: Some(pb::Annotations {
                    read_only_hint: Some(read_only),
                    destructive_hint: Some(false),
                    idempotent_hint: None,
                    open_world_hint: None,
                    title: String::new(),
                    labels: Vec::new(),
                }),
                arguments_json: arguments.to_owned(),
                in_program: false,
                parent_call_id: String::new(),
                target: None,
            })),
            expires_in: None,
            resumed: false,
            dry_run: false,
        }
    }

    /// Whether the answer is the expected one, and whole.
    pub(crate) fn is_answered_by(self, answer: &pb::DecideResponse) -> bool {
        match self {
            Self::Allow => {
                answer.effect() == pb::Effect::Allow && answer.matched_rule == "search-own-region"
            }
            Self::Suspend => {
                answer.effect() == pb::Effect::Suspend
                    && answer.matched_rule == "big-refund"
                    && answer.suspension.is_some()
            }
        }
    }
}
