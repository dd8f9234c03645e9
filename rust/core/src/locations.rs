//! Where the paths that metadata records lead: Delta records URIs relative to the table, and Iceberg plain text that
//! begins with the location of the table.

use arrow_array::{Array, StringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};

use crate::error::{Error, ErrorKind, Result};

/// Returns the locations of names below the table, in one pass: decoded, in canonical form, and joined.
///
/// A name is what follows `prefix`. Without a prefix, it is a relative path. Empty segments and `.` are left out.
/// A path that is not such a name, that contains `..` or does not decode to UTF-8, becomes null: the caller resolves or
/// refuses it.
///
/// # Errors
/// `TooLarge` if the locations exceed the limit of their type.
pub fn locate_paths(paths: &StringArray, prefix: &str, base: &str, encoded: bool) -> Result<StringArray> {
    let added = base.len().saturating_sub(prefix.len()).saturating_mul(paths.len());
    let mut located = Vec::with_capacity(paths.value_data().len().saturating_add(added));
    let mut offsets = Vec::with_capacity(paths.len().saturating_add(1));
    let mut valid = Vec::with_capacity(paths.len());
    let mut decoded = Vec::new();
    offsets.push(0_i32);
    for path in paths {
        let start = located.len();
        let found = path.is_some_and(|path| {
            located.extend_from_slice(base.as_bytes());
            push_name(path, prefix, encoded, &mut decoded, &mut located)
        });
        if !found {
            located.truncate(start);
        }
        valid.push(found);
        let end = i32::try_from(located.len());
        offsets.push(end.map_err(|_| Error::new(ErrorKind::TooLarge, "the locations of these files exceed 2 GiB"))?);
    }
    let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
    Ok(StringArray::try_new(OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from(located), nulls)?)
}

/// Appends the name that `path` gives below the table. Returns whether it gives one; if not, `target` holds a part.
fn push_name(path: &str, prefix: &str, encoded: bool, decoded: &mut Vec<u8>, target: &mut Vec<u8>) -> bool {
    let Some(name) = path.strip_prefix(prefix) else { return false };
    let is_relative = prefix.is_empty();
    if is_relative && may_be_absolute(name.as_bytes()) {
        return false;
    }
    let name = if encoded && memchr::memchr(b'%', name.as_bytes()).is_some() {
        decoded.clear();
        percent_decode(name.as_bytes(), decoded);
        // Only once it is decoded, it may look like a prefix of a location map.
        if std::str::from_utf8(decoded).is_err() || is_relative && may_be_absolute(decoded) {
            return false;
        }
        decoded.as_slice()
    } else {
        name.as_bytes()
    };
    if is_canonical(name) {
        target.extend_from_slice(name);
        return true;
    }
    let mut is_first = true;
    let mut rest = name;
    loop {
        let end = memchr::memchr(b'/', rest);
        let segment = end.and_then(|end| rest.get(..end)).unwrap_or(rest);
        match segment {
            b"" | b"." => {}
            b".." => return false,
            _ => {
                if !is_first {
                    target.push(b'/');
                }
                target.extend_from_slice(segment);
                is_first = false;
            }
        }
        let Some(end) = end else { return !is_first };
        rest = rest.get(end.saturating_add(1)..).unwrap_or_default();
    }
}

/// Whether no segment of a name is empty or begins with a dot, so that it can be copied as it is: nearly all are so.
fn is_canonical(name: &[u8]) -> bool {
    let is_plain = |rest: &[u8]| rest.first().is_some_and(|first| !matches!(first, b'/' | b'.'));
    let mut rest = name;
    while is_plain(rest) {
        let Some(end) = memchr::memchr(b'/', rest) else { return true };
        rest = rest.get(end.saturating_add(1)..).unwrap_or_default();
    }
    false
}

/// Whether a path begins with a slash, or perhaps with a scheme.
fn may_be_absolute(path: &[u8]) -> bool {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    path.first() == Some(&b'/')
        || memchr::memchr(b':', path).is_some_and(|colon| path.get(colon.saturating_add(1)) == Some(&b'/'))
}

/// Appends `bytes` with percent escapes decoded once. Everything else stays as it is.
pub(crate) fn percent_decode(bytes: &[u8], target: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(place) = memchr::memchr(b'%', rest) {
        let (plain, escape) = rest.split_at_checked(place).unwrap_or((rest, &[]));
        target.extend_from_slice(plain);
        let value = escape.get(1..3).and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u8::from_str_radix(digits, 16).ok())?
        });
        let used = if value.is_some() { 3 } else { 1 };
        target.push(value.unwrap_or(b'%'));
        rest = escape.get(used..).unwrap_or_default();
    }
    target.extend_from_slice(rest);
}
