//! Lengths of time as they are written everywhere: an integer and one of `ms s m h d` (S4).
//!
//! What is the longest that makes sense, and what to say of a text that is none, is the reader's affair.

use std::time::Duration;

/// Why a text is no length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// No integer with one of the units.
    #[error("write a whole number and one of `ms`, `s`, `m`, `h`, `d`, such as `90s` or `10m`")]
    Form,
    /// Zero.
    #[error("must be above zero")]
    Zero,
    /// Past what can be counted in milliseconds.
    #[error("is longer than can be said")]
    TooLong,
}

/// Reads `500ms`, `90s`, `10m`, `24h` or `7d`.
///
/// # Errors
/// When it is anything else, or zero.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(DurationError::Form);
    }
    let millis_per_unit: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(DurationError::Form),
    };
    // All are digits, so what cannot be read is too large.
    let number: u64 = number.parse().map_err(|_| DurationError::TooLong)?;
    let millis = number
        .checked_mul(millis_per_unit)
        .ok_or(DurationError::TooLong)?;
    if millis == 0 {
        return Err(DurationError::Zero);
    }
    Ok(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_an_integer_and_a_unit() {
        let seconds = |seconds| Ok(Duration::from_secs(seconds));
        assert_eq!(parse_duration("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("90s"), seconds(90));
        assert_eq!(parse_duration("10m"), seconds(600));
        assert_eq!(parse_duration("24h"), seconds(86_400));
        assert_eq!(parse_duration("7d"), seconds(604_800));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "", "s", "10", "m", "1.5h", "-1s", "+1s", "1 h", "1H", "1w", "1h30m", "1s1s", "1s ",
            " 1s", "١s",
        ] {
            assert_eq!(parse_duration(text), Err(DurationError::Form), "{text:?}");
        }
        assert_eq!(parse_duration("0s"), Err(DurationError::Zero));
        assert_eq!(parse_duration("000d"), Err(DurationError::Zero));
        for text in ["99999999999999999999s", "999999999999999999d"] {
            assert_eq!(parse_duration(text), Err(DurationError::TooLong), "{text}");
        }
    }
}
