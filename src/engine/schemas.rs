//! JSON Schemas are worked on beside the threads that serve decisions: few at a time, each on a thread with a
//! stack of its own and for a bounded time (S9).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};

use super::EngineError;
use crate::arguments::Json;
use crate::schema::{STACK_BYTES, Schema};
use crate::suspension::Refusal;

/// How many are worked on at a time.
const AT_A_TIME: usize = 2;

/// How long one may wait for its turn and take together. What it costs is bounded before it begins; this is
/// for a machine that is too busy.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where schemas are worked on.
pub(super) struct Schemas {
    turns: Arc<Semaphore>,
}

impl Default for Schemas {
    fn default() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }
}

impl Schemas {
    /// Whether payloads can be checked against a schema.
    pub(super) async fn check_schema(&self, schema: &Json) -> Result<(), EngineError> {
        let schema = schema.clone();
        let compiled = self.run(move || Schema::compile(&schema).map(drop)).await?;
        compiled.map_err(|error| EngineError::Invalid {
            field: "payload_schema_json",
            message: error.to_string(),
        })
    }

    /// What is wrong with a payload, if anything is.
    pub(super) async fn check_payload(
        &self,
        schema: &Json,
        payload: &Json,
    ) -> Result<Option<Refusal>, EngineError> {
        let (schema, payload) = (schema.clone(), payload.clone());
        let check = move || match Schema::compile(&schema) {
            Ok(schema) => schema.check(&payload).map_err(|misfit| misfit.to_string()),
            // It was compiled at opening, perhaps by a release that knew better.
            Err(error) => Err(format!(
                "cannot be checked against its schema any more: {error}"
            )),
        };
        let checked = self.run(check).await?;
        Ok(checked.err().map(|message| Refusal::Invalid {
            field: "external.payload_json",
            message: message.into(),
        }))
    }

    /// Runs `work` on a thread of its own. One that takes too long keeps its turn until it ends.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let working = async {
            let turn = Arc::clone(&self.turns).acquire_owned().await.ok()?;
            let (done, result) = oneshot::channel();
            let thread = std::thread::Builder::new()
                .name("assent-schema".to_owned())
                .stack_size(STACK_BYTES);
            let spawned = thread.spawn(move || {
                let result = work();
                drop(turn);
                // Nobody may be waiting any more.
                let _ = done.send(result);
            });
            spawned.ok()?;
            // Without a result the thread has died, which is no answer either.
            result.await.ok()
        };
        match tokio::time::timeout(PATIENCE, working).await {
            Ok(Some(result)) => Ok(result),
            Ok(None) | Err(_) => Err(EngineError::Busy),
        }
    }
}
