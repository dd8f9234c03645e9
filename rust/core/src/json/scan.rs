//! Finding the end of a JSON string, 16 or 64 bytes at a time.

use super::cursor::JsonError;

/// Which bytes of a block end a string, escape a character, or are not allowed.
struct Masks {
    quotes: u64,
    backslashes: u64,
    controls: u64,
}

const WIDE: usize = 64;
const NARROW: usize = 16;

#[cfg(target_arch = "x86_64")]
pub(super) mod lanes {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8,
        _mm_sub_epi8,
    };

    fn load(block: [u8; 16]) -> __m128i {
        let bits = u128::from_le_bytes(block);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let (low, high) = (bits as u64, (bits >> 64) as u64);
        #[expect(unsafe_code, reason = "SSE2 is part of every x86-64 processor")]
        // SAFETY: the instruction needs only SSE2, which the architecture guarantees.
        unsafe {
            _mm_set_epi64x(high.cast_signed(), low.cast_signed())
        }
    }

    fn each(block: [u8; 16]) -> (u64, u64, u64, u64) {
        let lanes = load(block);
        #[expect(unsafe_code, reason = "SSE2 is part of every x86-64 processor")]
        // SAFETY: these instructions work on registers and need only SSE2, which the architecture guarantees.
        let (quotes, backslashes, controls, any) = unsafe {
            let quotes = _mm_cmpeq_epi8(lanes, _mm_set1_epi8(b'"'.cast_signed()));
            let backslashes = _mm_cmpeq_epi8(lanes, _mm_set1_epi8(b'\\'.cast_signed()));
            let controls = _mm_cmpeq_epi8(_mm_min_epu8(lanes, _mm_set1_epi8(0x1F)), lanes);
            let any = _mm_or_si128(_mm_or_si128(quotes, backslashes), controls);
            (
                _mm_movemask_epi8(quotes),
                _mm_movemask_epi8(backslashes),
                _mm_movemask_epi8(controls),
                _mm_movemask_epi8(any),
            )
        };
        (widen(quotes), widen(backslashes), widen(controls), widen(any))
    }

    /// Bits of the digits.
    #[inline]
    pub(in crate::json) fn digits(block: [u8; 16]) -> u64 {
        let lanes = load(block);
        #[expect(unsafe_code, reason = "SSE2 is part of every x86-64 processor")]
        // SAFETY: these instructions work on registers and need only SSE2, which the architecture guarantees.
        let digits = unsafe {
            let values = _mm_sub_epi8(lanes, _mm_set1_epi8(b'0'.cast_signed()));
            _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(values, _mm_set1_epi8(9)), values))
        };
        widen(digits)
    }

    fn widen(mask: i32) -> u64 {
        u64::from(mask.cast_unsigned())
    }

    /// Bits of all such bytes.
    #[inline]
    pub(in crate::json) fn special(block: [u8; 16]) -> u64 {
        each(block).3
    }

    /// Bits of the quotes, of the backslashes and of the control characters.
    #[inline]
    pub(in crate::json) fn split(block: [u8; 16]) -> (u64, u64, u64) {
        let (quotes, backslashes, controls, _) = each(block);
        (quotes, backslashes, controls)
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) mod lanes {
    fn mask(block: [u8; 16], test: impl Fn(u8) -> bool) -> u64 {
        block.iter().rev().fold(0, |mask, byte| mask << 1 | u64::from(test(*byte)))
    }

    pub(in crate::json) fn special(block: [u8; 16]) -> u64 {
        mask(block, |byte| byte == b'"' || byte == b'\\' || byte < 0x20)
    }

    pub(in crate::json) fn digits(block: [u8; 16]) -> u64 {
        mask(block, |byte| byte.is_ascii_digit())
    }

    pub(in crate::json) fn split(block: [u8; 16]) -> (u64, u64, u64) {
        (mask(block, |byte| byte == b'"'), mask(block, |byte| byte == b'\\'), mask(block, |byte| byte < 0x20))
    }
}

/// The index of the first backslash in a block.
#[inline]
pub(super) fn backslash_at(block: [u8; NARROW]) -> Option<usize> {
    let (_, backslashes, _) = lanes::split(block);
    (backslashes != 0).then_some(backslashes.trailing_zeros() as usize)
}

/// Returns how many digits the text begins with.
#[inline]
pub(super) fn count_digits(text: &[u8]) -> usize {
    let mut rest = text;
    while let Some((block, after)) = rest.split_first_chunk::<NARROW>() {
        let digits = lanes::digits(*block).trailing_ones() as usize;
        if digits < NARROW {
            return distance(text, rest).saturating_add(digits);
        }
        rest = after;
    }
    distance(text, rest).saturating_add(rest.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

/// Returns where the string whose inside the text begins with has its closing quote, and whether it has escapes.
///
/// The place of an error is counted from the beginning of the text.
#[inline]
pub(crate) fn string_end(text: &[u8]) -> Result<(usize, bool), JsonError> {
    let mut rest = text;
    while let Some((block, after)) = rest.split_first_chunk::<NARROW>() {
        let special = lanes::special(*block);
        if special == 0 {
            rest = after;
            continue;
        }
        let place = special.trailing_zeros() as usize;
        let at = distance(text, rest).saturating_add(place);
        return if block.get(place) == Some(&b'"') { Ok((at, false)) } else { escaped_end(text, at) };
    }
    escaped_end(text, distance(text, rest))
}

/// The same for a string inside a string, which has no escapes: returns where its quote, spelled `\"`, is.
#[inline]
pub(super) fn quoted_end(text: &[u8]) -> Result<usize, JsonError> {
    let mut rest = text;
    while let Some((block, after)) = rest.split_first_chunk::<NARROW>() {
        let special = lanes::special(*block);
        if special == 0 {
            rest = after;
            continue;
        }
        rest = rest.get(special.trailing_zeros() as usize..).unwrap_or_default();
        break;
    }
    loop {
        match rest {
            [b'\\', b'"', ..] => return Ok(distance(text, rest)),
            [byte, after @ ..] if *byte >= b' ' && !matches!(byte, b'"' | b'\\') => rest = after,
            _ => {
                let what = "a string that ends with an escaped quote was expected";
                return Err(JsonError::new(distance(text, rest), what));
            }
        }
    }
}

/// Passes over the members of an object inside a string, as long as they are spelled in the plainest way: without
/// blanks, and with values that are strings or numbers without an exponent. Returns what follows the last of them, and
/// whether the object has ended there. If it has not, the next member begins there.
pub(super) fn plain_members(text: &[u8]) -> (&[u8], bool) {
    let mut rest = text;
    loop {
        match plain_member(rest) {
            Some([b',', after @ ..]) => rest = after,
            Some([b'}', after @ ..]) => return (after, true),
            _ => return (rest, false),
        }
    }
}

#[inline]
fn plain_member(text: &[u8]) -> Option<&[u8]> {
    match plain_quoted(text)? {
        [b':', value @ ..] if value.first() == Some(&b'\\') => plain_quoted(value),
        [b':', value @ ..] => plain_number(value),
        _ => None,
    }
}

#[inline]
fn plain_quoted(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"\\\"")?;
    loop {
        let (block, after) = rest.split_first_chunk::<NARROW>()?;
        let special = lanes::special(*block);
        if special != 0 {
            return rest.get(special.trailing_zeros() as usize..)?.strip_prefix(b"\\\"");
        }
        rest = after;
    }
}

#[inline]
fn plain_number(text: &[u8]) -> Option<&[u8]> {
    let whole = text.strip_prefix(b"-").unwrap_or(text);
    let block = whole.first_chunk::<NARROW>()?;
    let digits = lanes::digits(*block).trailing_ones() as usize;
    if digits == 0 || digits == NARROW || digits > 1 && block.first() == Some(&b'0') {
        return None;
    }
    let mut after = whole.get(digits..)?;
    if let [b'.', fraction @ ..] = after {
        let digits = count_digits(fraction);
        if digits == 0 {
            return None;
        }
        after = fraction.get(digits..)?;
    }
    if matches!(after.first(), Some(b'e' | b'E')) { None } else { Some(after) }
}

/// How many bytes of `text` come before its end `rest`.
#[inline]
fn distance(text: &[u8], rest: &[u8]) -> usize {
    text.len().saturating_sub(rest.len())
}

/// The slow path, which checks escapes and handles the end of the input.
#[inline(never)]
fn escaped_end(data: &[u8], at: usize) -> Result<(usize, bool), JsonError> {
    let (mut at, mut carry, mut has_escapes) = (at, 0_u64, false);
    loop {
        let rest = data.get(at..).filter(|rest| !rest.is_empty());
        let rest = rest.ok_or_else(|| JsonError::new(at, "the string has no closing quote"))?;
        let masks = block_masks(rest);
        let escaped = find_escaped(masks.backslashes, &mut carry);
        let closing = masks.quotes & !escaped;
        let inside = if closing == 0 { u64::MAX } else { (closing & closing.wrapping_neg()).wrapping_sub(1) };
        has_escapes |= masks.backslashes & inside != 0;
        let control = masks.controls & inside;
        if control != 0 {
            let place = at.saturating_add(control.trailing_zeros() as usize);
            return Err(JsonError::new(place, "a control character inside a string"));
        }
        check_escapes(data, at, escaped & !masks.quotes & inside)?;
        if closing != 0 {
            return Ok((at.saturating_add(closing.trailing_zeros() as usize), has_escapes));
        }
        at = at.saturating_add(WIDE);
    }
}

/// The masks of the next 64 bytes. Bytes past the end of the input count as blanks.
fn block_masks(rest: &[u8]) -> Masks {
    let mut padded = [b' '; WIDE];
    let block = if let Some(block) = rest.first_chunk::<WIDE>() {
        block
    } else {
        for (slot, byte) in padded.iter_mut().zip(rest) {
            *slot = *byte;
        }
        &padded
    };
    let mut masks = Masks { quotes: 0, backslashes: 0, controls: 0 };
    for (shift, lane) in (0_u32..).step_by(NARROW).zip(block.as_chunks::<NARROW>().0) {
        let (quotes, backslashes, controls) = lanes::split(*lane);
        masks.quotes |= quotes << shift;
        masks.backslashes |= backslashes << shift;
        masks.controls |= controls << shift;
    }
    masks
}

/// Bits of the characters that a backslash escapes. `carry` is an escape that the previous block left open.
///
/// A run of backslashes escapes the character after it if its length is odd. Adding the starts of the
/// runs that begin on an odd bit to the backslashes carries each such run to its end, which reveals
/// its parity without a loop.
fn find_escaped(backslashes: u64, carry: &mut u64) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    if backslashes == 0 {
        return std::mem::take(carry);
    }
    let backslashes = backslashes & !*carry;
    let follows = backslashes << 1 | *carry;
    let odd_starts = backslashes & !EVEN & !follows;
    let (even_ends, overflow) = odd_starts.overflowing_add(backslashes);
    *carry = u64::from(overflow);
    (EVEN ^ (even_ends << 1)) & follows
}

/// Checks the escaped characters other than quotes. `marks` are bits relative to `at`.
fn check_escapes(data: &[u8], at: usize, marks: u64) -> Result<(), JsonError> {
    let mut marks = marks;
    while marks != 0 {
        let place = at.saturating_add(marks.trailing_zeros() as usize);
        marks &= marks.wrapping_sub(1);
        let valid = match data.get(place) {
            Some(b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => true,
            Some(b'u') => {
                let digits = data.get(place.saturating_add(1)..).and_then(<[u8]>::first_chunk::<4>);
                digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            }
            _ => false,
        };
        if !valid {
            return Err(JsonError::new(place, "JSON has no such escape"));
        }
    }
    Ok(())
}
