//! Decoding only the rows that some of their values choose: entries of manifests by their partition.

use std::collections::HashMap;

use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use foldhash::quality::RandomState;

use crate::error::{Error, ErrorKind, Result};
use crate::parallel;

use super::blocks::Block;
use super::codec::Codec;
use super::column::{Column, batch_of};
use super::cursor::{Cursor, Read, corrupt};
use super::plan::{Node, Plan, Skip, skip};
use super::read::{BATCH_BYTES, Job, Limits, column_of, plan_of, read, shares_of};

/// Rows are chosen once this many bytes have been decompressed, so that most values are met for the first time together.
const GROUP_BYTES: usize = 1 << 18;
/// Rows are also chosen once there are this many, however small they are.
const GROUP_ROWS: usize = 1 << 16;
/// The most decisions that are remembered, and the most bytes of what they are about.
const MOST_DECISIONS: usize = 1 << 16;
const MOST_KEY_BYTES: usize = 1 << 22;

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
/// `choose` returns a mask for some rows. A thread rarely asks twice about equal values. The other rows are only skipped,
/// to find where they end.
///
/// # Errors
/// As [`decode_avro`](super::decode_avro), and what `choose` returns; `CorruptAvro` also if rows take no bytes.
pub fn decode_chosen<E: From<Error> + Send>(
    data: &[u8],
    blocks: &[Block],
    codec: Codec,
    (node, schema): (&Node, &SchemaRef),
    first: First<'_>,
    limits: Limits,
    choose: impl Fn(RecordBatch) -> std::result::Result<BooleanArray, E> + Sync,
) -> std::result::Result<Chosen, E> {
    let job = Job::new(data, codec, node, schema, limits.memory)?;
    if job.least == 0 {
        return Err(corrupt("the rows of the file take no bytes").into());
    }
    let (plan, steps) = (plan_of(first.node, first.schema)?, key_steps(first.node, 0)?);
    let mut before = 0_usize;
    let shares: Vec<_> = shares_of(blocks, limits.threads)
        .into_iter()
        .map(|(number, share)| {
            let start = before;
            before = share.iter().fold(before, |sum, block| sum.saturating_add(block.rows));
            (number, start, share)
        })
        .collect();
    let found = parallel::map(&shares, limits.threads, |(number, start, share)| {
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
    known_bytes: usize,
    decisions: Vec<bool>,
    /// The rows about which nothing is known yet.
    fresh: Column,
    key: Vec<u8>,
    places: Vec<Place>,
}

/// The rows of some blocks, one after the other, and what became of those before.
struct Group {
    raw: Vec<u8>,
    root: Column,
    /// The number of the first row that is not decided.
    row: usize,
    found: Chosen,
}

impl<'a, E: From<Error>, F: Fn(RecordBatch) -> std::result::Result<BooleanArray, E>> Chooser<'a, F> {
    fn new(plan: &'a Plan, steps: &'a [KeyStep], schema: &'a SchemaRef, choose: &'a F) -> Self {
        Self {
            plan,
            steps,
            schema,
            choose,
            known: HashMap::default(),
            known_bytes: 0,
            decisions: Vec::new(),
            fresh: column_of(plan, schema),
            key: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Decodes the chosen rows of neighbouring blocks, given the numbers of the first block and of the first row.
    fn run(&mut self, job: &Job<'_>, (block, row): (usize, usize), blocks: &[Block]) -> std::result::Result<Chosen, E> {
        let found = Chosen { batches: Vec::new(), rows: Vec::new() };
        let mut group = Group { raw: Vec::new(), root: job.root(), row, found };
        let mut expander = job.expander();
        let last = block.saturating_add(blocks.len()).saturating_sub(1);
        for (index, next) in blocks.iter().enumerate() {
            let number = block.saturating_add(index);
            let base = group.raw.len();
            let raw = job.expand(*next, &mut expander).map_err(|error| error.with("block", number))?;
            group.raw.extend_from_slice(raw);
            self.look_at(job, number, (base, next.rows), &mut group)?;
            if group.raw.len() >= GROUP_BYTES || number == last {
                self.decide(job, number, &mut group)?;
                group.raw.clear();
            }
        }
        if group.root.len() > 0 {
            let batch = batch_of(group.root, job.schema).map_err(|error| error.with("block", last))?;
            group.found.batches.push(batch);
        }
        Ok(group.found)
    }

    /// Finds where the rows of the last block of a group are, and what decides about them.
    fn look_at(
        &mut self,
        job: &Job<'_>,
        block: usize,
        (base, rows): (usize, usize),
        group: &mut Group,
    ) -> std::result::Result<(), E> {
        let mut start = base;
        for _ in 0..rows {
            let end = self.look_at_row(block, start, &group.raw).map_err(|error| error.with("block", block))?;
            start = end;
            if self.places.len() >= GROUP_ROWS {
                self.decide(job, block, group)?;
            }
        }
        let rest = Cursor::new(group.raw.get(start..).unwrap_or_default());
        Ok(rest.end().map_err(|flaw| Error::from(flaw).with("block", block))?)
    }

    /// Finds where a row ends, and remembers what decides about it.
    fn look_at_row(&mut self, block: usize, start: usize, raw: &[u8]) -> Result<usize> {
        let mut cursor = Cursor::new(raw.get(start..).unwrap_or_default());
        self.key.clear();
        pass_over(self.steps, &mut cursor, &mut self.key)?;
        let end = raw.len().saturating_sub(cursor.remaining());
        let decision = if let Some(number) = self.known.get(self.key.as_slice()) {
            *number
        } else {
            let number = self.decisions.len().saturating_add(self.fresh.len());
            // What decides is forgotten before long, and no row of it is larger than a block.
            read_whole(self.plan, &mut self.fresh, raw.get(start..end).unwrap_or_default(), usize::MAX)?;
            self.known_bytes = self.known_bytes.saturating_add(self.key.len());
            self.known.insert(self.key.clone(), number);
            number
        };
        self.places.push(Place { block, start, end, decision });
        Ok(end)
    }

    /// Asks about values that were not met before, and decodes the chosen rows; `block` is the last one that was met.
    fn decide(&mut self, job: &Job<'_>, block: usize, group: &mut Group) -> std::result::Result<(), E> {
        let at = |error: Error| error.with("block", block);
        let count = self.fresh.len();
        if count > 0 {
            let fresh = std::mem::replace(&mut self.fresh, column_of(self.plan, self.schema));
            let mask = (self.choose)(batch_of(fresh, self.schema).map_err(at)?)?;
            if mask.len() != count || mask.null_count() > 0 {
                let message = "a mask without nulls for all of the rows was expected";
                return Err(Error::new(ErrorKind::InvalidArgument, message).into());
            }
            self.decisions.extend(mask.values().iter());
        }
        for (index, place) in self.places.iter().enumerate() {
            if self.decisions.get(place.decision) == Some(&true) {
                let bytes = group.raw.get(place.start..place.end).unwrap_or_default();
                let in_block = |error: Error| error.with("block", place.block);
                let room = job.room();
                let left = read_whole(&job.plan, &mut group.root, bytes, room).map_err(in_block)?;
                let taken = room.saturating_sub(left).saturating_add(job.weight);
                job.settle(taken).map_err(|flaw| in_block(flaw.into()))?;
                group.found.rows.push(i64::try_from(group.row.saturating_add(index)).unwrap_or(i64::MAX));
            }
        }
        group.row = group.row.saturating_add(self.places.len());
        self.places.clear();
        if self.decisions.len() > MOST_DECISIONS || self.known_bytes > MOST_KEY_BYTES {
            self.decisions.clear();
            self.known.clear();
            self.known_bytes = 0;
        }
        if group.root.bytes() > BATCH_BYTES {
            let full = std::mem::replace(&mut group.root, job.root());
            group.found.batches.push(batch_of(full, job.schema).map_err(at)?);
        }
        Ok(())
    }
}

/// Reads a row, which must end where its bytes end: it was skipped by sizes, and is read by numbers of items. Its values
/// may take as much memory as there is `room`; returns what is left.
fn read_whole(plan: &Plan, column: &mut Column, row: &[u8], room: usize) -> Result<usize> {
    let mut cursor = Cursor::within(row, room);
    read(plan, column, &mut cursor)?;
    if cursor.remaining() > 0 {
        return Err(corrupt("the items of an array do not have the size that it declares"));
    }
    Ok(cursor.room())
}
