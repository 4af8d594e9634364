//! What is read of a condition before it is parsed: how deep its brackets nest, and operators that stand twice.
//!
//! The parser drops brackets that only group, and pairs of `!` and of `-`, so they are not to be seen in what it gives;
//! and it says of what is too deep for it what only its authors understand.

use super::check::{MAX_LEVELS, Problem, too_deep};

/// What stands before a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The end of a value: a `-` behind it is a difference.
    Value,
    /// A `!` or a `-` that waits for its operand.
    Unary(char),
    /// Anything else.
    Other,
}

/// Refuses brackets that nest too deep, and `!!` and `--`, which only look as if they said something. In a text of which
/// YAML has made one line of several, a comment is refused too: it would take what was meant to follow with it.
pub(super) fn check(source: &str, is_folded: bool) -> Result<(), Problem> {
    let chars: Vec<char> = source.chars().collect();
    let at = |index: usize| chars.get(index).copied();
    let mut levels: usize = 0;
    let mut before = Before::Other;
    let mut index = 0;
    while let Some(c) = at(index) {
        let start = index;
        index += 1;
        before = match c {
            '\'' | '"' => {
                index = end_of_text(&chars, start, false);
                Before::Value
            }
            '`' => {
                index = find(&chars, index, '`');
                Before::Value
            }
            '/' if at(index) == Some('/') && is_folded => {
                return Err(Problem {
                    offset: start,
                    message: "YAML has made one line of these, so the comment goes on to the end: write `when: |`, which keeps the lines".to_owned(),
                });
            }
            '/' if at(index) == Some('/') => {
                index = find(&chars, index, '\n');
                before
            }
            '(' | '[' | '{' => {
                levels += 1;
                if levels > MAX_LEVELS {
                    return Err(too_deep(start));
                }
                Before::Other
            }
            ')' | ']' | '}' => {
                levels = levels.saturating_sub(1);
                Before::Value
            }
            '!' if at(index) == Some('=') => {
                index += 1;
                Before::Other
            }
            '-' if before == Before::Value => Before::Other,
            '!' | '-' if before == Before::Unary(c) => {
                return Err(Problem {
                    offset: start,
                    message: format!("`{c}{c}` says what nothing would: leave both out"),
                });
            }
            '!' | '-' => Before::Unary(c),
            c if is_of_name(c) => {
                while at(index).is_some_and(is_of_name) {
                    index += 1;
                }
                let name: String = chars.get(start..index).unwrap_or_default().iter().collect();
                let prefix = ["r", "b", "br", "rb"].contains(&name.to_lowercase().as_str());
                if prefix && matches!(at(index), Some('\'' | '"')) {
                    index = end_of_text(&chars, index, name.to_lowercase().contains('r'));
                }
                if name == "in" {
                    Before::Other
                } else {
                    Before::Value
                }
            }
            c if c.is_whitespace() => before,
            _ => Before::Other,
        };
    }
    Ok(())
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The index behind the next such character.
fn find(chars: &[char], from: usize, wanted: char) -> usize {
    let rest = chars.get(from..).unwrap_or_default();
    let found = rest.iter().position(|c| *c == wanted);
    found.map_or(chars.len(), |found| from + found + 1)
}

/// The index behind a text in quotes, or in three of them; in a raw one, `\` means itself.
fn end_of_text(chars: &[char], start: usize, raw: bool) -> usize {
    let rest = chars.get(start..).unwrap_or_default();
    let quote = rest.first().copied().unwrap_or_default();
    let triple = [quote; 3];
    let end = if rest.starts_with(&triple) {
        &triple[..]
    } else {
        triple.get(..1).unwrap_or_default()
    };
    let mut index = start + end.len();
    while let Some(rest) = chars.get(index..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with(end) {
            return index + end.len();
        }
        let escape = !raw && rest.first() == Some(&'\\');
        index += if escape { 2 } else { 1 };
    }
    chars.len()
}
