//! The facts that conditions read, as CEL values, and how large each is.
//!
//! A fact is converted when the first condition that reads it runs, and once for a decision. Only the part of the
//! arguments that is read is converted: a rule over `args.cents` costs the same whatever else the model sent.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use cel::common::types::CelTimestamp;
use cel::common::value::Val;
use chrono::DateTime;

use super::values::{Fact, Size};
use crate::arguments::{Object, Value};
use crate::domain::{RiskClass, Scope, Timestamp, ToolCall};

/// What conditions may know of a decision.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Input<'a> {
    /// The call that is judged.
    pub(in super::super) call: &'a ToolCall,
    /// The title in force.
    pub(in super::super) title: &'a str,
    /// The call's class.
    pub(in super::super) class: RiskClass,
    /// Where it happens.
    pub(in super::super) scope: &'a Scope,
    /// When.
    pub(in super::super) now: Timestamp,
}

/// One thing that a condition reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Read {
    /// `args` and the keys that follow.
    Argument(Vec<String>),
    /// Whether the last of the keys is there: `has(args.a.b)`.
    HasArgument(Vec<String>),
    ToolId,
    ToolTitle,
    ToolClass,
    ToolOrigin,
    /// `has(tool.origin)`.
    HasToolOrigin,
    ToolServer,
    Tenant,
    Session,
    Run,
    AgentPath,
    PrincipalId,
    PrincipalRoles,
    PrincipalAttributes,
    /// `has(principal.id)` and the like: true, or as absent as the principal.
    HasPrincipal,
    Now,
}

/// Why a fact is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    /// The object that the keys before lead to has no such key.
    Key(String),
    /// What the keys before lead to has no keys, as it is of this type.
    Object(&'static str),
    /// Nobody is named as the principal.
    Principal,
    /// The call names no origin.
    Origin,
    /// The moment is outside of what CEL can hold.
    Time,
}

/// The facts of one decision.
pub(super) struct Facts<'a> {
    input: Input<'a>,
    exact: Option<bool>,
    slots: HashMap<u32, Result<Fact<'a>, Absent>, BuildHasherDefault<SlotHasher>>,
}

/// Spreads the numbers of slots. They come of the document, so nobody who calls can make them collide.
#[derive(Default)]
struct SlotHasher(u64);

impl Hasher for SlotHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl<'a> Facts<'a> {
    pub(super) fn new(input: Input<'a>) -> Self {
        Self {
            input,
            exact: None,
            slots: HashMap::default(),
        }
    }

    /// Whether every number of the arguments can be given to a condition as it is (S4).
    pub(super) fn arguments_are_exact(&mut self) -> bool {
        *self
            .exact
            .get_or_insert_with(|| self.input.call.arguments.exact_in_rules().is_ok())
    }

    /// Makes a slot hold its fact, or why there is none.
    pub(super) fn fill(&mut self, slot: u32, reads: &[Read]) {
        let input = self.input;
        self.slots.entry(slot).or_insert_with(|| {
            let read = usize::try_from(slot).ok().and_then(|slot| reads.get(slot));
            read.map_or(Err(Absent::Time), |read| input.fact(read))
        });
    }

    /// The value in a slot.
    pub(super) fn value(&self, slot: u32) -> Option<&(dyn Val + 'a)> {
        self.slots
            .get(&slot)?
            .as_ref()
            .ok()
            .map(|fact| fact.value.as_ref())
    }

    /// The size of the value in a slot.
    pub(super) fn size(&self, slot: u32) -> Option<&Size> {
        self.slots.get(&slot)?.as_ref().ok().map(|fact| &fact.size)
    }

    /// Why a slot is empty.
    pub(super) fn absent(&self, slot: u32) -> Option<&Absent> {
        self.slots.get(&slot)?.as_ref().err()
    }
}

impl<'a> Input<'a> {
    fn fact(self, read: &Read) -> Result<Fact<'a>, Absent> {
        let Self {
            call,
            title,
            class,
            scope,
            now,
        } = self;
        let principal = || {
            if scope.principal.id.is_empty() {
                Err(Absent::Principal)
            } else {
                Ok(&scope.principal)
            }
        };
        Ok(match read {
            Read::Argument(keys) => match keys.split_last() {
                None => Fact::object(call.arguments.object()),
                Some((last, before)) => {
                    let object = descend(call.arguments.object(), before)?;
                    Fact::json(object.get(last).ok_or_else(|| Absent::Key(last.clone()))?)
                }
            },
            Read::HasArgument(keys) => {
                let (last, before) = keys.split_last().ok_or(Absent::Object("map"))?;
                let object = descend(call.arguments.object(), before)?;
                Fact::boolean(object.get(last).is_some())
            }
            Read::ToolId => Fact::text(call.tool.as_str()),
            Read::ToolTitle => Fact::text(title),
            Read::ToolClass => Fact::text(class.name()),
            Read::ToolOrigin => Fact::text(call.origin.ok_or(Absent::Origin)?.name()),
            Read::HasToolOrigin => Fact::boolean(call.origin.is_some()),
            Read::ToolServer => Fact::text(call.server.as_str()),
            Read::Tenant => Fact::text(scope.tenant.as_str()),
            Read::Session => Fact::text(scope.session_id.as_str()),
            Read::Run => Fact::text(scope.run_id.as_str()),
            Read::AgentPath => Fact::texts(&scope.agent_path),
            Read::PrincipalId => Fact::text(principal()?.id.as_str()),
            Read::PrincipalRoles => Fact::texts(&principal()?.roles),
            Read::PrincipalAttributes => Fact::map(&principal()?.attributes),
            Read::HasPrincipal => principal().map(|_| Fact::boolean(true))?,
            Read::Now => {
                let moment = DateTime::from_timestamp_millis(now.millis()).ok_or(Absent::Time)?;
                Fact::scalar(CelTimestamp::from(moment.fixed_offset()))
            }
        })
    }
}

/// The object that the keys lead to.
fn descend<'a>(object: &'a Object, keys: &[String]) -> Result<&'a Object, Absent> {
    keys.iter()
        .try_fold(object, |object, key| match object.get(key) {
            None => Err(Absent::Key(key.clone())),
            Some(Value::Object(object)) => Ok(object),
            Some(Value::Null) => Err(Absent::Object("null")),
            Some(Value::Bool(_)) => Err(Absent::Object("bool")),
            Some(Value::Number(_)) => Err(Absent::Object("number")),
            Some(Value::String(_)) => Err(Absent::Object("string")),
            Some(Value::Array(_)) => Err(Absent::Object("list")),
        })
}
