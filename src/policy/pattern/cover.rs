//! Whether one glob matches all that another matches; for lints, which must not cry wolf.

use super::Glob;
use super::element::{Class, Element};

/// A glob element by element.
#[derive(Clone, Copy)]
enum Piece<'g> {
    Star,
    One(&'g Element),
}

/// Ranges of characters, sorted and apart.
type Ranges = Vec<(u32, u32)>;

const LAST_CHAR: u32 = char::MAX as u32;

impl Glob {
    /// Whether this glob matches every text that `other` matches. A yes is certain; a no may be wrong, where a star of this
    /// one would have to share with what stands beside it (`*?` and `?*`).
    pub(in crate::policy) fn covers(&self, other: &Self) -> bool {
        let (own, theirs) = (self.pieces(), other.pieces());
        // covered[j]: what follows in `own` matches all that follows position j in `theirs`.
        let mut covered = vec![false; theirs.len()];
        covered.push(true);
        for piece in own.iter().rev() {
            covered = match piece {
                Piece::Star => {
                    let mut rest = false;
                    let ends = covered.iter().rev().map(|covered| {
                        rest |= covered;
                        rest
                    });
                    let mut reversed: Vec<bool> = ends.collect();
                    reversed.reverse();
                    reversed
                }
                Piece::One(element) => {
                    let next = covered.iter().skip(1);
                    let ones = theirs.iter().zip(next).map(|(their, covered)| match their {
                        Piece::Star => false,
                        Piece::One(their) => *covered && element.covers(their),
                    });
                    ones.chain([false]).collect()
                }
            };
        }
        covered.first().copied().unwrap_or(false)
    }

    /// A text that the glob matches, if there is one: whatever covers the glob matches it too.
    pub(in crate::policy) fn witness(&self) -> Option<String> {
        let mut text = String::new();
        for piece in self.pieces() {
            match piece {
                Piece::Star => {}
                Piece::One(element) => text.push(element.witness()?),
            }
        }
        Some(text)
    }

    fn pieces(&self) -> Vec<Piece<'_>> {
        let mut pieces: Vec<Piece<'_>> = self.first.elements.iter().map(Piece::One).collect();
        if let Some(last) = &self.last {
            for run in self.middle.iter().chain([last]) {
                pieces.push(Piece::Star);
                pieces.extend(run.elements.iter().map(Piece::One));
            }
        }
        pieces
    }
}

impl Element {
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Char(own), Self::Char(other)) => own == other,
            (Self::Char(_) | Self::Class(_), _) => {
                let own = self.ranges();
                let within = |(low, high): &(u32, u32)| {
                    own.iter().any(|(first, last)| first <= low && high <= last)
                };
                other.ranges().iter().all(within)
            }
        }
    }

    fn ranges(&self) -> Ranges {
        match self {
            Self::Char(c) => vec![(u32::from(*c), u32::from(*c))],
            Self::Any => vec![(0, LAST_CHAR)],
            Self::Class(class) => class.ranges(),
        }
    }

    fn witness(&self) -> Option<char> {
        let mut ranges = self.ranges().into_iter();
        ranges.find_map(|(low, high)| (low..=high).find_map(char::from_u32))
    }
}

impl Class {
    fn ranges(&self) -> Ranges {
        let mut sorted: Ranges = self
            .ranges
            .iter()
            .map(|(low, high)| (u32::from(*low), u32::from(*high)))
            .collect();
        sorted.sort_unstable();
        let mut merged: Ranges = Vec::new();
        for (low, high) in sorted {
            match merged.last_mut() {
                Some((_, last)) if low <= last.saturating_add(1) => *last = high.max(*last),
                _ => merged.push((low, high)),
            }
        }
        if !self.negated {
            return merged;
        }
        let mut gaps = Vec::new();
        let mut next = 0;
        for (low, high) in merged {
            if next < low {
                gaps.push((next, low - 1));
            }
            next = high + 1;
        }
        if next <= LAST_CHAR {
            gaps.push((next, LAST_CHAR));
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn covers(own: &str, other: &str) -> bool {
        Glob::tool(own).unwrap().covers(&Glob::tool(other).unwrap())
    }

    #[test]
    fn a_wider_glob_covers_a_narrower_one() {
        for (own, other) in [
            ("*", "client.*"),
            ("*", "a"),
            ("client.*", "client.open_case"),
            ("client.*", "client.*_case"),
            ("*_case", "client.*_case"),
            ("a*b*c", "axbyc"),
            ("a?c", "abc"),
            ("a[a-z]c", "a[bcd]c"),
            ("a[!x]c", "abc"),
            ("a[a-cd-f]", "a[b-e]"),
            ("?*", "ab"),
            ("client.open", "client.open"),
        ] {
            assert!(covers(own, other), "{own} {other}");
        }
        for (own, other) in [
            ("client.*", "*"),
            ("client.open", "client.*"),
            ("a?c", "a*c"),
            ("a[a-c]c", "a[a-d]c"),
            ("a[!x]c", "a?c"),
            ("a?", "a"),
            ("a*b", "ab*"),
        ] {
            assert!(!covers(own, other), "{own} {other}");
        }
    }

    proptest! {
        #[test]
        fn what_is_covered_matches_wherever_the_narrower_one_does(
            own in "[ab?*]{1,5}|[ab]\\[!?[ab]\\]\\*?",
            other in "[ab?*]{1,5}|[ab]\\[!?[ab]\\]\\*?",
            text in "[abc]{0,6}",
        ) {
            let glob = |pattern: &str| Glob::arguments(pattern).unwrap();
            let (own, other) = (glob(&own), glob(&other));
            let witness = other.witness().unwrap();
            prop_assert!(other.matches(&witness));
            if own.covers(&other) {
                prop_assert!(own.matches(&witness));
                prop_assert!(!other.matches(&text) || own.matches(&text));
            }
        }
    }
}
