use std::time::{Duration, Instant};

use super::*;

fn json(text: &str) -> Json {
    Json::parse(text, 1 << 20).unwrap()
}

/// Runs on the stack that compiling and checking are promised.
fn on_the_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)
            .unwrap()
            .join()
            .unwrap()
    })
}

fn refusal(schema: &str) -> String {
    on_the_stack(|| Schema::compile(&json(schema)).unwrap_err().to_string())
}

fn check(schema: &str, payload: &str) -> Result<(), Misfit> {
    on_the_stack(|| {
        Schema::compile(&json(schema))
            .unwrap()
            .check(&json(payload))
    })
}

#[test]
fn a_payload_fits_or_is_told_where_it_does_not() {
    let schema = r##"{
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/payment",
        "type": "object",
        "required": ["id", "lines"],
        "properties": {
            "id": {"type": "string", "pattern": "^p[0-9]+$"},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "minItems": 1},
            "more": {"$ref": "#"}
        },
        "additionalProperties": false,
        "$defs": {"line": {"type": "object", "properties": {"cents": {"type": "integer", "maximum": 100}}}}
    }"##;
    let line = r#"{"cents":100.0}"#;
    let fits = format!(r#"{{"id":"p1","lines":[{line}],"more":{{"id":"p2","lines":[{{}}]}}}}"#);
    assert_eq!(check(schema, &fits), Ok(()));
    for (payload, expected) in [
        (
            "[]",
            "does not fit the schema: value is not of type \"object\"",
        ),
        (
            r#"{"id":"p1"}"#,
            "does not fit the schema: \"lines\" is a required property",
        ),
        (
            r#"{"id":"x","lines":[{}]}"#,
            "does not fit the schema at `/id`: value does not match \"^p[0-9]+$\"",
        ),
        (
            r#"{"id":"p1","lines":[{},{"cents":101}]}"#,
            "does not fit the schema at `/lines/1/cents`: value is greater than the maximum of 100",
        ),
        (
            r#"{"id":"p1","lines":[{}],"more":{"id":"p1","lines":[]}}"#,
            "does not fit the schema at `/more/lines`: value has less than 1 item",
        ),
    ] {
        let misfit = check(schema, payload).unwrap_err().to_string();
        assert_eq!(misfit, expected, "{payload}");
    }
}

#[test]
fn every_draft_from_4_on_is_understood() {
    for (schema, fits, misfit) in [
        (
            r##"{"$schema":"http://json-schema.org/draft-04/schema#","definitions":{"n":{"type":"number","minimum":0,"exclusiveMinimum":true}},"items":{"$ref":"#/definitions/n"}}"##,
            "[1]",
            "[0]",
        ),
        (
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"const":1}],"additionalItems":false}"#,
            "[1.0]",
            "[1,2]",
        ),
        (
            r#"{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"a":true},"unevaluatedProperties":false}"#,
            r#"{"a":1}"#,
            r#"{"b":1}"#,
        ),
        (
            r#"{"prefixItems":[{"type":"null"}],"items":false}"#,
            "[null]",
            "[null,null]",
        ),
        (
            r##"{"$dynamicAnchor":"node","properties":{"next":{"$dynamicRef":"#node"}},"required":["v"]}"##,
            r#"{"v":1,"next":{"v":2}}"#,
            r#"{"v":1,"next":{}}"#,
        ),
        (
            r##"{"$defs":{"a b":{"$anchor":"here","type":"string"}},"anyOf":[{"$ref":"#here"},{"$ref":"#/$defs/a%20b"}]}"##,
            r#""x""#,
            "1",
        ),
        ("true", "{}", "unused"),
        ("{}", "null", "unused"),
    ] {
        assert_eq!(check(schema, fits), Ok(()), "{schema}");
        if misfit != "unused" {
            assert!(check(schema, misfit).is_err(), "{schema}");
        }
    }
    assert!(check("false", "{}").is_err());
}

#[test]
fn what_is_no_schema_is_refused_with_its_place() {
    for (schema, expected) in [
        (r#"{"type": 5}"#, "at `/type`: "),
        (
            r#"{"properties": {"a": {"minLength": -1}}}"#,
            "at `/properties/a/minLength`: ",
        ),
        (
            r#"{"properties": {"a": {"pattern": "("}}}"#,
            "at `/properties/a",
        ),
        ("5", "at `"),
        (r#"{"$schema": "https://example.com/mine"}"#, "at `"),
    ] {
        let refusal = refusal(schema);
        assert!(refusal.starts_with(expected), "{schema}: {refusal}");
    }
}

#[test]
fn a_reference_to_another_document_is_refused_and_nothing_is_fetched() {
    for reference in [
        "http://127.0.0.1:9/schema.json",
        "https://example.com/schema",
        "file:///etc/passwd",
        "other.json",
        "//host/x",
        "",
    ] {
        let schema = format!(r#"{{"properties":{{"a":{{"$ref":"{reference}"}}}}}}"#);
        assert_eq!(
            refusal(&schema),
            format!(
                "`{reference}` at `/properties/a/$ref` refers to another document: put what it names under \
                 `$defs` and refer to it by `#/$defs/NAME`"
            )
        );
    }
    assert_eq!(
        refusal(r##"{"allOf":[{"$ref":"#/$defs/none"}]}"##),
        "`#/$defs/none` at `/allOf/0/$ref` refers to nothing in this schema"
    );
    for keyword in ["$id", "id"] {
        let schema = format!(r#"{{"$defs":{{"a":{{"{keyword}":"http://x/y"}}}}}}"#);
        let refusal = refusal(&schema);
        assert!(
            refusal.starts_with(&format!("`{keyword}` at `/$defs/a/{keyword}`")),
            "{refusal}"
        );
    }
    // A member that has such a name says nothing of the schema.
    let schema = r#"{"properties":{"id":{"type":"string"},"$ref":{"type":"string"}}}"#;
    assert_eq!(check(schema, r#"{"id":"a","$ref":"b"}"#), Ok(()));
}

#[test]
fn a_schema_without_end_is_refused() {
    for schema in [
        r##"{"$ref":"#"}"##,
        r##"{"allOf":[{"anyOf":[{"$ref":"#/allOf/0"}]}]}"##,
        r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"not":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}"##,
        r##"{"$dynamicAnchor":"x","if":{"$dynamicRef":"#x"}}"##,
        r##"{"$schema":"https://json-schema.org/draft/2019-09/schema","oneOf":[{"$recursiveRef":"#"}]}"##,
    ] {
        let refusal = refusal(schema);
        assert!(
            refusal.starts_with("the schema applies itself to the same value without end"),
            "{schema}: {refusal}"
        );
    }
}

/// Definitions that each lead twice to the next, by way of `step`.
fn doubling(levels: usize, step: impl Fn(usize) -> String, last: &str) -> String {
    let mut definitions: Vec<String> = (0..levels)
        .map(|level| format!(r#""d{level}":{}"#, step(level + 1)))
        .collect();
    definitions.push(format!(r#""d{levels}":{last}"#));
    format!(
        r##"{{"$defs":{{{}}},"$ref":"#/$defs/d0"}}"##,
        definitions.join(",")
    )
}

fn twice(next: usize) -> String {
    format!(r##"{{"anyOf":[{{"$ref":"#/$defs/d{next}"}},{{"$ref":"#/$defs/d{next}"}}]}}"##)
}

#[test]
fn a_deep_schema_is_refused() {
    let too_deep =
        "the schema is too complex: too many parts apply to one value, one by way of the next";
    let next = |next: usize| format!(r##"{{"$ref":"#/$defs/d{next}"}}"##);
    assert_eq!(refusal(&doubling(5_000, next, "{}")), too_deep);
    assert_eq!(refusal(&doubling(60, twice, "false")), too_deep);
    let patterns = vec![r#"{"pattern":"a"}"#; 201].join(",");
    assert_eq!(
        refusal(&format!(r#"{{"anyOf":[{patterns}]}}"#)),
        "the schema is too complex: it has too many patterns"
    );
    let wide = format!(r#"{{"anyOf":[{}]}}"#, vec!["{}"; 20_001].join(","));
    assert_eq!(
        refusal(&wide),
        "the schema is too complex: it has too many parts"
    );
}

#[test]
fn a_check_that_would_take_too_long_is_not_begun() {
    // Fifteen levels are within the nesting, but three ways on each are not within the cost.
    let thrice = |next| {
        let way = format!(r##"{{"$ref":"#/$defs/d{next}"}}"##);
        format!(r#"{{"anyOf":[{way},{way},{way}]}}"#)
    };
    let exponential = doubling(15, thrice, "false");
    let within = doubling(15, twice, "false");
    let through_payload = doubling(
        40,
        |next| {
            format!(
                r##"{{"anyOf":[{{"items":{{"$ref":"#/$defs/d{next}"}}}},{{"items":{{"$ref":"#/$defs/d{next}"}}}}]}}"##
            )
        },
        "false",
    );
    let nested = format!("{}1{}", "[".repeat(60), "]".repeat(60));
    let strings = format!(
        r#"["{}"]"#,
        vec!["aaaaaaaaaaaaaaaaaaaaaaaaaaaab"; 9_000].join(r#"",""#)
    );
    let patterns = (0..40).map(|n| format!(r#"{{"pattern":"(a+)+${n}"}}"#));
    let patterns = format!(
        r#"{{"items":{{"allOf":[{}]}}}}"#,
        patterns.collect::<Vec<_>>().join(",")
    );
    let unevaluated = {
        let mut schema = r#"{"properties":{"a":true}}"#.to_owned();
        for _ in 0..14 {
            schema = format!(
                r#"{{"anyOf":[{schema},{{"required":["zz"]}}],"unevaluatedProperties":false}}"#
            );
        }
        schema
    };
    for (schema, payload) in [
        (exponential.as_str(), "[1]"),
        (&within, "[1]"),
        (&through_payload, &nested),
        (&patterns, &strings),
        (&unevaluated, r#"{"a":1,"b":2}"#),
        (r#"{"uniqueItems":true,"maxItems":1000000000}"#, &strings),
        (r#"{"items":{"pattern":"^(a+)+$"}}"#, &strings),
        (
            r#"{"contains":{"pattern":"(a|a)*b$"},"minContains":9000}"#,
            &strings,
        ),
        (
            r#"{"maxLength":1e18,"maxItems":18446744073709551615}"#,
            &strings,
        ),
    ] {
        let begun = Instant::now();
        let _fits_or_not = check(schema, payload);
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(10), "{schema:.60} took {took:?}");
    }
    for (schema, payload) in [
        (exponential.as_str(), "[1]"),
        (&through_payload, &nested),
        (&patterns, &strings),
    ] {
        assert_eq!(
            check(schema, payload),
            Err(Misfit::TooCostly),
            "{schema:.60}"
        );
    }
}

#[test]
fn what_may_be_checked_is_checked_in_bounded_time_and_stack() {
    // As deep as a schema and a payload may be, at every level at once.
    let levels = 29;
    let last = r##"{"items":{"$ref":"#/$defs/d0"},"type":["array","integer"]}"##;
    let deep = doubling(
        levels,
        |next| format!(r##"{{"allOf":[{{"$ref":"#/$defs/d{next}"}}]}}"##),
        last,
    );
    assert!(refusal(&deep).starts_with("the schema is too complex"));
    let deep = doubling(
        13,
        |next| format!(r##"{{"allOf":[{{"$ref":"#/$defs/d{next}"}}]}}"##),
        last,
    );
    let nested = |inner: &str| format!("{}{inner}{}", "[".repeat(63), "]".repeat(63));
    assert_eq!(check(&deep, &nested("1")), Ok(()));
    assert!(matches!(
        check(&deep, &nested("null")),
        Err(Misfit::Unfit { .. })
    ));
}

#[test]
fn a_schema_as_large_as_there_may_be_is_compiled_in_bounded_time() {
    let definitions: Vec<String> = (0..20_000).map(|n| format!(r#""d{n}":{{}}"#)).collect();
    let patterns: Vec<String> = (0..200)
        .map(|n| format!(r#"{{"pattern":"^[a-f]{{1,900}}{n}$"}}"#))
        .collect();
    for schema in [
        format!(r#"{{"$defs":{{{}}}}}"#, definitions.join(",")),
        format!(r#"{{"anyOf":[{}]}}"#, vec!["{}"; 19_999].join(",")),
        format!(r#"{{"anyOf":[{}]}}"#, patterns.join(",")),
        format!(r#"{{"enum":[{}]}}"#, vec!["[]"; 60_000].join(",")),
    ] {
        let begun = Instant::now();
        let compiled = on_the_stack(|| Schema::compile(&json(&schema)).map(drop));
        let took = begun.elapsed();
        assert_eq!(compiled, Ok(()), "{schema:.60}");
        assert!(took < Duration::from_secs(10), "{schema:.60} took {took:?}");
    }
}

#[test]
fn only_patterns_that_are_linear_are_taken() {
    for pattern in ["(?=a)b", "(a)\\\\1", "(?<!x)y"] {
        let schema = format!(r#"{{"pattern":"{pattern}"}}"#);
        assert!(refusal(&schema).starts_with("at `"), "{pattern}");
    }
    for pattern in [
        "(((a{1,100}){1,100}){1,100}){1,100}".to_owned(),
        "(".repeat(50_000),
        format!("{}a{}", "(".repeat(50_000), ")".repeat(50_000)),
        "[".repeat(50_000),
    ] {
        let schema = format!(r#"{{"pattern":"{pattern}"}}"#);
        assert!(refusal(&schema).starts_with("at `"), "{pattern:.20}");
    }
    // Slow for an engine that tries one way after the other.
    let schema = r#"{"pattern":"^(a+)+$"}"#;
    let text = "a".repeat(60_000);
    assert_eq!(check(schema, &format!(r#""{text}""#)), Ok(()));
    assert!(check(schema, &format!(r#""{text}!""#)).is_err());
}

#[test]
fn a_number_that_cannot_be_compared_exactly_is_refused() {
    for number in ["18446744073709551616", "1e400", "1e-400"] {
        assert!(matches!(
            check(r#"{"type":"number"}"#, number),
            Err(Misfit::Number(_))
        ));
        assert!(Schema::compile(&json(&format!(r#"{{"const":{number}}}"#))).is_err());
    }
    let exact = r#"{"const":9007199254740993}"#;
    assert_eq!(check(exact, "9007199254740993.0"), Ok(()));
    assert!(check(exact, "9007199254740992").is_err());
    assert_eq!(
        check(
            r#"{"maximum":18446744073709551615}"#,
            "18446744073709551615"
        ),
        Ok(())
    );
}

#[test]
fn a_format_is_not_checked() {
    let schema = r#"{"$schema":"http://json-schema.org/draft-07/schema#","format":"date"}"#;
    assert_eq!(check(schema, r#""no date""#), Ok(()));
}

#[test]
fn a_member_that_is_called_like_a_keyword_is_a_schema_like_the_others() {
    for name in ["default", "const", "enum", "examples"] {
        let under = |keyword: &str| {
            format!(r#"{{"{keyword}": {{"{name}": {{"$id": "https://example.com/x"}}}}}}"#)
        };
        for keyword in ["properties", "$defs", "patternProperties"] {
            let refused = refusal(&under(keyword));
            let place = format!("`/{keyword}/{name}/$id`");
            assert!(refused.contains(&place), "{refused}");
        }
        // A value has no base, unless something refers to it.
        let value = format!(r##"{{"{name}": [{{"$id": "https://example.com/x"}}]}}"##);
        on_the_stack(|| Schema::compile(&json(&value)).map(drop)).unwrap();
        let anchored = format!(
            r##"{{"$ref": "#here", "properties": {{"{name}": {{"$anchor": "here", "type": "object"}}}}}}"##
        );
        assert!(check(&anchored, "{}").is_ok() && check(&anchored, "1").is_err());
    }
    let refused =
        refusal(r##"{"default": {"$id": "https://example.com/x"}, "$ref": "#/default"}"##);
    assert!(refused.contains("`/default/$id`"), "{refused}");
}
