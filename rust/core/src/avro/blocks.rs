//! Finding the blocks of a file.

use crate::error::{Error, Result};

use super::cursor::{Cursor, corrupt};

/// Where the data of a block lies in the file, and how many rows it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The offset of the first byte.
    pub offset: usize,
    /// The number of bytes, as compressed.
    pub size: usize,
    /// The number of rows.
    pub rows: usize,
}

/// Finds the blocks that have rows, from the end of the header to the end of the file.
///
/// # Errors
/// `CorruptAvro`, with the number of the block, if the file is cut off, or a block does not end with `sync`.
pub fn find_blocks(data: &[u8], start: usize, sync: &[u8]) -> Result<Vec<Block>> {
    let mut cursor = Cursor::new(data.get(start..).ok_or_else(cut_off)?);
    let mut blocks = Vec::new();
    while cursor.remaining() > 0 {
        let number = blocks.len();
        let (rows, size) = (length(&mut cursor, number)?, length(&mut cursor, number)?);
        let offset = data.len().saturating_sub(cursor.remaining());
        cursor.take(size).map_err(|_| cut_off())?;
        if cursor.take(sync.len()).map_err(|_| cut_off())? != sync {
            return Err(corrupt("a block of the Avro file does not end with its marker").with("block", number));
        }
        if rows > 0 {
            blocks.push(Block { offset, size, rows });
        }
    }
    Ok(blocks)
}

fn length(cursor: &mut Cursor<'_>, number: usize) -> Result<usize> {
    let length = cursor.long().map_err(|flaw| Error::from(flaw).with("block", number))?;
    usize::try_from(length).map_err(|_| corrupt("a block of the Avro file has a negative length").with("block", number))
}

fn cut_off() -> Error {
    corrupt("the Avro file is cut off")
}
