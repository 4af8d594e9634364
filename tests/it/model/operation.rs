//! What is done to the service and to the model: short operations that are easy to read in a failure, and the
//! requests that they stand for.

use assent::pb;
use assent::pb::resume_request::Answer as Said;
use proptest::prelude::*;

use super::plain::{Plain, TICK_SECONDS, digest};

/// One operation. Numbers choose among what there is, so that any part of a sequence is a sequence.
#[derive(Clone, Debug)]
pub enum Operation {
    Decide {
        place: Place,
        id: CallId,
        tool: Tool,
        cents: u16,
        server: bool,
        how: How,
        expires: Expires,
    },
    /// The call or the wait of a suspension, asked about once more.
    AskAgain {
        which: Which,
        how: How,
    },
    Suspend {
        place: Place,
        id: CallId,
        kind: pb::SuspensionKind,
        title: bool,
        on_expiry: pb::OnExpiry,
        expires: Expires,
    },
    Resume {
        which: Which,
        by: Person,
        digest: Named,
        says: Says,
    },
    Claim {
        which: Which,
        attempt: u8,
        digest: Named,
        force: bool,
    },
    Complete {
        which: Which,
        attempt: u8,
        outcome: pb::Completion,
    },
    Cancel(Which),
    CancelRun {
        place: Place,
        of_any_session: bool,
    },
    CancelSession(Place),
    Get(Which),
    List {
        place: Place,
        within: u8,
        kinds: Vec<i32>,
        statuses: Vec<i32>,
        executions: Vec<i32>,
        page: i32,
    },
    ListGrants {
        place: Place,
        of_session: bool,
        page: i32,
    },
    Revoke(Which),
    Advance(i64),
    Sweep,
    SwapPolicy(usize),
}

/// A scope among a few.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    tenant: u8,
    session: u8,
    run: u8,
    agent: bool,
    principal: Principal,
}

#[derive(Clone, Copy, Debug)]
pub enum Principal {
    Unknown,
    Ann,
    Bob,
}

#[derive(Clone, Copy, Debug)]
pub enum CallId {
    None,
    Call(u8),
    Step(u8),
}

#[derive(Clone, Copy, Debug)]
pub enum Tool {
    PayOne,
    PayTwo,
    PayOther,
    Wipe,
    Note,
    NoteDestructive,
    Look,
    Nothing,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    resumed: bool,
    dry_run: bool,
    in_program: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Expires {
    AsUsual,
    Ticks(i64),
}

/// A suspension or a grant, counted from the newest, by its own tenant or by another.
#[derive(Clone, Copy, Debug)]
pub struct Which {
    back: u8,
    foreign: bool,
    unknown: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Person {
    Nobody,
    Ann,
    Manager(u8),
}

/// A digest that a request names.
#[derive(Clone, Copy, Debug)]
pub enum Named {
    Not,
    Rightly,
    Wrongly,
}

/// What an answer says; for a suspension of another kind, what stands for it there.
#[derive(Clone, Copy, Debug)]
pub enum Says {
    /// Yes, or an answer that fits.
    Yes,
    /// The same in other words.
    YesSpelledOtherwise,
    YesForTheSession,
    YesWithAReason,
    No,
    NoWithAGrant,
    Edited(u16),
    EditedWithoutCents,
    EditedBadly,
    EditedWithAGrant,
    /// An approval that does not say which.
    Undecided,
    Nothing,
    OtherKind,
    /// An answer of the right kind that is not what was asked for.
    Misfit(u8),
}

/// A request, to be sent to the service and to the model alike. It names suspensions as the model does.
#[derive(Clone, Debug)]
pub enum Call {
    Decide(pb::DecideRequest),
    Suspend(pb::SuspendRequest),
    Resume(pb::ResumeRequest),
    Claim(pb::ClaimRequest),
    Complete(pb::CompleteRequest),
    Cancel(pb::CancelRequest),
    Get(pb::GetSuspensionRequest),
    List(pb::ListSuspensionsRequest),
    ListGrants(pb::ListGrantsRequest),
    Revoke(pb::RevokeGrantRequest),
    Advance(i64),
    Sweep,
    SwapPolicy(usize),
}

impl Operation {
    /// The request that this is, after what the model knows to have happened.
    pub fn call(&self, plain: &Plain) -> Call {
        match self {
            Self::Decide {
                place,
                id,
                tool,
                cents,
                server,
                how,
                expires,
            } => {
                let How {
                    resumed,
                    dry_run,
                    in_program,
                } = *how;
                let (call_id, step_id) = id.texts();
                let call = pb::ToolCall {
                    call_id,
                    step_id,
                    server: if *server { "bank" } else { "" }.to_owned(),
                    arguments_json: format!(r#"{{"cents":{cents}}}"#),
                    in_program,
                    ..tool.call()
                };
                Call::Decide(pb::DecideRequest {
                    scope: Some(place.scope()),
                    expires_in: expires.duration(),
                    resumed,
                    dry_run,
                    action: Some(pb::decide_request::Action::Call(call)),
                })
            }
            Self::AskAgain { which, how } => again(*which, *how, plain),
            Self::Suspend {
                place,
                id,
                kind,
                title,
                on_expiry,
                expires,
            } => {
                let (call_id, step_id) = id.texts();
                Call::Suspend(pb::SuspendRequest {
                    scope: Some(place.scope()),
                    kind: (*kind).into(),
                    call_id,
                    step_id,
                    title: if *title { "a title" } else { "" }.to_owned(),
                    expires_in: expires.duration(),
                    on_expiry: (*on_expiry).into(),
                    ..wait(*kind)
                })
            }
            Self::Resume {
                which,
                by,
                digest,
                says,
            } => {
                let target = which.suspension(plain);
                let kind = target
                    .shown
                    .map_or(pb::SuspensionKind::Approval, pb::Suspension::kind);
                let (by, by_roles) = by.texts();
                Call::Resume(pb::ResumeRequest {
                    arguments_digest: digest.text(target.shown),
                    suspension_id: target.id,
                    scope: Some(target.scope),
                    by,
                    by_roles,
                    answer: says.answer(kind),
                })
            }
            Self::Claim {
                which,
                attempt,
                digest,
                force,
            } => {
                let target = which.suspension(plain);
                Call::Claim(pb::ClaimRequest {
                    arguments_digest: digest.text(target.shown),
                    suspension_id: target.id,
                    scope: Some(target.scope),
                    attempt_id: format!("w{attempt}"),
                    force: *force,
                    by: if *force { "ops" } else { "" }.to_owned(),
                })
            }
            Self::Complete {
                which,
                attempt,
                outcome,
            } => {
                let target = which.suspension(plain);
                Call::Complete(pb::CompleteRequest {
                    suspension_id: target.id,
                    scope: Some(target.scope),
                    attempt_id: format!("w{attempt}"),
                    outcome: (*outcome).into(),
                    detail: "ended".to_owned(),
                })
            }
            Self::Cancel(which) => {
                let target = which.suspension(plain);
                let named = pb::cancel_request::Target::SuspensionId(target.id);
                Call::Cancel(cancel(target.scope, named))
            }
            Self::CancelRun {
                place,
                of_any_session,
            } => {
                let mut scope = place.scope();
                let run = pb::cancel_request::Target::RunId(scope.run_id.clone());
                if *of_any_session {
                    scope.session_id.clear();
                }
                Call::Cancel(cancel(scope, run))
            }
            Self::CancelSession(place) => {
                let scope = place.scope();
                let session = pb::cancel_request::Target::SessionId(scope.session_id.clone());
                Call::Cancel(cancel(scope, session))
            }
            Self::Get(which) => {
                let target = which.suspension(plain);
                Call::Get(pb::GetSuspensionRequest {
                    suspension_id: target.id,
                    scope: Some(target.scope),
                    wait: None,
                })
            }
            Self::List {
                place,
                within,
                kinds,
                statuses,
                executions,
                page,
            } => {
                let scope = place.scope();
                let given = |bit: u8, text: String| {
                    if within & bit == 0 {
                        String::new()
                    } else {
                        text
                    }
                };
                Call::List(pb::ListSuspensionsRequest {
                    tenant: scope.tenant,
                    session_id: given(1, scope.session_id),
                    run_id: given(2, scope.run_id),
                    kinds: kinds.clone(),
                    statuses: statuses.clone(),
                    executions: executions.clone(),
                    page_size: *page,
                    page_token: String::new(),
                })
            }
            Self::ListGrants {
                place,
                of_session,
                page,
            } => {
                let scope = place.scope();
                let session = if *of_session {
                    scope.session_id
                } else {
                    String::new()
                };
                Call::ListGrants(pb::ListGrantsRequest {
                    tenant: scope.tenant,
                    session_id: session,
                    page_size: *page,
                    page_token: String::new(),
                })
            }
            Self::Revoke(which) => {
                let (grant_id, tenant) = which.grant(plain);
                Call::Revoke(pb::RevokeGrantRequest {
                    grant_id,
                    scope: Some(pb::Scope {
                        tenant,
                        ..Default::default()
                    }),
                    by: "ops".to_owned(),
                })
            }
            Self::Advance(ticks) => Call::Advance(*ticks),
            Self::Sweep => Call::Sweep,
            Self::SwapPolicy(policy) => Call::SwapPolicy(*policy),
        }
    }
}

fn again(which: Which, how: How, plain: &Plain) -> Call {
    let Some(index) = which.index(plain) else {
        return Call::Sweep;
    };
    if let Some(request) = plain.asked(index) {
        return Call::Suspend(request);
    }
    let shown = plain.stored(index);
    let call = pb::ToolCall {
        in_program: how.in_program,
        ..shown.call.clone().unwrap()
    };
    Call::Decide(pb::DecideRequest {
        scope: shown.scope.clone(),
        resumed: how.resumed,
        dry_run: how.dry_run,
        action: Some(pb::decide_request::Action::Call(call)),
        ..Default::default()
    })
}

fn cancel(scope: pb::Scope, target: pb::cancel_request::Target) -> pb::CancelRequest {
    pb::CancelRequest {
        target: Some(target),
        scope: Some(scope),
        by: "ops".to_owned(),
        reason: "withdrawn".to_owned(),
    }
}

/// The fields that are a kind's own.
fn wait(kind: pb::SuspensionKind) -> pb::SuspendRequest {
    let mut request = pb::SuspendRequest::default();
    match kind {
        pb::SuspensionKind::Question => {
            let question = |key: &str, options: &[&str]| pb::Question {
                key: key.to_owned(),
                text: "which?".to_owned(),
                options: options.iter().map(|option| (*option).to_owned()).collect(),
                options_only: !options.is_empty(),
            };
            request.questions = vec![question("which", &["a", "b"]), question("why", &[])];
        }
        pb::SuspensionKind::External => {
            request.event = "paid".to_owned();
            request.payload_schema_json =
                r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}"#
                    .to_owned();
        }
        pb::SuspensionKind::ClientTool => {
            request.call = Some(pb::ToolCall {
                tool: "camera".to_owned(),
                arguments_json: r#"{"zoom":2}"#.to_owned(),
                ..Default::default()
            });
        }
        pb::SuspensionKind::SignIn => {
            request.sources = vec!["mail".to_owned(), "disk".to_owned()];
        }
        pb::SuspensionKind::Approval | pb::SuspensionKind::Unspecified => {
            unreachable!("Suspend opens no approval")
        }
    }
    request
}

impl Place {
    fn scope(self) -> pb::Scope {
        let named = |letter: &str, number: u8| match number {
            0 => String::new(),
            number => format!("{letter}{number}"),
        };
        let principal = match self.principal {
            Principal::Unknown => "",
            Principal::Ann => "ann",
            Principal::Bob => "bob",
        };
        pb::Scope {
            tenant: named("tenant", self.tenant),
            principal: Some(pb::Principal {
                id: principal.to_owned(),
                ..Default::default()
            }),
            session_id: named("session", self.session),
            run_id: named("run", self.run),
            parent_run_id: String::new(),
            agent_path: self
                .agent
                .then(|| "helper".to_owned())
                .into_iter()
                .collect(),
        }
    }
}

impl CallId {
    fn texts(self) -> (String, String) {
        match self {
            Self::None => (String::new(), String::new()),
            Self::Call(number) => (format!("call{number}"), String::new()),
            Self::Step(number) => (String::new(), format!("step{number}")),
        }
    }
}

impl Tool {
    fn call(self) -> pb::ToolCall {
        let claims = |read_only: Option<bool>, destructive: Option<bool>| {
            Some(pb::Annotations {
                read_only_hint: read_only,
                destructive_hint: destructive,
                ..Default::default()
            })
        };
        let (tool, annotations) = match self {
            Self::PayOne => ("pay.one", None),
            Self::PayTwo => ("pay.two", claims(None, Some(true))),
            Self::PayOther => ("pay.other", None),
            Self::Wipe => ("wipe", None),
            Self::Note => ("note", claims(None, Some(false))),
            Self::NoteDestructive => ("note", claims(None, Some(true))),
            Self::Look => ("look", claims(Some(true), None)),
            Self::Nothing => ("", None),
        };
        pb::ToolCall {
            tool: tool.to_owned(),
            annotations,
            ..Default::default()
        }
    }
}

impl Expires {
    fn duration(self) -> Option<prost_types::Duration> {
        match self {
            Self::AsUsual => None,
            Self::Ticks(ticks) => Some(prost_types::Duration {
                seconds: ticks * i64::from(TICK_SECONDS),
                nanos: 0,
            }),
        }
    }
}

/// What a [`Which`] comes to.
struct Target<'a> {
    id: String,
    scope: pb::Scope,
    shown: Option<&'a pb::Suspension>,
}

impl Which {
    /// The place of a suspension, if there is such a one.
    fn index(self, plain: &Plain) -> Option<usize> {
        let (count, _) = plain.counts();
        (count > 0 && !self.unknown).then(|| count - 1 - usize::from(self.back) % count)
    }

    fn suspension(self, plain: &Plain) -> Target<'_> {
        let Some(index) = self.index(plain) else {
            return Target {
                id: UNKNOWN.to_owned(),
                scope: pb::Scope::default(),
                shown: None,
            };
        };
        let shown = plain.stored(index);
        let tenant = &shown.scope.as_ref().unwrap().tenant;
        Target {
            id: shown.id.clone(),
            scope: pb::Scope {
                tenant: self.tenant(tenant),
                ..Default::default()
            },
            shown: Some(shown),
        }
    }

    fn grant(self, plain: &Plain) -> (String, String) {
        let (_, count) = plain.counts();
        if count == 0 || self.unknown {
            return (UNKNOWN.to_owned(), String::new());
        }
        let index = count - 1 - usize::from(self.back) % count;
        (
            format!("g{index}"),
            self.tenant(plain.tenant_of_grant(index)),
        )
    }

    fn tenant(self, own: &str) -> String {
        if self.foreign { "rival" } else { own }.to_owned()
    }
}

/// An id that nothing has.
const UNKNOWN: &str = "00000000-0000-4000-8000-000000000001";

impl Person {
    fn texts(self) -> (String, Vec<String>) {
        match self {
            Self::Nobody => (String::new(), Vec::new()),
            Self::Ann => ("ann".to_owned(), Vec::new()),
            Self::Manager(number) => (format!("manager{number}"), vec!["manager".to_owned()]),
        }
    }
}

impl Named {
    fn text(self, shown: Option<&pb::Suspension>) -> String {
        match self {
            Self::Not => String::new(),
            Self::Rightly => shown.map_or_else(String::new, |shown| shown.arguments_digest.clone()),
            Self::Wrongly => digest("another", "{}"),
        }
    }
}

impl Says {
    fn answer(self, kind: pb::SuspensionKind) -> Option<Said> {
        let approval = |approved: Option<bool>| pb::Approval {
            approved,
            ..Default::default()
        };
        let session = pb::GrantScope::Session.into();
        let said = match self {
            Self::Nothing => return None,
            Self::Undecided => approval(None),
            Self::OtherKind if kind == pb::SuspensionKind::Approval => {
                return Says::Yes.answer(pb::SuspensionKind::SignIn);
            }
            Self::OtherKind => approval(Some(true)),
            _ if kind != pb::SuspensionKind::Approval => return Some(self.to_a_wait(kind)),
            Self::Yes | Self::Misfit(_) => approval(Some(true)),
            Self::YesWithAReason => pb::Approval {
                reason: "fine".to_owned(),
                ..approval(Some(true))
            },
            Self::YesForTheSession => pb::Approval {
                grant_scope: session,
                ..approval(Some(true))
            },
            Self::No => pb::Approval {
                reason: "not today".to_owned(),
                ..approval(Some(false))
            },
            Self::NoWithAGrant => pb::Approval {
                grant_scope: session,
                ..approval(Some(false))
            },
            Self::Edited(cents) => pb::Approval {
                edited_arguments_json: format!(r#"{{"cents":{cents}}}"#),
                ..approval(Some(true))
            },
            Self::YesSpelledOtherwise => pb::Approval {
                edited_arguments_json: r#"{ "cents": 5.0 }"#.to_owned(),
                ..approval(Some(true))
            },
            Self::EditedWithoutCents => pb::Approval {
                edited_arguments_json: r#"{"other":1}"#.to_owned(),
                ..approval(Some(true))
            },
            Self::EditedBadly => pb::Approval {
                edited_arguments_json: "[1]".to_owned(),
                ..approval(Some(true))
            },
            Self::EditedWithAGrant => pb::Approval {
                edited_arguments_json: r#"{"cents":5}"#.to_owned(),
                grant_scope: session,
                ..approval(Some(true))
            },
        };
        Some(Said::Approval(said))
    }

    /// Yes is the first of each list, no the second, and a misfit one of the rest.
    fn to_a_wait(self, kind: pb::SuspensionKind) -> Said {
        let choice = match self {
            Self::Misfit(number) => 2 + usize::from(number) % 3,
            Self::No | Self::NoWithAGrant => 1,
            _ => 0,
        };
        let otherwise = matches!(self, Self::YesSpelledOtherwise);
        match kind {
            pb::SuspensionKind::Question => {
                let pairs: &[(&str, &str)] = [
                    &[("which", "a"), ("why", "so")] as &[_],
                    &[("which", "b"), ("why", "")],
                    &[("which", "c"), ("why", "so")],
                    &[("which", "a")],
                    &[("which", "a"), ("why", "so"), ("when", "now")],
                ][choice];
                let pairs = pairs.iter();
                Said::Question(pb::QuestionAnswer {
                    answers: pairs
                        .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
                        .collect(),
                })
            }
            pb::SuspensionKind::External => {
                let texts = [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":"1"}"#, "{}", "nothing"];
                let text = if otherwise {
                    r#"{ "n": 1.0 }"#
                } else {
                    texts[choice]
                };
                Said::External(pb::ExternalAnswer {
                    payload_json: text.to_owned(),
                })
            }
            pb::SuspensionKind::ClientTool => {
                use pb::client_tool_answer::Result as End;
                let result = match choice {
                    0 if otherwise => Some(End::ResultJson(r#"{"ok": true}"#.to_owned())),
                    0 => Some(End::ResultJson(r#"{"ok":true}"#.to_owned())),
                    1 => Some(End::Error("no camera".to_owned())),
                    2 => Some(End::Error(String::new())),
                    3 => Some(End::ResultJson("nothing".to_owned())),
                    _ => None,
                };
                Said::ClientTool(pb::ClientToolAnswer { result })
            }
            pb::SuspensionKind::SignIn => {
                let (connected, denied): (&[&str], &[&str]) = [
                    (&["mail", "disk"] as &[_], &[] as &[_]),
                    (&["mail"], &["disk"]),
                    (&["mail"], &[]),
                    (&["mail", "disk"], &["disk"]),
                    (&["mail", "mail"], &["disk"]),
                ][choice];
                let texts = |ids: &[&str]| -> Vec<String> {
                    let ids = ids.iter().map(|id| (*id).to_owned());
                    if otherwise {
                        ids.rev().collect()
                    } else {
                        ids.collect()
                    }
                };
                Said::SignIn(pb::SignInAnswer {
                    connected: texts(connected),
                    denied: texts(denied),
                })
            }
            pb::SuspensionKind::Approval | pb::SuspensionKind::Unspecified => {
                unreachable!("an approval is answered elsewhere")
            }
        }
    }
}

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
