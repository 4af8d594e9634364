//! What the operator wants (S1, S2, S4): a policy document, compiled once, and its answer for one call.
//!
//! Pure and synchronous. Texts come in, not paths; the time comes in; nothing is written or remembered. A document
//! is compiled whole and never changed afterwards, so a request that holds one sees one revision (S12).
//!
//! - `yaml` reads YAML into a tree in which everything has a place; `fields` and `document` read the keys, and
//!   `compile` makes the policy of them;
//! - `pattern`, `index` and `tool_list` find what concerns a tool id; `rules` evaluates one rule, and `trace` tells how;
//! - `wrapper` finds the call that a wrapper call makes, with `pointer`, in its arguments;
//! - `expression` is the only place that knows CEL;
//! - `port` reads where the operator's own authorization answers, which the engine asks;
//! - `lint` looks for what is allowed and hardly meant; `cases` and `import` are for whoever writes one.

pub mod cases;
mod compile;
mod document;
mod error;
mod expression;
mod fields;
pub mod import;
mod index;
mod lint;
mod pattern;
mod pointer;
mod port;
mod rules;
mod tool_list;
mod trace;
mod waits;
mod wrapper;
mod yaml;

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

pub use self::error::PolicyError;
pub use self::lint::Warning;
pub use self::port::{PortEndpoint, PortSettings};
pub use self::trace::{Check, Finding, List, ListHit, RuleStep, RuleTrace, Untraced};
pub use self::wrapper::{Doubt, Resolved, Unresolved};
pub use self::yaml::MAX_BYTES;

use self::compile::revision;
use self::expression::{Conditions, Evaluation, Input};
use self::index::ToolIndex;
use self::rules::{Answer, Rule};
use self::tool_list::ToolList;
use self::waits::Waits;
use self::wrapper::Wrappers;
use crate::classify::{
    Classification, Pin, Pins, Trust, classify, classify_target, classify_unresolved, counts_as_mcp,
};
use crate::domain::{
    Annotations, ApprovalTerms, ApproverRule, AskedCall, Decision, Id, OnExpiry, RiskClass, Scope,
    Timestamp, ToolCall, WaitTerms,
};
use crate::suspension::Kind;

/// One file of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What errors call it.
    pub name: String,
    /// The YAML.
    pub text: String,
}

/// The limits that the document sets (S9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes that the arguments of a call may have.
    pub max_arguments_bytes: usize,
    /// The most bytes that a payload, a result or a schema may have.
    pub max_payload_bytes: usize,
    /// The most open suspensions of one session, or of one run where there is no session.
    pub pending_per_session: u64,
    /// The most open suspensions of one tenant.
    pub pending_per_tenant: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_arguments_bytes: 256 * 1024,
            max_payload_bytes: 256 * 1024,
            pending_per_session: 1000,
            pending_per_tenant: 100_000,
        }
    }
}

/// A compiled policy document.
#[derive(Debug)]
pub struct Policy {
    revision: String,
    mode: Option<Decision>,
    default: Decision,
    rules: Vec<Rule>,
    conditions: Conditions,
    rules_by_tool: ToolIndex,
    selectors: [bool; 3],
    always: ToolList,
    never: ToolList,
    catalogue: HashMap<Id, Pins>,
    trusted_servers: Option<Vec<Id>>,
    port: Option<PortSettings>,
    wrappers: Wrappers,
    approval: ApprovalTerms,
    waits: Waits,
    retention: Duration,
    claim_within: Duration,
    claim_lease: Duration,
    grants_expire: Duration,
    limits: Limits,
    warnings: Vec<Warning>,
}

/// What a decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The call that is judged.
    pub call: &'a ToolCall,
    /// Its class, as [`Policy::classify`] found it.
    pub class: RiskClass,
    /// Where it happens.
    pub scope: &'a Scope,
    /// When.
    pub now: Timestamp,
}

/// What the rules say of a call (S3 step 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict<'p> {
    /// The answer.
    pub decision: Decision,
    /// The id of the rule that decided, or `default`, or `mode`.
    pub matched_rule: &'p str,
    /// The rule's reason; without one, which of its lists decided; or why it could not be evaluated, naming it.
    pub reason: Option<Cow<'p, str>>,
    /// How a prompt for this call behaves, whoever asks for it.
    pub terms: &'p ApprovalTerms,
}

/// What the selectors say of a call (S2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection<'p> {
    /// Whether they ask for a person.
    pub asks: bool,
    /// Which of them: `@write`, `always: PATTERN`, `never: PATTERN`, or nothing.
    pub by: &'p str,
}

impl Policy {
    /// The policy without a document: everything is allowed, and the default selectors ask.
    pub fn defaults() -> Self {
        Self {
            revision: revision(&[]),
            mode: None,
            default: Decision::Allow,
            rules: Vec::new(),
            conditions: Conditions::default(),
            rules_by_tool: ToolIndex::default(),
            selectors: [false, true, true],
            always: ToolList::default(),
            never: ToolList::default(),
            catalogue: HashMap::new(),
            trusted_servers: None,
            port: None,
            wrappers: Wrappers::default(),
            approval: ApprovalTerms {
                expires: Duration::from_secs(24 * 60 * 60),
                on_expiry: OnExpiry::Abandon,
                approvers: ApproverRule::default(),
            },
            waits: Waits::default(),
            retention: Duration::from_secs(7 * 24 * 60 * 60),
            claim_within: Duration::from_secs(60 * 60),
            claim_lease: Duration::from_secs(5 * 60),
            grants_expire: Duration::from_secs(24 * 60 * 60),
            limits: Limits::default(),
            warnings: Vec::new(),
        }
    }

    /// A digest of the file names and texts that were compiled: 16 hex digits. Where the files are does not matter.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Whether this is S4's AllowAll: mode auto, default allow, no rules and no policy port. It is not a security
    /// control.
    pub fn allows_everything(&self) -> bool {
        self.mode.is_none()
            && self.default == Decision::Allow
            && self.rules.is_empty()
            && self.port.is_none()
    }

    /// What is allowed in the document and hardly meant, in the order of the places. The document is usable.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The call that is judged when `asked` is asked about (S3 step 2): the one that a wrapper call makes, in place of
    /// the wrapper's own. An unresolved one needs review whatever [`Policy::select`] says.
    pub fn resolve<'c>(&self, asked: &'c AskedCall) -> Resolved<'c> {
        self.wrappers
            .resolve(asked, self.limits.max_arguments_bytes)
    }

    /// As [`Policy::resolve`], for a call that was resolved when its suspension was opened.
    pub fn resolve_again<'c>(&self, call: &'c ToolCall) -> Resolved<'c> {
        self.wrappers
            .resolve_again(call, self.limits.max_arguments_bytes)
    }

    /// The class of a judged call (S1), by its annotations, the catalogue and the trusted servers.
    pub fn classify(&self, call: &ToolCall) -> Classification {
        let rule = match &call.wrapped {
            None => classify,
            Some(wrapped) if wrapped.resolved => classify_target,
            Some(_) => return classify_unresolved(),
        };
        rule(call.annotations.as_ref(), self.pin(call), self.trust(call))
    }

    /// What the catalogue says of a call's tool (S1).
    pub fn pin(&self, call: &ToolCall) -> Pin<'_> {
        self.catalogue
            .get(&call.tool)
            .map_or(Pin::None, |pins| pins.for_server(&call.server))
    }

    /// How far a call's own annotations are believed (S1).
    pub fn trust(&self, call: &ToolCall) -> Trust {
        match &self.trusted_servers {
            Some(trusted) if counts_as_mcp(call) && !trusted.contains(&call.server) => {
                Trust::Untrusted
            }
            Some(_) | None => Trust::AsSent,
        }
    }

    /// Whether selectors, `always` and `never` ask for a person (S2).
    pub fn select(&self, tool: &str, class: RiskClass) -> Selection<'_> {
        if let Some(by) = self.never.first_match(tool) {
            return Selection { asks: false, by };
        }
        if let Some(by) = self.always.first_match(tool) {
            return Selection { asks: true, by };
        }
        let [read_only, write, destructive] = self.selectors;
        let (selected, by) = match class {
            RiskClass::ReadOnly => (read_only, "@read-only"),
            RiskClass::Write => (write, "@write"),
            RiskClass::Destructive => (destructive, "@destructive"),
        };
        Selection {
            asks: selected,
            by: if selected { by } else { "" },
        }
    }

    /// The ids of the rules, in the order in which they are looked at.
    pub fn rule_ids(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.id.as_str())
    }

    /// What mode, rules and default say of a call (S4). The first rule that matches decides; a rule that cannot be
    /// evaluated denies.
    pub fn evaluate(&self, facts: &Facts<'_>) -> Verdict<'_> {
        self.evaluate_traced(facts, &mut Untraced)
    }

    /// As [`Policy::evaluate`]; `trace` hears of each rule that is looked at.
    pub fn evaluate_traced(&self, facts: &Facts<'_>, trace: &mut impl RuleTrace) -> Verdict<'_> {
        if let Some(decision) = self.mode {
            return Verdict {
                decision,
                matched_rule: "mode",
                reason: None,
                terms: &self.approval,
            };
        }
        let mut evaluation = Evaluation::new(
            &self.conditions,
            Input {
                call: facts.call,
                title: self.title(facts.call),
                class: facts.class,
                scope: facts.scope,
                now: facts.now,
            },
        );
        for position in self.rules_by_tool.matches(facts.call.tool.as_str()) {
            // The index holds positions of rules only; one that it made up would deny.
            let Some(rule) = self.rules.get(position) else {
                return Verdict {
                    decision: Decision::Deny,
                    matched_rule: "",
                    reason: Some(Cow::Borrowed("a rule is missing")),
                    terms: &self.approval,
                };
            };
            let answer = rule.answer(facts, &mut evaluation);
            trace.rule(|| rule.step(&answer, facts));
            let (decision, reason) = match answer {
                Answer::Skip(_) => continue,
                Answer::Decides(decision, by) => {
                    let own = rule.reason.as_deref().map(Cow::Borrowed);
                    let list = || by.map(|hit| Cow::Owned(hit.reason(&rule.id)));
                    (decision, own.or_else(list))
                }
                Answer::Fails(_, why) => {
                    let reason = format!("rule `{}` could not be evaluated: {why}", rule.id);
                    (Decision::Deny, Some(Cow::Owned(reason)))
                }
            };
            return Verdict {
                decision,
                matched_rule: &rule.id,
                reason,
                terms: &rule.terms,
            };
        }
        Verdict {
            decision: self.default,
            matched_rule: "default",
            reason: None,
            terms: &self.approval,
        }
    }

    /// The operator's own authorization, which is asked after the rules (S5); none where the document names none.
    pub fn port(&self) -> Option<&PortSettings> {
        self.port.as_ref()
    }

    /// How long after its approval a call may be claimed (S6).
    pub fn claim_within(&self) -> Duration {
        self.claim_within
    }

    /// How long a claim holds without Complete (S6).
    pub fn claim_lease(&self) -> Duration {
        self.claim_lease
    }

    /// How long a session grant holds (S8).
    pub fn grants_expire(&self) -> Duration {
        self.grants_expire
    }

    /// How long a record outlives the later of its deadline and its last change (S6).
    pub fn retention(&self) -> Duration {
        self.retention
    }

    /// The document's approval terms, for a prompt that no rule governs.
    pub fn approval(&self) -> &ApprovalTerms {
        &self.approval
    }

    /// How long a suspension of a kind waits, and what follows when nobody answers, where no rule says
    /// otherwise.
    pub fn waits(&self, kind: Kind) -> WaitTerms {
        match kind {
            Kind::Approval => WaitTerms {
                expires: self.approval.expires,
                on_expiry: self.approval.on_expiry,
            },
            Kind::Question => self.waits.question,
            Kind::External => self.waits.external,
            Kind::ClientTool => self.waits.client_tool,
            Kind::SignIn => self.waits.sign_in,
        }
    }

    /// The limits (S9).
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The title that rules and people see: the catalogue's, where it has one, as it replaces what the caller sent.
    /// May be empty.
    pub fn title<'a>(&'a self, call: &'a ToolCall) -> &'a str {
        let pinned = match self.pin(call) {
            Pin::Replaces(pin) | Pin::ReplacesWithin { pin, .. } => Some(pin),
            Pin::Limits(_) | Pin::None => None,
        };
        let title = |annotations: &'a Annotations| annotations.title.as_str();
        pinned
            .map(title)
            .filter(|title| !title.is_empty())
            .unwrap_or_else(|| call.annotations.as_ref().map(title).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
