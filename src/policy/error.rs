//! Why a policy document was refused, with the place, in words for whoever wrote it.

use super::Source;

/// A policy document that cannot be used: the first thing wrong with it, where, and what to write instead.
///
/// Shown as `FILE:LINE:COLUMN: what is wrong` (S4).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct PolicyError {
    /// The name of the source, as it was given.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// What is wrong, naming the key and quoting the text in backticks.
    pub message: String,
}

/// A place in a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'s> {
    pub(super) source: &'s Source,
    pub(super) line: u32,
    pub(super) column: u32,
}

impl<'s> Place<'s> {
    /// The first character.
    pub(super) fn start(source: &'s Source) -> Self {
        Self {
            source,
            line: 1,
            column: 1,
        }
    }

    pub(super) fn error(self, message: impl Into<String>) -> PolicyError {
        PolicyError {
            file: self.source.name.clone(),
            line: self.line,
            column: self.column,
            message: printable(&message.into()),
        }
    }

    /// `FILE:LINE:COLUMN`.
    pub(super) fn describe(self) -> String {
        format!("{}:{}:{}", self.source.name, self.line, self.column)
    }
}

/// The text on one line, whatever a key or a value of the document holds.
pub(super) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            printable.extend(c.escape_default());
        } else {
            printable.push(c);
        }
    }
    printable
}

/// The most characters of the offending text that a message quotes.
const MAX_QUOTED_CHARS: usize = 120;

/// The text in backticks, cut where it is long, on one line.
pub(super) fn quoted(text: &str) -> String {
    let text = text.trim_end();
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("`{}…`", printable(text.get(..end).unwrap_or_default())),
        None => format!("`{}`", printable(text)),
    }
}

/// The names in backticks, as a sentence lists them.
pub(super) fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// `, did you mean X?` when one of the names is close to what was written, else nothing.
pub(super) fn suggestion(written: &str, names: &[&str]) -> String {
    let allowed = (written.chars().count() / 3).clamp(1, 2);
    names
        .iter()
        .map(|name| (distance(written, name), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map_or_else(String::new, |(_, name)| format!(", did you mean `{name}`?"))
}

/// How many characters to insert, delete or replace to make one text of the other (Levenshtein), ignoring case and taking
/// `-` for `_`. Texts past 64 characters are far from everything.
fn distance(a: &str, b: &str) -> usize {
    let fold = |text: &str| -> Vec<char> {
        text.chars()
            .take(65)
            .map(|c| {
                if c == '-' {
                    '_'
                } else {
                    c.to_ascii_lowercase()
                }
            })
            .collect()
    };
    let (a, b) = (fold(a), fold(b));
    if a.len().max(b.len()) > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut left = i + 1;
        let mut diagonal = i;
        let mut next = vec![left];
        for (cb, above) in b.iter().zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(ca != cb))
                .min(left + 1)
                .min(above + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_miss_is_suggested_and_a_far_one_is_not() {
        let names = ["decision", "denylist", "origins"];
        assert_eq!(suggestion("decison", &names), ", did you mean `decision`?");
        assert_eq!(
            suggestion("deny-list", &names),
            ", did you mean `denylist`?"
        );
        assert_eq!(suggestion("Origins", &names), ", did you mean `origins`?");
        assert_eq!(suggestion("effect", &names), "");
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "ab"), 2);
        assert_eq!(distance("ab", "ab"), 0);
    }

    #[test]
    fn quotes_are_short_and_on_one_line() {
        assert_eq!(quoted("a\nb\n"), "`a\\nb`");
        assert_eq!(
            quoted(&"x".repeat(500)).chars().count(),
            MAX_QUOTED_CHARS + 3
        );
    }
}
