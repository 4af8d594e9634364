//! From a permission policy of the ordered-rules kind to a document of this kind, for `assent import`.
//!
//! Such a policy is JSON: a `default` and `rules`, of which the first whose `tools` match decides, by its lists in the
//! order that S4 has too (`denylist`, `sensitive`, `allowlist`) and then by its `decision`. What cannot be said here is
//! refused, all of it at once; what is said in another way, or may be meant in another way, is noted. Nothing is left out
//! in silence, as half of a policy is another policy.

use std::fmt::Write as _;

use super::error::listed;
use super::lint::unmatched;
use super::pattern::Glob;
use super::{Policy, Source};
use crate::arguments::{JsonError, Object, Value};

/// The most bytes that a policy to import may have.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The lists of a rule, in the order in which they are asked.
const LISTS: [&str; 3] = ["denylist", "sensitive", "allowlist"];

/// A document, and what is to be known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The YAML; it compiles.
    pub document: String,
    /// What is said in another way than in the source, or may be meant in another: one sentence each.
    pub notes: Vec<String>,
}

/// Why a policy cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// It is no JSON, or no one JSON, as a key stands twice.
    #[error("this is no JSON: {0}")]
    Json(#[from] JsonError),
    /// It says what cannot be said here.
    #[error("{}", .0.join("; "))]
    Refused(Vec<String>),
}

/// Reads a policy and writes the document that decides as it does.
///
/// # Errors
/// When it is no JSON, or says what cannot be said in a document: then nothing of it is imported.
pub fn import(text: &str) -> Result<Imported, ImportError> {
    let policy = Value::parse(text, MAX_BYTES)?;
    let mut writer = Writer::default();
    writer.policy(&policy);
    let Writer {
        document,
        notes,
        problems,
    } = writer;
    if !problems.is_empty() {
        return Err(ImportError::Refused(problems));
    }
    let source = Source {
        name: "the imported document".to_owned(),
        text: document,
    };
    // Whatever was not foreseen is an error here, and not when the server starts.
    Policy::compile(std::slice::from_ref(&source))
        .map_err(|error| ImportError::Refused(vec![error.to_string()]))?;
    Ok(Imported {
        document: source.text,
        notes,
    })
}

#[derive(Default)]
struct Writer {
    document: String,
    notes: Vec<String>,
    problems: Vec<String>,
}

impl Writer {
    fn policy(&mut self, policy: &Value) {
        let Value::Object(policy) = policy else {
            self.problem("the policy", "is no object: expected `default` and `rules`");
            return;
        };
        self.known("the policy", policy, &["default", "rules"]);
        self.line("version: 1");
        self.line("# The source knows no risk classes: only its rules and its default ask.");
        self.line("selectors: []");
        self.note("a policy of this kind knows no risk classes, so the document has `selectors: []`: remove that line to have a person asked about writes and destructive calls that the rules allow");
        match policy.get("default") {
            Some(default) => {
                if let Some(default) = self.decision("`default`", default) {
                    self.line(&format!("default: {default}"));
                }
            }
            None => {
                self.line("default: ask");
                self.note("the source says no `default`, so the document says `default: ask`");
            }
        }
        match policy.get("rules") {
            None => {}
            Some(Value::Array(rules)) if rules.is_empty() => {}
            Some(Value::Array(rules)) => {
                self.line("rules:");
                for (position, rule) in rules.iter().enumerate() {
                    self.rule(position, rule);
                }
            }
            Some(_) => self.problem("`rules`", "is no list"),
        }
    }

    fn rule(&mut self, position: usize, rule: &Value) {
        let at = format!("rules[{position}]");
        let Value::Object(rule) = rule else {
            self.problem(&format!("`{at}`"), "is no object");
            return;
        };
        let known = ["tools", "decision", "denylist", "sensitive", "allowlist"];
        self.known(&format!("`{at}`"), rule, &known);
        self.line(&format!("  - id: rule-{}", position + 1));
        let tools = match rule.get("tools") {
            Some(tools) => self.texts(&format!("{at}.tools"), tools),
            None => Vec::new(),
        };
        if tools.is_empty() {
            self.problem(
                &format!("`{at}.tools`"),
                "names no tool: list the tools that it is for",
            );
        }
        let tools: Vec<String> = tools
            .into_iter()
            .map(|(at, pattern)| self.tool(&at, pattern))
            .collect();
        self.list("tools", &tools);
        match rule.get("decision") {
            Some(decision) => {
                if let Some(decision) = self.decision(&format!("`{at}.decision`"), decision) {
                    self.line(&format!("    decision: {decision}"));
                }
            }
            None => self.problem(
                &format!("`{at}.decision`"),
                "is missing: write `allow`, `ask` or `deny`",
            ),
        }
        for key in LISTS {
            let Some(globs) = rule.get(key) else {
                continue;
            };
            let globs = self.texts(&format!("{at}.{key}"), globs);
            for (at, glob) in &globs {
                self.arguments(key, at, glob);
            }
            let globs: Vec<String> = globs.into_iter().map(|(_, glob)| glob.to_owned()).collect();
            if !globs.is_empty() {
                self.list(key, &globs);
            }
        }
    }

    /// A pattern over tool ids, as it is written here.
    fn tool(&mut self, at: &str, pattern: &str) -> String {
        let mut written = pattern.to_owned();
        while written.contains("**") {
            written = written.replace("**", "*");
        }
        if written != pattern {
            self.note(&format!(
                "`{at}`: `{pattern}` is written as `{written}`, as `*` crosses `.` and `/` here"
            ));
        }
        if let Err(error) = Glob::tool(&written) {
            self.problem(&format!("`{at}`"), &format!("`{pattern}` {error}"));
        }
        written
    }

    /// A glob over the arguments stays as it is, if it can.
    fn arguments(&mut self, key: &str, at: &str, glob: &str) {
        if let Err(error) = Glob::arguments(glob) {
            self.problem(&format!("`{at}`"), &format!("`{glob}` {error}"));
            return;
        }
        if let Some(message) = unmatched(key, glob) {
            self.note(&format!("`{at}`: {message}"));
        }
        if spells_a_number(glob) {
            self.note(&format!(
                "`{at}`: `{glob}` spells a number with a point or an exponent, and the arguments spell `1.0` and `1e2` as `1` and `100` here: see that it still matches"
            ));
        }
    }

    fn decision(&mut self, at: &str, decision: &Value) -> Option<&'static str> {
        let named = match decision {
            Value::String(name) => match name.as_str() {
                // As permission modes call it.
                "allow" | "auto" => Some("allow"),
                "ask" => Some("ask"),
                "deny" => Some("deny"),
                _ => None,
            },
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        };
        if named.is_none() {
            let written = decision.canonical();
            self.problem(
                at,
                &format!("is `{written}`: expected `allow`, `ask` or `deny`"),
            );
        }
        named
    }

    /// A list of texts, or one text, each with where it stands.
    fn texts<'v>(&mut self, at: &str, value: &'v Value) -> Vec<(String, &'v str)> {
        let items = match value {
            Value::String(text) => return vec![(at.to_owned(), text.as_str())],
            Value::Array(items) => items.as_slice(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                self.problem(&format!("`{at}`"), "is no list of texts");
                return Vec::new();
            }
        };
        let mut texts = Vec::new();
        for (position, item) in items.iter().enumerate() {
            let at = format!("{at}[{position}]");
            match item {
                Value::String(text) => texts.push((at, text.as_str())),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => self.problem(&format!("`{at}`"), "is no text"),
            }
        }
        texts
    }

    /// What else an object says cannot be said here.
    fn known(&mut self, what: &str, object: &Object, known: &[&str]) {
        for (key, _) in object.iter() {
            if !known.contains(&key) {
                self.problem(
                    what,
                    &format!(
                        "has the key `{key}`, and what is imported has {}: remove it, or write by hand what it says",
                        listed(known)
                    ),
                );
            }
        }
    }

    fn list(&mut self, key: &str, texts: &[String]) {
        let quoted: Vec<String> = texts.iter().map(|text| yaml_text(text)).collect();
        self.line(&format!("    {key}: [{}]", quoted.join(", ")));
    }

    fn line(&mut self, line: &str) {
        self.document.push_str(line);
        self.document.push('\n');
    }

    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    fn problem(&mut self, what: &str, problem: &str) {
        self.problems.push(format!("{what} {problem}"));
    }
}

/// A text in double quotes: as JSON has it, with what YAML does not take as it is escaped too.
fn yaml_text(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    let mut quoted = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                // Writing to a String does not fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted
}

/// Whether a glob holds a digit, and behind it a point or an exponent and another digit.
fn spells_a_number(glob: &str) -> bool {
    let bytes = glob.as_bytes();
    bytes.windows(3).any(|three| match three {
        [before, b'.' | b'e' | b'E', after] => {
            before.is_ascii_digit() && (after.is_ascii_digit() || matches!(after, b'+' | b'-'))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests;
