//! What is allowed in a policy document and yet is hardly meant: for `assent check`, and for the log.
//!
//! Pure. Each lint has a name and a place. A lint must not cry wolf: where it cannot be sure, it says nothing.

mod calls;
mod patterns;
mod reach;
mod terms;

use std::fmt;

pub(super) use self::patterns::unmatched;
use super::Source;
use super::document::{Document, Mode, RuleDocument, Text};
use super::error::{Place, PolicyError, printable};
use super::pattern::Glob;
use super::tool_list::tool_pattern;
use crate::classify::{Pin, Trust, classify};
use crate::domain::{Annotations, RiskClass};

/// Something in a usable document that is hardly meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Which lint found it: a name that stays, such as `unreachable-rule`.
    pub lint: &'static str,
    /// The name of the source, as it was given.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// What is to be looked at, and what to write.
    pub message: String,
}

/// `FILE:LINE:COLUMN: message`.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            lint: _,
            file,
            line,
            column,
            message,
        } = self;
        write!(f, "{file}:{line}:{column}: {message}")
    }
}

/// Looks for what is hardly meant, in the order of the places.
///
/// # Errors
/// When a pattern is refused, as it is then where the document is compiled.
pub(super) fn lint(
    document: &Document<'_>,
    sources: &[Source],
) -> Result<Vec<Warning>, PolicyError> {
    let subject = Subject::of(document)?;
    let mut found = Found::default();
    reach::lint(&subject, &mut found);
    calls::lint(&subject, &mut found);
    patterns::lint(&subject, &mut found);
    terms::lint(&subject, &mut found);
    let mut warnings = found.warnings;
    let position = |warning: &Warning| {
        let mut names = sources.iter().map(|source| &source.name);
        let file = names.position(|name| *name == warning.file);
        (file, warning.line, warning.column)
    };
    warnings.sort_by_key(position);
    Ok(warnings)
}

/// The document with its tool patterns compiled.
struct Subject<'d, 's> {
    document: &'d Document<'s>,
    rules: Vec<Rule<'d, 's>>,
    always: Vec<Pattern<'d, 's>>,
    never: Vec<Pattern<'d, 's>>,
}

struct Rule<'d, 's> {
    written: &'d RuleDocument<'s>,
    tools: Vec<Pattern<'d, 's>>,
}

struct Pattern<'d, 's> {
    written: &'d Text<'s>,
    glob: Glob,
}

impl<'d, 's> Subject<'d, 's> {
    fn of(document: &'d Document<'s>) -> Result<Self, PolicyError> {
        let rule = |written: &'d RuleDocument<'s>| {
            Ok(Rule {
                written,
                tools: patterns("tools", &written.tools)?,
            })
        };
        Ok(Self {
            document,
            rules: document.rules.iter().map(rule).collect::<Result<_, _>>()?,
            always: patterns("always", &document.always)?,
            never: patterns("never", &document.never)?,
        })
    }

    /// Whether the rules decide, and no mode stands in for them.
    fn rules_decide(&self) -> bool {
        !matches!(self.document.mode, Some((_, Mode::Always(_))))
    }

    /// The classes that the selectors select.
    fn selected(&self) -> &[RiskClass] {
        match &self.document.selectors {
            Some((_, selected)) => selected,
            None => &[RiskClass::Write, RiskClass::Destructive],
        }
    }
}

fn patterns<'d, 's>(key: &str, texts: &'d [Text<'s>]) -> Result<Vec<Pattern<'d, 's>>, PolicyError> {
    let compile = |written: &'d Text<'s>| {
        Ok(Pattern {
            written,
            glob: tool_pattern(key, written)?,
        })
    };
    texts.iter().map(compile).collect()
}

/// The class that a pin gives.
fn class_of(annotations: &Annotations) -> RiskClass {
    classify(None, Pin::Replaces(annotations), Trust::AsSent).class
}

/// The warnings so far.
#[derive(Default)]
struct Found {
    warnings: Vec<Warning>,
}

impl Found {
    fn warn(&mut self, lint: &'static str, place: Place<'_>, message: String) {
        self.warnings.push(Warning {
            lint,
            file: place.source.name.clone(),
            line: place.line,
            column: place.column,
            message: printable(&message),
        });
    }
}

#[cfg(test)]
mod tests;
