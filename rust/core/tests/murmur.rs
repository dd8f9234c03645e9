//! Hashes against the crate `murmur3`, over the bytes that Iceberg's rules ask for.

use arrow_array::{
    Array, BinaryArray, BooleanArray, Date64Array, Decimal128Array, FixedSizeBinaryArray, Float32Array, Float64Array,
    Int32Array, Int64Array, StringArray, TimestampNanosecondArray,
};
use deltaberg_core::murmur::{bucket, hash32};
use deltaberg_core::{Error, ErrorKind};

/// Numbers of all magnitudes, from a fixed sequence.
fn numbers(count: usize) -> impl Iterator<Item = u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> (state & 63)
    })
}

fn oracle(bytes: &[u8]) -> i32 {
    murmur3::murmur3_32(&mut &*bytes, 0).map_or(0, u32::cast_signed)
}

fn check(values: &dyn Array, expected: &[i32]) -> Result<(), Error> {
    assert_eq!(hash32(values, 1)?.values().as_ref(), expected, "{}", values.data_type());
    for buckets in [1, 7, 16, i64::from(i32::MAX)] {
        let found = bucket(values, buckets, 3)?;
        let numbers: Vec<i64> = found.values().iter().copied().map(i64::from).collect();
        let wanted: Vec<i64> = expected.iter().map(|hash| i64::from(hash & i32::MAX).rem_euclid(buckets)).collect();
        assert_eq!(numbers, wanted, "{} into {buckets}", values.data_type());
    }
    Ok(())
}

#[test]
fn numbers_as_longs() -> Result<(), Error> {
    // More than one piece for each of the threads.
    let longs: Vec<i64> = numbers(200_000).map(u64::cast_signed).collect();
    let expected: Vec<i32> = longs.iter().map(|value| oracle(&value.to_le_bytes())).collect();
    check(&Int64Array::from(longs.clone()), &expected)?;
    #[expect(clippy::cast_possible_truncation, reason = "any int will do")]
    let ints: Vec<i32> = longs.iter().take(1000).map(|value| *value as i32).collect();
    let expected: Vec<i32> = ints.iter().map(|value| oracle(&i64::from(*value).to_le_bytes())).collect();
    check(&Int32Array::from(ints), &expected)?;
    let nanos = vec![-1, 0, 999, 1000, -1000, -1001, i64::MIN, i64::MAX];
    let expected: Vec<i32> = nanos.iter().map(|value: &i64| oracle(&value.div_euclid(1000).to_le_bytes())).collect();
    check(&TimestampNanosecondArray::from(nanos), &expected)
}

#[test]
fn bytes_of_every_length() -> Result<(), Error> {
    let source: Vec<u8> = numbers(400).map(|number| number.to_le_bytes()[0]).collect();
    let slices: Vec<&[u8]> = (0..300).filter_map(|length| source.get(length % 7..length % 7 + length)).collect();
    assert_eq!(slices.len(), 300);
    let expected: Vec<i32> = slices.iter().map(|bytes| oracle(bytes)).collect();
    check(&BinaryArray::from(slices.clone()), &expected)?;
    let texts: Vec<String> = numbers(5000).map(|number| "日é😀a".repeat((number & 15) as usize) + "z").collect();
    let expected: Vec<i32> = texts.iter().map(|text| oracle(text.as_bytes())).collect();
    check(&StringArray::from(texts), &expected)?;
    let uuids: Vec<[u8; 16]> = numbers(100).map(|number| u128::from(number).rotate_left(37).to_be_bytes()).collect();
    let expected: Vec<i32> = uuids.iter().map(|bytes| oracle(bytes)).collect();
    check(&FixedSizeBinaryArray::try_from_iter(uuids.iter())?, &expected)
}

#[test]
fn decimals_of_every_width() -> Result<(), Error> {
    let mut values = vec![0, -1];
    for bits in 1..=126 {
        let power = 1_i128 << bits;
        values.extend([power - 1, power, -power, -power - 1]);
    }
    let shortest = |value: &i128| {
        let mut bytes = value.to_be_bytes().to_vec();
        while matches!(bytes.as_slice(), [0, 0..0x80, ..] | [0xff, 0x80..=0xff, ..]) {
            bytes.remove(0);
        }
        bytes
    };
    assert_eq!(shortest(&128), [0, 0x80]);
    assert_eq!(shortest(&-129), [0xff, 0x7f]);
    let expected: Vec<i32> = values.iter().map(|value| oracle(&shortest(value))).collect();
    check(&Decimal128Array::from(values), &expected)
}

#[test]
fn nulls_and_slices() -> Result<(), Error> {
    let longs = Int64Array::from(vec![Some(1), None, Some(34), None]);
    let found = hash32(&longs.slice(1, 3), 1)?;
    assert_eq!(found, Int32Array::from(vec![None, Some(2_017_239_379), None]));
    Ok(())
}

#[test]
fn what_is_hashed_and_has_no_bucket() -> Result<(), Error> {
    let booleans = BooleanArray::from(vec![false, true]);
    let of_longs = [0_i64, 1].map(|value| oracle(&value.to_le_bytes()));
    assert_eq!(hash32(&booleans, 1)?.values().as_ref(), of_longs);
    let other_nan = f64::from_bits(0xfff0_0000_0000_0001);
    let doubles = Float64Array::from(vec![1.5, f64::MIN_POSITIVE, f64::NEG_INFINITY, 0.0, -0.0, f64::NAN, other_nan]);
    let bits = [0x3ff8_u64 << 48, 1 << 52, 0xfff0 << 48, 0, 0, 0x7ff8 << 48, 0x7ff8 << 48];
    assert_eq!(hash32(&doubles, 1)?.values().as_ref(), bits.map(|bits| oracle(&bits.to_le_bytes())));
    let floats = Float32Array::from(vec![1.5, -0.0, f32::NAN]);
    let bits = [0x3ff8_u64 << 48, 0, 0x7ff8 << 48];
    assert_eq!(hash32(&floats, 1)?.values().as_ref(), bits.map(|bits| oracle(&bits.to_le_bytes())));
    let arrays: [&dyn Array; 3] = [&booleans, &doubles, &floats];
    for values in arrays {
        assert_eq!(bucket(values, 4, 1).err().map(|error| error.kind()), Some(ErrorKind::InvalidArgument));
    }
    Ok(())
}

#[test]
fn what_is_refused() {
    let millis = Date64Array::from(vec![1]);
    assert_eq!(hash32(&millis, 1).err().map(|error| error.kind()), Some(ErrorKind::InvalidArgument));
    assert_eq!(bucket(&millis, 4, 1).err().map(|error| error.kind()), Some(ErrorKind::InvalidArgument));
    let longs = Int64Array::from(vec![1]);
    for buckets in [0, -1, 1 << 31, i64::MIN] {
        let refused = bucket(&longs, buckets, 1).err();
        assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::InvalidArgument));
    }
}
