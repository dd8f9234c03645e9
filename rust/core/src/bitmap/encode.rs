//! Encoding positions.

use roaring::RoaringTreemap;

use super::frame::{Framing, MAGIC};
use crate::error::{Error, ErrorKind, Result};

/// Encodes ascending row positions as a bitmap in `framing`; containers hold runs wherever that is smaller.
///
/// # Errors
/// `InvalidArgument` if positions are not strictly ascending or one is greater than 2^63 - 1, `TooLarge`
/// if the bitmap does not fit into the 31-bit length of its framing.
pub fn encode(positions: &[u64], framing: Framing) -> Result<Vec<u8>> {
    if let Some(last) = positions.last().filter(|last| i64::try_from(**last).is_err()) {
        return Err(Error::new(ErrorKind::InvalidArgument, format!("row position {last} is greater than 2^63 - 1")));
    }
    let mut bitmap = RoaringTreemap::from_sorted_iter(positions.iter().copied())
        .ok()
        .filter(|bitmap| usize::try_from(bitmap.len()) == Ok(positions.len()))
        .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "row positions are not strictly ascending"))?;
    bitmap.optimize();
    let length = bitmap.serialized_size().saturating_add(4);
    let dv_length = i32::try_from(length).map_err(|_| {
        Error::new(ErrorKind::TooLarge, format!("a deletion vector of {length} bytes exceeds the limit of the format"))
    })?;
    let mut data = Vec::with_capacity(length.saturating_add(8));
    if framing.has_checksum() {
        data.extend_from_slice(&dv_length.to_be_bytes());
    }
    let body = data.len();
    data.extend_from_slice(&MAGIC.to_le_bytes());
    bitmap.serialize_into(&mut data).map_err(|error| Error::new(ErrorKind::TooLarge, error.to_string()))?;
    if framing.has_checksum() {
        let checksum = crc32fast::hash(data.get(body..).unwrap_or_default());
        data.extend_from_slice(&checksum.to_be_bytes());
    }
    Ok(data)
}
