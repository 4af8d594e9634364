//! Text from elsewhere, made fit for a terminal.
//!
//! What an approver reads was written by a model, a tool's author or another approver. Nothing of it may
//! move the cursor, colour or hide words, turn their direction round, or pass for a line of ours. So: every
//! character that is not plainly visible is spelled out, and lines are wrapped here rather than by the terminal, since
//! padding up to the edge would otherwise let a text begin at the left margin.

use std::fmt::Write;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};
use unicode_width::UnicodeWidthChar;

/// How many columns a text takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// One line: line breaks are spelled out as well, as `\n`.
pub(super) fn line(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            c if is_deceptive(c) => {
                // Writing to a String does not fail.
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
            }
            c => safe.push(c),
        }
    }
    safe
}

/// A name inside a sentence of ours: bare if it is one plain word, else in double quotes, so that it ends
/// where it seems to end.
pub(super) fn name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:/@+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("\"{}\"", line(text).replace('"', "\\\""))
}

/// Several names.
pub(super) fn names<S: AsRef<str>>(texts: &[S]) -> String {
    let names: Vec<_> = texts.iter().map(|text| name(text.as_ref())).collect();
    names.join(", ")
}

/// A word of a POSIX shell that stands for exactly this text.
pub(super) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:/@+=,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The text cut to a number of columns, with an ellipsis if anything is missing.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += char_width(c);
        if used > columns {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

/// The text in lines of at most this many columns, broken after a space where there is one. Nothing is left out.
pub(super) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    let mut used = 0;
    for c in text.chars() {
        if used + char_width(c) > columns && !current.is_empty() {
            let rest = match current.rfind(' ') {
                Some(space) if !current.trim_end().is_empty() => current.split_off(space + 1),
                _ => String::new(),
            };
            used = width(&rest);
            lines.push(std::mem::replace(&mut current, rest));
        }
        current.push(c);
        used += char_width(c);
    }
    lines.push(current);
    lines
}

/// JSON text in indented lines, token for token as it was written: numbers keep their spelling, which a parser
/// would round. Strings are left alone but for deceptive characters, which become JSON escapes.
pub(super) fn json_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut tokens = text.chars().peekable();
    while let Some(c) = tokens.next() {
        if in_string {
            push_json_char(&mut current, c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            ' ' | '\t' | '\n' | '\r' => {}
            '{' | '[' => {
                current.push(c);
                while tokens.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                if let Some(close) = tokens.next_if(|c| matches!(c, '}' | ']')) {
                    current.push(close);
                } else {
                    depth += 1;
                    break_line(&mut lines, &mut current, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut lines, &mut current, depth);
                current.push(c);
            }
            ',' => {
                current.push(c);
                break_line(&mut lines, &mut current, depth);
            }
            ':' => current.push_str(": "),
            c => {
                in_string = c == '"';
                push_json_char(&mut current, c);
            }
        }
    }
    lines.push(current);
    lines
}

fn break_line(lines: &mut Vec<String>, current: &mut String, depth: usize) {
    lines.push(std::mem::replace(current, "  ".repeat(depth)));
}

/// JSON text with its deceptive characters as `\u` escapes: the same value, safe to print.
pub(super) fn json_text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        push_json_char(&mut safe, c);
    }
    safe
}

fn push_json_char(safe: &mut String, c: char) {
    if !is_deceptive(c) {
        safe.push(c);
        return;
    }
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing to a String does not fail.
        let _ = write!(safe, "\\u{unit:04x}");
    }
}

/// Whether a terminal would do something else with a character than show it: controls (escape sequences), format
/// characters (bidirectional controls, zero-width and tag characters), separators that break a line, what
/// fonts and terminals are free to invent, and letters that are drawn as nothing.
fn is_deceptive(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    matches!(
        c.general_category(),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::PrivateUse
            | GeneralCategory::Surrogate
            | GeneralCategory::Unassigned
    ) || matches!(
        c,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelled_out() {
        let cases = [
            ("plain £ text, 日本語, é", "plain £ text, 日本語, é"),
            ("\u{1b}[2Jgone\u{7}", "\\u{1b}[2Jgone\\u{7}"),
            ("\u{9b}31mred", "\\u{9b}31mred"),
            ("pay \u{202e}001\u{202c}", "pay \\u{202e}001\\u{202c}"),
            (
                "\u{2066}a\u{2069}\u{200b}b",
                "\\u{2066}a\\u{2069}\\u{200b}b",
            ),
            ("a\nb\r\nc\td", "a\\nb\\r\\nc\\td"),
            ("a\u{2028}b\u{85}c", "a\\u{2028}b\\u{85}c"),
            ("tag\u{e0041}", "tag\\u{e0041}"),
            ("a\u{3164}b\u{7f}", "a\\u{3164}b\\u{7f}"),
        ];
        for (text, safe) in cases {
            assert_eq!(line(text), safe);
            assert_eq!(line(safe), safe, "doing it twice changes nothing");
        }
    }

    #[test]
    fn a_name_ends_where_it_seems_to_end() {
        assert_eq!(name("manager-7"), "manager-7");
        assert_eq!(name("bob, by alice"), "\"bob, by alice\"");
        assert_eq!(name("a\" b"), "\"a\\\" b\"");
        assert_eq!(name(""), "\"\"");
        assert_eq!(names(&["a", "b c"]), "a, \"b c\"");
    }

    #[test]
    fn a_shell_word_is_not_run() {
        assert_eq!(shell_word("acme-1"), "acme-1");
        assert_eq!(shell_word("a; rm -rf $HOME"), "'a; rm -rf $HOME'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn a_cut_text_says_so() {
        assert_eq!(cut("refund", 6), "refund");
        assert_eq!(cut("refunds", 6), "refun…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
    }

    #[test]
    fn a_wrapped_text_loses_nothing() {
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("one two three", 8), ["one two ", "three"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
        let padded = format!("x{}status approved", " ".repeat(40));
        let lines = wrap(&padded, 10);
        assert_eq!(lines.concat(), padded);
        assert!(lines.iter().all(|line| width(line) <= 10));
    }

    #[test]
    fn json_is_laid_out_token_for_token() {
        let text =
            r#"{"n":9007199254740993.10, "e":{} ,"l":[ ],"s":"a,b:{\"}\\","d":[1,{"x":1e400}]}"#;
        let lines = [
            "{",
            "  \"n\": 9007199254740993.10,",
            "  \"e\": {},",
            "  \"l\": [],",
            "  \"s\": \"a,b:{\\\"}\\\\\",",
            "  \"d\": [",
            "    1,",
            "    {",
            "      \"x\": 1e400",
            "    }",
            "  ]",
            "}",
        ];
        assert_eq!(json_lines(text), lines);
        assert_eq!(json_lines(&lines.join("\n")), lines);
    }

    #[test]
    fn json_keeps_its_value_when_made_safe() {
        let text = "{\"a\":\"\u{202e}x\u{9b}\u{e0041}é\"}";
        let safe = r#"{"a":"\u202ex\u009b\udb40\udc41é"}"#;
        assert_eq!(json_text(text), safe);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(safe).unwrap(),
            serde_json::from_str::<serde_json::Value>(text).unwrap()
        );
        assert_eq!(
            json_lines(text),
            ["{", "  \"a\": \"\\u202ex\\u009b\\udb40\\udc41é\"", "}"]
        );
    }

    #[test]
    fn broken_json_is_still_shown() {
        assert_eq!(json_lines("]]{"), ["", "]", "]{", "  "]);
        assert_eq!(json_lines("\"open"), ["\"open"]);
    }
}
