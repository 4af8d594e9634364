//! Exact decimals: what a JSON number says, however it is spelled.
//!
//! Nothing here rounds, save [`Number::to_f64`], which says so. The grammar is the reader's.

use std::fmt;

use super::error::excerpt;

/// The largest magnitude of an exponent (S9), as it is written and in scientific notation:
/// `1e4097`, `10e4096`, `0e5000` and an integer of 5,000 digits are all refused. So the canonical
/// spelling of what was read can be read again.
pub const MAX_EXPONENT: i16 = 4096;

/// An exact decimal, `±digits × 10^exponent`. Equal numbers are equal here, however they were
/// spelled; -0 is 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Number {
    // One form for each value: the last digit is not zero, and zero itself is `0 × 10^0` and not
    // negative.
    negative: bool,
    digits: Digits,
    exponent: isize,
}

/// Decimal digits without leading zeros: a number wherever they fit, else as text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Digits {
    Short(u64),
    Long(Box<str>),
}

impl Number {
    /// `±integer.fraction × 10^exponent`, of decimal digits, `integer` without leading zeros unless
    /// it is `0`. None when the exponent in scientific notation is past [`MAX_EXPONENT`].
    pub(super) fn new(
        negative: bool,
        integer: &str,
        fraction: &str,
        exponent: i16,
    ) -> Option<Self> {
        let fraction = fraction.trim_end_matches('0');
        let exponent = isize::from(exponent) - length(fraction);
        let (integer, fraction, exponent) = match (integer, fraction) {
            ("0", "") => {
                return Some(Self {
                    negative: false,
                    digits: Digits::Short(0),
                    exponent: 0,
                });
            }
            ("0", _) => ("", fraction.trim_start_matches('0'), exponent),
            (_, "") => {
                let digits = integer.trim_end_matches('0');
                (digits, "", exponent + length(integer) - length(digits))
            }
            _ => (integer, fraction, exponent),
        };
        let scientific = exponent + length(integer) + length(fraction) - 1;
        if scientific.abs() > isize::from(MAX_EXPONENT) {
            return None;
        }
        let mut digits = integer.bytes().chain(fraction.bytes());
        let short = digits.try_fold(0_u64, |value, digit| {
            // The low bits of an ASCII digit are its value.
            value.checked_mul(10)?.checked_add(u64::from(digit & 0xf))
        });
        let digits = short.map_or_else(
            || Digits::Long([integer, fraction].concat().into()),
            Digits::Short,
        );
        Some(Self {
            negative,
            digits,
            exponent,
        })
    }

    /// Whether the value has no fractional part: `1`, `1.0`, `1e2`, `10e-1`.
    #[must_use]
    pub fn is_integral(&self) -> bool {
        self.exponent >= 0
    }

    /// The exact value, if it is integral and fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        let magnitude = self.magnitude()?;
        if self.negative {
            0_i64.checked_sub_unsigned(magnitude)
        } else {
            magnitude.try_into().ok()
        }
    }

    /// The exact value, if it is integral, not negative and fits.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        self.magnitude().filter(|_| !self.negative)
    }

    /// The absolute value. Long digits end in no zero and fit in no `u64`, so they are never one.
    fn magnitude(&self) -> Option<u64> {
        match self.digits {
            Digits::Short(digits) => {
                digits.checked_mul(10_u64.checked_pow(self.exponent.try_into().ok()?)?)
            }
            Digits::Long(_) => None,
        }
    }

    /// The nearest double (ties to even, as IEEE 754 has it). None where that is an infinity, or
    /// zero for what is not.
    #[must_use]
    pub fn to_f64(&self) -> Option<f64> {
        let nearest: f64 = self.to_string().parse().ok()?;
        (nearest.is_finite() && (nearest != 0.0 || self.digits == Digits::Short(0)))
            .then_some(nearest)
    }

    /// As [`Arguments::exact_in_rules`](super::Arguments::exact_in_rules), for one number.
    pub(super) fn exact_in_rules(&self) -> Result<(), InexactNumber> {
        if self.is_integral() {
            let fits = self.as_u64().is_some() || self.as_i64().is_some();
            fits.then_some(())
                .ok_or_else(|| InexactNumber::Integer(self.clone()))
        } else {
            self.to_f64()
                .map(|_| ())
                .ok_or_else(|| InexactNumber::Fraction(self.clone()))
        }
    }

    /// ECMA-262, `Number::toString`, with digits of any length: `length` is its k, `point` its n.
    pub(super) fn write(&self, out: &mut String) {
        let mut buffer = [0; 20];
        let digits = match &self.digits {
            Digits::Short(value) => decimal(*value, &mut buffer),
            Digits::Long(digits) => digits,
        };
        let point = self.exponent + length(digits);
        if self.negative {
            out.push('-');
        }
        match point {
            ..=21 if self.exponent >= 0 => {
                out.push_str(digits);
                write_zeros(self.exponent, out);
            }
            1..=21 => {
                let (integer, fraction) = split(digits, point);
                out.push_str(integer);
                out.push('.');
                out.push_str(fraction);
            }
            -5..=0 => {
                out.push_str("0.");
                write_zeros(-point, out);
                out.push_str(digits);
            }
            _ => {
                let (first, rest) = split(digits, 1);
                out.push_str(first);
                if !rest.is_empty() {
                    out.push('.');
                    out.push_str(rest);
                }
                out.push_str(if point > 0 { "e+" } else { "e-" });
                out.push_str(&(point - 1).unsigned_abs().to_string());
            }
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}

/// A number that a rule cannot be given without changing it (S4).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InexactNumber {
    /// An integral value that fits neither a signed nor an unsigned 64-bit integer.
    #[error("the integer `{}` does not fit in 64 bits", excerpt(&.0.to_string()))]
    Integer(Number),
    /// A fraction that overflows a double, or underflows it to zero.
    #[error("the fraction `{}` is out of a double's range", excerpt(&.0.to_string()))]
    Fraction(Number),
}

fn decimal(mut value: u64, buffer: &mut [u8; 20]) -> &str {
    let mut start = buffer.len();
    for slot in buffer.iter_mut().rev() {
        *slot = b'0' + (value % 10) as u8;
        value /= 10;
        start -= 1;
        if value == 0 {
            break;
        }
    }
    buffer
        .get(start..)
        .and_then(|digits| str::from_utf8(digits).ok())
        .unwrap_or_default()
}

fn write_zeros(count: isize, out: &mut String) {
    (0..count).for_each(|_| out.push('0'));
}

fn split(digits: &str, at: isize) -> (&str, &str) {
    digits
        .split_at_checked(at.unsigned_abs())
        .unwrap_or((digits, ""))
}

/// No text in memory is longer than `isize::MAX`.
fn length(text: &str) -> isize {
    text.len() as isize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Value;

    fn number(text: &str) -> Number {
        match Value::parse(text, 1 << 20) {
            Ok(Value::Number(number)) => number,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn spelled_as_ecmascript_would_with_unlimited_precision() {
        for (text, canonical) in [
            ("0", "0"),
            ("-0.00e-7", "0"),
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", "18446744073709551616"),
            ("100000000000000000000", "100000000000000000000"),
            ("999999999999999999999", "999999999999999999999"),
            ("1000000000000000000000", "1e+21"),
            ("1234567890123456789012", "1.234567890123456789012e+21"),
            ("123456789012345678901.25", "123456789012345678901.25"),
            ("1234567890123456789012.5", "1.2345678901234567890125e+21"),
            ("-120.0340", "-120.034"),
            ("0.00000123", "0.00000123"),
            ("0.000000123", "1.23e-7"),
            ("1e-0006", "0.000001"),
            ("5e-324", "5e-324"),
            ("1e4096", "1e+4096"),
            ("0.01e-4094", "1e-4096"),
        ] {
            assert_eq!(number(text).to_string(), canonical, "{text}");
            assert_eq!(number(canonical), number(text));
        }
    }

    #[test]
    fn integral_values_are_exact_in_64_bits() {
        for (text, signed, unsigned) in [
            ("1.0", Some(1), Some(1)),
            ("1e2", Some(100), Some(100)),
            ("-10e-1", Some(-1), None),
            ("-0", Some(0), Some(0)),
            (
                "9007199254740993",
                Some(9_007_199_254_740_993),
                Some(9_007_199_254_740_993),
            ),
            (
                "9223372036854775807",
                Some(i64::MAX),
                Some(9_223_372_036_854_775_807),
            ),
            ("9223372036854775808", None, Some(9_223_372_036_854_775_808)),
            ("-9223372036854775808", Some(i64::MIN), None),
            ("-9223372036854775809", None, None),
            ("1844674407370955161.5e1", None, Some(u64::MAX)),
            ("18446744073709551616", None, None),
            ("1e4096", None, None),
        ] {
            assert!(number(text).is_integral(), "{text}");
            assert_eq!(
                (number(text).as_i64(), number(text).as_u64()),
                (signed, unsigned),
                "{text}"
            );
        }
        for text in ["0.5", "1e-1", "18446744073709551616.5"] {
            assert!(!number(text).is_integral(), "{text}");
            assert_eq!(
                (number(text).as_i64(), number(text).as_u64()),
                (None, None),
                "{text}"
            );
        }
    }

    #[test]
    fn a_double_is_the_nearest_one_or_none() {
        for (text, double) in [
            ("0.1", Some(0.1)),
            ("-0.0", Some(0.0)),
            ("9007199254740993", Some(9_007_199_254_740_992.0)),
            ("1.7976931348623157e308", Some(f64::MAX)),
            ("1.7976931348623159e308", None),
            ("-1e400", None),
            ("5e-324", Some(5e-324)),
            ("2e-324", None),
            ("-1e-400", None),
        ] {
            assert_eq!(number(text).to_f64(), double, "{text}");
        }
    }

    #[test]
    fn only_what_a_rule_can_hold_is_exact() {
        for text in [
            "0",
            "-9223372036854775808",
            "18446744073709551615",
            "1e19",
            "0.1",
            "5e-324",
            "0.99999999999999999999",
        ] {
            assert_eq!(number(text).exact_in_rules(), Ok(()), "{text}");
        }
        for text in ["-9223372036854775809", "18446744073709551616", "1e20"] {
            assert_eq!(
                number(text).exact_in_rules(),
                Err(InexactNumber::Integer(number(text))),
                "{text}"
            );
        }
        for text in ["1e-400", &format!("{}.5", "9".repeat(309))] {
            assert_eq!(
                number(text).exact_in_rules(),
                Err(InexactNumber::Fraction(number(text))),
                "{text}"
            );
        }
    }
}
