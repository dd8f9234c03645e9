//! The codecs of Avro blocks.

use std::io::Read;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libdeflater::{CompressionLvl, DecompressionError, Decompressor};
use ruzstd::encoding::{CompressionLevel, compress};

use crate::error::{Error, ErrorKind, Result, quoted};

use super::cursor::corrupt;

/// The most bytes that a block may decompress to.
const MOST: usize = 1 << 30;
/// What every block may decompress to, and how many times its size a larger one may: a few kilobytes can stand for
/// gigabytes. Blocks of honest writers are far smaller, unless one value is larger.
const EXPANDED: usize = 96 << 20;
const MOST_TIMES: usize = 32;
/// Blocks that take more memory are expanded one at a time, whatever the number of threads.
const LARGE: usize = 8 << 20;

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
            _ => Err(Error::new(ErrorKind::InvalidArgument, format!("unknown Avro codec {}", quoted(name)))),
        }
    }
}

/// The most bytes that a block of this size may decompress to.
pub(super) fn most_expanded(size: usize) -> usize {
    size.saturating_mul(MOST_TIMES).clamp(EXPANDED, MOST)
}

/// Decompresses blocks, and keeps its memory from one to the next: blocks of manifests are small.
pub(super) struct Expander<'a> {
    codec: Codec,
    inflater: Option<Decompressor>,
    buffer: Vec<u8>,
    /// Who holds this may have a large buffer.
    large: &'a Mutex<()>,
    turn: Option<MutexGuard<'a, ()>>,
}

impl<'a> Expander<'a> {
    /// Prepares a codec. The threads of a call share `large`.
    pub(super) fn new(codec: Codec, large: &'a Mutex<()>) -> Self {
        let inflater = (codec == Codec::Deflate).then(Decompressor::new);
        Self { codec, inflater, buffer: Vec::new(), large, turn: None }
    }

    /// Decompresses a block. What was returned before is gone.
    pub(super) fn expand<'b>(&'b mut self, bytes: &'b [u8]) -> Result<&'b [u8]> {
        if self.turn.is_some() {
            self.buffer = Vec::new();
            self.turn = None;
        }
        match self.codec {
            Codec::Null => Ok(bytes),
            Codec::Deflate => self.inflate(bytes),
            Codec::Zstandard => self.zstandard(bytes),
            Codec::Snappy => self.snappy(bytes),
        }
    }

    /// Makes the buffer so large, if it is smaller, and waits for its turn if that is much.
    fn grow(&mut self, size: usize) {
        if size > LARGE && self.turn.is_none() {
            self.turn = Some(self.large.lock().unwrap_or_else(PoisonError::into_inner));
        }
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        }
    }

    /// Inflates into the front of the buffer, which grows as needed: the format does not record the size.
    fn inflate(&mut self, bytes: &[u8]) -> Result<&[u8]> {
        let most = most_expanded(bytes.len());
        self.grow(bytes.len().saturating_mul(8).clamp(1 << 16, most));
        loop {
            let inflater = self.inflater.get_or_insert_with(Decompressor::new);
            match inflater.deflate_decompress(bytes, &mut self.buffer) {
                Ok(size) => {
                    check_size(size, most)?;
                    return Ok(self.buffer.get(..size).unwrap_or_default());
                }
                Err(DecompressionError::BadData) => {
                    return Err(corrupt("a block cannot be decompressed: the data is damaged"));
                }
                Err(DecompressionError::InsufficientSpace) if self.buffer.len() >= most => return Err(too_large(most)),
                Err(DecompressionError::InsufficientSpace) => {
                    self.grow(self.buffer.len().saturating_mul(4).min(most));
                }
            }
        }
    }

    fn zstandard(&mut self, bytes: &[u8]) -> Result<&[u8]> {
        let most = most_expanded(bytes.len());
        let mut source = ruzstd::decoding::StreamingDecoder::new(bytes).map_err(|error| broken(&error))?;
        self.buffer.clear();
        let few = source.by_ref().take(LARGE as u64).read_to_end(&mut self.buffer).map_err(|error| broken(&error))?;
        if few == LARGE {
            self.turn = Some(self.large.lock().unwrap_or_else(PoisonError::into_inner));
            let left = u64::try_from(most.saturating_sub(few).saturating_add(1)).unwrap_or(u64::MAX);
            source.take(left).read_to_end(&mut self.buffer).map_err(|error| broken(&error))?;
        }
        check_size(self.buffer.len(), most)?;
        Ok(&self.buffer)
    }

    fn snappy(&mut self, bytes: &[u8]) -> Result<&[u8]> {
        let (compressed, checksum) =
            bytes.split_last_chunk::<4>().ok_or_else(|| corrupt("a Snappy block has no checksum"))?;
        let size = snap::raw::decompress_len(compressed).map_err(|error| broken(&error))?;
        check_size(size, most_expanded(bytes.len()))?;
        // Three bytes of Snappy input produce at most 64 bytes, so a greater length cannot be true.
        if size / 32 > compressed.len() {
            return Err(corrupt("a Snappy block is too short for the length that it declares"));
        }
        self.grow(size);
        let written =
            snap::raw::Decoder::new().decompress(compressed, &mut self.buffer).map_err(|error| broken(&error))?;
        let raw = self.buffer.get(..written).unwrap_or_default();
        if crc32fast::hash(raw) != u32::from_be_bytes(*checksum) {
            return Err(corrupt("the checksum of a Snappy block is wrong"));
        }
        Ok(raw)
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

fn check_size(size: usize, most: usize) -> Result<()> {
    if size > most { Err(too_large(most)) } else { Ok(()) }
}

fn too_large(most: usize) -> Error {
    Error::new(ErrorKind::TooLarge, format!("an Avro block decompresses to more than {most} bytes, which is too large"))
}

fn broken(error: &dyn std::fmt::Display) -> Error {
    corrupt(format!("a block cannot be decompressed: {error}"))
}
