//! What other languages write where CEL writes something else, so that a refusal can say what to write.

/// Operators and words, and CEL's.
const OPERATORS: [(&str, &str); 15] = [
    ("=", "=="),
    ("===", "=="),
    ("!==", "!="),
    ("<>", "!="),
    ("=>", ">="),
    ("=<", "<="),
    ("&", "&&"),
    ("|", "||"),
    ("=~", "x.matches('…')"),
    ("and", "&&"),
    ("or", "||"),
    ("not", "!"),
    ("is", "=="),
    ("matches", "x.matches('…')"),
    ("like", "x.matches('…')"),
];

/// Names of values and functions, and CEL's.
const NAMES: [(&str, &str); 12] = [
    ("True", "true"),
    ("False", "false"),
    ("None", "null"),
    ("nil", "null"),
    ("undefined", "null"),
    ("len", "size"),
    ("length", "size"),
    ("count", "size"),
    ("any", "exists"),
    ("some", "exists"),
    ("every", "all"),
    ("includes", "contains"),
];

/// `: write X` where a name that there is not is another language's for one that there is, else nothing.
pub(super) fn instead_of(name: &str) -> String {
    let known = NAMES.iter().find(|(other, _)| *other == name);
    known.map_or_else(String::new, |(_, own)| format!(": write `{own}`"))
}

/// `: write X` where another language's operator stands at a character of a text or, being a word that was taken for a
/// name, before it; else nothing.
pub(super) fn instead_of_operator_at(source: &str, offset: usize) -> String {
    let characters: Vec<char> = source.chars().collect();
    let (before, after) = characters.split_at(offset.min(characters.len()));
    let is_sign = |c: &char| "=!<>&|~".contains(*c);
    let is_letter = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let around = |is_part: &dyn Fn(&char) -> bool, before: &[char]| -> String {
        let start = before
            .iter()
            .rposition(|c| !is_part(c))
            .map_or(0, |at| at + 1);
        let before = before.get(start..).unwrap_or_default().iter();
        before
            .chain(after.iter().take_while(|c| is_part(c)))
            .collect()
    };
    let spaces = before.iter().rev().take_while(|c| **c == ' ').count();
    let earlier = before.get(..before.len() - spaces).unwrap_or_default();
    let word_before: String = {
        let start = earlier.iter().rposition(|c| !is_letter(c));
        earlier.iter().skip(start.map_or(0, |at| at + 1)).collect()
    };
    [
        around(&is_sign, before),
        around(&is_letter, before),
        word_before,
    ]
    .iter()
    .map(|written| written.to_lowercase())
    .find_map(|written| OPERATORS.iter().find(|(other, _)| *other == written))
    .map_or_else(String::new, |(_, own)| format!(": write `{own}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_of_another_language_is_found_where_the_parser_stops() {
        for (source, offset, own) in [
            ("a = 1", 2, "`==`"),
            ("a === 1", 4, "`==`"),
            ("a !== 1", 4, "`!=`"),
            ("a => 1", 2, "`>=`"),
            ("a <> 1", 3, "`!=`"),
            ("a and b", 2, "`&&`"),
            ("not b", 4, "`!`"),
            ("a OR b", 2, "`||`"),
            ("é or b", 2, "`||`"),
        ] {
            let hint = instead_of_operator_at(source, offset);
            assert_eq!(hint, format!(": write {own}"), "{source}");
        }
    }

    #[test]
    fn nothing_is_said_of_what_no_language_writes() {
        for (source, offset) in [
            ("a > > 1", 4),
            ("a == 1;", 6),
            ("", 0),
            ("a b", 9),
            ("band b", 5),
        ] {
            assert_eq!(instead_of_operator_at(source, offset), "", "{source}");
        }
    }
}
