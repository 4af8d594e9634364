//! What `check` puts in the place of names: slots for facts, patterns, and functions of our own.

use std::collections::HashMap;

use super::Conditions;
use super::facts::Read;
use super::pattern::Pattern;

/// What `check` puts for `+`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, for what a comprehension goes over, and for `matches`.
pub(super) const ADD: &str = "@add";
pub(super) const EQUALS: &str = "@equals";
pub(super) const DIFFERS: &str = "@differs";
pub(super) const LESS: &str = "@less";
pub(super) const LESS_EQUALS: &str = "@less_equals";
pub(super) const GREATER: &str = "@greater";
pub(super) const GREATER_EQUALS: &str = "@greater_equals";
pub(super) const IN: &str = "@is_in";
pub(super) const RANGE: &str = "@range";
pub(super) const MATCHES: &str = "@matches";

/// The slots of a policy while its conditions are compiled.
#[derive(Default)]
pub(super) struct Table {
    reads: HashMap<Read, u32>,
    read_order: Vec<Read>,
    patterns: HashMap<String, usize>,
    pattern_order: Vec<Pattern>,
}

impl Table {
    /// The slot of what a condition reads.
    pub(super) fn read(&mut self, read: &Read) -> u32 {
        if let Some(slot) = self.reads.get(read) {
            return *slot;
        }
        let slot = u32::try_from(self.read_order.len()).unwrap_or(u32::MAX);
        self.reads.insert(read.clone(), slot);
        self.read_order.push(read.clone());
        slot
    }

    /// The index of a pattern, compiled when it is new; the error says what is wrong with it.
    pub(super) fn pattern(&mut self, text: &str) -> Result<usize, String> {
        if let Some(index) = self.patterns.get(text) {
            return Ok(*index);
        }
        let index = self.pattern_order.len();
        self.pattern_order.push(Pattern::compile(text)?);
        self.patterns.insert(text.to_owned(), index);
        Ok(index)
    }

    /// The patterns so far.
    pub(super) fn patterns(&self) -> &[Pattern] {
        &self.pattern_order
    }

    /// What a slot stands for.
    pub(super) fn what(&self, slot: u32) -> Option<&Read> {
        self.read_order.get(usize::try_from(slot).ok()?)
    }

    /// What the slots stand for.
    pub(super) fn finish(self) -> Conditions {
        Conditions {
            reads: self.read_order,
            patterns: self.pattern_order,
        }
    }
}

/// The slot that a name in a checked expression stands for. No name that a person can write starts with `@`.
pub(super) fn slot_of(name: &str) -> Option<u32> {
    name.strip_prefix('@')?.parse().ok()
}

/// The pattern that a name in a checked expression stands for.
pub(super) fn pattern_of(name: &str) -> Option<usize> {
    name.strip_prefix("@re")?.parse().ok()
}
