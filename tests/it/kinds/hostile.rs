//! Schemas and payloads that mean harm: each is refused or done in bounded time, and decisions go on meanwhile.

use std::time::Instant;

use super::*;

on_both_stores! {
    a_hostile_schema_is_refused_at_opening: "";
    a_hostile_check_is_refused_and_what_was_asked_still_waits: "";
    decisions_go_on_while_schemas_are_checked: "";
}

fn external(schema: &str) -> pb::SuspendRequest {
    pb::SuspendRequest {
        payload_schema_json: schema.to_owned(),
        ..request(Kind::External, "")
    }
}

/// Definitions that each lead to the next by way of `step`.
fn chain(levels: usize, step: impl Fn(&str) -> String) -> String {
    let definitions = (0..levels).map(|level| {
        let next = format!(r##"{{"$ref":"#/$defs/d{}"}}"##, level + 1);
        format!(r#""d{level}":{}"#, step(&next))
    });
    let definitions: Vec<String> = definitions.collect();
    format!(
        r##"{{"$defs":{{{},"d{levels}":false}},"$ref":"#/$defs/d0"}}"##,
        definitions.join(",")
    )
}

async fn a_hostile_schema_is_refused_at_opening(world: World) {
    for (schema, says) in [
        ("{", "expected"),
        (r#"{"type":5}"#, "at `/type`"),
        (r#"{"a":1,"a":2}"#, "duplicate key `a` at offset 7"),
        (
            r#"{"$ref":"http://127.0.0.1:9/x"}"#,
            "`http://127.0.0.1:9/x` at `/$ref` refers to another document",
        ),
        (
            r#"{"items":{"$ref":"file:///etc/passwd"}}"#,
            "`file:///etc/passwd` at `/items/$ref` refers to another document",
        ),
        (
            r##"{"$ref":"#"}"##,
            "applies itself to the same value without end",
        ),
        (&chain(3_000, str::to_owned), "too complex"),
        (
            &chain(40, |next| format!(r#"{{"anyOf":[{next},{next}]}}"#)),
            "too complex",
        ),
        (r#"{"pattern":"(?=a)"}"#, "at `"),
        (r#"{"pattern":"((a{1,1000}){1,1000}){1,1000}"}"#, "at `"),
    ] {
        let begun = Instant::now();
        let status = world.suspend(external(schema)).await.unwrap_err();
        assert_eq!(
            status.code(),
            Code::InvalidArgument,
            "{schema:.60}: {status:?}"
        );
        assert_eq!(fields(&status), ["payload_schema_json"], "{schema:.60}");
        assert!(
            status.message().contains(says),
            "{schema:.60}: {}",
            status.message()
        );
        assert!(begun.elapsed() < Duration::from_secs(10), "{schema:.60}");
    }
}

async fn a_hostile_check_is_refused_and_what_was_asked_still_waits(world: World) {
    let costly = chain(14, |next| format!(r#"{{"anyOf":[{next},{next},{next}]}}"#));
    let opened = world.suspend(external(&costly)).await.unwrap();
    let status = world
        .resume(by("ann", &opened, payload("1")))
        .await
        .unwrap_err();
    assert_eq!(fields(&status), ["external.payload_json"]);
    assert!(
        status.message().contains("would take too long"),
        "{status:?}"
    );
    assert_eq!(world.read(&opened).await, opened);

    let pattern = world
        .suspend(external(r#"{"pattern":"^(a+)+$"}"#))
        .await
        .unwrap();
    let text = format!(r#""{}!""#, "a".repeat(100_000));
    let status = world
        .resume(by("ann", &pattern, payload(&text)))
        .await
        .unwrap_err();
    assert_eq!(fields(&status), ["external.payload_json"]);
    let text = format!(r#""{}""#, "a".repeat(100_000));
    world.accepted(by("ann", &pattern, payload(&text))).await;
}

async fn decisions_go_on_while_schemas_are_checked(world: World) {
    // About the most that one check may cost.
    let slow = chain(13, |next| format!(r#"{{"anyOf":[{next},{next}]}}"#));
    let slow = format!(r#"{{"items":{slow}}}"#).replace("#/$defs", "#/items/$defs");
    let opened = world.suspend(external(&slow)).await.unwrap();
    let items = format!("[{}]", ["1"; 9].join(","));
    let checks: Vec<_> = (0..200)
        .map(|number| {
            let request = by(&format!("p{number}"), &opened, payload(&items));
            let mut client = world.client.clone();
            tokio::spawn(async move { client.resume(request).await })
        })
        .collect();
    for number in 0..20 {
        let mut read = in_run("r1", &format!("c{number}"));
        let Some(pb::decide_request::Action::Call(call)) = &mut read.action else {
            panic!("it is a call");
        };
        call.annotations = Some(pb::Annotations {
            read_only_hint: Some(true),
            ..Default::default()
        });
        let decided = world.decide(read).await;
        assert_eq!(decided.effect(), pb::Effect::Allow);
    }
    // On the threads that serve they would have been done in the order of asking, and so before any decision.
    let running = checks.iter().filter(|check| !check.is_finished()).count();
    assert!(
        running > checks.len() / 4,
        "only {running} were still at it"
    );
    for check in checks {
        let status = check.await.unwrap().unwrap_err();
        let reason = wire::reason(&status);
        assert!(
            ["INVALID_REQUEST", "STORE_UNAVAILABLE"].contains(&reason.as_str()),
            "{status:?}"
        );
    }
    assert_eq!(world.read(&opened).await, opened);
}
