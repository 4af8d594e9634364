//! How much harm a call can do (S1): claims in, a class and the claim that decided out.
//!
//! Pure. The policy floor owns the catalogue's table of tools and the list of trusted servers; here is only
//! what they mean. A decision classifies on every request, so nothing is allocated unless there is a warning.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::domain::{Annotations, Id, Origin, RiskClass, ToolCall};

/// What a call was found to be, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classification {
    /// The class.
    pub class: RiskClass,
    /// One sentence: which claim decided.
    pub basis: Cow<'static, str>,
    /// What the operator or the caller should look at: unknown labels, claims that exclude each other.
    pub warnings: Vec<String>,
}

/// What the operator's catalogue says of one call's tool; [`Pins::for_server`] finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pin<'a> {
    /// The catalogue does not name the tool.
    #[default]
    None,
    /// It holds in place of what the caller sent, and no trust rule caps it.
    Replaces(&'a Annotations),
    /// It is for another server than the call's: the stricter of it and the caller's claim holds.
    Limits(&'a Annotations),
    /// Both: `pin` is for any server and replaces the claim, `limit` is for another server than the
    /// call's, and the stricter of the two holds.
    ReplacesWithin {
        /// The pin without a server.
        pin: &'a Annotations,
        /// The strictest pin of the other servers.
        limit: &'a Annotations,
    },
}

/// How far the caller's annotations are believed; [`counts_as_mcp`] says whose are in question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// As sent.
    #[default]
    AsSent,
    /// They cannot lower the class below write (MCP: annotations are untrusted unless the server is trusted).
    Untrusted,
}

/// Classifies a call by its own annotations, the catalogue and the trust in its server.
///
/// No annotations, or an empty message, is a write.
pub fn classify(annotations: Option<&Annotations>, pin: Pin<'_>, trust: Trust) -> Classification {
    judge(
        annotations,
        pin,
        trust,
        Claim::new(RiskClass::Write, Why::Unannotated),
    )
}

/// Classifies the call that a wrapper call names (S3), by the annotations of the target.
///
/// As [`classify`], but no annotations, or an empty message, is destructive.
pub fn classify_target(
    annotations: Option<&Annotations>,
    pin: Pin<'_>,
    trust: Trust,
) -> Classification {
    judge(
        annotations,
        pin,
        trust,
        Claim::new(RiskClass::Destructive, Why::SilentTarget),
    )
}

/// Classifies a wrapper call whose target is not known for sure (S3): whatever anybody says of it, it is
/// destructive.
pub fn classify_unresolved() -> Classification {
    Classification {
        class: RiskClass::Destructive,
        basis: Cow::Borrowed(
            "it is not known for sure which tool is called with which arguments, so it counts as destructive",
        ),
        warnings: Vec::new(),
    }
}

/// Whether a call's annotations are those of an MCP server, so that `trusted_servers` governs them: it has a
/// server, or comes from MCP, or says no origin. The target of a wrapper says none: its origin is the wrapper's.
pub fn counts_as_mcp(call: &ToolCall) -> bool {
    call.wrapped.is_some()
        || !call.server.is_empty()
        || matches!(call.origin, None | Some(Origin::Mcp))
}

/// All that the catalogue says of one tool id.
///
/// A pin with the call's server replaces the claim. For every other call a pin without server replaces it, and
/// then the strictest of the pins with a server limits the result, so that leaving the server out, or naming
/// one that is not pinned, never buys a milder class than any pinned server has. An operator who wants that
/// milder class for one more server pins that server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    any_server: Option<Annotations>,
    by_server: BTreeMap<Id, Annotations>,
    strictest: Option<Annotations>,
}

impl Pins {
    /// Adds a pin; an empty `server` is a pin without one. Gives false, and changes nothing, when that server
    /// (or the absence of one) is pinned already, which fails the load.
    #[must_use]
    pub fn add(&mut self, server: Id, annotations: Annotations) -> bool {
        if server.is_empty() {
            let free = self.any_server.is_none();
            if free {
                self.any_server = Some(annotations);
            }
            return free;
        }
        if self.by_server.contains_key(&server) {
            return false;
        }
        // Whoever has a pin of its own is never limited, so the limit is the same for all the others.
        if self
            .strictest
            .as_ref()
            .is_none_or(|most| strictness(most) < strictness(&annotations))
        {
            self.strictest = Some(annotations.clone());
        }
        self.by_server.insert(server, annotations);
        true
    }

    /// What holds for a call of this tool id from `server`, which may be empty.
    pub fn for_server(&self, server: &Id) -> Pin<'_> {
        if let Some(pin) = self.by_server.get(server) {
            return Pin::Replaces(pin);
        }
        match (&self.any_server, &self.strictest) {
            (None, None) => Pin::None,
            (Some(pin), None) => Pin::Replaces(pin),
            (None, Some(limit)) => Pin::Limits(limit),
            (Some(pin), Some(limit)) => Pin::ReplacesWithin { pin, limit },
        }
    }
}

/// Orders pins by what they make of a call, and an empty one, which is stricter on a wrapper's target, before
/// the others that make it a write.
fn strictness(pin: &Annotations) -> (RiskClass, RiskClass) {
    let class = classify(Some(pin), Pin::None, Trust::AsSent).class;
    let target = classify_target(Some(pin), Pin::None, Trust::AsSent).class;
    (class, target)
}

/// Unknown labels named in warnings; the rest are counted, so that a hostile call cannot fill a reply.
const MAX_LABEL_WARNINGS: usize = 8;
/// Characters of a label that a text quotes.
const MAX_QUOTED_CHARS: usize = 64;

/// A class, and the one claim that gave it.
#[derive(Clone, Copy)]
struct Claim<'a> {
    class: RiskClass,
    why: Why<'a>,
}

#[derive(Clone, Copy)]
enum Why<'a> {
    Unannotated,
    SilentTarget,
    ReadOnlyHint,
    ContraryHints,
    DestructiveHint,
    NotDestructive,
    NotReadOnly,
    NoDecisiveHint,
    ReadOnlyLabel,
    WriteLabel,
    DestructiveLabel,
    UnknownLabel(&'a str),
    Untrusted,
}

/// Who made a claim.
#[derive(Clone, Copy)]
enum Source {
    Caller,
    Catalogue,
    OtherServersPin,
}

fn judge<'a>(
    annotations: Option<&'a Annotations>,
    pin: Pin<'a>,
    trust: Trust,
    silent: Claim<'static>,
) -> Classification {
    let (replacement, limit) = match pin {
        Pin::None => (None, None),
        Pin::Replaces(pin) => (Some(pin), None),
        Pin::Limits(limit) => (None, Some(limit)),
        Pin::ReplacesWithin { pin, limit } => (Some(pin), Some(limit)),
    };
    let mut warnings = Vec::new();
    let (mut claim, mut source) = match replacement {
        Some(pin) => (
            read(pin, Source::Catalogue, &mut warnings).unwrap_or(silent),
            Source::Catalogue,
        ),
        None => {
            let sent = annotations.and_then(|sent| read(sent, Source::Caller, &mut warnings));
            (believed(sent.unwrap_or(silent), trust), Source::Caller)
        }
    };
    if let Some(limit) = limit {
        let limit = read(limit, Source::OtherServersPin, &mut warnings).unwrap_or(silent);
        if limit.class > claim.class {
            (claim, source) = (limit, Source::OtherServersPin);
        }
    }
    Classification {
        class: claim.class,
        basis: claim.basis(source),
        warnings,
    }
}

/// The strictest claim of one set of annotations; none when it says nothing.
fn read<'a>(
    annotations: &'a Annotations,
    source: Source,
    warnings: &mut Vec<String>,
) -> Option<Claim<'a>> {
    let hints = hints_claim(annotations);
    if let Some(Claim {
        why: Why::ContraryHints,
        ..
    }) = hints
    {
        warnings.push(format!(
            "{}readOnlyHint and destructiveHint are both true, so it counts as destructive",
            source.prefix()
        ));
    }
    if annotations.labels.is_empty() {
        return hints;
    }
    warn_of_unknown(&annotations.labels, source, warnings);
    match (hints, labels_claim(&annotations.labels)) {
        (Some(hints), Some(labels)) => Some(hints.or_stricter(labels)),
        (hints, labels) => hints.or(labels),
    }
}

/// S1's table of hints. A title speaks only where there is no label.
fn hints_claim(annotations: &Annotations) -> Option<Claim<'static>> {
    let Annotations {
        read_only_hint,
        destructive_hint,
        idempotent_hint,
        open_world_hint,
        title,
        labels,
    } = annotations;
    let (class, why) = match (read_only_hint, destructive_hint) {
        (Some(true), Some(true)) => (RiskClass::Destructive, Why::ContraryHints),
        (Some(true), Some(false) | None) => (RiskClass::ReadOnly, Why::ReadOnlyHint),
        (Some(false) | None, Some(true)) => (RiskClass::Destructive, Why::DestructiveHint),
        (Some(false) | None, Some(false)) => (RiskClass::Write, Why::NotDestructive),
        (Some(false), None) => (RiskClass::Destructive, Why::NotReadOnly),
        (None, None) => {
            let titled = !title.is_empty() && labels.is_empty();
            if !titled && idempotent_hint.is_none() && open_world_hint.is_none() {
                return None;
            }
            (RiskClass::Destructive, Why::NoDecisiveHint)
        }
    };
    Some(Claim::new(class, why))
}

/// The strictest label.
fn labels_claim(labels: &[String]) -> Option<Claim<'_>> {
    labels
        .iter()
        .map(|label| label_claim(label))
        .reduce(Claim::or_stricter)
}

/// Labels are compared lower-case and not trimmed. No character beyond ASCII has one of their letters as its
/// lower case, so the comparison that allocates nothing is the same comparison.
fn label_claim(label: &str) -> Claim<'_> {
    let is = |class: RiskClass| label.eq_ignore_ascii_case(class.name());
    if is(RiskClass::ReadOnly) {
        Claim::new(RiskClass::ReadOnly, Why::ReadOnlyLabel)
    } else if is(RiskClass::Write) {
        Claim::new(RiskClass::Write, Why::WriteLabel)
    } else if is(RiskClass::Destructive) {
        Claim::new(RiskClass::Destructive, Why::DestructiveLabel)
    } else {
        Claim::new(RiskClass::Destructive, Why::UnknownLabel(label))
    }
}

fn warn_of_unknown(labels: &[String], source: Source, warnings: &mut Vec<String>) {
    let mut unknown = labels
        .iter()
        .filter(|label| matches!(label_claim(label).why, Why::UnknownLabel(_)));
    for label in unknown.by_ref().take(MAX_LABEL_WARNINGS) {
        warnings.push(format!(
            "{}unknown label `{}`, so it counts as destructive; \
             the labels are `read-only`, `write` and `destructive`",
            source.prefix(),
            quoted(label)
        ));
    }
    let more = unknown.count();
    if more > 0 {
        warnings.push(format!("{}{more} more unknown labels", source.prefix()));
    }
}

/// A label fit for a terminal and a log line: invisible characters escaped, its end cut.
fn quoted(label: &str) -> String {
    let mut text: String = label
        .chars()
        .take(MAX_QUOTED_CHARS)
        .flat_map(char::escape_debug)
        .collect();
    if label.chars().nth(MAX_QUOTED_CHARS).is_some() {
        text.push('…');
    }
    text
}

/// What is left of a caller's claim when its server is not trusted.
fn believed(claim: Claim<'_>, trust: Trust) -> Claim<'_> {
    match trust {
        Trust::Untrusted if claim.class < RiskClass::Write => {
            Claim::new(RiskClass::Write, Why::Untrusted)
        }
        Trust::AsSent | Trust::Untrusted => claim,
    }
}

macro_rules! catalogue {
    ($claim:literal) => {
        concat!("the catalogue's pin: ", $claim)
    };
}

macro_rules! other_servers_pin {
    ($claim:literal) => {
        concat!("the catalogue's pin for another server: ", $claim)
    };
}

impl Source {
    fn prefix(self) -> &'static str {
        match self {
            Self::Caller => "",
            Self::Catalogue => catalogue!(""),
            Self::OtherServersPin => other_servers_pin!(""),
        }
    }
}

impl<'a> Claim<'a> {
    fn new(class: RiskClass, why: Why<'a>) -> Self {
        Self { class, why }
    }

    /// The stricter of the two, and of two alike the first.
    fn or_stricter(self, other: Self) -> Self {
        if other.class > self.class {
            other
        } else {
            self
        }
    }

    fn basis(self, source: Source) -> Cow<'static, str> {
        // Each sentence exists once per source, so that none is put together while a call waits.
        macro_rules! said {
            ($claim:literal) => {
                match source {
                    Source::Caller => $claim,
                    Source::Catalogue => catalogue!($claim),
                    Source::OtherServersPin => other_servers_pin!($claim),
                }
            };
        }
        Cow::Borrowed(match self.why {
            Why::Unannotated => said!("no annotations, so it counts as a write"),
            Why::SilentTarget => {
                said!("no annotations for the wrapped tool, so it counts as destructive")
            }
            Why::ReadOnlyHint => said!("readOnlyHint is true and destructiveHint is not"),
            Why::ContraryHints => said!("readOnlyHint and destructiveHint are both true"),
            Why::DestructiveHint => said!("destructiveHint is true"),
            Why::NotDestructive => said!("destructiveHint is false and readOnlyHint is not true"),
            Why::NotReadOnly => {
                said!("readOnlyHint is false, and an absent destructiveHint means true")
            }
            Why::NoDecisiveHint => {
                said!("no readOnlyHint, and an absent destructiveHint means true")
            }
            Why::ReadOnlyLabel => said!("label `read-only`"),
            Why::WriteLabel => said!("label `write`"),
            Why::DestructiveLabel => said!("label `destructive`"),
            Why::UnknownLabel(label) => {
                let (prefix, label) = (source.prefix(), quoted(label));
                return format!("{prefix}unknown label `{label}`, so it counts as destructive")
                    .into();
            }
            Why::Untrusted => {
                said!("its server is not trusted, so its claim to be read-only counts as a write")
            }
        })
    }
}

#[cfg(test)]
mod tests;
