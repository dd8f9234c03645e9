//! Statistics as they were recorded: text from its places in the bytes of a commit.

use arrow_array::builder::StringBuilder;
use arrow_array::{Array, StringArray, StructArray};

use super::{Places, ROWS_PER_PART, parts_of};
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Text, string_end};
use crate::parallel;

/// Returns the texts at `places` in the bytes of a commit, with their escapes resolved. A missing place and what is
/// not the inside of a JSON string become null.
///
/// # Errors
/// `InvalidArgument` if a place lies outside the commit; `TooLarge` if the texts exceed the limit of their type.
pub fn stats_texts(data: &[u8], places: &StructArray, threads: usize) -> Result<StringArray> {
    let whole = places.len();
    let places = Places::of(places)?;
    let parts = parts_of(0, whole);
    let threads = if whole <= ROWS_PER_PART { 1 } else { threads };
    let found = parallel::map(&parts, threads, |(from, to)| {
        let mut resolved = String::new();
        let mut ends = Vec::with_capacity(to.saturating_sub(*from));
        let mut buffer = Vec::new();
        for row in *from..*to {
            let raw = places.raw(row, Some(data))?;
            let text = raw.and_then(|(start, raw)| checked(data, start, raw));
            let text = text.as_ref().and_then(|text| text.resolve_into(&mut buffer));
            let text = text.and_then(|bytes| std::str::from_utf8(bytes).ok());
            resolved.push_str(text.unwrap_or_default());
            ends.push(text.map(|_| resolved.len()));
        }
        Ok((resolved, ends))
    });
    let found = found.into_iter().collect::<Result<Vec<_>>>()?;
    let bytes = found.iter().fold(0_usize, |sum, (text, _)| sum.saturating_add(text.len()));
    if i32::try_from(bytes).is_err() {
        return Err(Error::new(ErrorKind::TooLarge, "the statistics of these files exceed 2 GiB"));
    }
    let mut builder = StringBuilder::with_capacity(whole, bytes);
    for (text, ends) in &found {
        let mut start = 0_usize;
        for end in ends {
            builder.append_option(end.and_then(|end| text.get(start..end)));
            start = end.unwrap_or(start);
        }
    }
    Ok(builder.finish())
}

/// Returns the inside of a JSON string; none if it is not one. In a log, the closing quote follows it.
fn checked<'a>(data: &[u8], start: usize, raw: &'a [u8]) -> Option<Text<'a>> {
    match string_end(data.get(start..)?) {
        Ok((end, escaped)) if end == raw.len() => Some(Text::new(raw, escaped)),
        _ => is_inside_of_string(raw).then(|| Text::new(raw, raw.contains(&b'\\'))),
    }
}

/// Whether bytes may stand between the quotes of a JSON string, apart from being UTF-8.
fn is_inside_of_string(bytes: &[u8]) -> bool {
    if bytes.iter().any(|byte| *byte < 0x20) {
        return false;
    }
    let mut rest = bytes;
    while let Some(place) = memchr::memchr2(b'"', b'\\', rest) {
        let Some([found, after @ ..]) = rest.get(place..) else { return false };
        rest = match (found, after) {
            (b'\\', [b'u', after @ ..]) => match after.split_at_checked(4) {
                Some((digits, after)) if digits.iter().all(u8::is_ascii_hexdigit) => after,
                _ => return false,
            },
            (b'\\', [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', after @ ..]) => after,
            _ => return false,
        };
    }
    true
}
