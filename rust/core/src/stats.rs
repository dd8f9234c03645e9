//! Per-file statistics: from JSON text to typed columns, for the columns that a filter names, and back (Delta
//! protocol, "Per-file Statistics").

mod columns;
mod count;
mod format;
mod texts;
mod tree;

use arrow_array::{Array, Int32Array, Int64Array, RecordBatch, StringArray, StructArray};

pub use columns::StatsLeaf;
pub(crate) use count::{record_count, resolved_record_count};
pub use format::format_stats;
pub use texts::stats_texts;

use crate::error::{Error, ErrorKind, Result};
use crate::json::{Cursor, JsonError, Kind, Text};
use crate::parallel;
use columns::{Row, StatsColumns};
use tree::{Part, Tree};

/// How many rows are parsed at a time.
const ROWS_PER_PART: usize = 8_192;
/// Commits are batched until each thread has about this many bytes to read.
const BATCH_BYTES_PER_THREAD: usize = 8 << 20;

/// Parses a column of statistics into batches of consecutive rows. Their columns are `numRecords`,
/// `tightBounds`, and for leaf `i` `min.i`, `max.i` (unless the leaf has no type) and `nullCount.i`.
///
/// Statistics are hints: text that is not valid JSON and values that do not fit their type become
/// null, which means unknown. They are never an error. `min.i` and `max.i` allow for zone offsets
/// that a writer cut to minutes. That timestamps may be cut to milliseconds is left to the caller.
///
/// # Errors
/// `TooLarge` if a column of the result would exceed the limit of its Arrow type.
pub fn parse_stats(texts: &StringArray, leaves: &[StatsLeaf], threads: usize) -> Result<Vec<RecordBatch>> {
    let parser = Parser::new(leaves);
    let parts = parts_of(0, texts.len());
    let batches = parallel::map(&parts, threads, |(from, to)| {
        parser.parse((*from..*to).map(|row| texts.is_valid(row).then(|| Text::new(texts.value(row).as_bytes(), false))))
    });
    batches.into_iter().collect()
}

/// Parses statistics from the bytes of commits, at the places that a replay returned.
///
/// `next` returns the bytes for each run of equal `versions` in turn, or none if a commit is gone and
/// its statistics are unknown. The result has the columns of [`parse_stats`].
///
/// # Errors
/// `InvalidArgument` if `next` returns the wrong commit or a place lies outside it, and any error of
/// `next`.
pub fn parse_log_stats<B, E>(
    versions: &Int64Array,
    places: &StructArray,
    mut next: impl FnMut() -> std::result::Result<Option<(i64, Option<B>)>, E>,
    leaves: &[StatsLeaf],
    threads: usize,
) -> std::result::Result<Vec<RecordBatch>, E>
where
    B: AsRef<[u8]> + Send + Sync,
    E: From<Error>,
{
    let places = Places::of(places)?;
    let parser = Parser::new(leaves);
    let mut runs = runs_of(versions.values());
    let next = || {
        let Some((version, from, to)) = runs.next() else { return Ok(None) };
        match next()? {
            Some((given, data)) if given == version => {
                let bytes = data.as_ref().map_or(0, |data| data.as_ref().len());
                Ok(Some(((from, to, data), bytes)))
            }
            _ => Err(E::from(bad(&format!("the bytes of commit {version} were expected")))),
        }
    };
    let mut batches = Vec::new();
    let enough = BATCH_BYTES_PER_THREAD.saturating_mul(threads.max(1));
    parallel::pipeline(next, enough, |runs| {
        let parts: Vec<_> = runs
            .iter()
            .flat_map(|(from, to, data)| parts_of(*from, *to).into_iter().map(move |part| (part, data)))
            .collect();
        let rows = runs.iter().fold(0_usize, |sum, (from, to, _)| sum.saturating_add(to.saturating_sub(*from)));
        // Few rows in many commits are not worth a thread.
        let threads = if rows <= ROWS_PER_PART { 1 } else { threads };
        for batch in parallel::map(&parts, threads, |((from, to), data)| {
            let texts = (*from..*to).map(|row| places.text(row, data.as_ref().map(AsRef::as_ref)));
            parser.parse(texts.collect::<Result<Vec<_>>>()?.into_iter())
        }) {
            batches.push(batch?);
        }
        Ok(())
    })?;
    if batches.is_empty() {
        batches.push(parser.parse(std::iter::empty())?);
    }
    Ok(batches)
}

/// Runs of equal values: the value, its first row and one past its last.
fn runs_of(values: &[i64]) -> impl Iterator<Item = (i64, usize, usize)> {
    let mut start = 0_usize;
    values.chunk_by(|left, right| left == right).filter_map(move |run| {
        let from = start;
        start = start.saturating_add(run.len());
        run.first().map(|value| (*value, from, start))
    })
}

fn parts_of(from: usize, to: usize) -> Vec<(usize, usize)> {
    let starts = (from..to.max(from.saturating_add(1))).step_by(ROWS_PER_PART);
    starts.map(|start| (start, start.saturating_add(ROWS_PER_PART).min(to))).collect()
}

/// The places of statistics in their commits.
struct Places<'a> {
    whole: &'a StructArray,
    offsets: &'a Int64Array,
    lengths: &'a Int32Array,
}

impl<'a> Places<'a> {
    fn of(whole: &'a StructArray) -> Result<Self> {
        let offsets = whole.column_by_name("offset").and_then(|column| column.as_any().downcast_ref());
        let lengths = whole.column_by_name("length").and_then(|column| column.as_any().downcast_ref());
        match (offsets, lengths) {
            (Some(offsets), Some(lengths)) => Ok(Self { whole, offsets, lengths }),
            _ => Err(bad("places must have the columns offset and length")),
        }
    }

    fn text<'d>(&self, row: usize, data: Option<&'d [u8]>) -> Result<Option<Text<'d>>> {
        let raw = self.raw(row, data)?;
        Ok(raw.map(|(_, raw)| Text::new(raw, memchr::memchr(b'\\', raw).is_some())))
    }

    /// The bytes at a place, and where they start.
    fn raw<'d>(&self, row: usize, data: Option<&'d [u8]>) -> Result<Option<(usize, &'d [u8])>> {
        let Some(data) = data.filter(|_| self.whole.is_valid(row)) else { return Ok(None) };
        let start = usize::try_from(self.offsets.value(row)).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(self.lengths.value(row)).unwrap_or(usize::MAX));
        let raw = data.get(start..end).ok_or_else(|| bad("a place lies outside its commit"))?;
        Ok(Some((start, raw)))
    }
}

fn bad(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("statistics in the log: {what}"))
}

/// The wanted columns, prepared for reading.
struct Parser<'a> {
    leaves: &'a [StatsLeaf],
    tree: Tree,
}

impl<'a> Parser<'a> {
    fn new(leaves: &'a [StatsLeaf]) -> Self {
        Self { leaves, tree: Tree::new(leaves) }
    }

    fn parse<'t>(&self, texts: impl Iterator<Item = Option<Text<'t>>>) -> Result<RecordBatch> {
        let mut columns = StatsColumns::new(self.leaves)?;
        let mut spare = Vec::new();
        let mut unescaped = Vec::new();
        for text in texts {
            let mut row = Row::new(self.leaves.len(), std::mem::take(&mut spare));
            let known = text.is_some_and(|text| self.read_quoted(text, &mut row));
            let known = known
                || text.is_some_and(|text| {
                    row.clear();
                    let resolved = text.resolve_into(&mut unescaped);
                    resolved.is_some_and(|text| read(&mut Cursor::in_text(text), &self.tree, &mut row).is_ok())
                });
            if !known {
                row.clear();
            }
            columns.push(&row);
            spare = row.into_spare();
        }
        columns.finish()
    }

    /// Reads text whose only escapes are those of its quotes, as nearly all statistics in logs are, without resolving
    /// them first. Returns whether it is such text.
    fn read_quoted<'t>(&self, text: Text<'t>, row: &mut Row<'t>) -> bool {
        let raw = text.raw();
        if !text.is_escaped() || !raw.is_ascii() && std::str::from_utf8(raw).is_err() {
            return false;
        }
        let mut cursor = Cursor::in_quotes(raw, 0);
        read(&mut cursor, &self.tree, row).is_ok() && cursor.at() == raw.len()
    }
}

/// Reads one file's statistics into `row`.
fn read<'a, const QUOTED: bool>(
    cursor: &mut Cursor<'a, QUOTED>,
    tree: &Tree,
    row: &mut Row<'a>,
) -> Result<(), JsonError> {
    if cursor.kind()? != Kind::Object {
        cursor.skip(0)?;
        row.clear();
        return end(cursor);
    }
    cursor.object(|cursor, key| {
        match &*key.bytes() {
            b"numRecords" => row.num_records = cursor.scalar(1)?,
            b"tightBounds" => row.tight_bounds = cursor.scalar(1)?,
            b"minValues" => tree.read(cursor, Part::Min, row)?,
            b"maxValues" => tree.read(cursor, Part::Max, row)?,
            b"nullCount" => tree.read(cursor, Part::NullCount, row)?,
            _ => cursor.skip(1)?,
        }
        Ok(())
    })?;
    end(cursor)
}

fn end<const QUOTED: bool>(cursor: &mut Cursor<'_, QUOTED>) -> Result<(), JsonError> {
    match cursor.skip_blanks() {
        None => Ok(()),
        Some(_) => cursor.fail("unexpected text after the JSON object"),
    }
}
