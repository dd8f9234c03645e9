//! Ranges of values, and the places of rows on space-filling curves through them: sorted along such a curve, rows that
//! are near to each other in several columns come near to each other.

use arrow_array::types::{BinaryType, ByteArrayType, Decimal128Type, Int64Type, LargeBinaryType, UInt32Type};
use arrow_array::{Array, FixedSizeBinaryArray, GenericByteArray, PrimitiveArray, RecordBatch, UInt32Array};
use arrow_array::{ArrowPrimitiveType, cast::AsArray};
use arrow_buffer::Buffer;
use arrow_schema::DataType;

use crate::error::{Error, ErrorKind, Result};
use crate::parallel;

/// How many columns a curve can have: a byte of each of them makes a number of 128 bits.
const MOST_COLUMNS: usize = 16;
/// How many bits a range id has.
const MOST_BITS: u32 = 32;
/// How many rows are worked on at a time, column by column, so that loops over rows become vector instructions.
const BLOCK: usize = 256;

/// The order in which a curve goes through the cells of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// The bits of all columns in turns, highest first.
    ZOrder,
    /// Hilbert's curve, on which cells that follow each other are neighbours.
    Hilbert,
}

impl Curve {
    /// Finds a curve by its name.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none of this name.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "z-order" => Ok(Self::ZOrder),
            "hilbert" => Ok(Self::Hilbert),
            _ => Err(refused("the curve must be 'z-order' or 'hilbert'").with("curve", name)),
        }
    }
}

fn refused(message: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

/// Returns the number of the range of every value: 0 for null, else one more than there are boundaries up to the value.
///
/// # Errors
/// `InvalidArgument` if the boundaries have nulls, do not ascend, or are of another type than the values, or if values of
/// the type have no ranges here.
pub fn range_ids(values: &dyn Array, boundaries: &dyn Array, threads: usize) -> Result<UInt32Array> {
    if values.data_type() != boundaries.data_type() {
        return Err(refused("boundaries must be of the type of the values"));
    }
    if boundaries.null_count() > 0 {
        return Err(refused("a boundary must not be null"));
    }
    match values.data_type() {
        DataType::Int64 => numbers::<Int64Type>(values, boundaries, threads),
        DataType::Decimal128(_, _) => numbers::<Decimal128Type>(values, boundaries, threads),
        DataType::Binary => bytes::<BinaryType>(values, boundaries, threads),
        DataType::LargeBinary => bytes::<LargeBinaryType>(values, boundaries, threads),
        _ => Err(refused("ranges are those of int64, decimal128, binary or large_binary")),
    }
}

fn numbers<T: ArrowPrimitiveType<Native: Ord>>(
    values: &dyn Array,
    boundaries: &dyn Array,
    threads: usize,
) -> Result<UInt32Array> {
    let values: &PrimitiveArray<T> = values.as_primitive();
    let boundaries = boundaries.as_primitive::<T>().values();
    ids(values, boundaries, threads, |index| values.value(index))
}

fn bytes<T: ByteArrayType<Native = [u8]>>(
    values: &dyn Array,
    boundaries: &dyn Array,
    threads: usize,
) -> Result<UInt32Array> {
    let values: &GenericByteArray<T> = values.as_bytes();
    let boundaries: Vec<&[u8]> = boundaries.as_bytes::<T>().iter().flatten().collect();
    ids(values, &boundaries, threads, |index| values.value(index))
}

fn ids<V: Ord + Sync>(
    values: &dyn Array,
    boundaries: &[V],
    threads: usize,
    value: impl Fn(usize) -> V + Sync,
) -> Result<UInt32Array> {
    if !boundaries.is_sorted_by(|low, high| low < high) {
        return Err(refused("boundaries must ascend"));
    }
    let nulls = values.nulls();
    let found = parallel::fill(values.len(), threads, |first, piece| {
        for (slot, index) in piece.iter_mut().zip(first..) {
            if nulls.is_none_or(|nulls| nulls.is_valid(index)) {
                let value = value(index);
                let below = boundaries.partition_point(|boundary| *boundary <= value);
                *slot = u32::try_from(below).unwrap_or(u32::MAX).saturating_add(1);
            }
        }
    });
    Ok(UInt32Array::new(found.into(), None))
}

/// Returns for every row a key by which rows sort along a curve, as bytes of one length, highest first.
///
/// A row lies in the cell whose coordinates are the range ids of its columns, which have `bits` bits each. A key has as
/// many bits as these together, and zeros before them up to whole bytes.
///
/// # Errors
/// `InvalidArgument` if there is no column or there are more than 16, if ids are not unsigned integers of 32 bits, are
/// null or have more bits, or if `bits` is not from 1 to 32.
pub fn curve_keys(ids: &RecordBatch, bits: i64, curve: Curve, threads: usize) -> Result<FixedSizeBinaryArray> {
    let bits = u32::try_from(bits)
        .ok()
        .filter(|bits| (1..=MOST_BITS).contains(bits))
        .ok_or_else(|| refused("the bits of a range id must be from 1 to 32").with("bits", bits))?;
    let columns = columns_of(ids, bits)?;
    let space = Space::new(columns.len(), bits, curve);
    let size = space.size;
    let keys = parallel::fill_rows(ids.num_rows(), size, threads, |first, piece| {
        let mut block = vec![[0; BLOCK]; columns.len()];
        for (keys, start) in piece.chunks_mut(size.saturating_mul(BLOCK)).zip((first..).step_by(BLOCK)) {
            for (slots, column) in block.iter_mut().zip(&columns) {
                for (slot, id) in slots.iter_mut().zip(column.get(start..).unwrap_or_default()) {
                    *slot = *id;
                }
            }
            space.write_keys(&mut block, keys);
        }
    });
    let width = i32::try_from(size).map_err(|_| refused("a key is too long"))?;
    Ok(FixedSizeBinaryArray::try_new(width, Buffer::from_vec(keys), None)?)
}

fn columns_of(ids: &RecordBatch, bits: u32) -> Result<Vec<&[u32]>> {
    if !(1..=MOST_COLUMNS).contains(&ids.num_columns()) {
        return Err(refused("a curve takes from 1 to 16 columns").with("columns", ids.num_columns()));
    }
    let most = u32::MAX.wrapping_shr(MOST_BITS.saturating_sub(bits));
    let mut columns = Vec::with_capacity(ids.num_columns());
    for column in ids.columns() {
        let Some(column) = column.as_primitive_opt::<UInt32Type>() else {
            return Err(refused("range ids must be unsigned integers of 32 bits"));
        };
        if column.null_count() > 0 {
            return Err(refused("a range id must not be null"));
        }
        // No early end: this way the loop becomes vector instructions.
        if column.values().iter().fold(0, |all, id| all | *id) > most {
            return Err(refused("a range id has more bits than the curve").with("bits", bits));
        }
        columns.push(&**column.values());
    }
    Ok(columns)
}

/// The grid that a curve goes through.
struct Space {
    columns: usize,
    bits: u32,
    curve: Curve,
    /// The bytes of a key.
    size: usize,
    /// The bits of a byte, as far apart as there are columns.
    spread: Box<[u128; 256]>,
}

impl Space {
    fn new(columns: usize, bits: u32, curve: Curve) -> Self {
        let mut spread = Box::new([0_u128; 256]);
        for (byte, slot) in (0_u32..).zip(spread.iter_mut()) {
            for bit in (0..8).filter(|bit| byte.wrapping_shr(*bit) & 1 == 1) {
                *slot |= u32::try_from(columns).map_or(0, |columns| 1_u128.wrapping_shl(bit.saturating_mul(columns)));
            }
        }
        let size = usize::try_from(bits).unwrap_or_default().saturating_mul(columns).div_ceil(8);
        Self { columns, bits, curve, size, spread }
    }

    /// Writes the keys of at most as many rows as a block has. The block holds their ids, and is changed.
    fn write_keys(&self, block: &mut [[u32; BLOCK]], keys: &mut [u8]) {
        if self.curve == Curve::Hilbert {
            transpose(block, self.bits);
        }
        // The lowest bytes of all columns are the last bytes of the key, and so on.
        for (byte, end) in (0..).zip((1..=self.size).rev().step_by(self.columns)) {
            let mut mixed = [0_u128; BLOCK];
            for (slots, shift) in block.iter().zip((0..u32::try_from(self.columns).unwrap_or_default()).rev()) {
                for (slot, id) in mixed.iter_mut().zip(slots) {
                    let [lowest, ..] = id.wrapping_shr(8_u32.saturating_mul(byte)).to_le_bytes();
                    *slot |= self.spread.get(usize::from(lowest)).map_or(0, |bits| bits.wrapping_shl(shift));
                }
            }
            let start = end.saturating_sub(self.columns);
            for (key, mixed) in keys.chunks_exact_mut(self.size).zip(&mixed) {
                if let Some(part) = key.get_mut(start..end) {
                    let bytes = mixed.to_be_bytes();
                    part.copy_from_slice(bytes.get(bytes.len().saturating_sub(part.len())..).unwrap_or_default());
                }
            }
        }
    }
}

/// Makes of coordinates those numbers whose bits, in turns, are the places on Hilbert's curve (Skilling, "Programming the
/// Hilbert curve", 2004).
fn transpose(block: &mut [[u32; BLOCK]], bits: u32) {
    let Some((first, others)) = block.split_first_mut() else { return };
    for bit in (1..bits).rev() {
        let below = u32::MAX.wrapping_shr(MOST_BITS.saturating_sub(bit));
        for slot in first.iter_mut() {
            *slot ^= below & all_if(*slot, bit);
        }
        for other in others.iter_mut() {
            for (one, two) in first.iter_mut().zip(other.iter_mut()) {
                // Where the bit is set, the lower bits of the first column are inverted; else they are exchanged.
                let is_set = all_if(*two, bit);
                let exchanged = (*one ^ *two) & below & !is_set;
                *one ^= exchanged | (below & is_set);
                *two ^= exchanged;
            }
        }
    }
    // Gray code.
    let mut before = *first;
    for other in others.iter_mut() {
        for (one, two) in before.iter_mut().zip(other.iter_mut()) {
            *two ^= *one;
            *one = *two;
        }
    }
    // `before` is the last column now.
    let mut flips = [0; BLOCK];
    for bit in 1..bits {
        let below = u32::MAX.wrapping_shr(MOST_BITS.saturating_sub(bit));
        for (flip, last) in flips.iter_mut().zip(&before) {
            *flip ^= below & all_if(*last, bit);
        }
    }
    for column in block {
        for (slot, flip) in column.iter_mut().zip(&flips) {
            *slot ^= flip;
        }
    }
}

/// Returns a number of which all bits are set if one bit of a number is, else 0.
fn all_if(number: u32, bit: u32) -> u32 {
    0_u32.wrapping_sub(number.wrapping_shr(bit) & 1)
}
