//! Which call is judged in place of a wrapper's, and every way in which that is not known for sure.

use proptest::prelude::*;

use super::*;
use crate::classify::Classification;
use crate::domain::{Annotations, Origin, RiskClass};
use crate::policy::{Policy, Source};

/// A wrapper with every pointer, one that passes all its arguments on, and one that reads deep.
const WRAPPERS: &str = "
wrappers:
  - {tool: call_tool, name: /tool, server: /server, arguments: /arguments}
  - {tool: run, name: /name}
  - {tool: whole, name: /name, arguments: ''}
  - {tool: deep, name: /calls/0/function~1name, arguments: /calls/0/args}
tools:
  - {tool: github__list_repos, server: github, annotations: {readOnlyHint: true}}
trusted_servers: [github]
";

fn policy(text: &str) -> Policy {
    let name = "policy.yaml".to_owned();
    let text = text.to_owned();
    Policy::compile(&[Source { name, text }]).unwrap()
}

fn id(text: &str) -> Id {
    Id::parse(text).unwrap()
}

fn arguments(text: &str) -> Arguments {
    Arguments::parse(text, 1 << 20).unwrap()
}

fn asked(tool: &str, text: &str) -> AskedCall {
    AskedCall {
        call: ToolCall {
            call_id: id("c1"),
            step_id: id("s1"),
            tool: id(tool),
            server: id("gateway"),
            origin: Some(Origin::Code),
            annotations: said(RiskClass::ReadOnly),
            arguments: arguments(text),
            in_program: true,
            parent_call_id: id("p1"),
            wrapped: None,
        },
        target: None,
    }
}

fn with_target(asked: AskedCall, tool: &str, server: &str, text: &str) -> AskedCall {
    AskedCall {
        target: Some(Box::new(WrapperTarget {
            tool: id(tool),
            server: id(server),
            annotations: said(RiskClass::ReadOnly),
            arguments: arguments(text),
            wraps: false,
        })),
        ..asked
    }
}

fn said(class: RiskClass) -> Option<Annotations> {
    Some(Annotations {
        labels: vec![class.name().to_owned()],
        ..Annotations::default()
    })
}

/// Tool, server, arguments, class and what is doubtful.
fn judged(
    policy: &Policy,
    asked: &AskedCall,
) -> (String, String, String, RiskClass, Option<Doubt>) {
    let Resolved { call, doubt } = policy.resolve(asked);
    // Whatever is judged, it is the wrapper's place and the wrapper's way of calling.
    assert_eq!(
        (&call.call_id, &call.step_id, &call.parent_call_id),
        (&id("c1"), &id("s1"), &id("p1"))
    );
    assert_eq!((call.origin, call.in_program), (Some(Origin::Code), true));
    assert_eq!(doubt.is_some(), call.unresolved().is_some());
    if let Some(wrapped) = &call.wrapped {
        assert_eq!(
            (&wrapped.tool, &wrapped.server),
            (&asked.call.tool, &id("gateway"))
        );
    }
    (
        call.tool.to_string(),
        call.server.to_string(),
        call.arguments.text().to_owned(),
        policy.classify(&call).class,
        doubt.map(|unresolved| {
            assert_eq!(unresolved.wrapper, asked.call.tool);
            unresolved.doubt
        }),
    )
}

const LIST: &str = r#"{"server": "github", "tool": "list_repos", "arguments": {"org": "dev"}}"#;

#[test]
fn a_wrapper_call_is_judged_as_the_call_that_it_makes() {
    use RiskClass::{Destructive, ReadOnly, Write};
    let policy = policy(WRAPPERS);
    let call = |text| asked("call_tool", text);
    let other = r#"{"server":"shady","tool":"x","arguments":{"n":1e2}}"#;
    let run = r#"{"name": "github__x", "org": "dev"}"#;
    for (asked, tool, server, passed, class) in [
        // The catalogue speaks of it.
        (
            call(LIST),
            "github__list_repos",
            "github",
            r#"{"org":"dev"}"#,
            ReadOnly,
        ),
        // Nobody speaks of it.
        (
            call(other),
            "shady__x",
            "shady",
            r#"{"n":100}"#,
            Destructive,
        ),
        (
            call(r#"{"server":"github","tool":"x"}"#),
            "github__x",
            "github",
            "{}",
            Destructive,
        ),
        // The client speaks of it, and is believed as far as its server is trusted. Its text is kept.
        (
            with_target(
                call(r#"{"server":"github","tool":"x"}"#),
                "github__x",
                "github",
                "{ }",
            ),
            "github__x",
            "github",
            "{ }",
            ReadOnly,
        ),
        (
            with_target(call(other), "shady__x", "shady", r#"{"n": 1e2}"#),
            "shady__x",
            "shady",
            r#"{"n": 1e2}"#,
            Write,
        ),
        // No pointer to the arguments: all of them. No pointer to the server: the client may know it, and a tool of
        // which nobody says where it lives may be any server's, whatever the wrapper's own origin is.
        (asked("run", run), "github__x", "", run, Destructive),
        (asked("whole", run), "github__x", "", run, Destructive),
        (
            with_target(asked("run", run), "github__x", "github", run),
            "github__x",
            "github",
            run,
            ReadOnly,
        ),
        (
            with_target(asked("run", run), "github__x", "", run),
            "github__x",
            "",
            run,
            Write,
        ),
        (
            asked(
                "deep",
                r#"{"calls":[{"function/name":"github__list_repos","args":{}}]}"#,
            ),
            "github__list_repos",
            "",
            "{}",
            Destructive,
        ),
    ] {
        let expected = (tool.into(), server.into(), passed.into(), class, None);
        assert_eq!(judged(&policy, &asked), expected);
    }
}

#[test]
fn a_call_of_no_wrapper_is_judged_itself_and_costs_nothing() {
    let policy = policy(WRAPPERS);
    let asked = asked("client.a", LIST);
    let Resolved { call, doubt } = policy.resolve(&asked);
    assert!(matches!(call, Cow::Borrowed(call) if call.wrapped.is_none()));
    assert_eq!(doubt, None);
}

#[test]
fn what_is_not_known_for_sure_is_destructive_under_the_id_that_is_named_on_all_the_arguments() {
    let policy = policy(WRAPPERS);
    let call = |text: &str| asked("call_tool", text);
    let long = format!(r#"{{"server":"{}","tool":"x"}}"#, "s".repeat(254));
    let run = r#"{"name": "github__x", "org": "dev"}"#;
    let hidden = "{\"server\":\"git\\u202ehub\",\"tool\":\"x\"}";
    let target = |tool, server, text| with_target(call(LIST), tool, server, text);
    let mut nested = target("github__list_repos", "github", r#"{"org":"dev"}"#);
    if let Some(target) = &mut nested.target {
        target.wraps = true;
    }
    let own = ("call_tool", "gateway");
    let list = ("github__list_repos", "github");
    for (asked, (tool, server), doubt, says) in [
        (call("{}"), own, Doubt::NamesNoTool, "name no tool"),
        (
            call(r#"{"server":"github","tool":""}"#),
            own,
            Doubt::NamesNoTool,
            "name no tool",
        ),
        (
            call(r#"{"server":"github","tool":["x"]}"#),
            own,
            Doubt::NamesNoTool,
            "name no tool",
        ),
        (
            asked("deep", r#"{"calls":[]}"#),
            ("deep", "gateway"),
            Doubt::NamesNoTool,
            "name no tool",
        ),
        (
            call(r#"{"tool":"x"}"#),
            ("x", ""),
            Doubt::NamesNoServer,
            "name no server",
        ),
        (
            call(r#"{"tool":"x","server":7}"#),
            ("x", ""),
            Doubt::NamesNoServer,
            "name no server",
        ),
        (
            call(r#"{"tool":"x","server":null,"arguments":[]}"#),
            ("x", ""),
            Doubt::NamesNoServer,
            "name no server",
        ),
        (call(&long), own, Doubt::NotAnId, "no tool id"),
        (call(hidden), own, Doubt::NotAnId, "no tool id"),
        (
            call(r#"{"server":"a__b","tool":"c"}"#),
            ("a__b__c", "a__b"),
            Doubt::AmbiguousServer(id("a__b")),
            "`a__b` holds `__`",
        ),
        (
            with_target(asked("run", run), "github__x", "git__hub", run),
            ("github__x", "git__hub"),
            Doubt::AmbiguousServer(id("git__hub")),
            "`git__hub` holds `__`",
        ),
        (
            call(r#"{"server":"a_","tool":"b"}"#),
            ("a___b", "a_"),
            Doubt::AmbiguousServer(id("a_")),
            "ends with `_`",
        ),
        (
            call(r#"{"server":"github","tool":"list_repos","arguments":"{}"}"#),
            list,
            Doubt::ArgumentsNoObject,
            "no object",
        ),
        (
            call(r#"{"server":"github","tool":"list_repos","arguments":null}"#),
            list,
            Doubt::ArgumentsNoObject,
            "no object",
        ),
        (
            asked("run", r#"{"name":"call_tool","tool":"x"}"#),
            ("call_tool", ""),
            Doubt::NamesAWrapper(id("call_tool")),
            "`call_tool`, which it names, is a wrapper",
        ),
        (
            nested,
            list,
            Doubt::NamesAWrapper(id("github__list_repos")),
            "is a wrapper itself",
        ),
        (
            target("github__delete_repo", "github", r#"{"org":"dev"}"#),
            list,
            Doubt::Disagrees("tools"),
            "other tools",
        ),
        // The stable id, not the name on its server.
        (
            target("list_repos", "github", r#"{"org":"dev"}"#),
            list,
            Doubt::Disagrees("tools"),
            "other tools",
        ),
        (
            target("github__list_repos", "gitlab", r#"{"org":"dev"}"#),
            list,
            Doubt::Disagrees("servers"),
            "other servers",
        ),
        (
            target("github__list_repos", "", r#"{"org":"dev"}"#),
            list,
            Doubt::Disagrees("servers"),
            "other servers",
        ),
        (
            target("github__list_repos", "github", r#"{"org":"prod"}"#),
            list,
            Doubt::Disagrees("arguments"),
            "other arguments",
        ),
        (
            target("github__list_repos", "github", ""),
            list,
            Doubt::Disagrees("arguments"),
            "other arguments",
        ),
        (
            with_target(asked("client.a", "{}"), "client.a", "gateway", "{}"),
            ("client.a", "gateway"),
            Doubt::NoWrapper,
            "no wrapper",
        ),
    ] {
        let whole = asked.call.arguments.text().to_owned();
        let expected = (
            tool.to_owned(),
            server.to_owned(),
            whole,
            RiskClass::Destructive,
            Some(doubt),
        );
        assert_eq!(judged(&policy, &asked), expected);
        let resolved = policy.resolve(&asked);
        let text = resolved.doubt.unwrap().to_string();
        assert!(text.contains(says), "{text}");
        assert!(text.contains(&format!("`{}`", asked.call.tool)), "{text}");
        // Whatever the catalogue says of the id.
        let Classification {
            class, warnings, ..
        } = policy.classify(&resolved.call);
        assert_eq!((class, warnings), (RiskClass::Destructive, Vec::new()));
    }
}

#[test]
fn arguments_that_grow_past_the_limit_when_they_are_spelled_out_are_not_passed_on() {
    let policy = policy(&format!("{WRAPPERS}limits: {{max_arguments_bytes: 60}}\n"));
    let short = r#"{"server":"s","tool":"t","arguments":{"a":1e20,"b":1e20}}"#;
    let judged = judged(&policy, &asked("call_tool", short));
    assert_eq!(judged.4, None);
    let long = r#"{"server":"s","tool":"t","arguments":{"a":[1e20,1e20,1e20]}}"#;
    let long = asked("call_tool", long);
    let resolved = policy.resolve(&long).doubt.unwrap();
    assert_eq!(resolved.doubt, Doubt::ArgumentsTooLarge(73, 60));
}

/// What the call of a suspension is judged as under another document.
#[test]
fn a_stored_call_is_judged_by_the_wrappers_of_the_moment() {
    let without = policy("selectors: []\n");
    let with = policy(WRAPPERS);
    let again = |policy: &Policy, call: &ToolCall| {
        let Resolved { call, doubt } = policy.resolve_again(call);
        let class = policy.classify(&call).class;
        (
            call.tool.to_string(),
            call.arguments.text().to_owned(),
            class,
            call.unresolved().is_some(),
            doubt.map(|unresolved| unresolved.doubt),
        )
    };
    let own = || (LIST.to_owned(), RiskClass::Destructive);

    // It was no wrapper when it was asked about, and is one now.
    let plain = asked("call_tool", LIST).call;
    let passed = r#"{"org":"dev"}"#.to_owned();
    let target = "github__list_repos".to_owned();
    assert_eq!(
        again(&with, &plain),
        (
            target.clone(),
            passed.clone(),
            RiskClass::ReadOnly,
            false,
            None
        )
    );
    // It was one, and is none any more: the target was asked about, and stays what is judged.
    let asked_list = asked("call_tool", LIST);
    let resolved = with.resolve(&asked_list).call.into_owned();
    assert_eq!(
        again(&without, &resolved),
        (
            target.clone(),
            passed.clone(),
            RiskClass::Destructive,
            false,
            None
        )
    );
    // Its target has become one: nobody knows what it calls.
    let nested = policy("wrappers: [{tool: github__list_repos, name: /org}]\n");
    assert_eq!(
        again(&nested, &resolved),
        (
            target.clone(),
            passed,
            RiskClass::Destructive,
            true,
            Some(Doubt::NamesAWrapper(id("github__list_repos")))
        )
    );
    // What was doubtful stays so, whatever the documents say.
    let doubtful = with_target(asked_list, "github__delete_repo", "github", "{}");
    let doubtful = with.resolve(&doubtful).call.into_owned();
    for policy in [&with, &without] {
        let (text, class) = own();
        assert_eq!(
            again(policy, &doubtful),
            (target.clone(), text, class, true, None)
        );
    }
}

/// Names with and without what could be taken for a separator.
fn name() -> impl Strategy<Value = String> {
    "[a_]{1,4}"
}

proptest! {
    #[test]
    fn no_two_tools_of_two_servers_have_one_id(
        one in (name(), name()),
        other in (name(), name()),
    ) {
        let policy = policy(WRAPPERS);
        let id_of = |(server, tool): &(String, String)| {
            let text = format!(r#"{{"server":"{server}","tool":"{tool}"}}"#);
            let asked = asked("call_tool", &text);
            let Resolved { call, doubt } = policy.resolve(&asked);
            doubt.is_none().then_some(call.into_owned().tool)
        };
        if let (Some(a), Some(b)) = (id_of(&one), id_of(&other)) {
            prop_assert_eq!(a == b, one == other);
        }
    }

    /// Whatever a client adds about the target, it is no way round the arguments: the tool, the arguments and the class
    /// that are judged without it bound those that are judged with it.
    #[test]
    fn a_target_never_changes_which_call_is_judged(
        tool in "github__(list_repos|x)",
        server in "(github|gitlab|)",
        sent in "(\\{\\}|\\{\"org\":\"dev\"\\}|\\{\"org\":1\\})",
        wraps in any::<bool>(),
    ) {
        let policy = policy(WRAPPERS);
        let alone = asked("call_tool", LIST);
        let mut beside = with_target(asked("call_tool", LIST), &tool, &server, &sent);
        if let Some(target) = &mut beside.target {
            target.wraps = wraps;
        }
        let (alone, beside) = (policy.resolve(&alone), policy.resolve(&beside));
        prop_assert_eq!(&alone.call.tool, &beside.call.tool);
        prop_assert_eq!(&alone.call.server, &beside.call.server);
        if beside.doubt.is_none() {
            prop_assert_eq!(&alone.call.arguments, &beside.call.arguments);
        } else {
            prop_assert_eq!(policy.classify(&beside.call).class, RiskClass::Destructive);
        }
    }
}
