//! Reading the fields of an action's JSON object, each once and with the type that the protocol requires.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::json::{Cursor, JsonError, Kind, Text};
use crate::stats;

type Result<T> = std::result::Result<T, JsonError>;

/// Where a value lies in the text of a piece: a JSON object, or the part of a string between its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    len: u32,
    escaped: bool,
}

impl Span {
    /// A value that is missing or null.
    pub(super) const NONE: Self = Self { start: u32::MAX, len: 0, escaped: false };

    /// Whether there is a value.
    pub(super) fn is_some(self) -> bool {
        self.start != u32::MAX
    }

    /// Where the value begins in the piece.
    pub(super) fn start(self) -> usize {
        self.start as usize
    }

    /// How many bytes it has.
    pub(super) fn len(self) -> usize {
        self.len as usize
    }

    /// The bytes of the value in its piece.
    pub(super) fn bytes(self, piece: &[u8]) -> &[u8] {
        piece.get(self.start()..self.start().saturating_add(self.len())).unwrap_or_default()
    }

    /// The string, with its escapes resolved.
    pub(super) fn text(self, piece: &[u8]) -> Option<Cow<'_, str>> {
        if self.is_some() { self.raw(piece).resolve() } else { None }
    }

    /// The string, with its escapes as they are spelled.
    pub(super) fn raw(self, piece: &[u8]) -> Text<'_> {
        Text::new(self.bytes(piece), self.escaped)
    }

    pub(super) fn of(start: usize, len: usize, escaped: bool) -> Self {
        let number = |value| u32::try_from(value).unwrap_or(u32::MAX);
        Self { start: number(start), len: number(len), escaped }
    }
}

/// Which known keys of an object have been met. A key that is repeated has no defined meaning in JSON.
#[derive(Default)]
pub(super) struct Met(u32);

impl Met {
    /// Notes the known key number `index`, and returns the cursor to read its value with.
    #[inline]
    pub(super) fn once<'c, 'a>(&mut self, index: u32, cursor: &'c mut Cursor<'a>) -> Result<&'c mut Cursor<'a>> {
        let bit = 1_u32.checked_shl(index).unwrap_or(0);
        if self.0 & bit != 0 {
            return cursor.fail("a key is repeated");
        }
        self.0 |= bit;
        Ok(cursor)
    }
}

/// Calls `each` with the resolved bytes of every key. A key with half of a surrogate pair is unknown.
#[inline]
pub(super) fn each_field<'a>(
    cursor: &mut Cursor<'a>,
    mut each: impl FnMut(&mut Cursor<'a>, &[u8]) -> Result<()>,
) -> Result<()> {
    cursor.object(|cursor, key| {
        if key.is_escaped() {
            let resolved = key.resolve().unwrap_or_default();
            each(cursor, resolved.as_bytes())
        } else {
            each(cursor, key.raw())
        }
    })
}

#[inline]
pub(super) fn required<T>(cursor: &Cursor<'_>, value: Option<T>, action: &str, field: &str) -> Result<T> {
    match value {
        Some(value) => Ok(value),
        None => cursor.fail(format!("{action} has no {field}, which the protocol requires")),
    }
}

#[inline]
pub(super) fn is_null(cursor: &mut Cursor<'_>) -> Result<bool> {
    let null = cursor.skip_blanks() == Some(b'n');
    if null {
        cursor.null()?;
    }
    Ok(null)
}

/// Refuses a value of a different type.
#[inline]
pub(super) fn expect(cursor: &mut Cursor<'_>, kind: Kind, field: &str) -> Result<()> {
    let found = cursor.kind()?;
    if found == kind {
        return Ok(());
    }
    cursor.fail(format!("{field} must be {}, but is {}", kind.name(), found.name()))
}

/// Reads null where there is no value of the expected type, and refuses anything else.
#[cold]
#[inline(never)]
fn null_or<T>(cursor: &mut Cursor<'_>, kind: Kind, field: &str) -> Result<Option<T>> {
    if is_null(cursor)? {
        return Ok(None);
    }
    expect(cursor, kind, field).map(|()| None)
}

/// Reads a string or null without resolving escapes.
#[inline]
fn raw_text<'a>(cursor: &mut Cursor<'a>, field: &str) -> Result<Option<(Span, Text<'a>)>> {
    if cursor.skip_blanks() != Some(b'"') {
        return null_or(cursor, Kind::String, field);
    }
    let start = cursor.at().saturating_add(1);
    let text = cursor.string()?;
    Ok(Some((Span::of(start, text.raw().len(), text.is_escaped()), text)))
}

#[inline]
pub(super) fn text(cursor: &mut Cursor<'_>, field: &str) -> Result<Span> {
    let Some((span, text)) = raw_text(cursor, field)? else { return Ok(Span::NONE) };
    if text.is_escaped() && text.resolve().is_none() {
        return cursor.fail(format!("{field} is not valid Unicode"));
    }
    Ok(span)
}

pub(super) fn owned_text(cursor: &mut Cursor<'_>, field: &str) -> Result<Option<String>> {
    let Some((_, text)) = raw_text(cursor, field)? else { return Ok(None) };
    match text.resolve() {
        Some(text) => Ok(Some(text.into_owned())),
        None => cursor.fail(format!("{field} is not valid Unicode")),
    }
}

/// The record count of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordCount {
    /// The count, or none if the statistics have none.
    Read(Option<i64>),
    /// The statistics are missing, have escapes that must be resolved first, or are not valid.
    Unread,
}

/// Reads statistics, and their record count if that is possible in the same pass. They are hints: half of a surrogate
/// pair in them, or text that is not JSON, only makes them unknown.
#[inline]
pub(super) fn statistics(cursor: &mut Cursor<'_>) -> Result<(Span, RecordCount)> {
    if cursor.skip_blanks() == Some(b'"') {
        let start = cursor.at().saturating_add(1);
        if let Some(count) = cursor.quoted(stats::record_count) {
            let len = cursor.since(start).len().saturating_sub(1);
            return Ok((Span::of(start, len, true), RecordCount::Read(count)));
        }
    }
    Ok((raw_text(cursor, "stats")?.map_or(Span::NONE, |(span, _)| span), RecordCount::Unread))
}

#[inline]
pub(super) fn boolean(cursor: &mut Cursor<'_>, field: &str) -> Result<Option<bool>> {
    if !matches!(cursor.skip_blanks(), Some(b't' | b'f')) {
        return null_or(cursor, Kind::Boolean, field);
    }
    Ok(Some(cursor.boolean()?))
}

#[inline]
pub(super) fn integer(cursor: &mut Cursor<'_>, field: &str) -> Result<Option<i64>> {
    if !matches!(cursor.skip_blanks(), Some(b'-' | b'0'..=b'9')) {
        return null_or(cursor, Kind::Number, field);
    }
    match cursor.integer()? {
        Some(value) => Ok(Some(value)),
        None => cursor.fail(format!("{field} must be a 64-bit integer")),
    }
}

pub(super) fn small_integer(cursor: &mut Cursor<'_>, field: &str) -> Result<Option<i32>> {
    match integer(cursor, field)?.map(i32::try_from) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(_)) => cursor.fail(format!("{field} must be a 32-bit integer")),
    }
}

/// Checks a map of string to string or null.
pub(super) fn string_map(cursor: &mut Cursor<'_>, field: &str) -> Result<Span> {
    if cursor.skip_blanks() != Some(b'{') {
        return Ok(null_or(cursor, Kind::Object, field)?.unwrap_or(Span::NONE));
    }
    let start = cursor.at();
    let mut keys = MapKeys::default();
    cursor.object(|cursor, key| {
        let Some(key) = unicode(key) else {
            return cursor.fail(format!("{field} is not valid Unicode"));
        };
        if !keys.insert(key) {
            return cursor.fail("a key is repeated");
        }
        if cursor.skip_blanks() != Some(b'"') {
            return null_or::<()>(cursor, Kind::String, "a value in partitionValues or tags").map(|_| ());
        }
        let value = cursor.string()?;
        if value.is_escaped() && value.resolve().is_none() {
            return cursor.fail(format!("{field} is not valid Unicode"));
        }
        Ok(())
    })?;
    Ok(Span::of(start, cursor.since(start).len(), false))
}

/// The resolved bytes of a string in a line, which is known to be UTF-8; none with half of a surrogate pair.
#[inline]
pub(super) fn unicode(text: Text<'_>) -> Option<Cow<'_, [u8]>> {
    if !text.is_escaped() {
        return Some(Cow::Borrowed(text.raw()));
    }
    text.resolve().map(|text| Cow::Owned(text.into_owned().into_bytes()))
}

/// Which keys of a map have been met: a few are kept in a vector, many in a set.
#[derive(Default)]
struct MapKeys<'a> {
    first: Option<Cow<'a, [u8]>>,
    few: Vec<Cow<'a, [u8]>>,
    many: Option<HashSet<Cow<'a, [u8]>>>,
}

impl<'a> MapKeys<'a> {
    const FEW: usize = 16;

    /// Whether the key is new.
    #[inline]
    fn insert(&mut self, key: Cow<'a, [u8]>) -> bool {
        let Some(first) = &self.first else {
            self.first = Some(key);
            return true;
        };
        if *first == key || self.few.contains(&key) {
            return false;
        }
        if self.few.len() < Self::FEW {
            self.few.push(key);
            return true;
        }
        self.many.get_or_insert_default().insert(key)
    }
}
