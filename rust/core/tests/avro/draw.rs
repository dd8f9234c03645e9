//! Random schemas and values that a seed repeats.

use std::collections::HashMap;

use apache_avro::Schema;
use apache_avro::schema::{DecimalSchema, InnerDecimalSchema};
use apache_avro::types::Value;

use crate::Result;

/// Types without parts. Each value takes at least a byte, so that arrays may hold them.
const LEAVES: [&str; 18] = [
    r#""boolean""#,
    r#""int""#,
    r#""long""#,
    r#""float""#,
    r#""double""#,
    r#""bytes""#,
    r#""string""#,
    r#"{"type":"int","logicalType":"date"}"#,
    r#"{"type":"int","logicalType":"time-millis"}"#,
    r#"{"type":"long","logicalType":"time-micros"}"#,
    r#"{"type":"long","logicalType":"timestamp-millis"}"#,
    r#"{"type":"long","logicalType":"timestamp-micros","adjust-to-utc":true}"#,
    r#"{"type":"long","logicalType":"timestamp-nanos","adjust-to-utc":false}"#,
    r#"{"type":"long","logicalType":"local-timestamp-millis"}"#,
    r#"{"type":"long","logicalType":"local-timestamp-micros"}"#,
    r#"{"type":"long","logicalType":"local-timestamp-nanos"}"#,
    r#"{"type":"bytes","logicalType":"decimal","precision":38,"scale":10}"#,
    r#"{"type":"bytes","logicalType":"decimal","precision":4,"scale":0}"#,
];

/// Numbers from a seed.
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any 64-bit number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below a limit that is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        self.number().checked_rem(limit).and_then(|number| usize::try_from(number).ok()).unwrap_or(0)
    }

    /// True in one of `count` cases, on average.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn whole(&mut self) -> i64 {
        // Half of the numbers are small, so that keys of maps match the selected ones.
        if self.one_in(2) { i64::try_from(self.below(8)).unwrap_or(0) } else { self.wide() }
    }

    /// Numbers of all magnitudes and both signs.
    fn wide(&mut self) -> i64 {
        let shift = u32::try_from(self.below(64)).unwrap_or(0);
        self.number().cast_signed().wrapping_shr(shift)
    }

    fn int(&mut self) -> i32 {
        i32::try_from(self.whole()).unwrap_or_else(|_| if self.one_in(2) { i32::MIN } else { i32::MAX })
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.number().to_le_bytes()[0]).collect()
    }

    fn text(&mut self) -> String {
        const LETTERS: [char; 6] = ['a', 'z', '\0', 'é', '日', '😀'];
        (0..self.below(12)).filter_map(|_| LETTERS.get(self.below(LETTERS.len())).copied()).collect()
    }

    /// A random value of a schema.
    pub fn value(&mut self, schema: &Schema) -> Result<Value> {
        Ok(match schema {
            Schema::Null => Value::Null,
            Schema::Boolean => Value::Boolean(self.one_in(2)),
            Schema::Int => Value::Int(self.int()),
            Schema::Long => Value::Long(self.whole()),
            Schema::Float => Value::Float(f32::from_bits(u32::try_from(self.number() >> 32)?)),
            Schema::Double => Value::Double(f64::from_bits(self.number())),
            Schema::Bytes => {
                let count = self.below(20);
                Value::Bytes(self.bytes(count))
            }
            Schema::String => Value::String(self.text()),
            Schema::Fixed(fixed) => Value::Fixed(fixed.size, self.bytes(fixed.size)),
            Schema::Uuid(_) => Value::Fixed(16, self.bytes(16)).resolve(schema)?,
            Schema::Enum(symbols) => {
                let index = self.below(symbols.symbols.len());
                let symbol = symbols.symbols.get(index).ok_or("an enum without symbols")?;
                Value::Enum(u32::try_from(index)?, symbol.clone())
            }
            Schema::Date => Value::Date(self.int()),
            Schema::TimeMillis => Value::TimeMillis(i32::try_from(self.below(86_400_000))?),
            Schema::TimeMicros => Value::TimeMicros(i64::try_from(self.below(86_400_000_000))?),
            Schema::TimestampMillis => Value::TimestampMillis(self.wide()),
            Schema::TimestampMicros => Value::TimestampMicros(self.wide()),
            Schema::TimestampNanos => Value::TimestampNanos(self.wide()),
            Schema::LocalTimestampMillis => Value::LocalTimestampMillis(self.wide()),
            Schema::LocalTimestampMicros => Value::LocalTimestampMicros(self.wide()),
            Schema::LocalTimestampNanos => Value::LocalTimestampNanos(self.wide()),
            Schema::Decimal(decimal) => self.decimal(decimal)?,
            Schema::Array(array) => {
                Value::Array((0..self.below(5)).map(|_| self.value(&array.items)).collect::<Result<_>>()?)
            }
            Schema::Map(map) => {
                let entries = (0..self.below(5)).map(|_| Ok((self.text(), self.value(&map.types)?)));
                Value::Map(entries.collect::<Result<HashMap<_, _>>>()?)
            }
            Schema::Union(union) => {
                let index = self.below(union.variants().len());
                let branch = union.variants().get(index).ok_or("a union without branches")?;
                Value::Union(u32::try_from(index)?, Box::new(self.value(branch)?))
            }
            Schema::Record(record) => {
                let fields = record.fields.iter().map(|field| Ok((field.name.clone(), self.value(&field.schema)?)));
                Value::Record(fields.collect::<Result<_>>()?)
            }
            other => return Err(format!("values of {other} cannot be drawn").into()),
        })
    }

    fn decimal(&mut self, schema: &DecimalSchema) -> Result<Value> {
        let limit = 10_i128.checked_pow(u32::try_from(schema.precision)?).ok_or("a decimal of too many digits")?;
        let drawn = i128::from(self.wide()).wrapping_mul(i128::from(self.wide()));
        let bytes = (drawn.checked_rem(limit).ok_or("a limit of 0")?).to_be_bytes();
        Ok(Value::Decimal(match &schema.inner {
            InnerDecimalSchema::Bytes => bytes.into(),
            InnerDecimalSchema::Fixed(fixed) => {
                let start = bytes.len().checked_sub(fixed.size).ok_or("a decimal of too many bytes")?;
                bytes.get(start..).ok_or("a decimal of too few bytes")?.into()
            }
        }))
    }
}

/// Writes random schemas as JSON, with the field ids of Iceberg.
pub struct Schemas<'d> {
    draw: &'d mut Draw,
    named: usize,
}

impl<'d> Schemas<'d> {
    pub fn new(draw: &'d mut Draw) -> Self {
        Self { draw, named: 0 }
    }

    fn next(&mut self) -> usize {
        self.named = self.named.saturating_add(1);
        self.named
    }

    /// A record of some fields, the first of which takes at least a byte.
    pub fn record(&mut self, depth: usize) -> String {
        let mut fields = vec![self.value(depth)];
        for _ in 0..self.draw.below(6) {
            fields.push(self.any(depth));
        }
        let named = |schemas: &mut Self, schema| {
            let id = schemas.next();
            format!(r#"{{"name":"f{id}","field-id":{id},"type":{schema}}}"#)
        };
        let fields: Vec<String> = fields.into_iter().map(|schema| named(self, schema)).collect();
        format!(r#"{{"type":"record","name":"r{}","fields":[{}]}}"#, self.next(), fields.join(","))
    }

    fn any(&mut self, depth: usize) -> String {
        match self.draw.below(12) {
            0 => r#""null""#.to_owned(),
            1 | 2 => format!(r#"["null",{}]"#, self.value(depth)),
            3 => format!(r#"[{},"null"]"#, self.value(depth)),
            4 => format!("[{}]", self.value(depth)),
            // No column can hold these, so they are skipped.
            5 => format!(r#"["string","null","double",{}]"#, self.record(depth.saturating_add(1))),
            6 => format!(r#"{{"type":"enum","name":"e{}","symbols":["A","B","C"]}}"#, self.next()),
            _ => self.value(depth),
        }
    }

    /// A type that is neither null nor a union.
    fn value(&mut self, depth: usize) -> String {
        let inner = depth.saturating_add(1);
        let compound = depth < 3 && self.draw.one_in(3);
        match (compound, self.draw.below(5)) {
            (true, 0) => self.record(inner),
            (true, 1) => {
                format!(r#"{{"type":"array","element-id":{},"items":{}}}"#, self.next(), self.item(inner))
            }
            (true, 2) => format!(
                r#"{{"type":"map","key-id":{},"value-id":{},"values":{}}}"#,
                self.next(),
                self.next(),
                self.any(inner)
            ),
            (true, _) => self.pairs(inner),
            (false, 0) => {
                let size = self.draw.below(20).saturating_add(1);
                format!(r#"{{"type":"fixed","name":"x{}","size":{size}}}"#, self.next())
            }
            (false, 1) if self.draw.one_in(2) => {
                format!(r#"{{"type":"fixed","name":"u{}","size":16,"logicalType":"uuid"}}"#, self.next())
            }
            (false, 1) => format!(
                r#"{{"type":"fixed","name":"d{}","size":9,"logicalType":"decimal","precision":20,"scale":3}}"#,
                self.next()
            ),
            (false, _) => LEAVES.get(self.draw.below(LEAVES.len())).copied().unwrap_or(r#""int""#).to_owned(),
        }
    }

    /// The element of an array, which must take at least a byte.
    fn item(&mut self, depth: usize) -> String {
        if self.draw.one_in(3) { format!(r#"["null",{}]"#, self.value(depth)) } else { self.value(depth) }
    }

    /// An array of key-value pairs, which is how Iceberg writes a map whose keys are not strings.
    fn pairs(&mut self, depth: usize) -> String {
        let key = if self.draw.one_in(4) { r#""string""#.to_owned() } else { r#""int""#.to_owned() };
        let value = self.item(depth);
        let (key_id, value_id, name) = (self.next(), self.next(), self.next());
        format!(
            r#"{{"type":"array","logicalType":"map","items":{{"type":"record","name":"k{name}","fields":[{{"name":"key","field-id":{key_id},"type":{key}}},{{"name":"value","field-id":{value_id},"type":{value}}}]}}}}"#
        )
    }
}
