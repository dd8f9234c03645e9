//! Partition values: strings in the log, typed columns in a scan (Delta protocol, "Partition Value
//! Serialization").

use std::sync::Arc;

use arrow_array::builder::BooleanBuilder;
use arrow_array::{Array, ArrayRef, MapArray, RecordBatch, StringArray, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};

use crate::error::{Error, ErrorKind, Result, quoted};
use crate::values::{ColumnBuilder, Offset, PrimitiveType};

/// Returns the values of `columns` (name in the map, type) from a map of string to string.
///
/// A missing key, a null and an empty string become null. A `timestamp` column becomes a struct of
/// `value` (microseconds) and `zoned`. If the text names a zone, `zoned` is true and the value is in
/// UTC; otherwise it is local time in a zone that the table does not record.
///
/// # Errors
/// `InvalidPartitionValue` if a text is not a value of its column's type; `InvalidArgument` if
/// the map is not one of string to string.
pub fn parse_partition_values(maps: &MapArray, columns: &[(String, PrimitiveType)]) -> Result<RecordBatch> {
    let keys: &StringArray = maps.keys().as_any().downcast_ref().ok_or_else(|| not_strings("keys"))?;
    let values: &StringArray = maps.values().as_any().downcast_ref().ok_or_else(|| not_strings("values"))?;
    let offsets = maps.value_offsets();
    let mut builders: Vec<PartitionColumn<'_>> =
        columns.iter().map(|(name, primitive)| PartitionColumn::new(name, *primitive)).collect::<Result<_>>()?;
    for row in 0..maps.len() {
        let start = offsets.get(row).copied().unwrap_or(0);
        let end = offsets.get(row.saturating_add(1)).copied().filter(|_| maps.is_valid(row)).unwrap_or(start);
        let members = usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
        for builder in &mut builders {
            let place = members.clone().rev().find(|place| keys.value(*place) == builder.name);
            let text = place.filter(|place| values.is_valid(*place)).map(|place| values.value(place));
            builder.push(text, row)?;
        }
    }
    let fields: Vec<Field> = columns
        .iter()
        .zip(&mut builders)
        .map(|((name, _), builder)| Field::new(name, builder.data_type(), true))
        .collect();
    let arrays = builders.iter_mut().map(PartitionColumn::finish).collect::<Result<Vec<_>>>()?;
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(maps.len()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?)
}

struct PartitionColumn<'a> {
    name: &'a str,
    primitive: PrimitiveType,
    builder: ColumnBuilder,
    zoned: BooleanBuilder,
}

impl<'a> PartitionColumn<'a> {
    fn new(name: &'a str, primitive: PrimitiveType) -> Result<Self> {
        Ok(Self { name, primitive, builder: ColumnBuilder::new(primitive)?, zoned: BooleanBuilder::new() })
    }

    fn is_zoned(&self) -> bool {
        self.primitive == PrimitiveType::Timestamp
    }

    fn push(&mut self, text: Option<&str>, row: usize) -> Result<()> {
        let mut zoned = false;
        match text.filter(|text| !text.is_empty()) {
            None => self.builder.push_null(),
            Some(text) => {
                let zone = std::cell::Cell::new(Offset::Missing);
                let note = |micros, offset| {
                    zone.set(offset);
                    Some(micros)
                };
                if !self.builder.push_text(text, note) {
                    return Err(self.refuse(text, row));
                }
                zoned = zone.get() != Offset::Missing;
            }
        }
        if self.is_zoned() {
            self.zoned.append_value(zoned);
        }
        Ok(())
    }

    fn refuse(&self, text: &str, row: usize) -> Error {
        let shown: String = text.chars().take(100).collect();
        let message = format!(
            "partition value {} of column {} is not a valid {}",
            quoted(&shown),
            quoted(self.name),
            self.primitive.name()
        );
        Error::new(ErrorKind::InvalidPartitionValue, message).with("column", self.name).with("row", row)
    }

    fn data_type(&self) -> DataType {
        if self.is_zoned() { DataType::Struct(zoned_fields()) } else { self.primitive.data_type() }
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let values = self.builder.finish();
        if !self.is_zoned() {
            return Ok(values);
        }
        Ok(Arc::new(StructArray::try_new(zoned_fields(), vec![values, Arc::new(self.zoned.finish())], None)?))
    }
}

fn zoned_fields() -> Fields {
    Fields::from(vec![
        Field::new("value", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("zoned", DataType::Boolean, true),
    ])
}

fn not_strings(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("the {what} of a partition value map must be strings"))
}
