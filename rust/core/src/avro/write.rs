//! Encoding record batches as the blocks of an Avro file, on several threads.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, BooleanArray, FixedSizeBinaryArray, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields, TimeUnit};

use crate::error::{Error, ErrorKind, Result};
use crate::parallel;

use super::codec::{Codec, Compressor, most_expanded};
use super::cursor::{Flaw, Read};

/// A block ends with the row that brings it to this many bytes, before compression.
const BLOCK_BYTES: usize = 1 << 16;
/// The most bytes of a block before compression: readers refuse larger ones.
const MOST_BLOCK_BYTES: usize = 1 << 30;
/// How many rows a thread encodes at a time. Blocks end there too, so that the bytes do not depend on the threads.
const SHARE_ROWS: usize = 1 << 13;
/// The most levels of nesting.
const DEEPEST: usize = 100;

/// Encodes the rows of batches as an Avro file that begins with `header`, and whose blocks end with `sync`.
///
/// The type of a column determines its encoding: integers, dates, times and timestamps are `int` or `long`; text and
/// bytes are prefixed by their length; binary of fixed size is `fixed`; a decimal is a `fixed` of as few bytes as its
/// precision allows; a struct is a record; a list is an array; a map is an array of keys and values, which is also the
/// encoding of an Avro map. A nullable column is a union of null and its type, in this order.
///
/// # Errors
/// `InvalidArgument` if a type has no encoding, a required column is null, or a decimal has more digits than its type
/// allows; `TooLarge` if a row exceeds 1 GiB, or what readers take for the bytes to which it is compressed.
pub fn encode_avro(
    batches: &[RecordBatch],
    header: &[u8],
    sync: &[u8],
    codec: Codec,
    level: Option<i32>,
    threads: usize,
) -> Result<Vec<u8>> {
    // Refuses a wrong level even if there are no rows.
    Compressor::new(codec, level)?;
    let roots = batches.iter().map(Root::new).collect::<Result<Vec<_>>>()?;
    let mut shares = Vec::new();
    for root in &roots {
        for first in (0..root.rows).step_by(SHARE_ROWS) {
            shares.push((root, first..first.saturating_add(SHARE_ROWS).min(root.rows)));
        }
    }
    let encoded = parallel::map(&shares, threads, |(root, rows)| {
        let mut blocks = Blocks { out: Vec::new(), sync, compressor: Compressor::new(codec, level)? };
        root.encode(rows.clone(), &mut blocks)?;
        Ok(blocks.out)
    });
    let encoded = encoded.into_iter().collect::<Result<Vec<_>>>()?;
    let total = encoded.iter().fold(header.len(), |sum, share| sum.saturating_add(share.len()));
    let mut file = Vec::with_capacity(total);
    file.extend_from_slice(header);
    for share in &encoded {
        file.extend_from_slice(share);
    }
    Ok(file)
}

/// Finished blocks.
struct Blocks<'a> {
    out: Vec<u8>,
    sync: &'a [u8],
    compressor: Compressor,
}

impl Blocks<'_> {
    fn push(&mut self, rows: usize, raw: &[u8]) -> Result<()> {
        if raw.len() > MOST_BLOCK_BYTES {
            return Err(Error::new(ErrorKind::TooLarge, "a row of an Avro file takes more than 1 GiB"));
        }
        let stored = self.compressor.compress(raw)?;
        if raw.len() > most_expanded(stored.len()) {
            let message = "a row of an Avro file takes so many bytes, and so few of them when it is compressed, that no \
                           reader would trust the file";
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        put_count(&mut self.out, rows);
        put_count(&mut self.out, stored.len());
        self.out.extend_from_slice(stored);
        self.out.extend_from_slice(self.sync);
        Ok(())
    }
}

/// The columns of a batch.
struct Root<'a> {
    columns: Vec<Source<'a>>,
    rows: usize,
}

impl<'a> Root<'a> {
    fn new(batch: &'a RecordBatch) -> Result<Self> {
        let columns = batch.schema_ref().fields().iter().zip(batch.columns());
        let columns = columns.map(|(field, array)| Source::new(field, array, 0)).collect::<Result<_>>()?;
        Ok(Self { columns, rows: batch.num_rows() })
    }

    fn encode(&self, rows: Range<usize>, blocks: &mut Blocks<'_>) -> Result<()> {
        let (mut raw, mut count) = (Vec::with_capacity(BLOCK_BYTES.saturating_mul(2)), 0_usize);
        for row in rows {
            self.columns.iter().try_for_each(|column| column.put(row, &mut raw))?;
            count = count.saturating_add(1);
            if raw.len() >= BLOCK_BYTES {
                blocks.push(count, &raw)?;
                raw.clear();
                count = 0;
            }
        }
        if count > 0 {
            blocks.push(count, &raw)?;
        }
        Ok(())
    }
}

/// A column whose values are written.
struct Source<'a> {
    name: &'a str,
    is_optional: bool,
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    Null,
    Boolean(&'a BooleanArray),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Bytes(&'a [i32], &'a [u8]),
    Fixed(&'a FixedSizeBinaryArray),
    Decimal { values: &'a [i128], size: usize, limit: u128 },
    Record(Vec<Source<'a>>),
    List(&'a [i32], Box<Source<'a>>),
}

impl<'a> Source<'a> {
    fn new(field: &'a Field, array: &'a dyn Array, depth: usize) -> Result<Self> {
        if depth > DEEPEST {
            return Err(refused("a type is nested too deeply"));
        }
        let inner = depth.saturating_add(1);
        let values = match array.data_type() {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Boolean(array.as_boolean()),
            DataType::Int32 => Values::Int32(values::<Int32Type>(array)),
            DataType::Date32 => Values::Int32(values::<Date32Type>(array)),
            DataType::Time32(TimeUnit::Millisecond) => Values::Int32(values::<Time32MillisecondType>(array)),
            DataType::Time32(_) => Values::Int32(values::<Time32SecondType>(array)),
            DataType::Int64 => Values::Int64(values::<Int64Type>(array)),
            DataType::Time64(TimeUnit::Nanosecond) => Values::Int64(values::<Time64NanosecondType>(array)),
            DataType::Time64(_) => Values::Int64(values::<Time64MicrosecondType>(array)),
            DataType::Timestamp(TimeUnit::Second, _) => Values::Int64(values::<TimestampSecondType>(array)),
            DataType::Timestamp(TimeUnit::Millisecond, _) => Values::Int64(values::<TimestampMillisecondType>(array)),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Values::Int64(values::<TimestampMicrosecondType>(array)),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => Values::Int64(values::<TimestampNanosecondType>(array)),
            DataType::Float32 => Values::Float32(values::<Float32Type>(array)),
            DataType::Float64 => Values::Float64(values::<Float64Type>(array)),
            DataType::Utf8 => {
                let texts = array.as_string::<i32>();
                Values::Bytes(texts.value_offsets(), texts.value_data())
            }
            DataType::Binary => {
                let bytes = array.as_binary::<i32>();
                Values::Bytes(bytes.value_offsets(), bytes.value_data())
            }
            DataType::FixedSizeBinary(_) => Values::Fixed(array.as_fixed_size_binary()),
            DataType::Decimal128(precision, _) => {
                let limit = 10_u128.checked_pow((*precision).into()).unwrap_or(u128::MAX);
                Values::Decimal { values: values::<Decimal128Type>(array), size: size_of_decimal(limit), limit }
            }
            DataType::Struct(fields) => Values::Record(Self::children(fields, array.as_struct().columns(), inner)?),
            DataType::List(item) => {
                let lists = array.as_list::<i32>();
                let item = Self::new(item, lists.values(), inner)?;
                if item.is_empty() {
                    return Err(refused("the items of an array take no bytes"));
                }
                Values::List(lists.value_offsets(), Box::new(item))
            }
            DataType::Map(entries, _) => {
                let maps = array.as_map();
                Values::List(maps.value_offsets(), Box::new(Self::new(entries, maps.entries(), inner)?))
            }
            other => return Err(refused(format!("values of type {other} have no Avro encoding"))),
        };
        let is_optional = field.is_nullable() && !matches!(values, Values::Null);
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        Ok(Self { name: field.name(), is_optional, nulls, values })
    }

    fn children(fields: &'a Fields, arrays: &'a [arrow_array::ArrayRef], depth: usize) -> Result<Vec<Self>> {
        fields.iter().zip(arrays).map(|(field, array)| Self::new(field, array, depth)).collect()
    }

    /// Whether values take no bytes.
    fn is_empty(&self) -> bool {
        !self.is_optional
            && match &self.values {
                Values::Null => true,
                Values::Fixed(array) => array.value_length() == 0,
                Values::Record(children) => children.iter().all(Self::is_empty),
                _ => false,
            }
    }

    #[inline]
    fn put(&self, row: usize, out: &mut Vec<u8>) -> Read<()> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            if !self.is_optional {
                return Err(refused(format!("the required field {} is null", self.name)).into());
            }
            out.push(0);
            return Ok(());
        }
        if self.is_optional {
            out.push(2);
        }
        self.put_value(row, out)
    }

    fn put_value(&self, row: usize, out: &mut Vec<u8>) -> Read<()> {
        match &self.values {
            Values::Null => {}
            Values::Boolean(values) => out.push(u8::from(values.value(row))),
            Values::Int32(values) => put_long(out, at(values, row)?.into()),
            Values::Int64(values) => put_long(out, at(values, row)?),
            Values::Float32(values) => out.extend_from_slice(&at(values, row)?.to_le_bytes()),
            Values::Float64(values) => out.extend_from_slice(&at(values, row)?.to_le_bytes()),
            Values::Bytes(offsets, data) => {
                put_bytes(out, data.get(range(offsets, row)?).ok_or_else(damaged)?);
            }
            Values::Fixed(values) => out.extend_from_slice(values.value(row)),
            Values::Decimal { values, size, limit } => {
                let value = at(values, row)?;
                if value.unsigned_abs() >= *limit {
                    let message = format!("a decimal of {} has more digits than its type allows", self.name);
                    return Err(refused(message).into());
                }
                let bytes = value.to_be_bytes();
                out.extend_from_slice(bytes.get(bytes.len().saturating_sub(*size)..).unwrap_or_default());
            }
            Values::Record(children) => children.iter().try_for_each(|child| child.put(row, out))?,
            Values::List(offsets, item) => {
                let places = range(offsets, row)?;
                if !places.is_empty() {
                    put_count(out, places.len());
                    item.put_all(places, out)?;
                }
                out.push(0);
            }
        }
        Ok(())
    }

    /// Whether no value is null, nor marked as one that could be.
    fn is_plain(&self) -> bool {
        self.nulls.is_none() && !self.is_optional
    }

    /// Puts the items of a list. Those of the maps in manifests are pairs of an integer and an integer or bytes.
    fn put_all(&self, places: Range<usize>, out: &mut Vec<u8>) -> Read<()> {
        if let (true, Values::Record(children)) = (self.is_plain(), &self.values)
            && let [key, value] = children.as_slice()
            && let (true, true, Values::Int32(keys)) = (key.is_plain(), value.is_plain(), &key.values)
            && let Some(keys) = keys.get(places.clone())
        {
            match &value.values {
                Values::Int64(values) => {
                    let values = values.get(places).ok_or_else(damaged)?;
                    for (key, value) in keys.iter().zip(values) {
                        put_long(out, (*key).into());
                        put_long(out, *value);
                    }
                    return Ok(());
                }
                Values::Bytes(offsets, data) => {
                    for (key, place) in keys.iter().zip(places) {
                        put_long(out, (*key).into());
                        put_bytes(out, data.get(range(offsets, place)?).ok_or_else(damaged)?);
                    }
                    return Ok(());
                }
                _ => {}
            }
        }
        places.into_iter().try_for_each(|place| self.put(place, out))
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn values<T: ArrowPrimitiveType>(array: &dyn Array) -> &[T::Native] {
    array.as_primitive::<T>().values()
}

#[inline]
fn at<T: Copy>(values: &[T], row: usize) -> Read<T> {
    values.get(row).copied().ok_or_else(damaged)
}

/// The places of the items of a row.
#[inline]
fn range(offsets: &[i32], row: usize) -> Read<Range<usize>> {
    let place = |row: usize| offsets.get(row).and_then(|offset| usize::try_from(*offset).ok()).ok_or_else(damaged);
    Ok(place(row)?..place(row.saturating_add(1))?)
}

/// The number of bytes that hold every integer in two's complement whose absolute value is below a limit.
fn size_of_decimal(limit: u128) -> usize {
    let fits =
        |size: &u32| 1_u128.checked_shl(size.saturating_mul(8).saturating_sub(1)).is_none_or(|most| limit <= most);
    (1..16_u32).find(fits).and_then(|size| usize::try_from(size).ok()).unwrap_or(16)
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    put_long(out, i64::try_from(count).unwrap_or(i64::MAX));
}

/// Appends a zigzag varint.
#[inline]
fn put_long(out: &mut Vec<u8>, value: i64) {
    let rest = (value.wrapping_shl(1) ^ (value >> 63)).cast_unsigned();
    if rest < 0x80 {
        out.push((rest & 0x7f) as u8);
    } else {
        put_varint(out, rest);
    }
}

fn put_varint(out: &mut Vec<u8>, value: u64) {
    let (mut bytes, mut count, mut rest) = ([0_u8; 10], 0_usize, value);
    for byte in &mut bytes {
        *byte = (rest & 0x7f) as u8;
        count = count.saturating_add(1);
        rest >>= 7;
        if rest == 0 {
            break;
        }
        *byte |= 0x80;
    }
    out.extend_from_slice(bytes.get(..count).unwrap_or_default());
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

#[cold]
fn damaged() -> Flaw {
    refused("the offsets of an array point outside of its values").into()
}
