//! A check that is counted instead of done: what it would cost at most.

use std::collections::HashMap;

use super::{Below, Part, count, weight};
use crate::arguments::Value;

/// The most that a check may cost, in nanoseconds, roughly.
const MAX_COST: u64 = 50_000_000;

/// What one part costs by itself, what an item of `enum` does, and what a byte does that is compared or matched.
const PART: u64 = 50;
const CHOICE: u64 = 4;
const COMPARED: u64 = 2;
const MATCHED: u64 = 32;

/// What checking a value against the first of the parts costs at most; none where that is more than it may.
pub(super) fn of(parts: &[Part], value: &Value) -> Option<u64> {
    let mut walk = Walk {
        parts,
        known: HashMap::new(),
        spent: 0,
    };
    walk.cost(0, value)
}

/// What has been counted so far.
struct Walk<'p> {
    parts: &'p [Part],
    /// What a part costs at a value, by where that lies in memory.
    known: HashMap<(usize, *const Value), u64>,
    /// What counting itself has cost.
    spent: u64,
}

impl Walk<'_> {
    fn cost(&mut self, index: usize, value: &Value) -> Option<u64> {
        let key = (index, std::ptr::from_ref(value));
        if let Some(cost) = self.known.get(&key) {
            return Some(*cost);
        }
        let part = self.parts.get(index)?;
        let mut beside = 0_u64;
        for index in &part.beside {
            beside = within(beside.checked_add(self.cost(*index, value)?))?;
        }
        let own = own(part, value);
        self.spend(own)?;
        let mut cost = within(own.checked_add(beside.checked_mul(part.repeats)?))?;
        for below in &part.below {
            match (below, value) {
                (Below::Member(key, index), Value::Object(object)) => {
                    if let Some(member) = object.get(key) {
                        cost = within(cost.checked_add(self.cost(*index, member)?))?;
                    }
                }
                (Below::Members(index), Value::Object(object)) => {
                    for (_, member) in object.iter() {
                        cost = within(cost.checked_add(self.cost(*index, member)?))?;
                    }
                }
                (Below::Keys(index), Value::Object(object)) => {
                    for (key, _) in object.iter() {
                        let one = self.cost_of_key(*index, key)?;
                        cost = within(cost.checked_add(one))?;
                    }
                }
                (Below::Item(position, index), Value::Array(items)) => {
                    if let Some(item) = items.get(*position) {
                        cost = within(cost.checked_add(self.cost(*index, item)?))?;
                    }
                }
                (Below::Items(index), Value::Array(items)) => {
                    for item in items {
                        cost = within(cost.checked_add(self.cost(*index, item)?))?;
                    }
                }
                (
                    Below::Member(..)
                    | Below::Members(_)
                    | Below::Keys(_)
                    | Below::Item(..)
                    | Below::Items(_),
                    _,
                ) => {}
            }
        }
        self.known.insert(key, cost);
        Some(cost)
    }

    /// A key is a string that lies nowhere, so what it costs is not remembered.
    fn cost_of_key(&mut self, index: usize, key: &str) -> Option<u64> {
        let part = self.parts.get(index)?;
        let mut beside = 0_u64;
        for index in &part.beside {
            beside = within(beside.checked_add(self.cost_of_key(*index, key)?))?;
        }
        let own = own_of_text(part, key);
        self.spend(own)?;
        within(own.checked_add(beside.checked_mul(part.repeats)?))
    }

    fn spend(&mut self, cost: u64) -> Option<()> {
        self.spent = within(self.spent.checked_add(cost))?;
        Some(())
    }
}

fn within(cost: Option<u64>) -> Option<u64> {
    cost.filter(|cost| *cost <= MAX_COST)
}

/// What a part costs at a value, without what it leads to.
fn own(part: &Part, value: &Value) -> u64 {
    let cost = PART
        + PART * count(part.beside.len() + part.below.len())
        + part.choices.saturating_mul(CHOICE);
    cost + match value {
        Value::String(text) => own_of_text(part, text),
        Value::Array(_) if part.is_unique => weight(value).saturating_mul(COMPARED),
        Value::Object(object) => {
            let keys: u64 = object.iter().map(|(key, _)| 1 + count(key.len())).sum();
            keys * (COMPARED + part.key_patterns.saturating_mul(MATCHED))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => 0,
    }
}

fn own_of_text(part: &Part, text: &str) -> u64 {
    PART + count(text.len()) * (COMPARED + part.patterns * MATCHED)
}
