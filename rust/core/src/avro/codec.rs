//! The codecs of Avro blocks.

use std::io::Read;

use libdeflater::{CompressionLvl, DecompressionError, Decompressor};
use ruzstd::encoding::{CompressionLevel, compress};

use crate::error::{Error, ErrorKind, Result};

use super::cursor::corrupt;

/// The most bytes that a block may decompress to.
const MOST: u64 = 1 << 30;

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    Null,
    /// Raw deflate (RFC 1951).
    Deflate,
    /// Snappy, followed by the CRC-32 of the uncompressed bytes.
    Snappy,
    /// Zstandard.
    Zstandard,
}

impl Codec {
    /// The codec of this name.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such codec.
    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "null" => Ok(Self::Null),
            "deflate" => Ok(Self::Deflate),
            "snappy" => Ok(Self::Snappy),
            "zstandard" => Ok(Self::Zstandard),
            _ => Err(Error::new(ErrorKind::InvalidArgument, format!("unknown Avro codec {name:?}"))),
        }
    }
}

/// Decompresses blocks, and keeps its memory from one to the next: blocks of manifests are small.
pub(super) struct Expander {
    codec: Codec,
    inflater: Option<Decompressor>,
    buffer: Vec<u8>,
}

impl Expander {
    pub(super) fn new(codec: Codec) -> Self {
        Self { codec, inflater: (codec == Codec::Deflate).then(Decompressor::new), buffer: Vec::new() }
    }

    /// Decompresses a block.
    pub(super) fn expand<'a>(&'a mut self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        let buffer = &mut self.buffer;
        match self.codec {
            Codec::Null => return Ok(bytes),
            Codec::Deflate => {
                let size = inflate(self.inflater.get_or_insert_with(Decompressor::new), bytes, buffer)?;
                return Ok(buffer.get(..size).unwrap_or_default());
            }
            Codec::Zstandard => {
                buffer.clear();
                let source = ruzstd::decoding::StreamingDecoder::new(bytes).map_err(|error| broken(&error))?;
                read_all(source, buffer)?;
            }
            Codec::Snappy => snappy(bytes, buffer)?,
        }
        Ok(buffer)
    }
}

/// The level of deflate if none is asked for. Higher ones shrink manifests little, and take much longer.
const DEFLATE_LEVEL: i32 = 4;

/// Compresses blocks, and keeps its buffers from one to the next.
pub(super) struct Compressor {
    method: Method,
    buffer: Vec<u8>,
}

enum Method {
    Null,
    Deflate(libdeflater::Compressor),
    Snappy(Box<snap::raw::Encoder>),
    Zstandard,
}

impl Compressor {
    /// Prepares a codec. Only deflate has levels, 1 to 9.
    pub(super) fn new(codec: Codec, level: Option<i32>) -> Result<Self> {
        if level.is_some_and(|level| codec != Codec::Deflate || !(1..=9).contains(&level)) {
            let message = "the level of an Avro codec must be 1 to 9, and only deflate has one";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let method = match codec {
            Codec::Null => Method::Null,
            Codec::Deflate => {
                let level = CompressionLvl::new(level.unwrap_or(DEFLATE_LEVEL)).unwrap_or_default();
                Method::Deflate(libdeflater::Compressor::new(level))
            }
            Codec::Snappy => Method::Snappy(Box::new(snap::raw::Encoder::new())),
            Codec::Zstandard => Method::Zstandard,
        };
        Ok(Self { method, buffer: Vec::new() })
    }

    /// Compresses a block.
    pub(super) fn compress<'a>(&'a mut self, raw: &'a [u8]) -> Result<&'a [u8]> {
        let too_large = |error: &dyn std::fmt::Display| {
            Error::new(ErrorKind::TooLarge, format!("a block cannot be compressed: {error}"))
        };
        match &mut self.method {
            Method::Null => return Ok(raw),
            Method::Deflate(compressor) => {
                self.buffer.resize(compressor.deflate_compress_bound(raw.len()), 0);
                let size = compressor.deflate_compress(raw, &mut self.buffer).map_err(|error| too_large(&error))?;
                self.buffer.truncate(size);
            }
            Method::Snappy(encoder) => {
                self.buffer.resize(snap::raw::max_compress_len(raw.len()), 0);
                let size = encoder.compress(raw, &mut self.buffer).map_err(|error| too_large(&error))?;
                self.buffer.truncate(size);
                self.buffer.extend_from_slice(&crc32fast::hash(raw).to_be_bytes());
            }
            Method::Zstandard => {
                self.buffer.clear();
                compress(raw, &mut self.buffer, CompressionLevel::Fastest);
            }
        }
        Ok(&self.buffer)
    }
}

/// Inflates into the front of the buffer, which grows as needed: the format does not record the size.
fn inflate(inflater: &mut Decompressor, bytes: &[u8], buffer: &mut Vec<u8>) -> Result<usize> {
    let most = usize::try_from(MOST).unwrap_or(usize::MAX);
    let guess = bytes.len().saturating_mul(8).clamp(1 << 16, most);
    if buffer.len() < guess {
        buffer.resize(guess, 0);
    }
    loop {
        match inflater.deflate_decompress(bytes, buffer) {
            Ok(size) => return Ok(size),
            Err(DecompressionError::BadData) => {
                return Err(corrupt("a block cannot be decompressed: the data is damaged"));
            }
            Err(DecompressionError::InsufficientSpace) if buffer.len() >= most => {
                return check_size(u64::MAX).map(|()| 0);
            }
            Err(DecompressionError::InsufficientSpace) => {
                let larger = buffer.len().saturating_mul(4).min(most);
                buffer.resize(larger, 0);
            }
        }
    }
}

fn read_all(source: impl Read, buffer: &mut Vec<u8>) -> Result<()> {
    let read = source.take(MOST.saturating_add(1)).read_to_end(buffer).map_err(|error| broken(&error))?;
    check_size(u64::try_from(read).unwrap_or(u64::MAX))
}

fn snappy(bytes: &[u8], buffer: &mut Vec<u8>) -> Result<()> {
    let (compressed, checksum) =
        bytes.split_last_chunk::<4>().ok_or_else(|| corrupt("a Snappy block has no checksum"))?;
    let size = snap::raw::decompress_len(compressed).map_err(|error| broken(&error))?;
    check_size(u64::try_from(size).unwrap_or(u64::MAX))?;
    // Three bytes of Snappy input produce at most 64 bytes, so a greater length cannot be true.
    if size / 32 > compressed.len() {
        return Err(corrupt("a Snappy block is too short for the length that it declares"));
    }
    buffer.resize(size, 0);
    let written = snap::raw::Decoder::new().decompress(compressed, buffer).map_err(|error| broken(&error))?;
    buffer.truncate(written);
    if crc32fast::hash(buffer) != u32::from_be_bytes(*checksum) {
        return Err(corrupt("the checksum of a Snappy block is wrong"));
    }
    Ok(())
}

fn check_size(size: u64) -> Result<()> {
    if size > MOST {
        return Err(Error::new(ErrorKind::TooLarge, "an Avro block decompresses to more than 1 GiB"));
    }
    Ok(())
}

fn broken(error: &dyn std::fmt::Display) -> Error {
    corrupt(format!("a block cannot be decompressed: {error}"))
}
