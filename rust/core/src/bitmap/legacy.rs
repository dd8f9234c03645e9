//! Two formats that writers no longer produce. They are converted to the portable format on read.
//!
//! Both hold bare 32-bit bitmaps, bucket after bucket from key 0. The *native* format is little
//! endian: magic number, count, then the length and the bitmap of each bucket. The inline example
//! of the protocol document has the same numbers in big endian.

use super::frame::corrupt;
use crate::error::Result;

/// The native format: count and lengths in little endian.
pub(super) fn from_little_endian(data: &[u8]) -> Result<Vec<u8>> {
    to_portable(data, i32::from_le_bytes)
}

/// The document's inline example: count and lengths in big endian.
pub(super) fn from_big_endian(data: &[u8]) -> Result<Vec<u8>> {
    to_portable(data, i32::from_be_bytes)
}

fn to_portable(data: &[u8], number: fn([u8; 4]) -> i32) -> Result<Vec<u8>> {
    let (count, mut rest) = data.split_first_chunk::<4>().ok_or_else(|| cut("its number of buckets"))?;
    let count = u32::try_from(number(*count)).map_err(|_| corrupt("the number of buckets is negative"))?;
    let mut portable = Vec::with_capacity(data.len().saturating_add(8));
    portable.extend_from_slice(&u64::from(count).to_le_bytes());
    for key in 0..count {
        let (length, after) = rest.split_first_chunk::<4>().ok_or_else(|| cut("the length of a bucket"))?;
        let length = usize::try_from(number(*length)).map_err(|_| corrupt("the length of a bucket is negative"))?;
        let (bitmap, after) = after.split_at_checked(length).ok_or_else(|| cut("the end of a bucket"))?;
        portable.extend_from_slice(&key.to_le_bytes());
        portable.extend_from_slice(bitmap);
        rest = after;
    }
    if rest.is_empty() { Ok(portable) } else { Err(corrupt(format!("{} bytes follow the last bucket", rest.len()))) }
}

fn cut(what: &str) -> crate::error::Error {
    corrupt(format!("the bitmap ends before {what}"))
}
