//! Errors that gRPC's own machinery makes, before a method is reached: they get the `ErrorInfo` that all others have.
//!
//! Bytes that are no message, a message that is too large, a method that is not there: tonic answers those itself, with
//! a status in the headers of the answer. An answer of a method has none there, so that one look at the headers is all
//! that it costs. What fails later was made in `status`.

use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::Map;
use http::{HeaderMap, Request, Response};
use tokio::time::error::Elapsed;
use tokio::time::{Timeout, timeout};
use tonic::body::Body;
use tower::{Layer, Service};

use super::status::{completed, late};

/// How a client says how long it waits.
const TIMEOUT: &str = "grpc-timeout";

/// The services that others have defined, whose errors are as they defined them: health and reflection.
const STANDARD: &str = "/grpc.";

/// Gives every error its details, and ends with one what takes too long.
#[derive(Clone, Copy, Debug)]
pub struct CompleteErrors {
    call_timeout: Duration,
}

impl CompleteErrors {
    /// For calls that take so long at most, and no longer than their client waits.
    pub fn new(call_timeout: Duration) -> Self {
        Self { call_timeout }
    }
}

impl<S> Layer<S> for CompleteErrors {
    type Service = WithCompleteErrors<S>;

    fn layer(&self, inner: S) -> Self::Service {
        WithCompleteErrors {
            inner,
            call_timeout: self.call_timeout,
        }
    }
}

/// A service all of whose errors have details.
#[derive(Clone, Debug)]
pub struct WithCompleteErrors<S> {
    inner: S,
    call_timeout: Duration,
}

type Answer<E> = Result<Response<Body>, E>;
type Finish<E> = fn(Result<Answer<E>, Elapsed>) -> Answer<E>;

impl<S, B> Service<Request<B>> for WithCompleteErrors<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Map<Timeout<S::Future>, Finish<S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let patience = patience(request.headers()).unwrap_or(self.call_timeout);
        let finish: Finish<S::Error> = if request.uri().path().starts_with(STANDARD) {
            in_time
        } else {
            complete
        };
        timeout(patience.min(self.call_timeout), self.inner.call(request)).map(finish)
    }
}

fn complete<E>(answer: Result<Answer<E>, Elapsed>) -> Answer<E> {
    let mut answer = in_time(answer)?;
    if let Some(status) = completed(answer.headers()) {
        // The headers beside it stay: they say which compression is understood.
        let _always_fit = status.add_header(answer.headers_mut());
    }
    Ok(answer)
}

fn in_time<E>(answer: Result<Answer<E>, Elapsed>) -> Answer<E> {
    answer.unwrap_or_else(|_| Ok(late().into_http()))
}

/// How long the client waits: up to eight digits and a unit, by gRPC's protocol over HTTP/2. What is not written so
/// is passed over.
fn patience(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(TIMEOUT)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 60 * 60)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Pending, pending};

    use tonic::{Code, Status};
    use tonic_types::StatusExt as _;

    use super::*;

    /// Never answers.
    #[derive(Clone, Copy)]
    struct Stuck;

    impl Service<Request<()>> for Stuck {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Pending<Answer<Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            pending()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_for_the_server_or_its_client_ends_with_details() {
        let mut service = CompleteErrors::new(Duration::from_secs(60)).layer(Stuck);
        for (header, seconds) in [
            (None, 60),
            (Some("2S"), 2),
            (Some("9H"), 60),
            (Some("?"), 60),
        ] {
            let mut request = Request::new(());
            if let Some(header) = header {
                let header = http::HeaderValue::from_static(header);
                request.headers_mut().insert(TIMEOUT, header);
            }
            let began = tokio::time::Instant::now();
            let Ok(answer) = service.call(request).await;
            assert_eq!(began.elapsed().as_secs(), seconds, "{header:?}");
            let status = Status::from_header_map(answer.headers()).unwrap();
            assert_eq!(status.code(), Code::DeadlineExceeded);
            let details = status.get_error_details();
            assert_eq!(details.error_info().unwrap().reason, "DEADLINE_EXCEEDED");
        }
    }

    #[test]
    fn how_long_a_client_waits_is_read_as_the_protocol_has_it() {
        let read = |text: &'static str| {
            let header = http::HeaderValue::from_static(text);
            patience(&HeaderMap::from_iter([(
                http::HeaderName::from_static(TIMEOUT),
                header,
            )]))
        };
        assert_eq!(read("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(read("3M"), Some(Duration::from_secs(180)));
        assert_eq!(read("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(read("10m"), Some(Duration::from_millis(10)));
        assert_eq!(read("10u"), Some(Duration::from_micros(10)));
        assert_eq!(read("10n"), Some(Duration::from_nanos(10)));
        for text in ["", "S", "10", "10s", "-1S", "+1S", "123456789S", "1.5S"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(patience(&HeaderMap::new()), None);
    }
}
