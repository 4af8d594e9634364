//! Texts and JSON as CEL values, and how large each is, which is found on the way.

use std::collections::{BTreeMap, HashMap};

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::Val;

use crate::arguments::{Object, Value};

/// A fact as CEL sees it.
pub(super) struct Fact<'a> {
    pub(super) value: Box<dyn Val + 'a>,
    pub(super) size: Size,
}

/// How large a value is, level by level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// No list and no map, of this weight.
    Scalar(u64),
    /// The largest weight and the largest length of anything that is so many levels down; the value itself is the first.
    Levels(Vec<Level>),
}

impl Size {
    /// The weight of the value itself.
    pub(super) fn weight(&self) -> u64 {
        match self {
            Self::Scalar(weight) => *weight,
            Self::Levels(levels) => levels.first().map_or(0, |level| level.weight),
        }
    }
}

/// The largest of what stands on one level of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) weight: u64,
    pub(super) len: u64,
}

impl Level {
    /// The larger weight and the larger length.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            weight: self.weight.max(other.weight),
            len: self.len.max(other.len),
        }
    }
}

/// Weights: roughly the nanoseconds that copying, comparing or dropping costs.
pub(super) const SCALAR_WEIGHT: u64 = 16;
const LIST_WEIGHT: u64 = 32;
const MAP_WEIGHT: u64 = 64;
const ENTRY_WEIGHT: u64 = 64;

impl<'a> Fact<'a> {
    pub(super) fn scalar(value: impl Val + 'a) -> Self {
        Self {
            value: Box::new(value),
            size: Size::Scalar(SCALAR_WEIGHT),
        }
    }

    pub(super) fn boolean(value: bool) -> Self {
        Self::scalar(CelBool::from(value))
    }

    pub(super) fn text(value: &'a str) -> Self {
        let (value, weight) = text(value);
        Self {
            value,
            size: Size::Scalar(weight),
        }
    }

    pub(super) fn texts(values: &'a [String]) -> Self {
        let mut sizes = Sizes::default();
        let mut list = Vec::with_capacity(values.len());
        let weight = values.iter().fold(LIST_WEIGHT, |sum, value| {
            let (value, weight) = text(value);
            list.push(value);
            sizes.note(1, Level { weight, len: 0 });
            sum + weight
        });
        sizes.note(
            0,
            Level {
                weight,
                len: length(list.len()),
            },
        );
        Self {
            value: Box::new(CelList::from(list)),
            size: sizes.finish(),
        }
    }

    pub(super) fn map(entries: &'a BTreeMap<String, String>) -> Self {
        let mut sizes = Sizes::default();
        let mut map = HashMap::with_capacity(entries.len());
        let weight = entries.iter().fold(MAP_WEIGHT, |sum, (key, value)| {
            let (value, value_weight) = text(value);
            map.insert(CelMapKey::String(CelString::from(key.as_str())), value);
            let key_weight = ENTRY_WEIGHT + length(key.len());
            sizes.note(
                1,
                Level {
                    weight: value_weight.max(key_weight),
                    len: 0,
                },
            );
            sum + key_weight + value_weight
        });
        sizes.note(
            0,
            Level {
                weight,
                len: length(map.len()),
            },
        );
        Self {
            value: Box::new(CelMap::from(map)),
            size: sizes.finish(),
        }
    }

    pub(super) fn json(value: &'a Value) -> Self {
        match value {
            Value::Array(_) | Value::Object(_) => {
                let mut sizes = Sizes::default();
                let (value, _) = convert(value, 0, &mut sizes);
                Self {
                    value,
                    size: sizes.finish(),
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                let (value, weight) = convert(value, 0, &mut Sizes::default());
                Self {
                    value,
                    size: Size::Scalar(weight),
                }
            }
        }
    }

    pub(super) fn object(object: &'a Object) -> Self {
        let mut sizes = Sizes::default();
        let (value, _) = convert_object(object, 0, &mut sizes);
        Self {
            value,
            size: sizes.finish(),
        }
    }
}

/// Collects the levels of a value while it is converted.
#[derive(Default)]
struct Sizes(Vec<Level>);

impl Sizes {
    fn note(&mut self, level: usize, found: Level) {
        if self.0.len() <= level {
            self.0.resize(level + 1, Level::default());
        }
        if let Some(largest) = self.0.get_mut(level) {
            *largest = largest.max(found);
        }
    }

    fn finish(self) -> Size {
        Size::Levels(self.0)
    }
}

/// A JSON value as a CEL value, and its weight. JSON nests at most 64 levels, so this may recurse.
fn convert<'a>(value: &'a Value, level: usize, sizes: &mut Sizes) -> (Box<dyn Val + 'a>, u64) {
    let (value, weight, len): (Box<dyn Val + 'a>, u64, u64) = match value {
        Value::Null => (Box::new(CelNull), SCALAR_WEIGHT, 0),
        Value::Bool(value) => (Box::new(CelBool::from(*value)), SCALAR_WEIGHT, 0),
        Value::Number(number) => {
            let value: Box<dyn Val + 'a> = if let Some(int) = number.as_i64() {
                Box::new(CelInt::from(int))
            } else if let Some(uint) = number.as_u64() {
                Box::new(CelUInt::from(uint))
            } else {
                // What no double can hold was refused before: see `arguments_are_exact`.
                Box::new(CelDouble::from(number.to_f64().unwrap_or(f64::NAN)))
            };
            (value, SCALAR_WEIGHT, 0)
        }
        Value::String(value) => {
            let (value, weight) = text(value);
            (value, weight, 0)
        }
        Value::Array(items) => {
            let mut list = Vec::with_capacity(items.len());
            let mut weight = LIST_WEIGHT;
            for item in items {
                let (item, item_weight) = convert(item, level + 1, sizes);
                list.push(item);
                weight += item_weight;
            }
            let len = length(list.len());
            (Box::new(CelList::from(list)), weight, len)
        }
        Value::Object(object) => return convert_object(object, level, sizes),
    };
    sizes.note(level, Level { weight, len });
    (value, weight)
}

fn convert_object<'a>(
    object: &'a Object,
    level: usize,
    sizes: &mut Sizes,
) -> (Box<dyn Val + 'a>, u64) {
    let mut map = HashMap::with_capacity(object.len());
    let mut weight = MAP_WEIGHT;
    for (key, value) in object.iter() {
        let (value, value_weight) = convert(value, level + 1, sizes);
        let key_weight = ENTRY_WEIGHT + length(key.len());
        // A comprehension over the map goes over its keys.
        sizes.note(
            level + 1,
            Level {
                weight: key_weight,
                len: 0,
            },
        );
        weight += key_weight + value_weight;
        map.insert(CelMapKey::String(CelString::from(key)), value);
    }
    sizes.note(
        level,
        Level {
            weight,
            len: length(map.len()),
        },
    );
    (Box::new(CelMap::from(map)), weight)
}

fn text<'a>(value: &'a str) -> (Box<dyn Val + 'a>, u64) {
    (
        Box::new(CelString::from(value)),
        SCALAR_WEIGHT + length(value.len()),
    )
}

fn length(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
