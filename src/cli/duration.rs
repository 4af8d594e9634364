//! Lengths of time as a request carries them.

use prost_types::Duration;

use crate::domain::{DurationError, parse_duration};

/// The longest `google.protobuf.Duration`, which is about 10,000 years.
const MAX_SECONDS: i64 = 315_576_000_000;

/// Reads `500ms`, `90s`, `10m`, `24h` or `7d`.
pub(super) fn parse(text: &str) -> Result<Duration, DurationError> {
    let duration = Duration::try_from(parse_duration(text)?);
    duration
        .ok()
        .filter(|duration| duration.seconds <= MAX_SECONDS)
        .ok_or(DurationError::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_carried_as_seconds_and_nanoseconds() {
        let of = |seconds, nanos| Ok(Duration { seconds, nanos });
        assert_eq!(parse("1500ms"), of(1, 500_000_000));
        assert_eq!(parse("315576000000s"), of(MAX_SECONDS, 0));
    }

    #[test]
    fn what_the_contract_cannot_carry_is_refused() {
        assert_eq!(parse("315576000001s"), Err(DurationError::TooLong));
        assert_eq!(parse("9999999999999d"), Err(DurationError::TooLong));
        assert_eq!(parse("1w"), Err(DurationError::Form));
    }
}
