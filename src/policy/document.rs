//! The policy document as it is written (S4 and the end of the API contract): which keys there are, what each may
//! hold, and how several files make one document.
//!
//! Nothing is compiled here. Every key is read by name, and what is not known is refused: a policy must never be honoured
//! in part.

mod parts;

use std::collections::HashMap;
use std::time::Duration;

pub(super) use self::parts::{CLASSES, ORIGINS, call_annotations};

use self::parts::{grants, limits, pin, rule, suspensions, wrapper};
use super::error::{Place, PolicyError, quoted};
use super::fields::{Keys, choice, choices, exact_id, items, texts};
use super::port::{PortSettings, policy_port};
use super::yaml::{self, Entry, Kind, Node, Type};
use super::{Limits, Source};
use crate::domain::{Annotations, ApproverRule, Decision, Id, OnExpiry, Origin, RiskClass};

/// All files together, lists in the order of the files.
#[derive(Debug, Default)]
pub(super) struct Document<'s> {
    pub(super) mode: Option<(Place<'s>, Mode)>,
    pub(super) selectors: Option<(Place<'s>, Vec<RiskClass>)>,
    pub(super) always: Vec<Text<'s>>,
    pub(super) never: Vec<Text<'s>>,
    pub(super) default: Option<Decision>,
    pub(super) rules: Vec<RuleDocument<'s>>,
    pub(super) tools: Vec<PinDocument<'s>>,
    pub(super) trusted_servers: Option<Vec<Id>>,
    pub(super) wrappers: Vec<WrapperDocument<'s>>,
    pub(super) policy_port: Option<PortSettings>,
    pub(super) suspensions: SuspensionsDocument,
    /// How long a session grant holds.
    pub(super) grants: Option<Duration>,
    pub(super) limits: Limits,
}

/// Whether the rules decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// They do.
    Auto,
    /// This stands in for them.
    Always(Decision),
}

/// One of `rules`.
#[derive(Debug)]
pub(super) struct RuleDocument<'s> {
    pub(super) id: Text<'s>,
    pub(super) tools: Vec<Text<'s>>,
    pub(super) when: Option<Text<'s>>,
    pub(super) decision: Decision,
    pub(super) reason: Option<String>,
    pub(super) approval: ApprovalDocument,
    pub(super) origins: Option<Vec<Origin>>,
    pub(super) classes: Option<Vec<RiskClass>>,
    pub(super) allowlist: Vec<Text<'s>>,
    pub(super) denylist: Vec<Text<'s>>,
    pub(super) sensitive: Vec<Text<'s>>,
}

/// A rule's `approval`.
#[derive(Debug, Default)]
pub(super) struct ApprovalDocument {
    pub(super) wait: WaitDocument,
    pub(super) approvers: Option<ApproverRule>,
}

/// How long something waits, and what follows.
#[derive(Debug, Default)]
pub(super) struct WaitDocument {
    pub(super) expires: Option<Duration>,
    pub(super) on_expiry: Option<OnExpiry>,
}

/// One of `tools`: what the operator says of a tool.
#[derive(Debug)]
pub(super) struct PinDocument<'s> {
    pub(super) place: Place<'s>,
    pub(super) tool: Id,
    pub(super) server: Id,
    pub(super) annotations: Annotations,
}

/// One of `wrappers`: a tool that calls other tools, and where in its arguments it says which.
#[derive(Debug)]
pub(super) struct WrapperDocument<'s> {
    pub(super) place: Place<'s>,
    pub(super) tool: Id,
    pub(super) name: Text<'s>,
    pub(super) server: Option<Text<'s>>,
    pub(super) arguments: Option<Text<'s>>,
}

/// `suspensions`.
#[derive(Debug, Default)]
pub(super) struct SuspensionsDocument {
    pub(super) approval: WaitDocument,
    pub(super) question: WaitDocument,
    pub(super) external: WaitDocument,
    pub(super) client_tool: WaitDocument,
    pub(super) sign_in: WaitDocument,
    pub(super) retention: Option<Duration>,
    pub(super) claim_within: Option<Duration>,
    pub(super) claim_lease: Option<Duration>,
}

/// A string with its place.
#[derive(Debug)]
pub(super) struct Text<'s> {
    pub(super) value: String,
    node: Node<'s>,
}

impl<'s> Text<'s> {
    /// The text as it was written at a node that holds it.
    pub(super) fn new(value: String, node: Node<'s>) -> Self {
        Self { value, node }
    }

    pub(super) fn place(&self) -> Place<'s> {
        self.node.place
    }

    /// Whether YAML made one line of several.
    pub(super) fn is_folded(&self) -> bool {
        self.node.is_folded()
    }

    /// The place of one of its characters, as far as the source shows it.
    pub(super) fn place_of_char(&self, offset: usize) -> Place<'s> {
        self.node.place_of_char(offset)
    }
}

/// The keys whose lists concatenate over files.
const LISTS: [&str; 7] = [
    "selectors",
    "always",
    "never",
    "rules",
    "tools",
    "trusted_servers",
    "wrappers",
];
/// The keys that this version reads.
const KNOWN: [&str; 14] = [
    "version",
    "mode",
    "selectors",
    "always",
    "never",
    "default",
    "rules",
    "tools",
    "trusted_servers",
    "wrappers",
    "policy_port",
    "suspensions",
    "grants",
    "limits",
];
/// Classes as selectors write them.
pub(super) const SELECTORS: [(&str, RiskClass); 3] = [
    ("@read-only", RiskClass::ReadOnly),
    ("@write", RiskClass::Write),
    ("@destructive", RiskClass::Destructive),
];
/// What a rule, or the default, may say.
pub(super) const DECISIONS: [(&str, Decision); 3] = [
    ("allow", Decision::Allow),
    ("ask", Decision::Ask),
    ("deny", Decision::Deny),
];
/// What `mode` may say.
const MODES: [(&str, Mode); 3] = [
    ("auto", Mode::Auto),
    ("ask", Mode::Always(Decision::Ask)),
    ("deny", Mode::Always(Decision::Deny)),
];
impl<'s> Document<'s> {
    /// Reads all sources as one document.
    pub(super) fn read(sources: &'s [Source]) -> Result<Self, PolicyError> {
        let mut document = Self::default();
        let mut single: HashMap<String, Place<'s>> = HashMap::new();
        for source in sources {
            let root = yaml::read(source)?.ok_or_else(|| {
                Place::start(source)
                    .error("the document has no keys: write `version: 1` if no rule is meant")
            })?;
            let mut keys = Keys::of("the document", root, &KNOWN)?;
            for entry in keys.entries() {
                if !LISTS.contains(&entry.key.as_str())
                    && let Some(first) = single.insert(entry.key.clone(), entry.place)
                {
                    return Err(entry.place.error(format!(
                        "`{}` stands in {} too: only lists may stand in several files",
                        entry.key, first.source.name
                    )));
                }
            }
            document.add(&mut keys)?;
        }
        document.check()?;
        Ok(document)
    }

    fn add(&mut self, keys: &mut Keys<'s>) -> Result<(), PolicyError> {
        if let Some(entry) = keys.take("version") {
            version(&entry)?;
        }
        if let Some(entry) = keys.take("mode") {
            self.mode = Some((entry.value.place, choice(&entry.key, &entry.value, &MODES)?));
        }
        if let Some(entry) = keys.take("selectors") {
            let (_, selectors) = self.selectors.get_or_insert((entry.place, Vec::new()));
            selectors.extend(choices(entry, &SELECTORS)?);
        }
        if let Some(entry) = keys.take("always") {
            self.always.extend(texts(entry)?);
        }
        if let Some(entry) = keys.take("never") {
            self.never.extend(texts(entry)?);
        }
        if let Some(entry) = keys.take("default") {
            self.default = Some(choice(&entry.key, &entry.value, &DECISIONS)?);
        }
        if let Some(entry) = keys.take("rules") {
            for item in items(entry)? {
                self.rules.push(rule(item)?);
            }
        }
        if let Some(entry) = keys.take("tools") {
            for item in items(entry)? {
                self.tools.push(pin(item)?);
            }
        }
        if let Some(entry) = keys.take("trusted_servers") {
            for item in texts(entry)? {
                self.trusted_servers
                    .get_or_insert_default()
                    .push(exact_id("trusted_servers", &item)?);
            }
            self.trusted_servers.get_or_insert_default();
        }
        if let Some(entry) = keys.take("wrappers") {
            for item in items(entry)? {
                self.wrappers.push(wrapper(item)?);
            }
        }
        if let Some(entry) = keys.take("policy_port") {
            self.policy_port = Some(policy_port(entry)?);
        }
        if let Some(entry) = keys.take("suspensions") {
            self.suspensions = suspensions(entry)?;
        }
        if let Some(entry) = keys.take("grants") {
            self.grants = grants(entry)?;
        }
        if let Some(entry) = keys.take("limits") {
            self.limits = limits(entry)?;
        }
        Ok(())
    }

    /// What only the whole document shows.
    fn check(&self) -> Result<(), PolicyError> {
        if let (Some((place, Mode::Always(decision))), Some(rule)) =
            (&self.mode, self.rules.first())
        {
            let name = DECISIONS
                .iter()
                .find(|(_, d)| d == decision)
                .map_or("", |(name, _)| name);
            return Err(place.error(format!(
                "`mode: {name}` decides every call alike, so it refuses rules beside it, and there is rule {}: remove `rules`, or write `mode: auto`",
                quoted(&rule.id.value)
            )));
        }
        let mut seen: HashMap<&str, Place<'_>> = HashMap::new();
        for rule in &self.rules {
            if let Some(first) = seen.insert(&rule.id.value, rule.id.place()) {
                return Err(rule.id.place().error(format!(
                    "`id`: {} is the id of another rule, at {}: give each rule its own",
                    quoted(&rule.id.value),
                    first.describe()
                )));
            }
        }
        Ok(())
    }
}

fn version(entry: &Entry<'_>) -> Result<(), PolicyError> {
    match &entry.value.kind {
        Kind::Scalar(scalar) if scalar.type_of() == Type::Integer && scalar.text == "1" => Ok(()),
        _ => Err(entry.value.place.error(format!(
            "`version`: this version of Assent reads documents of version 1, found {}: write `version: 1`",
            entry.value.describe()
        ))),
    }
}
