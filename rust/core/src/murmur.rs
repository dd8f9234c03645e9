//! Hashes and buckets of values: 32-bit murmur3 for x86 with seed 0 (Iceberg, "Appendix B: 32-bit
//! Hash Requirements" and "Bucket Transform Details").

use std::num::NonZero;

use arrow_array::types::{
    ArrowPrimitiveType, BinaryType, ByteArrayType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type,
    Int64Type, LargeBinaryType, LargeUtf8Type, Time64MicrosecondType, TimestampMicrosecondType,
    TimestampNanosecondType, Utf8Type,
};
use arrow_array::{Array, BooleanArray, FixedSizeBinaryArray, GenericByteArray, Int32Array, PrimitiveArray};
use arrow_buffer::ArrowNativeType;
use arrow_schema::{DataType, TimeUnit};

use crate::error::{Error, ErrorKind, Result};
use crate::parallel;

/// Returns the hash of every value. The hash of null is null.
///
/// Integers, dates, times and timestamps are hashed as eight bytes, timestamps in microseconds;
/// decimals as the fewest bytes that hold the unscaled value, highest first. Booleans and floating
/// point numbers have hashes too, but no buckets.
///
/// # Errors
/// `InvalidArgument` if values of the type cannot be hashed.
pub fn hash32(values: &dyn Array, threads: usize) -> Result<Int32Array> {
    each(values, hasher_of(values).or_else(|| hasher_without_buckets(values)), threads, |_| {})
}

/// Returns the bucket of every value, from 0 to `buckets` - 1. The bucket of null is null.
///
/// # Errors
/// `InvalidArgument` if values of the type cannot be hashed, or if `buckets` is not a positive 32-bit
/// number.
pub fn bucket(values: &dyn Array, buckets: i64, threads: usize) -> Result<Int32Array> {
    let count = i32::try_from(buckets).ok().and_then(|count| NonZero::new(u64::try_from(count).ok()?));
    let count = count.ok_or_else(|| {
        Error::new(ErrorKind::InvalidArgument, "the number of buckets must be from 1 to 2147483647")
            .with("buckets", buckets)
    })?;
    let remainder = remainder_of(count);
    each(values, hasher_of(values), threads, |hashes| {
        for hash in hashes {
            // The sign bit is cleared first: neither abs nor a signed remainder has the same result.
            *hash = remainder(hash.cast_unsigned() & 0x7fff_ffff);
        }
    })
}

/// Computes a remainder by multiplication, since division takes as long as the hash (Lemire, Kaser and Kurz, "Faster
/// Remainder by Direct Computation", 2019). Exact for all divisors and dividends of 32 bits.
fn remainder_of(divisor: NonZero<u64>) -> impl Fn(u32) -> i32 {
    let inverse = (u64::MAX / divisor).wrapping_add(1);
    move |dividend| {
        let fraction = inverse.wrapping_mul(dividend.into());
        let product = u128::from(fraction).wrapping_mul(divisor.get().into());
        #[expect(clippy::cast_possible_truncation, reason = "the remainder is less than the divisor, which fits")]
        let remainder = (product >> 64) as i32;
        remainder
    }
}

/// Hashes every value, and lets `finish` change the hashes of each piece while they are in the cache.
fn each(
    values: &dyn Array,
    by: Option<Hasher<'_>>,
    threads: usize,
    finish: impl Fn(&mut [i32]) + Sync,
) -> Result<Int32Array> {
    let hash = by.ok_or_else(|| {
        Error::new(ErrorKind::InvalidArgument, format!("values of type {} cannot be hashed", values.data_type()))
    })?;
    let hashes = parallel::fill(values.len(), threads, |start, piece| {
        hash(start, piece);
        finish(piece);
    });
    Ok(Int32Array::try_new(hashes.into(), values.nulls().cloned())?)
}

/// Writes the hashes of the values from `first` on.
type Hasher<'a> = Box<dyn Fn(usize, &mut [i32]) + Sync + 'a>;

fn hasher_of(values: &dyn Array) -> Option<Hasher<'_>> {
    match values.data_type() {
        DataType::Int32 => primitives::<Int32Type>(values, |value| hash_long(value.into())),
        DataType::Date32 => primitives::<Date32Type>(values, |value| hash_long(value.into())),
        DataType::Int64 => primitives::<Int64Type>(values, hash_long),
        DataType::Time64(TimeUnit::Microsecond) => primitives::<Time64MicrosecondType>(values, hash_long),
        DataType::Timestamp(TimeUnit::Microsecond, _) => primitives::<TimestampMicrosecondType>(values, hash_long),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            primitives::<TimestampNanosecondType>(values, |value| hash_long(value.div_euclid(1000)))
        }
        DataType::Decimal128(_, _) => primitives::<Decimal128Type>(values, hash_unscaled),
        DataType::Utf8 => bytes::<Utf8Type>(values),
        DataType::LargeUtf8 => bytes::<LargeUtf8Type>(values),
        DataType::Binary => bytes::<BinaryType>(values),
        DataType::LargeBinary => bytes::<LargeBinaryType>(values),
        DataType::FixedSizeBinary(_) => fixed(values),
        _ => None,
    }
}

/// Hashes the types that have hashes but no buckets.
fn hasher_without_buckets(values: &dyn Array) -> Option<Hasher<'_>> {
    match values.data_type() {
        DataType::Boolean => booleans(values),
        DataType::Float32 => primitives::<Float32Type>(values, |value| hash_double(value.into())),
        DataType::Float64 => primitives::<Float64Type>(values, hash_double),
        _ => None,
    }
}

fn booleans(values: &dyn Array) -> Option<Hasher<'_>> {
    let values: &BooleanArray = values.as_any().downcast_ref()?;
    Some(Box::new(move |start, hashes| {
        for (slot, index) in hashes.iter_mut().zip(start..) {
            *slot = hash_long(values.value(index).into());
        }
    }))
}

fn primitives<T: ArrowPrimitiveType>(
    values: &dyn Array,
    hash: impl Fn(T::Native) -> i32 + Sync + 'static,
) -> Option<Hasher<'_>> {
    let values: &PrimitiveArray<T> = values.as_any().downcast_ref()?;
    Some(Box::new(move |start, hashes| {
        let values = values.values().get(start..).unwrap_or_default();
        for (slot, value) in hashes.iter_mut().zip(values) {
            *slot = hash(*value);
        }
    }))
}

fn bytes<T: ByteArrayType>(values: &dyn Array) -> Option<Hasher<'_>> {
    let values: &GenericByteArray<T> = values.as_any().downcast_ref()?;
    let (offsets, data) = (values.value_offsets(), values.value_data());
    Some(Box::new(move |start, hashes| {
        let Some((first, ends)) = offsets.get(start..).and_then(<[_]>::split_first) else { return };
        let mut start = first.as_usize();
        for (slot, end) in hashes.iter_mut().zip(ends) {
            let end = end.as_usize();
            *slot = hash_bytes(data.get(start..end).unwrap_or_default());
            start = end;
        }
    }))
}

fn fixed(values: &dyn Array) -> Option<Hasher<'_>> {
    let values: &FixedSizeBinaryArray = values.as_any().downcast_ref()?;
    Some(Box::new(move |start, hashes| {
        for (slot, index) in hashes.iter_mut().zip(start..) {
            *slot = hash_bytes(values.value(index));
        }
    }))
}

/// Hashes a number as its eight bytes, lowest first.
fn hash_long(value: i64) -> i32 {
    hash_bytes(&value.to_le_bytes())
}

/// Hashes the bits of a number; both zeros have the same hash, and so have all NaN.
fn hash_double(value: f64) -> i32 {
    // The sum of -0 and 0 is 0.
    let bits = if value.is_nan() { 0x7ff8_0000_0000_0000 } else { (value + 0.0).to_bits() };
    hash_long(bits.cast_signed())
}

/// Hashes a number as the fewest bytes that hold it and its sign, highest first.
fn hash_unscaled(value: i128) -> i32 {
    // All bits of `value` that are not copies of the sign are in `magnitude`.
    let magnitude = if value < 0 { !value } else { value };
    let spare = magnitude.leading_zeros().saturating_sub(1) / 8;
    let bytes = value.to_be_bytes();
    hash_bytes(usize::try_from(spare).ok().and_then(|spare| bytes.get(spare..)).unwrap_or_default())
}

#[inline]
fn hash_bytes(bytes: &[u8]) -> i32 {
    let (blocks, tail) = bytes.as_chunks();
    let hash = blocks.iter().fold(0, |hash, block| mix(hash, u32::from_le_bytes(*block)));
    // A missing byte counts as zero, and a tail of zeros leaves the hash as it is.
    let last = match *tail {
        [a, b, c] => u32::from_le_bytes([a, b, c, 0]),
        [a, b] => u32::from_le_bytes([a, b, 0, 0]),
        [a] => a.into(),
        _ => 0,
    };
    #[expect(clippy::cast_possible_truncation, reason = "murmur3 takes the length modulo 2^32")]
    let length = bytes.len() as u32;
    spread(hash ^ scramble(last) ^ length)
}

const fn scramble(block: u32) -> u32 {
    block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

const fn mix(hash: u32, block: u32) -> u32 {
    (hash ^ scramble(block)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

const fn spread(hash: u32) -> i32 {
    let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    (hash ^ (hash >> 16)).cast_signed()
}
