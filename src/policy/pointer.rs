//! JSON pointers (RFC 6901): where in a wrapper's arguments something stands. Pure; no policy here.

use crate::arguments::{Object, Value};

/// A pointer to a value within an object. It is never the empty pointer, which is the object itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    key: String,
    rest: Vec<String>,
}

/// Why a text is no such pointer; `offset` counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub(super) struct PointerError {
    pub(super) offset: usize,
    pub(super) problem: PointerProblem,
}

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PointerProblem {
    /// The empty pointer.
    #[error("is the arguments as a whole: name a key in them, such as `/tool`")]
    Whole,
    /// A path without a `/` in front.
    #[error("is no JSON pointer: it must start with `/`, such as `/tool`")]
    NoSlash,
    /// A `~` that escapes nothing.
    #[error("is no JSON pointer: a `~` in a key is written `~0`, and a `/` is written `~1`")]
    Escape,
}

impl Pointer {
    /// Reads a pointer.
    pub(super) fn parse(text: &str) -> Result<Self, PointerError> {
        let at = |offset, problem| PointerError { offset, problem };
        if text.is_empty() {
            return Err(at(0, PointerProblem::Whole));
        }
        let Some(path) = text.strip_prefix('/') else {
            return Err(at(0, PointerProblem::NoSlash));
        };
        let mut chars = text.chars().enumerate();
        while let Some((offset, c)) = chars.next() {
            if c == '~' && !matches!(chars.next(), Some((_, '0' | '1'))) {
                return Err(at(offset, PointerProblem::Escape));
            }
        }
        // `~01` is the key `~1`, so `~1` is read first.
        let mut keys = path
            .split('/')
            .map(|key| key.replace("~1", "/").replace("~0", "~"));
        Ok(Self {
            key: keys.next().unwrap_or_default(),
            rest: keys.collect(),
        })
    }

    /// The value at the place, if there is one.
    pub(super) fn find<'v>(&self, root: &'v Object) -> Option<&'v Value> {
        self.rest
            .iter()
            .try_fold(root.get(&self.key)?, |value, key| match value {
                Value::Object(object) => object.get(key),
                Value::Array(items) => items.get(index(key)?),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            })
    }
}

/// The position that a key means in a list: `0`, or digits without a zero in front. `-`, the item after the last, is
/// never there.
fn index(key: &str) -> Option<usize> {
    let digits = key.bytes().all(|byte| byte.is_ascii_digit());
    (digits && (key == "0" || !key.starts_with('0')))
        .then(|| key.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;

    /// The example document of RFC 6901, section 5, and what more its rules say.
    const DOCUMENT: &str = r#"{
        "foo": ["bar", "baz", {"deep": 9}], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4,
        "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8, "~1": 10, "x": {"": {"": 11}, "0": 12}
    }"#;

    #[test]
    fn a_pointer_finds_what_rfc_6901_says() {
        let document = Arguments::parse(DOCUMENT, 1024).unwrap();
        let find = |pointer: &str| {
            let pointer = Pointer::parse(pointer).unwrap();
            pointer.find(document.object()).map(Value::canonical)
        };
        for (pointer, expected) in [
            ("/foo", Some(r#"["bar","baz",{"deep":9}]"#)),
            ("/foo/0", Some(r#""bar""#)),
            ("/foo/2/deep", Some("9")),
            ("/", Some("0")),
            ("/a~1b", Some("1")),
            ("/c%d", Some("2")),
            ("/e^f", Some("3")),
            ("/g|h", Some("4")),
            ("/i\\j", Some("5")),
            ("/k\"l", Some("6")),
            ("/ ", Some("7")),
            ("/m~0n", Some("8")),
            ("/~01", Some("10")),
            ("/x//", Some("11")),
            ("/x/0", Some("12")),
            ("/nothing", None),
            ("/foo/3", None),
            ("/foo/-", None),
            ("/foo/00", None),
            ("/foo/+1", None),
            ("/foo/", None),
            ("/foo/99999999999999999999999", None),
            ("/foo/0/0", None),
            ("/a~1b/x", None),
        ] {
            assert_eq!(find(pointer).as_deref(), expected, "{pointer}");
        }
    }

    #[test]
    fn what_is_no_pointer_is_refused_where_it_is_wrong() {
        for (text, offset, problem) in [
            ("", 0, PointerProblem::Whole),
            ("tool", 0, PointerProblem::NoSlash),
            ("#/tool", 0, PointerProblem::NoSlash),
            ("$.tool", 0, PointerProblem::NoSlash),
            ("/a~", 2, PointerProblem::Escape),
            ("/é~2", 2, PointerProblem::Escape),
            ("/~0~", 3, PointerProblem::Escape),
            ("/~/", 1, PointerProblem::Escape),
        ] {
            assert_eq!(
                Pointer::parse(text),
                Err(PointerError { offset, problem }),
                "{text}"
            );
        }
    }
}
