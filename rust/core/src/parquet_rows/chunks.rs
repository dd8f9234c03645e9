//! The bytes of column chunks, whose pages are decompressed and looked at as the decoder comes to them.

use arrow_array::UInt8Array;
use bytes::{Buf, Bytes, buf::Reader};
use parquet::basic::{Compression, Encoding};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};

use super::header::{Header, Kind};
use super::page;

/// A page may be so many times as large in memory as in the file, or take this many bytes.
const MOST_GROWTH: u32 = 64;
const MOST_BYTES: u32 = 16 << 20;

/// The bytes of a chunk, which belong to the caller.
struct Owned(UInt8Array);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        self.0.values()
    }
}

/// Returns bytes that stay with the caller.
pub fn shared(bytes: UInt8Array) -> Bytes {
    Bytes::from_owner(Owned(bytes))
}

/// Returns the bytes of a chunk, from the one of some blocks that holds it.
pub fn cut(blocks: &[(u64, Bytes)], begin: u64, length: u64) -> Option<Bytes> {
    let end = begin.checked_add(length)?;
    let (at, block) = blocks.iter().rev().find(|(at, _)| *at <= begin)?;
    let (from, to) = (usize::try_from(begin.checked_sub(*at)?).ok()?, usize::try_from(end.checked_sub(*at)?).ok()?);
    (to <= block.len()).then(|| block.slice(from..to))
}

/// A chunk whose headers are as writers leave them.
pub struct Chunk {
    begin: u64,
    bytes: Bytes,
    /// Where the bytes of each page begin in the chunk, in ascending order.
    pages: Vec<(usize, Header)>,
    metadata: ColumnChunkMetaData,
}

impl Chunk {
    /// Walks over the pages of a chunk; none unless they are its bytes and its values, with no more and no less.
    pub fn new(begin: u64, bytes: Bytes, metadata: ColumnChunkMetaData) -> Option<Self> {
        let (mut input, mut values, mut pages) = (bytes.as_ref(), 0_i64, Vec::new());
        let is_stored_plainly = metadata.compression() == Compression::UNCOMPRESSED;
        while !input.is_empty() {
            let header = Header::read(&mut input)?;
            let at = bytes.len().checked_sub(input.len())?;
            input = input.get(usize::try_from(header.stored).ok()?..)?;
            let is_usual = match header.kind {
                Kind::Dictionary => pages.is_empty() && header.encoding != Encoding::RLE_DICTIONARY,
                // pyarrow takes a page without values for the end of the chunk.
                Kind::Data => header.values > 0,
                Kind::DataV2 { nulls, rows, levels, .. } => {
                    let fits = nulls <= header.values && levels <= header.size && levels <= header.stored;
                    header.values > 0 && rows == header.values && fits
                }
            };
            let is_large = header.size > header.stored.saturating_mul(MOST_GROWTH).max(MOST_BYTES);
            if !is_usual || is_large || (is_stored_plainly && header.size != header.stored) {
                return None;
            }
            if header.kind != Kind::Dictionary {
                values = values.checked_add(header.values.into())?;
            }
            pages.push((at, header));
        }
        (values == metadata.num_values()).then_some(Self { begin, bytes, pages, metadata })
    }

    /// Returns how many bytes the pages have in memory.
    pub fn size(&self) -> usize {
        self.pages.iter().fold(0, |sum, (_, header)| sum.saturating_add(header.size as usize))
    }

    /// Returns a page, without compression and looked at.
    fn page(&self, at: usize, length: usize) -> Option<Bytes> {
        let number = self.pages.binary_search_by_key(&at, |(begin, _)| *begin).ok()?;
        let (_, header) = self.pages.get(number)?;
        let stored = (usize::try_from(header.stored).ok()? == length).then_some(at..at.checked_add(length)?)?;
        let bytes = decompressed(self.bytes.slice(stored), header, self.metadata.compression())?;
        let first = self.pages.first().map(|(_, header)| header);
        let dictionary = first.filter(|first| first.kind == Kind::Dictionary).map(|first| first.values);
        page::is_sound(&bytes, header, self.metadata.column_descr(), dictionary).then_some(bytes)
    }
}

/// Tells whether pages of a codec can be read.
pub fn is_known(codec: Compression) -> bool {
    matches!(codec, Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_))
}

fn decompressed(stored: Bytes, header: &Header, codec: Compression) -> Option<Bytes> {
    let plain = match header.kind {
        Kind::DataV2 { levels, is_compressed: true, .. } => usize::try_from(levels).ok()?,
        Kind::DataV2 { .. } => stored.len(),
        _ => 0,
    };
    let size = usize::try_from(header.size).ok()?;
    if codec == Compression::UNCOMPRESSED || plain == stored.len() {
        return (stored.len() == size).then_some(stored);
    }
    let (levels, data) = stored.split_at_checked(plain)?;
    let mut page = vec![0; size];
    page.get_mut(..plain)?.copy_from_slice(levels);
    let room = page.get_mut(plain..)?;
    let written = match codec {
        Compression::SNAPPY => snap::raw::Decoder::new().decompress(data, room).ok()?,
        Compression::ZSTD(_) => zstd::bulk::decompress_to_buffer(data, room).ok()?,
        _ => return None,
    };
    (written == room.len()).then(|| page.into())
}

/// Chunks of a file, in ascending order.
pub struct Chunks(Vec<Chunk>);

impl Chunks {
    pub fn new(mut chunks: Vec<Chunk>) -> Self {
        chunks.sort_by_key(|chunk| chunk.begin);
        Self(chunks)
    }

    /// Returns the chunk that a place of the file lies in, and the place in the chunk.
    fn at(&self, start: u64) -> ParquetResult<(&Chunk, usize)> {
        let after = self.0.partition_point(|chunk| chunk.begin <= start);
        let found = after.checked_sub(1).and_then(|number| self.0.get(number)).and_then(|chunk| {
            let skipped = usize::try_from(start.checked_sub(chunk.begin)?).ok()?;
            (skipped <= chunk.bytes.len()).then_some((chunk, skipped))
        });
        found.ok_or_else(|| ParquetError::EOF("a page lies outside of its column chunk".to_owned()))
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.last().map_or(0, |chunk| chunk.begin.saturating_add(chunk.bytes.len() as u64))
    }
}

impl ChunkReader for Chunks {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let (chunk, at) = self.at(start)?;
        Ok(chunk.bytes.slice(at..).reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let (chunk, at) = self.at(start)?;
        let found = chunk.page(at, length);
        found.ok_or_else(|| ParquetError::General("a page is not as the kernel reads them".to_owned()))
    }
}
