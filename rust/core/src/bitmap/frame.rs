//! The wrappers around a portable bitmap: magic number, length and checksum.

use std::borrow::Cow;

use super::{legacy, portable};
use crate::error::{Error, ErrorKind, Result, quoted};

/// The magic number of the portable 64-bit format, in little endian (Delta and Puffin).
pub(super) const MAGIC: u32 = 1_681_511_377;
/// The magic number of the two older formats, which hold bare 32-bit bitmaps.
pub(super) const NATIVE_MAGIC: u32 = 1_681_511_376;
const LENGTH_BYTES: usize = 4;
const CHECKSUM_BYTES: usize = 4;

/// How a stored bitmap is wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// In the Delta log (`storageType` `i`, after Z85): magic and bitmap.
    DeltaInline,
    /// In a Delta deletion vector file: length, magic and bitmap, CRC-32.
    DeltaFile,
    /// A Puffin `deletion-vector-v1` blob: as in a Delta file, but only in the portable format.
    Puffin,
}

impl Framing {
    /// The framing of this name: `delta-inline`, `delta-file` or `puffin`.
    ///
    /// # Errors
    /// `InvalidArgument` for any other name.
    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "delta-inline" => Ok(Self::DeltaInline),
            "delta-file" => Ok(Self::DeltaFile),
            "puffin" => Ok(Self::Puffin),
            _ => {
                let message = format!(
                    "unknown bitmap framing {}; use \"delta-inline\", \"delta-file\" or \"puffin\"",
                    quoted(name)
                );
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
        }
    }

    pub(super) fn has_checksum(self) -> bool {
        !matches!(self, Self::DeltaInline)
    }
}

/// Takes a bitmap out of its framing and checks all of it.
///
/// Returns the bitmap in the portable 64-bit Roaring format, and the number of its positions.
///
/// # Errors
/// `CorruptDeletionVector` if a length, the checksum, the magic number or a container is wrong.
pub fn unframe(data: &[u8], framing: Framing) -> Result<(Cow<'_, [u8]>, u64)> {
    let body = if framing.has_checksum() { checked_body(data)? } else { data };
    let (magic, bitmap) = body
        .split_first_chunk::<4>()
        .ok_or_else(|| corrupt(format!("a deletion vector of {} bytes has no magic number", body.len())))?;
    let bitmap = match (u32::from_le_bytes(*magic), u32::from_be_bytes(*magic)) {
        (MAGIC, _) => Cow::Borrowed(bitmap),
        (NATIVE_MAGIC, _) if framing != Framing::Puffin => Cow::Owned(legacy::from_little_endian(bitmap)?),
        (_, NATIVE_MAGIC) if framing != Framing::Puffin => Cow::Owned(legacy::from_big_endian(bitmap)?),
        (other, _) => {
            let message = format!("unknown format: the magic number is {other}, expected {MAGIC}");
            return Err(corrupt(message));
        }
    };
    let cardinality = portable::check(&bitmap)?;
    Ok((bitmap, cardinality))
}

/// Returns the bytes between the length and the checksum, and checks both.
fn checked_body(data: &[u8]) -> Result<&[u8]> {
    let parts = data
        .split_first_chunk::<LENGTH_BYTES>()
        .and_then(|(length, rest)| rest.split_last_chunk::<CHECKSUM_BYTES>().map(|(body, sum)| (length, body, sum)));
    let Some((length, body, sum)) = parts else {
        return Err(corrupt(format!("{} bytes are too short for a length and a checksum", data.len())));
    };
    let length = i32::from_be_bytes(*length);
    if usize::try_from(length) != Ok(body.len()) {
        let message = format!("the deletion vector declares {length} bytes, but {} were expected", body.len());
        return Err(corrupt(message));
    }
    let (expected, found) = (u32::from_be_bytes(*sum), crc32fast::hash(body));
    if expected != found {
        return Err(corrupt(format!("checksum mismatch: stored {expected:08x}, computed {found:08x}")));
    }
    Ok(body)
}

pub(super) fn corrupt(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::CorruptDeletionVector, message)
}
