//! The arguments of a tool call (S9): strict JSON in, one canonical spelling and one digest out.
//!
//! Two texts that say the same have the same digest, and two that differ in anything never do: that
//! is what an approval is bound to. So nothing here rounds, normalises Unicode, or lets the last of
//! two equal keys win. Pure: no wire types, no clock, no policy. How rules see a number is decided
//! in `policy`, from what [`Number`] offers.

mod error;
mod json;
mod number;
mod reader;
mod value;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

pub use self::error::{Found, JsonError, JsonProblem};
pub use self::json::Json;
pub use self::number::{InexactNumber, MAX_EXPONENT, Number};
pub use self::reader::MAX_DEPTH;
pub use self::value::{Object, Value};

use self::value::Layout;

/// The arguments of one tool call: the text as the model produced it, and what it says.
///
/// Cheap to clone. Equal arguments say the same, and so have the same digest, whatever their texts.
/// `Debug` shows the size only, as arguments are masked in logs unless the operator says otherwise
/// (S13).
#[derive(Clone)]
pub struct Arguments(Arc<Parsed>);

struct Parsed {
    text: Box<str>,
    object: Object,
}

impl Arguments {
    /// Reads one JSON object; empty text means `{}`.
    ///
    /// # Errors
    /// What [`Value::parse`] refuses, and any JSON value that is no object.
    pub fn parse(text: &str, max_bytes: usize) -> Result<Self, JsonError> {
        let text = if text.is_empty() { "{}" } else { text };
        let object = reader::read_object(text, max_bytes)?;
        Ok(Self::new(text, object))
    }

    /// Arguments found inside others, as those of the tool that a wrapper names (S3). Their text is
    /// the canonical one, which may be longer than what was read (`1e20` has 21 digits).
    #[must_use]
    pub fn nested(object: &Object) -> Self {
        Self::new(&object.canonical(), object.clone())
    }

    fn new(text: &str, object: Object) -> Self {
        Self(Arc::new(Parsed {
            text: text.into(),
            object,
        }))
    }

    /// The text as given, or `{}` when it was empty.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// What the text says.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.0.object
    }

    /// The one spelling of these arguments: see [`Object::canonical`].
    #[must_use]
    pub fn canonical(&self) -> String {
        self.object().canonical()
    }

    /// The canonical spelling but with `, ` and `: ` between things, as argument globs see it (S4).
    #[must_use]
    pub fn spaced(&self) -> String {
        let mut out = String::with_capacity(self.text().len() + self.text().len() / 8);
        self.object().write(Layout::Spaced, &mut out);
        out
    }

    /// SHA-256 over the tool id, a NUL, and the canonical arguments. A tool id holds no control
    /// characters (S9), so no two pairs of tool and arguments give the same bytes.
    #[must_use]
    pub fn digest(&self, tool: &str) -> Digest {
        let mut text = String::with_capacity(tool.len() + 1 + self.text().len());
        text.push_str(tool);
        text.push('\0');
        self.object().write(Layout::Compact, &mut text);
        Digest(Sha256::digest(text).into())
    }

    /// Whether every number in here can be given to a rule as S4 wants it: an integral value as an
    /// exact 64-bit integer, a fraction as the nearest double.
    ///
    /// # Errors
    /// The first number (in key order) that cannot: rules with a condition over `args` then fail,
    /// and so deny.
    pub fn exact_in_rules(&self) -> Result<(), InexactNumber> {
        self.object().exact_in_rules()
    }
}

impl PartialEq for Arguments {
    fn eq(&self, other: &Self) -> bool {
        self.object() == other.object()
    }
}

impl Eq for Arguments {}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arguments")
            .field("bytes", &self.text().len())
            .finish_non_exhaustive()
    }
}

/// What an approval, a grant and a claim are bound to: the SHA-256 of a tool id and its arguments
/// (S9). Written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// Writes bytes as lower-case hex digits, in one piece: a formatter's work for each byte costs more than
/// the hash itself.
pub(crate) fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let digit = |value| char::from_digit(u32::from(value), 16).unwrap_or_default();
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
    }
    f.write_str(&text)
}

/// A text that is no digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a digest: 64 lower-case hex digits")]
pub struct InvalidDigest;

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
            return Err(InvalidDigest);
        };
        let bytes: Option<Vec<u8>> = pairs
            .iter()
            .map(|&[high, low]| Some(hex_digit(high)? << 4 | hex_digit(low)?))
            .collect();
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or(InvalidDigest)
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Arguments {
        Arguments::parse(text, 1024).unwrap()
    }

    #[test]
    fn the_digests_are_those_of_the_acceptance_cases() {
        let vectors: Vec<serde_json::Value> =
            serde_json::from_str(include_str!("../tests/cases/digests.json")).unwrap();
        assert!(vectors.len() > 50);
        for vector in vectors {
            let field = |name: &str| vector[name].as_str().unwrap();
            let arguments = arguments(field("arguments_json"));
            assert_eq!(arguments.canonical(), field("canonical"));
            assert_eq!(
                arguments.digest(field("tool")).to_string(),
                field("digest"),
                "{vector}"
            );
        }
    }

    #[test]
    fn the_text_is_kept_as_given() {
        assert_eq!(arguments("").text(), "{}");
        assert_eq!(arguments(" {\"a\" : 1.0}\n").text(), " {\"a\" : 1.0}\n");
    }

    #[test]
    fn globs_see_the_digests_spelling_with_spaces() {
        let spaced =
            arguments(r#"{"z":[1e2,{"k":"\u00e9\/\u000F"},[]],"b":{},"a":{"y":-0.50,"x":null}}"#)
                .spaced();
        assert_eq!(
            spaced,
            r#"{"a": {"x": null, "y": -0.5}, "b": {}, "z": [100, {"k": "é/\u000f"}, []]}"#
        );
    }

    #[test]
    fn arguments_in_a_wrappers_arguments_have_their_own_digest() {
        let wrapper = arguments(r#"{"name":"a","arguments":{"y":1e2,"x":[]}}"#);
        let Some(Value::Object(inner)) = wrapper.object().get("arguments") else {
            panic!("an object")
        };
        let nested = Arguments::nested(inner);
        assert_eq!(nested.text(), r#"{"x":[],"y":100}"#);
        assert_eq!(
            nested.digest("t"),
            arguments(r#"{"x":[],"y":100.0}"#).digest("t")
        );
    }

    #[test]
    fn a_digest_names_the_tool() {
        assert_ne!(arguments("{}").digest("a"), arguments("{}").digest("b"));
    }

    #[test]
    fn a_digest_reads_back_what_it_writes_and_nothing_else() {
        let digest = arguments("{}").digest("client.a");
        let text = digest.to_string();
        assert_eq!(text.parse(), Ok(digest));
        for wrong in [
            "",
            "ed",
            &text[1..],
            &format!("{text}0"),
            &format!("{text}00"),
            &text.to_uppercase(),
        ] {
            assert_eq!(wrong.parse::<Digest>(), Err(InvalidDigest), "{wrong}");
        }
        assert_eq!(
            format!("{}é", &text[2..]).parse::<Digest>(),
            Err(InvalidDigest)
        );
    }

    #[test]
    fn a_number_that_rules_cannot_hold_is_named_wherever_it_stands() {
        assert_eq!(
            arguments(r#"{"a":[1,-9223372036854775808,18446744073709551615,1e-300]}"#)
                .exact_in_rules(),
            Ok(())
        );
        let error = arguments(r#"{"z":1e400,"a":[{"b":1e30}]}"#)
            .exact_in_rules()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "the integer `1e+30` does not fit in 64 bits"
        );
        let error = arguments(r#"{"a":[0.5,{"b":1e-400}]}"#)
            .exact_in_rules()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "the fraction `1e-400` is out of a double's range"
        );
    }

    #[test]
    fn equal_arguments_say_the_same() {
        assert_eq!(
            arguments(r#"{"a":1,"b":2}"#),
            arguments(r#"{"b":2.0,"a":10e-1}"#)
        );
        assert_ne!(arguments(r#"{"a":1}"#), arguments(r#"{"a":"1"}"#));
    }

    #[test]
    fn debug_does_not_show_what_the_arguments_say() {
        assert_eq!(
            format!("{:?}", arguments(r#"{"password":"x"}"#)),
            "Arguments { bytes: 16, .. }"
        );
    }
}
