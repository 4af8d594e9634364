//! Any JSON value from a caller: a payload, a result, a schema. Not the arguments of a call, which are an
//! object and have a digest.

use std::fmt;
use std::sync::Arc;

use super::{JsonError, Value};

/// A JSON value: the text as given, and what it says.
///
/// Cheap to clone. Equal values say the same, whatever their texts. `Debug` shows the size only, as
/// payloads are masked in logs like arguments (S13).
#[derive(Clone)]
pub struct Json(Arc<Parsed>);

struct Parsed {
    text: Box<str>,
    value: Value,
}

impl Json {
    /// Reads one JSON value, as strictly as arguments are read.
    ///
    /// # Errors
    /// What [`Value::parse`] refuses.
    pub fn parse(text: &str, max_bytes: usize) -> Result<Self, JsonError> {
        Ok(Self(Arc::new(Parsed {
            value: Value::parse(text, max_bytes)?,
            text: text.into(),
        })))
    }

    /// `null`.
    #[must_use]
    pub fn null() -> Self {
        Self(Arc::new(Parsed {
            text: "null".into(),
            value: Value::Null,
        }))
    }

    /// The text as given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// What the text says.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.0.value
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Json")
            .field("bytes", &self.text().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_say_the_same_and_keep_their_texts() {
        let read = |text| Json::parse(text, 100).unwrap();
        assert_eq!(read(r#"{"a":1.0,"b":[]}"#), read("{ \"b\": [], \"a\": 1 }"));
        assert_ne!(read("1"), read("\"1\""));
        assert_eq!(read("  [1.0] ").text(), "  [1.0] ");
        assert_eq!(Json::null(), read("null"));
    }

    #[test]
    fn it_is_read_as_strictly_as_arguments() {
        for text in ["", "{\"a\":1,\"a\":2}", "NaN", "1 2", "\"\\ud800\""] {
            assert!(Json::parse(text, 100).is_err(), "{text}");
        }
        assert!(Json::parse("[1]", 2).is_err());
    }
}
