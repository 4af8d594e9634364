//! Why an expression was refused or failed, in words for whoever wrote it or is refused by it.
//!
//! Texts name keys, types and operators. They never hold a value of the call, as arguments are masked in logs, and
//! never a type of the interpreter.

use cel::{ExecutionError, ParseErrors};

use super::check::{Problem, too_deep};
use super::facts::{Absent, Facts, Read};
use super::habits::instead_of_operator_at;
use super::slots::slot_of;

/// Why the parser refused a text.
pub(super) fn syntax(source: &str, errors: &ParseErrors) -> Problem {
    let Some(error) = errors.errors.first() else {
        return Problem {
            offset: 0,
            message: "this is no CEL expression".to_owned(),
        };
    };
    let (line, column) = error.pos;
    let index = |n: isize| usize::try_from(n.saturating_sub(1)).unwrap_or(0);
    let before: usize = source
        .split_inclusive('\n')
        .take(index(line))
        .map(|line| line.chars().count())
        .sum();
    let text = error
        .msg
        .strip_prefix("Syntax error: ")
        .unwrap_or(&error.msg);
    let text = text.split(" expecting ").next().unwrap_or(text);
    let offset = before + index(column);
    if text.to_lowercase().contains("recursion limit") {
        return too_deep(offset);
    }
    let message = if text.contains("<EOF>") {
        "the expression ends too early".to_owned()
    } else {
        let quoted = text
            .split_once('\'')
            .and_then(|(_, rest)| rest.rsplit_once('\''))
            .map(|(quoted, _)| quoted);
        match quoted {
            Some(token) if text.contains("input") || text.contains("token") => {
                format!(
                    "this is no CEL expression: unexpected `{}`{}",
                    token.trim_end().escape_debug(),
                    instead_of_operator_at(source, offset)
                )
            }
            Some(_) | None => match text.strip_prefix("reserved identifier: ") {
                Some(word) => format!("`{word}` is reserved in CEL and can be no name"),
                // Of its own types the parser speaks with an exclamation.
                None if text.contains("Error") || text.ends_with('!') => {
                    "this is no CEL expression".to_owned()
                }
                None => format!(
                    "this is no CEL expression: {}",
                    text.replace('\'', "`").replace('\n', " ")
                ),
            },
        }
    };
    Problem { offset, message }
}

/// Why an evaluation failed.
pub(super) fn failure(error: &ExecutionError, facts: &Facts<'_>, reads: &[Read]) -> String {
    match error {
        ExecutionError::UndeclaredReference(name) => absence(name, facts, reads),
        // The key may have been computed from the arguments, which no reason shows.
        ExecutionError::NoSuchKey(_) => "a map does not have a key that is read".to_owned(),
        ExecutionError::NoSuchOverload(overload) => operands(
            overload.function(),
            overload.argument_types().iter().map(String::as_str),
        ),
        ExecutionError::UnexpectedType { got, want } => {
            format!(
                "a value of type {} where {} is needed",
                type_name(got),
                type_name(want)
            )
        }
        ExecutionError::UnsupportedBinaryOperator(operator, left, right) => {
            let types = [left, right].map(|value| value.type_of().to_string());
            operands(operator, types.iter().map(String::as_str))
        }
        ExecutionError::ValuesNotComparable(left, right) => {
            let types = [left, right].map(|value| value.type_of().to_string());
            operands("comparison", types.iter().map(String::as_str))
        }
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "it divides by zero".to_owned()
        }
        ExecutionError::Overflow(operator, ..) => format!("{} overflows", operator_name(operator)),
        ExecutionError::IndexOutOfBounds(_) => "an index is past the end of its list".to_owned(),
        ExecutionError::UnsupportedIndex(..) => "an index is no whole number".to_owned(),
        ExecutionError::UnsupportedKeyType(_) => {
            "a value that can be no key is used as one".to_owned()
        }
        ExecutionError::DuplicateKey(_) => "a map has one key twice".to_owned(),
        ExecutionError::FunctionError { function, .. } => {
            format!("`{function}` cannot take its operand")
        }
        ExecutionError::NotSupportedAsMethod { method, .. } => {
            format!("`{method}` does not apply to its operand")
        }
        // The rest cannot come of an expression that was checked, and their texts may hold values.
        _ => "the expression failed".to_owned(),
    }
}

/// The name that an expression uses for a type.
pub(super) fn type_name(name: &str) -> &str {
    match name {
        "null_type" => "null",
        "float" => "double",
        "google.protobuf.Timestamp" => "timestamp",
        "google.protobuf.Duration" => "duration",
        name => name.split('(').next().unwrap_or(name),
    }
}

fn no_such_key(key: &str) -> String {
    let short: String = key.chars().take(64).flat_map(char::escape_debug).collect();
    format!("no such key: `{short}`")
}

fn absence(name: &str, facts: &Facts<'_>, reads: &[Read]) -> String {
    let Some(slot) = slot_of(name) else {
        return "the expression failed".to_owned();
    };
    match facts.absent(slot) {
        Some(Absent::Key(key)) => no_such_key(key),
        Some(Absent::Object(kind)) => {
            let read = usize::try_from(slot).ok().and_then(|slot| reads.get(slot));
            let keys = match read {
                Some(Read::Argument(keys) | Read::HasArgument(keys)) => {
                    format!("args.{}", keys.join("."))
                }
                Some(_) | None => "args".to_owned(),
            };
            format!(
                "`{}` goes through a value of type {kind}, which has no keys",
                keys.escape_debug()
            )
        }
        Some(Absent::Principal) => {
            "it reads `principal`, and the call names no principal".to_owned()
        }
        Some(Absent::Origin) => "it reads `tool.origin`, and the call names no origin".to_owned(),
        Some(Absent::Time) => "it reads `now`, which is out of range".to_owned(),
        None => "the expression failed".to_owned(),
    }
}

fn operands<'t>(function: &str, types: impl Iterator<Item = &'t str>) -> String {
    let types: Vec<&str> = types.map(type_name).collect();
    format!(
        "{} does not apply to {}",
        operator_name(function),
        types.join(" and ")
    )
}

/// How an expression writes an operator that the interpreter calls by a name of its own.
pub(super) fn operator_name(name: &str) -> String {
    let name = match name {
        "add" => "+",
        "sub" => "-",
        "mul" => "*",
        "div" => "/",
        "rem" => "%",
        "negate" => "-",
        "_[_]" => "[]",
        "_._" => ".",
        "_?_:_" => "? :",
        "@in" => "in",
        name => name.trim_matches('_'),
    };
    format!("`{name}`")
}
