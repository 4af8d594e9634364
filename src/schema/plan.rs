//! What checking a payload against a schema costs at most, found out before it is checked.
//!
//! A schema is taken apart into parts; a part leads to others that are applied to the same value (`allOf`, `$ref`)
//! and to others that are applied to a value's members or items. Keywords that are not known here lead nowhere, as
//! the library does not follow them either. Short cuts are not counted on: the cost is that of following everything.

mod cost;
mod draft;

use super::SchemaError;
use crate::arguments::Value;

/// The most parts that are applied to one value because of one another, one deep in the next.
const MAX_NESTING: usize = 32;

/// The parts of a schema; the first is the whole.
#[derive(Debug)]
pub(super) struct Plan {
    parts: Vec<Part>,
}

/// One schema within the schema.
#[derive(Debug, Default)]
struct Part {
    /// Where it stands, as a JSON pointer.
    place: String,
    /// Applied to the same value.
    beside: Vec<usize>,
    /// How often those are applied, because something asks which of them hold.
    repeats: u64,
    /// Applied to members and items.
    below: Vec<Below>,
    /// How many items `enum` has, and whether items must differ.
    choices: u64,
    is_unique: bool,
    /// How many patterns a string, or each key, is matched with.
    patterns: u64,
    key_patterns: u64,
}

/// A part that is applied within a value.
#[derive(Debug)]
enum Below {
    /// To the member of this key.
    Member(String, usize),
    /// To any member, at most.
    Members(usize),
    /// To every key.
    Keys(usize),
    /// To the item at this place.
    Item(usize, usize),
    /// To any item, at most.
    Items(usize),
}

impl Plan {
    pub(super) fn of(schema: &Value) -> Result<Self, SchemaError> {
        let parts = draft::parts(schema)?;
        let mut plan = Self { parts };
        plan.measure()?;
        Ok(plan)
    }

    /// Finds what is applied to a value without end, and how deep the rest goes.
    fn measure(&mut self) -> Result<(), SchemaError> {
        let mut heights = vec![None; self.parts.len()];
        for index in 0..self.parts.len() {
            self.height(index, &mut heights, &mut Vec::new())?;
        }
        for (part, height) in self.parts.iter_mut().zip(heights) {
            // What is not evaluated is found by evaluating everything beside it again, level by level.
            part.repeats = if part.repeats > 0 {
                1 + part.repeats * height.unwrap_or(1)
            } else {
                1
            };
        }
        Ok(())
    }

    fn height(
        &self,
        index: usize,
        heights: &mut [Option<u64>],
        path: &mut Vec<usize>,
    ) -> Result<u64, SchemaError> {
        if let Some(Some(height)) = heights.get(index) {
            return Ok(*height);
        }
        let Some(part) = self.parts.get(index) else {
            return Ok(0);
        };
        if path.contains(&index) {
            return Err(SchemaError::Endless(part.place.clone()));
        }
        if path.len() >= MAX_NESTING {
            return Err(SchemaError::TooComplex(
                "too many parts apply to one value, one by way of the next",
            ));
        }
        path.push(index);
        let mut height = 0;
        for beside in &part.beside {
            height = self.height(*beside, heights, path)?.max(height);
        }
        path.pop();
        let height = height + 1;
        if usize::try_from(height).is_ok_and(|height| height > MAX_NESTING) {
            return Err(SchemaError::TooComplex(
                "too many parts apply to one value, one by way of the next",
            ));
        }
        if let Some(slot) = heights.get_mut(index) {
            *slot = Some(height);
        }
        Ok(height)
    }

    /// What checking a value costs at most; none where that is more than it may.
    pub(super) fn cost(&self, value: &Value) -> Option<u64> {
        cost::of(&self.parts, value)
    }
}

/// How large a value is, in bytes, roughly.
fn weight(value: &Value) -> u64 {
    8 + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => count(text.len()),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(object) => object
            .iter()
            .map(|(key, value)| count(key.len()) + weight(value))
            .sum(),
    }
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
