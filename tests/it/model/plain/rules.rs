//! The policy documents of the model test, and what they say of a call.

use assent::pb;
use sha2::{Digest as _, Sha256};

use super::{Plain, SOME_TEXT, json};

/// All times of the model are whole numbers of these; what time the test itself takes is less than one.
pub const TICK_SECONDS: u32 = 100;

/// An approval may be claimed for two ticks and a half.
const CLAIM_WITHIN: i64 = 2;
/// A claim holds for so long.
pub(super) const LEASE: i64 = 3;
/// A grant holds for so long.
pub(super) const GRANT: i64 = 6;
/// How many may be open in a session, or in a run without one.
pub(super) const OPEN: usize = 4;

/// The first is in force at the start.
pub const POLICIES: [&str; 2] = [
    r#"
rules:
  - {id: cap, tools: ["pay.*"], when: args.cents > 1000, decision: deny, reason: over the cap}
  - {id: forbid, tools: [wipe], decision: deny, reason: never here}
  - {id: two, tools: [pay.two], decision: ask, reason: two must agree,
     approval: {expires: 500s, on_expiry: deny, approvers: {quorum: 2, roles: [manager]}}}
  - {id: other, tools: [pay.other], decision: ask, reason: somebody else,
     approval: {expires: 400s, on_expiry: abandon, approvers: {exclude_requester: true}}}
  - {id: one, tools: [pay.one], decision: ask, reason: one must agree,
     approval: {expires: 300s, on_expiry: abandon}}
suspensions:
  approval: {expires: 600s, on_expiry: deny}
  question: {expires: 400s, on_expiry: deny}
  external: {expires: 500s, on_expiry: abandon}
  client_tool: {expires: 300s, on_expiry: deny}
  sign_in: {expires: 200s, on_expiry: abandon}
  claim_within: 250s
  claim_lease: 300s
grants: {expires: 600s}
limits: {pending_per_session: 4}
"#,
    r#"
never: [note]
rules:
  - {id: shut, tools: [pay.one], decision: deny, reason: shut today}
  - {id: other, tools: [pay.other], decision: ask, reason: two others,
     approval: {expires: 400s, on_expiry: abandon, approvers: {exclude_requester: true, quorum: 2}}}
suspensions:
  approval: {expires: 600s, on_expiry: deny}
  question: {expires: 400s, on_expiry: deny}
  external: {expires: 500s, on_expiry: abandon}
  client_tool: {expires: 300s, on_expiry: deny}
  sign_in: {expires: 200s, on_expiry: abandon}
  claim_within: 250s
  claim_lease: 300s
grants: {expires: 600s}
limits: {pending_per_session: 4}
"#,
];

/// What rules and selectors make of a call.
pub(super) struct Verdict {
    pub(super) finding: Finding,
    pub(super) rule: &'static str,
    pub(super) reason: String,
    pub(super) selected_by: &'static str,
    pub(super) terms: Terms,
}

#[derive(PartialEq)]
pub(super) enum Finding {
    Allow,
    Deny,
    Review,
}

/// How a prompt goes.
pub(super) struct Terms {
    pub(super) expires: i64,
    pub(super) on_expiry: pb::OnExpiry,
    pub(super) approvers: Approvers,
}

#[derive(Clone, Copy)]
pub(super) struct Approvers {
    pub(super) manager: bool,
    pub(super) quorum: usize,
    pub(super) exclude_requester: bool,
}

const ANYBODY: Approvers = Approvers {
    manager: false,
    quorum: 1,
    exclude_requester: false,
};

impl Approvers {
    /// As a suspension shows them.
    pub(super) fn shown(self) -> Option<pb::ApproverRule> {
        let restricts = self.manager || self.quorum > 1 || self.exclude_requester;
        restricts.then(|| pb::ApproverRule {
            roles: self
                .manager
                .then(|| "manager".to_owned())
                .into_iter()
                .collect(),
            quorum: u32::try_from(self.quorum).unwrap(),
            exclude_requester: self.exclude_requester,
        })
    }

    /// As a suspension showed them.
    pub(super) fn of(shown: Option<&pb::ApproverRule>) -> Self {
        shown.map_or(ANYBODY, |rule| Self {
            manager: !rule.roles.is_empty(),
            quorum: rule.quorum as usize,
            exclude_requester: rule.exclude_requester,
        })
    }

    /// Whether somebody's approval counts for a call of `requester`.
    pub(super) fn admits(self, requester: &str, by: &str, roles: &[String]) -> bool {
        let excluded = self.exclude_requester && (requester.is_empty() || requester == by);
        !excluded && (!self.manager || roles.iter().any(|role| role == "manager"))
    }
}

impl Plain {
    /// What policy and selectors say of a tool with these arguments.
    pub(super) fn judge(
        &self,
        tool: &str,
        annotations: Option<&pb::Annotations>,
        arguments: &str,
    ) -> Verdict {
        let class = class_of(annotations);
        let exempt = self.policy == 1 && tool == "note";
        let selected_by = match class {
            _ if exempt => "never: note",
            pb::RiskClass::Destructive => "@destructive",
            pb::RiskClass::Write => "@write",
            pb::RiskClass::ReadOnly | pb::RiskClass::Unspecified => "",
        };
        let selected = !exempt && !selected_by.is_empty();
        let ask = |rule, reason: &str, expires, on_expiry, approvers| Verdict {
            finding: Finding::Review,
            rule,
            reason: reason.to_owned(),
            selected_by,
            terms: Terms {
                expires,
                on_expiry,
                approvers,
            },
        };
        let deny = |rule, reason: &str| Verdict {
            finding: Finding::Deny,
            ..ask(rule, reason, 0, pb::OnExpiry::Deny, ANYBODY)
        };
        let cents = json(arguments).and_then(|arguments| arguments.get("cents")?.as_i64());
        let (abandon, go_on) = (pb::OnExpiry::Abandon, pb::OnExpiry::Deny);
        match (self.policy, tool) {
            (0, "pay.one" | "pay.two" | "pay.other") if cents.is_none() => deny("cap", SOME_TEXT),
            (0, "pay.one" | "pay.two" | "pay.other") if cents > Some(1000) => {
                deny("cap", "over the cap")
            }
            (0, "wipe") => deny("forbid", "never here"),
            (0, "pay.two") => {
                let two = Approvers {
                    manager: true,
                    quorum: 2,
                    exclude_requester: false,
                };
                ask("two", "two must agree", 5, go_on, two)
            }
            (0, "pay.other") => {
                let other = Approvers {
                    exclude_requester: true,
                    ..ANYBODY
                };
                ask("other", "somebody else", 4, abandon, other)
            }
            (0, "pay.one") => ask("one", "one must agree", 3, abandon, ANYBODY),
            (1, "pay.one") => deny("shut", "shut today"),
            (1, "pay.other") => {
                let others = Approvers {
                    exclude_requester: true,
                    quorum: 2,
                    ..ANYBODY
                };
                ask("other", "two others", 4, abandon, others)
            }
            _ if selected => ask("default", SOME_TEXT, 6, go_on, ANYBODY),
            _ => Verdict {
                finding: Finding::Allow,
                reason: if exempt {
                    SOME_TEXT.to_owned()
                } else {
                    String::new()
                },
                ..ask("default", "", 0, go_on, ANYBODY)
            },
        }
    }

    /// How long a wait of a kind waits, and what follows.
    pub(super) fn waits(kind: pb::SuspensionKind) -> (i64, pb::OnExpiry) {
        match kind {
            pb::SuspensionKind::Question => (4, pb::OnExpiry::Deny),
            pb::SuspensionKind::External => (5, pb::OnExpiry::Abandon),
            pb::SuspensionKind::ClientTool => (3, pb::OnExpiry::Deny),
            pb::SuspensionKind::SignIn => (2, pb::OnExpiry::Abandon),
            pb::SuspensionKind::Approval | pb::SuspensionKind::Unspecified => {
                unreachable!("Suspend opens no approval")
            }
        }
    }

    /// Whether an approval is too old to be claimed.
    pub(super) fn is_stale(&self, shown: &pb::Suspension) -> bool {
        let approved = super::ticks(&shown.resolution.as_ref().unwrap().resolve_time);
        shown.execution() == pb::Execution::None && self.now - approved > CLAIM_WITHIN
    }
}

/// The strictest claim wins; the tests make claims of one kind at a time.
pub(super) fn class_of(annotations: Option<&pb::Annotations>) -> pb::RiskClass {
    let Some(claims) = annotations else {
        return pb::RiskClass::Write;
    };
    match (claims.read_only_hint, claims.destructive_hint) {
        (_, Some(true)) => pb::RiskClass::Destructive,
        (Some(true), _) => pb::RiskClass::ReadOnly,
        (None | Some(false), Some(false)) => pb::RiskClass::Write,
        (None | Some(false), None) => unreachable!("no such claim is made here"),
    }
}

/// The digest of a call whose arguments are one small object.
pub fn digest(tool: &str, arguments: &str) -> String {
    let canonical = json(arguments).unwrap().to_string();
    let hash = Sha256::digest(format!("{tool}\0{canonical}"));
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
