//! Values that can be compared, whether they come from the crate `apache-avro` or from Arrow columns.

use apache_avro::types::Value;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time32MillisecondType,
    Time64MicrosecondType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
};
use arrow_array::{Array, StructArray};
use arrow_schema::{DataType, TimeUnit};
use deltaberg_core::avro::Node;

use crate::Result;
use crate::wanted::entry_of;

/// A value reduced to what is stored: floating point numbers are their bits, times and decimals are integers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plain {
    Null,
    Whole(i128),
    Bits(u64),
    Bytes(Vec<u8>),
    List(Vec<Plain>),
    /// The entries of a map, ordered by their keys.
    Map(Vec<(Plain, Plain)>),
    Struct(Vec<Plain>),
}

/// What a column should hold, given the value that the crate has read.
pub fn of_value(value: &Value, node: &Node, wanted: &DataType) -> Result<Plain> {
    Ok(match value {
        Value::Union(branch, value) => {
            let branch = node.children.get(usize::try_from(*branch)?).ok_or("a union has no such branch")?;
            return of_value(value, branch, wanted);
        }
        Value::Null => Plain::Null,
        Value::Boolean(value) => Plain::Whole(i128::from(*value)),
        Value::Int(value) | Value::Date(value) | Value::TimeMillis(value) => Plain::Whole(i128::from(*value)),
        Value::Long(value)
        | Value::TimeMicros(value)
        | Value::TimestampMillis(value)
        | Value::TimestampMicros(value)
        | Value::TimestampNanos(value)
        | Value::LocalTimestampMillis(value)
        | Value::LocalTimestampMicros(value)
        | Value::LocalTimestampNanos(value) => Plain::Whole(i128::from(*value)),
        Value::Float(value) if *wanted == DataType::Float64 => Plain::Bits(f64::from(*value).to_bits()),
        Value::Float(value) => Plain::Bits(u64::from(value.to_bits())),
        Value::Double(value) => Plain::Bits(value.to_bits()),
        Value::Bytes(value) | Value::Fixed(_, value) => Plain::Bytes(value.clone()),
        Value::String(value) => Plain::Bytes(value.clone().into_bytes()),
        Value::Uuid(value) => Plain::Bytes(value.as_bytes().to_vec()),
        Value::Decimal(value) => {
            let bytes: Vec<u8> = value.try_into()?;
            let sign = if bytes.first().is_some_and(|byte| *byte >= 0x80) { -1 } else { 0 };
            Plain::Whole(bytes.iter().fold(sign, |number: i128, byte| number << 8 | i128::from(*byte)))
        }
        Value::Record(fields) => {
            let DataType::Struct(columns) = wanted else { return Err("a record is not a struct".into()) };
            let column = |(slot, column): (usize, &arrow_schema::FieldRef)| {
                let place = node.children.iter().position(|child| child.slot == Some(slot));
                let Some(place) = place else { return Ok(Plain::Null) };
                let (_, value) = fields.get(place).ok_or("a record has no such field")?;
                of_value(value, node.children.get(place).ok_or("a record has no such node")?, column.data_type())
            };
            Plain::Struct(columns.iter().enumerate().map(column).collect::<Result<_>>()?)
        }
        Value::Array(items) => {
            let item = node.children.first().ok_or("an array has no element")?;
            match wanted {
                DataType::List(field) => {
                    let items = items.iter().map(|value| of_value(value, item, field.data_type()));
                    Plain::List(items.collect::<Result<_>>()?)
                }
                _ => pairs_of(items, item, node, wanted)?,
            }
        }
        Value::Map(entries) => {
            let (_, value_type) = entry_of(Some(wanted)).ok_or("a map is not a map")?;
            let item = node.children.first().ok_or("a map has no values")?;
            let entry = |(key, value): (&String, &Value)| {
                Ok((Plain::Bytes(key.clone().into_bytes()), of_value(value, item, value_type)?))
            };
            sorted(entries.iter().map(entry).collect::<Result<_>>()?)
        }
        other => return Err(format!("{other:?} was not drawn").into()),
    })
}

fn pairs_of(items: &[Value], item: &Node, node: &Node, wanted: &DataType) -> Result<Plain> {
    let (key_type, value_type) = entry_of(Some(wanted)).ok_or("pairs are not a map")?;
    let [key_node, value_node] = item.children.as_slice() else { return Err("a pair has two parts".into()) };
    let mut pairs = Vec::new();
    for value in items {
        let Value::Record(parts) = value else { return Err("a pair is not a record".into()) };
        let [(_, key), (_, value)] = parts.as_slice() else { return Err("a pair has two parts".into()) };
        let key = of_value(key, key_node, key_type)?;
        let is_wanted = |keys: &Vec<i64>| keys.iter().any(|wanted| key == Plain::Whole(i128::from(*wanted)));
        if node.keys.as_ref().is_none_or(is_wanted) {
            pairs.push((key, of_value(value, value_node, value_type)?));
        }
    }
    Ok(sorted(pairs))
}

fn sorted(mut entries: Vec<(Plain, Plain)>) -> Plain {
    entries.sort();
    Plain::Map(entries)
}

/// The value in a row of a column.
pub fn of_array(array: &dyn Array, row: usize) -> Result<Plain> {
    if array.is_null(row) || *array.data_type() == DataType::Null {
        return Ok(Plain::Null);
    }
    let whole = |value: i64| Plain::Whole(i128::from(value));
    Ok(match array.data_type() {
        DataType::Boolean => Plain::Whole(i128::from(array.as_boolean().value(row))),
        DataType::Int32 => whole(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => whole(array.as_primitive::<Int64Type>().value(row)),
        DataType::Date32 => whole(array.as_primitive::<Date32Type>().value(row).into()),
        DataType::Time32(_) => whole(array.as_primitive::<Time32MillisecondType>().value(row).into()),
        DataType::Time64(_) => whole(array.as_primitive::<Time64MicrosecondType>().value(row)),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            whole(array.as_primitive::<TimestampMillisecondType>().value(row))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            whole(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        DataType::Timestamp(_, _) => whole(array.as_primitive::<TimestampNanosecondType>().value(row)),
        DataType::Float32 => Plain::Bits(array.as_primitive::<Float32Type>().value(row).to_bits().into()),
        DataType::Float64 => Plain::Bits(array.as_primitive::<Float64Type>().value(row).to_bits()),
        DataType::Decimal128(_, _) => Plain::Whole(array.as_primitive::<Decimal128Type>().value(row)),
        DataType::Utf8 => Plain::Bytes(array.as_string::<i32>().value(row).as_bytes().to_vec()),
        DataType::Binary => Plain::Bytes(array.as_binary::<i32>().value(row).to_vec()),
        DataType::FixedSizeBinary(_) => Plain::Bytes(array.as_fixed_size_binary().value(row).to_vec()),
        DataType::Struct(_) => of_struct(array.as_struct(), row)?,
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            Plain::List((0..items.len()).map(|item| of_array(&items, item)).collect::<Result<_>>()?)
        }
        DataType::Map(_, _) => {
            let entries = array.as_map().value(row);
            let [keys, values] = entries.columns() else { return Err("an entry has two parts".into()) };
            let entry = |row| Ok((of_array(keys, row)?, of_array(values, row)?));
            sorted((0..entries.len()).map(entry).collect::<Result<_>>()?)
        }
        other => return Err(format!("{other} was not wanted").into()),
    })
}

fn of_struct(array: &StructArray, row: usize) -> Result<Plain> {
    Ok(Plain::Struct(array.columns().iter().map(|column| of_array(column, row)).collect::<Result<_>>()?))
}
