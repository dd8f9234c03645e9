//! The bytes of column chunks, whose pages are decompressed and looked at as the decoder comes to them.

use std::sync::{Mutex, PoisonError};

use arrow_array::UInt8Array;
use bytes::{Buf, Bytes, buf::Reader};
use parquet::basic::{Compression, Encoding};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};

use super::header::{Header, Kind};
use super::levels::{Depth, Followed, Nesting, Tie};
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
    /// Rows of the row group.
    rows: u64,
    nesting: Nesting,
    /// What must agree with this chunk: the same rows of other leaves of the column.
    ties: Vec<Tie>,
    followed: Mutex<Followed>,
}

impl Chunk {
    /// Walks over the pages of a chunk; none unless they are its bytes and its values, with no more and no less.
    pub fn new(begin: u64, bytes: Bytes, metadata: ColumnChunkMetaData, rows: u64, nesting: &Nesting) -> Option<Self> {
        let (mut input, mut values, mut pages) = (bytes.as_ref(), 0_i64, Vec::new());
        let is_stored_plainly = metadata.compression() == Compression::UNCOMPRESSED;
        while !input.is_empty() {
            let header = Header::read(&mut input)?;
            let at = bytes.len().checked_sub(input.len())?;
            input = input.get(usize::try_from(header.stored).ok()?..)?;
            let is_usual = match header.kind {
                Kind::Dictionary => pages.is_empty() && header.encoding != Encoding::RLE_DICTIONARY,
                // pyarrow takes a page without values for the end of the chunk.
                Kind::Data { has_packed_repetition } => {
                    header.values > 0 && !(has_packed_repetition && nesting.has_lists())
                }
                Kind::DataV2 { nulls, rows, levels: [repetition, definition], .. } => {
                    let levels = repetition.checked_add(definition)?;
                    let fits = nulls <= header.values && levels <= header.size && levels <= header.stored;
                    let is_counted = if nesting.has_lists() { rows <= header.values } else { rows == header.values };
                    header.values > 0 && is_counted && fits
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
        let (nesting, ties, followed) = (nesting.clone(), Vec::new(), Mutex::default());
        let own = Self { begin, bytes, pages, metadata, rows, nesting, ties, followed };
        (values == own.metadata.num_values()).then_some(own)
    }

    /// Ties this chunk to that of the next wanted leaf of the column, if both lie in a group that shows in levels.
    pub fn tie(&mut self, next: &mut Self, shared: Depth) {
        if shared.definition > 0 {
            let (first, second) = Tie::pair(shared);
            self.ties.push(first);
            next.ties.push(second);
        }
    }

    /// Returns how many bytes the pages have in memory.
    pub fn size(&self) -> usize {
        self.pages.iter().fold(0, |sum, (_, header)| sum.saturating_add(header.size as usize))
    }

    /// Returns a page, without compression and looked at.
    fn page(&self, at: usize, length: usize) -> Option<Bytes> {
        let number = self.pages.binary_search_by_key(&at, |(begin, _)| *begin).ok()?;
        let (_, header) = self.pages.get(number)?;
        if usize::try_from(header.stored).ok()? != length {
            return None;
        }
        if self.ties.is_empty() && !self.nesting.has_lists() {
            let bytes = self.plain(number)?;
            return page::is_sound(&bytes, header, self.metadata.column_descr(), self.dictionary()).then_some(bytes);
        }
        // Pages that were passed over have rows, too, which only their levels tell.
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        while followed.page <= number {
            found = Some(self.follow(&mut followed)?);
        }
        found
    }

    /// Returns the next page, if its levels go on from those before, and agree with those of other leaves.
    fn follow(&self, followed: &mut Followed) -> Option<Bytes> {
        let number = followed.page;
        followed.page = number.checked_add(1)?;
        let (_, header) = self.pages.get(number)?;
        let (bytes, column) = (self.plain(number)?, self.metadata.column_descr());
        if header.kind == Kind::Dictionary {
            return page::is_sound(&bytes, header, column, None).then_some(bytes);
        }
        let levels = page::sound_levels(&bytes, header, column, self.dictionary(), &self.nesting)?;
        let rows = followed.follow(&levels, &self.nesting, header.values)?;
        let is_counted = match header.kind {
            Kind::DataV2 { rows: told, .. } => rows == told && levels.begin_a_row(),
            _ => followed.rows > 0,
        };
        let is_whole = followed.page < self.pages.len() || followed.rows == self.rows;
        self.ties.iter().try_for_each(|tie| tie.agrees(&levels))?;
        (is_counted && is_whole).then_some(bytes)
    }

    /// Returns a page without compression.
    fn plain(&self, number: usize) -> Option<Bytes> {
        let (at, header) = self.pages.get(number)?;
        let stored = *at..at.checked_add(usize::try_from(header.stored).ok()?)?;
        decompressed(self.bytes.slice(stored), header, self.metadata.compression())
    }

    /// Returns how many values the dictionary has, if there is one.
    fn dictionary(&self) -> Option<u32> {
        let first = self.pages.first().map(|(_, header)| header);
        first.filter(|first| first.kind == Kind::Dictionary).map(|first| first.values)
    }
}

/// Tells whether pages of a codec can be read.
pub fn is_known(codec: Compression) -> bool {
    matches!(codec, Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_))
}

fn decompressed(stored: Bytes, header: &Header, codec: Compression) -> Option<Bytes> {
    let plain = match header.kind {
        Kind::DataV2 { levels: [repetition, definition], is_compressed: true, .. } => {
            usize::try_from(repetition.checked_add(definition)?).ok()?
        }
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
