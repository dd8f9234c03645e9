//! Statistics of files that are written: from typed columns to JSON text.

use std::fmt::Write;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, TimeUnit};

use super::{ROWS_PER_PART, parts_of};
use crate::error::{Error, ErrorKind, Result};
use crate::parallel;

/// Dates outside of the years 1 to 9999 have no text that every reader knows. In days since 1970.
const FIRST_DAY: i64 = -719_162;
const LAST_DAY: i64 = 2_932_896;
const MICROS: i64 = 1_000;
const DAY_MILLIS: i64 = 86_400_000;
/// Numbers of fewer digits are never as near to a double as another one of as many digits.
const TIED_DIGITS: usize = 16;

/// Writes the statistics of files as JSON objects.
///
/// `statistics` has the columns that [`super::parse_stats`] returns: `numRecords`, and for the leaf with the path
/// `paths[i]` the columns `min.i`, `max.i` and `nullCount.i`. A missing column and a null are unknown, and left out, as
/// are bounds of a type that has none. Timestamps are rounded outward to milliseconds, unless that is the year 10000.
/// `tight` adds `tightBounds`.
///
/// # Errors
/// `InvalidArgument` if a column has an unexpected type; `TooLarge` if the texts exceed the limit of their type.
pub fn format_stats(
    statistics: &RecordBatch,
    paths: &[Vec<String>],
    tight: bool,
    threads: usize,
) -> Result<StringArray> {
    let object = |side: &str, upper: bool| -> Result<Vec<Member>> {
        let leaves: Vec<(&[String], usize)> =
            paths.iter().enumerate().map(|(index, path)| (path.as_slice(), index)).collect();
        members(&leaves, &|index| {
            let column = statistics.column_by_name(&format!("{side}.{index}"));
            column.map(|column| Leaf::new(column, upper)).transpose().map(Option::flatten)
        })
    };
    let count = statistics.column_by_name("numRecords").map(|column| Leaf::new(column, false)).transpose()?.flatten();
    let mut whole: Vec<Member> = count.into_iter().map(|leaf| Member::new("numRecords", Node::Leaf(leaf))).collect();
    for (name, side, upper) in
        [("minValues", "min", false), ("maxValues", "max", true), ("nullCount", "nullCount", false)]
    {
        whole.push(Member::new(name, Node::Object(object(side, upper)?)));
    }
    let parts = parts_of(0, statistics.num_rows());
    let threads = if statistics.num_rows() <= ROWS_PER_PART { 1 } else { threads };
    let texts = parallel::map(&parts, threads, |(from, to)| {
        let mut text = String::new();
        let mut ends = Vec::with_capacity(to.saturating_sub(*from));
        for row in *from..*to {
            text.push('{');
            let any = write_members(&mut text, &whole, row);
            if tight {
                text.push_str(if any { ",\"tightBounds\":true" } else { "\"tightBounds\":true" });
            }
            text.push('}');
            ends.push(text.len());
        }
        (text, ends)
    });
    let bytes = texts.iter().fold(0_usize, |sum, (text, _)| sum.saturating_add(text.len()));
    if i32::try_from(bytes).is_err() {
        return Err(Error::new(ErrorKind::TooLarge, "the statistics of these files exceed 2 GiB"));
    }
    let mut builder = StringBuilder::with_capacity(statistics.num_rows(), bytes);
    for (text, ends) in &texts {
        let mut start = 0_usize;
        for end in ends {
            builder.append_value(text.get(start..*end).unwrap_or_default());
            start = *end;
        }
    }
    Ok(builder.finish())
}

/// A member of an object: its name as JSON with a colon, and its value.
struct Member {
    name: String,
    node: Node,
}

enum Node {
    Leaf(Leaf),
    Object(Vec<Member>),
}

impl Member {
    fn new(name: &str, node: Node) -> Self {
        let mut text = String::new();
        write_string(&mut text, name);
        text.push(':');
        Self { name: text, node }
    }
}

/// Returns the members of an object whose leaves have these paths. Neighbours with the same first name belong together.
fn members(leaves: &[(&[String], usize)], column: &dyn Fn(usize) -> Result<Option<Leaf>>) -> Result<Vec<Member>> {
    let mut found = Vec::new();
    let same = |left: &(&[String], usize), right: &(&[String], usize)| {
        left.0.len() > 1 && right.0.len() > 1 && left.0.first() == right.0.first()
    };
    for group in leaves.chunk_by(same) {
        let Some((path, index)) = group.first() else { continue };
        match path {
            [] => {}
            [name] => {
                if let Some(leaf) = column(*index)? {
                    found.push(Member::new(name, Node::Leaf(leaf)));
                }
            }
            [name, ..] => {
                let inside: Vec<_> =
                    group.iter().map(|(path, index)| (path.get(1..).unwrap_or_default(), *index)).collect();
                found.push(Member::new(name, Node::Object(members(&inside, column)?)));
            }
        }
    }
    Ok(found)
}

/// Writes the members that a row has, and returns whether there are any.
fn write_members(text: &mut String, members: &[Member], row: usize) -> bool {
    let mut any = false;
    for member in members {
        let before = text.len();
        if any {
            text.push(',');
        }
        text.push_str(&member.name);
        let written = match &member.node {
            Node::Leaf(leaf) => leaf.write(text, row),
            Node::Object(inside) => {
                text.push('{');
                let some = write_members(text, inside, row);
                text.push('}');
                some
            }
        };
        if written {
            any = true;
        } else {
            text.truncate(before);
        }
    }
    any
}

/// A column of values that have a text.
struct Leaf {
    values: ArrayRef,
    upper: bool,
}

impl Leaf {
    /// Takes a column; none if values of its type are not recorded.
    fn new(values: &ArrayRef, upper: bool) -> Result<Option<Self>> {
        use DataType::{
            Binary, Boolean, Date32, Decimal128, FixedSizeBinary, Float32, Float64, Int8, Int16, Int32, Int64,
            LargeBinary, LargeUtf8, Null, Struct, Timestamp, Utf8,
        };
        match values.data_type() {
            Boolean
            | Int8
            | Int16
            | Int32
            | Int64
            | Float32
            | Float64
            | Decimal128(..)
            | Date32
            | Utf8
            | LargeUtf8
            | Timestamp(TimeUnit::Microsecond, _) => Ok(Some(Self { values: values.clone(), upper })),
            Binary | LargeBinary | FixedSizeBinary(_) | Null | Struct(_) => Ok(None),
            other => Err(Error::new(ErrorKind::InvalidArgument, format!("statistics cannot be of the type {other}"))),
        }
    }

    /// Writes the value of a row, and returns whether it has a text.
    fn write(&self, text: &mut String, row: usize) -> bool {
        use DataType::{
            Boolean, Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, LargeUtf8, Timestamp,
        };
        let values = &self.values;
        if values.is_null(row) {
            return false;
        }
        match values.data_type() {
            Boolean => write!(text, "{}", values.as_boolean().value(row)).is_ok(),
            Int8 => write!(text, "{}", values.as_primitive::<Int8Type>().value(row)).is_ok(),
            Int16 => write!(text, "{}", values.as_primitive::<Int16Type>().value(row)).is_ok(),
            Int32 => write!(text, "{}", values.as_primitive::<Int32Type>().value(row)).is_ok(),
            Int64 => write!(text, "{}", values.as_primitive::<Int64Type>().value(row)).is_ok(),
            // A float is recorded as the double that it is, so that a reader may take it for one.
            Float32 => write_double(text, f64::from(values.as_primitive::<Float32Type>().value(row))),
            Float64 => write_double(text, values.as_primitive::<Float64Type>().value(row)),
            Decimal128(_, scale) => write_decimal(text, values.as_primitive::<Decimal128Type>().value(row), *scale),
            Date32 => {
                let day = i64::from(values.as_primitive::<Date32Type>().value(row));
                (FIRST_DAY..=LAST_DAY).contains(&day) && {
                    text.push('"');
                    write_date(text, day);
                    text.push('"');
                    true
                }
            }
            Timestamp(_, zone) => {
                let micros = values.as_primitive::<TimestampMicrosecondType>().value(row);
                write_timestamp(text, micros, self.upper, zone.is_some())
            }
            LargeUtf8 => {
                write_string(text, values.as_string::<i64>().value(row));
                true
            }
            _ => {
                write_string(text, values.as_string::<i32>().value(row));
                true
            }
        }
    }
}

/// Writes a text as JSON, with no more escapes than it needs.
fn write_string(text: &mut String, value: &str) {
    text.push('"');
    let mut plain = 0_usize;
    for (place, byte) in value.bytes().enumerate() {
        let short = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0c => "\\f",
            0..0x20 => "",
            _ => continue,
        };
        text.push_str(value.get(plain..place).unwrap_or_default());
        plain = place.saturating_add(1);
        if short.is_empty() {
            // Writing into a string does not fail.
            let _ = write!(text, "\\u{byte:04x}");
        } else {
            text.push_str(short);
        }
    }
    text.push_str(value.get(plain..).unwrap_or_default());
    text.push('"');
}

/// Writes the shortest number that is read back as the same double, in the layout of Python. Infinities, which JSON has
/// no numbers for, are strings, as Spark writes them. NaN is not a bound.
fn write_double(text: &mut String, value: f64) -> bool {
    if value.is_nan() {
        return false;
    }
    if value.is_infinite() {
        text.push_str(if value > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" });
        return true;
    }
    let mut short = format!("{value:e}");
    // Where two shortest numbers are equally near, Python takes the even one.
    if short.len() > TIED_DIGITS {
        let digits = short.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
        let even = format!("{value:.*e}", digits.saturating_sub(1));
        if even.parse() == Ok(value) {
            short = even;
        }
    }
    let Some((mantissa, exponent)) = short.split_once('e') else { return false };
    let Ok(exponent) = exponent.parse::<i32>() else { return false };
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    text.push_str(sign);
    if !(-4..16).contains(&exponent) {
        text.push_str(mantissa);
        let sign = if exponent < 0 { '-' } else { '+' };
        return write!(text, "e{sign}{:02}", exponent.unsigned_abs()).is_ok();
    }
    if exponent < 0 {
        text.push_str("0.");
        text.extend((1..exponent.unsigned_abs()).map(|_| '0'));
        text.push_str(&digits);
        return true;
    }
    let whole = usize::try_from(exponent).unwrap_or(0).saturating_add(1);
    text.push_str(digits.get(..whole).unwrap_or(&digits));
    text.extend((digits.len()..whole).map(|_| '0'));
    text.push('.');
    text.push_str(digits.get(whole..).filter(|rest| !rest.is_empty()).unwrap_or("0"));
    true
}

fn write_decimal(text: &mut String, value: i128, scale: i8) -> bool {
    let digits = value.unsigned_abs().to_string();
    if value < 0 {
        text.push('-');
    }
    let scale = usize::from(scale.unsigned_abs());
    if scale == 0 {
        text.push_str(&digits);
        return true;
    }
    let whole = digits.len().saturating_sub(scale);
    text.push_str(digits.get(..whole).filter(|part| !part.is_empty()).unwrap_or("0"));
    text.push('.');
    text.extend((digits.len()..scale).map(|_| '0'));
    text.push_str(digits.get(whole..).unwrap_or_default());
    true
}

fn write_timestamp(text: &mut String, micros: i64, upper: bool, zoned: bool) -> bool {
    let floor = micros.div_euclid(MICROS);
    let outward = if upper && micros.rem_euclid(MICROS) > 0 { floor.saturating_add(1) } else { floor };
    // The year 10000 has no text. Readers allow for values up to the end of the millisecond.
    let millis = if outward.div_euclid(DAY_MILLIS) > LAST_DAY { floor } else { outward };
    let day = millis.div_euclid(DAY_MILLIS);
    if !(FIRST_DAY..=LAST_DAY).contains(&day) {
        return false;
    }
    let rest = millis.rem_euclid(DAY_MILLIS);
    let (seconds, milli) = (rest.div_euclid(1000), rest.rem_euclid(1000));
    let (minutes, second) = (seconds.div_euclid(60), seconds.rem_euclid(60));
    let (hour, minute) = (minutes.div_euclid(60), minutes.rem_euclid(60));
    text.push('"');
    write_date(text, day);
    let zone = if zoned { "Z" } else { "" };
    write!(text, "T{hour:02}:{minute:02}:{second:02}.{milli:03}{zone}\"").is_ok()
}

/// Writes a day since 1970 of the years 1 to 9999 in the calendar of Gregory.
fn write_date(text: &mut String, day: i64) {
    // Years begin in March, so that the day that comes and goes is their last one. A cycle has 400 years.
    let days = day.saturating_add(719_468);
    let (cycle, in_cycle) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leaps = in_cycle
        .saturating_sub(in_cycle.div_euclid(1_460))
        .saturating_add(in_cycle.div_euclid(36_524))
        .saturating_sub(in_cycle.div_euclid(146_096));
    let year_of_cycle = leaps.div_euclid(365);
    let before = year_of_cycle
        .saturating_mul(365)
        .saturating_add(year_of_cycle.div_euclid(4))
        .saturating_sub(year_of_cycle.div_euclid(100));
    let in_year = in_cycle.saturating_sub(before);
    let from_march = in_year.saturating_mul(5).saturating_add(2).div_euclid(153);
    let first = from_march.saturating_mul(153).saturating_add(2).div_euclid(5);
    let of_month = in_year.saturating_sub(first).saturating_add(1);
    let month = if from_march < 10 { from_march.saturating_add(3) } else { from_march.saturating_sub(9) };
    let year = cycle.saturating_mul(400).saturating_add(year_of_cycle).saturating_add(i64::from(month <= 2));
    let _ = write!(text, "{year:04}-{month:02}-{of_month:02}");
}
