//! Numbers and booleans in text.

/// Decimal digits of the largest value that Arrow's 128-bit decimal holds.
const MAX_DIGITS: usize = 38;
/// Decimal digits that cannot overflow 64 bits.
const FAST_DIGITS: usize = 18;

/// Reads an integer: an optional sign, then digits only.
#[must_use]
pub fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text).as_bytes();
    if digits.is_empty() || digits.len() > FAST_DIGITS {
        let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        return if plain { text.parse().ok() } else { None };
    }
    let value = digits.iter().try_fold(0_i64, |sum, digit| {
        let digit = digit.wrapping_sub(b'0');
        (digit <= 9).then(|| sum.wrapping_mul(10).wrapping_add(i64::from(digit)))
    })?;
    Some(if text.starts_with('-') { value.wrapping_neg() } else { value })
}

/// Reads a floating point number, `NaN`, or `Infinity` or `inf` with an optional sign, in any case.
#[must_use]
pub fn float(text: &str) -> Option<f64> {
    if Parts::of(text).is_some() {
        return text.parse().ok();
    }
    if is_nan(text) {
        return Some(f64::NAN);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let infinite = unsigned.eq_ignore_ascii_case("infinity") || unsigned.eq_ignore_ascii_case("inf");
    infinite.then_some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY })
}

/// Whether a text spells NaN.
#[must_use]
pub fn is_nan(text: &str) -> bool {
    text.eq_ignore_ascii_case("nan")
}

/// Reads `true` or `false`, in any case.
#[must_use]
pub fn boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        return Some(true);
    }
    text.eq_ignore_ascii_case("false").then_some(false)
}

/// Reads the unscaled value of a decimal of this precision and scale. None if the text is not a number,
/// is too large, or has more digits after the point than fit (trailing zeros do not count).
#[must_use]
pub fn decimal(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let parts = Parts::of(text)?;
    let digits: Vec<u8> = parts.whole.bytes().chain(parts.fraction.bytes()).collect();
    let first = digits.iter().position(|digit| *digit != b'0');
    let Some(significant) = first.and_then(|first| digits.get(first..)) else { return Some(0) };
    // The value is `significant` with the point this many digits from its end.
    let after_point = i64::try_from(parts.fraction.len()).ok()?.checked_sub(parts.exponent)?;
    let shift = i64::from(scale).checked_sub(after_point)?;
    let kept = if shift >= 0 {
        significant
    } else {
        let cut = usize::try_from(shift.unsigned_abs()).ok().filter(|cut| *cut < significant.len())?;
        let (kept, rest) = significant.split_at_checked(significant.len().checked_sub(cut)?)?;
        rest.iter().all(|digit| *digit == b'0').then_some(kept)?
    };
    let zeros = usize::try_from(shift.max(0)).ok()?;
    if kept.len().checked_add(zeros)? > usize::from(precision).min(MAX_DIGITS) {
        return None;
    }
    let push = |sum: i128, digit: u8| sum.checked_mul(10)?.checked_add(i128::from(digit.checked_sub(b'0')?));
    let padding = std::iter::repeat_n(b'0', zeros);
    let value = kept.iter().copied().chain(padding).try_fold(0_i128, push)?;
    if parts.negative { value.checked_neg() } else { Some(value) }
}

/// A number taken apart: `[sign] digits [. digits] [e exponent]`, with a digit before or after the point.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let negative = text.starts_with('-');
        let text = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent_of(exponent)?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let valid = !(whole.is_empty() && fraction.is_empty()) && all_digits(whole) && all_digits(fraction);
        valid.then_some(Self { negative, whole, fraction, exponent })
    }
}

/// Reads an exponent. One that is too large for any number becomes one that is far out of range.
fn exponent_of(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let far = if text.starts_with('-') { -1_000_000_000 } else { 1_000_000_000 };
    Some(text.parse::<i64>().unwrap_or(far).clamp(-1_000_000_000, 1_000_000_000))
}
