//! What globs match and what is refused, by table and by definition.

use proptest::prelude::*;

use super::*;

#[test]
fn tool_patterns_match_as_the_table_says() {
    let table = [
        ("client.open", "client.open", true),
        ("client.open", "client.opened", false),
        ("client.open", "Client.open", false),
        ("*", "", true),
        ("*", "a.b/c", true),
        ("client.*", "client.", true),
        ("client.*", "client.a/b.c", true),
        ("client.*", "my.client.a", false),
        ("*.delete", "github.repo.delete", true),
        ("*.delete", "github.delete.x", false),
        ("a*b*c", "abc", true),
        ("a*b*c", "a_b_b_c", true),
        ("a*b*c", "acb", false),
        ("a*a", "a", false),
        ("a*a", "aa", true),
        ("?", "é", true),
        ("?", "", false),
        ("a?c", "abc", true),
        ("client.[og]*", "client.open_case", true),
        ("client.[og]*", "client.delete", false),
        ("client.[!og]*", "client.delete", true),
        ("client.[!og]*", "client.open", false),
        ("v[0-9]", "v7", true),
        ("v[0-9]", "vx", false),
        ("[]x]", "]", true),
        ("[!]x]", "]", false),
        ("[[]", "[", true),
        ("[a-]", "-", true),
        ("*[ab]?d*", "xxbd", false),
        ("*[ab]?d*", "xxbcdxx", true),
        ("*a?a?b*", "aaaaaaaab", true),
        ("*a?a?b*", "aaaa", false),
        ("a[\\]*", "a\\b", true),
    ];
    for (pattern, text, expected) in table {
        let glob = Glob::tool(pattern).unwrap();
        assert_eq!(glob.matches(text), expected, "`{pattern}` over `{text}`");
    }
}

#[test]
fn argument_patterns_take_braces_and_backslashes_as_they_are() {
    let table = [
        (r#"{"command": "ls*"}"#, r#"{"command": "ls -l"}"#, true),
        (r#"{"command": "ls*"}"#, r#"{"command": "rm"}"#, false),
        ("*rm -rf*", r#"{"command": "sudo rm -rf /"}"#, true),
        ("**rm**", r#"{"command": "rm"}"#, true),
        (r#"*C:\\Windows*"#, r#"{"path": "C:\\Windows\\x"}"#, true),
        (r#"*[[]*"#, r#"{"a": [1]}"#, true),
    ];
    for (pattern, text, expected) in table {
        let glob = Glob::arguments(pattern).unwrap();
        assert_eq!(glob.matches(text), expected, "`{pattern}` over `{text}`");
    }
}

#[test]
fn patterns_that_other_globs_read_differently_are_refused() {
    let table = [
        ("", 0, "is empty"),
        ("client.**", 7, "write `*`"),
        (
            r"client.\*",
            7,
            r"write `[*]`, `[?]` or `[[]` for such a character itself, and `[\]`",
        ),
        ("a.{b,c}", 2, "one pattern for each"),
        ("a}", 1, "one pattern for each"),
        ("a[bc", 1, "write `[[]`"),
        ("a[]", 1, "write `[[]`"),
        ("[^a]", 0, "write `[!`"),
        ("[z-a]", 0, "write `a-z`"),
    ];
    for (pattern, offset, words) in table {
        let error = Glob::tool(pattern).unwrap_err();
        assert_eq!(error.offset, offset, "`{pattern}`: {error}");
        assert!(error.message.contains(words), "`{pattern}`: {error}");
    }
}

#[test]
fn a_pattern_shows_what_an_index_can_use() {
    assert_eq!(Glob::tool("a.b").unwrap().exact(), Some("a.b"));
    assert_eq!(Glob::tool("a.*").unwrap().exact(), None);
    assert_eq!(Glob::tool("a.?").unwrap().exact(), None);
    assert_eq!(Glob::tool("a.[b]c*").unwrap().prefix(), "a.");
    assert_eq!(Glob::tool("*a").unwrap().prefix(), "");
}

#[test]
fn a_pattern_that_no_object_can_match_is_recognised() {
    for (pattern, expected) in [
        ("rm *", false),
        ("*rm *", true),
        ("{*", true),
        ("*\"", false),
        ("{}", true),
        ("?", false),
        ("[{]*[}]", true),
    ] {
        let glob = Glob::arguments(pattern).unwrap();
        assert_eq!(glob.can_match_an_object(), expected, "`{pattern}`");
    }
}

#[test]
fn a_long_run_of_wildcards_over_a_long_text_is_linear() {
    let text = "a".repeat(128 * 1024);
    let best = |wildcards: usize| {
        let glob = Glob::arguments(&format!("*{}b*", "a?".repeat(wildcards))).unwrap();
        let time = || {
            let start = std::time::Instant::now();
            assert!(!glob.matches(&text));
            start.elapsed()
        };
        (0..5).map(|_| time()).min().unwrap()
    };
    // Trying every start would take some twenty times as long.
    let (short, long) = (best(3), best(60));
    assert!(
        long < short * 8,
        "{short:?} for 7 characters, {long:?} for 121"
    );
}

/// The definition of a glob, exponential and obvious.
fn matches_by_definition(pattern: &[char], text: &[char]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        (['*', pattern @ ..], _) => {
            matches_by_definition(pattern, text)
                || !text.is_empty()
                    && matches_by_definition(
                        &['*'].iter().chain(pattern).copied().collect::<Vec<_>>(),
                        &text[1..],
                    )
        }
        (['?', pattern @ ..], [_, text @ ..]) => matches_by_definition(pattern, text),
        ([p, pattern @ ..], [t, text @ ..]) => p == t && matches_by_definition(pattern, text),
        _ => false,
    }
}

proptest! {
    #[test]
    fn every_match_is_one_by_definition(pattern in "[ab?*é]{1,9}", text in "[abé]{0,10}") {
        let chars: Vec<char> = text.chars().collect();
        let definition: Vec<char> = pattern.chars().collect();
        let glob = Glob::arguments(&pattern).unwrap();
        prop_assert_eq!(glob.matches(&text), matches_by_definition(&definition, &chars));
    }

    #[test]
    fn no_pattern_panics(pattern in any::<String>(), text in any::<String>()) {
        for glob in [Glob::tool(&pattern), Glob::arguments(&pattern)].into_iter().flatten() {
            let _ = glob.matches(&text);
            if let Some(exact) = glob.exact() {
                prop_assert!(glob.matches(exact));
            }
        }
    }
}
