//! Rows of Parquet files, decoded by the `parquet` crate from the bytes of their column chunks.
//!
//! What it cannot read as the caller wants it is refused, and so is whatever looks unusual: another decoder then says
//! what the file holds. So headers and levels are looked at here before the crate sees them, and pages are decompressed
//! here as well: the crate is told that none is compressed.

mod chunks;
mod footer;
mod header;
mod page;
mod parts;

use std::sync::Arc;

use arrow_array::{Array, BooleanArray, RecordBatch, UInt8Array};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::{Compression, ConvertedType, LogicalType, Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use crate::error::{Error, ErrorKind, Result};
use chunks::{Chunk, cut, is_known, shared};
use parts::{Part, Parts};

/// How rows are decoded.
#[derive(Clone)]
pub struct Decoding {
    /// Which rows of the row groups are wanted, if not all.
    pub kept: Option<BooleanArray>,
    /// The most rows of a batch.
    pub batch_size: usize,
    /// The most threads.
    pub threads: usize,
}

/// A Parquet file of which some columns are read.
pub struct ParquetRows {
    metadata: ParquetMetaData,
    /// What the decoder is told, in which no chunk is compressed.
    file: ArrowReaderMetadata,
    leaves: Vec<usize>,
    reading: Option<Parts>,
}

impl ParquetRows {
    /// Takes the metadata at the end of a file, the wanted leaves, and what the columns that hold them are read as.
    ///
    /// # Errors
    ///
    /// The metadata is damaged, or a column cannot be read as its type.
    pub fn new(footer: &[u8], wanted: &Schema, leaves: Vec<usize>) -> Result<Self> {
        let metadata = ParquetMetaDataReader::decode_metadata(footer).map_err(|error| damaged(&error))?;
        let plain = without_compression(&metadata).map_err(|error| damaged(&error))?;
        let described = metadata.file_metadata().schema_descr();
        if !leaves.is_sorted() || leaves.last().is_none_or(|leaf| *leaf >= described.num_columns()) {
            return Err(Error::new(ErrorKind::InvalidArgument, "the file has no such columns, or not in this order"));
        }
        let options = ArrowReaderOptions::new().with_schema(Arc::new(whole_schema(described, wanted, &leaves)?));
        let file = ArrowReaderMetadata::try_new(Arc::new(plain), options).map_err(|error| damaged(&error))?;
        let is_known = wanted.fields().iter().all(|field| has_known_type(field));
        if !is_known || !leaves.iter().all(|leaf| is_taken(*leaf, &leaves, described)) {
            return Err(unusual("a column is not of a kind that the kernel reads"));
        }
        let rows = metadata.row_groups().iter().try_fold(0_i64, |sum, group| sum.checked_add(group.num_rows()));
        if rows != Some(metadata.file_metadata().num_rows()) || !footer::has_sound_types(footer, described) {
            return Err(unusual("the metadata is not as the kernel reads it"));
        }
        Ok(Self { metadata, file, leaves, reading: None })
    }

    /// Returns where the chunk of each wanted leaf begins in a row group, and how many bytes it has.
    ///
    /// # Errors
    ///
    /// There is no such row group, or the metadata of a chunk is damaged or unusual.
    pub fn ranges(&self, group: usize) -> Result<Vec<(u64, u64)>> {
        let group = self.metadata.row_groups().get(group).ok_or_else(no_group)?;
        let found: Option<Vec<_>> =
            self.leaves.iter().map(|leaf| range(group.columns().get(*leaf)?, group.num_rows())).collect();
        found.ok_or_else(|| unusual("the metadata of a column chunk is not as the kernel reads it"))
    }

    /// Begins to read row groups from blocks of bytes, which hold their chunks, with the places where they begin.
    ///
    /// # Errors
    ///
    /// There is no such row group, or a header of a page is damaged or unusual.
    pub fn begin(&mut self, groups: &[usize], blocks: Vec<(u64, UInt8Array)>, how: &Decoding) -> Result<()> {
        let known = self.metadata.row_groups();
        let chosen: Option<Vec<_>> = groups.iter().map(|number| known.get(*number)).collect();
        let (Some(chosen), 1..) = (chosen, how.batch_size) else { return Err(no_group()) };
        let rows = chosen.iter().try_fold(0_usize, |sum, group| sum.checked_add(group.num_rows().try_into().ok()?));
        let rows = rows.ok_or_else(no_group)?;
        if how.kept.as_ref().is_some_and(|kept| kept.len() != rows || kept.null_count() > 0) {
            return Err(Error::new(ErrorKind::InvalidArgument, "the mask is not of the rows of the row groups"));
        }
        let blocks: Vec<_> = blocks.into_iter().map(|(begin, bytes)| (begin, shared(bytes))).collect();
        let wanted = chosen.iter().flat_map(|group| self.leaves.iter().filter_map(|leaf| group.columns().get(*leaf)));
        let sound =
            wanted.zip(chosen.iter().flat_map(|group| std::iter::repeat_n(group.num_rows(), self.leaves.len())));
        let sound: Option<Vec<_>> = sound
            .map(|(chunk, rows)| {
                let (begin, length) = range(chunk, rows)?;
                Chunk::new(begin, cut(&blocks, begin, length)?, chunk.clone())
            })
            .collect();
        let sound = sound.ok_or_else(|| unusual("the headers of pages are not as the kernel reads them"))?;
        let parts = Part::shared_out(self.leaves.len(), how.threads, sound);
        let how = Decoding { batch_size: how.batch_size.min(rows.max(1)), ..how.clone() };
        self.reading = Some(Parts::new(parts, &self.file, &self.leaves, groups, &how)?);
        Ok(())
    }

    /// Decodes the next rows; none after the last.
    ///
    /// # Errors
    ///
    /// A page is damaged or unusual.
    pub fn decode(&mut self) -> Result<Option<RecordBatch>> {
        // After an error or a panic nothing more is read.
        let Some(mut reading) = self.reading.take() else { return Ok(None) };
        let found = reading.decode()?;
        self.reading = found.is_some().then_some(reading);
        Ok(found)
    }
}

/// Returns what all columns of a file are read as: the wanted ones as the caller says.
fn whole_schema(described: &SchemaDescriptor, wanted: &Schema, leaves: &[usize]) -> Result<Schema> {
    let own = parquet_to_arrow_schema(described, None).map_err(|error| damaged(&error))?;
    let mut roots: Vec<_> = leaves.iter().map(|leaf| described.get_column_root_idx(*leaf)).collect();
    roots.sort_unstable();
    roots.dedup();
    let mut fields: Vec<FieldRef> = own.fields().iter().cloned().collect();
    if roots.len() != wanted.fields().len() {
        return Err(Error::new(ErrorKind::InvalidArgument, "each wanted column needs a type"));
    }
    for (root, field) in roots.into_iter().zip(wanted.fields()) {
        *fields.get_mut(root).ok_or_else(|| unusual("a column is not of a kind that the kernel reads"))? =
            field.clone();
    }
    Ok(Schema::new(fields))
}

fn without_compression(metadata: &ParquetMetaData) -> ParquetResult<ParquetMetaData> {
    let plain = |group: &RowGroupMetaData| {
        let columns: ParquetResult<Vec<_>> = group
            .columns()
            .iter()
            .map(|chunk| chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build())
            .collect();
        group.clone().into_builder().set_column_metadata(columns?).build()
    };
    let groups: ParquetResult<Vec<_>> = metadata.row_groups().iter().map(plain).collect();
    Ok(metadata.clone().into_builder().set_row_groups(groups?).build())
}

/// Tells whether both decoders read a type alike. An extension type is its storage and a note here.
fn has_known_type(field: &Field) -> bool {
    use DataType::{
        Binary, Boolean, Date32, Decimal128, FixedSizeBinary, Float32, Float64, Int8, Int16, Int32, Int64, LargeBinary,
        LargeUtf8, Struct, Timestamp, Utf8,
    };
    let is_plain = !field.metadata().contains_key("ARROW:extension:name");
    is_plain
        && match field.data_type() {
            Boolean | Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Date32 | Timestamp(..) | Utf8 | Binary
            | LargeUtf8 | LargeBinary | FixedSizeBinary(_) | Decimal128(..) => true,
            Struct(fields) => fields.iter().all(|field| has_known_type(field)),
            _ => false,
        }
}

/// Tells whether a leaf is in no list, and alone in its column: leaves of a structure may contradict each other.
fn is_taken(leaf: usize, leaves: &[usize], schema: &SchemaDescriptor) -> bool {
    let column = schema.column(leaf);
    let root = schema.get_column_root_idx(leaf);
    let is_alone = leaves.iter().filter(|other| schema.get_column_root_idx(**other) == root).count() == 1;
    is_alone && column.max_rep_level() == 0 && column.physical_type() != Type::INT96 && !is_decimal_of_bytes(&column)
}

/// Tells whether a leaf holds decimals of any length: the crate takes empty ones for 0, and panics at long ones.
fn is_decimal_of_bytes(column: &ColumnDescriptor) -> bool {
    let is_decimal = column.converted_type() == ConvertedType::DECIMAL
        || matches!(column.logical_type_ref(), Some(LogicalType::Decimal { .. }));
    is_decimal && column.physical_type() == Type::BYTE_ARRAY
}

/// Returns where a chunk begins and its length, if its metadata is as writers leave it.
fn range(chunk: &ColumnChunkMetaData, rows: i64) -> Option<(u64, u64)> {
    let data = chunk.data_page_offset();
    let begin = chunk.dictionary_page_offset().unwrap_or(data);
    // pyarrow leaves the place of the data at 0 where there are none.
    let is_placed = begin > 0 && (begin <= data || rows == 0);
    let column = chunk.column_descr();
    let is_counted =
        chunk.definition_level_histogram().is_none_or(|levels| is_long(levels.len(), column.max_def_level()))
            && chunk.repetition_level_histogram().is_none_or(|levels| is_long(levels.len(), column.max_rep_level()));
    let is_sized = chunk.unencoded_byte_array_data_bytes().is_none() || column.physical_type() == Type::BYTE_ARRAY;
    let is_whole = chunk.num_values() == rows && chunk.file_path().is_none();
    let is_usual = is_placed && is_counted && is_sized && is_whole;
    let (begin, length) = (u64::try_from(begin).ok()?, u64::try_from(chunk.compressed_size()).ok()?);
    let is_short = length <= i32::MAX.unsigned_abs().into();
    (is_usual && is_short && is_known(chunk.compression())).then_some((begin, length))
}

/// Tells whether a histogram has a count for each level, or none at all.
fn is_long(length: usize, most: i16) -> bool {
    length == 0 || length == usize::from(most.unsigned_abs()).saturating_add(1)
}

fn damaged(error: &ParquetError) -> Error {
    Error::new(ErrorKind::CorruptParquet, error.to_string())
}

fn unusual(why: &'static str) -> Error {
    Error::new(ErrorKind::CorruptParquet, why)
}

fn no_group() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the file has no such row group")
}
