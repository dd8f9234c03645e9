//! A fingerprint of bytes, to see that a file is still what it was when it was read.

/// Returns the CRC-32 of the first half of the bytes in the high half of the number, and that of the rest in the low.
///
/// It recognizes other content by chance only, but nobody gains from a collision: whoever can write the file can write
/// into it whatever they want.
#[must_use]
pub fn fingerprint(data: &[u8]) -> u64 {
    let (first, rest) = data.split_at_checked(data.len() / 2).unwrap_or((data, &[]));
    u64::from(crc32fast::hash(first)) << 32 | u64::from(crc32fast::hash(rest))
}
