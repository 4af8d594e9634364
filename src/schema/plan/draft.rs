//! Taking a schema apart: which keyword leads to which part.

use std::collections::HashMap;

use super::{Below, Part, weight};
use crate::arguments::{Object, Value};
use crate::schema::SchemaError;

/// The most parts of a schema.
const MAX_PARTS: usize = 20_000;
/// The most patterns of a schema: compiling one may take a millisecond.
const MAX_PATTERNS: u64 = 200;
/// The keywords whose members are schemas.
const MEMBERS: [&str; 6] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
];

/// The parts of a schema; the first is the whole.
pub(super) fn parts(schema: &Value) -> Result<Vec<Part>, SchemaError> {
    let mut draft = Draft {
        root: schema,
        anchors: HashMap::new(),
        known: HashMap::new(),
        queue: Vec::new(),
    };
    draft.name(schema, "", Holds::Schema)?;
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
    Ok(parts)
}

/// What an object of a schema holds under its keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// Keywords: it is a schema.
    Schema,
    /// Schemas, under names of any kind: `default` is no keyword here.
    Members,
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
    fn name(&mut self, value: &'s Value, place: &str, holds: Holds) -> Result<(), SchemaError> {
        match value {
            Value::Object(object) => {
                if holds == Holds::Schema {
                    no_address(object, place)?;
                }
                for (key, inner) in object.iter() {
                    let holds = match (holds, key, inner) {
                        (Holds::Members, _, _) => Holds::Schema,
                        (Holds::Schema, "$anchor" | "$dynamicAnchor", Value::String(anchor)) => {
                            let found = (value, place.to_owned());
                            self.anchors.insert(anchor, found);
                            continue;
                        }
                        // Values, in which nothing has a meaning.
                        (Holds::Schema, "const" | "enum" | "default" | "examples", _) => continue,
                        (Holds::Schema, keyword, _) if MEMBERS.contains(&keyword) => Holds::Members,
                        (Holds::Schema, _, _) => Holds::Schema,
                    };
                    self.name(inner, &format!("{place}/{}", escaped(key)), holds)?;
                }
                Ok(())
            }
            Value::Array(items) => (0..).zip(items).try_for_each(|(index, item)| {
                self.name(item, &format!("{place}/{index}"), Holds::Schema)
            }),
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
        // A reference may lead into what is a value elsewhere.
        no_address(schema, &place)?;
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

/// Refuses a schema that has an address of its own: what it refers to would depend on it.
fn no_address(schema: &Object, place: &str) -> Result<(), SchemaError> {
    let embedded = |keyword: &'static str| match schema.get(keyword) {
        Some(Value::String(_)) => Err(SchemaError::Embedded {
            keyword,
            place: format!("{place}/{keyword}"),
        }),
        _ => Ok(()),
    };
    if !place.is_empty() {
        embedded("$id")?;
    }
    embedded("id")
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
