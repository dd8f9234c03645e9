//! Decoding only the rows that some of their values choose: entries of manifests by their partition.

use std::collections::HashMap;

use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use foldhash::quality::RandomState;

use crate::error::{Error, ErrorKind, Result};
use crate::parallel;

use super::blocks::Block;
use super::codec::{Codec, Expander};
use super::column::{Column, batch_of};
use super::cursor::{Cursor, Read};
use super::plan::{Node, Plan, Skip, skip};
use super::read::{BATCH_BYTES, Job, plan_of, read, shares_of};

/// Rows are chosen once so many bytes of them were decompressed, so that most values are met the first time together.
const GROUP_BYTES: usize = 1 << 18;
/// So many decisions are remembered.
const MOST_DECISIONS: usize = 1 << 16;

/// What rows are chosen by: a node and the columns that it fills.
#[derive(Clone, Copy, Debug)]
pub struct First<'a> {
    /// The record of the writer's schema; see [`decode_avro`](super::decode_avro).
    pub node: &'a Node,
    /// The columns.
    pub schema: &'a SchemaRef,
}

/// The wanted columns of the chosen rows, and the numbers of these rows.
#[derive(Debug)]
pub struct Chosen {
    /// The columns.
    pub batches: Vec<RecordBatch>,
    /// For each row, how many rows of the blocks are before it.
    pub rows: Vec<i64>,
}

/// Decodes the rows of blocks for whose first columns `choose` is true, like [`decode_avro`](super::decode_avro).
///
/// `choose` returns a mask for some rows. It is asked once for equal values, unless there are very many of them. Of the
/// other rows it is only checked where they end.
///
/// # Errors
/// As [`decode_avro`](super::decode_avro), and what `choose` returns.
pub fn decode_chosen<E: From<Error> + Send>(
    data: &[u8],
    blocks: &[Block],
    codec: Codec,
    (node, schema): (&Node, &SchemaRef),
    first: First<'_>,
    threads: usize,
    choose: impl Fn(RecordBatch) -> std::result::Result<BooleanArray, E> + Sync,
) -> std::result::Result<Chosen, E> {
    let job = Job::new(data, codec, node, schema)?;
    let (plan, steps) = (plan_of(first.node, first.schema)?, key_steps(first.node, 0)?);
    let mut before = 0_usize;
    let shares: Vec<_> = shares_of(blocks, threads)
        .into_iter()
        .map(|(number, share)| {
            let start = before;
            before = share.iter().fold(before, |sum, block| sum.saturating_add(block.rows));
            (number, start, share)
        })
        .collect();
    let found = parallel::map(&shares, threads, |(number, start, share)| {
        let mut chooser = Chooser::new(&plan, &steps, first.schema, &choose);
        chooser.run(&job, (*number, *start), share)
    });
    let mut chosen = Chosen { batches: Vec::new(), rows: Vec::new() };
    for part in found {
        let part = part?;
        chosen.batches.extend(part.batches);
        chosen.rows.extend(part.rows);
    }
    Ok(chosen)
}

/// How the bytes that decide about a row are found.
enum KeyStep {
    Skip(Skip),
    /// A value that decides.
    Take(Skip),
    Record(Vec<KeyStep>),
}

fn key_steps(node: &Node, depth: usize) -> Result<Vec<KeyStep>> {
    let inner = depth.saturating_add(1);
    let step = |child: &Node| match (child.slot, child.kind.as_str()) {
        (None, _) => skip(child, inner).map(KeyStep::Skip),
        (Some(_), "record") => key_steps(child, inner).map(KeyStep::Record),
        (Some(_), _) => skip(child, inner).map(KeyStep::Take),
    };
    node.children.iter().map(step).collect()
}

/// Passes over a row, and appends the bytes that decide about it.
fn pass_over(steps: &[KeyStep], cursor: &mut Cursor<'_>, key: &mut Vec<u8>) -> Read<()> {
    for step in steps {
        match step {
            KeyStep::Skip(skip) => skip.run(cursor)?,
            KeyStep::Record(steps) => pass_over(steps, cursor, key)?,
            KeyStep::Take(skip) => {
                let rest = cursor.rest();
                skip.run(cursor)?;
                key.extend_from_slice(rest.get(..rest.len().saturating_sub(cursor.remaining())).unwrap_or_default());
            }
        }
    }
    Ok(())
}

/// Where a row is in the bytes of its group, the number of its block, and that of the decision about it.
struct Place {
    block: usize,
    start: usize,
    end: usize,
    decision: usize,
}

struct Chooser<'a, F> {
    plan: &'a Plan,
    steps: &'a [KeyStep],
    schema: &'a SchemaRef,
    choose: &'a F,
    known: HashMap<Vec<u8>, usize, RandomState>,
    decisions: Vec<bool>,
    /// The rows about which nothing is known yet.
    fresh: Column,
    key: Vec<u8>,
    raw: Vec<u8>,
    places: Vec<Place>,
}

impl<'a, E: From<Error>, F: Fn(RecordBatch) -> std::result::Result<BooleanArray, E>> Chooser<'a, F> {
    fn new(plan: &'a Plan, steps: &'a [KeyStep], schema: &'a SchemaRef, choose: &'a F) -> Self {
        Self {
            plan,
            steps,
            schema,
            choose,
            known: HashMap::default(),
            decisions: Vec::new(),
            fresh: column_of(plan, schema),
            key: Vec::new(),
            raw: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Decodes the chosen rows of neighbouring blocks, given the numbers of the first block and of the first row.
    fn run(&mut self, job: &Job<'_>, (block, row): (usize, usize), blocks: &[Block]) -> std::result::Result<Chosen, E> {
        let mut found = Chosen { batches: Vec::new(), rows: Vec::new() };
        let (mut root, mut expander, mut row) = (job.root(), Expander::new(job.codec), row);
        for (index, next) in blocks.iter().enumerate() {
            let number = block.saturating_add(index);
            let at = |error: Error| error.with("block", number);
            let raw = job.expand(*next, &mut expander).map_err(at)?;
            self.look_at(number, raw, next.rows).map_err(at)?;
            if self.raw.len() < GROUP_BYTES && index.saturating_add(1) < blocks.len() {
                continue;
            }
            self.decide(number)?;
            self.decode(job, &mut root, row, &mut found.rows)?;
            row = row.saturating_add(self.places.len());
            self.raw.clear();
            self.places.clear();
            if root.bytes() > BATCH_BYTES {
                let full = std::mem::replace(&mut root, job.root());
                found.batches.push(batch_of(full, job.schema).map_err(at)?);
            }
        }
        if root.len() > 0 {
            let last = block.saturating_add(blocks.len()).saturating_sub(1);
            found.batches.push(batch_of(root, job.schema).map_err(|error| error.with("block", last))?);
        }
        Ok(found)
    }

    /// Finds where the rows of a block are, and what decides about them.
    fn look_at(&mut self, block: usize, raw: &[u8], rows: usize) -> Result<()> {
        let base = self.raw.len();
        let mut cursor = Cursor::new(raw);
        let mut start = 0_usize;
        for _ in 0..rows {
            self.key.clear();
            pass_over(self.steps, &mut cursor, &mut self.key)?;
            let end = raw.len().saturating_sub(cursor.remaining());
            let decision = if let Some(number) = self.known.get(self.key.as_slice()) {
                *number
            } else {
                let number = self.decisions.len().saturating_add(self.fresh.len());
                read(self.plan, &mut self.fresh, &mut Cursor::new(raw.get(start..end).unwrap_or_default()))?;
                self.known.insert(self.key.clone(), number);
                number
            };
            self.places.push(Place {
                block,
                start: base.saturating_add(start),
                end: base.saturating_add(end),
                decision,
            });
            start = end;
        }
        cursor.end()?;
        self.raw.extend_from_slice(raw);
        Ok(())
    }

    /// Asks about values that were not met before; `block` is the last one of the group.
    fn decide(&mut self, block: usize) -> std::result::Result<(), E> {
        let count = self.fresh.len();
        if count == 0 {
            return Ok(());
        }
        let fresh = std::mem::replace(&mut self.fresh, column_of(self.plan, self.schema));
        let fresh = batch_of(fresh, self.schema).map_err(|error| error.with("block", block))?;
        let mask = (self.choose)(fresh)?;
        if mask.len() != count || mask.null_count() > 0 {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "a mask without nulls for all of the rows was expected",
            )
            .into());
        }
        self.decisions.extend(mask.values().iter());
        Ok(())
    }

    /// Decodes the chosen rows of a group; `row` is the number of its first.
    fn decode(&mut self, job: &Job<'_>, root: &mut Column, row: usize, rows: &mut Vec<i64>) -> Result<()> {
        for (index, place) in self.places.iter().enumerate() {
            if self.decisions.get(place.decision) == Some(&true) {
                let bytes = self.raw.get(place.start..place.end).unwrap_or_default();
                let read = read(&job.plan, root, &mut Cursor::new(bytes));
                read.map_err(|flaw| Error::from(flaw).with("block", place.block))?;
                rows.push(i64::try_from(row.saturating_add(index)).unwrap_or(i64::MAX));
            }
        }
        if self.decisions.len() > MOST_DECISIONS {
            self.decisions.clear();
            self.known.clear();
        }
        Ok(())
    }
}

fn column_of(plan: &Plan, schema: &SchemaRef) -> Column {
    Column::new(Some(plan), &DataType::Struct(schema.fields().clone()))
}
