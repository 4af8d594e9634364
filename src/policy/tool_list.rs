//! A list of tool patterns: which of them is the first to match a tool id (S2, S4).

use super::document::{SELECTORS, Text};
use super::error::{PolicyError, quoted};
use super::index::ToolIndex;
use super::pattern::Glob;

/// `always` or `never`.
#[derive(Debug, Default)]
pub(super) struct ToolList {
    index: ToolIndex,
    /// For each pattern, what a decision says chose it.
    names: Vec<String>,
}

impl ToolList {
    pub(super) fn compile(key: &str, patterns: &[Text<'_>]) -> Result<Self, PolicyError> {
        let mut list = Self::default();
        for (position, pattern) in (0_usize..).zip(patterns) {
            list.index.add(position, tool_pattern(key, pattern)?);
            list.names.push(format!("{key}: {}", pattern.value));
        }
        Ok(list)
    }

    /// What is said of the first pattern that matches: `KEY: PATTERN`.
    pub(super) fn first_match(&self, tool: &str) -> Option<&str> {
        let position = self.index.matches(tool).next()?;
        self.names.get(position).map(String::as_str)
    }
}

/// A pattern under `key`; what is wrong with it is said with its place.
pub(super) fn tool_pattern(key: &str, pattern: &Text<'_>) -> Result<Glob, PolicyError> {
    // It would match the one tool of that id, which is hardly meant.
    if SELECTORS.iter().any(|(name, _)| *name == pattern.value) {
        return Err(pattern.place().error(format!(
            "`{key}`: {} is a class of tools and no tool: name it under `selectors`, or as `classes` of a rule",
            quoted(&pattern.value)
        )));
    }
    Glob::tool(&pattern.value).map_err(|error| {
        pattern.place_of_char(error.offset).error(format!(
            "`{key}`: the pattern {} {error}",
            quoted(&pattern.value)
        ))
    })
}
