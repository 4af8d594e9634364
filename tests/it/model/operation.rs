//! What is done to the service and to the model: short operations that are easy to read in a failure, and the
//! requests that they stand for.

mod any;
mod saying;
mod wording;

use assent::pb;

pub use self::any::operations;
use self::wording::wait;
use super::plain::Plain;

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
