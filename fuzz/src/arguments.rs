//! Canonical JSON: what is read here and what serde_json reads are the same, and one spelling stands for all.

use assent::arguments::{Arguments, JsonProblem};
use serde_json::Value;

const MAX_BYTES: usize = 64 * 1024;
const TOOL: &str = "a.tool";

/// Bytes that are no UTF-8 never arrive: a string field of the contract refuses them.
pub fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    // Empty text means no arguments, and is no JSON.
    if text.is_empty() {
        return;
    }
    let theirs: Result<Value, _> = serde_json::from_str(text);
    let arguments = match Arguments::parse(text, MAX_BYTES) {
        Ok(arguments) => arguments,
        Err(error) => {
            assert!(error.offset <= text.len(), "{error}");
            assert!(!error.to_string().contains(char::is_control), "{error:?}");
            match error.problem {
                // Stricter than JSON has to be.
                JsonProblem::TooLarge(_)
                | JsonProblem::TooDeep
                | JsonProblem::DuplicateKey(_)
                | JsonProblem::ExponentOutOfRange(_) => {}
                JsonProblem::LoneSurrogate(_)
                | JsonProblem::ControlCharacter(_)
                | JsonProblem::LeadingZero(_)
                | JsonProblem::Unexpected { .. } => {
                    let object = theirs.is_ok_and(|value| value.is_object());
                    assert!(!object, "{error}, but it is an object");
                }
            }
            return;
        }
    };
    let canonical = arguments.canonical();
    let again = Arguments::parse(&canonical, usize::MAX).expect("the canonical text is read");
    assert_eq!(again.canonical(), canonical);
    assert_eq!(again.digest(TOOL), arguments.digest(TOOL));
    assert_eq!(again, arguments);
    let spaced = Arguments::parse(&arguments.spaced(), usize::MAX);
    assert_eq!(spaced.as_ref(), Ok(&arguments));

    // A number past a double is none to serde_json.
    let Ok(theirs) = theirs else {
        return;
    };
    let reread = serde_json::from_str(&canonical).expect("the canonical text is JSON");
    assert!(same(&theirs, &reread), "{theirs} became {reread}");
    // And the spelling that serde_json gives it has the same digest, unless that rounds.
    if exact(&theirs) {
        let rewritten = Arguments::parse(&theirs.to_string(), usize::MAX);
        assert_eq!(
            rewritten.map(|it| it.digest(TOOL)),
            Ok(arguments.digest(TOOL))
        );
    }
}

/// Whether two values say the same. serde_json may read a fraction one unit in the last place off.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let (Some(x), Some(y)) = (a.as_f64(), b.as_f64()) else {
                return false;
            };
            let whole = a.as_i128().zip(b.as_i128());
            whole.map_or((x - y).abs() <= x.abs() * f64::EPSILON * 4.0, |(a, b)| {
                a == b
            })
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && (a.iter().zip(b)).all(|((k, a), (l, b))| k == l && same(a, b))
        }
        (a, b) => a == b,
    }
}

/// Whether it holds whole numbers only, of at most 64 bits.
fn exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i128().is_some(),
        Value::Array(values) => values.iter().all(exact),
        Value::Object(members) => members.values().all(exact),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}
