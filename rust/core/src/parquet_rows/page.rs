//! The bytes of pages, looked at before they are decoded.
//!
//! The `parquet` crate takes some damage for rows that other readers refuse: levels beyond the greatest one, runs that
//! end early or late. A page that is not exactly as writers leave it is refused here.

use parquet::basic::{Encoding, Type};
use parquet::schema::types::ColumnDescriptor;

use super::header::{Header, Kind, varint};

/// An index or a level of so many bits fits into a word beside the bits of another byte.
const MOST_BITS: u32 = 24;

/// Tells whether a page holds what its header says; `dictionary` is the number of values in the dictionary before it.
pub fn is_sound(page: &[u8], header: &Header, column: &ColumnDescriptor, dictionary: Option<u32>) -> bool {
    let most = column.max_def_level();
    let found = match header.kind {
        Kind::Dictionary => return is_dictionary(page, header.values, column),
        Kind::Data => v1_levels(page, most, header.values),
        Kind::DataV2 { nulls, levels, .. } => v2_levels(page, levels, most, header.values)
            .filter(|(values, _)| Some(*values) == header.values.checked_sub(nulls)),
    };
    found.is_some_and(|(values, data)| has_values(data, values, header.encoding, column, dictionary))
}

fn v1_levels(page: &[u8], most: i16, count: u32) -> Option<(u32, &[u8])> {
    if most == 0 {
        return Some((count, page));
    }
    let (length, rest) = page.split_at_checked(4)?;
    let length = usize::try_from(u32::from_le_bytes(length.try_into().ok()?)).ok()?;
    let (levels, data) = rest.split_at_checked(length)?;
    Some((greatest(levels, most, count)?, data))
}

fn v2_levels(page: &[u8], length: u32, most: i16, count: u32) -> Option<(u32, &[u8])> {
    let (levels, data) = page.split_at_checked(usize::try_from(length).ok()?)?;
    if most == 0 {
        return levels.is_empty().then_some((count, data));
    }
    Some((greatest(levels, most, count)?, data))
}

/// Counts the levels that are the greatest one; none if one is beyond it, or if there are not `count`.
fn greatest(levels: &[u8], most: i16, count: u32) -> Option<u32> {
    let most = u32::try_from(most).ok()?;
    let width = 32_u32.checked_sub(most.leading_zeros())?;
    let mut found = 0_u32;
    runs(levels, width, count, &mut |run| {
        let own = match run {
            Run::Repeated { value, .. } if value > most => return None,
            Run::Repeated { value, count } => count.checked_mul(u32::from(value == most))?,
            Run::Packed { bytes, count } if width == 1 => ones(bytes, count)?,
            Run::Packed { bytes, count } => packed(bytes, width, count, most)?,
        };
        found = found.checked_add(own)?;
        Some(())
    })?;
    Some(found)
}

/// Counts the bits that are set among the first ones.
fn ones(bytes: &[u8], count: u32) -> Option<u32> {
    let (whole, rest) = bytes.split_at_checked(usize::try_from(count >> 3).ok()?)?;
    let mut found = 0_u32;
    let (words, tail) = whole.as_chunks::<8>();
    for word in words {
        found = found.wrapping_add(u64::from_le_bytes(*word).count_ones());
    }
    for byte in tail {
        found = found.wrapping_add(byte.count_ones());
    }
    let left = count & 7;
    let last = if left == 0 { 0 } else { rest.first()? & !(u8::MAX << left) };
    Some(found.wrapping_add(last.count_ones()))
}

/// Counts the greatest values among the first ones of a packed run; none if one is beyond it.
fn packed(bytes: &[u8], width: u32, count: u32, most: u32) -> Option<u32> {
    let (mut found, mut held, mut bits, mut input) = (0_u32, 0_u32, 0_u32, bytes.iter());
    let mask = !(u32::MAX.checked_shl(width)?);
    for _ in 0..count {
        while bits < width {
            held |= u32::from(*input.next()?) << bits;
            bits = bits.wrapping_add(8);
        }
        let level = held & mask;
        if level > most {
            return None;
        }
        found = found.wrapping_add(u32::from(level == most));
        held >>= width;
        bits = bits.wrapping_sub(width);
    }
    Some(found)
}

fn is_dictionary(data: &[u8], values: u32, column: &ColumnDescriptor) -> bool {
    match fixed_width(column) {
        Some(width) => Some(data.len() as u64) == u64::from(values).checked_mul(width),
        None if column.physical_type() == Type::BYTE_ARRAY => {
            let mut input = data;
            (0..values).all(|_| skip_text(&mut input).is_some()) && input.is_empty()
        }
        None => false,
    }
}

fn skip_text(input: &mut &[u8]) -> Option<()> {
    let (length, rest) = input.split_at_checked(4)?;
    let length = usize::try_from(u32::from_le_bytes(length.try_into().ok()?)).ok()?;
    *input = rest.get(length..)?;
    Some(())
}

fn fixed_width(column: &ColumnDescriptor) -> Option<u64> {
    match column.physical_type() {
        Type::INT32 | Type::FLOAT => Some(4),
        Type::INT64 | Type::DOUBLE => Some(8),
        Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(column.type_length()).ok(),
        _ => None,
    }
}

fn has_values(
    data: &[u8],
    values: u32,
    encoding: Encoding,
    column: &ColumnDescriptor,
    dictionary: Option<u32>,
) -> bool {
    let length = data.len() as u64;
    match encoding {
        Encoding::PLAIN => match fixed_width(column) {
            Some(width) => Some(length) == u64::from(values).checked_mul(width),
            None if column.physical_type() == Type::BOOLEAN => length == u64::from(values.div_ceil(8)),
            None => values > 0 || data.is_empty(),
        },
        Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY => {
            // The crate looks at the indices of other types itself, and panics at these.
            let is_checked = column.physical_type() == Type::FIXED_LEN_BYTE_ARRAY;
            dictionary.is_some_and(|size| is_indexed(data, values, size, is_checked))
        }
        _ => false,
    }
}

fn is_indexed(data: &[u8], values: u32, size: u32, is_checked: bool) -> bool {
    if values == 0 {
        return data.len() <= 1;
    }
    let (Some((width, rest)), Some(last)) = (data.split_first(), size.checked_sub(1)) else { return false };
    let width = u32::from(*width);
    let check = &mut |run: Run<'_>| match run {
        Run::Repeated { value, .. } if value > last => None,
        Run::Packed { bytes, count } if is_checked => packed(bytes, width, count, last).map(drop),
        _ => Some(()),
    };
    width <= MOST_BITS && runs(rest, width, values, check).is_some()
}

enum Run<'data> {
    Repeated { value: u32, count: u32 },
    Packed { bytes: &'data [u8], count: u32 },
}

/// Shows the runs of values of some bits; none if they do not end with the last of `count` values.
fn runs(data: &[u8], width: u32, count: u32, see: &mut dyn FnMut(Run<'_>) -> Option<()>) -> Option<()> {
    let (mut input, mut left) = (data, count);
    while left > 0 {
        let head = u32::try_from(varint(&mut input)?).ok()?;
        let length = head >> 1;
        if head & 1 == 0 {
            let (bytes, rest) = input.split_at_checked(usize::try_from(width.div_ceil(8)).ok()?)?;
            input = rest;
            let value = bytes.iter().rev().fold(0_u32, |value, byte| (value << 8) | u32::from(*byte));
            left = left.checked_sub(length)?;
            if length == 0 {
                return None;
            }
            see(Run::Repeated { value, count: length })?;
        } else {
            let (bytes, rest) = input.split_at_checked(usize::try_from(length.checked_mul(width)?).ok()?)?;
            input = rest;
            let room = length.checked_mul(8)?;
            let count = room.min(left);
            if room >= left.checked_add(8)? || length == 0 {
                return None;
            }
            left = left.wrapping_sub(count);
            see(Run::Packed { bytes, count })?;
        }
    }
    input.is_empty().then_some(())
}
