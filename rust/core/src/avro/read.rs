//! Decoding blocks into record batches, on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};

use crate::error::{Error, ErrorKind, Result};
use crate::parallel;

use super::blocks::Block;
use super::codec::{Codec, Expander};
use super::column::{Column, Values, batch_of, push_offset, wrong_type};
use super::cursor::{Cursor, Read, corrupt, flaw, takes_too_much};
use super::plan::{Node, Plan, Step, compile, least_bytes, no_branch, weight};

/// The most rows of a block whose rows take no bytes, which would otherwise bound their number.
const MOST_EMPTY_ROWS: usize = 1 << 24;
/// Once its values take this many bytes, a batch is complete and the next one begins.
pub(super) const BATCH_BYTES: usize = 256 << 20;

/// How much a call may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most threads.
    pub threads: usize,
    /// The most memory in bytes, by and large: of the values, and an eighth of what blocks decompress to.
    pub memory: usize,
}

/// Decodes blocks into batches of `schema`, in the order of the blocks.
///
/// `node` is the record of the writer's schema. The slots of its fields are columns of `schema`, and the slots of nested
/// fields are children of those columns. Columns that no node fills are null.
///
/// # Errors
/// `CorruptAvro`, with the number of the block, if a block is damaged or does not match the node; `TooLarge` if one
/// decompresses to far more bytes than it has, or the values take more memory than they may; `InvalidArgument` if the
/// node and the schema do not match.
pub fn decode_avro(
    data: &[u8],
    blocks: &[Block],
    codec: Codec,
    node: &Node,
    schema: &SchemaRef,
    limits: Limits,
) -> Result<Vec<RecordBatch>> {
    let job = Job::new(data, codec, node, schema, limits.memory)?;
    let shares = shares_of(blocks, limits.threads);
    let batches = parallel::map(&shares, limits.threads, |(first, share)| job.run(*first, share));
    let batches: Vec<Vec<RecordBatch>> = batches.into_iter().collect::<Result<_>>()?;
    Ok(batches.into_iter().flatten().collect())
}

/// Compiles the record of the writer's schema.
pub(super) fn plan_of(node: &Node, schema: &SchemaRef) -> Result<Plan> {
    if node.kind != "record" {
        return Err(Error::new(ErrorKind::InvalidArgument, "the rows of an Avro file must be records"));
    }
    compile(node, &DataType::Struct(schema.fields().clone()), 0)
}

/// Creates the column that takes the rows of a plan.
pub(super) fn column_of(plan: &Plan, schema: &SchemaRef) -> Column {
    Column::new(Some(plan), &DataType::Struct(schema.fields().clone()))
}

/// Splits the blocks into shares of neighbours of about the same size, each with the number of its first block.
pub(super) fn shares_of(blocks: &[Block], threads: usize) -> Vec<(usize, &[Block])> {
    let total = blocks.iter().fold(0_usize, |sum, block| sum.saturating_add(block.size));
    let target = total.checked_div(threads).unwrap_or(total).max(1);
    let (mut shares, mut first, mut size) = (Vec::new(), 0_usize, 0_usize);
    for (index, block) in blocks.iter().enumerate() {
        size = size.saturating_add(block.size);
        let next = index.saturating_add(1);
        if size >= target || next == blocks.len() {
            shares.push((first, blocks.get(first..next).unwrap_or(&[])));
            (first, size) = (next, 0);
        }
    }
    shares
}

/// What is done with every block.
pub(super) struct Job<'a> {
    data: &'a [u8],
    pub codec: Codec,
    pub plan: Plan,
    pub least: usize,
    pub weight: usize,
    pub schema: &'a SchemaRef,
    most: usize,
    spent: AtomicUsize,
    large: Mutex<()>,
}

impl<'a> Job<'a> {
    pub fn new(data: &'a [u8], codec: Codec, node: &Node, schema: &'a SchemaRef, most: usize) -> Result<Self> {
        let (plan, least) = (plan_of(node, schema)?, least_bytes(node, 0));
        let weight = weight(&DataType::Struct(schema.fields().clone()));
        let (spent, large) = (AtomicUsize::new(0), Mutex::new(()));
        Ok(Self { data, codec, plan, least, weight, schema, most, spent, large })
    }

    pub fn expander(&self) -> Expander<'_> {
        Expander::new(self.codec, &self.large)
    }

    /// How much memory further values may take.
    pub fn room(&self) -> usize {
        self.most.saturating_sub(self.spent.load(Ordering::Relaxed))
    }

    /// Counts memory that values took. Threads that each had room may have taken too much together.
    pub fn settle(&self, taken: usize) -> Read<()> {
        let before = self.spent.fetch_add(taken, Ordering::Relaxed);
        if before.saturating_add(taken) > self.most { Err(takes_too_much()) } else { Ok(()) }
    }

    pub fn root(&self) -> Column {
        column_of(&self.plan, self.schema)
    }

    fn run(&self, first: usize, blocks: &[Block]) -> Result<Vec<RecordBatch>> {
        let (mut batches, mut root, mut expander) = (Vec::new(), self.root(), self.expander());
        for (index, block) in blocks.iter().enumerate() {
            let number = first.saturating_add(index);
            self.block(*block, &mut root, &mut expander).map_err(|error| error.with("block", number))?;
            if root.bytes() > BATCH_BYTES {
                let full = std::mem::replace(&mut root, self.root());
                batches.push(batch_of(full, self.schema).map_err(|error| error.with("block", number))?);
            }
        }
        if root.len() > 0 {
            let number = first.saturating_add(blocks.len()).saturating_sub(1);
            batches.push(batch_of(root, self.schema).map_err(|error| error.with("block", number))?);
        }
        Ok(batches)
    }

    fn block(&self, block: Block, root: &mut Column, expander: &mut Expander<'_>) -> Result<()> {
        let raw = self.expand(block, expander)?;
        let allowed = self.room();
        let mut cursor = Cursor::within(raw, allowed);
        cursor.spend(block.rows.saturating_mul(self.weight))?;
        (0..block.rows).try_for_each(|_| read(&self.plan, root, &mut cursor))?;
        cursor.end()?;
        self.settle(allowed.saturating_sub(cursor.room())).map_err(Error::from)
    }

    /// Returns the rows of a block without compression, after a check that there can be so many.
    pub fn expand<'b>(&'b self, block: Block, expander: &'b mut Expander<'_>) -> Result<&'b [u8]> {
        let end = block.offset.checked_add(block.size);
        let bytes = end.and_then(|end| self.data.get(block.offset..end));
        let raw = expander.expand(bytes.ok_or_else(|| corrupt("the file ends inside a block"))?)?;
        let needed = block.rows.checked_mul(self.least);
        if needed.is_none_or(|needed| needed > raw.len()) || (self.least == 0 && block.rows > MOST_EMPTY_ROWS) {
            return Err(corrupt("a block has fewer bytes than its rows need"));
        }
        // Bytes that are not kept take time all the same.
        self.settle(raw.len() / 8)?;
        Ok(raw)
    }
}

fn record(steps: &[Step], column: &mut Column, cursor: &mut Cursor<'_>) -> Read<()> {
    let Values::Struct(children) = &mut column.values else { return Err(wrong_type().into()) };
    for step in steps {
        match step {
            Step::Skip(skip) => skip.run(cursor)?,
            Step::Read(slot, plan) => {
                let Some(child) = children.get_mut(*slot) else { return Err(wrong_type().into()) };
                read(plan, child, cursor)?;
            }
        }
    }
    column.valid.append_non_null();
    Ok(())
}

/// Reads a value. What most fields of metadata are, null, integers or text, is read without a further call.
#[inline]
pub(super) fn read(plan: &Plan, column: &mut Column, cursor: &mut Cursor<'_>) -> Read<()> {
    let mut plan = plan;
    while let Plan::Optional { null, value, plan: inner } = plan {
        let branch = cursor.long()?;
        if branch != *value {
            if branch != *null {
                return Err(no_branch(branch));
            }
            column.push_null();
            return Ok(());
        }
        plan = inner;
    }
    match (plan, &mut column.values) {
        (Plan::Int64, Values::Int64(values)) => values.push(cursor.long()?),
        (Plan::Int32, Values::Int32(values)) => values.push(int32(cursor.long()?)?),
        (Plan::Text, Values::Bytes { offsets, data }) => {
            let bytes = cursor.kept_bytes()?;
            if !is_ascii(bytes) {
                std::str::from_utf8(bytes).map_err(|error| flaw(format!("text is not UTF-8: {error}")))?;
            }
            push_offset(offsets, bytes.len())?;
            data.extend_from_slice(bytes);
        }
        _ => return read_any(plan, column, cursor),
    }
    column.valid.append_non_null();
    Ok(())
}

/// Whether no byte has its highest bit set. Nearly all text in metadata is so, and this is seen sooner than UTF-8 is.
#[inline]
fn is_ascii(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<16>();
    let bits = chunks.iter().fold(0_u128, |bits, chunk| bits | u128::from_le_bytes(*chunk));
    bits & 0x8080_8080_8080_8080_8080_8080_8080_8080 == 0 && rest.iter().fold(0, |bits, byte| bits | byte) < 0x80
}

fn read_any(plan: &Plan, column: &mut Column, cursor: &mut Cursor<'_>) -> Read<()> {
    match (plan, &mut column.values) {
        (Plan::Bytes, Values::Bytes { offsets, data }) => {
            let bytes = cursor.kept_bytes()?;
            push_offset(offsets, bytes.len())?;
            data.extend_from_slice(bytes);
        }
        (Plan::Boolean, Values::Boolean(values)) => values.append(cursor.boolean()?),
        (Plan::Float32, Values::Float32(values)) => values.push(f32::from_le_bytes(cursor.array()?)),
        (Plan::Float32As64, Values::Float64(values)) => values.push(f64::from(f32::from_le_bytes(cursor.array()?))),
        (Plan::Float64, Values::Float64(values)) => values.push(f64::from_le_bytes(cursor.array()?)),
        (Plan::Fixed(size), Values::Fixed { data, .. }) => data.extend_from_slice(cursor.take(*size)?),
        (Plan::DecimalBytes, Values::Int128(values)) => values.push(unscaled(cursor.bytes()?, &column.data_type)?),
        (Plan::DecimalFixed(size), Values::Int128(values)) => {
            values.push(unscaled(cursor.take(*size)?, &column.data_type)?);
        }
        (Plan::List(item, size), Values::List { offsets, items }) => {
            let before = items.len();
            while let Some((count, _)) = cursor.items(size.least)? {
                cursor.spend(count.saturating_mul(size.weight))?;
                (0..count).try_for_each(|_| read(item, items, cursor))?;
            }
            push_offset(offsets, items.len().saturating_sub(before))?;
        }
        (Plan::Pairs { fields, keys, item }, Values::List { offsets, items }) => {
            let before = items.len();
            while let Some((count, _)) = cursor.items(item.least)? {
                if keys.is_none() {
                    cursor.spend(count.saturating_mul(item.weight))?;
                }
                if keys.is_some() || !plain_pairs(fields, items, count, cursor)? {
                    (0..count).try_for_each(|_| pair(fields, keys.as_deref(), item.weight, items, cursor))?;
                }
            }
            push_offset(offsets, items.len().saturating_sub(before))?;
        }
        (Plan::Map(value, item), Values::List { offsets, items }) => {
            let before = items.len();
            while let Some((count, _)) = cursor.items(item.least)? {
                cursor.spend(count.saturating_mul(item.weight))?;
                (0..count).try_for_each(|_| entry(value, items, cursor))?;
            }
            push_offset(offsets, items.len().saturating_sub(before))?;
        }
        (Plan::Null, _) => {
            column.push_null();
            return Ok(());
        }
        (Plan::Record(steps), _) => return record(steps, column, cursor),
        _ => return Err(wrong_type().into()),
    }
    column.valid.append_non_null();
    Ok(())
}

/// Reads pairs of an integer of 32 bits and an integer or bytes, of which the maps in manifests consist. Returns whether
/// these are such pairs; if not, nothing was read.
fn plain_pairs(fields: &[Step], pairs: &mut Column, count: usize, cursor: &mut Cursor<'_>) -> Read<bool> {
    let ([Step::Read(0, Plan::Int32), Step::Read(1, plan)], Values::Struct(children)) = (fields, &mut pairs.values)
    else {
        return Ok(false);
    };
    let [keys, values] = children.as_mut_slice() else { return Ok(false) };
    match (&mut keys.values, plan, &mut values.values) {
        (Values::Int32(keys), Plan::Int64, Values::Int64(values)) => {
            for _ in 0..count {
                keys.push(int32(cursor.long()?)?);
                values.push(cursor.long()?);
            }
        }
        (Values::Int32(keys), Plan::Bytes, Values::Bytes { offsets, data }) => {
            for _ in 0..count {
                keys.push(int32(cursor.long()?)?);
                let bytes = cursor.kept_bytes()?;
                push_offset(offsets, bytes.len())?;
                data.extend_from_slice(bytes);
            }
        }
        _ => return Ok(false),
    }
    for column in [&mut keys.valid, &mut values.valid, &mut pairs.valid] {
        column.append_n_non_nulls(count);
    }
    Ok(true)
}

/// Reads a record of a key and a value, and keeps it only if its key is wanted.
fn pair(fields: &[Step], keys: Option<&[i64]>, weight: usize, pairs: &mut Column, cursor: &mut Cursor<'_>) -> Read<()> {
    let Some(wanted) = keys else { return record(fields, pairs, cursor) };
    // Writers put the key of a map entry first, so the value of an unwanted key can be skipped.
    if let [Step::Read(0, kind @ (Plan::Int32 | Plan::Int64)), Step::Read(1, value)] = fields {
        let key = cursor.long()?;
        if matches!(kind, Plan::Int32) {
            // The twin also refuses an unwanted key that is not a value of its type.
            int32(key)?;
        }
        let Values::Struct(children) = &mut pairs.values else { return Err(wrong_type().into()) };
        let [keys, values] = children.as_mut_slice() else { return Err(wrong_type().into()) };
        if !wanted.contains(&key) {
            return pass_over(value, cursor);
        }
        cursor.spend(weight)?;
        match &mut keys.values {
            Values::Int32(values) => values.push(int32(key)?),
            Values::Int64(values) => values.push(key),
            _ => return Err(wrong_type().into()),
        }
        keys.valid.append_non_null();
        read(value, values, cursor)?;
        pairs.valid.append_non_null();
        return Ok(());
    }
    let message = "keys can be selected only if a pair has a key and a value and nothing else";
    Err(Error::new(ErrorKind::InvalidArgument, message).into())
}

/// Skips a value that would have been read if its key were wanted.
fn pass_over(plan: &Plan, cursor: &mut Cursor<'_>) -> Read<()> {
    match plan {
        Plan::Int32 | Plan::Int64 => cursor.skip_long(),
        Plan::Bytes | Plan::Text => cursor.bytes().map(|_| ()),
        Plan::Optional { null, value, plan } => {
            let branch = cursor.long()?;
            if branch == *value {
                pass_over(plan, cursor)
            } else if branch == *null {
                Ok(())
            } else {
                Err(no_branch(branch))
            }
        }
        _ => {
            let message = "keys can be selected only if the values are integers or bytes";
            Err(Error::new(ErrorKind::InvalidArgument, message).into())
        }
    }
}

fn entry(value: &Plan, pairs: &mut Column, cursor: &mut Cursor<'_>) -> Read<()> {
    let Values::Struct(children) = &mut pairs.values else { return Err(wrong_type().into()) };
    let [keys, values] = children.as_mut_slice() else { return Err(wrong_type().into()) };
    read(&Plan::Text, keys, cursor)?;
    read(value, values, cursor)?;
    pairs.valid.append_non_null();
    Ok(())
}

#[inline]
fn int32(value: i64) -> Read<i32> {
    i32::try_from(value).map_err(|_| flaw(format!("{value} does not fit into 32 bits")))
}

/// Reads a big-endian integer in two's complement that has no more digits than the type allows.
fn unscaled(bytes: &[u8], data_type: &DataType) -> Read<i128> {
    let DataType::Decimal128(precision, _) = data_type else { return Err(wrong_type().into()) };
    let (first, rest) = bytes.split_first().ok_or_else(|| flaw("a decimal has no bytes"))?;
    let sign = if *first >= 0x80 { -1_i128 } else { 0 };
    let mut value = sign.wrapping_shl(8) | i128::from(*first);
    for byte in rest {
        if value >> 119 != sign {
            return Err(flaw("a decimal has more than 128 bits"));
        }
        value = value.wrapping_shl(8) | i128::from(*byte);
    }
    let limit = 10_u128.checked_pow(u32::from(*precision)).unwrap_or(u128::MAX);
    if value.unsigned_abs() >= limit {
        return Err(flaw(format!("a decimal has more than {precision} digits")));
    }
    Ok(value)
}
