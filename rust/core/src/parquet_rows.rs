//! Rows of Parquet files, decoded by the `parquet` crate from the bytes of their column chunks.
//!
//! What it cannot read as the caller wants it is refused: another decoder then says what the file holds.

use std::sync::Arc;

use arrow_array::{RecordBatch, UInt8Array};
use arrow_schema::SchemaRef;
use bytes::{Buf, Bytes, buf::Reader};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};

use crate::error::{Error, ErrorKind, Result};

/// A Parquet file of which some columns are read.
pub struct ParquetRows {
    file: ArrowReaderMetadata,
    leaves: Vec<usize>,
    reading: Option<ParquetRecordBatchReader>,
}

impl ParquetRows {
    /// Takes the metadata at the end of a file, the types that all its columns are read as, and the wanted leaves.
    ///
    /// # Errors
    ///
    /// The metadata is damaged, or a column cannot be read as its type.
    pub fn new(footer: &[u8], schema: SchemaRef, leaves: Vec<usize>) -> Result<Self> {
        let metadata = ParquetMetaDataReader::decode_metadata(footer).map_err(|error| damaged(&error))?;
        let options = ArrowReaderOptions::new().with_schema(schema);
        let file = ArrowReaderMetadata::try_new(Arc::new(metadata), options).map_err(|error| damaged(&error))?;
        let known = file.parquet_schema().num_columns();
        if leaves.iter().any(|leaf| *leaf >= known) {
            return Err(Error::new(ErrorKind::InvalidArgument, "the file has fewer columns"));
        }
        Ok(Self { file, leaves, reading: None })
    }

    /// Returns where the chunk of each wanted leaf begins in a row group, and how many bytes it has.
    ///
    /// # Errors
    ///
    /// There is no such row group, or no place in a file can be where the chunk begins.
    pub fn ranges(&self, group: usize) -> Result<Vec<(u64, u64)>> {
        let groups = self.file.metadata().row_groups();
        let columns = groups.get(group).map(RowGroupMetaData::columns).ok_or_else(no_group)?;
        let range = |leaf: &usize| {
            let chunk = columns.get(*leaf)?;
            let begin = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
            Some((u64::try_from(begin).ok()?, u64::try_from(chunk.compressed_size()).ok()?))
        };
        let found: Option<Vec<_>> = self.leaves.iter().map(range).collect();
        found.ok_or_else(|| Error::new(ErrorKind::CorruptParquet, "a column chunk is nowhere in the file"))
    }

    /// Begins to read row groups, whose chunks are given with the places where they begin.
    ///
    /// # Errors
    ///
    /// There is no such row group, or its columns contradict each other.
    pub fn begin(&mut self, groups: Vec<usize>, chunks: Vec<(u64, UInt8Array)>, batch_size: usize) -> Result<()> {
        let known = self.file.metadata().num_row_groups();
        if batch_size == 0 || groups.iter().any(|group| *group >= known) {
            return Err(no_group());
        }
        let input = Chunks::new(chunks);
        let mask = ProjectionMask::leaves(self.file.parquet_schema(), self.leaves.iter().copied());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(input, self.file.clone())
            .with_projection(mask)
            .with_row_groups(groups)
            .with_batch_size(batch_size);
        self.reading = Some(builder.build().map_err(|error| damaged(&error))?);
        Ok(())
    }

    /// Decodes the next rows; none after the last.
    ///
    /// # Errors
    ///
    /// A page is damaged.
    pub fn decode(&mut self) -> Result<Option<RecordBatch>> {
        // After an error or a panic nothing more is read.
        let Some(mut reading) = self.reading.take() else { return Ok(None) };
        let found = reading.next().transpose().map_err(|error| corrupt(error.to_string()))?;
        self.reading = found.is_some().then_some(reading);
        Ok(found)
    }
}

fn damaged(error: &ParquetError) -> Error {
    corrupt(error.to_string())
}

fn corrupt(why: String) -> Error {
    Error::new(ErrorKind::CorruptParquet, why)
}

fn no_group() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the file has no such row group")
}

/// The bytes of a chunk, which belong to the caller.
struct Owned(UInt8Array);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        self.0.values()
    }
}

/// Some ranges of a file, in ascending order.
struct Chunks(Vec<(u64, Bytes)>);

impl Chunks {
    fn new(given: Vec<(u64, UInt8Array)>) -> Self {
        let mut chunks: Vec<_> =
            given.into_iter().map(|(begin, bytes)| (begin, Bytes::from_owner(Owned(bytes)))).collect();
        chunks.sort_by_key(|(begin, _)| *begin);
        Self(chunks)
    }

    /// Returns the bytes of a range from its first one on, as many as there are.
    fn rest(&self, start: u64) -> ParquetResult<Bytes> {
        let after = self.0.partition_point(|(begin, _)| *begin <= start);
        let found = after.checked_sub(1).and_then(|number| self.0.get(number)).and_then(|(begin, bytes)| {
            let skipped = usize::try_from(start.checked_sub(*begin)?).ok()?;
            (skipped <= bytes.len()).then(|| bytes.slice(skipped..))
        });
        found.ok_or_else(|| ParquetError::EOF("a page lies outside of its column chunk".to_owned()))
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.last().map_or(0, |(begin, bytes)| begin.saturating_add(bytes.len() as u64))
    }
}

impl ChunkReader for Chunks {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(self.rest(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.rest(start)?;
        if length > bytes.len() {
            return Err(ParquetError::EOF("a page ends outside of its column chunk".to_owned()));
        }
        Ok(bytes.slice(..length))
    }
}
