//! The metrics in Iceberg manifests are maps from a field id to a bound or a count. They become one
//! column per wanted field (Iceberg, "Manifests" and "Appendix D: Single-value serialization").

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, Int32Array, Int64Array, MapArray, PrimitiveArray,
    RecordBatch, RecordBatchOptions, StringArray,
};
use arrow_schema::{Field, Schema};

use crate::error::{Error, ErrorKind, Result, quoted};
use crate::parallel;
use crate::values::PrimitiveType;

const MICROS_PER_DAY: i64 = 86_400_000_000;
const NANOS_PER_DAY: i64 = 86_400_000_000_000;

/// A type that has bounds, by its name in an Iceberg schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundType {
    /// `boolean`
    Boolean,
    /// `int`
    Int,
    /// `long`
    Long,
    /// `float`
    Float,
    /// `double`
    Double,
    /// `decimal(precision,scale)`
    Decimal(u8, u8),
    /// `date`
    Date,
    /// `time`
    Time,
    /// `timestamp`
    Timestamp,
    /// `timestamptz`
    Timestamptz,
    /// `timestamp_ns`
    TimestampNs,
    /// `timestamptz_ns`
    TimestamptzNs,
    /// `string`
    String,
    /// `binary`
    Binary,
    /// `fixed[length]`, and `uuid` as `fixed[16]`
    Fixed(i32),
}

impl BoundType {
    /// The type of this name.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no type of this name, or it has no bounds.
    pub fn from_name(name: &str) -> Result<Self> {
        Ok(match name {
            "boolean" => Self::Boolean,
            "int" => Self::Int,
            "long" => Self::Long,
            "float" => Self::Float,
            "double" => Self::Double,
            "date" => Self::Date,
            "time" => Self::Time,
            "timestamp" => Self::Timestamp,
            "timestamptz" => Self::Timestamptz,
            "timestamp_ns" => Self::TimestampNs,
            "timestamptz_ns" => Self::TimestamptzNs,
            "string" => Self::String,
            "binary" => Self::Binary,
            "uuid" => Self::Fixed(16),
            _ => {
                let decimal = || match PrimitiveType::from_name(name) {
                    Ok(PrimitiveType::Decimal(precision, scale)) => Some(Self::Decimal(precision, scale)),
                    _ => None,
                };
                let unknown =
                    || Error::new(ErrorKind::InvalidArgument, format!("{} is not a type with bounds", quoted(name)));
                return fixed_of(name).or_else(decimal).ok_or_else(unknown);
            }
        })
    }
}

fn fixed_of(name: &str) -> Option<BoundType> {
    let digits = name.strip_prefix("fixed[")?.strip_suffix(']')?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.len() <= 10;
    let length: i32 = digits.parse().ok().filter(|_| plain)?;
    (length > 0).then_some(BoundType::Fixed(length))
}

/// Returns the bounds of `fields` (id, type) from a map of int32 to bytes, as a typed column per
/// field, named by its id.
///
/// A missing key, a null, bytes that are not a value of the type, and NaN become null, because an
/// unknown bound is always safe. The length of a value tells whether it was written before the
/// column's type was promoted.
///
/// # Errors
/// `InvalidArgument` if the map is not one of int32 to bytes; `TooLarge` if a
/// column of fixed length would not fit into memory.
pub fn parse_bounds(maps: &MapArray, fields: &[(i32, BoundType)], threads: usize) -> Result<RecordBatch> {
    let values: &BinaryArray = maps.values().as_any().downcast_ref().ok_or_else(|| not_a_map("bytes as values"))?;
    let columns = fields.iter().map(|(id, kind)| {
        let cells = members(maps, *id, threads, |place| values.is_valid(place).then(|| values.value(place)))?;
        Ok((*id, column(*kind, &cells)?))
    });
    batch(maps.len(), columns.collect::<Result<_>>()?)
}

/// Returns the counts of `ids` from a map of int32 to int64, as a column per field, named by its id.
/// A missing key becomes null.
///
/// # Errors
/// `InvalidArgument` if the map is not one of int32 to int64.
pub fn parse_counts(maps: &MapArray, ids: &[i32], threads: usize) -> Result<RecordBatch> {
    let values: &Int64Array = maps.values().as_any().downcast_ref().ok_or_else(|| not_a_map("int64 as values"))?;
    let columns = ids.iter().map(|id| {
        let cells = members(maps, *id, threads, |place| values.is_valid(place).then(|| values.value(place)))?;
        Ok((*id, Arc::new(Int64Array::from(cells)) as ArrayRef))
    });
    batch(maps.len(), columns.collect::<Result<_>>()?)
}

/// What `read` finds under a key in every row. If a row has the key twice, the last entry counts.
fn members<T: Copy + Send>(
    maps: &MapArray,
    id: i32,
    threads: usize,
    read: impl Fn(usize) -> Option<T> + Sync,
) -> Result<Vec<Option<T>>> {
    let keys: &Int32Array = maps.keys().as_any().downcast_ref().ok_or_else(|| not_a_map("int32 as keys"))?;
    let (keys, offsets) = (keys.values(), maps.value_offsets());
    Ok(parallel::fill(maps.len(), threads, |first, cells: &mut [Option<T>]| {
        for (row, cell) in (first..).zip(cells) {
            let end = |row: usize| offsets.get(row).and_then(|offset| usize::try_from(*offset).ok()).unwrap_or(0);
            let start = end(row);
            let entries = keys.get(start..end(row.saturating_add(1))).filter(|_| maps.is_valid(row));
            let place = entries.unwrap_or_default().iter().rposition(|key| *key == id);
            *cell = place.and_then(|place| read(start.saturating_add(place)));
        }
    }))
}

fn batch(rows: usize, columns: Vec<(i32, ArrayRef)>) -> Result<RecordBatch> {
    let field = |(id, array): &(i32, ArrayRef)| Field::new(id.to_string(), array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
}

type Cells<'a> = [Option<&'a [u8]>];

fn column(kind: BoundType, cells: &Cells<'_>) -> Result<ArrayRef> {
    Ok(match kind {
        BoundType::Boolean => Arc::new(cells.iter().map(|cell| cell.and_then(boolean)).collect::<BooleanArray>()),
        BoundType::Int => Arc::new(primitives::<Int32Type>(cells, int)),
        BoundType::Long => Arc::new(primitives::<Int64Type>(cells, |bytes| long(bytes).or(int(bytes).map(i64::from)))),
        BoundType::Float => Arc::new(primitives::<Float32Type>(cells, float)),
        BoundType::Double => {
            Arc::new(primitives::<Float64Type>(cells, |bytes| double(bytes).or(float(bytes).map(f64::from))))
        }
        BoundType::Decimal(precision, scale) => {
            let column = primitives::<Decimal128Type>(cells, |bytes| decimal(bytes, precision));
            Arc::new(column.with_precision_and_scale(precision, scale.cast_signed())?)
        }
        BoundType::Date => Arc::new(primitives::<Date32Type>(cells, int)),
        BoundType::Time => Arc::new(primitives::<Time64MicrosecondType>(cells, time)),
        BoundType::Timestamp => {
            let micros = |bytes: &[u8]| long(bytes).or_else(|| days(bytes, MICROS_PER_DAY));
            Arc::new(primitives::<TimestampMicrosecondType>(cells, micros))
        }
        BoundType::TimestampNs => {
            let nanos = |bytes: &[u8]| long(bytes).or_else(|| days(bytes, NANOS_PER_DAY));
            Arc::new(primitives::<TimestampNanosecondType>(cells, nanos))
        }
        BoundType::Timestamptz => Arc::new(primitives::<TimestampMicrosecondType>(cells, long).with_timezone("UTC")),
        BoundType::TimestamptzNs => Arc::new(primitives::<TimestampNanosecondType>(cells, long).with_timezone("UTC")),
        BoundType::String => {
            let texts = cells.iter().map(|cell| cell.and_then(|bytes| std::str::from_utf8(bytes).ok()));
            Arc::new(texts.collect::<StringArray>())
        }
        BoundType::Binary => Arc::new(cells.iter().copied().collect::<BinaryArray>()),
        BoundType::Fixed(length) => Arc::new(fixed(cells, length)?),
    })
}

fn primitives<T: ArrowPrimitiveType>(
    cells: &Cells<'_>,
    decode: impl Fn(&[u8]) -> Option<T::Native>,
) -> PrimitiveArray<T> {
    cells.iter().map(|cell| cell.and_then(&decode)).collect()
}

fn boolean(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [byte] => Some(*byte != 0),
        _ => None,
    }
}

fn int(bytes: &[u8]) -> Option<i32> {
    bytes.try_into().ok().map(i32::from_le_bytes)
}

fn long(bytes: &[u8]) -> Option<i64> {
    bytes.try_into().ok().map(i64::from_le_bytes)
}

fn float(bytes: &[u8]) -> Option<f32> {
    bytes.try_into().ok().map(f32::from_le_bytes).filter(|value| !value.is_nan())
}

fn double(bytes: &[u8]) -> Option<f64> {
    bytes.try_into().ok().map(f64::from_le_bytes).filter(|value| !value.is_nan())
}

/// A date whose column was promoted to a timestamp with `units` per day.
fn days(bytes: &[u8], units: i64) -> Option<i64> {
    int(bytes).and_then(|days| i64::from(days).checked_mul(units))
}

fn time(bytes: &[u8]) -> Option<i64> {
    long(bytes).filter(|micros| (0..MICROS_PER_DAY).contains(micros))
}

fn decimal(bytes: &[u8], precision: u8) -> Option<i128> {
    let filler = if bytes.first()? & 0x80 == 0 { 0 } else { u8::MAX };
    let mut wide = [filler; 16];
    wide.get_mut(16_usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    let unscaled = i128::from_be_bytes(wide);
    let limit = 10_u128.checked_pow(precision.into())?;
    (unscaled.unsigned_abs() < limit).then_some(unscaled)
}

fn fixed(cells: &Cells<'_>, length: i32) -> Result<FixedSizeBinaryArray> {
    let size = usize::try_from(length).unwrap_or(0);
    let total = size.checked_mul(cells.len()).and_then(|total| i32::try_from(total).ok());
    if total.is_none() {
        let message = format!("a column of {} values of {length} bytes is too large", cells.len());
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    let cells = cells.iter().map(|cell| cell.filter(|bytes| bytes.len() == size));
    Ok(FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells, length)?)
}

fn not_a_map(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("the map must have {what}"))
}
