//! Page tokens: a position in a list, bound to the filters it was given for (AIP-158).
//!
//! A token says nothing a client may use, and gives no access: it only says where to go on in what the
//! client may list anyway. Its first part tells a token for another list, or one that was damaged, from
//! one to go on with.

use sha2::{Digest as _, Sha256};

use crate::domain::{Id, Timestamp};
use crate::engine::{GrantsRequest, ListRequest};
use crate::store::{Cursor, Group};
use crate::suspension::{Execution, Kind, RecordId, Status};

/// Why a token was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a token that the server gave for these filters: begin again without one")]
pub(super) struct InvalidToken;

/// What a list is of. The page size may change from page to page, this may not.
pub(super) trait Filters {
    /// Tells lists apart, on every replica and in every release alike. The order of a filter's values does
    /// not matter.
    fn fingerprint(&self) -> u64;
}

/// The token to go on after `position` in the list of `filters`.
pub(super) fn write<Of>(position: Cursor<Of>, filters: &impl Filters) -> String {
    let Cursor { expire_time, id } = position;
    let filters = filters.fingerprint();
    let millis = expire_time.millis().cast_unsigned();
    format!("{filters:016x}{millis:016x}{id}")
}

/// Reads a token that was given for these filters.
pub(super) fn read<Of: Copy>(
    token: &str,
    filters: &impl Filters,
) -> Result<Cursor<Of>, InvalidToken> {
    let position = position(token).ok_or(InvalidToken)?;
    // One spelling only, and the fingerprint with it.
    if write(position, filters) != token {
        return Err(InvalidToken);
    }
    Ok(position)
}

fn position<Of>(token: &str) -> Option<Cursor<Of>> {
    let millis = u64::from_str_radix(token.get(16..32)?, 16).ok()?;
    let id = RecordId::parse(token.get(32..)?)?;
    id.partition()?;
    Some(Cursor {
        expire_time: Timestamp::from_millis(millis.cast_signed()),
        id,
    })
}

impl Filters for ListRequest {
    fn fingerprint(&self) -> u64 {
        let ListRequest {
            group,
            kinds,
            statuses,
            executions,
            page_size: _,
            after: _,
        } = self;
        let mut parts = Parts(Sha256::new());
        parts.group(group);
        parts.set(kinds.iter().map(|kind| match kind {
            Kind::Approval => 1,
            Kind::Question => 2,
            Kind::External => 4,
            Kind::ClientTool => 8,
            Kind::SignIn => 16,
        }));
        parts.set(statuses.iter().map(|status| match status {
            Status::Pending => 1,
            Status::Approved => 2,
            Status::Denied => 4,
            Status::Answered => 8,
            Status::Expired => 16,
            Status::Cancelled => 32,
        }));
        parts.set(executions.iter().map(|execution| match execution {
            Execution::None => 1,
            Execution::Claimed => 2,
            Execution::Completed => 4,
            Execution::InDoubt => 8,
            Execution::Voided => 16,
        }));
        parts.sum()
    }
}

impl Filters for GrantsRequest {
    fn fingerprint(&self) -> u64 {
        let Self {
            group,
            page_size: _,
            after: _,
        } = self;
        let mut parts = Parts(Sha256::new_with_prefix("grants"));
        parts.group(group);
        parts.sum()
    }
}

struct Parts(Sha256);

impl Parts {
    fn group(&mut self, group: &Group) {
        match group {
            Group::Tenant { tenant } => self.ids(0, &[tenant]),
            Group::Session { tenant, session } => self.ids(1, &[tenant, session]),
            Group::Run {
                tenant,
                session: Some(session),
                run,
            } => self.ids(2, &[tenant, session, run]),
            Group::Run {
                tenant,
                session: None,
                run,
            } => self.ids(3, &[tenant, run]),
        }
    }

    fn sum(self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(self.0.finalize());
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    fn ids(&mut self, tag: u8, ids: &[&Id]) {
        self.0.update([tag]);
        for id in ids {
            // Ids hold no control characters, so a NUL ends one.
            self.0.update(id.as_str());
            self.0.update([0]);
        }
    }

    fn set(&mut self, bits: impl Iterator<Item = u8>) {
        self.0.update([bits.fold(0, |set, bit| set | bit)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suspension::{OfSuspension, SuspensionId};

    const ID: &str = "0192f0c1-0000-7000-8000-00000000000a";

    fn id(text: &str) -> Id {
        Id::parse(text).unwrap()
    }

    fn request() -> ListRequest {
        ListRequest {
            group: Group::Tenant { tenant: id("acme") },
            kinds: vec![],
            statuses: vec![Status::Pending, Status::Approved],
            executions: vec![],
            page_size: 50,
            after: None,
        }
    }

    fn cursor(millis: i64) -> Cursor {
        Cursor {
            expire_time: Timestamp::from_millis(millis),
            id: SuspensionId::parse(ID).unwrap(),
        }
    }

    #[test]
    fn a_token_reads_back_as_the_position_it_was_given_for() {
        for millis in [0, 1, -1, 1_700_000_000_000, i64::MAX, i64::MIN] {
            let token = write(cursor(millis), &request());
            assert_eq!(token.len(), 68);
            assert_eq!(read(&token, &request()), Ok(cursor(millis)));
        }
    }

    #[test]
    fn a_token_is_good_for_its_filters_whatever_the_page_size() {
        let token = write(cursor(7), &request());
        let same = ListRequest {
            page_size: 3,
            after: Some(cursor(2)),
            statuses: vec![Status::Approved, Status::Pending],
            ..request()
        };
        assert_eq!(read(&token, &same), Ok(cursor(7)));
        let (tenant, run) = (id("acme"), id("r"));
        let others = [
            ListRequest {
                group: Group::Tenant {
                    tenant: id("rival"),
                },
                ..request()
            },
            ListRequest {
                group: Group::Session {
                    tenant: tenant.clone(),
                    session: run.clone(),
                },
                ..request()
            },
            ListRequest {
                group: Group::Run {
                    tenant: tenant.clone(),
                    session: None,
                    run: run.clone(),
                },
                ..request()
            },
            ListRequest {
                group: Group::Run {
                    tenant,
                    session: Some(Id::default()),
                    run,
                },
                ..request()
            },
            ListRequest {
                statuses: vec![Status::Pending],
                ..request()
            },
            ListRequest {
                kinds: vec![Kind::Approval],
                ..request()
            },
            ListRequest {
                executions: vec![Execution::None],
                ..request()
            },
        ];
        for (index, other) in others.iter().enumerate() {
            assert_eq!(
                read::<OfSuspension>(&token, other),
                Err(InvalidToken),
                "{other:?}"
            );
            for another in others.iter().skip(index + 1) {
                assert_ne!(
                    other.fingerprint(),
                    another.fingerprint(),
                    "{other:?} {another:?}"
                );
            }
        }
    }

    #[test]
    fn a_token_for_suspensions_is_none_for_grants_of_the_same_tenant() {
        let grants = |group| GrantsRequest {
            group,
            page_size: 50,
            after: None,
        };
        let tenant = grants(request().group);
        let token = write(cursor(7), &request());
        assert_eq!(read::<OfSuspension>(&token, &tenant), Err(InvalidToken));
        let token = write(cursor(7), &tenant);
        assert_eq!(read(&token, &tenant), Ok(cursor(7)));
        let session = grants(Group::Session {
            tenant: id("acme"),
            session: id("s"),
        });
        assert_eq!(read::<OfSuspension>(&token, &session), Err(InvalidToken));
    }

    #[test]
    fn what_the_server_did_not_give_is_no_token() {
        let good = write(cursor(7), &request());
        let mut wrong = vec![
            "x".to_owned(),
            "é".repeat(34),
            good.to_uppercase(),
            format!("{good} "),
            good.replacen(&good[16..32], "+000000000000007", 1),
            // No store has such a partition.
            write(
                Cursor {
                    id: SuspensionId::parse("0192f0c1-0000-7000-8000-0000000000ff").unwrap(),
                    ..cursor(7)
                },
                &request(),
            ),
        ];
        wrong.extend((0..good.len()).map(|end| good[..end].to_owned()));
        wrong.extend(
            (0..good.len())
                .map(|at| {
                    let other = if &good[at..=at] == "0" { "1" } else { "0" };
                    format!("{}{other}{}", &good[..at], &good[at + 1..])
                })
                .filter(|changed| *changed != good && !changed_position_only(changed, &good)),
        );
        for token in wrong {
            assert_eq!(
                read::<OfSuspension>(&token, &request()),
                Err(InvalidToken),
                "{token}"
            );
        }
    }

    /// A changed position is another place in the same list, which does no harm.
    fn changed_position_only(changed: &str, good: &str) -> bool {
        changed[..16] == good[..16] && position::<OfSuspension>(changed).is_some()
    }
}
