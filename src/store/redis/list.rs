//! Reading many records: first the ids that an index holds, then the records by id.
//!
//! The two steps are not one: a record may change in between. It is then shown as it has become, which the
//! engine's commit would notice by its version.

use super::layout::Partition;
use super::row::{self, FIELDS, LIGHT_FIELDS, LightRow, Row};
use super::script::{Call, LIST, MEMBERS_OF, TRIM};
use super::write::name_or_empty;
use super::{MAX_MILLIS, RedisStore};
use crate::domain::Timestamp;
use crate::store::key::KeyHash;
use crate::store::{Cursor, Group, MEMBERS, MEMBERS_BYTES, Members, Query, Slice, StoreError};
use crate::suspension::{OfSuspension, PARTITIONS, RecordId, SuspensionId};

/// How many records are read in one round trip. A record has 2 MiB at most, and mostly a few KiB.
const BATCH: usize = 32;
/// The same without bodies.
const LIGHT_BATCH: usize = 128;
/// How many ids one script is asked for at most.
const MOST_WANTED: usize = 1000;
/// A slice ends early once it holds so many bytes, as a page does (S9).
const SLICE_BYTES: usize = 4 << 20;
/// A slice ends early after so many looks at the indexes, where most of what they hold cannot be shown.
const MAX_ROUNDS: usize = 32;

/// Where ids go on in the order of a list.
pub(super) struct Window<Of = OfSuspension> {
    /// In order.
    pub(super) positions: Vec<Cursor<Of>>,
    /// Whether nothing comes after them.
    pub(super) complete: bool,
    /// What is no id of its partition.
    strays: Vec<(u8, Vec<String>)>,
}

impl RedisStore {
    /// The partitions that may hold some of a group.
    pub(super) fn partitions_of(
        &self,
        group: &Group,
    ) -> Result<impl Iterator<Item = &Partition> + use<'_>, StoreError> {
        let partitions = match group.partition() {
            Some(number) => std::slice::from_ref(self.partition(number)?),
            None => self.layout.all(),
        };
        Ok(partitions.iter())
    }

    pub(super) async fn read_list(&self, query: &Query) -> Result<Slice, StoreError> {
        let mut slice = Slice {
            suspensions: Vec::new(),
            next: query.after,
        };
        if query.limit == 0 {
            return Ok(slice);
        }
        let index = query.group.index();
        let most = query.limit.min(MOST_WANTED) + 1;
        // Hashes spread a group over the partitions, so that each of many is asked for somewhat more than its part.
        let mut wanted = if query.group.partition().is_some() {
            most
        } else {
            8 + most / 16
        };
        let mut bytes = 0;
        for _ in 0..MAX_ROUNDS {
            let window = self.window(query, index, slice.next, wanted).await?;
            wanted = (2 * wanted).min(most.max(wanted));
            let mut positions = window.positions.as_slice();
            let mut gone = Vec::new();
            while !positions.is_empty() {
                let room = query.limit - slice.suspensions.len();
                if room == 0 || bytes > SLICE_BYTES {
                    self.trim(index, &gone).await?;
                    return Ok(slice);
                }
                let (batch, rest) = positions.split_at(room.min(BATCH).min(positions.len()));
                positions = rest;
                let ids: Vec<_> = batch.iter().map(|position| position.id).collect();
                for (position, row) in batch.iter().zip(self.load(&ids).await?) {
                    slice.next = Some(*position);
                    match row {
                        Row::Held {
                            suspension,
                            open,
                            bytes: size,
                        } => {
                            let shown = query.group.holds(&suspension.body.scope)
                                && (open || !query.open_only);
                            if shown {
                                bytes += size;
                                slice.suspensions.push(*suspension);
                            }
                        }
                        Row::Gone => gone.push(position.id),
                        Row::Corrupt(error) => self.note(&error),
                    }
                }
            }
            self.trim(index, &gone).await?;
            if window.complete {
                slice.next = None;
                return Ok(slice);
            }
            if slice.suspensions.len() == query.limit {
                return Ok(slice);
            }
        }
        Ok(slice)
    }

    /// The next ids of a list, from all partitions that may hold some.
    async fn window(
        &self,
        query: &Query,
        index: KeyHash,
        after: Option<Cursor>,
        wanted: usize,
    ) -> Result<Window, StoreError> {
        let partitions: Vec<_> = self.partitions_of(&query.group)?.collect();
        let keys = |partition: &Partition| {
            let mut keys = vec![partition.open(index)];
            if !query.open_only {
                keys.push(partition.closed(index));
            }
            keys
        };
        let after = after.map(|cursor| (cursor.expire_time, cursor.id.to_string()));
        let window = self
            .positions_after(&partitions, keys, after, wanted)
            .await?;
        for (number, strays) in &window.strays {
            self.trim_in(self.partition(*number)?, index, strays)
                .await?;
        }
        Ok(window)
    }

    /// The next ids of some indexes in some partitions, in their common order.
    pub(super) async fn positions_after<Of: Copy + Ord>(
        &self,
        partitions: &[&Partition],
        keys: impl Fn(&Partition) -> Vec<String>,
        after: Option<(Timestamp, String)>,
        wanted: usize,
    ) -> Result<Window<Of>, StoreError> {
        let (time, id) = match after {
            Some((time, id)) => (time.millis().min(MAX_MILLIS * 2).to_string(), id),
            None => ("-inf".to_owned(), String::new()),
        };
        let calls: Vec<_> = partitions
            .iter()
            .map(|partition| {
                Call::over(&LIST, keys(partition))
                    .arg(time.as_str())
                    .arg(id.as_str())
                    .number(wanted)
            })
            .collect();
        let mut positions = Vec::new();
        let mut strays_of = Vec::new();
        let mut frontier: Option<Cursor<Of>> = None;
        for (partition, answer) in partitions
            .iter()
            .zip(self.links.here().calls(&calls).await?)
        {
            for list in row::list(answer?)? {
                let (found, strays) = positions_in(list, partition.number())?;
                let full = found.len() + strays.len() >= wanted;
                if !strays.is_empty() {
                    strays_of.push((partition.number(), strays));
                }
                // Behind the last of an index that holds more, another partition's ids are not the next ones.
                if let (true, Some(last)) = (full, found.last()) {
                    frontier = Some(frontier.map_or(*last, |frontier| frontier.min(*last)));
                }
                positions.extend(found);
            }
        }
        positions.sort_unstable();
        if let Some(frontier) = frontier {
            positions.retain(|position| *position <= frontier);
        }
        Ok(Window {
            positions,
            complete: frontier.is_none(),
            strays: strays_of,
        })
    }

    pub(super) async fn read_members(
        &self,
        partition: u8,
        group: &Group,
    ) -> Result<Members, StoreError> {
        let partition = self.partition(partition)?;
        let index = group.index();
        let (now, found) = self.member_positions(partition, group).await?;
        let ids: Vec<_> = found.iter().map(|position| position.id).collect();
        let mut members = Members {
            members: Vec::new(),
            more: false,
            open: 0,
            latest: found.iter().map(|position| position.expire_time).max(),
            now,
        };
        let mut gone = Vec::new();
        let mut bytes = 0;
        for batch in ids.chunks(LIGHT_BATCH) {
            if members.members.len() >= MEMBERS || bytes >= MEMBERS_BYTES {
                members.more = true;
                members.open = u64::try_from(found.len()).unwrap_or(u64::MAX);
                break;
            }
            for (id, row) in batch.iter().zip(self.load_light(batch).await?) {
                match row {
                    // One that has left since must not stand for one that has come since: it does not count.
                    LightRow::Held { open: false, .. } => {}
                    LightRow::Held {
                        member,
                        open: true,
                        bytes: size,
                    } => {
                        members.open += 1;
                        bytes += size;
                        members.members.push(*member);
                    }
                    LightRow::Gone => gone.push(id.to_string()),
                    LightRow::Corrupt { error, newer: _ } => {
                        members.open += 1;
                        self.note(&error);
                    }
                }
            }
        }
        self.trim_in(partition, index, &gone).await?;
        Ok(members)
    }

    /// What stands in the open index of a group in one partition.
    async fn member_positions(
        &self,
        partition: &Partition,
        group: &Group,
    ) -> Result<(Timestamp, Vec<Cursor>), StoreError> {
        let index = group.index();
        let call = self.timed(&MEMBERS_OF, partition.open(index));
        let answer = self
            .links
            .here()
            .call(call.arg(name_or_empty(group.own_run())))
            .await?;
        let mut answer = row::list(answer)?;
        let now = row::time(answer.next())?;
        let (found, strays) = positions_in(answer.next().unwrap_or_default(), partition.number())?;
        self.trim_in(partition, index, &strays).await?;
        Ok((now, found))
    }

    /// How many open records a run of one session has, whose index may hold another session's run of the name.
    pub(super) async fn count_of_run(
        &self,
        partition: u8,
        group: &Group,
    ) -> Result<u64, StoreError> {
        let partition = self.partition(partition)?;
        let (_, found) = self.member_positions(partition, group).await?;
        Ok(u64::try_from(found.len()).unwrap_or(u64::MAX))
    }

    /// Reads records without their bodies in one round trip, in the order of the ids.
    pub(super) async fn load_light(
        &self,
        ids: &[SuspensionId],
    ) -> Result<Vec<LightRow>, StoreError> {
        let answers = self.read_fields(ids, &LIGHT_FIELDS).await?;
        ids.iter()
            .zip(answers)
            .map(|(id, answer)| LightRow::of_answer(*id, answer))
            .collect()
    }

    /// Reads records in one round trip, in the order of the ids.
    pub(super) async fn load(&self, ids: &[SuspensionId]) -> Result<Vec<Row>, StoreError> {
        let answers = self.read_fields(ids, &FIELDS).await?;
        ids.iter()
            .zip(answers)
            .map(|(id, answer)| Row::of_answer(*id, answer))
            .collect()
    }

    async fn read_fields(
        &self,
        ids: &[SuspensionId],
        fields: &[&str],
    ) -> Result<Vec<redis::Value>, StoreError> {
        let mut commands = Vec::with_capacity(ids.len());
        for id in ids {
            let partition = self.partition(id.partition().unwrap_or(PARTITIONS))?;
            let mut command = redis::cmd("HMGET");
            command.arg(partition.record(*id)).arg(fields);
            commands.push(command);
        }
        self.links.here().commands(commands).await
    }

    /// Takes ids without a record out of a group's indexes.
    async fn trim(&self, index: KeyHash, gone: &[SuspensionId]) -> Result<(), StoreError> {
        for partition in self.layout.all() {
            let here = gone
                .iter()
                .filter(|id| id.partition() == Some(partition.number()));
            let ids: Vec<_> = here.map(ToString::to_string).collect();
            self.trim_in(partition, index, &ids).await?;
        }
        Ok(())
    }

    async fn trim_in(
        &self,
        partition: &Partition,
        index: KeyHash,
        gone: &[String],
    ) -> Result<(), StoreError> {
        if gone.is_empty() {
            return Ok(());
        }
        let mut call = Call::new(&TRIM, partition.open(index)).key(partition.closed(index));
        for id in gone {
            call = call.arg(id.as_str());
        }
        self.links.here().call(call).await.map(drop)
    }
}

/// Reads `id, deadline, id, deadline, ...`; what is no id of this partition is returned beside it.
pub(super) fn positions_in<Of>(
    answer: redis::Value,
    partition: u8,
) -> Result<(Vec<Cursor<Of>>, Vec<String>), StoreError> {
    let mut values = row::list(answer)?;
    let mut positions = Vec::with_capacity(values.len() / 2);
    let mut strays = Vec::new();
    while let (Some(member), Some(score)) = (values.next(), values.next()) {
        let Some(member) = row::text(member) else {
            continue;
        };
        let id = RecordId::parse(&member).filter(|id| id.partition() == Some(partition));
        let millis = row::text(score).and_then(|score| score.parse().ok());
        match (id, millis.map(Timestamp::from_millis)) {
            (Some(id), Some(expire_time)) => positions.push(Cursor { expire_time, id }),
            _ => strays.push(member),
        }
    }
    Ok((positions, strays))
}
