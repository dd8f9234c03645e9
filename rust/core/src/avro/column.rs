//! Columns under construction.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, ListArray, MapArray, NullArray, RecordBatch, RecordBatchOptions, StructArray,
    make_array, new_null_array,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Fields, SchemaRef};

use crate::error::{Error, ErrorKind, Result};

use super::cursor::{Flaw, Read, corrupt};
use super::plan::{Plan, Step};

/// A column of some type. `valid` has an entry for every row, unless no step of the plan fills the column.
pub struct Column {
    pub data_type: DataType,
    pub valid: NullBufferBuilder,
    pub values: Values,
}

/// The values of a column.
pub enum Values {
    /// Only nulls, because the writer has no such field.
    Absent,
    Boolean(BooleanBufferBuilder),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Int128(Vec<i128>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Bytes {
        offsets: Vec<i32>,
        data: Vec<u8>,
    },
    Fixed {
        width: usize,
        data: Vec<u8>,
    },
    Struct(Vec<Column>),
    List {
        offsets: Vec<i32>,
        items: Box<Column>,
    },
}

impl Column {
    /// Creates the column that a plan fills. Without a plan, or with one that yields only nulls, it holds no values.
    pub fn new(plan: Option<&Plan>, data_type: &DataType) -> Self {
        let values = match (plan, data_type) {
            (Some(Plan::Optional { plan, .. }), _) => Self::new(Some(plan), data_type).values,
            (None | Some(Plan::Null), _) => Values::Absent,
            (_, DataType::Boolean) => Values::Boolean(BooleanBufferBuilder::new(0)),
            (_, DataType::Int32 | DataType::Date32 | DataType::Time32(_)) => Values::Int32(Vec::new()),
            (_, DataType::Int64 | DataType::Timestamp(..) | DataType::Time64(_)) => Values::Int64(Vec::new()),
            (_, DataType::Decimal128(..)) => Values::Int128(Vec::new()),
            (_, DataType::Float32) => Values::Float32(Vec::new()),
            (_, DataType::Float64) => Values::Float64(Vec::new()),
            (_, DataType::Utf8 | DataType::Binary) => Values::Bytes { offsets: vec![0], data: Vec::new() },
            (Some(Plan::Fixed(width)), _) => Values::Fixed { width: *width, data: Vec::new() },
            (Some(Plan::Record(steps)), DataType::Struct(fields)) => Values::Struct(Self::children(steps, fields)),
            (Some(Plan::List(item, _)), DataType::List(field)) => Self::list(Self::new(Some(item), field.data_type())),
            (Some(Plan::Pairs { fields: steps, .. }), DataType::Map(entries, _)) => {
                Self::list(Self::entries(entries.data_type(), |fields| Self::children(steps, fields)))
            }
            (Some(Plan::Map(value, _)), DataType::Map(entries, _)) => {
                let key = Plan::Text;
                let plans = [Some(&key), Some(value.as_ref())];
                Self::list(Self::entries(entries.data_type(), |fields| {
                    fields.iter().zip(plans).map(|(field, plan)| Self::new(plan, field.data_type())).collect()
                }))
            }
            _ => Values::Absent,
        };
        Self { data_type: data_type.clone(), valid: NullBufferBuilder::new(0), values }
    }

    fn children(steps: &[Step], fields: &Fields) -> Vec<Self> {
        let plan_of = |index: usize| {
            steps.iter().find_map(|step| match step {
                Step::Read(slot, plan) if *slot == index => Some(plan),
                _ => None,
            })
        };
        fields.iter().enumerate().map(|(index, field)| Self::new(plan_of(index), field.data_type())).collect()
    }

    fn list(items: Self) -> Values {
        Values::List { offsets: vec![0], items: Box::new(items) }
    }

    fn entries(data_type: &DataType, children: impl FnOnce(&Fields) -> Vec<Self>) -> Self {
        let values = match data_type {
            DataType::Struct(fields) => Values::Struct(children(fields)),
            _ => Values::Absent,
        };
        Self { data_type: data_type.clone(), valid: NullBufferBuilder::new(0), values }
    }

    pub fn len(&self) -> usize {
        self.valid.len()
    }

    /// Appends a null, to nested columns too.
    pub fn push_null(&mut self) {
        self.valid.append_null();
        match &mut self.values {
            Values::Absent => {}
            Values::Boolean(values) => values.append(false),
            Values::Int32(values) => values.push(0),
            Values::Int64(values) => values.push(0),
            Values::Int128(values) => values.push(0),
            Values::Float32(values) => values.push(0.0),
            Values::Float64(values) => values.push(0.0),
            Values::Bytes { offsets, .. } | Values::List { offsets, .. } => {
                offsets.push(offsets.last().copied().unwrap_or(0));
            }
            Values::Fixed { width, data } => data.resize(data.len().saturating_add(*width), 0),
            Values::Struct(children) => children.iter_mut().for_each(Self::push_null),
        }
    }

    /// Roughly how many bytes the values take.
    pub fn bytes(&self) -> usize {
        match &self.values {
            Values::Absent => 0,
            Values::Boolean(values) => values.len() / 8,
            Values::Int32(values) => values.len().saturating_mul(4),
            Values::Int64(values) => values.len().saturating_mul(8),
            Values::Int128(values) => values.len().saturating_mul(16),
            Values::Float32(values) => values.len().saturating_mul(4),
            Values::Float64(values) => values.len().saturating_mul(8),
            Values::Bytes { offsets, data } => data.len().saturating_add(offsets.len().saturating_mul(4)),
            Values::Fixed { data, .. } => data.len(),
            Values::Struct(children) => children.iter().fold(0, |sum, child| sum.saturating_add(child.bytes())),
            Values::List { offsets, items } => items.bytes().saturating_add(offsets.len().saturating_mul(4)),
        }
    }

    /// Builds the array of the column's rows.
    pub fn finish(mut self, rows: usize) -> Result<ArrayRef> {
        let nulls = self.valid.finish();
        Ok(match self.values {
            Values::Absent if self.data_type == DataType::Null => Arc::new(NullArray::new(rows)),
            Values::Absent => new_null_array(&self.data_type, rows),
            Values::Boolean(mut values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Int32(values) => plain(self.data_type, rows, nulls, vec![Buffer::from_vec(values)])?,
            Values::Int64(values) => plain(self.data_type, rows, nulls, vec![Buffer::from_vec(values)])?,
            Values::Int128(values) => plain(self.data_type, rows, nulls, vec![Buffer::from_vec(values)])?,
            Values::Float32(values) => plain(self.data_type, rows, nulls, vec![Buffer::from_vec(values)])?,
            Values::Float64(values) => plain(self.data_type, rows, nulls, vec![Buffer::from_vec(values)])?,
            Values::Bytes { offsets, data } => {
                let buffers = vec![Buffer::from_vec(offsets), Buffer::from_vec(data)];
                plain(self.data_type, rows, nulls, buffers)?
            }
            Values::Fixed { data, .. } => plain(self.data_type, rows, nulls, vec![Buffer::from_vec(data)])?,
            Values::Struct(children) => {
                let DataType::Struct(fields) = self.data_type else { return Err(wrong_type()) };
                Arc::new(struct_of(&fields, children, nulls, rows)?)
            }
            Values::List { offsets, items } => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                list_of(self.data_type, offsets, *items, nulls)?
            }
        })
    }
}

/// Builds a batch of the columns of a struct.
pub fn batch_of(column: Column, schema: &SchemaRef) -> Result<RecordBatch> {
    let rows = column.len();
    let Values::Struct(children) = column.values else { return Err(wrong_type()) };
    let arrays = arrays_of(children, schema.fields(), None, rows)?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
}

fn struct_of(fields: &Fields, children: Vec<Column>, nulls: Option<NullBuffer>, rows: usize) -> Result<StructArray> {
    if fields.is_empty() {
        return Ok(StructArray::new_empty_fields(rows, nulls));
    }
    let arrays = arrays_of(children, fields, nulls.as_ref(), rows)?;
    Ok(StructArray::try_new(fields.clone(), arrays, nulls)?)
}

/// Builds the arrays of a struct's children; `nulls` are those of the struct.
fn arrays_of(children: Vec<Column>, fields: &Fields, nulls: Option<&NullBuffer>, rows: usize) -> Result<Vec<ArrayRef>> {
    let arrays = children.into_iter().map(|child| child.finish(rows)).collect::<Result<Vec<_>>>()?;
    fields.iter().zip(&arrays).try_for_each(|(field, array)| check_nulls(field, array, nulls))?;
    Ok(arrays)
}

/// Refuses a null in a required field, unless its parent is null.
fn check_nulls(field: &Field, array: &ArrayRef, outer: Option<&NullBuffer>) -> Result<()> {
    let inner = if field.is_nullable() { None } else { array.logical_nulls() };
    if inner.is_none_or(|inner| inner.null_count() == 0 || outer.is_some_and(|outer| outer.contains(&inner))) {
        return Ok(());
    }
    Err(corrupt(format!("the required field {} is null", field.name())))
}

fn list_of(
    data_type: DataType,
    offsets: OffsetBuffer<i32>,
    items: Column,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let rows = items.len();
    let items = items.finish(rows)?;
    Ok(match data_type {
        DataType::List(field) => {
            check_nulls(&field, &items, None)?;
            Arc::new(ListArray::try_new(field, offsets, items, nulls)?)
        }
        DataType::Map(entries, sorted) => {
            let pairs: &StructArray = items.as_any().downcast_ref().ok_or_else(wrong_type)?;
            Arc::new(MapArray::try_new(entries, offsets, pairs.clone(), nulls, sorted)?)
        }
        _ => return Err(wrong_type()),
    })
}

/// Builds an array from one buffer of values, or from offsets and bytes.
fn plain(data_type: DataType, rows: usize, nulls: Option<NullBuffer>, buffers: Vec<Buffer>) -> Result<ArrayRef> {
    Ok(make_array(ArrayData::builder(data_type).len(rows).nulls(nulls).buffers(buffers).build()?))
}

/// Adds a length to the last offset.
#[inline]
pub fn push_offset(offsets: &mut Vec<i32>, length: usize) -> Read<()> {
    let last = offsets.last().copied().unwrap_or(0);
    let next = i32::try_from(length).ok().and_then(|length| last.checked_add(length));
    offsets.push(next.ok_or_else(too_large)?);
    Ok(())
}

#[cold]
fn too_large() -> Flaw {
    Error::new(ErrorKind::TooLarge, "a column of an Avro file exceeds 2 GiB").into()
}

pub fn wrong_type() -> Error {
    Error::new(ErrorKind::InvalidArgument, "a column and its plan have different types")
}
