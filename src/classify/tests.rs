//! The table of S1 row by row, and every combination of claims against a model of it.

use proptest::prelude::*;
use proptest::sample::subsequence;

use super::*;
use crate::arguments::Arguments;
use RiskClass::{Destructive, ReadOnly, Write};

const HINT: [Option<bool>; 3] = [None, Some(false), Some(true)];

fn hints(read_only: Option<bool>, destructive: Option<bool>) -> Annotations {
    Annotations {
        read_only_hint: read_only,
        destructive_hint: destructive,
        ..Annotations::default()
    }
}

fn labelled(labels: &[&str]) -> Annotations {
    Annotations {
        labels: labels.iter().map(ToString::to_string).collect(),
        ..Annotations::default()
    }
}

fn class(annotations: &Annotations) -> RiskClass {
    classify(Some(annotations), Pin::None, Trust::AsSent).class
}

fn server(name: &str) -> Id {
    Id::parse(name).unwrap()
}

#[test]
fn each_row_of_the_table_has_its_class_and_its_basis() {
    let title = |a: Annotations| Annotations {
        title: "Delete user".into(),
        ..a
    };
    let idempotent = |a: Annotations| Annotations {
        idempotent_hint: Some(true),
        ..a
    };
    let open_world = |a: Annotations| Annotations {
        open_world_hint: Some(false),
        ..a
    };
    let none = Annotations::default;
    let (yes, no) = (Some(true), Some(false));
    let silent = "no annotations, so it counts as a write";
    let read_only = "readOnlyHint is true and destructiveHint is not";
    let not_destructive = "destructiveHint is false and readOnlyHint is not true";
    let not_read_only = "readOnlyHint is false, and an absent destructiveHint means true";
    let undecided = "no readOnlyHint, and an absent destructiveHint means true";
    let rows = [
        (none(), Write, silent),
        (hints(yes, None), ReadOnly, read_only),
        (hints(yes, no), ReadOnly, read_only),
        (
            hints(yes, yes),
            Destructive,
            "readOnlyHint and destructiveHint are both true",
        ),
        (hints(None, no), Write, not_destructive),
        (hints(no, no), Write, not_destructive),
        (hints(no, None), Destructive, not_read_only),
        (hints(None, yes), Destructive, "destructiveHint is true"),
        (hints(no, yes), Destructive, "destructiveHint is true"),
        (title(none()), Destructive, undecided),
        (idempotent(none()), Destructive, undecided),
        (open_world(none()), Destructive, undecided),
        (
            title(open_world(idempotent(hints(yes, None)))),
            ReadOnly,
            read_only,
        ),
        (
            title(open_world(idempotent(hints(None, no)))),
            Write,
            not_destructive,
        ),
        (labelled(&["read-only"]), ReadOnly, "label `read-only`"),
        (
            title(labelled(&["read-only"])),
            ReadOnly,
            "label `read-only`",
        ),
        (labelled(&["read-only", "write"]), Write, "label `write`"),
        (
            labelled(&["destructive", "read-only"]),
            Destructive,
            "label `destructive`",
        ),
        (idempotent(labelled(&["read-only"])), Destructive, undecided),
        (
            Annotations {
                read_only_hint: yes,
                ..labelled(&["read-only"])
            },
            ReadOnly,
            read_only,
        ),
        (
            Annotations {
                read_only_hint: yes,
                ..labelled(&["write"])
            },
            Write,
            "label `write`",
        ),
        (
            Annotations {
                destructive_hint: no,
                ..labelled(&["read-only"])
            },
            Write,
            not_destructive,
        ),
    ];
    for (annotations, class, basis) in rows {
        let found = classify(Some(&annotations), Pin::None, Trust::AsSent);
        assert_eq!(
            (found.class, &*found.basis),
            (class, basis),
            "{annotations:?}"
        );
        assert!(matches!(found.basis, Cow::Borrowed(_)), "{annotations:?}");
    }
    assert_eq!(
        classify(None, Pin::None, Trust::AsSent),
        Classification {
            class: Write,
            basis: silent.into(),
            warnings: Vec::new()
        }
    );
}

#[test]
fn contrary_hints_are_warned_of() {
    let found = classify(
        Some(&hints(Some(true), Some(true))),
        Pin::None,
        Trust::AsSent,
    );
    assert_eq!(
        found.warnings,
        ["readOnlyHint and destructiveHint are both true, so it counts as destructive"]
    );
}

#[test]
fn labels_are_compared_lower_case_and_not_trimmed() {
    for (label, want) in [
        ("READ-ONLY", ReadOnly),
        ("Write", Write),
        ("dEstructive", Destructive),
    ] {
        let found = classify(Some(&labelled(&[label])), Pin::None, Trust::AsSent);
        assert_eq!((found.class, found.warnings.len()), (want, 0), "{label}");
    }
    for label in [
        "readonly",
        "read_only",
        " read-only",
        "read-only\n",
        "destructive ",
        "",
        "wrıte",
    ] {
        let found = classify(Some(&labelled(&[label])), Pin::None, Trust::AsSent);
        assert_eq!(
            (found.class, found.warnings.len()),
            (Destructive, 1),
            "{label:?}"
        );
    }
}

#[test]
fn an_unknown_label_is_named_beside_a_milder_claim() {
    let sent = Annotations {
        read_only_hint: Some(true),
        ..labelled(&["read-only", "dangerous"])
    };
    assert_eq!(
        classify(Some(&sent), Pin::None, Trust::AsSent),
        Classification {
            class: Destructive,
            basis: "unknown label `dangerous`, so it counts as destructive".into(),
            warnings: vec![
                "unknown label `dangerous`, so it counts as destructive; \
                 the labels are `read-only`, `write` and `destructive`"
                    .into()
            ],
        }
    );
}

#[test]
fn no_other_character_has_a_letter_of_a_label_as_its_lower_case() {
    for c in (char::MIN..=char::MAX).filter(|c| !c.is_ascii()) {
        let lower: String = c.to_lowercase().collect();
        assert!(!lower.is_ascii() || lower == "k", "U+{:04X}", u32::from(c));
    }
    assert!(
        [ReadOnly, Write, Destructive]
            .iter()
            .all(|class| !class.name().contains('k'))
    );
}

#[test]
fn hostile_labels_give_short_and_visible_warnings() {
    let label = format!("\u{1b}[2J\u{202e}\n{}", "x".repeat(1000));
    let many: Vec<&str> = vec![&label; 64];
    let found = classify(Some(&labelled(&many)), Pin::None, Trust::AsSent);
    assert_eq!(found.warnings.len(), MAX_LABEL_WARNINGS + 1);
    assert_eq!(found.warnings.last().unwrap(), "56 more unknown labels");
    for text in found
        .warnings
        .iter()
        .map(String::as_str)
        .chain([&*found.basis])
    {
        assert!(text.len() < 250, "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\n']), "{text:?}");
    }
}

#[test]
fn an_untrusted_claim_is_raised_to_write_and_never_lowered() {
    let untrusted = |a: &Annotations| classify(Some(a), Pin::None, Trust::Untrusted);
    let found = untrusted(&hints(Some(true), None));
    assert_eq!(found.class, Write);
    assert_eq!(
        found.basis,
        "its server is not trusted, so its claim to be read-only counts as a write"
    );
    assert_eq!(untrusted(&labelled(&["read-only"])).class, Write);
    assert_eq!(untrusted(&hints(None, Some(true))).class, Destructive);
    assert_eq!(classify(None, Pin::None, Trust::Untrusted).class, Write);
}

#[test]
fn a_pin_replaces_the_claim_and_no_trust_rule_caps_it() {
    let (mild, harsh) = (hints(Some(true), None), hints(None, Some(true)));
    for trust in [Trust::AsSent, Trust::Untrusted] {
        for sent in [None, Some(&mild), Some(&harsh)] {
            let found = classify(sent, Pin::Replaces(&mild), trust);
            assert_eq!(found.class, ReadOnly);
            assert_eq!(
                found.basis,
                "the catalogue's pin: readOnlyHint is true and destructiveHint is not"
            );
            assert_eq!(
                classify(sent, Pin::Replaces(&harsh), trust).class,
                Destructive
            );
        }
    }
}

#[test]
fn a_label_unknown_to_a_pin_is_warned_of_and_a_replaced_one_is_not() {
    let (mild, typo) = (hints(Some(true), None), labelled(&["readonly"]));
    assert!(
        classify(Some(&typo), Pin::Replaces(&mild), Trust::AsSent)
            .warnings
            .is_empty()
    );
    let found = classify(Some(&mild), Pin::Replaces(&typo), Trust::AsSent);
    assert_eq!(found.class, Destructive);
    assert_eq!(
        found.basis,
        "the catalogue's pin: unknown label `readonly`, so it counts as destructive"
    );
    assert!(
        found
            .warnings
            .concat()
            .starts_with("the catalogue's pin: unknown label")
    );
}

#[test]
fn a_pin_for_another_server_only_raises() {
    let (mild, middle) = (hints(Some(true), None), hints(None, Some(false)));
    let harsh = hints(None, Some(true));
    let found = classify(Some(&mild), Pin::Limits(&harsh), Trust::AsSent);
    assert_eq!(found.class, Destructive);
    assert_eq!(
        found.basis,
        "the catalogue's pin for another server: destructiveHint is true"
    );
    assert_eq!(
        classify(Some(&harsh), Pin::Limits(&mild), Trust::AsSent).class,
        Destructive
    );
    assert_eq!(
        classify(Some(&mild), Pin::Limits(&mild), Trust::Untrusted).class,
        Write
    );
    let pin = Pin::ReplacesWithin {
        pin: &mild,
        limit: &middle,
    };
    assert_eq!(classify(Some(&harsh), pin, Trust::Untrusted).class, Write);
}

#[test]
fn a_wrapped_tool_of_which_nothing_is_said_is_destructive() {
    let (mild, empty) = (hints(Some(true), None), Annotations::default());
    for (sent, pin, want) in [
        (None, Pin::None, Destructive),
        (Some(&empty), Pin::None, Destructive),
        (Some(&mild), Pin::Replaces(&empty), Destructive),
        (None, Pin::Limits(&mild), Destructive),
        (None, Pin::Replaces(&mild), ReadOnly),
        (Some(&mild), Pin::None, ReadOnly),
    ] {
        assert_eq!(
            classify_target(sent, pin, Trust::AsSent).class,
            want,
            "{sent:?} {pin:?}"
        );
    }
    assert_eq!(
        classify(Some(&mild), Pin::Replaces(&empty), Trust::AsSent).class,
        Write
    );
}

#[test]
fn the_pin_of_a_server_beats_the_one_without_and_limits_the_others() {
    let (mild, harsh) = (hints(Some(true), None), hints(None, Some(true)));
    let mut pins = Pins::default();
    assert_eq!(pins.for_server(&server("github")), Pin::None);
    assert!(pins.add(server("github"), harsh.clone()));
    assert_eq!(pins.for_server(&server("github")), Pin::Replaces(&harsh));
    assert_eq!(pins.for_server(&server("other")), Pin::Limits(&harsh));
    assert_eq!(pins.for_server(&server("")), Pin::Limits(&harsh));
    assert!(pins.add(server(""), mild.clone()));
    let within = Pin::ReplacesWithin {
        pin: &mild,
        limit: &harsh,
    };
    assert_eq!(pins.for_server(&server("other")), within);
    assert_eq!(pins.for_server(&server("")), within);
    assert!(pins.add(server("gitlab"), mild.clone()));
    assert_eq!(pins.for_server(&server("gitlab")), Pin::Replaces(&mild));
    assert_eq!(pins.for_server(&server("other")), within);
}

#[test]
fn an_empty_pin_limits_a_wrapped_tool_as_much_as_its_own_server_does() {
    let (write, empty) = (hints(None, Some(false)), Annotations::default());
    for (first, second) in [(&write, &empty), (&empty, &write)] {
        let mut pins = Pins::default();
        assert!(pins.add(server("a"), first.clone()) && pins.add(server("b"), second.clone()));
        let pin = pins.for_server(&server(""));
        let mild = hints(Some(true), None);
        assert_eq!(
            classify_target(Some(&mild), pin, Trust::AsSent).class,
            Destructive
        );
        assert_eq!(classify(Some(&mild), pin, Trust::AsSent).class, Write);
    }
}

#[test]
fn a_server_is_pinned_once() {
    let mut pins = Pins::default();
    for name in ["", "github"] {
        assert!(pins.add(server(name), hints(Some(true), None)));
        let before = pins.clone();
        assert!(!pins.add(server(name), hints(None, Some(true))));
        assert_eq!(pins, before);
    }
}

#[test]
fn a_server_or_no_origin_counts_as_mcp() {
    let origins = [
        None,
        Some(Origin::Mcp),
        Some(Origin::Code),
        Some(Origin::Http),
    ];
    let counted = |name: &str| {
        origins.map(|origin| {
            counts_as_mcp(&ToolCall {
                call_id: Id::default(),
                step_id: Id::default(),
                tool: server("t"),
                server: server(name),
                origin,
                annotations: None,
                arguments: Arguments::parse("", 2).unwrap(),
                in_program: false,
                parent_call_id: Id::default(),
                wrapped: None,
            })
        })
    };
    assert_eq!(counted(""), [true, true, false, false]);
    assert_eq!(counted("github"), [true; 4]);
}

/// S1's table, read row by row from top to bottom, knowing nothing of the code above.
fn model(a: &Annotations) -> RiskClass {
    let others = a.idempotent_hint.is_some() || a.open_world_hint.is_some();
    let decisive = a.read_only_hint.is_some() || a.destructive_hint.is_some();
    let from_labels = a.labels.iter().map(|label| match label.as_str() {
        "read-only" => 0,
        "write" => 1,
        _ => 2,
    });
    let from_hints = || {
        if !decisive {
            return 2;
        }
        if a.read_only_hint == Some(true) {
            return if a.destructive_hint == Some(true) {
                2
            } else {
                0
            };
        }
        if a.destructive_hint == Some(false) {
            1
        } else {
            2
        }
    };
    let rank = if a.labels.is_empty() {
        let silent = !decisive && !others && a.title.is_empty();
        if silent { 1 } else { from_hints() }
    } else if decisive || others {
        from_labels.chain([from_hints()]).max().unwrap()
    } else {
        from_labels.max().unwrap()
    };
    [ReadOnly, Write, Destructive][rank]
}

/// Every combination of the four hints, a title, and these labels.
fn every(labels: &[Vec<&str>]) -> Vec<Annotations> {
    let mut all = Vec::new();
    for read_only_hint in HINT {
        for destructive_hint in HINT {
            for idempotent_hint in HINT {
                for open_world_hint in HINT {
                    for title in ["", "Delete user"] {
                        all.extend(labels.iter().map(|labels| Annotations {
                            read_only_hint,
                            destructive_hint,
                            idempotent_hint,
                            open_world_hint,
                            title: title.into(),
                            ..labelled(labels)
                        }));
                    }
                }
            }
        }
    }
    all
}

/// The subsets of the labels, an unknown one among them, each forwards and backwards.
fn label_lists() -> Vec<Vec<&'static str>> {
    let known = ["read-only", "write", "destructive", "readonly"];
    let subset = |bits: usize| {
        let chosen = known
            .iter()
            .enumerate()
            .filter(move |(i, _)| bits & (1 << i) != 0);
        chosen.map(|(_, label)| *label).collect::<Vec<_>>()
    };
    let forwards = (0..16).map(subset);
    forwards
        .flat_map(|list| [list.clone(), list.into_iter().rev().collect()])
        .collect()
}

#[test]
fn every_combination_of_claims_is_as_the_table_says() {
    let all = every(&label_lists());
    assert_eq!(all.len(), 81 * 2 * 32);
    for annotations in &all {
        let found = classify(Some(annotations), Pin::None, Trust::AsSent);
        assert_eq!(found.class, model(annotations), "{annotations:?}");
        let unknown = annotations.labels.iter().any(|label| label == "readonly");
        let contrary = class(&hints(
            annotations.read_only_hint,
            annotations.destructive_hint,
        )) == Destructive
            && annotations.read_only_hint == Some(true);
        assert_eq!(
            found.warnings.len(),
            usize::from(unknown) + usize::from(contrary)
        );
    }
}

/// The only claims that can lower a class: the two soft hints, and the first label where there was
/// nothing or only a title. Each is in the table: it takes the place of a default.
#[test]
fn only_an_explicit_softer_claim_lowers_a_class() {
    for before in every(&label_lists()) {
        let mut softer = Vec::new();
        let mut harder = Vec::new();
        if before.read_only_hint.is_none() {
            softer.push(Annotations {
                read_only_hint: Some(true),
                ..before.clone()
            });
            harder.push(Annotations {
                read_only_hint: Some(false),
                ..before.clone()
            });
        }
        if before.destructive_hint.is_none() {
            softer.push(Annotations {
                destructive_hint: Some(false),
                ..before.clone()
            });
            harder.push(Annotations {
                destructive_hint: Some(true),
                ..before.clone()
            });
        }
        for value in HINT {
            if before.idempotent_hint.is_none() {
                harder.push(Annotations {
                    idempotent_hint: value,
                    ..before.clone()
                });
            }
            if before.open_world_hint.is_none() {
                harder.push(Annotations {
                    open_world_hint: value,
                    ..before.clone()
                });
            }
        }
        if before.title.is_empty() {
            harder.push(Annotations {
                title: "T".into(),
                ..before.clone()
            });
        }
        let hinted = Annotations {
            title: String::new(),
            labels: Vec::new(),
            ..before.clone()
        };
        let first_claim = before.labels.is_empty() && hinted.is_empty();
        for label in ["read-only", "write", "destructive", "typo"] {
            let mut after = before.clone();
            after.labels.push(label.into());
            if first_claim {
                softer.push(after)
            } else {
                harder.push(after)
            }
        }
        for after in harder {
            assert!(class(&after) >= class(&before), "{before:?} then {after:?}");
        }
        // And even those never go below what a label or destructiveHint says outright.
        let label_floor = before
            .labels
            .iter()
            .map(|label| class(&labelled(&[label])))
            .max();
        let hint_floor = (before.destructive_hint == Some(true)).then_some(Destructive);
        for after in softer {
            let floor = label_floor.max(hint_floor);
            assert!(Some(class(&after)) >= floor, "{before:?} then {after:?}");
        }
    }
}

fn any_annotations() -> impl Strategy<Value = Annotations> {
    let hint = || prop_oneof![Just(None), any::<bool>().prop_map(Some)];
    let label = prop_oneof![
        3 => prop::sample::select(vec!["read-only", "Write", "destructive"]).prop_map(String::from),
        1 => any::<String>(),
    ];
    let labels = prop::collection::vec(label, 0..4);
    (
        hint(),
        hint(),
        hint(),
        hint(),
        prop_oneof![Just(String::new()), any::<String>()],
        labels,
    )
        .prop_map(
            |(read_only, destructive, idempotent_hint, open_world_hint, title, labels)| {
                Annotations {
                    idempotent_hint,
                    open_world_hint,
                    title,
                    labels,
                    ..hints(read_only, destructive)
                }
            },
        )
}

proptest! {
    #[test]
    fn order_repetition_and_case_of_labels_change_nothing(
        a in any_annotations(), seed in any::<prop::sample::Index>(),
    ) {
        let mut other = a.clone();
        other.labels.extend(a.labels.iter().map(|label| label.to_uppercase()));
        // Upper case can make a known label of an unknown one (`wrıte`); that one is still there.
        let middle = seed.index(other.labels.len() + 1).min(other.labels.len());
        other.labels.rotate_left(middle);
        prop_assert_eq!(class(&a), class(&other));
    }

    #[test]
    fn more_labels_are_never_milder_than_fewer(
        (all, some) in prop::collection::vec("read-only|write|destructive|x", 1..6)
            .prop_flat_map(|all| (Just(all.clone()), subsequence(all.clone(), 1..=all.len()))),
        a in any_annotations(),
    ) {
        let fewer = Annotations { labels: some, ..a.clone() };
        let more = Annotations { labels: all, ..a };
        prop_assert!(class(&more) >= class(&fewer));
    }

    #[test]
    fn pins_and_trust_combine_as_the_seed_rules_say(
        a in any_annotations(), pin in any_annotations(), limit in any_annotations(),
    ) {
        for trust in [Trust::AsSent, Trust::Untrusted] {
            let of = |pin| classify(Some(&a), pin, trust).class;
            let floor = if trust == Trust::Untrusted { Write } else { ReadOnly };
            prop_assert_eq!(of(Pin::None), class(&a).max(floor));
            prop_assert_eq!(of(Pin::Replaces(&pin)), class(&pin));
            prop_assert_eq!(of(Pin::Limits(&limit)), of(Pin::None).max(class(&limit)));
            let within = Pin::ReplacesWithin { pin: &pin, limit: &limit };
            prop_assert_eq!(of(within), class(&pin).max(class(&limit)));
            prop_assert!(classify_target(Some(&a), within, trust).class >= of(within));
        }
    }

    #[test]
    fn leaving_the_server_out_or_naming_another_buys_nothing(
        pins in prop::collection::btree_map("[a-c]?", any_annotations(), 1..5),
        sent in prop::option::of(any_annotations()),
    ) {
        let mut table = Pins::default();
        for (name, pin) in &pins {
            prop_assert!(table.add(server(name), pin.clone()));
        }
        type Rule = fn(Option<&Annotations>, Pin<'_>, Trust) -> Classification;
        for rule in [classify as Rule, classify_target as Rule] {
            let of = |name| rule(sent.as_ref(), table.for_server(&server(name)), Trust::AsSent).class;
            for (name, pin) in pins.iter().filter(|(name, _)| !name.is_empty()) {
                prop_assert_eq!(of(name), rule(Some(pin), Pin::None, Trust::AsSent).class);
                prop_assert!(of("") >= of(name));
                prop_assert!(of("unpinned") >= of(name));
            }
            prop_assert_eq!(of(""), of("unpinned"));
        }
    }
}
