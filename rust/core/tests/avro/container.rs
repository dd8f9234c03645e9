//! Object container files: the part that Python reads before it calls the kernel.

use deltaberg_core::avro::Block;

use crate::Result;

/// The codec of a file, and where its blocks are.
pub struct Container {
    pub codec: String,
    pub blocks: Vec<Block>,
}

struct Bytes<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count).ok_or("too long")?;
        let taken = self.file.get(self.at..end).ok_or("the file ends early")?;
        self.at = end;
        Ok(taken)
    }

    fn long(&mut self) -> Result<i64> {
        let mut bits = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first().ok_or("no byte")?;
            bits |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        Ok((bits >> 1).cast_signed() ^ (bits & 1).cast_signed().wrapping_neg())
    }

    fn prefixed(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.long()?)?;
        self.take(length)
    }
}

/// Reads the header of a file and finds its blocks.
pub fn parse(file: &[u8]) -> Result<Container> {
    let mut bytes = Bytes { file, at: 0 };
    assert_eq!(bytes.take(4)?, b"Obj\x01");
    let mut codec = String::from("null");
    loop {
        let count = bytes.long()?;
        if count == 0 {
            break;
        }
        if count < 0 {
            bytes.long()?;
        }
        for _ in 0..count.unsigned_abs() {
            let (key, value) = (bytes.prefixed()?, bytes.prefixed()?);
            if key == b"avro.codec" {
                codec = String::from_utf8(value.to_vec())?;
            }
        }
    }
    let marker = bytes.take(16)?;
    let mut blocks = Vec::new();
    while bytes.at < file.len() {
        let rows = usize::try_from(bytes.long()?)?;
        let size = usize::try_from(bytes.long()?)?;
        blocks.push(Block { offset: bytes.at, size, rows });
        bytes.take(size)?;
        assert_eq!(bytes.take(16)?, marker);
    }
    Ok(Container { codec, blocks })
}
