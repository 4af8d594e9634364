//! Lengths of time as they are written on the command line: an integer and a unit, as in the policy document.

use prost_types::Duration;

/// The longest `google.protobuf.Duration`, which is about 10,000 years.
const MAX_SECONDS: i64 = 315_576_000_000;

/// Why a text is no length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DurationError {
    /// No integer with one of the units.
    #[error("write a whole number and one of `ms`, `s`, `m`, `h`, `d`, such as `90s` or `10m`")]
    Form,
    /// Zero.
    #[error("must be above zero")]
    Zero,
    /// Past what the contract can carry.
    #[error("is longer than can be said")]
    TooLong,
}

/// Reads `500ms`, `90s`, `10m`, `24h` or `7d`.
pub(super) fn parse(text: &str) -> Result<Duration, DurationError> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(DurationError::Form);
    }
    let millis_per_unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(DurationError::Form),
    };
    let millis = number
        .parse::<i64>()
        .ok()
        .and_then(|number| number.checked_mul(millis_per_unit))
        .ok_or(DurationError::TooLong)?;
    let seconds = millis / 1_000;
    if millis == 0 {
        return Err(DurationError::Zero);
    }
    if seconds > MAX_SECONDS {
        return Err(DurationError::TooLong);
    }
    let nanos = i32::try_from(millis % 1_000 * 1_000_000).map_err(|_| DurationError::TooLong)?;
    Ok(Duration { seconds, nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_an_integer_and_a_unit() {
        let of = |seconds, nanos| Ok(Duration { seconds, nanos });
        assert_eq!(parse("1500ms"), of(1, 500_000_000));
        assert_eq!(parse("90s"), of(90, 0));
        assert_eq!(parse("10m"), of(600, 0));
        assert_eq!(parse("24h"), of(86_400, 0));
        assert_eq!(parse("7d"), of(604_800, 0));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "", "10", "m", "1.5h", "-1s", "+1s", "1 h", "1H", "1w", "1h30m", "1s ",
        ] {
            assert_eq!(parse(text), Err(DurationError::Form), "{text:?}");
        }
        assert_eq!(parse("0s"), Err(DurationError::Zero));
        assert_eq!(parse("99999999999999999999s"), Err(DurationError::TooLong));
        assert_eq!(parse("9999999999999d"), Err(DurationError::TooLong));
        assert_eq!(parse("315576000001s"), Err(DurationError::TooLong));
    }
}
