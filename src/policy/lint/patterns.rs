//! Patterns that match nothing, or hardly anything, because of how they are spelled.

use super::{Found, Pattern, Subject};
use crate::arguments::Arguments;
use crate::policy::error::quoted;
use crate::policy::pattern::Glob;

pub(super) fn lint(subject: &Subject<'_, '_>, found: &mut Found) {
    for rule in &subject.rules {
        let written = rule.written;
        for (key, list) in [
            ("denylist", &written.denylist),
            ("sensitive", &written.sensitive),
            ("allowlist", &written.allowlist),
        ] {
            for glob in list {
                if let Some(message) = unmatched(key, &glob.value) {
                    found.warn("unmatched-glob", glob.place(), message);
                } else if ["*", "{*}"].contains(&glob.value.as_str()) {
                    found.warn(
                        "everything-glob",
                        glob.place(),
                        everything(key, &glob.value),
                    );
                }
            }
        }
    }
    let rules = subject.rules.iter().map(|rule| ("tools", &rule.tools));
    let lists = [("always", &subject.always), ("never", &subject.never)];
    for (key, patterns) in rules.chain(lists) {
        for pattern in patterns {
            no_glob(key, pattern, found);
        }
    }
}

/// What is wrong with a glob over the arguments that can match none, or none that are meant.
pub(in crate::policy) fn unmatched(key: &str, glob: &str) -> Option<String> {
    // A bad one is refused elsewhere.
    let compiled = Glob::arguments(glob).ok()?;
    let pattern = quoted(glob);
    let never = |why: &str| format!("`{key}`: {pattern} can match no arguments, as {why}");
    Some(if !compiled.can_match_an_object() {
        let instead = if key == "allowlist" {
            // A part of the arguments would allow whatever stands beside it.
            r#"write all of them, such as `{"command": "pwd"}`"#.to_owned()
        } else {
            let word = glob.trim_matches(['*', '^', '$', '.']);
            format!("write {}", quoted(&format!("*{word}*")))
        };
        never(&format!(
            "they are one JSON object from `{{` to `}}`: {instead}"
        ))
    } else if glob.contains(char::is_control) {
        never("a line break and its like are spelled as escapes there, such as `\\n`: write that")
    } else if let Some(exact) = compiled.exact()
        && let spelled = Arguments::parse(exact, usize::MAX).map(|read| read.spaced())
        && spelled.as_deref() != Ok(exact)
    {
        match spelled {
            Ok(spelled) => never(&format!(
                "they are spelled {}: write that",
                quoted(&spelled)
            )),
            Err(error) => never(&format!("it is no JSON object: {error}")),
        }
    } else if let Some(class) = list_as_class(glob) {
        format!(
            "`{key}`: in {pattern} {} is one character of those between the brackets, and no list: write `[[]` for the bracket that begins one",
            quoted(class)
        )
    } else if is_crowded(glob) {
        format!(
            "`{key}`: {pattern} hardly matches anything, as there is a space behind each `:` and `,` between things: write `\"key\": \"value\"`"
        )
    } else {
        return None;
    })
}

/// What is written as a JSON list where brackets are a class of characters: it holds a quote or a comma, or is a value.
fn list_as_class(glob: &str) -> Option<&str> {
    let mut rest = glob;
    loop {
        let start = rest.find('[')?;
        let class = rest.get(start..)?;
        // A bracket that comes first stands for itself.
        let inner = class.get(1..)?.trim_start_matches('!');
        let skipped = class.len() - inner.len();
        let first = inner.chars().next()?.len_utf8();
        let end = skipped + first + inner.get(first..)?.find(']')? + 1;
        let (class, after) = class.split_at_checked(end)?;
        let is_value = rest.get(..start)?.ends_with(": ") && after.starts_with(['}', ',']);
        if class.contains(['"', ',']) || is_value && !class.contains('-') {
            return Some(class);
        }
        rest = after;
    }
}

/// What a glob that matches all arguments makes of its list.
fn everything(key: &str, glob: &str) -> String {
    let effect = match key {
        "denylist" => "denies every call of the rule: write `decision: deny`",
        "sensitive" => "asks about every call of the rule: write `decision: ask`",
        _ => "allows every call of the rule that no other list decides: write `decision: allow`",
    };
    format!(
        "`{key}`: {} matches whatever the arguments are, so it {effect}",
        quoted(glob)
    )
}

/// Whether a colon or a comma stands between two things without the space that follows it there.
fn is_crowded(glob: &str) -> bool {
    let behind_key = glob.match_indices("\":").any(|(at, found)| {
        let next = glob
            .get(at + found.len()..)
            .and_then(|rest| rest.chars().next());
        next.is_some_and(|next| !" *?[".contains(next))
    });
    behind_key || glob.contains("\",\"")
}

/// A pattern of tools that is spelled as a regular expression is, or as a list: the characters stand for themselves.
fn no_glob(key: &str, pattern: &Pattern<'_, '_>, found: &mut Found) {
    let written = &pattern.written.value;
    let why = if written.trim() != written {
        "there is a space at its end, which no tool id is likely to have"
    } else if written.contains(['^', '$', '|', '(', ')']) {
        "it is no regular expression: `*` and `?` are all there is, and one pattern for each alternative"
    } else if written.starts_with('!') {
        "a `!` in front does not negate: name the tools that are meant"
    } else if written.contains(',') {
        "a comma does not separate: write one pattern for each tool"
    } else {
        return;
    };
    found.warn(
        "odd-pattern",
        pattern.written.place(),
        format!("`{key}`: {} hardly matches a tool: {why}", quoted(written)),
    );
}
