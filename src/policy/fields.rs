//! How one key of the document is read: its type, its range, and the error when it is something else.

use std::time::Duration;

use super::document::Text;
use super::error::{Place, PolicyError, listed, quoted, suggestion};
use super::yaml::{Entry, Kind, Node, Type};
use crate::domain::{DurationError, Id, parse_duration};

/// The longest duration a document may have: ten years.
const MAX_DURATION: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// The keys of one mapping, taken one by one; all are known.
pub(super) struct Keys<'s> {
    what: &'static str,
    place: Place<'s>,
    entries: Vec<Entry<'s>>,
}

impl<'s> Keys<'s> {
    /// The keys of a mapping. What is not known is refused.
    pub(super) fn of(
        what: &'static str,
        node: Node<'s>,
        known: &[&str],
    ) -> Result<Self, PolicyError> {
        let place = node.place;
        let found = node.describe();
        let Kind::Map(entries) = node.kind else {
            return Err(place.error(format!(
                "{what}: expected keys with values ({}), found {found}",
                listed(known)
            )));
        };
        if entries.is_empty() {
            return Err(place.error(format!(
                "{what} has no keys: write at least one of {}",
                listed(known)
            )));
        }
        for entry in &entries {
            let key = entry.key.as_str();
            if !known.contains(&key) {
                return Err(entry.place.error(format!(
                    "{} is no key of {what}, which are {}{}",
                    quoted(key),
                    listed(known),
                    suggestion(key, known)
                )));
            }
        }
        Ok(Self {
            what,
            place,
            entries,
        })
    }

    /// The keys that are left.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry<'s>> {
        self.entries.iter()
    }

    /// One key, if it is there.
    pub(super) fn take(&mut self, key: &str) -> Option<Entry<'s>> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.swap_remove(index))
    }

    /// One key that must be there.
    pub(super) fn require(&mut self, key: &str) -> Result<Entry<'s>, PolicyError> {
        let (what, place) = (self.what, self.place);
        self.take(key)
            .ok_or_else(|| place.error(format!("{what} needs `{key}`: add it")))
    }
}

/// A string.
pub(super) fn text(entry: Entry<'_>) -> Result<Text<'_>, PolicyError> {
    string(&entry.key, entry.value)
}

/// A string of at most so many bytes.
pub(super) fn short_text(entry: Entry<'_>, limit: usize) -> Result<String, PolicyError> {
    let text = text(entry)?;
    if text.value.len() > limit {
        return Err(text.place().error(format!(
            "{} has more than {limit} bytes",
            quoted(&text.value)
        )));
    }
    Ok(text.value)
}

/// A list of strings.
pub(super) fn texts(entry: Entry<'_>) -> Result<Vec<Text<'_>>, PolicyError> {
    let key = entry.key.clone();
    items(entry)?
        .into_iter()
        .map(|item| string(&key, item))
        .collect()
}

/// A list of anything.
pub(super) fn items(entry: Entry<'_>) -> Result<Vec<Node<'_>>, PolicyError> {
    let found = entry.value.describe();
    let hint = match &entry.value.kind {
        Kind::Scalar(scalar) if scalar.type_of() == Type::String => {
            format!(": write `[{:?}]`", scalar.text)
        }
        _ => String::new(),
    };
    match entry.value.kind {
        Kind::List(items) => Ok(items),
        _ => Err(entry.value.place.error(format!(
            "`{}`: expected a list, found {found}{hint}",
            entry.key
        ))),
    }
}

/// One of a few names.
pub(super) fn choice<T: Copy>(
    key: &str,
    node: &Node<'_>,
    names: &[(&str, T)],
) -> Result<T, PolicyError> {
    let written = match &node.kind {
        Kind::Scalar(scalar) if scalar.type_of() == Type::String => Some(scalar.text.as_str()),
        _ => None,
    };
    if let Some((_, value)) = names.iter().find(|(name, _)| Some(*name) == written) {
        return Ok(*value);
    }
    let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
    let hint = written.map_or_else(String::new, |written| suggestion(written, &names));
    Err(node.place.error(format!(
        "`{key}`: expected {}, found {}{hint}",
        listed(&names),
        node.describe()
    )))
}

/// A list of such names.
pub(super) fn choices<T: Copy>(
    entry: Entry<'_>,
    names: &[(&str, T)],
) -> Result<Vec<T>, PolicyError> {
    let key = entry.key.clone();
    items(entry)?
        .iter()
        .map(|item| choice(&key, item, names))
        .collect()
}

/// `true` or `false`, and none of the other words that older YAML took for one.
pub(super) fn boolean(entry: &Entry<'_>) -> Result<bool, PolicyError> {
    match &entry.value.kind {
        Kind::Scalar(scalar) => match scalar.type_of() {
            Type::Boolean(value) => return Ok(value),
            Type::Null | Type::Integer | Type::Float | Type::String => {}
        },
        Kind::List(_) | Kind::Map(_) => {}
    }
    let instead = match &entry.value.kind {
        Kind::Scalar(scalar) => match scalar.text.to_lowercase().as_str() {
            "true" | "yes" | "on" => ": write `true`, without quotes",
            "false" | "no" | "off" => ": write `false`, without quotes",
            _ => "",
        },
        Kind::List(_) | Kind::Map(_) => "",
    };
    Err(entry.value.place.error(format!(
        "`{}`: expected `true` or `false`, found {}{instead}",
        entry.key,
        entry.value.describe()
    )))
}

/// A whole number in a range.
pub(super) fn count(entry: &Entry<'_>, least: u64, most: u64) -> Result<u64, PolicyError> {
    let number = match &entry.value.kind {
        Kind::Scalar(scalar) if scalar.type_of() == Type::Integer => scalar.text.parse().ok(),
        _ => None,
    };
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| {
            entry.value.place.error(format!(
                "`{}`: expected a whole number from {least} to {most}, found {}",
                entry.key,
                entry.value.describe()
            ))
        })
}

/// A duration: an integer and a unit, above zero.
pub(super) fn duration(entry: Entry<'_>) -> Result<Duration, PolicyError> {
    let read = match &entry.value.kind {
        Kind::Scalar(scalar) => parse_duration(&scalar.text),
        Kind::List(_) | Kind::Map(_) => Err(DurationError::Form),
    };
    let expected = match read {
        Ok(duration) if duration <= MAX_DURATION => return Ok(duration),
        Ok(_) | Err(DurationError::Zero | DurationError::TooLong) => {
            "a duration must be above zero and at most `3650d`"
        }
        Err(DurationError::Form) => {
            "expected a duration (a whole number and one of `ms`, `s`, `m`, `h` or `d`, such as `90s`)"
        }
    };
    Err(entry.value.place.error(format!(
        "`{}`: {expected}, found {}",
        entry.key,
        entry.value.describe()
    )))
}

/// An id that must not be empty (S9).
pub(super) fn id(key: &str, text: &Text<'_>) -> Result<Id, PolicyError> {
    Id::required(&text.value).map_err(|error| {
        text.place()
            .error(format!("`{key}`: {} {error}", quoted(&text.value)))
    })
}

/// As [`id`], where somebody may have meant a pattern: read as an id, it would name nothing.
pub(super) fn exact_id(key: &str, text: &Text<'_>) -> Result<Id, PolicyError> {
    if let Some(at) = text.value.chars().position(|c| "*?[".contains(c)) {
        return Err(text.place_of_char(at).error(format!(
            "`{key}`: {} looks like a pattern, and only an id can stand here: name each of them",
            quoted(&text.value)
        )));
    }
    id(key, text)
}

fn string<'s>(key: &str, node: Node<'s>) -> Result<Text<'s>, PolicyError> {
    if let Kind::Scalar(scalar) = &node.kind {
        match scalar.type_of() {
            Type::String => {
                let value = scalar.text.clone();
                return Ok(Text::new(value, node));
            }
            Type::Boolean(_) | Type::Integer | Type::Float => {
                return Err(node.place.error(format!(
                    "`{key}`: expected a text, found {}: write `{:?}`",
                    node.describe(),
                    scalar.text
                )));
            }
            Type::Null => {}
        }
    }
    Err(node.place.error(format!(
        "`{key}`: expected a text, found {}",
        node.describe()
    )))
}
