//! YAML as a policy document may use it: a tree in which everything knows its place.
//!
//! The tree is built from the events of the parser beneath serde-saphyr rather than through serde, because every
//! error of every floor above needs a line and a column, and because what is refused here is refused wherever it
//! stands: tags, anchors, merge keys, duplicate keys, keys without a value, a second document. Knows no policy key.

use std::collections::HashMap;

use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, Span};

use super::Source;
use super::error::{Place, PolicyError, quoted};

/// The most levels a document may nest; a policy needs six.
const MAX_DEPTH: usize = 24;
/// The most bytes one document may have.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Something in a document, with its place.
#[derive(Debug)]
pub(super) struct Node<'s> {
    pub(super) place: Place<'s>,
    pub(super) kind: Kind<'s>,
}

/// What it is.
#[derive(Debug)]
pub(super) enum Kind<'s> {
    Scalar(Scalar<'s>),
    List(Vec<Node<'s>>),
    Map(Vec<Entry<'s>>),
}

/// A key and its value.
#[derive(Debug)]
pub(super) struct Entry<'s> {
    pub(super) key: String,
    pub(super) place: Place<'s>,
    pub(super) value: Node<'s>,
}

/// A text and how it was written.
#[derive(Debug)]
pub(super) struct Scalar<'s> {
    pub(super) text: String,
    /// Whether it stands without quotes, so that YAML may take it for something else than a string.
    pub(super) plain: bool,
    /// Whether it is a literal block (`|`).
    literal: bool,
    /// What stands in the source, quotes included; empty where the parser does not say.
    raw: &'s str,
}

/// What YAML's core schema (1.2) takes a plain scalar for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Boolean(bool),
    Integer,
    Float,
    String,
}

impl Scalar<'_> {
    pub(super) fn type_of(&self) -> Type {
        if !self.plain {
            return Type::String;
        }
        let text = self.text.as_str();
        match text {
            "" | "~" | "null" | "Null" | "NULL" => return Type::Null,
            "true" | "True" | "TRUE" => return Type::Boolean(true),
            "false" | "False" | "FALSE" => return Type::Boolean(false),
            _ => {}
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let radix = |prefix: &str, radix: u32| {
            unsigned
                .strip_prefix(prefix)
                .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_digit(radix)))
        };
        if digits(unsigned) || radix("0x", 16) || radix("0o", 8) {
            return Type::Integer;
        }
        let special = matches!(
            unsigned,
            ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN"
        );
        let starts = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        if special
            || starts && !unsigned.contains(['i', 'n', 'I', 'N']) && unsigned.parse::<f64>().is_ok()
        {
            return Type::Float;
        }
        Type::String
    }
}

impl<'s> Node<'s> {
    /// What it is, in words for an error.
    pub(super) fn describe(&self) -> String {
        match &self.kind {
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "keys with values".to_owned(),
            Kind::Scalar(scalar) => match scalar.type_of() {
                Type::Null => "nothing".to_owned(),
                Type::Boolean(_) => format!("the boolean {}", quoted(&scalar.text)),
                Type::Integer | Type::Float => format!("the number {}", quoted(&scalar.text)),
                Type::String => format!("the text {}", quoted(&scalar.text)),
            },
        }
    }

    /// Whether it is a scalar of which YAML has made one line of several.
    pub(super) fn is_folded(&self) -> bool {
        match &self.kind {
            // A carriage return alone ends a line too.
            Kind::Scalar(scalar) => !scalar.literal && scalar.raw.trim_end().contains(['\n', '\r']),
            Kind::List(_) | Kind::Map(_) => false,
        }
    }

    /// The place of one of the characters of a scalar, where the source shows the text as it is; else the scalar's own.
    pub(super) fn place_of_char(&self, offset: usize) -> Place<'s> {
        let Kind::Scalar(scalar) = &self.kind else {
            return self.place;
        };
        // Plain and quoted texts without escapes stand in the source verbatim; so do the lines of a literal block, behind
        // an indentation that its first line shows.
        let text = scalar.text.trim_end_matches('\n');
        let before = scalar
            .raw
            .find(text)
            .and_then(|start| scalar.raw.get(..start));
        let (prefix, indent) = match before {
            Some(before) => (before, 1),
            None if scalar.literal => ("", self.place.column),
            None => return self.place,
        };
        let mut place = self.place;
        for c in prefix.chars().chain(text.chars().take(offset)) {
            if c == '\n' {
                place.line = place.line.saturating_add(1);
                place.column = indent;
            } else {
                place.column = place.column.saturating_add(1);
            }
        }
        place
    }
}

/// Reads the one YAML document of a source; none where it holds nothing.
pub(super) fn read(source: &Source) -> Result<Option<Node<'_>>, PolicyError> {
    if source.text.len() > MAX_BYTES {
        return Err(Place::start(source).error(format!(
            "the document has more than {MAX_BYTES} bytes: split it into several files"
        )));
    }
    let mut options = granit_parser::options! {
        disallow_directives: true,
        emit_anchor_events: false,
        emit_unresolved_aliases: true,
        flow_nesting_limit: 64,
        block_nesting_limit: 64,
    };
    options.set_emit_comments(false);
    let mut reader = Reader {
        source,
        parser: Parser::new_from_str_with_options(&source.text, options),
    };
    reader.document()
}

struct Reader<'s> {
    source: &'s Source,
    parser: Parser<'s, granit_parser::StrInput<'s>>,
}

impl<'s> Reader<'s> {
    fn document(&mut self) -> Result<Option<Node<'s>>, PolicyError> {
        let mut root = None;
        while let Some((event, span)) = self.next()? {
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_some() => {
                    return Err(self.place(&span).error(
                        "a second document starts here (`---`): write one document to a file, or several files into a folder",
                    ));
                }
                Event::DocumentStart(..) => {}
                event => root = Some(self.node(event, span, None, 0)?),
            }
        }
        Ok(root.filter(|node| !node.is_null()))
    }

    fn next(&mut self) -> Result<Option<(Event<'s>, Span)>, PolicyError> {
        let Some(next) = self.parser.next_event() else {
            return Ok(None);
        };
        next.map(Some).map_err(|error| {
            let marker = *error.marker();
            let place = self.marked(marker);
            let line = self.line(place.line);
            let hint = match indicator(line) {
                Some(c) => format!(
                    ": a text that starts with `{}` must be in quotes",
                    c.escape_debug()
                ),
                None if error.info().contains("mapping values are not allowed") => {
                    ": a text that holds `: ` must be in quotes".to_owned()
                }
                None => String::new(),
            };
            place.error(format!(
                "this is not YAML: {}: {}{hint}",
                error.info(),
                quoted(line.trim())
            ))
        })
    }

    /// Builds the node that an event starts. `key` is whose value it is.
    fn node(
        &mut self,
        event: Event<'s>,
        span: Span,
        key: Option<&str>,
        depth: usize,
    ) -> Result<Node<'s>, PolicyError> {
        let place = self.place(&span);
        let of = key.map_or_else(String::new, |key| format!("`{key}`: "));
        if depth > MAX_DEPTH {
            return Err(place.error(format!("{of}nests more than {MAX_DEPTH} levels deep")));
        }
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(_, anchor, tag)
            | Event::MappingStart(_, anchor, tag) => (*anchor, tag.as_ref()),
            _ => (0, None),
        };
        if tag.is_some() {
            let tag_place = span.tag_start.map_or(place, |start| self.marked(start));
            let written = span
                .tag_span()
                .and_then(|tag| tag.slice(&self.source.text))
                .unwrap_or("!");
            let line = self.line(tag_place.line).trim();
            return Err(tag_place.error(format!(
                "{of}{} is a YAML tag, and tags are not read: write the text in quotes, in {}",
                quoted(written),
                quoted(line)
            )));
        }
        if anchor != 0 {
            return Err(place.error(format!(
                "{of}anchors (`&name`) are not read: write the value where it is needed"
            )));
        }
        match event {
            Event::Scalar(text, style, ..) => Ok(Node {
                place,
                kind: Kind::Scalar(Scalar {
                    plain: style == ScalarStyle::Plain,
                    literal: style == ScalarStyle::Literal,
                    raw: span.slice(&self.source.text).unwrap_or_default(),
                    text: text.into_owned(),
                }),
            }),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        Some((Event::SequenceEnd, _)) | None => break,
                        Some((event, span)) => items.push(self.node(event, span, key, depth + 1)?),
                    }
                }
                Ok(Node { place, kind: Kind::List(items) })
            }
            Event::MappingStart(..) => self.map(place, depth),
            _ => Err(place.error(format!(
                "{of}aliases (`*name`) are not read: write the value out, or in quotes if it is a pattern such as `\"*\"`"
            ))),
        }
    }

    fn map(&mut self, place: Place<'s>, depth: usize) -> Result<Node<'s>, PolicyError> {
        let mut entries: Vec<Entry<'s>> = Vec::new();
        let mut seen: HashMap<String, u32> = HashMap::new();
        loop {
            let (event, span) = match self.next()? {
                Some((Event::MappingEnd, _)) | None => break,
                Some(next) => next,
            };
            let key = self.node(event, span, None, depth + 1)?;
            let Kind::Scalar(Scalar {
                text: name, plain, ..
            }) = key.kind
            else {
                return Err(key
                    .place
                    .error("a key must be a word: this one is a list or has keys itself"));
            };
            if plain && name == "<<" {
                return Err(key.place.error(
                    "`<<` is a merge key, and merge keys are not read: write the keys out",
                ));
            }
            let Some((event, span)) = self.next()? else {
                break;
            };
            let value = self.node(event, span, Some(&name), depth + 1)?;
            if let Some(line) = seen.insert(name.clone(), key.place.line) {
                return Err(key.place.error(format!(
                    "`{name}` stands twice: the first one is in line {line}"
                )));
            }
            if value.is_null() {
                return Err(key.place.error(format!(
                    "`{name}` has no value: give it one, or remove the key"
                )));
            }
            entries.push(Entry {
                key: name,
                place: key.place,
                value,
            });
        }
        Ok(Node {
            place,
            kind: Kind::Map(entries),
        })
    }

    fn place(&self, span: &Span) -> Place<'s> {
        self.marked(span.start)
    }

    fn marked(&self, marker: granit_parser::Marker) -> Place<'s> {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Place {
            source: self.source,
            line: number(marker.line()),
            column: number(marker.col()).saturating_add(1),
        }
    }

    fn line(&self, line: u32) -> &'s str {
        let index = usize::try_from(line)
            .unwrap_or(usize::MAX)
            .saturating_sub(1);
        self.source.text.lines().nth(index).unwrap_or_default()
    }
}

/// The first character of a line that YAML gives a meaning where an operator may have meant a text: `when: !has(args.x)`,
/// `tools: [*]`, `selectors: [@write]`.
fn indicator(line: &str) -> Option<char> {
    let mut before = ' ';
    for c in line.chars() {
        if matches!(before, ' ' | '[' | '{' | ',') && matches!(c, '!' | '*' | '@' | '&' | '`' | '%')
        {
            return Some(c);
        }
        before = c;
    }
    None
}

impl Node<'_> {
    fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar(scalar) if scalar.type_of() == Type::Null)
    }
}
