//! S9 as properties: one digest for one meaning, never one for two, and nothing read that another
//! reader would refuse. What each refusal says is tested beside the reader.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail by panicking, and so may what it calls"
)]

use std::time::{Duration, Instant};

use assent::arguments::{Arguments, JsonProblem, Value};
use proptest::prelude::*;
use proptest::sample::Index;

const MAX_BYTES: usize = 1 << 20;

/// A JSON value before it is spelled. Numbers are `±digits × 10^exponent`, their digits decimal.
#[derive(Clone, Debug)]
enum Model {
    Literal(&'static str),
    Number {
        negative: bool,
        digits: String,
        exponent: i32,
    },
    String(String),
    Array(Vec<Model>),
    Object(Vec<(String, Model)>),
}

/// Texts whose every character is near some boundary of UTF-8, UTF-16 or the escapes.
fn text() -> impl Strategy<Value = String> {
    "[ab/\"\\\\\u{0}\u{8}\n\u{1f}\u{7f}\u{80}é\u{301}\u{7ff}\u{800}\u{d7ff}\u{e000}\u{fb33}\u{ffff}\u{10000}\u{10ffff}]{0,6}"
}

fn number() -> impl Strategy<Value = Model> {
    let digits = prop_oneof!["0|[1-9][0-9]{0,3}", "[1-9][0-9]{15,24}"];
    let exponent = prop_oneof![Just(0), -30..30, -2000..2000];
    (any::<bool>(), digits, exponent).prop_map(|(negative, digits, exponent)| Model::Number {
        negative,
        digits,
        exponent,
    })
}

fn leaf() -> impl Strategy<Value = Model> {
    prop_oneof![
        1 => prop_oneof![Just("null"), Just("true"), Just("false")].prop_map(Model::Literal),
        3 => number(),
        2 => text().prop_map(Model::String),
    ]
}

fn model() -> impl Strategy<Value = Model> {
    leaf().prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Model::Array),
            object(inner).prop_map(Model::Object),
        ]
    })
}

fn object(values: impl Strategy<Value = Model>) -> impl Strategy<Value = Vec<(String, Model)>> {
    prop::collection::hash_map(text(), values, 0..6)
        .prop_map(|members| members.into_iter().collect())
}

/// Spells models, each choice drawn from a list that proptest can shrink.
struct Speller<'a> {
    choices: std::iter::Cycle<std::slice::Iter<'a, Index>>,
}

impl Speller<'_> {
    fn choose(&mut self, options: usize) -> usize {
        self.choices.next().map_or(0, |index| index.index(options))
    }

    fn space(&mut self) -> &'static str {
        ["", "", " ", "\t\r\n"][self.choose(4)]
    }

    fn value(&mut self, model: &Model) -> String {
        let (before, after) = (self.space(), self.space());
        let value = match model {
            Model::Literal(word) => (*word).to_owned(),
            Model::Number {
                negative,
                digits,
                exponent,
            } => self.number(*negative, digits, *exponent),
            Model::String(text) => self.string(text),
            Model::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| self.value(item)).collect();
                format!("[{}{}]", self.space(), items.join(","))
            }
            Model::Object(members) => self.object(members),
        };
        format!("{before}{value}{after}")
    }

    fn object(&mut self, members: &[(String, Model)]) -> String {
        let mut left: Vec<_> = members.iter().collect();
        let mut spelled = Vec::new();
        while !left.is_empty() {
            let (key, value) = left.swap_remove(self.choose(left.len()));
            spelled.push(format!(
                "{}{}{}:{}",
                self.space(),
                self.string(key),
                self.space(),
                self.value(value)
            ));
        }
        format!("{{{}{}}}", self.space(), spelled.join(","))
    }

    fn string(&mut self, text: &str) -> String {
        let spelled: String = text.chars().map(|c| self.character(c)).collect();
        format!("\"{spelled}\"")
    }

    fn character(&mut self, c: char) -> String {
        let short = match c {
            '"' | '\\' | '/' => Some(format!("\\{c}")),
            '\u{8}' => Some("\\b".to_owned()),
            '\n' => Some("\\n".to_owned()),
            _ => None,
        };
        let plain = c >= ' ' && c != '"' && c != '\\';
        match (self.choose(3), short) {
            (0, Some(short)) => short,
            (1, _) if plain => c.to_string(),
            (choice, _) => c
                .encode_utf16(&mut [0; 2])
                .iter()
                .map(|unit| {
                    if choice == 1 {
                        format!("\\u{unit:04x}")
                    } else {
                        format!("\\u{unit:04X}")
                    }
                })
                .collect(),
        }
    }

    /// Moves the point, adds zeros, and writes what exponent that leaves, or none where none is
    /// left.
    fn number(&mut self, negative: bool, digits: &str, exponent: i32) -> String {
        let zero = digits == "0";
        let mut digits = digits.to_owned();
        let mut exponent = if zero { 0 } else { exponent };
        if (1..25).contains(&exponent) && self.choose(2) == 0 {
            digits.extend(std::iter::repeat_n('0', usize::try_from(exponent).unwrap()));
            exponent = 0;
        }
        let fraction = self.choose(digits.len() + 6);
        if fraction >= digits.len() {
            digits.insert_str(0, &"0".repeat(fraction + 1 - digits.len()));
        }
        let (integer, decimals) = digits.split_at(digits.len() - fraction);
        let integer = if integer.is_empty() { "0" } else { integer };
        let mut decimals = decimals.to_owned();
        exponent += i32::try_from(fraction).unwrap();
        decimals.push_str(&"0".repeat(self.choose(3)));
        let sign = if negative && (!zero || self.choose(2) == 0) {
            "-"
        } else {
            ""
        };
        let point = if decimals.is_empty() { "" } else { "." };
        let e = ["e", "E"][self.choose(2)];
        let exponent = match (exponent, self.choose(3)) {
            (0, 0 | 1) => String::new(),
            (0.., 1) => format!("{e}+{exponent}"),
            (0.., 2) => format!("{e}00{exponent}"),
            _ => format!("{e}{exponent}"),
        };
        format!("{sign}{integer}{point}{decimals}{exponent}")
    }
}

fn spell(members: &[(String, Model)], choices: &[Index]) -> String {
    Speller {
        choices: choices.iter().cycle(),
    }
    .object(members)
}

fn choices() -> impl Strategy<Value = Vec<Index>> {
    prop::collection::vec(any::<Index>(), 1..200)
}

/// What is neither an array nor an object, at any depth.
fn leaves(members: &mut [(String, Model)]) -> Vec<&mut Model> {
    let mut found = Vec::new();
    let mut left: Vec<_> = members.iter_mut().map(|(_, value)| value).collect();
    while let Some(model) = left.pop() {
        match model {
            Model::Array(items) => left.extend(items),
            Model::Object(members) => {
                left.extend(members.iter_mut().map(|(_, value)| value));
            }
            leaf => found.push(leaf),
        }
    }
    found
}

/// Whether two models say the same, by schoolbook arithmetic: not by anything the library does.
fn same(a: &Model, b: &Model) -> bool {
    match (a, b) {
        (Model::Literal(a), Model::Literal(b)) => a == b,
        (
            Model::Number {
                negative: a_negative,
                digits: a,
                exponent: a_exponent,
            },
            Model::Number {
                negative: b_negative,
                digits: b,
                exponent: b_exponent,
            },
        ) => {
            let least = a_exponent.min(b_exponent);
            let scaled = |digits: &str, exponent: &i32| {
                let zeros = "0".repeat(usize::try_from(exponent - least).unwrap());
                format!("{digits}{zeros}")
                    .trim_start_matches('0')
                    .to_owned()
            };
            let (a, b) = (scaled(a, a_exponent), scaled(b, b_exponent));
            a == b && (a_negative == b_negative || a.is_empty())
        }
        (Model::String(a), Model::String(b)) => a == b,
        (Model::Array(a), Model::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Model::Object(a), Model::Object(b)) => same_members(a, b),
        _ => false,
    }
}

fn same_members(a: &[(String, Model)], b: &[(String, Model)]) -> bool {
    a.len() == b.len()
        && a.iter()
            .all(|(key, a)| b.iter().any(|(other, b)| key == other && same(a, b)))
}

/// Where a JSON reader that rounds, keeps the last of two keys and nests deeper may still differ
/// from this one.
fn agrees_with_serde_json(text: &str) -> Result<(), TestCaseError> {
    let theirs = serde_json::from_str::<serde_json::Value>(text);
    match (Value::parse(text, MAX_BYTES), theirs) {
        (Ok(_), Ok(_)) | (Err(_), Err(_)) => Ok(()),
        (Ok(_), Err(error)) => {
            prop_assert!(
                error.to_string().contains("number out of range"),
                "{}: {}",
                text,
                error
            );
            Ok(())
        }
        (Err(error), Ok(_)) => {
            let stricter = matches!(
                error.problem,
                JsonProblem::DuplicateKey(_)
                    | JsonProblem::TooDeep
                    | JsonProblem::ExponentOutOfRange(_)
            );
            prop_assert!(stricter, "{}: {}", text, error);
            Ok(())
        }
    }
}

proptest! {
    #[test]
    fn two_spellings_of_one_value_have_one_digest(
        members in object(model()), first in choices(), second in choices(),
    ) {
        let [first, second] = [first, second].map(|choices| spell(&members, &choices));
        let one = Arguments::parse(&first, MAX_BYTES)?;
        let other = Arguments::parse(&second, MAX_BYTES)?;
        prop_assert_eq!(one.canonical(), other.canonical());
        prop_assert_eq!(one.digest("tool"), other.digest("tool"));
        prop_assert_eq!(one.object(), other.object());
    }

    #[test]
    fn two_values_never_have_one_digest(
        a in object(model()), b in object(model()), choices in choices(),
    ) {
        let one = Arguments::parse(&spell(&a, &choices), MAX_BYTES)?;
        let other = Arguments::parse(&spell(&b, &choices), MAX_BYTES)?;
        prop_assert_eq!(one.digest("tool") == other.digest("tool"), same_members(&a, &b));
        prop_assert_eq!(one.object() == other.object(), same_members(&a, &b));
    }

    #[test]
    fn one_changed_leaf_changes_the_digest(
        before in object(model()), leaf in leaf(), place in any::<Index>(), choices in choices(),
    ) {
        let mut after = before.clone();
        let mut leaves = leaves(&mut after);
        prop_assume!(!leaves.is_empty());
        let place = place.index(leaves.len());
        *leaves[place] = leaf;
        let one = Arguments::parse(&spell(&before, &choices), MAX_BYTES)?;
        let other = Arguments::parse(&spell(&after, &choices), MAX_BYTES)?;
        let unchanged = same_members(&before, &after);
        prop_assert_eq!(one.digest("tool") == other.digest("tool"), unchanged);
    }

    #[test]
    fn two_numbers_have_one_digest_only_if_they_are_one(
        a in "-?(0|[1-9][0-9]{0,2})", b in "-?(0|[1-9][0-9]{0,2})", e in -3..3_i32, f in -3..3_i32, choices in choices(),
    ) {
        let model = |text: &str, exponent| Model::Number {
            negative: text.starts_with('-'), digits: text.trim_start_matches('-').to_owned(), exponent,
        };
        let (a, b) = (model(&a, e), model(&b, f));
        let value = |model| Value::parse(&Speller { choices: choices.iter().cycle() }.value(model), MAX_BYTES);
        prop_assert_eq!(value(&a)?.canonical() == value(&b)?.canonical(), same(&a, &b));
    }

    #[test]
    fn the_canonical_spelling_says_the_same_and_is_its_own(members in object(model()), choices in choices()) {
        let given = Arguments::parse(&spell(&members, &choices), MAX_BYTES)?;
        let canonical = Arguments::parse(&given.canonical(), MAX_BYTES)?;
        prop_assert_eq!(canonical.object(), given.object());
        prop_assert_eq!(canonical.canonical(), canonical.text());
        let spaced = Arguments::parse(&given.spaced(), MAX_BYTES)?;
        prop_assert_eq!(spaced.object(), given.object());
    }

    #[test]
    fn numbers_are_those_of_the_standard_library(
        text in "-?(0|[1-9][0-9]{0,22})(\\.[0-9]{1,22})?([eE][+-]?[0-9]{1,3})?",
    ) {
        let Value::Number(number) = Value::parse(&text, MAX_BYTES)? else { panic!("a number") };
        let double: f64 = text.parse().unwrap();
        match number.to_f64() {
            Some(nearest) => prop_assert_eq!(nearest, double),
            None => prop_assert!(double.is_infinite() || double == 0.0),
        }
        if let Ok(integer) = text.parse::<i128>() {
            prop_assert!(number.is_integral());
            prop_assert_eq!(number.as_i64(), i64::try_from(integer).ok());
            prop_assert_eq!(number.as_u64(), u64::try_from(integer).ok());
        }
    }

    #[test]
    fn what_is_json_is_agreed_on_when_texts_are_broken(
        members in object(model()), choices in choices(),
        edits in prop::collection::vec((any::<Index>(), 0..3, "[\\[\\]{}:,\"\\\\0-9eE+.u \n\u{1}x/-]"), 1..4),
    ) {
        let mut characters: Vec<char> = spell(&members, &choices).chars().collect();
        for (place, edit, replacement) in edits {
            let at = place.index(characters.len());
            match edit {
                0 => characters.splice(at..=at, replacement.chars()),
                1 => characters.splice(at..at, replacement.chars()),
                _ => characters.splice(at.., "".chars()),
            };
            if characters.is_empty() {
                break;
            }
        }
        agrees_with_serde_json(&characters.into_iter().collect::<String>())?;
    }

    #[test]
    fn what_is_json_is_agreed_on_for_tokens_in_any_order(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ":", ",", "\"a\"", "\"b\"", "\"\\u", "d83d", "\\ude00\"", "\"", "0", "1", "-", ".", "e",
            "+", "4097", "true", "null", "NaN", " ", "\t", "\u{c}", "\u{feff}", "//", "é",
        ]), 0..12),
    ) {
        agrees_with_serde_json(&tokens.concat())?;
    }

    #[test]
    fn no_text_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), max_bytes in 0..300_usize) {
        let text = String::from_utf8_lossy(&bytes);
        let length = text.len();
        for text in [text.to_string(), format!("{{\"{text}"), format!("{{\"a\":{text}")] {
            if let Err(error) = Arguments::parse(&text, max_bytes) {
                prop_assert!(error.offset <= text.len().max("{}".len()), "{}", error);
                prop_assert!(!error.to_string().chars().any(char::is_control));
            } else {
                prop_assert!(length <= max_bytes);
            }
        }
    }
}

#[test]
fn a_text_of_the_largest_size_is_read_at_once_whatever_it_holds() {
    let object = |members: &[String]| format!("{{{}}}", members.join(","));
    let keys: Vec<String> = (0..30_000)
        .rev()
        .map(|key| format!("\"{key}\":1"))
        .collect();
    let twice = [&keys[..], &["\"7\":1".to_owned()]].concat();
    let nested = (0..60).fold(twice, |inner, _| vec![format!("\"a\":{}", object(&inner))]);
    for text in [
        object(&keys),
        object(&nested),
        format!("{{\"a\":[{}0]}}", "0,".repeat(130_000)),
        format!("{{\"a\":0.{}}}", "12".repeat(130_000)),
        format!("{{\"a\":{}}}", "9".repeat(260_000)),
        format!("{{\"a\":1e{}}}", "9".repeat(260_000)),
        format!("{{\"a\":\"{}\"}}", "\\u0001".repeat(43_000)),
        format!("{{\"a\":{}", "[".repeat(260_000)),
    ] {
        let started = Instant::now();
        if let Ok(arguments) = Arguments::parse(&text, MAX_BYTES) {
            std::hint::black_box(arguments.digest("tool"));
            std::hint::black_box(arguments.exact_in_rules().is_ok());
        }
        // Milliseconds in fact; minutes if anything in it were quadratic.
        assert!(
            started.elapsed() < Duration::from_secs(2),
            "{} took {:?}",
            &text[..20],
            started.elapsed()
        );
    }
}
