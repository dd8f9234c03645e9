//! The primitive types of Delta schemas, and columns of them under construction.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder, Float64Builder, Int8Builder,
    Int16Builder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};

use arrow_schema::{DataType, TimeUnit};

use super::number;
use super::{Offset, date, timestamp};
use crate::error::{Error, ErrorKind, Result, quoted};

/// A primitive type by its name in a Delta schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrimitiveType {
    /// `string`
    String,
    /// `long`
    Long,
    /// `integer`
    Integer,
    /// `short`
    Short,
    /// `byte`
    Byte,
    /// `float`
    Float,
    /// `double`
    Double,
    /// `decimal(precision,scale)`
    Decimal(u8, u8),
    /// `boolean`
    Boolean,
    /// `binary`
    Binary,
    /// `date`
    Date,
    /// `timestamp`
    Timestamp,
    /// `timestamp_ntz`
    TimestampNtz,
}

impl PrimitiveType {
    /// The type of this name.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such primitive type.
    pub fn from_name(name: &str) -> Result<Self> {
        Ok(match name {
            "string" => Self::String,
            "long" => Self::Long,
            "integer" => Self::Integer,
            "short" => Self::Short,
            "byte" => Self::Byte,
            "float" => Self::Float,
            "double" => Self::Double,
            "boolean" => Self::Boolean,
            "binary" => Self::Binary,
            "date" => Self::Date,
            "timestamp" => Self::Timestamp,
            "timestamp_ntz" => Self::TimestampNtz,
            _ => return decimal_of(name).ok_or_else(|| unknown(name)),
        })
    }
}

impl PrimitiveType {
    /// The name in a Delta schema.
    #[must_use]
    pub fn name(self) -> String {
        let name = match self {
            Self::String => "string",
            Self::Long => "long",
            Self::Integer => "integer",
            Self::Short => "short",
            Self::Byte => "byte",
            Self::Float => "float",
            Self::Double => "double",
            Self::Boolean => "boolean",
            Self::Binary => "binary",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::TimestampNtz => "timestamp_ntz",
            Self::Decimal(precision, scale) => return format!("decimal({precision},{scale})"),
        };
        name.to_owned()
    }

    /// The Arrow type of its columns. Here both kinds of timestamp are microseconds without a zone.
    #[must_use]
    pub fn data_type(self) -> DataType {
        match self {
            Self::String => DataType::Utf8,
            Self::Long => DataType::Int64,
            Self::Integer => DataType::Int32,
            Self::Short => DataType::Int16,
            Self::Byte => DataType::Int8,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Decimal(precision, scale) => DataType::Decimal128(precision, scale.cast_signed()),
            Self::Boolean => DataType::Boolean,
            Self::Binary => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Timestamp | Self::TimestampNtz => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{} is not a primitive type", quoted(name)))
}

fn decimal_of(name: &str) -> Option<PrimitiveType> {
    let inside = name.strip_prefix("decimal(")?.strip_suffix(')')?;
    let (precision, scale) = inside.split_once(',')?;
    let (precision, scale): (u8, u8) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
    (1..=38).contains(&precision).then_some(())?;
    (scale <= precision).then_some(PrimitiveType::Decimal(precision, scale))
}

/// A column of one primitive type that grows by text or by JSON scalars.
pub enum ColumnBuilder {
    /// `string`
    String(StringBuilder),
    /// `long`
    Long(Int64Builder),
    /// `integer`
    Integer(Int32Builder),
    /// `short`
    Short(Int16Builder),
    /// `byte`
    Byte(Int8Builder),
    /// `float`
    Float(Float32Builder),
    /// `double`
    Double(Float64Builder),
    /// `decimal`, with its precision and scale
    Decimal(Decimal128Builder, u8, u8),
    /// `boolean`
    Boolean(BooleanBuilder),
    /// `binary`
    Binary(BinaryBuilder),
    /// `date`
    Date(Date32Builder),
    /// `timestamp` and `timestamp_ntz`, microseconds
    Timestamp(TimestampMicrosecondBuilder),
}

impl ColumnBuilder {
    /// An empty column.
    ///
    /// # Errors
    /// `InvalidArgument` if Arrow has no such decimal type.
    pub fn new(primitive: PrimitiveType) -> Result<Self> {
        Ok(match primitive {
            PrimitiveType::String => Self::String(StringBuilder::new()),
            PrimitiveType::Long => Self::Long(Int64Builder::new()),
            PrimitiveType::Integer => Self::Integer(Int32Builder::new()),
            PrimitiveType::Short => Self::Short(Int16Builder::new()),
            PrimitiveType::Byte => Self::Byte(Int8Builder::new()),
            PrimitiveType::Float => Self::Float(Float32Builder::new()),
            PrimitiveType::Double => Self::Double(Float64Builder::new()),
            PrimitiveType::Decimal(precision, scale) => {
                let builder = Decimal128Builder::new().with_precision_and_scale(precision, scale.cast_signed())?;
                Self::Decimal(builder, precision, scale)
            }
            PrimitiveType::Boolean => Self::Boolean(BooleanBuilder::new()),
            PrimitiveType::Binary => Self::Binary(BinaryBuilder::new()),
            PrimitiveType::Date => Self::Date(Date32Builder::new()),
            PrimitiveType::Timestamp | PrimitiveType::TimestampNtz => {
                Self::Timestamp(TimestampMicrosecondBuilder::new())
            }
        })
    }

    /// Appends a null.
    pub fn push_null(&mut self) {
        match self {
            Self::String(builder) => builder.append_null(),
            Self::Long(builder) => builder.append_null(),
            Self::Integer(builder) => builder.append_null(),
            Self::Short(builder) => builder.append_null(),
            Self::Byte(builder) => builder.append_null(),
            Self::Float(builder) => builder.append_null(),
            Self::Double(builder) => builder.append_null(),
            Self::Decimal(builder, ..) => builder.append_null(),
            Self::Boolean(builder) => builder.append_null(),
            Self::Binary(builder) => builder.append_null(),
            Self::Date(builder) => builder.append_null(),
            Self::Timestamp(builder) => builder.append_null(),
        }
    }

    /// Appends the value that `text` spells. Returns false, and appends nothing, if it spells none.
    ///
    /// `adjust` may move a timestamp, depending on how exactly its zone is known.
    #[must_use]
    pub fn push_text(&mut self, text: &str, adjust: impl Fn(i64, Offset) -> Option<i64>) -> bool {
        let pushed = match self {
            Self::String(builder) => {
                builder.append_value(text);
                Some(())
            }
            Self::Binary(builder) => {
                builder.append_value(text);
                Some(())
            }
            Self::Long(builder) => number::integer(text).map(|value| builder.append_value(value)),
            Self::Integer(builder) => narrow(text).map(|value| builder.append_value(value)),
            Self::Short(builder) => narrow(text).map(|value| builder.append_value(value)),
            Self::Byte(builder) => narrow(text).map(|value| builder.append_value(value)),
            #[allow(clippy::cast_possible_truncation)]
            Self::Float(builder) => number::float(text).map(|value| builder.append_value(value as f32)),
            Self::Double(builder) => number::float(text).map(|value| builder.append_value(value)),
            Self::Decimal(builder, precision, scale) => {
                number::decimal(text, *precision, *scale).map(|value| builder.append_value(value))
            }
            Self::Boolean(builder) => number::boolean(text).map(|value| builder.append_value(value)),
            Self::Date(builder) => date(text).map(|value| builder.append_value(value)),
            Self::Timestamp(builder) => timestamp(text)
                .and_then(|(micros, offset)| adjust(micros, offset))
                .map(|value| builder.append_value(value)),
        };
        pushed.is_some()
    }

    /// Builds the column, and leaves the builder empty.
    pub fn finish(&mut self) -> ArrayRef {
        match self {
            Self::String(builder) => Arc::new(builder.finish()),
            Self::Long(builder) => Arc::new(builder.finish()),
            Self::Integer(builder) => Arc::new(builder.finish()),
            Self::Short(builder) => Arc::new(builder.finish()),
            Self::Byte(builder) => Arc::new(builder.finish()),
            Self::Float(builder) => Arc::new(builder.finish()),
            Self::Double(builder) => Arc::new(builder.finish()),
            Self::Decimal(builder, ..) => Arc::new(builder.finish()),
            Self::Boolean(builder) => Arc::new(builder.finish()),
            Self::Binary(builder) => Arc::new(builder.finish()),
            Self::Date(builder) => Arc::new(builder.finish()),
            Self::Timestamp(builder) => Arc::new(builder.finish()),
        }
    }
}

fn narrow<T: TryFrom<i64>>(text: &str) -> Option<T> {
    number::integer(text).and_then(|value| T::try_from(value).ok())
}
