//! Any operation: what is drawn, and how often.

use assent::pb;
use proptest::prelude::*;

use super::{CallId, Expires, How, Named, Operation, Person, Place, Principal, Says, Tool, Which};

/// Any operation, the frequent ones more often.
pub fn operations(longest: usize) -> impl Strategy<Value = Vec<Operation>> {
    proptest::collection::vec(operation(), longest / 2..longest)
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        24 => (place(), call_id(), tool(), cents(), rarely(), how(), expires()).prop_map(
            |(place, id, tool, cents, server, how, expires)| Operation::Decide {
                place, id, tool, cents, server, how, expires,
            },
        ),
        10 => (which(), how()).prop_map(|(which, how)| Operation::AskAgain { which, how }),
        8 => (place(), call_id(), kind(), rarely(), on_expiry(), expires()).prop_map(
            |(place, id, kind, title, on_expiry, expires)| Operation::Suspend {
                place, id, kind, title, on_expiry, expires,
            },
        ),
        24 => (which(), person(), named(), says()).prop_map(|(which, by, digest, says)| {
            Operation::Resume { which, by, digest, says }
        }),
        16 => (which(), 0..3_u8, named(), any::<bool>()).prop_map(
            |(which, attempt, digest, force)| Operation::Claim { which, attempt, digest, force },
        ),
        8 => (which(), 0..3_u8, completion()).prop_map(|(which, attempt, outcome)| {
            Operation::Complete { which, attempt, outcome }
        }),
        2 => which().prop_map(Operation::Cancel),
        1 => (place(), any::<bool>()).prop_map(|(place, of_any_session)| Operation::CancelRun {
            place, of_any_session,
        }),
        1 => place().prop_map(Operation::CancelSession),
        4 => which().prop_map(Operation::Get),
        4 => (place(), 0..4_u8, some_of(5), some_of(6), some_of(5), 1..4_i32).prop_map(
            |(place, within, kinds, statuses, executions, page)| Operation::List {
                place, within, kinds, statuses, executions, page,
            },
        ),
        2 => (place(), any::<bool>(), 1..3_i32).prop_map(|(place, of_session, page)| {
            Operation::ListGrants { place, of_session, page }
        }),
        1 => which().prop_map(Operation::Revoke),
        6 => (1..4_i64).prop_map(Operation::Advance),
        3 => Just(Operation::Sweep),
        3 => (0..2_usize).prop_map(Operation::SwapPolicy),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    let principal = prop_oneof![
        1 => Just(Principal::Unknown),
        4 => Just(Principal::Ann),
        1 => Just(Principal::Bob),
    ];
    let tenant = prop_oneof![4 => Just(0_u8), 1 => Just(1_u8)];
    (tenant, 0..4_u8, 0..5_u8, rarely(), principal).prop_map(
        |(tenant, session, run, agent, principal)| Place {
            tenant,
            session,
            run,
            agent,
            principal,
        },
    )
}

fn call_id() -> impl Strategy<Value = CallId> {
    prop_oneof![
        1 => Just(CallId::None),
        6 => (1..5_u8).prop_map(CallId::Call),
        1 => (1..3_u8).prop_map(CallId::Step),
    ]
}

fn tool() -> impl Strategy<Value = Tool> {
    prop_oneof![
        4 => Just(Tool::PayOne),
        4 => Just(Tool::PayTwo),
        3 => Just(Tool::PayOther),
        1 => Just(Tool::Wipe),
        4 => Just(Tool::Note),
        3 => Just(Tool::NoteDestructive),
        1 => Just(Tool::Look),
        1 => Just(Tool::Nothing),
    ]
}

fn cents() -> impl Strategy<Value = u16> {
    prop_oneof![8 => Just(5_u16), 2 => Just(6_u16), 1 => Just(2000_u16)]
}

fn how() -> impl Strategy<Value = How> {
    (rarely(), rarely(), rarely()).prop_map(|(resumed, dry_run, in_program)| How {
        resumed,
        dry_run,
        in_program,
    })
}

fn expires() -> impl Strategy<Value = Expires> {
    prop_oneof![
        6 => Just(Expires::AsUsual),
        4 => (1..3_i64).prop_map(Expires::Ticks),
        1 => Just(Expires::Ticks(50)),
        1 => Just(Expires::Ticks(0)),
    ]
}

fn kind() -> impl Strategy<Value = pb::SuspensionKind> {
    prop_oneof![
        Just(pb::SuspensionKind::Question),
        Just(pb::SuspensionKind::External),
        Just(pb::SuspensionKind::ClientTool),
        Just(pb::SuspensionKind::SignIn),
    ]
}

fn on_expiry() -> impl Strategy<Value = pb::OnExpiry> {
    prop_oneof![
        Just(pb::OnExpiry::Unspecified),
        Just(pb::OnExpiry::Abandon),
        Just(pb::OnExpiry::Deny),
    ]
}

fn which() -> impl Strategy<Value = Which> {
    let back = prop_oneof![4 => 0..3_u8, 1 => 0..40_u8];
    let one_in = |many: u32| prop_oneof![many - 1 => Just(false), 1 => Just(true)];
    (back, one_in(20), one_in(40)).prop_map(|(back, foreign, unknown)| Which {
        back,
        foreign,
        unknown,
    })
}

fn person() -> impl Strategy<Value = Person> {
    prop_oneof![
        1 => Just(Person::Nobody),
        6 => Just(Person::Ann),
        18 => (0..3_u8).prop_map(Person::Manager),
    ]
}

fn named() -> impl Strategy<Value = Named> {
    prop_oneof![8 => Just(Named::Not), 3 => Just(Named::Rightly), 1 => Just(Named::Wrongly)]
}

fn says() -> impl Strategy<Value = Says> {
    prop_oneof![
        24 => Just(Says::Yes),
        3 => Just(Says::YesSpelledOtherwise),
        8 => Just(Says::YesForTheSession),
        2 => Just(Says::YesWithAReason),
        6 => Just(Says::No),
        1 => Just(Says::NoWithAGrant),
        3 => prop_oneof![Just(5_u16), Just(7_u16), Just(3000_u16)].prop_map(Says::Edited),
        1 => Just(Says::EditedWithoutCents),
        1 => Just(Says::EditedBadly),
        1 => Just(Says::EditedWithAGrant),
        1 => Just(Says::Undecided),
        1 => Just(Says::Nothing),
        1 => Just(Says::OtherKind),
        3 => (0..3_u8).prop_map(Says::Misfit),
    ]
}

fn completion() -> impl Strategy<Value = pb::Completion> {
    prop_oneof![
        1 => Just(pb::Completion::Unspecified),
        6 => Just(pb::Completion::Success),
        3 => Just(pb::Completion::Failure),
        1 => Just(pb::Completion::Unknown),
    ]
}

fn rarely() -> impl Strategy<Value = bool> {
    prop_oneof![6 => Just(false), 1 => Just(true)]
}

/// None, which means any, or a few of the numbers from 1.
fn some_of(count: i32) -> impl Strategy<Value = Vec<i32>> {
    prop_oneof![
        Just(Vec::new()),
        proptest::sample::subsequence((1..=count).collect::<Vec<_>>(), 1..3),
    ]
}
