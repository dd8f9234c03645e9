//! The wanted columns, and the nodes that resolve them by field id.

use std::collections::HashMap;
use std::sync::Arc;

use apache_avro::Schema;
use apache_avro::schema::{ArraySchema, InnerDecimalSchema, RecordField, RecordSchema, UuidSchema};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use deltaberg_core::avro::Node;

use crate::Result;
use crate::draw::Draw;

const FIELD_ID: &str = "PARQUET:field_id";

fn id_of(field: &RecordField) -> Option<i64> {
    field.custom_attributes.get("field-id")?.as_i64()
}

/// Whether an array of key-value pairs stands for a map. The crate drops the logical type of arrays, so the names of the
/// fields tell.
fn is_map(array: &ArraySchema) -> bool {
    let Schema::Record(pair) = array.items.as_ref() else { return false };
    pair.fields.iter().map(|field| field.name.as_str()).eq(["key", "value"])
}

/// Chooses some columns of a record, in any order, with their field ids.
pub fn fields_of(record: &RecordSchema, draw: &mut Draw) -> Result<Fields> {
    let mut chosen = Vec::new();
    for field in &record.fields {
        let wanted = if draw.one_in(4) { None } else { type_of(&field.schema, draw)? };
        if let Some(data_type) = wanted {
            let id = id_of(field).ok_or("a field without an id")?;
            let column = Field::new(format!("column {id}"), data_type, is_nullable(&field.schema))
                .with_metadata(HashMap::from([(FIELD_ID.to_owned(), id.to_string())]));
            chosen.insert(draw.below(chosen.len().saturating_add(1)), column);
        }
    }
    if draw.one_in(5) {
        let absent = HashMap::from([(FIELD_ID.to_owned(), "1000000".to_owned())]);
        chosen.push(Field::new("absent", DataType::Utf8, true).with_metadata(absent));
    }
    Ok(Fields::from(chosen))
}

fn is_nullable(schema: &Schema) -> bool {
    match schema {
        Schema::Null => true,
        Schema::Union(union) => union.variants().iter().any(is_nullable),
        _ => false,
    }
}

/// The type of a column for values of a schema, sometimes a promoted one. None if no column can hold them.
fn type_of(schema: &Schema, draw: &mut Draw) -> Result<Option<DataType>> {
    Ok(Some(match schema {
        Schema::Null => DataType::Null,
        Schema::Boolean => DataType::Boolean,
        Schema::Int if draw.one_in(3) => DataType::Int64,
        Schema::Int => DataType::Int32,
        Schema::Long => DataType::Int64,
        Schema::Float if draw.one_in(3) => DataType::Float64,
        Schema::Float => DataType::Float32,
        Schema::Double => DataType::Float64,
        Schema::Bytes => DataType::Binary,
        Schema::String => DataType::Utf8,
        Schema::Fixed(fixed) => DataType::FixedSizeBinary(i32::try_from(fixed.size)?),
        Schema::Uuid(_) => DataType::FixedSizeBinary(16),
        Schema::Decimal(decimal) => {
            DataType::Decimal128(u8::try_from(decimal.precision)?, i8::try_from(decimal.scale)?)
        }
        Schema::Date => DataType::Date32,
        Schema::TimeMillis => DataType::Time32(TimeUnit::Millisecond),
        Schema::TimeMicros => DataType::Time64(TimeUnit::Microsecond),
        Schema::TimestampMillis | Schema::LocalTimestampMillis => DataType::Timestamp(TimeUnit::Millisecond, None),
        Schema::TimestampMicros => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Schema::LocalTimestampMicros => DataType::Timestamp(TimeUnit::Microsecond, None),
        Schema::TimestampNanos | Schema::LocalTimestampNanos => DataType::Timestamp(TimeUnit::Nanosecond, None),
        Schema::Record(record) => DataType::Struct(fields_of(record, draw)?),
        Schema::Array(array) if is_map(array) => {
            let Schema::Record(pair) = array.items.as_ref() else { return Err("a map without pairs".into()) };
            let [key, value] = pair.fields.as_slice() else { return Err("a pair without two parts".into()) };
            let (Some(key_type), Some(value_type)) = (type_of(&key.schema, draw)?, type_of(&value.schema, draw)?)
            else {
                return Ok(None);
            };
            map_of(key_type, value_type, is_nullable(&value.schema))
        }
        Schema::Array(array) => match type_of(&array.items, draw)? {
            Some(item) => DataType::List(Arc::new(Field::new("element", item, is_nullable(&array.items)))),
            None => return Ok(None),
        },
        Schema::Map(map) => match type_of(&map.types, draw)? {
            Some(value) => map_of(DataType::Utf8, value, is_nullable(&map.types)),
            None => return Ok(None),
        },
        Schema::Union(union) => match union.variants() {
            [one] | [Schema::Null, one] | [one, Schema::Null] => return type_of(one, draw),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    }))
}

fn map_of(key: DataType, value: DataType, nullable: bool) -> DataType {
    let entry = vec![Field::new("key", key, false), Field::new("value", value, nullable)];
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(Fields::from(entry)), false)), false)
}

/// The node of a schema whose values go to a column of the wanted type, or are skipped.
pub fn node_of(schema: &Schema, wanted: Option<&DataType>, slot: Option<usize>, draw: &mut Draw) -> Result<Node> {
    let mut node = Node { kind: kind_of(schema)?.to_owned(), size: 0, slot, children: Vec::new(), keys: None };
    match schema {
        Schema::Fixed(fixed) | Schema::Uuid(UuidSchema::Fixed(fixed)) => node.size = fixed.size,
        Schema::Decimal(decimal) => {
            if let InnerDecimalSchema::Fixed(fixed) = &decimal.inner {
                node.size = fixed.size;
            }
        }
        Schema::Union(union) => {
            for branch in union.variants() {
                node.children.push(node_of(branch, wanted, None, draw)?);
            }
        }
        Schema::Record(record) => {
            let columns = if let Some(DataType::Struct(fields)) = wanted { Some(fields) } else { None };
            for field in &record.fields {
                let id = id_of(field).map(|id| id.to_string());
                let mut numbered = columns.into_iter().flatten().enumerate();
                let found = numbered.find(|(_, column)| column.metadata().get(FIELD_ID) == id.as_ref());
                let (slot, data_type) = found.map(|(slot, column)| (slot, column.data_type())).unzip();
                node.children.push(node_of(&field.schema, data_type, slot, draw)?);
            }
        }
        Schema::Array(array) if is_map(array) => node = pairs_of(array, node, wanted, draw)?,
        Schema::Array(array) => {
            let item = if let Some(DataType::List(field)) = wanted { Some(field.data_type()) } else { None };
            node.children.push(node_of(&array.items, item, None, draw)?);
        }
        Schema::Map(map) => {
            let value = entry_of(wanted).map(|(_, value)| value);
            node.children.push(node_of(&map.types, value, None, draw)?);
        }
        _ => {}
    }
    Ok(node)
}

fn pairs_of(array: &ArraySchema, mut node: Node, wanted: Option<&DataType>, draw: &mut Draw) -> Result<Node> {
    let Schema::Record(pair) = array.items.as_ref() else { return Err("a map without pairs".into()) };
    let entry = entry_of(wanted);
    let types = [entry.map(|(key, _)| key), entry.map(|(_, value)| value)];
    let mut record = Node { kind: "record".to_owned(), size: 0, slot: None, children: Vec::new(), keys: None };
    for (slot, (field, data_type)) in pair.fields.iter().zip(types).enumerate() {
        record.children.push(node_of(&field.schema, data_type, data_type.map(|_| slot), draw)?);
    }
    // Keys can be selected if the values are integers or bytes, as in the metrics of manifests.
    let is_metric = |data_type: &DataType| {
        matches!(data_type, DataType::Int32 | DataType::Int64 | DataType::Binary | DataType::Utf8)
    };
    let selectable = entry.is_some_and(|(key, value)| *key != DataType::Utf8 && is_metric(value));
    node.keys = (selectable && draw.one_in(2)).then(|| (0..8).filter(|_| draw.one_in(2)).collect());
    node.children.push(record);
    Ok(node)
}

/// The types of a map's keys and values.
pub fn entry_of(wanted: Option<&DataType>) -> Option<(&DataType, &DataType)> {
    let Some(DataType::Map(entries, _)) = wanted else { return None };
    let DataType::Struct(fields) = entries.data_type() else { return None };
    match fields.iter().as_slice() {
        [key, value] => Some((key.data_type(), value.data_type())),
        _ => None,
    }
}

fn kind_of(schema: &Schema) -> Result<&'static str> {
    Ok(match schema {
        Schema::Null => "null",
        Schema::Boolean => "boolean",
        Schema::Int | Schema::Date | Schema::TimeMillis | Schema::Enum(_) => "int",
        Schema::Long
        | Schema::TimeMicros
        | Schema::TimestampMillis
        | Schema::TimestampMicros
        | Schema::TimestampNanos
        | Schema::LocalTimestampMillis
        | Schema::LocalTimestampMicros
        | Schema::LocalTimestampNanos => "long",
        Schema::Float => "float",
        Schema::Double => "double",
        Schema::Bytes => "bytes",
        Schema::String => "string",
        Schema::Fixed(_) | Schema::Uuid(UuidSchema::Fixed(_)) => "fixed",
        Schema::Decimal(decimal) => match decimal.inner {
            InnerDecimalSchema::Bytes => "bytes",
            InnerDecimalSchema::Fixed(_) => "fixed",
        },
        Schema::Record(_) => "record",
        Schema::Array(array) if is_map(array) => "pairs",
        Schema::Array(_) => "array",
        Schema::Map(_) => "map",
        Schema::Union(_) => "union",
        other => return Err(format!("the kernel has no kind for {other}").into()),
    })
}
