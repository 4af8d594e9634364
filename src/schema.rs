//! JSON Schemas from callers (S6, S9): compiled when a webhook wait is opened, and what its payload must fit.
//!
//! Whoever writes the schema is not trusted, nor is who sends the payload. So before the library sees them, `plan`
//! has found out what checking costs at most: a schema that refers to other documents, or to itself without going
//! deeper into the payload, is refused, and so is a payload that would take too long. Patterns run on an engine
//! that is linear in the text. `format` says something to readers and is not checked. Pure, and the one home of
//! `jsonschema`; it needs the stack that [`STACK_BYTES`] names.

mod plan;

use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value as Plain};

use self::plan::Plan;
use crate::arguments::{InexactNumber, Json, Value};

/// The stack that compiling and checking need at most, with room to spare.
pub const STACK_BYTES: usize = 64 * 1024 * 1024;

/// The most memory that a compiled pattern may take, and its automaton while it runs.
const PATTERN_BYTES: usize = 128 * 1024;
const AUTOMATON_BYTES: usize = 2 * 1024 * 1024;

/// Checks that cost less than this are done once more for a misfit, to say where it is.
const CHEAP: u64 = 500_000;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    plan: Plan,
}

/// Why a text is no schema that payloads can be checked against.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It holds a number that cannot be compared exactly.
    #[error("{0}")]
    Number(InexactNumber),
    /// It refers to another document, which is never fetched.
    #[error(
        "`{reference}` at `{place}` refers to another document: put what it names under `$defs` and refer to it by `#/$defs/NAME`"
    )]
    Remote {
        /// The reference.
        reference: String,
        /// Where it stands, as a JSON pointer.
        place: String,
    },
    /// It refers to nothing.
    #[error("`{reference}` at `{place}` refers to nothing in this schema")]
    Dangling {
        /// The reference.
        reference: String,
        /// Where it stands.
        place: String,
    },
    /// It gives a part of itself an address of its own.
    #[error(
        "`{keyword}` at `{place}` gives a part of the schema another base: only the whole may have an `$id`"
    )]
    Embedded {
        /// `$id` or `id`.
        keyword: &'static str,
        /// Where it stands.
        place: String,
    },
    /// A part of it applies to a value by way of applying to that value.
    #[error("the schema applies itself to the same value without end at `{0}`")]
    Endless(String),
    /// It is larger, or deeper, than can be checked in bounded time.
    #[error("the schema is too complex: {0}")]
    TooComplex(&'static str),
    /// The library refuses it.
    #[error("at `{place}`: {message}")]
    Invalid {
        /// Where, as a JSON pointer.
        place: String,
        /// Why.
        message: String,
    },
}

/// Why a payload is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// It holds a number that cannot be compared exactly.
    #[error("{0}")]
    Number(InexactNumber),
    /// Checking it would take too long.
    #[error(
        "checking this payload against its schema would take too long: send less, or ask with a simpler schema"
    )]
    TooCostly,
    /// It does not fit.
    #[error("does not fit the schema{}{message}", at(.place))]
    Unfit {
        /// Where, as a JSON pointer into the payload; empty where that is not known.
        place: String,
        /// Why, with a colon before it; empty where that is not known.
        message: String,
    },
}

fn at(place: &str) -> String {
    if place.is_empty() {
        String::new()
    } else {
        format!(" at `{place}`")
    }
}

impl Schema {
    /// Compiles a schema of any draft from 4 to 2020-12; without `$schema` it is 2020-12.
    ///
    /// # Errors
    /// When it is no schema, refers elsewhere or could not be checked in bounded time.
    pub fn compile(schema: &Json) -> Result<Self, SchemaError> {
        let value = schema.value();
        value.exact_in_rules().map_err(SchemaError::Number)?;
        let plan = Plan::of(value)?;
        let mut plain = plain(value);
        if let Plain::Object(root) = &mut plain {
            // An address of its own would say nothing here, and might be that of a schema the library knows.
            root.remove("$id");
        }
        let patterns = PatternOptions::regex()
            .size_limit(PATTERN_BYTES)
            .dfa_size_limit(AUTOMATON_BYTES);
        let validator = jsonschema::options()
            .with_pattern_options(patterns)
            .should_validate_formats(false)
            .offline()
            .build(&plain)
            .map_err(|error| SchemaError::Invalid {
                place: error.instance_path().to_string(),
                message: error.to_string(),
            })?;
        Ok(Self { validator, plan })
    }

    /// Checks a payload.
    ///
    /// # Errors
    /// When it does not fit, or that cannot be found out exactly and in bounded time.
    pub fn check(&self, payload: &Json) -> Result<(), Misfit> {
        let value = payload.value();
        value.exact_in_rules().map_err(Misfit::Number)?;
        let cost = self.plan.cost(value).ok_or(Misfit::TooCostly)?;
        let plain = plain(value);
        if self.validator.is_valid(&plain) {
            return Ok(());
        }
        // Telling why costs more than telling that.
        let error = (cost < CHEAP)
            .then(|| self.validator.validate(&plain).err())
            .flatten();
        Err(error.map_or_else(
            || Misfit::Unfit {
                place: String::new(),
                message: String::new(),
            },
            |error| Misfit::Unfit {
                place: error.instance_path().to_string(),
                message: format!(": {}", error.masked()),
            },
        ))
    }
}

/// A value as the library reads it. Its numbers are [exact](Value::exact_in_rules).
fn plain(value: &Value) -> Plain {
    match value {
        Value::Null => Plain::Null,
        Value::Bool(value) => Plain::Bool(*value),
        Value::Number(number) => {
            let unsigned = number.as_u64().map(Plain::from);
            let integer = unsigned.or_else(|| number.as_i64().map(Plain::from));
            integer.unwrap_or_else(|| number.to_f64().map_or(Plain::Null, Plain::from))
        }
        Value::String(text) => Plain::String(text.clone()),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(object) => {
            let members = object.iter();
            let members = members.map(|(key, value)| (key.to_owned(), plain(value)));
            Plain::Object(members.collect::<Map<_, _>>())
        }
    }
}

#[cfg(test)]
mod tests;
