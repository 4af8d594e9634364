//! The client of the operator's `PolicyPortService` (S5): the one place where Assent calls somebody.
//!
//! Connected when it is first asked, and again after a connection broke. Each question has a deadline. What is behind
//! the port is for the log: the engine only learns in what way there was no answer.

use std::error::Error as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::{Instant, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::convert::response::{risk_class, scope, tool_call};
use super::status::chain;
use crate::domain::{Decision, MAX_TEXT_BYTES};
use crate::engine::{PolicyPort, PortAnswer, PortError, Question};
use crate::pb;
use crate::pb::policy_port_service_client::PolicyPortServiceClient;
use crate::policy::{PortEndpoint, PortSettings};

/// The largest answer that is read: it is a verdict and a reason.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// The port of the policy of the moment. Where it is comes with each question, as a reload may move it.
#[derive(Debug, Default)]
pub struct PortClient {
    line: Mutex<Option<Arc<Line>>>,
    /// Whether the last question had no answer, so that the log tells of changes only.
    failing: AtomicBool,
}

/// A connection to one endpoint.
#[derive(Debug)]
struct Line {
    endpoint: PortEndpoint,
    client: PolicyPortServiceClient<Channel>,
    /// How many questions had an answer, an error among them.
    answered: AtomicU64,
}

/// Why there is no answer: for the engine, and for the log.
struct Failure {
    error: PortError,
    why: String,
}

#[async_trait::async_trait]
impl PolicyPort for PortClient {
    async fn ask(
        &self,
        settings: &PortSettings,
        question: Question<'_>,
    ) -> Result<PortAnswer, PortError> {
        let answer = self.ask_in_time(settings, question).await;
        self.tell(settings, answer.as_ref().err());
        answer.map_err(|failure| failure.error)
    }
}

impl PortClient {
    async fn ask_in_time(
        &self,
        settings: &PortSettings,
        question: Question<'_>,
    ) -> Result<PortAnswer, Failure> {
        let line = self.line(&settings.endpoint)?;
        let answered_before = line.answered.load(Ordering::Relaxed);
        let asked = Instant::now();
        match timeout(settings.timeout, line.ask(settings, question)).await {
            Ok(Ok((verdict, reason))) => {
                line.answered.fetch_add(1, Ordering::Relaxed);
                answer_of(verdict, reason)
            }
            Ok(Err(status)) if asked.elapsed() < settings.timeout => {
                line.answered.fetch_add(1, Ordering::Relaxed);
                Err(status.into())
            }
            // The transport counts the same time, and may be the first to say so.
            Ok(Err(_)) | Err(_) => {
                // Nobody had an answer for so long: the connection may be dead and nobody knows it yet.
                if line.answered.load(Ordering::Relaxed) == answered_before {
                    self.hang_up(&line);
                }
                Err(Failure {
                    error: PortError::TimedOut,
                    why: format!("no answer within {:?}", settings.timeout),
                })
            }
        }
    }

    /// The line to an endpoint, the one that there is if it leads there.
    fn line(&self, endpoint: &PortEndpoint) -> Result<Arc<Line>, Failure> {
        let mut current = self.current();
        if let Some(line) = current.as_ref().filter(|line| line.endpoint == *endpoint) {
            return Ok(Arc::clone(line));
        }
        let line = Arc::new(Line::to(endpoint)?);
        *current = Some(Arc::clone(&line));
        Ok(line)
    }

    /// Has the next question go over a new connection, unless it would already.
    fn hang_up(&self, line: &Arc<Line>) {
        let mut current = self.current();
        if current.as_ref().is_some_and(|held| Arc::ptr_eq(held, line)) {
            *current = None;
        }
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<Line>>> {
        // Nothing that holds it can leave it half-changed.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs that it fails, or that it answers again.
    fn tell(&self, settings: &PortSettings, failure: Option<&Failure>) {
        let failed = self.failing.swap(failure.is_some(), Ordering::Relaxed);
        let endpoint = settings.endpoint.as_str();
        match failure {
            Some(Failure { why, .. }) if !failed => tracing::warn!(
                endpoint,
                error = why,
                "the policy port does not answer: what it is asked about is refused"
            ),
            Some(Failure { why, .. }) => {
                tracing::debug!(endpoint, error = why, "the policy port does not answer");
            }
            None if failed => tracing::info!(endpoint, "the policy port answers again"),
            None => {}
        }
    }
}

impl Line {
    fn to(endpoint: &PortEndpoint) -> Result<Self, Failure> {
        let channel = Endpoint::from_shared(endpoint.as_str().to_owned())
            .map_err(|error| Failure {
                error: PortError::Unreachable,
                why: chain(&error),
            })?
            .connect_lazy();
        Ok(Self {
            endpoint: endpoint.clone(),
            client: PolicyPortServiceClient::new(channel)
                .max_decoding_message_size(MAX_ANSWER_BYTES),
            answered: AtomicU64::new(0),
        })
    }

    /// Asks, and gives the verdict and the reason as they came.
    async fn ask(
        &self,
        settings: &PortSettings,
        question: Question<'_>,
    ) -> Result<(i32, String), Status> {
        let mut client = self.client.clone();
        match question {
            Question::Tool {
                scope: place,
                call,
                class,
            } => {
                let request = pb::AllowToolRequest {
                    scope: Some(scope(place.clone())),
                    call: Some(tool_call(call.clone())),
                    risk_class: risk_class(Some(class)),
                };
                let answer = client.allow_tool(within(settings, request)).await?;
                let pb::AllowToolResponse { verdict, reason } = answer.into_inner();
                Ok((verdict, reason))
            }
            Question::Run {
                scope: place,
                start,
            } => {
                let request = pb::AllowRunRequest {
                    scope: Some(scope(place.clone())),
                    run: Some(pb::RunStart {
                        version: start.version.clone().into(),
                    }),
                };
                let answer = client.allow_run(within(settings, request)).await?;
                let pb::AllowRunResponse { verdict, reason } = answer.into_inner();
                Ok((verdict, reason))
            }
        }
    }
}

/// A request that says how long its answer is waited for.
fn within<T>(settings: &PortSettings, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(settings.timeout);
    request
}

fn answer_of(verdict: i32, reason: String) -> Result<PortAnswer, Failure> {
    let decision = match pb::Verdict::try_from(verdict) {
        Ok(pb::Verdict::Allow) => Decision::Allow,
        Ok(pb::Verdict::Ask) => Decision::Ask,
        Ok(pb::Verdict::Deny) => Decision::Deny,
        Ok(pb::Verdict::Unspecified) | Err(_) => {
            return Err(Failure {
                error: PortError::UnknownVerdict,
                why: format!("the verdict `{verdict}` is none of ALLOW, ASK and DENY"),
            });
        }
    };
    Ok(PortAnswer {
        decision,
        reason: cut(reason),
    })
}

/// A reason is cut rather than refused: the verdict before it is known.
fn cut(mut reason: String) -> String {
    let mut end = reason.len().min(MAX_TEXT_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason.truncate(end);
    reason
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        // What the other side sent has no cause here; what broke on the way has.
        match status.source() {
            Some(cause) => Self {
                error: PortError::Unreachable,
                why: chain(cause),
            },
            None => Self {
                error: PortError::Failed,
                why: format!("{:?}: {}", status.code(), status.message()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_two_characters() {
        assert_eq!(cut("short".to_owned()), "short");
        let fits = "x".repeat(MAX_TEXT_BYTES);
        assert_eq!(cut(fits.clone()), fits);
        assert_eq!(cut(format!("{fits}y")), fits);
        let before = "x".repeat(MAX_TEXT_BYTES - 1);
        assert_eq!(cut(format!("{before}é")), before);
        assert_eq!(cut(format!("{before}😀")), before);
    }

    #[test]
    fn only_the_three_verdicts_are_answers() {
        for (verdict, decision) in [
            (1, Some(Decision::Allow)),
            (2, Some(Decision::Ask)),
            (3, Some(Decision::Deny)),
            (0, None),
            (4, None),
            (-1, None),
            (i32::MAX, None),
        ] {
            let answer = answer_of(verdict, String::new());
            let answered = answer.as_ref().ok().map(|answer| answer.decision);
            assert_eq!(answered, decision, "{verdict}");
            if let Err(failure) = answer {
                assert_eq!(failure.error, PortError::UnknownVerdict);
            }
        }
    }
}
