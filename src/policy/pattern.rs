//! Globs over tool ids and over the arguments' JSON text (S4).
//!
//! One matcher serves both: a glob is cut at its stars into runs, and each run is looked for once, left to
//! right, so a match takes time linear in the text whatever the text is. No file system semantics: a star
//! crosses everything.

mod cover;
mod element;

use std::fmt;

use self::element::{Class, Element};

/// A compiled glob. It matches a whole text or not at all, case-sensitively.
#[derive(Clone, Debug)]
pub(super) struct Glob {
    /// What stands before the first star, at the start of the text.
    first: Run,
    /// What stands between two stars, in order.
    middle: Vec<Run>,
    /// What stands after the last star, at the end of the text; without one there is no star at all.
    last: Option<Run>,
}

/// Why a glob was refused: what is wrong, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GlobError {
    /// Where, in characters from the start of the pattern.
    pub(super) offset: usize,
    pub(super) message: String,
}

/// The most characters a pattern may have: ids have 256, and argument globs are written by people.
pub(super) const MAX_PATTERN_CHARS: usize = 4096;

impl Glob {
    /// Compiles a pattern over tool ids: `*`, `?`, `[abc]`, `[!abc]`. `**`, `{`, `}` and a backslash are
    /// refused, as other globs give them meanings that this one does not have.
    pub(super) fn tool(pattern: &str) -> Result<Self, GlobError> {
        Self::compile(pattern, Flavour::Tool)
    }

    /// Compiles a pattern over arguments: as [`Glob::tool`], but braces are literal and `**` is `*`.
    pub(super) fn arguments(pattern: &str) -> Result<Self, GlobError> {
        Self::compile(pattern, Flavour::Arguments)
    }

    fn compile(pattern: &str, flavour: Flavour) -> Result<Self, GlobError> {
        if pattern.is_empty() {
            return Err(GlobError::at(
                0,
                "is empty and matches nothing: write `*` to match everything",
            ));
        }
        if pattern.chars().count() > MAX_PATTERN_CHARS {
            return Err(GlobError::at(
                0,
                format!("is longer than {MAX_PATTERN_CHARS} characters"),
            ));
        }
        let mut runs = vec![Vec::new()];
        let mut chars = pattern.chars().enumerate().peekable();
        let mut previous_star = false;
        while let Some((offset, c)) = chars.next() {
            let star = c == '*';
            let element = match c {
                '*' if previous_star && flavour == Flavour::Tool => {
                    return Err(GlobError::at(
                        offset.saturating_sub(1),
                        "has `**`: write `*`, which crosses `.` and `/` already",
                    ));
                }
                '*' => None,
                '{' | '}' if flavour == Flavour::Tool => {
                    return Err(GlobError::at(
                        offset,
                        format!(
                            "has `{c}`: write one pattern for each alternative instead of braces"
                        ),
                    ));
                }
                '\\' if flavour == Flavour::Tool => {
                    return Err(GlobError::at(
                        offset,
                        "has a backslash, which takes no meaning from what follows: write `[*]`, `[?]` or `[[]` for such \
                         a character itself, and `[\\]` for a backslash",
                    ));
                }
                '?' => Some(Element::Any),
                '[' => Some(Element::Class(Class::compile(offset, &mut chars)?)),
                c => Some(Element::Char(c)),
            };
            match element {
                None if previous_star => {}
                None => runs.push(Vec::new()),
                Some(element) => {
                    if let Some(run) = runs.last_mut() {
                        run.push(element);
                    }
                }
            }
            previous_star = star;
        }
        let last = if runs.len() > 1 {
            runs.pop().map(Run::new)
        } else {
            None
        };
        let mut runs = runs.into_iter().map(Run::new);
        let first = runs.next().unwrap_or_else(|| Run::new(Vec::new()));
        Ok(Self {
            first,
            middle: runs
                .filter(|run| run.chars > 0)
                .map(Run::searched)
                .collect(),
            last,
        })
    }

    /// A bound on what matching a text costs, in nanoseconds or so: each character is looked at once.
    pub(super) fn cost(&self, text: &str, is_ascii: bool) -> u64 {
        let each = self.middle.iter().map(|run| run.cost_per_byte(is_ascii));
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        bytes.saturating_mul(each.max().unwrap_or_default())
    }

    /// Whether the whole text matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        let Some(mut rest) = self.first.strip_prefix(text) else {
            return false;
        };
        let Some(last) = &self.last else {
            return rest.is_empty();
        };
        for run in &self.middle {
            // The leftmost place is as good as any other: it leaves the most for what follows.
            let Some(after) = run.find_end(rest).and_then(|end| rest.get(end..)) else {
                return false;
            };
            rest = after;
        }
        last.ends(rest)
    }

    /// The text that every match is, if there is only one.
    pub(super) fn exact(&self) -> Option<&str> {
        if self.last.is_some() {
            None
        } else {
            self.first.literal.as_deref()
        }
    }

    /// The literal text that every match starts with; may be empty.
    pub(super) fn prefix(&self) -> &str {
        &self.first.literal_prefix
    }

    /// Whether some JSON object's text could match: it starts with `{` and ends with `}`.
    pub(super) fn can_match_an_object(&self) -> bool {
        let starts = match self.first.elements.first() {
            Some(element) => element.matches('{'),
            None => true,
        };
        let end = self.last.as_ref().unwrap_or(&self.first);
        let ends = match end.elements.last() {
            Some(element) => element.matches('}'),
            None => true,
        };
        // Without a star and with one element, the two ends would be one character.
        starts && ends && (self.last.is_some() || self.first.chars > 1)
    }
}

impl GlobError {
    fn at(offset: usize, message: impl Into<String>) -> Self {
        Self {
            offset,
            message: message.into(),
        }
    }
}

impl fmt::Display for GlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flavour {
    Tool,
    Arguments,
}

/// What stands between two stars: a fixed number of characters, each of which matches one.
#[derive(Clone, Debug)]
struct Run {
    elements: Vec<Element>,
    chars: usize,
    /// The run's text, if every element is one character: then the standard search, linear too, finds it.
    literal: Option<String>,
    literal_prefix: String,
    /// For each 64 elements, which of them match each ASCII character; only in a run that is looked for and no literal.
    ascii: Vec<[u64; 128]>,
}

impl Run {
    fn new(elements: Vec<Element>) -> Self {
        let literal_prefix: String = elements
            .iter()
            .map_while(|element| match element {
                Element::Char(c) => Some(*c),
                Element::Any | Element::Class(_) => None,
            })
            .collect();
        let literal =
            (literal_prefix.chars().count() == elements.len()).then(|| literal_prefix.clone());
        Self {
            chars: elements.len(),
            elements,
            literal,
            literal_prefix,
            ascii: Vec::new(),
        }
    }

    /// The same run, made ready for [`Run::find_end`].
    fn searched(mut self) -> Self {
        if self.literal.is_none() {
            self.ascii = self
                .elements
                .chunks(64)
                .map(|elements| {
                    let mut masks = [0; 128];
                    for (c, mask) in ('\0'..).zip(&mut masks) {
                        *mask = matching(u64::MAX, elements, c);
                    }
                    masks
                })
                .collect();
        }
        self
    }

    /// What looking for it costs for each byte of a text.
    fn cost_per_byte(&self, is_ascii: bool) -> u64 {
        if self.literal.is_some() {
            return 2;
        }
        let looked_up = 4 * self.ascii.len();
        let compared = if is_ascii {
            0
        } else {
            // Any other character is compared with all that could stand there.
            self.elements.iter().map(Element::weight).sum()
        };
        u64::try_from(looked_up + compared).unwrap_or(u64::MAX)
    }

    /// What follows the run at the start of the text.
    fn strip_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        if let Some(literal) = &self.literal {
            return text.strip_prefix(literal.as_str());
        }
        let mut chars = text.chars();
        for element in &self.elements {
            if !element.matches(chars.next()?) {
                return None;
            }
        }
        Some(chars.as_str())
    }

    fn ends(&self, text: &str) -> bool {
        if let Some(literal) = &self.literal {
            return text.ends_with(literal.as_str());
        }
        let mut chars = text.chars();
        self.elements
            .iter()
            .rev()
            .all(|element| chars.next_back().is_some_and(|c| element.matches(c)))
    }

    /// Where the leftmost occurrence ends, in bytes.
    fn find_end(&self, text: &str) -> Option<usize> {
        if let Some(literal) = &self.literal {
            return text
                .find(literal.as_str())
                .map(|start| start + literal.len());
        }
        // Shift-and: bit i of the state says that elements 0..=i match the characters just read. Each character
        // costs the same whatever came before, where trying every start would be quadratic.
        let words = self.chars.div_ceil(64);
        let mut state = vec![0_u64; words];
        for (offset, c) in text.char_indices() {
            let mut carry = 1;
            for ((word, elements), ascii) in state
                .iter_mut()
                .zip(self.elements.chunks(64))
                .zip(&self.ascii)
            {
                let candidates = (*word << 1) | carry;
                carry = *word >> 63;
                *word = match usize::try_from(u32::from(c))
                    .ok()
                    .and_then(|c| ascii.get(c))
                {
                    Some(mask) => candidates & mask,
                    None => matching(candidates, elements, c),
                };
            }
            let last = (self.chars + 63) % 64;
            if state.last().is_some_and(|word| word >> last & 1 == 1) {
                return Some(offset + c.len_utf8());
            }
        }
        None
    }
}

/// Of the candidate bits, those whose element matches the character.
fn matching(candidates: u64, elements: &[Element], c: char) -> u64 {
    let mut left = candidates;
    let mut kept = 0;
    while left != 0 {
        let bit = left & left.wrapping_neg();
        left ^= bit;
        let index = bit.trailing_zeros() as usize;
        if elements
            .get(index)
            .is_some_and(|element| element.matches(c))
        {
            kept |= bit;
        }
    }
    kept
}

#[cfg(test)]
mod tests;
