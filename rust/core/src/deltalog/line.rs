//! Parsing a piece of a log entry line by line.

use super::action::{self, Domain, FileAction, FileActionKind, Transaction};
use super::fields::{self, Met};
use crate::error::{Error, ErrorKind};
use crate::json::{Cursor, JsonError, Kind};

/// The actions of a run of whole lines.
#[derive(Default)]
pub(super) struct Lines<'a> {
    /// The text that the actions point into.
    pub data: &'a [u8],
    pub adds: Vec<FileAction>,
    pub removes: Vec<FileAction>,
    pub transactions: Vec<Transaction>,
    pub domains: Vec<Domain>,
    /// The text of the last `protocol` object.
    pub protocol: Option<&'a [u8]>,
    /// The text of the last `metaData` object.
    pub metadata: Option<&'a [u8]>,
    /// How many lines there are.
    pub count: usize,
}

/// What is wrong, and in which line of the piece (counted from 0).
pub(super) struct LineError {
    pub line: usize,
    pub what: String,
}

impl LineError {
    /// The error for the caller, given how many lines of the entry come before this piece.
    pub(super) fn locate(self, version: i64, lines_before: usize) -> Error {
        let line = lines_before.saturating_add(self.line).saturating_add(1);
        Error::new(ErrorKind::CorruptLog, self.what).with("version", version).with("line", line)
    }
}

/// Reads all lines of `data`, which begins and ends at the border of a line.
pub(super) fn parse(data: &[u8]) -> Result<Lines<'_>, LineError> {
    let mut lines = Lines { data, ..Lines::default() };
    let mut start = 0;
    let is_ascii = data.is_ascii();
    while start < data.len() {
        if !is_ascii && !is_utf8(line_at(data, start)) {
            return Err(LineError { line: lines.count, what: "the line is not UTF-8".to_owned() });
        }
        let mut cursor = Cursor::in_lines(data, start);
        if !matches!(cursor.skip_blanks(), None | Some(b'\n')) {
            let read = read_line(&mut cursor, &mut lines).and_then(|()| end_of_line(&mut cursor));
            if let Err(error) = read {
                let place = error.at().saturating_sub(start).saturating_add(1);
                let what = format!("{} at byte {place} of the line", error.what());
                return Err(LineError { line: lines.count, what });
            }
        }
        lines.count = lines.count.saturating_add(1);
        // No value contains a newline, so the cursor stands at the end of the line.
        start = cursor.at().saturating_add(1);
    }
    Ok(lines)
}

fn line_at(data: &[u8], start: usize) -> &[u8] {
    let rest = data.get(start..).unwrap_or_default();
    rest.get(..memchr::memchr(b'\n', rest).unwrap_or(rest.len())).unwrap_or_default()
}

fn is_utf8(line: &[u8]) -> bool {
    line.is_ascii() || std::str::from_utf8(line).is_ok()
}

fn end_of_line(cursor: &mut Cursor<'_>) -> Result<(), JsonError> {
    match cursor.skip_blanks() {
        None | Some(b'\n') => Ok(()),
        Some(_) => cursor.fail("unexpected text after the JSON object"),
    }
}

/// Reads the object of a line. The caller keeps its actions only if nothing else follows in the line.
fn read_line<'a>(cursor: &mut Cursor<'a>, lines: &mut Lines<'a>) -> Result<(), JsonError> {
    let mut met = Met::default();
    fields::expect(cursor, Kind::Object, "an action line")?;
    fields::each_field(cursor, |cursor, key| {
        let index = match key {
            b"add" => 0_u32,
            b"remove" => 1,
            b"txn" => 2,
            b"domainMetadata" => 3,
            b"protocol" => 4,
            b"metaData" => 5,
            _ => return cursor.skip(1),
        };
        met.once(index, cursor)?;
        if cursor.kind()? == Kind::Null {
            return cursor.null();
        }
        fields::expect(cursor, Kind::Object, "an action")?;
        match index {
            0 => lines.adds.push(action::file_action(cursor, FileActionKind::Add)?),
            1 => lines.removes.push(action::file_action(cursor, FileActionKind::Remove)?),
            2 => lines.transactions.push(action::transaction(cursor)?),
            3 => lines.domains.push(action::domain(cursor)?),
            4 => lines.protocol = Some(whole_value(cursor)?),
            _ => lines.metadata = Some(whole_value(cursor)?),
        }
        Ok(())
    })
}

fn whole_value<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], JsonError> {
    let start = cursor.at();
    cursor.skip(1)?;
    Ok(cursor.since(start))
}
