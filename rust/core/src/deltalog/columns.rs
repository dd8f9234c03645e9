//! Surviving file actions as Arrow columns, named as in the protocol.
//!
//! Columns that few tables use (deletion vectors, row ids, tags) take no memory until a row has a
//! value: all columns of nulls share one buffer of zeros.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Int32Builder, Int64Builder, StringBuilder, StructBuilder};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, MapArray, RecordBatch, StringArray, StructArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields, Schema};

use super::action::{DeletionVector, FileAction};
use super::fields::{RecordCount, Span, unicode};
use super::texts::Texts;
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Cursor, Text};
use crate::stats;

/// Where actions come from: their commit, and the piece of it that they point into.
#[derive(Default)]
pub(super) struct Place<'a> {
    pub version: i64,
    /// Where the piece begins in the commit.
    pub start: usize,
    pub data: &'a [u8],
}

/// Builds the batch of a piece's live adds, whose paths are `paths`.
pub(super) fn add_batch(actions: &[&FileAction], place: &Place<'_>, paths: StringArray) -> Result<RecordBatch> {
    let columns = Columns::new(actions, place);
    batch(vec![
        ("path", Arc::new(paths), false),
        ("partitionValues", columns.maps(|action| action.partition_values)?, true),
        ("size", columns.integers(|action| action.size), true),
        ("modificationTime", columns.integers(|action| action.time), true),
        ("dataChange", columns.booleans(|action| Some(action.data_change)), true),
        ("stats", columns.places(|action| action.stats)?, true),
        ("numRecords", columns.integers(|action| record_count(action, place.data)), true),
        ("tags", columns.maps(|action| action.tags)?, true),
        ("deletionVector", columns.vectors()?, true),
        ("baseRowId", columns.integers(|action| action.base_row_id), true),
        ("defaultRowCommitVersion", columns.integers(|action| action.default_row_commit_version), true),
        ("clusteringProvider", columns.texts(|action| action.clustering_provider)?, true),
        ("version", columns.integers(|_| Some(place.version)), true),
    ])
}

fn record_count(action: &FileAction, piece: &[u8]) -> Option<i64> {
    match action.record_count {
        RecordCount::Read(count) => count,
        RecordCount::Unread if action.stats.is_some() => stats::resolved_record_count(action.stats.raw(piece)),
        RecordCount::Unread => None,
    }
}

/// Builds the batch of a piece's tombstones.
pub(super) fn remove_batch(actions: &[&FileAction], place: &Place<'_>, paths: StringArray) -> Result<RecordBatch> {
    let columns = Columns::new(actions, place);
    batch(vec![
        ("path", Arc::new(paths), false),
        ("deletionTimestamp", columns.integers(|action| action.time), true),
        ("dataChange", columns.booleans(|action| Some(action.data_change)), true),
        ("extendedFileMetadata", columns.booleans(|action| action.extended_file_metadata), true),
        ("partitionValues", columns.maps(|action| action.partition_values)?, true),
        ("size", columns.integers(|action| action.size), true),
        ("tags", columns.maps(|action| action.tags)?, true),
        ("deletionVector", columns.vectors()?, true),
        ("baseRowId", columns.integers(|action| action.base_row_id), true),
        ("defaultRowCommitVersion", columns.integers(|action| action.default_row_commit_version), true),
        ("version", columns.integers(|_| Some(place.version)), true),
    ])
}

/// Adds the column `pathAdded` to a batch of removes; it is known only at the end of a replay.
pub(super) fn with_path_added(removes: &RecordBatch, path_added: BooleanArray) -> Result<RecordBatch> {
    let schema = removes.schema();
    let columns = schema.fields().iter().zip(removes.columns());
    let mut columns: Vec<(&str, ArrayRef, bool)> =
        columns.map(|(field, column)| (field.name().as_str(), Arc::clone(column), field.is_nullable())).collect();
    columns.push(("pathAdded", Arc::new(path_added), true));
    batch(columns)
}

fn batch(columns: Vec<(&str, ArrayRef, bool)>) -> Result<RecordBatch> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, column, nullable)| Field::new(*name, column.data_type().clone(), *nullable))
        .collect();
    let columns = columns.into_iter().map(|(_, column, _)| column).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// Builds the columns of some actions.
struct Columns<'a> {
    actions: &'a [&'a FileAction],
    place: &'a Place<'a>,
    /// As many zeros as any column of nulls needs.
    zeros: Buffer,
}

impl<'a> Columns<'a> {
    fn new(actions: &'a [&'a FileAction], place: &'a Place<'a>) -> Self {
        let bytes = actions.len().saturating_add(1).saturating_mul(size_of::<i64>());
        Self { actions, place, zeros: Buffer::from(vec![0_u8; bytes]) }
    }

    fn len(&self) -> usize {
        self.actions.len()
    }

    fn integers(&self, value: impl Fn(&FileAction) -> Option<i64>) -> ArrayRef {
        if self.actions.iter().all(|action| value(action).is_none()) {
            return Arc::new(Int64Array::new(self.zero_values(), Some(self.nulls())));
        }
        let mut builder = Int64Builder::with_capacity(self.len());
        self.actions.iter().for_each(|action| builder.append_option(value(action)));
        Arc::new(builder.finish())
    }

    fn booleans(&self, value: impl Fn(&FileAction) -> Option<bool>) -> ArrayRef {
        let mut builder = BooleanBuilder::with_capacity(self.len());
        self.actions.iter().for_each(|action| builder.append_option(value(action)));
        Arc::new(builder.finish())
    }

    fn texts(&self, value: impl Fn(&FileAction) -> Span) -> Result<ArrayRef> {
        if self.actions.iter().all(|action| !value(action).is_some()) {
            return Ok(Arc::new(self.null_texts()?));
        }
        let mut builder = StringBuilder::new();
        self.actions.iter().for_each(|action| builder.append_option(value(action).text(self.place.data)));
        Ok(Arc::new(builder.finish()))
    }

    fn maps(&self, value: impl Fn(&FileAction) -> Span) -> Result<ArrayRef> {
        let mut maps = StringMaps::default();
        if self.actions.iter().all(|action| !value(action).is_some()) {
            return maps.close(self.zero_offsets(), Some(self.nulls()));
        }
        let mut offsets = Vec::with_capacity(self.len().saturating_add(1));
        let mut valid = NullBufferBuilder::new(self.len());
        offsets.push(0_i32);
        for span in self.actions.iter().map(|action| value(action)) {
            if span.is_some() {
                maps.push(span, self.place.data)?;
            }
            valid.append(span.is_some());
            // An entry takes at least five bytes of a piece of at most 4 GiB.
            offsets.push(i32::try_from(maps.keys.len()).unwrap_or(i32::MAX));
        }
        maps.close(OffsetBuffer::new(ScalarBuffer::from(offsets)), valid.finish())
    }

    fn vectors(&self) -> Result<ArrayRef> {
        if self.actions.iter().all(|action| action.vector.is_none()) {
            let children: Vec<ArrayRef> = vec![
                Arc::new(self.null_texts()?),
                Arc::new(self.null_texts()?),
                Arc::new(Int32Array::new(self.zero_values(), Some(self.nulls()))),
                Arc::new(Int32Array::new(self.zero_values(), Some(self.nulls()))),
                Arc::new(Int64Array::new(self.zero_values(), Some(self.nulls()))),
            ];
            return Ok(Arc::new(StructArray::try_new(vector_fields(), children, Some(self.nulls()))?));
        }
        let mut builder = StructBuilder::from_fields(vector_fields(), self.len());
        for action in self.actions {
            push_vector(&mut builder, action.vector.as_deref())?;
        }
        Ok(Arc::new(builder.finish()))
    }

    /// Where strings lie in the bytes of their commit: offset and length.
    fn places(&self, value: impl Fn(&FileAction) -> Span) -> Result<ArrayRef> {
        let (mut offsets, mut lengths) =
            (Int64Builder::with_capacity(self.len()), Int32Builder::with_capacity(self.len()));
        let mut valid = Vec::with_capacity(self.len());
        for span in self.actions.iter().map(|action| value(action)) {
            let offset = if span.is_some() { self.place.start.saturating_add(span.start()) } else { 0 };
            let (Ok(offset), Ok(length)) = (i64::try_from(offset), i32::try_from(span.len())) else {
                return Err(Error::new(ErrorKind::TooLarge, "the statistics of one file exceed 2 GiB"));
            };
            offsets.append_value(offset);
            lengths.append_value(length);
            valid.push(span.is_some());
        }
        let fields = Fields::from(vec![
            Field::new("offset", DataType::Int64, true),
            Field::new("length", DataType::Int32, true),
        ]);
        let columns: Vec<ArrayRef> = vec![Arc::new(offsets.finish()), Arc::new(lengths.finish())];
        Ok(Arc::new(StructArray::try_new(fields, columns, Some(NullBuffer::from(valid)))?))
    }

    fn nulls(&self) -> NullBuffer {
        NullBuffer::new(BooleanBuffer::new(self.zeros.clone(), 0, self.len()))
    }

    fn zero_values<T: arrow_buffer::ArrowNativeType>(&self) -> ScalarBuffer<T> {
        ScalarBuffer::new(self.zeros.clone(), 0, self.len())
    }

    fn zero_offsets(&self) -> OffsetBuffer<i32> {
        OffsetBuffer::new(ScalarBuffer::new(self.zeros.clone(), 0, self.len().saturating_add(1)))
    }

    fn null_texts(&self) -> Result<StringArray> {
        Ok(StringArray::try_new(self.zero_offsets(), Buffer::from(Vec::<u8>::new()), Some(self.nulls()))?)
    }
}

/// The entries of maps from text to text or null.
#[derive(Default)]
struct StringMaps {
    keys: Texts,
    values: Texts,
    valid: Vec<bool>,
}

impl StringMaps {
    /// Appends the members of a JSON object that `string_map` has checked.
    fn push(&mut self, json: Span, piece: &[u8]) -> Result<()> {
        let mut stored = Ok(());
        let read = Cursor::in_lines(piece, json.start()).object(|cursor, key| {
            let value = if cursor.skip_blanks() == Some(b'"') { Some(cursor.string()?) } else { None };
            if value.is_none() {
                cursor.null()?;
            }
            if stored.is_ok() {
                stored = self.push_entry(key, value);
            }
            Ok(())
        });
        read.map_err(|error| inconsistent(error.what()))?;
        stored
    }

    #[inline]
    fn push_entry(&mut self, key: Text<'_>, value: Option<Text<'_>>) -> Result<()> {
        self.keys.push(&unicode(key).unwrap_or_default())?;
        self.valid.push(value.is_some());
        self.values.push(&value.and_then(unicode).unwrap_or_default())
    }

    fn close(self, offsets: OffsetBuffer<i32>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let values = self.valid.contains(&false).then(|| NullBuffer::from(self.valid));
        let fields =
            Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)]);
        let columns: Vec<ArrayRef> = vec![Arc::new(self.keys.close(None)?), Arc::new(self.values.close(values)?)];
        let entries = StructArray::try_new(fields.clone(), columns, None)?;
        let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
        Ok(Arc::new(MapArray::try_new(field, offsets, entries, nulls, false)?))
    }
}

fn vector_fields() -> Fields {
    Fields::from(vec![
        Field::new("storageType", DataType::Utf8, true),
        Field::new("pathOrInlineDv", DataType::Utf8, true),
        Field::new("offset", DataType::Int32, true),
        Field::new("sizeInBytes", DataType::Int32, true),
        Field::new("cardinality", DataType::Int64, true),
    ])
}

fn push_vector(builder: &mut StructBuilder, vector: Option<&DeletionVector>) -> Result<()> {
    let storage_type = vector.map(|vector| &vector.storage_type);
    let path = vector.map(|vector| &vector.path_or_inline);
    child::<StringBuilder>(builder, 0)?.append_option(storage_type);
    child::<StringBuilder>(builder, 1)?.append_option(path);
    child::<Int32Builder>(builder, 2)?.append_option(vector.and_then(|vector| vector.offset));
    child::<Int32Builder>(builder, 3)?.append_option(vector.map(|vector| vector.size_in_bytes));
    child::<Int64Builder>(builder, 4)?.append_option(vector.map(|vector| vector.cardinality));
    builder.append(vector.is_some());
    Ok(())
}

fn child<B: arrow_array::builder::ArrayBuilder>(builder: &mut StructBuilder, index: usize) -> Result<&mut B> {
    builder.field_builder::<B>(index).ok_or_else(|| inconsistent("a struct builder lacks the expected child"))
}

pub(super) fn inconsistent(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("internal: {what}"))
}
