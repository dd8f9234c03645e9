//! Theta sketches of the Alpha family, which estimate how many distinct values a column has (Puffin spec,
//! "apache-datasketches-theta-v1").
//!
//! A sketch is passed as its compact bytes, which hold all that it knows: a bound, theta, and the hashes below it.

use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, FixedSizeBinaryArray};
use arrow_schema::DataType;

use crate::error::{Error, ErrorKind, Result};

/// How many hashes a sketch keeps before it estimates.
const NOMINAL: usize = 4096;
/// What a new value multiplies theta by, once a sketch estimates.
const ALPHA: f64 = 4096.0 / 4097.0;
/// Theta of a sketch that holds the hashes of all values.
const EXACT: u64 = i64::MAX.cast_unsigned();
const SEED: u64 = 9001;
const SEED_HASH: [u8; 2] = [0xcc, 0x93];
/// The version of the layout, and the family of compact sketches.
const VERSION_AND_FAMILY: [u8; 2] = [3, 3];
/// Read-only, compact and ordered.
const FLAGS: u8 = 0b01_1010;
const IS_EMPTY: u8 = 0b00_0100;
const IS_SINGLE: u8 = 0b10_0000;
/// The share of values whose hashes are kept, as a float of 32 bits: all of them.
const SAMPLED: [u8; 4] = 1_f32.to_le_bytes();

/// Adds values to a sketch, in their order. Nulls and values without bytes are passed over.
///
/// # Errors
/// `InvalidArgument` if values are neither bytes nor text, or if the bytes of the sketch are none of a compact sketch. No
/// bytes stand for a sketch without values.
pub fn update_sketch(sketch: &[u8], values: &dyn Array) -> Result<Vec<u8>> {
    let mut sketch = Sketch::read(sketch)?;
    match values.data_type() {
        DataType::Binary => sketch.add_all::<BinaryType>(values),
        DataType::LargeBinary => sketch.add_all::<LargeBinaryType>(values),
        DataType::Utf8 => sketch.add_all::<Utf8Type>(values),
        DataType::LargeUtf8 => sketch.add_all::<LargeUtf8Type>(values),
        DataType::FixedSizeBinary(_) => {
            let values: &FixedSizeBinaryArray = values.as_fixed_size_binary();
            values.iter().flatten().for_each(|value| sketch.add(value));
        }
        other => {
            let message = format!("values of type {other} are neither bytes nor text");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
    }
    Ok(sketch.to_bytes())
}

/// Returns the sketch of the values of all sketches: of their hashes, the least ones below the least bound.
///
/// # Errors
/// `InvalidArgument` if the bytes of one are none of a compact sketch.
pub fn unite_sketches(sketches: &[&[u8]]) -> Result<Vec<u8>> {
    let mut all = Sketch::read(&[])?;
    for bytes in sketches {
        let sketch = Sketch::read(bytes)?;
        all.theta = all.theta.min(sketch.theta);
        all.is_empty &= sketch.is_empty;
        all.hashes.extend(sketch.hashes);
    }
    let mut hashes: Vec<u64> = all.hashes.iter().copied().filter(|hash| *hash < all.theta).collect();
    if let Some((_, theta, _)) = (hashes.len() > NOMINAL).then(|| hashes.select_nth_unstable(NOMINAL)) {
        all.theta = *theta;
    }
    Ok(all.to_bytes())
}

/// A bound, and hashes. Those that are not below the bound count no more.
struct Sketch {
    theta: u64,
    hashes: HashSet<u64>,
    is_empty: bool,
}

impl Sketch {
    fn read(bytes: &[u8]) -> Result<Self> {
        let refused = || Error::new(ErrorKind::InvalidArgument, "these are not the bytes of a compact theta sketch");
        if bytes.is_empty() {
            return Ok(Self { theta: EXACT, hashes: HashSet::new(), is_empty: true });
        }
        let (words, rest) = bytes.as_chunks::<8>();
        let (Some(([longs, version, family, _, _, flags, seed @ ..], words)), []) = (words.split_first(), rest) else {
            return Err(refused());
        };
        let is_empty = flags & IS_EMPTY != 0;
        if [*version, *family] != VERSION_AND_FAMILY || (*seed != SEED_HASH && !is_empty) {
            return Err(refused());
        }
        let (count, theta, words) = match (longs, words) {
            (1, words) => (usize::from(!is_empty), EXACT, words),
            (2, [count, words @ ..]) => (count_of(*count), EXACT, words),
            (3, [count, theta, words @ ..]) => (count_of(*count), u64::from_le_bytes(*theta), words),
            _ => return Err(refused()),
        };
        let hashes: HashSet<u64> =
            words.iter().map(|word| u64::from_le_bytes(*word)).filter(|hash| (1..theta).contains(hash)).collect();
        let is_whole =
            hashes.len() == count && words.len() == count && theta <= EXACT && (theta < EXACT || count <= NOMINAL);
        is_whole.then_some(Self { theta, hashes, is_empty }).ok_or_else(refused)
    }

    fn add_all<T: ByteArrayType>(&mut self, values: &dyn Array) {
        let values = values.as_bytes::<T>();
        values.iter().flatten().for_each(|value| self.add(value.as_ref()));
    }

    fn add(&mut self, value: &[u8]) {
        if value.is_empty() {
            return;
        }
        self.is_empty = false;
        let hash = hash(value) >> 1;
        if hash == 0 || hash >= self.theta || !self.hashes.insert(hash) {
            return;
        }
        if self.theta < EXACT || self.hashes.len() > NOMINAL {
            self.lower_theta();
        }
        if self.hashes.len() > 2 * NOMINAL {
            self.hashes.retain(|hash| *hash < self.theta);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "the family rounds so")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a positive number is less")]
    const fn lower_theta(&mut self) {
        self.theta = (self.theta as f64 * ALPHA) as u64;
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut hashes: Vec<u64> = self.hashes.iter().copied().filter(|hash| *hash < self.theta).collect();
        hashes.sort_unstable();
        let is_exact = self.theta == EXACT;
        let (longs, flags) = match hashes.len() {
            0 if self.is_empty => (1, FLAGS | IS_EMPTY),
            1 if is_exact => (1, FLAGS | IS_SINGLE),
            _ if is_exact => (2, FLAGS),
            _ => (3, FLAGS),
        };
        let [version, family] = VERSION_AND_FAMILY;
        let mut bytes = vec![longs, version, family, 0, 0, flags];
        bytes.extend(if self.is_empty { [0, 0] } else { SEED_HASH });
        if longs > 1 {
            bytes.extend(u32::try_from(hashes.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend(SAMPLED);
        }
        if longs > 2 {
            bytes.extend(self.theta.to_le_bytes());
        }
        bytes.extend(hashes.iter().flat_map(|hash| hash.to_le_bytes()));
        bytes
    }
}

fn count_of(word: [u8; 8]) -> usize {
    let [first, second, third, fourth, ..] = word;
    usize::try_from(u32::from_le_bytes([first, second, third, fourth])).unwrap_or(usize::MAX)
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// The first half of the 128-bit murmur3 hash for x64.
fn hash(bytes: &[u8]) -> u64 {
    let (blocks, tail) = bytes.as_chunks::<16>();
    let (mut one, mut two) = (SEED, SEED);
    for block in blocks {
        let (low, high) = halves(*block);
        one = (one ^ scramble_low(low)).rotate_left(27).wrapping_add(two).wrapping_mul(5).wrapping_add(0x52dc_e729);
        two = (two ^ scramble_high(high)).rotate_left(31).wrapping_add(one).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    // A missing byte counts as zero, and a tail of zeros leaves the hash as it is.
    let mut last = [0; 16];
    for (slot, byte) in last.iter_mut().zip(tail) {
        *slot = *byte;
    }
    let (low, high) = halves(last);
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    one ^= scramble_low(low) ^ length;
    two ^= scramble_high(high) ^ length;
    one = one.wrapping_add(two);
    two = two.wrapping_add(one);
    spread(one).wrapping_add(spread(two))
}

const fn halves(block: [u8; 16]) -> (u64, u64) {
    let whole = u128::from_le_bytes(block);
    #[expect(clippy::cast_possible_truncation, reason = "each half has 64 bits")]
    let halves = (whole as u64, (whole >> 64) as u64);
    halves
}

const fn scramble_low(word: u64) -> u64 {
    word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

const fn scramble_high(word: u64) -> u64 {
    word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

const fn spread(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
