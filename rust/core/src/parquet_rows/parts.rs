//! The columns of a file in parts, each of which a thread decodes.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{FieldRef, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};

use super::chunks::{Chunk, Chunks};
use super::{Decoding, damaged, unusual};
use crate::error::{Error, ErrorKind, Result};

/// Some leaves of a file, by their places among the wanted ones, and their chunks.
#[derive(Default)]
pub struct Part {
    places: Vec<usize>,
    chunks: Vec<Chunk>,
    bytes: usize,
}

impl Part {
    /// Shares the leaves out to at most so many parts, which have about as many bytes to decode.
    ///
    /// The chunks are those of the leaves in each row group.
    pub fn shared_out(leaves: usize, most: usize, chunks: Vec<Chunk>) -> Vec<Self> {
        let mut columns: Vec<Self> = (0..leaves).map(|place| Self { places: vec![place], ..Self::default() }).collect();
        for (number, chunk) in chunks.into_iter().enumerate() {
            if let Some(column) = number.checked_rem(leaves).and_then(|place| columns.get_mut(place)) {
                column.bytes = column.bytes.saturating_add(chunk.size());
                column.chunks.push(chunk);
            }
        }
        columns.sort_by_key(|column| std::cmp::Reverse(column.bytes));
        let mut parts: Vec<Self> = Vec::new();
        for mut column in columns {
            if parts.len() < most.max(1) {
                parts.push(column);
            } else if let Some(part) = parts.iter_mut().min_by_key(|part| part.bytes) {
                part.bytes = part.bytes.saturating_add(column.bytes);
                part.places.append(&mut column.places);
                part.chunks.append(&mut column.chunks);
            }
        }
        parts
    }
}

/// Readers of the same rows of different columns.
pub struct Parts {
    /// Each with the places of its columns among the wanted ones.
    readers: Vec<(Vec<usize>, ParquetRecordBatchReader)>,
}

impl Parts {
    /// Begins to read row groups; `leaves` are the numbers of the wanted leaves, each in a column of its own.
    pub fn new(
        parts: Vec<Part>,
        file: &ArrowReaderMetadata,
        leaves: &[usize],
        groups: &[usize],
        how: &Decoding,
    ) -> Result<Self> {
        let kept = how.kept.as_ref().map(|kept| RowSelection::from_boolean_buffer(kept.values().clone()));
        let reader = |mut part: Part| {
            // A reader returns its columns in the order of the file, in which the leaves are wanted.
            part.places.sort_unstable();
            let own: Vec<_> = part.places.iter().filter_map(|place| leaves.get(*place).copied()).collect();
            let mask = ProjectionMask::leaves(file.parquet_schema(), own);
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(Chunks::new(part.chunks), file.clone())
                .with_projection(mask)
                .with_row_groups(groups.to_vec())
                .with_batch_size(how.batch_size);
            let builder = if let Some(kept) = &kept { builder.with_row_selection(kept.clone()) } else { builder };
            Ok((part.places, builder.build().map_err(|error| damaged(&error))?))
        };
        Ok(Self { readers: parts.into_iter().map(reader).collect::<Result<_>>()? })
    }

    /// Decodes the next rows of all parts; none after the last.
    pub fn decode(&mut self) -> Result<Option<RecordBatch>> {
        let [(_, only)] = self.readers.as_mut_slice() else { return self.decode_in_threads() };
        next(only)
    }

    fn decode_in_threads(&mut self) -> Result<Option<RecordBatch>> {
        let decoded: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = self.readers.iter_mut().map(|(_, reader)| scope.spawn(|| next(reader))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        let batches: Vec<_> = decoded.into_iter().collect::<Result<_>>()?;
        if batches.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut columns: Vec<(usize, FieldRef, ArrayRef)> = Vec::new();
        for ((places, _), batch) in self.readers.iter().zip(batches) {
            let batch = batch.ok_or_else(|| unusual("columns have different numbers of rows"))?;
            let fields = batch.schema_ref().fields();
            let read = places.iter().zip(fields).zip(batch.columns());
            columns.extend(read.map(|((place, field), column)| (*place, Arc::clone(field), Arc::clone(column))));
        }
        columns.sort_by_key(|(place, ..)| *place);
        let (fields, columns): (Vec<_>, _) = columns.into_iter().map(|(_, field, column)| (field, column)).unzip();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
        batch.map(Some).map_err(|error| Error::new(ErrorKind::CorruptParquet, error.to_string()))
    }
}

fn next(reader: &mut ParquetRecordBatchReader) -> Result<Option<RecordBatch>> {
    reader.next().transpose().map_err(|error| Error::new(ErrorKind::CorruptParquet, error.to_string()))
}
