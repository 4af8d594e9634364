//! Which of many patterns match a tool id, in the order in which they were written.
//!
//! A decision must cost the same with ten thousand rules as with ten: exact patterns are found in a map, patterns
//! that start with a literal text by that text, and only those that start with a wildcard are tried one by one.

use std::collections::HashMap;

use super::pattern::Glob;

/// Patterns of one list (`always`, `never`) or of all rules, each with the position of what it belongs to.
#[derive(Debug, Default)]
pub(super) struct ToolIndex {
    exact: HashMap<Box<str>, Vec<usize>>,
    /// By the literal text that the pattern starts with; the empty one holds the patterns that start with a wildcard.
    prefixed: HashMap<Box<str>, Vec<(usize, Glob)>>,
    /// The lengths in bytes of those texts, each once.
    lengths: Vec<usize>,
}

impl ToolIndex {
    /// Adds a pattern. Positions must not decrease from one call to the next.
    pub(super) fn add(&mut self, position: usize, glob: Glob) {
        if let Some(exact) = glob.exact() {
            self.exact.entry(exact.into()).or_default().push(position);
            return;
        }
        let prefix = glob.prefix();
        if !self.lengths.contains(&prefix.len()) {
            self.lengths.push(prefix.len());
        }
        self.prefixed
            .entry(prefix.into())
            .or_default()
            .push((position, glob));
    }

    /// The positions whose pattern matches the tool id, in order, each once; found as far as they are asked for.
    pub(super) fn matches<'i>(&'i self, tool: &'i str) -> impl Iterator<Item = usize> + 'i {
        let exact = self.exact.get(tool).map_or(&[][..], Vec::as_slice);
        let prefixed = self
            .lengths
            .iter()
            .filter_map(|length| self.prefixed.get(tool.get(..*length)?))
            .map(Vec::as_slice)
            .collect();
        Matches {
            tool,
            exact,
            prefixed,
            last: None,
        }
    }
}

/// Merges sorted lists that are few: one of exact patterns, and one for each text that the tool id starts with.
struct Matches<'i> {
    tool: &'i str,
    exact: &'i [usize],
    prefixed: Vec<&'i [(usize, Glob)]>,
    last: Option<usize>,
}

impl Iterator for Matches<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let done = |position: usize| self.last.is_some_and(|last| position <= last);
        while let [position, rest @ ..] = self.exact
            && done(*position)
        {
            self.exact = rest;
        }
        let mut next = self.exact.first().copied();
        for list in &mut self.prefixed {
            while let [(position, glob), rest @ ..] = *list {
                // A later position than the best so far is looked at when its turn comes.
                if next.is_some_and(|next| next <= *position) {
                    break;
                }
                if !done(*position) && glob.matches(self.tool) {
                    next = Some(*position);
                    break;
                }
                *list = rest;
            }
        }
        self.last = next.or(self.last);
        next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(patterns: &[&str]) -> ToolIndex {
        let mut index = ToolIndex::default();
        for (position, pattern) in patterns.iter().enumerate() {
            index.add(position, Glob::tool(pattern).unwrap());
        }
        index
    }

    fn found(patterns: &[&str], tool: &str) -> Vec<usize> {
        index(patterns).matches(tool).collect()
    }

    #[test]
    fn matches_come_in_document_order_whatever_their_kind() {
        let patterns = [
            "*",
            "client.open",
            "client.*",
            "*.open",
            "cl*n",
            "client.open",
            "x",
            "client.[o]*",
        ];
        assert_eq!(found(&patterns, "client.open"), [0, 1, 2, 3, 4, 5, 7]);
        assert_eq!(found(&patterns, "x"), [0, 6]);
        assert_eq!(found(&patterns, ""), [0]);
    }

    #[test]
    fn one_position_with_several_patterns_comes_once() {
        let mut index = ToolIndex::default();
        for pattern in ["a", "a*", "*", "a"] {
            index.add(3, Glob::tool(pattern).unwrap());
        }
        index.add(4, Glob::tool("?").unwrap());
        assert_eq!(index.matches("a").collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn a_prefix_ends_where_a_character_does() {
        assert_eq!(found(&["é*", "?*"], "è"), [1]);
        assert_eq!(found(&["é*", "?*"], "ée"), [0, 1]);
    }

    proptest! {
        #[test]
        fn the_index_finds_what_trying_each_pattern_finds(
            patterns in prop::collection::vec("[ab*?]{1,4}".prop_filter("tool pattern", |p| !p.contains("**")), 0..12),
            tool in "[ab]{0,5}",
        ) {
            let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
            let one_by_one: Vec<usize> = (0..).zip(&patterns)
                .filter(|(_, pattern)| Glob::tool(pattern).unwrap().matches(&tool))
                .map(|(position, _)| position)
                .collect();
            prop_assert_eq!(found(&patterns, &tool), one_by_one);
        }
    }
}
