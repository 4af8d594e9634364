//! What checking a payload against a schema costs at most, found out before it is checked.
//!
//! A schema is taken apart into parts; a part leads to others that are applied to the same value (`allOf`, `$ref`)
//! and to others that are applied to a value's members or items. Keywords that are not known here lead nowhere, as
//! the library does not follow them either. Short cuts are not counted on: the cost is that of following everything.

use std::collections::HashMap;

use super::SchemaError;
use crate::arguments::{Object, Value};

/// The most parts of a schema.
const MAX_PARTS: usize = 20_000;
/// The most patterns of a schema: compiling one may take a millisecond.
const MAX_PATTERNS: u64 = 200;
/// The most parts that are applied to one value because of one another, one deep in the next.
const MAX_NESTING: usize = 32;
/// The most that a check may cost, in nanoseconds, roughly.
const MAX_COST: u64 = 50_000_000;

/// What one part costs by itself, what an item of `enum` does, and what a byte does that is compared or matched.
const PART: u64 = 50;
const CHOICE: u64 = 4;
const COMPARED: u64 = 2;
const MATCHED: u64 = 32;

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
        let mut draft = Draft {
            root: schema,
            anchors: HashMap::new(),
            known: HashMap::new(),
            queue: Vec::new(),
        };
        draft.name(schema, "")?;
        draft.part(schema, String::new());
        let mut parts = Vec::new();
        while let Some((value, place)) = draft.queue.get(parts.len()).cloned() {
            if parts.len() >= MAX_PARTS {
                return Err(SchemaError::TooComplex("it has too many parts"));
            }
            parts.push(draft.read(value, place)?);
        }
        let patterns = parts.iter().map(|part| part.patterns + part.key_patterns);
        if patterns.sum::<u64>() > MAX_PATTERNS {
            return Err(SchemaError::TooComplex("it has too many patterns"));
        }
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
        let mut walk = Walk {
            parts: &self.parts,
            known: HashMap::new(),
            spent: 0,
        };
        walk.cost(0, value)
    }
}

/// A schema while it is taken apart.
struct Draft<'s> {
    root: &'s Value,
    anchors: HashMap<&'s str, (&'s Value, String)>,
    /// The number of each part, by where it lies in memory.
    known: HashMap<*const Value, usize>,
    queue: Vec<(&'s Value, String)>,
}

impl<'s> Draft<'s> {
    /// Notes the anchors, and refuses addresses within the schema.
    fn name(&mut self, value: &'s Value, place: &str) -> Result<(), SchemaError> {
        match value {
            Value::Object(object) => {
                for (key, inner) in object.iter() {
                    let place_of = || format!("{place}/{}", escaped(key));
                    match (key, inner) {
                        ("$anchor" | "$dynamicAnchor", Value::String(anchor)) => {
                            let found = (value, place.to_owned());
                            self.anchors.insert(anchor, found);
                        }
                        ("$id", Value::String(_)) if !place.is_empty() => {
                            return Err(SchemaError::Embedded {
                                keyword: "$id",
                                place: place_of(),
                            });
                        }
                        ("id", Value::String(_)) => {
                            return Err(SchemaError::Embedded {
                                keyword: "id",
                                place: place_of(),
                            });
                        }
                        // Values, in which nothing has a meaning.
                        ("const" | "enum" | "default" | "examples", _) => {}
                        (_, Value::Object(_) | Value::Array(_)) => self.name(inner, &place_of())?,
                        (_, Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                        }
                    }
                }
                Ok(())
            }
            Value::Array(items) => (0..)
                .zip(items)
                .try_for_each(|(index, item)| self.name(item, &format!("{place}/{index}"))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    /// The number of a part, which is read later if it is new.
    fn part(&mut self, value: &'s Value, place: String) -> usize {
        let next = self.queue.len();
        let index = *self.known.entry(std::ptr::from_ref(value)).or_insert(next);
        if index == next {
            self.queue.push((value, place));
        }
        index
    }

    fn read(&mut self, value: &'s Value, place: String) -> Result<Part, SchemaError> {
        let mut part = Part {
            place: place.clone(),
            ..Part::default()
        };
        let Value::Object(schema) = value else {
            return Ok(part);
        };
        for (keyword, inner) in schema.iter() {
            let place = format!("{place}/{}", escaped(keyword));
            self.read_keyword(&mut part, keyword, inner, &place)?;
        }
        Ok(part)
    }

    fn read_keyword(
        &mut self,
        part: &mut Part,
        keyword: &str,
        inner: &'s Value,
        place: &str,
    ) -> Result<(), SchemaError> {
        match (keyword, inner) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                let (target, target_place) = self.target(reference, place)?;
                let target = self.part(target, target_place);
                part.beside.push(target);
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(items)) => {
                for (index, item) in (0..).zip(items) {
                    let index: usize = index;
                    let beside = self.part(item, format!("{place}/{index}"));
                    part.beside.push(beside);
                }
            }
            ("not" | "if" | "then" | "else", _) => {
                let beside = self.part(inner, place.to_owned());
                part.beside.push(beside);
            }
            ("dependentSchemas" | "dependencies", Value::Object(members)) => {
                for (_, index) in self.members(members, place) {
                    part.beside.push(index);
                }
            }
            ("properties", Value::Object(members)) => {
                let members = self.members(members, place).into_iter();
                part.below
                    .extend(members.map(|(key, index)| Below::Member(key, index)));
            }
            ("patternProperties", Value::Object(members)) => {
                for (_, index) in self.members(members, place) {
                    part.below.push(Below::Members(index));
                    part.key_patterns += 1;
                }
            }
            ("additionalProperties", _) => {
                part.below
                    .push(Below::Members(self.part(inner, place.to_owned())));
            }
            ("unevaluatedProperties", _) => {
                part.below
                    .push(Below::Members(self.part(inner, place.to_owned())));
                part.repeats += 1;
            }
            ("propertyNames", _) => {
                part.below
                    .push(Below::Keys(self.part(inner, place.to_owned())));
            }
            ("items" | "prefixItems", Value::Array(items)) => {
                for (position, item) in (0..).zip(items) {
                    let index = self.part(item, format!("{place}/{position}"));
                    part.below.push(Below::Item(position, index));
                }
            }
            ("items" | "additionalItems" | "contains", _) => {
                part.below
                    .push(Below::Items(self.part(inner, place.to_owned())));
            }
            ("unevaluatedItems", _) => {
                part.below
                    .push(Below::Items(self.part(inner, place.to_owned())));
                part.repeats += 1;
            }
            ("pattern", _) => part.patterns += 1,
            ("enum", Value::Array(choices)) => {
                part.choices = choices.iter().map(weight).sum();
            }
            ("const", choice) => part.choices += weight(choice),
            ("uniqueItems", _) => part.is_unique = true,
            (_, _) => {}
        }
        Ok(())
    }

    fn members(&mut self, members: &'s Object, place: &str) -> Vec<(String, usize)> {
        let members = members.iter();
        members
            .map(|(key, value)| {
                let place = format!("{place}/{}", escaped(key));
                (key.to_owned(), self.part(value, place))
            })
            .collect()
    }

    /// What a reference names; always in this very document.
    fn target(&self, reference: &str, place: &str) -> Result<(&'s Value, String), SchemaError> {
        let Some(fragment) = reference.strip_prefix('#') else {
            return Err(SchemaError::Remote {
                reference: reference.to_owned(),
                place: place.to_owned(),
            });
        };
        let fragment = percent_decoded(fragment);
        let found = if fragment.is_empty() {
            Some((self.root, String::new()))
        } else if let Some(pointer) = fragment.strip_prefix('/') {
            let segments = pointer.split('/');
            let mut value = Some(self.root);
            for segment in segments {
                value = value.and_then(|value| step(value, segment));
            }
            value.map(|value| (value, fragment.clone()))
        } else {
            self.anchors.get(fragment.as_str()).cloned()
        };
        found.ok_or_else(|| SchemaError::Dangling {
            reference: reference.to_owned(),
            place: place.to_owned(),
        })
    }
}

/// One step of a JSON pointer (RFC 6901).
fn step<'s>(value: &'s Value, segment: &str) -> Option<&'s Value> {
    match value {
        Value::Object(object) => object.get(&segment.replace("~1", "/").replace("~0", "~")),
        Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// A fragment without its percent escapes; one that is none is left as it is, and then names nothing.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let escape = after.first_chunk::<2>().filter(|_| *byte == b'%');
        let decoded = escape.and_then(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        });
        match decoded {
            Some(decoded) => {
                bytes.push(decoded);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// A check that is counted instead of done.
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
