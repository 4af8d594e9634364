//! The nouns every floor speaks: scopes, calls, classes, ids and times.
//!
//! A value of these types is valid: it was parsed at the edge (`grpc/convert.rs`) or read back from
//! a store that only ever held valid ones. No I/O, no clock, no wire types here.

mod duration;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use crate::arguments::Arguments;

pub use self::duration::{DurationError, parse_duration};

/// The most characters an id may have (S9).
pub const MAX_ID_CHARS: usize = 256;
/// The most bytes a title, a reason or another free text may have (S9).
pub const MAX_TEXT_BYTES: usize = 8 * 1024;
/// The most entries that roles, attributes, labels or an agent path may have (S9).
pub const MAX_ENTRIES: usize = 64;
/// The most bytes that one of those entries may have (S9).
pub const MAX_ENTRY_BYTES: usize = 1024;

/// Why a caller's text was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// A required id was empty.
    #[error("must not be empty")]
    Empty,
    /// An id past [`MAX_ID_CHARS`].
    #[error("has {0} characters, at most {MAX_ID_CHARS} are allowed")]
    TooManyChars(usize),
    /// An id with a control, format or bidirectional character.
    #[error("holds the character U+{0:04X}, control and format characters are not allowed in ids")]
    Character(u32),
    /// A text or an entry past its limit.
    #[error("has {actual} bytes, at most {limit} are allowed")]
    TooLong {
        /// Its length in bytes.
        actual: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A list or a map past [`MAX_ENTRIES`].
    #[error("has {0} entries, at most {MAX_ENTRIES} are allowed")]
    TooManyEntries(usize),
}

/// An identifier in the caller's own terms: a tenant, a tool, a session, a person.
///
/// At most 256 characters, none of them a control, format or bidirectional character. It may be empty
/// unless it was parsed with [`Id::required`]. Compared byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Id(Box<str>);

impl Id {
    /// Takes an id that may be empty.
    ///
    /// # Errors
    /// When it is too long or holds a character that people cannot see.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        check_id(text)?;
        Ok(Self(text.into()))
    }

    /// Takes an id that must not be empty.
    ///
    /// # Errors
    /// As [`Id::parse`], and when it is empty.
    pub fn required(text: &str) -> Result<Self, TextError> {
        if text.is_empty() {
            return Err(TextError::Empty);
        }
        Self::parse(text)
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the caller left it out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// As [`Id::parse`], but keeps the text instead of copying it.
impl TryFrom<String> for Id {
    type Error = TextError;

    fn try_from(text: String) -> Result<Self, TextError> {
        check_id(&text)?;
        Ok(Self(text.into_boxed_str()))
    }
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.0.into_string()
    }
}

fn check_id(text: &str) -> Result<(), TextError> {
    let chars = if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    };
    if chars > MAX_ID_CHARS {
        return Err(TextError::TooManyChars(chars));
    }
    match text.chars().find(|c| is_invisible(*c)) {
        Some(c) => Err(TextError::Character(c.into())),
        None => Ok(()),
    }
}

/// Control (Cc), format (Cf, which holds the bidirectional controls) and line or paragraph separators.
fn is_invisible(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    matches!(
        c.general_category(),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
    )
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How much harm a call can do, mildest first (S1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RiskClass {
    /// Changes nothing.
    ReadOnly,
    /// Changes something, but destroys nothing.
    Write,
    /// May destroy, or nobody said that it does not.
    Destructive,
}

impl RiskClass {
    /// The name that labels, selectors and rules use: `read-only`, `write`, `destructive`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Write => "write",
            Self::Destructive => "destructive",
        }
    }
}

impl fmt::Display for RiskClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a tool lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A function of the agent program.
    Code,
    /// An HTTP operation.
    Http,
    /// A tool of an MCP server.
    Mcp,
    /// Another agent.
    A2a,
    /// A step of a workflow.
    Workflow,
}

impl Origin {
    /// The name that rules use: `code`, `http`, `mcp`, `a2a`, `workflow`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Http => "http",
            Self::Mcp => "mcp",
            Self::A2a => "a2a",
            Self::Workflow => "workflow",
        }
    }
}

/// What a tool's author says of it, in MCP's terms (MCP 2025-06-18, `ToolAnnotations`).
///
/// `None` and `Some(false)` differ: an absent `destructive_hint` reads as true.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are MCP's, word for word")]
pub struct Annotations {
    pub read_only_hint: Option<bool>,
    pub destructive_hint: Option<bool>,
    pub idempotent_hint: Option<bool>,
    pub open_world_hint: Option<bool>,
    pub title: String,
    pub labels: Vec<String>,
}

impl Annotations {
    /// Whether nothing at all is said, which reads as no annotations.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// On whose behalf a call is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Principal {
    /// Who, in the caller's terms; empty when nobody is named.
    pub id: Id,
    /// The roles that the caller vouches for.
    pub roles: Vec<String>,
    /// Other facts that the caller vouches for.
    pub attributes: BTreeMap<String, String>,
}

/// Where in the caller's world a call happens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scope {
    /// The tenant; the empty one matches only itself.
    pub tenant: Id,
    /// On whose behalf.
    pub principal: Principal,
    /// The root session, shared by its subagents.
    pub session_id: Id,
    /// The run that makes the call.
    pub run_id: Id,
    /// The run of the same session that started this one.
    pub parent_run_id: Id,
    /// The agents from the root to the one that calls.
    pub agent_path: Vec<String>,
}

/// One tool call, or one step of a workflow, that wants to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id within its run; may be empty.
    pub call_id: Id,
    /// The workflow step's id within its run; may be empty.
    pub step_id: Id,
    /// The stable tool id, never the name that the model sees.
    pub tool: Id,
    /// The MCP server that has the tool; may be empty.
    pub server: Id,
    /// Where the tool lives, if the caller said.
    pub origin: Option<Origin>,
    /// What its author says of it, if anything.
    pub annotations: Option<Annotations>,
    /// What it is called with.
    pub arguments: Arguments,
    /// Whether a running program makes the call, which cannot be resumed into.
    pub in_program: bool,
    /// The call whose program or wrapper makes this one; may be empty.
    pub parent_call_id: Id,
    /// The wrapper call that this call was found in; none for a call that was asked about itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrapped: Option<Box<Wrapped>>,
}

impl ToolCall {
    /// The wrapper call whose target is not known for sure, in whose place this call is judged (S3 step 2).
    pub fn unresolved(&self) -> Option<&Wrapped> {
        self.wrapped.as_deref().filter(|wrapped| !wrapped.resolved)
    }
}

/// The wrapper call in whose place another call is judged (S3 step 2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrapped {
    /// The wrapper's tool id.
    pub tool: Id,
    /// The MCP server that has the wrapper; may be empty.
    pub server: Id,
    /// Whether the judged call is for sure the one that the wrapper makes. If not, it has the wrapper's
    /// whole arguments, and it is destructive and needs review.
    pub resolved: bool,
}

/// A call as a client asks about it: nobody has judged yet whether it wraps another one.
#[derive(Clone, Debug)]
pub struct AskedCall {
    /// The call that the client would make.
    pub call: ToolCall,
    /// The call that it makes in turn, if the client knows.
    pub target: Option<Box<WrapperTarget>>,
}

/// What a wrapper call calls, as the client resolved it.
#[derive(Clone, Debug)]
pub struct WrapperTarget {
    /// The stable id of the tool.
    pub tool: Id,
    /// The MCP server that has it; may be empty.
    pub server: Id,
    /// What its author says of it, if anything.
    pub annotations: Option<Annotations>,
    /// What it is called with.
    pub arguments: Arguments,
    /// Whether the client takes it for a wrapper itself.
    pub wraps: bool,
}

/// A run of an agent that wants to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStart {
    /// The version of the agent.
    pub version: Id,
}

/// What policy says (S3); ordered from the mildest, so the stricter of two is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// The call may run, as far as policy is concerned.
    Allow,
    /// A person must be asked first.
    Ask,
    /// The call is refused.
    Deny,
}

/// A moment on some clock: milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment this many milliseconds after the epoch.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    pub fn millis(self) -> i64 {
        self.0
    }

    /// The moment `duration` later, or the last one there is.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis))
    }
}

/// What an unanswered suspension does to its run (S6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnExpiry {
    /// The run is over, and its other suspensions with it.
    #[default]
    Abandon,
    /// The call does not run, the turn goes on.
    Deny,
}

/// Who may answer an approval, and how many it takes (S6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApproverRule {
    /// An answerer needs one of these; empty asks for none.
    pub roles: Vec<String>,
    /// How many different people must approve; at least 1.
    pub quorum: u32,
    /// Whether the principal that made the call is barred from answering.
    pub exclude_requester: bool,
}

impl Default for ApproverRule {
    fn default() -> Self {
        Self {
            roles: Vec::new(),
            quorum: 1,
            exclude_requester: false,
        }
    }
}

/// How a suspension that is no approval waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTerms {
    /// How long it waits for an answer.
    pub expires: Duration,
    /// What happens when none comes.
    pub on_expiry: OnExpiry,
}

/// How a prompt for approval behaves: a rule's `approval`, or the document's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalTerms {
    /// How long it waits for an answer.
    pub expires: Duration,
    /// What happens when none comes.
    pub on_expiry: OnExpiry,
    /// Who may answer.
    pub approvers: ApproverRule,
}
