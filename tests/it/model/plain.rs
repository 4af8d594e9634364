//! Suspensions as semantics.md has them (S3, S6, S8), in plain memory and in one thread: the model that both stores
//! are held against.
//!
//! It was written from the rules alone, and knows of the service nothing but the messages of its contract. Time is
//! counted in ticks, which stand in the seconds of every timestamp. Where the rules leave a text open it says
//! [`SOME_TEXT`].

mod answering;
mod deciding;
mod ending;
mod executing;
mod opening;
mod reading;
mod rules;

use assent::pb;
use tonic::Code;

pub use self::rules::{POLICIES, TICK_SECONDS, digest};

/// A text that is not empty; the rules do not say which.
pub const SOME_TEXT: &str = "(some text)";

/// What a call is answered with.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Decided(Box<pb::DecideResponse>),
    Suspension(Box<pb::Suspension>),
    Resumed(Box<pb::ResumeResponse>),
    Claimed(Box<pb::ClaimResponse>),
    /// The ids in the order of their opening.
    Cancelled(pb::CancelResponse),
    /// All pages of a list, in the order of opening.
    Listed(Vec<pb::Suspension>),
    /// All pages of a list, in the order of opening.
    Grants(Vec<pb::Grant>),
    Grant(Box<pb::Grant>),
    Refused(Refused),
    /// Nothing is said, as when time passes.
    Done,
}

/// An error.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    pub code: Code,
    pub reason: String,
    /// Who was first, where the error tells.
    pub winner: Option<Box<pb::Suspension>>,
}

/// The world after some calls.
pub struct Plain {
    /// The time in ticks.
    now: i64,
    /// Which of [`POLICIES`] holds, and what the service calls each.
    policy: usize,
    revisions: Vec<String>,
    records: Vec<Record>,
    grants: Vec<pb::Grant>,
    ends: Vec<End>,
}

/// A suspension and what the contract does not show of it.
struct Record {
    shown: pb::Suspension,
    /// What makes another opening the same.
    key: Option<Key>,
    /// What it was asked with, where it is no approval: without what may differ.
    wait: Option<pb::SuspendRequest>,
    /// What was answered, to know it again.
    answer: Option<pb::resume_request::Answer>,
}

/// Tenant, session, run, kind, and whether a call or a step of this id.
type Key = (String, String, String, i32, bool, String);

/// A run or a session that is over.
enum End {
    Session {
        tenant: String,
        session: String,
    },
    Run {
        tenant: String,
        /// None: whatever the session.
        session: Option<String>,
        run: String,
    },
}

impl Plain {
    /// An empty world, in which the policies are called so.
    pub fn new(revisions: Vec<String>) -> Self {
        Self {
            now: 0,
            policy: 0,
            revisions,
            records: Vec::new(),
            grants: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// How many suspensions and grants there are: `s0`, `s1`, … and `g0`, `g1`, ….
    pub fn counts(&self) -> (usize, usize) {
        (self.records.len(), self.grants.len())
    }

    /// One of the suspensions, as it was last stored.
    pub fn stored(&self, index: usize) -> &pb::Suspension {
        &self.records[index].shown
    }

    /// What opened one of the suspensions, if it is no approval.
    pub fn asked(&self, index: usize) -> Option<pb::SuspendRequest> {
        let record = &self.records[index];
        Some(pb::SuspendRequest {
            scope: record.shown.scope.clone(),
            ..record.wait.clone()?
        })
    }

    /// Whose a grant is.
    pub fn tenant_of_grant(&self, index: usize) -> &str {
        &self.grants[index].scope.as_ref().unwrap().tenant
    }

    /// Lets time pass.
    pub fn advance(&mut self, ticks: i64) -> Answer {
        self.now += ticks;
        Answer::Done
    }

    /// Puts another policy in force.
    pub fn swap_policy(&mut self, policy: usize) -> Answer {
        self.policy = policy;
        Answer::Done
    }

    fn revision(&self) -> &str {
        &self.revisions[self.policy]
    }

    fn time(&self, tick: i64) -> Option<prost_types::Timestamp> {
        Some(prost_types::Timestamp {
            seconds: tick,
            nanos: 0,
        })
    }

    /// Checks 1 to 3 of every RPC that names a suspension, and then what time has made of it.
    fn named(&mut self, id: &str, scope: Option<&pb::Scope>) -> Result<usize, Refused> {
        let found = self
            .records
            .iter()
            .position(|record| record.shown.id == id)
            .ok_or_else(|| refused(Code::NotFound, "SUSPENSION_NOT_FOUND"))?;
        let tenant = scope.map_or("", |scope| scope.tenant.as_str());
        if scope_of(&self.records[found].shown).tenant != tenant {
            return Err(refused(Code::PermissionDenied, "ACCESS_DENIED"));
        }
        self.settle(found);
        Ok(found)
    }
}

fn scope_of(suspension: &pb::Suspension) -> &pb::Scope {
    suspension.scope.as_ref().unwrap()
}

fn ticks(time: &Option<prost_types::Timestamp>) -> i64 {
    time.as_ref().unwrap().seconds
}

fn refused(code: Code, reason: &str) -> Refused {
    Refused {
        code,
        reason: reason.to_owned(),
        winner: None,
    }
}

fn invalid() -> Refused {
    refused(Code::InvalidArgument, "INVALID_REQUEST")
}

fn failed(reason: &str) -> Refused {
    refused(Code::FailedPrecondition, reason)
}

fn answered(result: Result<Answer, Refused>) -> Answer {
    result.unwrap_or_else(Answer::Refused)
}

/// The part of JSON that the tests use: spaces and a fraction of nothing do not count.
fn json(text: &str) -> Option<serde_json::Value> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    Some(whole(value))
}

fn whole(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Object(fields) => fields.into_iter().map(|(k, v)| (k, whole(v))).collect(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 => {
                Value::from(format!("{float:.0}").parse::<i64>().unwrap())
            }
            Some(_) | None => Value::Number(number),
        },
        other => other,
    }
}
