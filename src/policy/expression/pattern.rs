//! Regular expressions in conditions: compiled when the policy is, so that no call can bring its own.

use std::any::Any;

use cel::ExecutionError;
use cel::common::types::{CelBool, CelString, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use regex_automata::meta::{Config, Regex};

/// The largest program, in bytes, that a pattern may compile to.
const MAX_PROGRAM_BYTES: usize = 256 * 1024;
/// The smallest that is told apart.
const MIN_PROGRAM_BYTES: usize = 1024;

/// A compiled pattern, as the second operand of `matches`.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// A bound on what one byte of text can cost, in the units of `budget`.
    pub(super) cost_per_byte: u64,
}

impl Pattern {
    /// Compiles a pattern; the error says what is wrong with it.
    pub(super) fn compile(pattern: &str) -> Result<Self, String> {
        // The engine is linear in the text, but the factor is the size of the program, which it shows only by refusing
        // one past a limit. What looks ahead for literals is left out: it takes many times longer on a text that
        // nearly has them everywhere.
        let config = Config::new()
            .auto_prefilter(false)
            .hybrid_cache_capacity(MAX_PROGRAM_BYTES);
        let mut limit = MIN_PROGRAM_BYTES;
        loop {
            let config = config.clone().nfa_size_limit(Some(limit));
            match Regex::builder().configure(config).build(pattern) {
                Ok(regex) => {
                    let cost_per_byte = u64::try_from(limit / 16).unwrap_or(u64::MAX);
                    return Ok(Self {
                        regex,
                        cost_per_byte,
                    });
                }
                Err(error) => match error.syntax_error() {
                    Some(error) => {
                        // The parser draws the pattern with a caret below; its last line is the sentence.
                        let text = error.to_string();
                        let last = text.lines().last().unwrap_or_default();
                        return Err(last.strip_prefix("error: ").unwrap_or(last).to_owned());
                    }
                    None if limit < MAX_PROGRAM_BYTES => limit *= 2,
                    None => {
                        return Err("it is too large once compiled: write a shorter one, with smaller repetitions".to_owned());
                    }
                },
            }
        }
    }
}

/// `text.matches(pattern)`.
pub(super) fn matches<'b, 'v>(
    operands: Vec<CowVal<'b, 'v>>,
) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let [text, pattern] = operands.as_slice() else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    match (
        text.downcast_ref::<CelString<'_>>(),
        pattern.downcast_ref::<Pattern>(),
    ) {
        (Some(text), Some(pattern)) => Ok(CowVal::owned(CelBool::from(
            pattern.regex.is_match(text.inner()),
        ))),
        _ => Err(ExecutionError::no_such_overload(
            "matches",
            vec![text.get_type().name().to_owned()],
        )),
    }
}

static PATTERN: Type = Type::new_unspecified_type("pattern");

impl Val for Pattern {
    fn get_type(&self) -> &Type {
        &PATTERN
    }

    fn cel_type() -> &'static Type {
        &PATTERN
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Pattern {}
