//! Moments as people read them: the time itself, and how far it is from now. Pure; now comes in as a parameter.

use prost_types::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// `in 1h 5m`, `3m ago` or `now`.
pub(super) fn relative(time: &Timestamp, now: &Timestamp) -> String {
    match time.seconds.saturating_sub(now.seconds) {
        0 => "now".to_owned(),
        ahead @ 1.. => format!("in {}", span(ahead)),
        past => format!("{} ago", span(past.saturating_neg())),
    }
}

/// `2026-01-02T10:00:00Z (3m ago)`: to the second.
pub(super) fn absolute(time: &Timestamp, now: &Timestamp) -> String {
    let whole = Timestamp {
        seconds: time.seconds,
        nanos: 0,
    };
    format!("{whole} ({})", relative(time, now))
}

/// `10:00:00`, in UTC.
pub(super) fn of_day(time: &Timestamp) -> String {
    let second = time.seconds.rem_euclid(DAY);
    let (hour, minute) = (second / HOUR, second % HOUR / MINUTE);
    format!("{hour:02}:{minute:02}:{:02}", second % MINUTE)
}

/// The two largest units of a number of seconds, rounded down: `59s`, `4m`, `1h 5m`, `2d 3h`.
///
/// Minutes have no seconds beside them, so that a table of deadlines stays narrow.
fn span(seconds: i64) -> String {
    let two = |large: i64, large_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit} {small}{small_unit}"),
    };
    if seconds < MINUTE {
        format!("{seconds}s")
    } else if seconds < HOUR {
        format!("{}m", seconds / MINUTE)
    } else if seconds < DAY {
        two(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m")
    } else {
        two(seconds / DAY, "d", seconds % DAY / HOUR, "h")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp {
            seconds,
            nanos: 999,
        }
    }

    #[test]
    fn a_moment_is_told_from_now() {
        let now = at(1_000_000);
        let cases = [
            (0, "now"),
            (1, "in 1s"),
            (59, "in 59s"),
            (60, "in 1m"),
            (3_599, "in 59m"),
            (3_600, "in 1h"),
            (3_900, "in 1h 5m"),
            (86_399, "in 23h 59m"),
            (86_400, "in 1d"),
            (615_600, "in 7d 3h"),
            (-1, "1s ago"),
            (-180, "3m ago"),
            (-90_000, "1d 1h ago"),
        ];
        for (offset, text) in cases {
            assert_eq!(relative(&at(1_000_000 + offset), &now), text);
        }
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        assert!(relative(&at(i64::MIN), &at(i64::MAX)).ends_with(" ago"));
        assert!(relative(&at(i64::MAX), &at(i64::MIN)).starts_with("in "));
    }

    #[test]
    fn the_time_itself_has_whole_seconds() {
        assert_eq!(
            absolute(&at(1_767_348_000), &at(1_767_348_180)),
            "2026-01-02T10:00:00Z (3m ago)"
        );
    }
}
