//! What a JSON text says, and its one canonical spelling.
//!
//! Reading is the reader's, numbers are `number`'s; nothing here knows where the text came from.

use std::cmp::Ordering;
use std::fmt;

use super::error::JsonError;
use super::number::{InexactNumber, Number};
use super::reader;

/// A JSON value. Equal values are those with equal canonical spellings: `1.0` equals `1`, whatever
/// the order of keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An exact decimal.
    Number(Number),
    /// Unescaped, and otherwise as given: no Unicode normalisation.
    String(String),
    /// In the order given.
    Array(Vec<Value>),
    /// Each key once.
    Object(Object),
}

impl Value {
    /// Reads one JSON value as RFC 8259 has it, and stricter where two readers could see two
    /// different things.
    ///
    /// # Errors
    /// Anything that is not JSON (comments, `NaN`, a byte order mark, text after the value), and: a
    /// text larger than `max_bytes`, more than [`MAX_DEPTH`](super::MAX_DEPTH) levels, the same key
    /// twice in one object, a lone surrogate, an exponent past
    /// [`MAX_EXPONENT`](super::MAX_EXPONENT). The error has the offset in bytes.
    pub fn parse(text: &str, max_bytes: usize) -> Result<Self, JsonError> {
        reader::read_value(text, max_bytes)
    }

    /// The one spelling of this value: see [`Object::canonical`].
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut out = String::new();
        self.write(Layout::Compact, &mut out);
        out
    }

    /// As [`Arguments::exact_in_rules`](super::Arguments::exact_in_rules), for any value.
    ///
    /// # Errors
    /// The first number (in key order) that is not exact.
    pub fn exact_in_rules(&self) -> Result<(), InexactNumber> {
        match self {
            Self::Null | Self::Bool(_) | Self::String(_) => Ok(()),
            Self::Number(number) => number.exact_in_rules(),
            Self::Array(items) => items.iter().try_for_each(Self::exact_in_rules),
            Self::Object(object) => object.exact_in_rules(),
        }
    }

    fn write(&self, layout: Layout, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(number) => number.write(out),
            Self::String(text) => write_string(text, out),
            Self::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push_str(layout.comma());
                    }
                    item.write(layout, out);
                }
                out.push(']');
            }
            Self::Object(object) => object.write(layout, out),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical())
    }
}

/// A JSON object: its members in the order of the UTF-16 code units of their keys (RFC 8785,
/// 3.2.3), each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Object(Vec<(String, Value)>);

impl Object {
    /// Sorts the members; none when a key stands twice.
    pub(super) fn new(mut members: Vec<(String, Value)>) -> Option<Self> {
        let ascending = |members: &[(String, Value)]| {
            members.is_sorted_by(|(a, _), (b, _)| utf16_order(a, b).is_lt())
        };
        if !ascending(&members) {
            members.sort_unstable_by(|(a, _), (b, _)| utf16_order(a, b));
            if !ascending(&members) {
                return None;
            }
        }
        Some(Self(members))
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let index = self
            .0
            .binary_search_by(|(member, _)| utf16_order(member, key))
            .ok()?;
        self.0.get(index).map(|(_, value)| value)
    }

    /// The members in key order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// How many members it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is `{}`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one spelling of this object (S9): RFC 8785's keys, escapes and absence of space, but
    /// numbers as exact decimals, spelled as ECMA-262's `Number::toString` would with unlimited
    /// precision.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut out = String::new();
        self.write(Layout::Compact, &mut out);
        out
    }

    pub(super) fn exact_in_rules(&self) -> Result<(), InexactNumber> {
        self.0
            .iter()
            .try_for_each(|(_, value)| value.exact_in_rules())
    }

    pub(super) fn write(&self, layout: Layout, out: &mut String) {
        out.push('{');
        for (index, (key, value)) in self.0.iter().enumerate() {
            if index > 0 {
                out.push_str(layout.comma());
            }
            write_string(key, out);
            out.push_str(layout.colon());
            value.write(layout, out);
        }
        out.push('}');
    }
}

/// What stands between members and items.
#[derive(Clone, Copy)]
pub(super) enum Layout {
    Compact,
    Spaced,
}

impl Layout {
    fn comma(self) -> &'static str {
        match self {
            Self::Compact => ",",
            Self::Spaced => ", ",
        }
    }

    fn colon(self) -> &'static str {
        match self {
            Self::Compact => ":",
            Self::Spaced => ": ",
        }
    }
}

/// The order of the UTF-16 code units of two texts. It is the order of their bytes but for one
/// case: a character past U+FFFF (UTF-8 from 0xF0) is a surrogate pair in UTF-16 and so comes
/// before U+E000..U+FFFF (UTF-8 from 0xEE).
fn utf16_order(a: &str, b: &str) -> Ordering {
    match a.bytes().zip(b.bytes()).find(|(a, b)| a != b) {
        None => a.len().cmp(&b.len()),
        Some((0xEE..=0xEF, 0xF0..)) => Ordering::Greater,
        Some((0xF0.., 0xEE..=0xEF)) => Ordering::Less,
        Some((a, b)) => a.cmp(&b),
    }
}

/// RFC 8785, 3.2.2.2: escape what must be, in its short form where it has one.
fn write_string(text: &str, out: &mut String) {
    out.push('"');
    if text
        .bytes()
        .fold(false, |any, byte| any | must_be_escaped(byte))
    {
        for piece in text.split_inclusive(|c: char| u8::try_from(c).is_ok_and(must_be_escaped)) {
            let mut plain = piece.chars();
            match plain.next_back().and_then(escape) {
                Some(escape) => {
                    out.push_str(plain.as_str());
                    out.push_str(escape);
                }
                None => out.push_str(piece),
            }
        }
    } else {
        out.push_str(text);
    }
    out.push('"');
}

fn must_be_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn escape(c: char) -> Option<&'static str> {
    const CONTROLS: [&str; 32] = [
        r"\u0000", r"\u0001", r"\u0002", r"\u0003", r"\u0004", r"\u0005", r"\u0006", r"\u0007",
        r"\b", r"\t", r"\n", r"\u000b", r"\f", r"\r", r"\u000e", r"\u000f", r"\u0010", r"\u0011",
        r"\u0012", r"\u0013", r"\u0014", r"\u0015", r"\u0016", r"\u0017", r"\u0018", r"\u0019",
        r"\u001a", r"\u001b", r"\u001c", r"\u001d", r"\u001e", r"\u001f",
    ];
    match c {
        '"' => Some("\\\""),
        '\\' => Some("\\\\"),
        _ => CONTROLS.get(usize::try_from(u32::from(c)).ok()?).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        Value::parse(text, 1024).unwrap().canonical()
    }

    #[test]
    fn every_control_character_has_its_escape() {
        for control in 0..0x20_u8 {
            let expected = serde_json::to_string(&char::from(control).to_string()).unwrap();
            assert_eq!(canonical(&format!(r#""\u{control:04X}""#)), expected);
        }
        assert_eq!(
            canonical(r#""\u007f\u2028\/'<é😀""#),
            "\"\u{7f}\u{2028}/'<é😀\""
        );
    }

    #[test]
    fn members_are_found_and_listed_in_utf16_order() {
        let Ok(Value::Object(object)) =
            Value::parse(r#"{"\ufb33":1,"😂":2,"":3,"b":4,"a":5}"#, 1024)
        else {
            panic!("an object")
        };
        assert_eq!(
            object.iter().map(|(key, _)| key).collect::<Vec<_>>(),
            ["", "a", "b", "😂", "\u{fb33}"]
        );
        for (key, value) in object.iter() {
            assert_eq!(object.get(key), Some(value));
        }
        assert_eq!(object.get("c"), None);
        assert_eq!(object.len(), 5);
        assert!(!object.is_empty());
    }

    proptest! {
        #[test]
        fn the_order_of_keys_is_that_of_their_utf16_code_units(
            a in "[a\u{e9}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,4}",
            b in "[a\u{e9}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,4}",
        ) {
            prop_assert_eq!(utf16_order(&a, &b), a.encode_utf16().cmp(b.encode_utf16()));
        }
    }
}
