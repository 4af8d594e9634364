//! One character of a glob, and classes of them.

use super::GlobError;

/// What stands for one character.
#[derive(Clone, Debug)]
pub(super) enum Element {
    /// Itself.
    Char(char),
    /// Any.
    Any,
    /// One of some.
    Class(Class),
}

impl Element {
    /// Whether it stands for that one.
    pub(super) fn matches(&self, c: char) -> bool {
        match self {
            Self::Char(own) => *own == c,
            Self::Any => true,
            Self::Class(class) => class.matches(c),
        }
    }

    /// How much a character is compared with.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Char(_) | Self::Any => 1,
            Self::Class(class) => class.ranges.len(),
        }
    }
}

/// `[abc]`, `[a-z]`, `[!abc]`.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub(super) negated: bool,
    pub(super) ranges: Vec<(char, char)>,
}

impl Class {
    /// Reads what follows a `[` at `open`. A `]` that comes first is a member, and so is a `-` at either end.
    pub(super) fn compile(
        open: usize,
        chars: &mut std::iter::Peekable<impl Iterator<Item = (usize, char)>>,
    ) -> Result<Self, GlobError> {
        let unclosed = || {
            GlobError::at(
                open,
                "has a `[` that no `]` closes: write `[[]` for the character itself",
            )
        };
        if chars.peek().is_some_and(|(_, c)| *c == '^') {
            return Err(GlobError::at(open, "has `[^`: write `[!` to negate"));
        }
        let negated = chars.next_if(|(_, c)| *c == '!').is_some();
        let mut members = Vec::new();
        loop {
            let (_, c) = chars.next().ok_or_else(unclosed)?;
            if c == ']' && !members.is_empty() {
                break;
            }
            members.push(c);
        }
        let mut ranges = Vec::new();
        let mut rest = members.as_slice();
        loop {
            rest = match rest {
                [low, '-', high, rest @ ..] => {
                    if low > high {
                        return Err(GlobError::at(
                            open,
                            format!(
                                "has the range `{low}-{high}`, which holds nothing: write `{high}-{low}`"
                            ),
                        ));
                    }
                    ranges.push((*low, *high));
                    rest
                }
                [c, rest @ ..] => {
                    ranges.push((*c, *c));
                    rest
                }
                [] => break,
            };
        }
        Ok(Self { negated, ranges })
    }

    fn matches(&self, c: char) -> bool {
        self.ranges
            .iter()
            .any(|(low, high)| (*low..=*high).contains(&c))
            != self.negated
    }
}
