//! What time brings: records to settle, to collect, and to set aside. Several replicas may sweep at once.

use redis::Value;

use super::RedisStore;
use super::failure::corrupt;
use super::layout::Partition;
use super::link::checked;
use super::list::positions_in;
use super::row::{self, LightRow};
use super::script::DUE;
use crate::domain::Timestamp;
use crate::store::{Cursor, Due, StoreError};

/// How many ids one script looks at: collecting one takes some 10 µs, in which Redis does nothing else.
const MOST_PER_PARTITION: usize = 256;
/// How many records are read in one round trip.
const BATCH: usize = 128;

impl RedisStore {
    pub(super) async fn sweep(&self, limit: usize) -> Result<Due, StoreError> {
        let wanted = limit.clamp(1, MOST_PER_PARTITION);
        let partitions = self.layout.all();
        let calls: Vec<_> = partitions
            .iter()
            .map(|partition| self.timed(&DUE, partition.due()).number(wanted))
            .collect();
        let mut due = Due {
            members: Vec::new(),
            now: Timestamp::default(),
            more: false,
        };
        let mut waiting: Vec<Cursor> = Vec::new();
        for (partition, answer) in partitions
            .iter()
            .zip(self.links.here().calls(&calls).await?)
        {
            let mut answer = match answer {
                Ok(answer) => row::list(answer)?,
                Err(error @ StoreError::Corrupt { .. }) => {
                    // One partition that cannot be swept must not stop the others.
                    tracing::error!(error = %error, partition = partition.number(), "a partition cannot be swept");
                    continue;
                }
                Err(error) => return Err(error),
            };
            // In a cluster each node has its own clock; what it calls due is due.
            due.now = due.now.max(row::time(answer.next())?);
            let looked = match answer.next() {
                Some(Value::Int(looked)) => usize::try_from(looked).unwrap_or_default(),
                _ => 0,
            };
            let (found, strays) =
                positions_in(answer.next().unwrap_or_default(), partition.number())?;
            for stray in &strays {
                self.take_out(partition, stray).await?;
                self.note(&corrupt(stray, "it is no id of this partition"));
            }
            // What was collected or set aside has made room for more; what waits may be all that is left.
            due.more |= looked >= wanted;
            waiting.extend(found);
        }
        // The moment to wake stands in for the deadline here: soonest first.
        waiting.sort_unstable();
        due.more |= waiting.len() > limit;
        waiting.truncate(limit);
        let mut progress = waiting.is_empty();
        for batch in waiting.chunks(BATCH) {
            let ids: Vec<_> = batch.iter().map(|position| position.id).collect();
            for (id, row) in ids.iter().zip(self.load_light(&ids).await?) {
                match row {
                    LightRow::Gone => progress = true,
                    LightRow::Held { member, .. } => {
                        progress = true;
                        due.members.push(*member);
                    }
                    // It stays in place for the release that wrote it.
                    LightRow::Corrupt { error, newer: true } => {
                        tracing::warn!(error = %error, "a record of a newer release is left to it");
                    }
                    LightRow::Corrupt {
                        error,
                        newer: false,
                    } => {
                        progress = true;
                        let partition = self.partition(id.partition().unwrap_or_default())?;
                        self.take_out(partition, &id.to_string()).await?;
                        self.note(&error);
                    }
                }
            }
        }
        // Where there is nothing here but what must be left, another look would only see the same.
        due.more &= progress;
        Ok(due)
    }

    /// Takes what cannot be read from what is due. A record keeps its place in the indexes, for people to look at,
    /// until its keys go on their own.
    async fn take_out(&self, partition: &Partition, member: &str) -> Result<(), StoreError> {
        let due = partition.due();
        let mut command = redis::cmd("ZREM");
        command.arg(&due).arg(member);
        for answer in self.links.here().commands([command]).await? {
            checked(answer, &due)?;
        }
        Ok(())
    }
}
