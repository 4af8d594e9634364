//! Test cases of a policy as they are written: which call, and what must come of it. For `assent test`.
//!
//! Read as a policy document is: everything has a place, and what is not known is refused, as a misspelt expectation
//! would be one that always holds. Whether the call itself may be asked about is said when it is.
//!
//! ```yaml
//! policy: refund.yaml
//! cases:
//!   - name: a large refund waits for a manager
//!     principal: {id: clerk-7, roles: [refunds]}
//!     call: {tool: client.issue_refund, args: {cents: 420000}}
//!     expect: {effect: suspend, rule: big-refund}
//! ```

use chrono::DateTime;

use super::Source;
use super::document::{CLASSES, DECISIONS, ORIGINS, call_annotations};
use super::error::{Place, PolicyError, quoted};
use super::fields::{Keys, boolean, choice, items, text, texts};
use super::yaml::{self, Entry, Kind, Node, Scalar, Type};
use crate::domain::{Annotations, Decision, Origin, Timestamp};

/// The cases of one file; there is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestFile {
    /// The policy that is tested, as it is named: relative to the file.
    pub policy: Option<String>,
    /// The cases, in order.
    pub cases: Vec<Case>,
}

/// One case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What it shows; no other case of the file has it.
    pub name: String,
    /// The line where it starts.
    pub line: u32,
    /// Where the call is made, and on whose behalf.
    pub scope: CaseScope,
    /// The call.
    pub call: CaseCall,
    /// When; without it, now.
    pub now: Option<Timestamp>,
    /// What the policy port answers; without it, the port cannot be reached.
    pub port: Option<Decision>,
    /// What must come of it; there is at least the effect.
    pub expect: Vec<Expectation>,
}

/// Where a call is made, in the words of conditions: `scope` and `principal`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the contract's Scope")]
pub struct CaseScope {
    pub tenant: String,
    pub session: String,
    pub run: String,
    pub agent_path: Vec<String>,
    pub principal: String,
    pub roles: Vec<String>,
    pub attributes: Vec<(String, String)>,
}

/// A call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields are those of the contract's ToolCall"
)]
pub struct CaseCall {
    pub tool: String,
    pub server: String,
    pub origin: Option<Origin>,
    pub annotations: Option<Annotations>,
    /// The JSON text; numbers are spelt as they were written.
    pub arguments_json: String,
    pub in_program: bool,
    pub target: Option<Box<CaseCall>>,
}

/// What must come of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// Of what.
    pub field: Field,
    /// What it must be; for a reason, what it must contain.
    pub value: String,
}

/// What of a decision can be expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the names are those of the contract's DecideResponse"
)]
pub enum Field {
    Effect,
    Rule,
    Class,
    Reason,
    SelectedBy,
    Kind,
    JudgedTool,
}

impl Field {
    const ALL: [Self; 7] = [
        Self::Effect,
        Self::Rule,
        Self::Class,
        Self::Reason,
        Self::SelectedBy,
        Self::Kind,
        Self::JudgedTool,
    ];

    /// The key of `expect`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Effect => "effect",
            Self::Rule => "rule",
            Self::Class => "class",
            Self::Reason => "reason",
            Self::SelectedBy => "selected_by",
            Self::Kind => "kind",
            Self::JudgedTool => "judged_tool",
        }
    }
}

const EFFECTS: [(&str, &str); 3] = [("allow", "allow"), ("deny", "deny"), ("suspend", "suspend")];

impl TestFile {
    /// Reads the cases of a file.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place. A file without a case is: it would pass whatever the policy says.
    pub fn read(source: &Source) -> Result<Self, PolicyError> {
        let empty = || Place::start(source).error("the file has no case: write one under `cases`");
        let root = yaml::read(source)?.ok_or_else(empty)?;
        let mut keys = Keys::of("a test file", root, &["policy", "cases"])?;
        let policy = keys.take("policy").map(text).transpose()?;
        let mut cases: Vec<Case> = Vec::new();
        for item in items(keys.require("cases")?)? {
            let place = item.place;
            let case = case(item)?;
            if let Some(first) = cases.iter().find(|other| other.name == case.name) {
                return Err(place.error(format!(
                    "`name`: {} is the name of the case in line {} too: give each its own",
                    quoted(&case.name),
                    first.line
                )));
            }
            cases.push(case);
        }
        if cases.is_empty() {
            return Err(empty());
        }
        let policy = policy.map(|policy| policy.value);
        Ok(Self { policy, cases })
    }
}

fn case(node: Node<'_>) -> Result<Case, PolicyError> {
    let place = node.place;
    let known = [
        "name",
        "scope",
        "principal",
        "call",
        "now",
        "port",
        "expect",
    ];
    let mut keys = Keys::of("a case", node, &known)?;
    let name = text(keys.require("name")?)?;
    let mut scope = CaseScope::default();
    if let Some(entry) = keys.take("scope") {
        read_scope(&mut scope, entry)?;
    }
    if let Some(entry) = keys.take("principal") {
        read_principal(&mut scope, entry)?;
    }
    Ok(Case {
        name: name.value,
        line: place.line,
        scope,
        call: call("`call`", keys.require("call")?.value, true)?,
        now: keys.take("now").map(moment).transpose()?,
        port: match keys.take("port") {
            Some(entry) => Some(choice(&entry.key, &entry.value, &DECISIONS)?),
            None => None,
        },
        expect: expectations(keys.require("expect")?)?,
    })
}

fn read_scope(scope: &mut CaseScope, entry: Entry<'_>) -> Result<(), PolicyError> {
    let known = ["tenant", "session", "run", "agent_path"];
    let mut keys = Keys::of("`scope`", entry.value, &known)?;
    for (key, field) in [
        ("tenant", &mut scope.tenant),
        ("session", &mut scope.session),
        ("run", &mut scope.run),
    ] {
        if let Some(entry) = keys.take(key) {
            *field = text(entry)?.value;
        }
    }
    scope.agent_path = list(keys.take("agent_path"))?;
    Ok(())
}

fn read_principal(scope: &mut CaseScope, entry: Entry<'_>) -> Result<(), PolicyError> {
    let mut keys = Keys::of("`principal`", entry.value, &["id", "roles", "attributes"])?;
    if let Some(entry) = keys.take("id") {
        scope.principal = text(entry)?.value;
    }
    scope.roles = list(keys.take("roles"))?;
    if let Some(entry) = keys.take("attributes") {
        let found = entry.value.describe();
        let Kind::Map(attributes) = entry.value.kind else {
            return Err(entry.value.place.error(format!(
                "`attributes`: expected keys with values, found {found}"
            )));
        };
        for attribute in attributes {
            let key = attribute.key.clone();
            scope.attributes.push((key, text(attribute)?.value));
        }
    }
    Ok(())
}

fn list(entry: Option<Entry<'_>>) -> Result<Vec<String>, PolicyError> {
    let texts = entry.map(texts).transpose()?.unwrap_or_default();
    Ok(texts.into_iter().map(|text| text.value).collect())
}

/// A call, or the `target` of one: only a call itself says where it comes from.
fn call(what: &'static str, node: Node<'_>, whole: bool) -> Result<CaseCall, PolicyError> {
    let known: &[&str] = if whole {
        &[
            "tool",
            "server",
            "origin",
            "annotations",
            "args",
            "args_json",
            "in_program",
            "target",
        ]
    } else {
        &["tool", "server", "annotations", "args", "args_json"]
    };
    let mut keys = Keys::of(what, node, known)?;
    let mut call = CaseCall {
        tool: text(keys.require("tool")?)?.value,
        ..CaseCall::default()
    };
    if let Some(entry) = keys.take("server") {
        call.server = text(entry)?.value;
    }
    if let Some(entry) = keys.take("origin") {
        call.origin = Some(choice(&entry.key, &entry.value, &ORIGINS)?);
    }
    call.annotations = keys.take("annotations").map(call_annotations).transpose()?;
    let args = keys.take("args");
    if let Some(json) = keys.take("args_json") {
        if args.is_some() {
            return Err(json
                .place
                .error("`args_json` stands beside `args`: write one of the two"));
        }
        call.arguments_json = text(json)?.value;
    } else if let Some(entry) = args {
        if !matches!(entry.value.kind, Kind::Map(_)) {
            return Err(entry.value.place.error(format!(
                "`args`: expected keys with values, found {}: arguments are one object",
                entry.value.describe()
            )));
        }
        write_json(&entry.value, &mut call.arguments_json)?;
    }
    if let Some(entry) = keys.take("in_program") {
        call.in_program = boolean(&entry)?;
    }
    if let Some(entry) = keys.take("target") {
        call.target = Some(Box::new(self::call("`target`", entry.value, false)?));
    }
    Ok(call)
}

fn moment(entry: Entry<'_>) -> Result<Timestamp, PolicyError> {
    let text = text(entry)?;
    let read = DateTime::parse_from_rfc3339(&text.value).map_err(|_| {
        text.place().error(format!(
            "`now`: {} is no moment: write it as in `2026-01-02T10:00:00Z`",
            quoted(&text.value)
        ))
    })?;
    Ok(Timestamp::from_millis(read.timestamp_millis()))
}

fn expectations(entry: Entry<'_>) -> Result<Vec<Expectation>, PolicyError> {
    let known = Field::ALL.map(Field::name);
    let mut keys = Keys::of("`expect`", entry.value, &known)?;
    let mut expectations = Vec::new();
    for field in Field::ALL {
        let entry = match field {
            Field::Effect => Some(keys.require(field.name())?),
            Field::Rule
            | Field::Class
            | Field::Reason
            | Field::SelectedBy
            | Field::Kind
            | Field::JudgedTool => keys.take(field.name()),
        };
        let Some(entry) = entry else {
            continue;
        };
        let value = match field {
            Field::Effect => choice(&entry.key, &entry.value, &EFFECTS)?.to_owned(),
            Field::Class => choice(&entry.key, &entry.value, &CLASSES)?
                .name()
                .to_owned(),
            Field::Reason => {
                let text = text(entry)?;
                if text.value.is_empty() {
                    return Err(text
                        .place()
                        .error("`reason` is empty, and every reason contains that: remove it"));
                }
                text.value
            }
            Field::Rule | Field::SelectedBy | Field::Kind | Field::JudgedTool => text(entry)?.value,
        };
        expectations.push(Expectation { field, value });
    }
    Ok(expectations)
}

/// Writes a value as JSON. Numbers are spelt as they are in the file, so that `1.50` and 9007199254740993 stay themselves.
fn write_json(node: &Node<'_>, json: &mut String) -> Result<(), PolicyError> {
    match &node.kind {
        Kind::List(items) => {
            json.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    json.push(',');
                }
                write_json(item, json)?;
            }
            json.push(']');
        }
        Kind::Map(entries) => {
            json.push('{');
            for (position, entry) in entries.iter().enumerate() {
                if position > 0 {
                    json.push(',');
                }
                json.push_str(&serde_json::Value::from(entry.key.as_str()).to_string());
                json.push(':');
                write_json(&entry.value, json)?;
            }
            json.push('}');
        }
        Kind::Scalar(scalar) => write_scalar(node, scalar, json)?,
    }
    Ok(())
}

fn write_scalar(
    node: &Node<'_>,
    scalar: &Scalar<'_>,
    json: &mut String,
) -> Result<(), PolicyError> {
    match scalar.type_of() {
        Type::Null => json.push_str("null"),
        Type::Boolean(value) => json.push_str(if value { "true" } else { "false" }),
        Type::Integer | Type::Float if is_json_number(&scalar.text) => {
            json.push_str(&scalar.text);
        }
        Type::Integer | Type::Float => {
            return Err(node.place.error(format!(
                "`args`: {} is no number of JSON: write it in digits, or in quotes if it is a text",
                quoted(&scalar.text)
            )));
        }
        Type::String => {
            json.push_str(&serde_json::Value::from(scalar.text.as_str()).to_string());
        }
    }
    Ok(())
}

/// RFC 8259, section 6.
fn is_json_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let exponent = exponent.map(|text| text.strip_prefix(['+', '-']).unwrap_or(text));
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(digits)
}

#[cfg(test)]
mod tests;
