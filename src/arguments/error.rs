//! What a reader says of a text that it refuses: what, where, and an excerpt that is safe to print.
//!
//! It becomes part of an `INVALID_ARGUMENT`; how, is not known here.

use std::fmt;

use super::number::MAX_EXPONENT;
use super::reader::MAX_DEPTH;

/// Why a text was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at offset {offset}")]
pub struct JsonError {
    /// In bytes from the start of the text.
    pub offset: usize,
    /// What is wrong there.
    pub problem: JsonProblem,
}

impl JsonError {
    pub(super) fn at(offset: usize, problem: JsonProblem) -> Self {
        Self { offset, problem }
    }
}

/// What is wrong with a JSON text. Excerpts of it are short, with control characters escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonProblem {
    /// The text is larger than the limit in bytes; the offset is the limit.
    #[error("larger than the {0} bytes allowed")]
    TooLarge(usize),
    /// A bracket opens a level past [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The same key stands twice in an object, once unescaped; the offset is the second one's.
    #[error("duplicate key `{0}`")]
    DuplicateKey(String),
    /// An escape that is half a surrogate pair.
    #[error("lone surrogate `{0}`")]
    LoneSurrogate(String),
    /// A character in a string that RFC 8259 wants escaped.
    #[error("unescaped control character `{0}`")]
    ControlCharacter(String),
    /// A number such as `01`.
    #[error("leading zero in `{0}`")]
    LeadingZero(String),
    /// The exponent of a number is past [`MAX_EXPONENT`].
    #[error("exponent past ±{MAX_EXPONENT} in `{0}`")]
    ExponentOutOfRange(String),
    /// Anything else that is not JSON.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What could have stood there.
        expected: &'static str,
        /// What stands there.
        found: Found,
    },
}

/// What stands where something else was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// An excerpt: a word, or else one character.
    Text(String),
    /// Nothing.
    End,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "`{text}`"),
            Self::End => f.write_str("the end of the text"),
        }
    }
}

/// Quotes input in an error: at most 40 characters, those that do not print escaped.
pub(super) fn excerpt(text: &str) -> String {
    const MAX_CHARACTERS: usize = 40;
    let mut quoted = String::new();
    for (index, c) in text.chars().enumerate() {
        match c {
            _ if index == MAX_CHARACTERS => {
                quoted.push('…');
                break;
            }
            '"' | '\'' | '\\' => quoted.push(c),
            _ => quoted.extend(c.escape_debug()),
        }
    }
    quoted
}
