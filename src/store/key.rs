//! How callers' texts become places, groups and keys of a store: only ever as hashes of their
//! length-prefixed parts, so that no text can be taken for another.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::arguments::{Digest, write_hex};
use crate::domain::{Id, Scope};
use crate::suspension::{Kind, PARTITIONS};

/// A hash that stands for some parts of callers' texts. Displayed as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash([u8; 16]);

impl KeyHash {
    fn of(label: &str, parts: &[&Id]) -> Self {
        Self::of_texts(label, parts.iter().map(|part| part.as_str()))
    }

    /// Hashes the parts, each behind its length, under a label that keeps uses apart.
    fn of_texts<'a>(label: &'a str, parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hasher = Sha256::new();
        for part in std::iter::once(label).chain(parts) {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        let mut hash = [0; 16];
        for (byte, from) in hash.iter_mut().zip(hasher.finalize()) {
            *byte = from;
        }
        Self(hash)
    }

    /// Reads a hash as it is displayed.
    pub fn parse(text: &str) -> Option<Self> {
        let mut hash = [0; 16];
        if text.len() != 2 * hash.len() || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (at, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self(hash))
    }

    /// The hash itself.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    fn partition(self) -> u8 {
        let [first, ..] = self.0;
        first % PARTITIONS
    }
}

impl From<[u8; 16]> for KeyHash {
    fn from(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

/// Some of a tenant's suspensions: what lists, limits and closings speak of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// All of a tenant.
    Tenant {
        /// Which.
        tenant: Id,
    },
    /// All of a session, which is never empty.
    Session {
        /// Its tenant.
        tenant: Id,
        /// Which.
        session: Id,
    },
    /// All of a run, which is never empty.
    Run {
        /// Its tenant.
        tenant: Id,
        /// Its session: `Some("")` for runs without one, `None` for any.
        session: Option<Id>,
        /// Which.
        run: Id,
    },
}

impl Group {
    /// What its index and its closing are called in each partition that may hold some of it.
    ///
    /// Runs of one name share an index within a tenant, whatever their session; closings tell them
    /// apart.
    pub fn index(&self) -> KeyHash {
        match self {
            Self::Tenant { tenant } => KeyHash::of("tenant", &[tenant]),
            Self::Session { tenant, session } => KeyHash::of("session", &[tenant, session]),
            Self::Run { tenant, run, .. } => KeyHash::of("run", &[tenant, run]),
        }
    }

    /// What the end of it is called; a tenant never ends.
    pub fn closing(&self) -> KeyHash {
        match self {
            Self::Tenant { .. } | Self::Session { .. } | Self::Run { session: None, .. } => {
                self.index()
            }
            Self::Run {
                tenant,
                session: Some(session),
                run,
            } => KeyHash::of("run of session", &[tenant, session, run]),
        }
    }

    /// What tells its records from others in its index; `None` where all of them are its own.
    pub fn own_run(&self) -> Option<KeyHash> {
        match self {
            Self::Run {
                session: Some(_), ..
            } => Some(self.closing()),
            Self::Tenant { .. } | Self::Session { .. } | Self::Run { session: None, .. } => None,
        }
    }

    /// The one partition that holds all of it, or `None` when it may be in every one.
    pub fn partition(&self) -> Option<u8> {
        match self {
            Self::Tenant { .. } | Self::Run { session: None, .. } => None,
            Self::Session { .. } => Some(self.index().partition()),
            Self::Run {
                tenant,
                session: Some(session),
                run,
            } => Some(if session.is_empty() {
                KeyHash::of("run", &[tenant, run]).partition()
            } else {
                KeyHash::of("session", &[tenant, session]).partition()
            }),
        }
    }

    /// Whether a record of this scope belongs to it.
    pub fn holds(&self, scope: &Scope) -> bool {
        match self {
            Self::Tenant { tenant } => scope.tenant == *tenant,
            Self::Session { tenant, session } => {
                scope.tenant == *tenant && scope.session_id == *session
            }
            Self::Run {
                tenant,
                session,
                run,
            } => {
                scope.tenant == *tenant
                    && scope.run_id == *run
                    && session.as_ref().is_none_or(|id| scope.session_id == *id)
            }
        }
    }
}

/// Where a record belongs: its partition and the indexes that hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The partition, which is also the last byte of the record's id.
    pub partition: u8,
    /// The tenant's index.
    pub tenant: KeyHash,
    /// The session's index, if there is a session.
    pub session: Option<KeyHash>,
    /// The run's index, if there is a run.
    pub run: Option<KeyHash>,
    /// The run by a name that no other session's run has: see [`Group::own_run`].
    pub own_run: Option<KeyHash>,
    /// The closings that refuse an opening here.
    pub closings: Vec<KeyHash>,
}

impl Place {
    /// The place of a scope; `random` chooses the partition where there is neither session nor run.
    pub fn of(scope: &Scope, random: u8) -> Self {
        let tenant = &scope.tenant;
        let session = (!scope.session_id.is_empty()).then(|| Group::Session {
            tenant: tenant.clone(),
            session: scope.session_id.clone(),
        });
        let run = (!scope.run_id.is_empty()).then(|| Group::Run {
            tenant: tenant.clone(),
            session: Some(scope.session_id.clone()),
            run: scope.run_id.clone(),
        });
        let partition = session
            .as_ref()
            .or(run.as_ref())
            .and_then(Group::partition)
            .unwrap_or(random % PARTITIONS);
        let mut closings = Vec::new();
        if let Some(session) = &session {
            closings.push(session.closing());
        }
        if let Some(run) = &run {
            closings.push(run.closing());
            closings.push(run.index());
        }
        Self {
            partition,
            tenant: KeyHash::of("tenant", &[tenant]),
            session: session.map(|group| group.index()),
            run: run.as_ref().map(Group::index),
            own_run: run.as_ref().and_then(Group::own_run),
            closings,
        }
    }

    /// The index that the limit of open suspensions counts: the session's, else the run's.
    pub fn limited(&self) -> Option<KeyHash> {
        self.session.or(self.run)
    }
}

/// What makes two openings one: (tenant, session, run, kind, call or step).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallKey(KeyHash);

impl CallKey {
    /// The key of a call or of a step: the call id decides, else the step id. `None` without a run id
    /// or without either: then every opening is new.
    pub fn of_call(scope: &Scope, kind: Kind, call_id: &Id, step_id: &Id) -> Option<Self> {
        if !call_id.is_empty() {
            Self::of(scope, kind, "call", Some(call_id))
        } else if !step_id.is_empty() {
            Self::of(scope, kind, "step", Some(step_id))
        } else {
            None
        }
    }

    /// The key of a run start; `None` without a run id.
    pub fn of_run_start(scope: &Scope) -> Option<Self> {
        Self::of(scope, Kind::Approval, "start", None)
    }

    fn of(scope: &Scope, kind: Kind, what: &str, id: Option<&Id>) -> Option<Self> {
        if scope.run_id.is_empty() {
            return None;
        }
        let kind = match kind {
            Kind::Approval => "approval",
            Kind::Question => "question",
            Kind::External => "external",
            Kind::ClientTool => "client tool",
            Kind::SignIn => "sign in",
        };
        let mut parts = vec![&scope.tenant, &scope.session_id, &scope.run_id];
        parts.extend(id);
        Some(Self(KeyHash::of(&format!("{kind} {what}"), &parts)))
    }

    /// The hash itself.
    pub fn hash(&self) -> KeyHash {
        self.0
    }
}

/// What a session grant is found by: all of a call that must be the same (S8). A principal without an id is
/// the same only where all that is said of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GrantKey(KeyHash);

impl GrantKey {
    /// The key of a call under a revision of the policy; `None` without a session, as no grant is there.
    pub fn of(
        scope: &Scope,
        tool: &Id,
        server: &Id,
        arguments: &Digest,
        policy_revision: &str,
    ) -> Option<Self> {
        let Scope {
            tenant,
            principal,
            session_id,
            run_id: _,
            parent_run_id: _,
            agent_path,
        } = scope;
        if session_id.is_empty() {
            return None;
        }
        let arguments = arguments.to_string();
        let counts = [
            principal.roles.len(),
            principal.attributes.len(),
            agent_path.len(),
        ];
        let [roles, attributes, agents] = counts.map(|count| count.to_string());
        let mut parts = vec![tenant.as_str(), session_id.as_str(), principal.id.as_str()];
        if principal.id.is_empty() {
            parts.push(&roles);
            parts.extend(principal.roles.iter().map(String::as_str));
            parts.push(&attributes);
            for (key, value) in &principal.attributes {
                parts.extend([key.as_str(), value.as_str()]);
            }
        }
        parts.push(&agents);
        parts.extend(agent_path.iter().map(String::as_str));
        parts.extend([tool.as_str(), server.as_str(), &arguments, policy_revision]);
        Some(Self(KeyHash::of_texts("grant", parts)))
    }

    /// The hash itself.
    pub fn hash(&self) -> KeyHash {
        self.0
    }
}
