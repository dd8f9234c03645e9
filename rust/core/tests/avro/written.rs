//! Files that the kernel writes, as the crate `apache-avro` reads them.

use apache_avro::Reader;
use apache_avro::types::Value;
use arrow_schema::{DataType, Field, Fields};

use crate::Result;
use crate::plain::Plain;

pub const SYNC: [u8; 16] = *b"sixteen bytes...";

/// The header of a file with columns of these fields.
pub fn header_of(fields: &Fields, codec: &str) -> Result<Vec<u8>> {
    let schema = record_of(fields, &mut 0)?;
    let mut header = b"Obj\x01\x04".to_vec();
    for text in ["avro.schema", &schema, "avro.codec", codec] {
        let mut length = text.len().checked_mul(2).ok_or("too long")?;
        while length >= 0x80 {
            header.push(u8::try_from(length & 0x7f)? | 0x80);
            length >>= 7;
        }
        header.push(u8::try_from(length)?);
        header.extend_from_slice(text.as_bytes());
    }
    header.push(0);
    header.extend_from_slice(&SYNC);
    Ok(header)
}

fn next(names: &mut usize) -> usize {
    *names = names.saturating_add(1);
    *names
}

fn record_of(fields: &Fields, names: &mut usize) -> Result<String> {
    let mut parts = Vec::new();
    for (place, field) in fields.iter().enumerate() {
        parts.push(format!(r#"{{"name":"c{place}","type":{}}}"#, type_of(field, names)?));
    }
    Ok(format!(r#"{{"type":"record","name":"r{}","fields":[{}]}}"#, next(names), parts.join(",")))
}

/// The Avro type of a field, without logical types, which do not change what is written.
fn type_of(field: &Field, names: &mut usize) -> Result<String> {
    let fixed = |size: i32, names: &mut usize| format!(r#"{{"type":"fixed","name":"x{}","size":{size}}}"#, next(names));
    let found = match field.data_type() {
        DataType::Null => return Ok(r#""null""#.to_owned()),
        DataType::Boolean => r#""boolean""#.to_owned(),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => r#""int""#.to_owned(),
        DataType::Int64 | DataType::Time64(_) | DataType::Timestamp(..) => r#""long""#.to_owned(),
        DataType::Float32 => r#""float""#.to_owned(),
        DataType::Float64 => r#""double""#.to_owned(),
        DataType::Utf8 => r#""string""#.to_owned(),
        DataType::Binary => r#""bytes""#.to_owned(),
        DataType::FixedSizeBinary(size) => fixed(*size, names),
        DataType::Decimal128(precision, _) => {
            let digits = f64::from(*precision) * 10_f64.log2();
            fixed((1..=16).find(|size| f64::from(*size) * 8.0 - 1.0 >= digits).ok_or("too many digits")?, names)
        }
        DataType::Struct(fields) => record_of(fields, names)?,
        DataType::List(item) => format!(r#"{{"type":"array","items":{}}}"#, type_of(item, names)?),
        DataType::Map(entries, _) => format!(r#"{{"type":"array","items":{}}}"#, type_of(entries, names)?),
        other => return Err(format!("{other} was not wanted").into()),
    };
    Ok(if field.is_nullable() { format!(r#"["null",{found}]"#) } else { found })
}

/// The rows of a file.
pub fn rows_of(file: &[u8], fields: &Fields) -> Result<Vec<Plain>> {
    let wanted = DataType::Struct(fields.clone());
    Reader::new(file)?.map(|row| plain(&row?, &wanted)).collect()
}

fn plain(value: &Value, wanted: &DataType) -> Result<Plain> {
    Ok(match (value, wanted) {
        (Value::Union(_, value), _) => return plain(value, wanted),
        (Value::Null, _) => Plain::Null,
        (Value::Boolean(value), _) => Plain::Whole(i128::from(*value)),
        (Value::Int(value), _) => Plain::Whole(i128::from(*value)),
        (Value::Long(value), _) => Plain::Whole(i128::from(*value)),
        (Value::Float(value), _) => Plain::Bits(u64::from(value.to_bits())),
        (Value::Double(value), _) => Plain::Bits(value.to_bits()),
        (Value::String(value), _) => Plain::Bytes(value.clone().into_bytes()),
        (Value::Fixed(_, bytes), DataType::Decimal128(..)) => {
            let sign = if bytes.first().is_some_and(|byte| *byte >= 0x80) { -1 } else { 0 };
            Plain::Whole(bytes.iter().fold(sign, |number: i128, byte| number << 8 | i128::from(*byte)))
        }
        (Value::Bytes(value) | Value::Fixed(_, value), _) => Plain::Bytes(value.clone()),
        (Value::Record(parts), DataType::Struct(fields)) => {
            let parts = parts.iter().zip(fields).map(|((_, part), field)| plain(part, field.data_type()));
            Plain::Struct(parts.collect::<Result<_>>()?)
        }
        (Value::Array(items), DataType::List(item)) => {
            Plain::List(items.iter().map(|value| plain(value, item.data_type())).collect::<Result<_>>()?)
        }
        (Value::Array(items), DataType::Map(entries, _)) => {
            let mut pairs = Vec::new();
            for item in items {
                let Plain::Struct(parts) = plain(item, entries.data_type())? else { return Err("no pair".into()) };
                let [key, value] = <[Plain; 2]>::try_from(parts).map_err(|_| "a pair has two parts")?;
                pairs.push((key, value));
            }
            pairs.sort();
            Plain::Map(pairs)
        }
        (other, _) => return Err(format!("{other:?} is not of type {wanted}").into()),
    })
}
