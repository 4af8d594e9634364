//! The parts of the document that have keys of their own: rules, approvals, the catalogue, wrappers, suspensions
//! and limits.

use std::time::Duration;

use super::{
    ApprovalDocument, DECISIONS, PinDocument, RuleDocument, SuspensionsDocument, Text,
    WaitDocument, WrapperDocument,
};
use crate::domain::{
    Annotations, ApproverRule, Id, MAX_ENTRIES, MAX_ENTRY_BYTES, MAX_TEXT_BYTES, OnExpiry, Origin,
    RiskClass,
};
use crate::policy::Limits;
use crate::policy::error::{Place, PolicyError, listed, quoted, suggestion};
use crate::policy::fields::{
    Keys, boolean, choice, choices, count, duration, exact_id, id, short_text, text, texts,
};
use crate::policy::yaml::{Entry, Node};

/// Classes as rules and labels write them.
pub(in crate::policy) const CLASSES: [(&str, RiskClass); 3] = [
    ("read-only", RiskClass::ReadOnly),
    ("write", RiskClass::Write),
    ("destructive", RiskClass::Destructive),
];
/// Origins as rules write them.
pub(in crate::policy) const ORIGINS: [(&str, Origin); 5] = [
    ("code", Origin::Code),
    ("http", Origin::Http),
    ("mcp", Origin::Mcp),
    ("a2a", Origin::A2a),
    ("workflow", Origin::Workflow),
];
/// What a prompt that nobody answers may do.
const ON_EXPIRY: [(&str, OnExpiry); 2] = [("abandon", OnExpiry::Abandon), ("deny", OnExpiry::Deny)];
/// What a decision calls its rule when it was no rule.
const RESERVED_RULE_IDS: [&str; 3] = ["default", "mode", "policy_port"];

/// The most bytes of arguments or of a payload that `limits` may allow: a whole suspension holds at most 2 MiB (S9).
const MAX_LIMIT_BYTES: u64 = 1024 * 1024;

/// One of `rules`.
pub(super) fn rule<'s>(node: Node<'s>) -> Result<RuleDocument<'s>, PolicyError> {
    let known = [
        "id",
        "tools",
        "when",
        "decision",
        "reason",
        "approval",
        "origins",
        "classes",
        "allowlist",
        "denylist",
        "sensitive",
    ];
    let mut keys = Keys::of("a rule", node, &known)?;
    let rule_id = text(keys.require("id")?)?;
    id("id", &rule_id)?;
    if RESERVED_RULE_IDS.contains(&rule_id.value.as_str()) {
        return Err(rule_id.place().error(format!(
            "`id`: {} is what a decision says when no rule decided: give the rule another id",
            quoted(&rule_id.value)
        )));
    }
    let tools = keys.require("tools")?;
    let tools = (tools.place, texts(tools)?);
    let mut list = |key| {
        keys.take(key)
            .map(texts)
            .transpose()
            .map(Option::unwrap_or_default)
    };
    let (allowlist, denylist, sensitive) =
        (list("allowlist")?, list("denylist")?, list("sensitive")?);
    Ok(RuleDocument {
        tools: not_empty("tools", tools)?,
        when: keys.take("when").map(text).transpose()?,
        decision: {
            let entry = keys.require("decision")?;
            choice(&entry.key, &entry.value, &DECISIONS)?
        },
        reason: keys
            .take("reason")
            .map(|entry| short_text(entry, MAX_TEXT_BYTES))
            .transpose()?,
        approval: keys
            .take("approval")
            .map(approval)
            .transpose()?
            .unwrap_or_default(),
        origins: keys
            .take("origins")
            .map(|entry| not_empty("origins", (entry.place, choices(entry, &ORIGINS)?)))
            .transpose()?,
        classes: keys
            .take("classes")
            .map(|entry| not_empty("classes", (entry.place, choices(entry, &CLASSES)?)))
            .transpose()?,
        allowlist,
        denylist,
        sensitive,
        id: rule_id,
    })
}

fn not_empty<T>(key: &str, (place, list): (Place<'_>, Vec<T>)) -> Result<Vec<T>, PolicyError> {
    if list.is_empty() {
        return Err(place.error(format!(
            "`{key}` is empty, so the rule could never match: name at least one"
        )));
    }
    Ok(list)
}

/// A rule's `approval`.
fn approval(entry: Entry<'_>) -> Result<ApprovalDocument, PolicyError> {
    let known = ["expires", "on_expiry", "approvers"];
    let mut keys = Keys::of("`approval`", entry.value, &known)?;
    Ok(ApprovalDocument {
        wait: wait_keys(&mut keys)?,
        approvers: keys.take("approvers").map(approvers).transpose()?,
    })
}

/// How one kind of suspension waits.
fn wait(what: &'static str, entry: Entry<'_>) -> Result<WaitDocument, PolicyError> {
    let mut keys = Keys::of(what, entry.value, &["expires", "on_expiry"])?;
    wait_keys(&mut keys)
}

fn wait_keys(keys: &mut Keys<'_>) -> Result<WaitDocument, PolicyError> {
    Ok(WaitDocument {
        expires: keys.take("expires").map(duration).transpose()?,
        on_expiry: keys
            .take("on_expiry")
            .map(|e| choice(&e.key, &e.value, &ON_EXPIRY))
            .transpose()?,
    })
}

fn approvers(entry: Entry<'_>) -> Result<ApproverRule, PolicyError> {
    let mut keys = Keys::of(
        "`approvers`",
        entry.value,
        &["roles", "quorum", "exclude_requester"],
    )?;
    let mut rule = ApproverRule::default();
    if let Some(entry) = keys.take("roles") {
        let place = entry.place;
        let roles = texts(entry)?;
        if roles.is_empty() {
            return Err(place.error(
                "`roles` is empty, which could mean anybody or nobody: name at least one, or leave the key out for anybody",
            ));
        }
        for role in roles {
            if role.value.is_empty() || role.value.len() > MAX_ENTRY_BYTES {
                return Err(role.place().error(format!(
                    "`roles`: {} must have 1 to {MAX_ENTRY_BYTES} bytes",
                    quoted(&role.value)
                )));
            }
            rule.roles.push(role.value);
        }
        if rule.roles.len() > MAX_ENTRIES {
            return Err(place.error(format!(
                "`roles` has {} entries, at most {MAX_ENTRIES} are allowed",
                rule.roles.len()
            )));
        }
    }
    if let Some(entry) = keys.take("quorum") {
        rule.quorum = u32::try_from(count(&entry, 1, 1000)?).unwrap_or(u32::MAX);
    }
    if let Some(entry) = keys.take("exclude_requester") {
        rule.exclude_requester = boolean(&entry)?;
    }
    Ok(rule)
}

/// One of `tools`.
pub(super) fn pin<'s>(node: Node<'s>) -> Result<PinDocument<'s>, PolicyError> {
    let mut keys = Keys::of(
        "a tool of the catalogue",
        node,
        &["tool", "server", "annotations"],
    )?;
    let tool = text(keys.require("tool")?)?;
    Ok(PinDocument {
        place: tool.place(),
        tool: exact_id("tool", &tool)?,
        server: match keys.take("server") {
            Some(entry) => exact_id("server", &text(entry)?)?,
            None => Id::default(),
        },
        annotations: annotations(keys.require("annotations")?)?,
    })
}

/// The operator's annotations: as MCP spells them, and labels that are known.
fn annotations(entry: Entry<'_>) -> Result<Annotations, PolicyError> {
    read_annotations(entry, |label| {
        let names: Vec<&str> = CLASSES.iter().map(|(name, _)| *name).collect();
        if names.contains(&label.value.to_lowercase().as_str()) {
            return Ok(());
        }
        // A caller's unknown label makes a call destructive; the operator's is a typo that can be put right.
        Err(label.place().error(format!(
            "`labels`: {} is no label, expected {}{}",
            quoted(&label.value),
            listed(&names),
            suggestion(&label.value, &names)
        )))
    })
}

/// The annotations of a call, which may have any labels.
pub(in crate::policy) fn call_annotations(entry: Entry<'_>) -> Result<Annotations, PolicyError> {
    read_annotations(entry, |_| Ok(()))
}

fn read_annotations(
    entry: Entry<'_>,
    check_label: impl Fn(&Text<'_>) -> Result<(), PolicyError>,
) -> Result<Annotations, PolicyError> {
    let known = [
        "readOnlyHint",
        "destructiveHint",
        "idempotentHint",
        "openWorldHint",
        "title",
        "labels",
    ];
    let mut keys = Keys::of("`annotations`", entry.value, &known)?;
    let mut hint = |key| keys.take(key).map(|entry| boolean(&entry)).transpose();
    let mut annotations = Annotations {
        read_only_hint: hint("readOnlyHint")?,
        destructive_hint: hint("destructiveHint")?,
        idempotent_hint: hint("idempotentHint")?,
        open_world_hint: hint("openWorldHint")?,
        ..Annotations::default()
    };
    if let Some(entry) = keys.take("title") {
        annotations.title = short_text(entry, MAX_TEXT_BYTES)?;
    }
    if let Some(entry) = keys.take("labels") {
        for label in texts(entry)? {
            check_label(&label)?;
            annotations.labels.push(label.value);
        }
    }
    Ok(annotations)
}

/// One of `wrappers`.
pub(super) fn wrapper<'s>(node: Node<'s>) -> Result<WrapperDocument<'s>, PolicyError> {
    let known = ["tool", "name", "server", "arguments"];
    let mut keys = Keys::of("a wrapper", node, &known)?;
    let tool = text(keys.require("tool")?)?;
    let mut pointer = |key| keys.take(key).map(text).transpose();
    Ok(WrapperDocument {
        server: pointer("server")?,
        arguments: pointer("arguments")?,
        name: text(keys.require("name")?)?,
        place: tool.place(),
        tool: exact_id("tool", &tool)?,
    })
}

/// `suspensions`.
pub(super) fn suspensions(entry: Entry<'_>) -> Result<SuspensionsDocument, PolicyError> {
    let known = [
        "approval",
        "question",
        "external",
        "client_tool",
        "sign_in",
        "retention",
        "claim_within",
        "claim_lease",
    ];
    let mut keys = Keys::of("`suspensions`", entry.value, &known)?;
    let mut kind = |key, what| match keys.take(key) {
        Some(entry) => wait(what, entry),
        None => Ok(WaitDocument::default()),
    };
    let approval = kind("approval", "`approval`")?;
    let question = kind("question", "`question`")?;
    let external = kind("external", "`external`")?;
    let client_tool = kind("client_tool", "`client_tool`")?;
    let sign_in = kind("sign_in", "`sign_in`")?;
    let mut time = |key| keys.take(key).map(duration).transpose();
    Ok(SuspensionsDocument {
        approval,
        question,
        external,
        client_tool,
        sign_in,
        retention: time("retention")?,
        claim_within: time("claim_within")?,
        claim_lease: time("claim_lease")?,
    })
}

/// `grants`: how long one holds.
pub(super) fn grants(entry: Entry<'_>) -> Result<Option<Duration>, PolicyError> {
    let mut keys = Keys::of("`grants`", entry.value, &["expires"])?;
    keys.take("expires").map(duration).transpose()
}

/// `limits`.
pub(super) fn limits(entry: Entry<'_>) -> Result<Limits, PolicyError> {
    let known = [
        "max_arguments_bytes",
        "max_payload_bytes",
        "pending_per_session",
        "pending_per_tenant",
    ];
    let mut keys = Keys::of("`limits`", entry.value, &known)?;
    let mut limits = Limits::default();
    for (key, bytes) in [
        ("max_arguments_bytes", &mut limits.max_arguments_bytes),
        ("max_payload_bytes", &mut limits.max_payload_bytes),
    ] {
        if let Some(entry) = keys.take(key) {
            *bytes = usize::try_from(count(&entry, 2, MAX_LIMIT_BYTES)?).unwrap_or(usize::MAX);
        }
    }
    for (key, pending) in [
        ("pending_per_session", &mut limits.pending_per_session),
        ("pending_per_tenant", &mut limits.pending_per_tenant),
    ] {
        if let Some(entry) = keys.take(key) {
            *pending = count(&entry, 1, 1_000_000_000)?;
        }
    }
    Ok(limits)
}
