//! Positions and keep-masks, straight from the portable bytes.

use arrow_array::UInt64Array;
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, ScalarBuffer};

use super::portable::{self, Bucket, Buckets, Container, run_bounds};
use crate::error::{Error, ErrorKind, Result};

/// How many bits of a position are below its container key.
const CONTAINER_BITS: u32 = 16;

/// Returns all positions of a portable bitmap in ascending order.
///
/// They are counted first: a few bytes of runs name billions of positions.
///
/// # Errors
/// `CorruptDeletionVector` if the bytes do not come from `unframe`; `TooLarge` if there are more than `most` positions.
pub fn positions(data: &[u8], most: u64) -> Result<UInt64Array> {
    let count = portable::check(data)?;
    if count > most {
        let message = format!("a bitmap has {count} positions, and at most {most} are read at once");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    let mut values = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    let mut buckets = Buckets::new(data)?;
    while let Some((key, bucket)) = buckets.next()? {
        for index in 0..bucket.len() {
            let base = base_of(key, bucket.key(index).unwrap_or(0));
            push_positions(bucket.container(index)?, base, &mut values);
        }
    }
    Ok(UInt64Array::new(ScalarBuffer::from(values), None))
}

fn push_positions(container: Container<'_>, base: u64, values: &mut Vec<u64>) {
    match container {
        Container::Array(array) => {
            values.extend(array.iter().map(|value| base | u64::from(u16::from_le_bytes(*value))));
        }
        Container::Runs(runs) => {
            for run in runs {
                let (first, last) = run_bounds(*run);
                values.extend((first..=last).map(|value| base | u64::from(value)));
            }
        }
        Container::Bits(bytes) => {
            let (words, _) = bytes.as_chunks::<8>();
            for (index, word) in (0_u64..).zip(words) {
                let mut word = u64::from_le_bytes(*word);
                while word != 0 {
                    values.push(base | index << 6 | u64::from(word.trailing_zeros()));
                    word &= word.wrapping_sub(1);
                }
            }
        }
    }
}

/// Returns a bit for each of `length` rows from row `start` on, set if the bitmap does not contain the row.
///
/// The cost depends on the bits written and the positions in the range, not on the size of the
/// bitmap: buckets and containers outside the range are skipped by their headers.
///
/// # Errors
/// `CorruptDeletionVector` if the bytes do not come from `unframe`, `InvalidArgument`
/// if the range goes beyond 2^63 rows.
pub fn keep_mask(data: &[u8], start: u64, length: usize) -> Result<BooleanBuffer> {
    let end = u64::try_from(length).ok().and_then(|length| start.checked_add(length));
    let end = end.filter(|end| i64::try_from(*end).is_ok()).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidArgument,
            format!("the {length} rows from row {start} go beyond the last row number"),
        )
    })?;
    let mut mask =
        Mask { bits: MutableBuffer::new(length.div_ceil(8)).with_bitset(length.div_ceil(8), true), start, end };
    let mut buckets = Buckets::new(data)?;
    while let Some((key, bucket)) = buckets.next()? {
        let bucket_start = u64::from(key) << 32;
        if bucket_start >= end {
            break;
        }
        if bucket_start | u64::from(u32::MAX) >= start {
            mask.clear_bucket(key, &bucket)?;
        }
    }
    Ok(BooleanBuffer::new(Buffer::from(mask.bits), 0, length))
}

/// The mask under construction: bit `i` is row `start + i`.
struct Mask {
    bits: MutableBuffer,
    start: u64,
    end: u64,
}

impl Mask {
    fn clear_bucket(&mut self, key: u32, bucket: &Bucket<'_>) -> Result<()> {
        let bucket_start = u64::from(key) << 32;
        let from = self.start.saturating_sub(bucket_start) >> CONTAINER_BITS;
        let first = bucket.first_at_least(u16::try_from(from).unwrap_or(u16::MAX));
        for index in first..bucket.len() {
            let base = base_of(key, bucket.key(index).unwrap_or(0));
            if base >= self.end {
                break;
            }
            match bucket.container(index)? {
                Container::Array(array) => self.clear_array(array, base),
                Container::Bits(bytes) => self.clear_bits(bytes, base),
                Container::Runs(runs) => self.clear_runs(runs, base),
            }
        }
        Ok(())
    }

    /// The part of a block that the mask covers, as positions in the block: the first and one past the last.
    fn window(&self, base: u64) -> (u32, u32) {
        let first = u32::try_from(self.start.saturating_sub(base)).unwrap_or(u32::MAX);
        let past = self.end.saturating_sub(base).min(1 << CONTAINER_BITS);
        (first, u32::try_from(past).unwrap_or(0))
    }

    fn clear_array(&mut self, array: &[[u8; 2]], base: u64) {
        let (first, past) = self.window(base);
        let from = array.partition_point(|value| u32::from(u16::from_le_bytes(*value)) < first);
        for value in array.get(from..).unwrap_or(&[]) {
            let value = u16::from_le_bytes(*value);
            if u32::from(value) >= past {
                break;
            }
            self.clear_one((base | u64::from(value)).saturating_sub(self.start));
        }
    }

    fn clear_one(&mut self, bit: u64) {
        let byte = usize::try_from(bit >> 3).unwrap_or(usize::MAX);
        if let Some(byte) = self.bits.as_slice_mut().get_mut(byte) {
            *byte &= !(1_u8 << (bit & 7));
        }
    }

    fn clear_runs(&mut self, runs: &[[u8; 4]], base: u64) {
        let (first, past) = self.window(base);
        let from = runs.partition_point(|run| run_bounds(*run).1 < first);
        for run in runs.get(from..).unwrap_or(&[]) {
            let (run_first, run_last) = run_bounds(*run);
            if run_first >= past {
                break;
            }
            let from = (base | u64::from(run_first.max(first))).saturating_sub(self.start);
            let to = base.saturating_add(u64::from(run_last.saturating_add(1).min(past))).saturating_sub(self.start);
            self.clear_range(from, to);
        }
    }

    /// Clears bits `from..to`.
    fn clear_range(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let (low, high) =
            (usize::try_from(from >> 3).unwrap_or(usize::MAX), usize::try_from(to >> 3).unwrap_or(usize::MAX));
        let keep_low = !(0xFF_u8 << (from & 7));
        let keep_high = 0xFF_u8 << (to & 7);
        let bytes = self.bits.as_slice_mut();
        if low == high {
            if let Some(byte) = bytes.get_mut(low) {
                *byte &= keep_low | keep_high;
            }
            return;
        }
        if let Some(byte) = bytes.get_mut(low) {
            *byte &= keep_low;
        }
        if let Some(inner) = bytes.get_mut(low.saturating_add(1)..high) {
            inner.fill(0);
        }
        if let Some(byte) = bytes.get_mut(high) {
            *byte &= keep_high;
        }
    }

    /// Clears the rows of a block of bits, wherever the mask begins and ends.
    fn clear_bits(&mut self, block: &[u8], base: u64) {
        let (first, past) = self.window(base);
        let (words, _) = block.as_chunks::<8>();
        let word_at = |index: u32| {
            let bytes = usize::try_from(index).ok().and_then(|index| words.get(index));
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let (from, to) = (first.div_ceil(64), past >> 6);
        if from > to {
            // The mask begins and ends within one word.
            let inside = u64::MAX << (first & 63) & !(u64::MAX << (past & 63));
            self.clear_word(word_at(to) & inside, base | u64::from(to << 6));
            return;
        }
        if first & 63 > 0 {
            let index = first >> 6;
            self.clear_word(word_at(index) & u64::MAX << (first & 63), base | u64::from(index << 6));
        }
        let whole = words.get(usize::try_from(from).unwrap_or(0)..usize::try_from(to).unwrap_or(0));
        self.clear_words(whole.unwrap_or(&[]), base.saturating_add(u64::from(from << 6)));
        if past & 63 > 0 {
            self.clear_word(word_at(to) & !(u64::MAX << (past & 63)), base | u64::from(to << 6));
        }
    }

    /// Clears the rows of whole words, all of them inside the mask, the first of which is `row`.
    fn clear_words(&mut self, words: &[[u8; 8]], row: u64) {
        let bit = row.saturating_sub(self.start);
        let (byte, shift) = (usize::try_from(bit >> 3).unwrap_or(usize::MAX), bit & 7);
        let bytes = self.bits.as_slice_mut().get_mut(byte..).unwrap_or_default();
        let (targets, _) = bytes.as_chunks_mut::<8>();
        let mut carried = 0;
        for (target, word) in targets.iter_mut().zip(words) {
            let word = u64::from_le_bytes(*word);
            *target = (u64::from_le_bytes(*target) & !(word << shift | carried)).to_le_bytes();
            // In two steps, since a shift by 64 is none.
            carried = word >> 1 >> (shift ^ 63);
        }
        if let Some(last) = bytes.get_mut(words.len().saturating_mul(8)) {
            *last &= !carried.to_le_bytes()[0];
        }
    }

    /// Clears the rows `row + i` for each bit `i` of `word`; rows before the mask are not set in it.
    fn clear_word(&mut self, word: u64, row: u64) {
        let (word, bit) = match row.checked_sub(self.start) {
            Some(bit) => (word, bit),
            None => (word >> (self.start.saturating_sub(row) & 63), 0),
        };
        let (byte, shift) = (usize::try_from(bit >> 3).unwrap_or(usize::MAX), bit & 7);
        let wide = (u128::from(word) << shift).to_le_bytes();
        let bytes = self.bits.as_slice_mut().get_mut(byte..).unwrap_or_default();
        for (target, gone) in bytes.iter_mut().zip(wide.iter().take(9)) {
            *target &= !gone;
        }
    }
}

fn base_of(key: u32, container_key: u16) -> u64 {
    u64::from(key) << 32 | u64::from(container_key) << CONTAINER_BITS
}
