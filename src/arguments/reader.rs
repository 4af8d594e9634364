//! A strict reader of JSON (RFC 8259), which says where it stopped and why.
//!
//! It knows texts and values, nothing of tools or policies. Its recursion is bounded by
//! [`MAX_DEPTH`].

use std::collections::HashSet;

use super::error::{Found, JsonError, JsonProblem, excerpt};
use super::number::{MAX_EXPONENT, Number};
use super::value::{Object, Value};

/// The deepest nesting of objects and arrays; a top-level object is the first level.
pub const MAX_DEPTH: usize = 64;

pub(super) fn read_value(text: &str, max_bytes: usize) -> Result<Value, JsonError> {
    Reader::new(text, max_bytes)?.whole(Reader::value)
}

pub(super) fn read_object(text: &str, max_bytes: usize) -> Result<Object, JsonError> {
    Reader::new(text, max_bytes)?.whole(|reader| match reader.peek() {
        Some(b'{') => reader.object(),
        _ => Err(reader.expected("a JSON object")),
    })
}

type Read<T> = Result<T, JsonError>;

/// A place in a text. Each method reads one construct of the grammar from here, or says what stands
/// in its way.
struct Reader<'a> {
    text: &'a str,
    position: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, max_bytes: usize) -> Read<Self> {
        if text.len() > max_bytes {
            return Err(JsonError::at(max_bytes, JsonProblem::TooLarge(max_bytes)));
        }
        Ok(Self {
            text,
            position: 0,
            depth: 0,
        })
    }

    fn whole<T>(mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.skip_space();
        let value = read(&mut self)?;
        self.skip_space();
        match self.peek() {
            None => Ok(value),
            Some(_) => Err(self.expected("the end of the text")),
        }
    }

    fn value(&mut self) -> Read<Value> {
        let (word, value) = match self.peek() {
            Some(b'{') => return self.object().map(Value::Object),
            Some(b'[') => return self.array().map(Value::Array),
            Some(b'"') => return self.string("a string").map(Value::String),
            Some(b'-' | b'0'..=b'9') => return self.number().map(Value::Number),
            Some(b't') => ("true", Value::Bool(true)),
            Some(b'f') => ("false", Value::Bool(false)),
            _ => ("null", Value::Null),
        };
        if self.word() != word {
            return Err(self.expected("a value"));
        }
        self.position += word.len();
        Ok(value)
    }

    fn object(&mut self) -> Read<Object> {
        let start = self.position;
        let members = self.list(b'}', "`,` or `}`", Self::member)?;
        Object::new(members).ok_or_else(|| self.second_key(start))
    }

    /// Sorting found that a key stands twice, and lost where: reads the object at `start` again to
    /// say so.
    fn second_key(&mut self, start: usize) -> JsonError {
        self.position = start;
        let mut seen = HashSet::new();
        let found = self.list(b'}', "`,` or `}`", |reader| {
            let offset = reader.position;
            let (key, _) = reader.member()?;
            match seen.replace(key) {
                None => Ok(()),
                Some(key) => {
                    let problem = JsonProblem::DuplicateKey(excerpt(&key));
                    Err(JsonError::at(offset, problem))
                }
            }
        });
        found
            .err()
            .unwrap_or_else(|| self.expected("each key once"))
    }

    fn member(&mut self) -> Read<(String, Value)> {
        let key = self.string("a key in double quotes")?;
        self.skip_space();
        if !self.eat(b':') {
            return Err(self.expected("`:`"));
        }
        self.skip_space();
        Ok((key, self.value()?))
    }

    fn array(&mut self) -> Read<Vec<Value>> {
        self.list(b']', "`,` or `]`", Self::value)
    }

    /// What stands in brackets, between commas.
    fn list<T>(
        &mut self,
        close: u8,
        comma_or_close: &'static str,
        mut item: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        if self.depth == MAX_DEPTH {
            return Err(self.problem(JsonProblem::TooDeep));
        }
        let mut items = Vec::new();
        self.depth += 1;
        self.position += 1;
        self.skip_space();
        if !self.eat(close) {
            loop {
                items.push(item(self)?);
                self.skip_space();
                if self.eat(close) {
                    break;
                }
                if !self.eat(b',') {
                    return Err(self.expected(comma_or_close));
                }
                self.skip_space();
            }
        }
        self.depth -= 1;
        Ok(items)
    }

    fn string(&mut self, expected: &'static str) -> Read<String> {
        if !self.eat(b'"') {
            return Err(self.expected(expected));
        }
        let plain = self.plain()?;
        if self.eat(b'"') {
            return Ok(plain.to_owned());
        }
        // No escape is shorter than what it stands for, so this much is always enough.
        let mut text = String::with_capacity(plain.len() + self.length_to_quote());
        text.push_str(plain);
        while !self.eat(b'"') {
            text.push(self.escape()?);
            text.push_str(self.plain()?);
        }
        Ok(text)
    }

    /// The characters up to a quote or an escape, whichever comes first.
    fn plain(&mut self) -> Read<&'a str> {
        let start = self.position;
        let length = self
            .rest()
            .iter()
            .position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\');
        self.position = length.map_or(self.text.len(), |length| start + length);
        match self.peek() {
            Some(b'"' | b'\\') => self.since(start),
            Some(control) => Err(self.problem(JsonProblem::ControlCharacter(excerpt(
                char::from(control).encode_utf8(&mut [0; 4]),
            )))),
            None => Err(self.expected("a closing quote")),
        }
    }

    fn length_to_quote(&self) -> usize {
        let mut escaped = false;
        let quote = self.rest().iter().position(|&byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        quote.unwrap_or_default()
    }

    fn escape(&mut self) -> Read<char> {
        let start = self.position;
        self.position += 1;
        let c = match self.peek() {
            Some(b'u') => return self.unicode_escape(start),
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            _ => return Err(self.expected("one of `\"\\/bfnrtu` after a backslash")),
        };
        self.position += 1;
        Ok(c)
    }

    /// `\uXXXX`, or two of them that are a surrogate pair; `start` is the backslash.
    fn unicode_escape(&mut self, start: usize) -> Read<char> {
        let first = self.code_unit()?;
        let pair = matches!(first, 0xD800..0xDC00) && self.rest().starts_with(br"\u");
        let second = if pair {
            self.position += 1;
            Some(self.code_unit()?)
        } else {
            None
        };
        let mut decoded = char::decode_utf16([first].into_iter().chain(second));
        match decoded.next() {
            Some(Ok(c)) => Ok(c),
            _ => {
                let problem = JsonProblem::LoneSurrogate(format!("\\u{first:04x}"));
                Err(JsonError::at(start, problem))
            }
        }
    }

    /// The four hex digits after a `u`.
    fn code_unit(&mut self) -> Read<u16> {
        self.position += 1;
        let digits = self.rest().first_chunk::<4>().and_then(|digits| {
            digits.iter().try_fold(0, |unit, &digit| {
                Some(unit << 4 | char::from(digit).to_digit(16)?)
            })
        });
        let Some(unit) = digits.and_then(|unit| u16::try_from(unit).ok()) else {
            return Err(self.expected("four hex digits"));
        };
        self.position += 4;
        Ok(unit)
    }

    fn number(&mut self) -> Read<Number> {
        let start = self.position;
        let negative = self.eat(b'-');
        let integer = self.digits()?;
        if integer.len() > 1 && integer.starts_with('0') {
            let problem = JsonProblem::LeadingZero(excerpt(integer));
            return Err(JsonError::at(start, problem));
        }
        let fraction = if self.eat(b'.') { self.digits()? } else { "" };
        let exponent = if self.eat(b'e') || self.eat(b'E') {
            self.exponent()?
        } else {
            Some(0)
        };
        match exponent.and_then(|exponent| Number::new(negative, integer, fraction, exponent)) {
            Some(number) => Ok(number),
            None => {
                let problem = JsonProblem::ExponentOutOfRange(excerpt(self.since(start)?));
                Err(JsonError::at(start, problem))
            }
        }
    }

    /// None when it is past [`MAX_EXPONENT`], however long it is.
    fn exponent(&mut self) -> Read<Option<i16>> {
        let negative = self.eat(b'-');
        if !negative {
            self.eat(b'+');
        }
        let magnitude = self.digits()?.parse::<i16>().ok();
        let magnitude = magnitude.filter(|&magnitude| magnitude <= MAX_EXPONENT);
        Ok(magnitude.map(|magnitude| if negative { -magnitude } else { magnitude }))
    }

    fn digits(&mut self) -> Read<&'a str> {
        let start = self.position;
        self.position += self
            .rest()
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        match self.since(start)? {
            "" => Err(self.expected("a digit")),
            digits => Ok(digits),
        }
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.position += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text
            .as_bytes()
            .get(self.position..)
            .unwrap_or_default()
    }

    /// The text from `start` to here. Both always stand at an ASCII character; were that ever
    /// wrong, it is an error and not another text.
    fn since(&self, start: usize) -> Read<&'a str> {
        self.text
            .get(start..self.position)
            .ok_or_else(|| self.expected("a whole character"))
    }

    /// The letters and digits that stand here.
    fn word(&self) -> &'a str {
        let length = self
            .rest()
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count();
        self.text
            .get(self.position..self.position + length)
            .unwrap_or_default()
    }

    fn problem(&self, problem: JsonProblem) -> JsonError {
        JsonError::at(self.position, problem)
    }

    fn expected(&self, expected: &'static str) -> JsonError {
        let rest = self.text.get(self.position..).unwrap_or_default();
        let found = match (self.word(), rest.chars().next()) {
            (_, None) => Found::End,
            ("", Some(c)) => Found::Text(excerpt(c.encode_utf8(&mut [0; 4]))),
            (word, Some(_)) => Found::Text(excerpt(word)),
        };
        self.problem(JsonProblem::Unexpected { expected, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;

    fn refusal(text: &str) -> String {
        Arguments::parse(text, 4096).unwrap_err().to_string()
    }

    #[rustfmt::skip]
    const REFUSALS: &[(&str, &str)] = &[
        // One object, and nothing else.
        ("[1]", "expected a JSON object, found `[` at offset 0"),
        (" null", "expected a JSON object, found `null` at offset 1"),
        ("  ", "expected a JSON object, found the end of the text at offset 2"),
        ("\u{feff}{}", "expected a JSON object, found `\\u{feff}` at offset 0"),
        (r#"{"a":1} x"#, "expected the end of the text, found `x` at offset 8"),
        ("{}{}", "expected the end of the text, found `{` at offset 2"),
        ("{}\u{a0}", "expected the end of the text, found `\\u{a0}` at offset 2"),
        // Objects and arrays.
        ("{bad", "expected a key in double quotes, found `bad` at offset 1"),
        ("{'a':1}", "expected a key in double quotes, found `'` at offset 1"),
        (r#"{"a":1,}"#, "expected a key in double quotes, found `}` at offset 7"),
        (r#"{"a" 1}"#, "expected `:`, found `1` at offset 5"),
        (r#"{"a":1 "b":2}"#, "expected `,` or `}`, found `\"` at offset 7"),
        (r#"{"a":[1 2]}"#, "expected `,` or `]`, found `2` at offset 8"),
        (r#"{"a":[1,]}"#, "expected a value, found `]` at offset 8"),
        (r#"{"a":[1"#, "expected `,` or `]`, found the end of the text at offset 7"),
        (r#"{"a":1 /* x */}"#, "expected `,` or `}`, found `/` at offset 7"),
        ("{// x\n}", "expected a key in double quotes, found `/` at offset 1"),
        // Literals.
        (r#"{"a":NaN}"#, "expected a value, found `NaN` at offset 5"),
        (r#"{"a":-Infinity}"#, "expected a digit, found `Infinity` at offset 6"),
        (r#"{"a":True}"#, "expected a value, found `True` at offset 5"),
        (r#"{"a":nullx}"#, "expected a value, found `nullx` at offset 5"),
        (r#"{"a":tru"#, "expected a value, found `tru` at offset 5"),
        (r#"{"a":"#, "expected a value, found the end of the text at offset 5"),
        // Numbers.
        (r#"{"a":01}"#, "leading zero in `01` at offset 5"),
        (r#"{"a":-00.5}"#, "leading zero in `00` at offset 5"),
        (r#"{"a":+1}"#, "expected a value, found `+` at offset 5"),
        (r#"{"a":.5}"#, "expected a value, found `.` at offset 5"),
        (r#"{"a":1.}"#, "expected a digit, found `}` at offset 7"),
        (r#"{"a":1e}"#, "expected a digit, found `}` at offset 7"),
        (r#"{"a":1e+-2}"#, "expected a digit, found `-` at offset 8"),
        (r#"{"a":0x10}"#, "expected `,` or `}`, found `x10` at offset 6"),
        (r#"{"a":-"#, "expected a digit, found the end of the text at offset 6"),
        (r#"{"a":1e4097}"#, "exponent past ±4096 in `1e4097` at offset 5"),
        (r#"{"a":0e-4097}"#, "exponent past ±4096 in `0e-4097` at offset 5"),
        (r#"{"a":10e4096}"#, "exponent past ±4096 in `10e4096` at offset 5"),
        (r#"{"a":0.1e-4096}"#, "exponent past ±4096 in `0.1e-4096` at offset 5"),
        (r#"{"a":1e99999999999999999999}"#, "exponent past ±4096 in `1e99999999999999999999` at offset 5"),
        (r#"{"a":1e-99999999999999999999}"#, "exponent past ±4096 in `1e-99999999999999999999` at offset 5"),
        // Strings.
        (r#"{"a":"x"#, "expected a closing quote, found the end of the text at offset 7"),
        (r#"{"a":"x\"#, "expected one of `\"\\/bfnrtu` after a backslash, found the end of the text at offset 8"),
        (r#"{"a":"\x"}"#, "expected one of `\"\\/bfnrtu` after a backslash, found `x` at offset 7"),
        (r#"{"a":"\u12g4"}"#, "expected four hex digits, found `12g4` at offset 8"),
        (r#"{"a":"\u+123"}"#, "expected four hex digits, found `+` at offset 8"),
        (r#"{"a":"\u00é"}"#, "expected four hex digits, found `00` at offset 8"),
        ("{\"a\":\"x\ny\"}", "unescaped control character `\\n` at offset 7"),
        ("{\"a\":\"\0\"}", "unescaped control character `\\0` at offset 6"),
        (r#"{"a":"é\ud800"}"#, "lone surrogate `\\ud800` at offset 8"),
        (r#"{"a":"\ude00"}"#, "lone surrogate `\\ude00` at offset 6"),
        (r#"{"a":"\uD800\u0041"}"#, "lone surrogate `\\ud800` at offset 6"),
        (r#"{"\ud800\ud800":1}"#, "lone surrogate `\\ud800` at offset 2"),
        // Keys.
        (r#"{"a":1,"a":2}"#, "duplicate key `a` at offset 7"),
        (r#"{"a":[{"b":1,"\u0062":2}]}"#, "duplicate key `b` at offset 13"),
        (r#"{"":1, "":1}"#, "duplicate key `` at offset 7"),
        (r#"{"z":1,"y":1,"y":1,"z":1}"#, "duplicate key `y` at offset 13"),
        (r#"{"\n\u202e":1,"\n\u202e":1}"#, "duplicate key `\\n\\u{202e}` at offset 14"),
    ];

    #[test]
    fn each_refusal_says_what_and_where() {
        for (text, error) in REFUSALS {
            assert_eq!(refusal(text), *error, "{text}");
        }
    }

    #[test]
    fn sixty_four_levels_are_read_and_no_more() {
        let nested = |levels: usize| {
            format!(
                "{}1{}",
                r#"{"a":["#.repeat(levels / 2),
                "]}".repeat(levels / 2)
            )
            .replace('1', &"[]".repeat(levels % 2))
        };
        assert!(Arguments::parse(&nested(64).replace("[]", "[1]"), 4096).is_ok());
        assert_eq!(
            refusal(&nested(65)),
            "nested deeper than 64 levels at offset 192"
        );
        assert!(Value::parse(&"[".repeat(1 << 20), 1 << 20).is_err());
    }

    #[test]
    fn the_size_limit_is_in_bytes_and_inclusive() {
        let text = r#"{"a":"é"}"#;
        assert!(Arguments::parse(text, 10).is_ok());
        let error = Arguments::parse(text, 9).unwrap_err();
        assert_eq!(
            error,
            JsonError {
                offset: 9,
                problem: JsonProblem::TooLarge(9)
            }
        );
        assert_eq!(
            error.to_string(),
            "larger than the 9 bytes allowed at offset 9"
        );
    }

    #[test]
    fn a_long_excerpt_is_cut() {
        let key = "é".repeat(41);
        assert_eq!(
            refusal(&format!(r#"{{"{key}":1,"{key}":1}}"#)),
            format!("duplicate key `{}…` at offset 88", "é".repeat(40))
        );
    }

    #[test]
    fn everything_json_has_is_read() {
        let text = " {\t\"a\" :\r\n[ null , true , false , -1.5E+1 , \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00E9\\uD83D\\uDE00\u{7f}\" , { } , [ ] ] } ";
        let canonical = "{\"a\":[null,true,false,-15,\"\\\"\\\\/\\b\\f\\n\\r\\té😀\u{7f}\",{},[]]}";
        assert_eq!(Arguments::parse(text, 4096).unwrap().canonical(), canonical);
    }
}
