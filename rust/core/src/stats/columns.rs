//! One row of statistics as tokens, and the typed columns that it is appended to.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Int64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};

use super::tree::Part;
use crate::error::Result;
use crate::json::Token;
use crate::values::{ColumnBuilder, Offset, PrimitiveType, integer, is_nan};

/// How much a zone offset may have lost when it was cut to whole minutes: nearly a minute.
const OFFSET_ERROR_MICROS: i64 = 59_000_000;

/// A column whose statistics are wanted.
#[derive(Clone, Debug)]
pub struct StatsLeaf {
    /// Physical names from the root.
    pub path: Vec<String>,
    /// Its type; none if it has no minimum and maximum.
    pub primitive: Option<PrimitiveType>,
}

/// The statistics of one file, not yet converted.
pub(super) struct Row<'a> {
    pub num_records: Token<'a>,
    pub tight_bounds: Token<'a>,
    /// For each leaf, a token per [`Part`].
    tokens: Vec<Token<'a>>,
}

impl<'a> Row<'a> {
    /// An empty row that reuses the memory of an earlier one.
    pub(super) fn new(leaves: usize, spare: Vec<Token<'static>>) -> Self {
        let mut tokens: Vec<Token<'a>> = spare;
        tokens.resize(leaves.saturating_mul(Part::COUNT), Token::Null);
        Self { num_records: Token::Null, tight_bounds: Token::Null, tokens }
    }

    /// Hands over the memory of this row to the next one.
    pub(super) fn into_spare(self) -> Vec<Token<'static>> {
        self.tokens.into_iter().map(|_| Token::Null).collect()
    }

    pub(super) fn clear(&mut self) {
        self.num_records = Token::Null;
        self.tight_bounds = Token::Null;
        self.tokens.fill(Token::Null);
    }

    pub(super) fn set(&mut self, part: Part, leaf: usize, token: Token<'a>) {
        let index = leaf.saturating_mul(Part::COUNT).saturating_add(part as usize);
        if let Some(slot) = self.tokens.get_mut(index) {
            *slot = token;
        }
    }
}

/// Columns under construction.
pub(super) struct StatsColumns {
    num_records: Int64Builder,
    tight_bounds: BooleanBuilder,
    leaves: Vec<LeafColumns>,
}

struct LeafColumns {
    bounds: Option<Bounds>,
    null_count: Int64Builder,
}

struct Bounds {
    primitive: PrimitiveType,
    min: ColumnBuilder,
    max: ColumnBuilder,
}

impl StatsColumns {
    pub(super) fn new(leaves: &[StatsLeaf]) -> Result<Self> {
        let column = |leaf: &StatsLeaf| -> Result<LeafColumns> {
            let bounds = match leaf.primitive {
                None => None,
                Some(primitive) => {
                    let (min, max) = (ColumnBuilder::new(primitive)?, ColumnBuilder::new(primitive)?);
                    Some(Bounds { primitive, min, max })
                }
            };
            Ok(LeafColumns { bounds, null_count: Int64Builder::new() })
        };
        let leaves = leaves.iter().map(column).collect::<Result<_>>()?;
        Ok(Self { num_records: Int64Builder::new(), tight_bounds: BooleanBuilder::new(), leaves })
    }

    pub(super) fn push(&mut self, row: &Row<'_>) {
        self.num_records.append_option(count(row.num_records));
        self.tight_bounds.append_option(match row.tight_bounds {
            Token::Boolean(tight) => Some(tight),
            _ => None,
        });
        let (tokens, _) = row.tokens.as_chunks::<{ Part::COUNT }>();
        for (columns, [min, max, null_count]) in self.leaves.iter_mut().zip(tokens) {
            if let Some(bounds) = &mut columns.bounds {
                push_bound(&mut bounds.min, bounds.primitive, *min, -OFFSET_ERROR_MICROS);
                push_bound(&mut bounds.max, bounds.primitive, *max, OFFSET_ERROR_MICROS);
            }
            columns.null_count.append_option(count(*null_count));
        }
    }

    pub(super) fn finish(mut self) -> Result<RecordBatch> {
        let mut fields =
            vec![Field::new("numRecords", DataType::Int64, true), Field::new("tightBounds", DataType::Boolean, true)];
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(self.num_records.finish()), Arc::new(self.tight_bounds.finish())];
        for (index, leaf) in self.leaves.iter_mut().enumerate() {
            if let Some(bounds) = &mut leaf.bounds {
                for (name, builder) in [("min", &mut bounds.min), ("max", &mut bounds.max)] {
                    fields.push(Field::new(format!("{name}.{index}"), bounds.primitive.data_type(), true));
                    arrays.push(builder.finish());
                }
            }
            fields.push(Field::new(format!("nullCount.{index}"), DataType::Int64, true));
            arrays.push(Arc::new(leaf.null_count.finish()));
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
    }
}

/// Reads a count, an integer that is not negative.
pub(super) fn count(token: Token<'_>) -> Option<i64> {
    let Token::Number(spelling) = token else { return None };
    std::str::from_utf8(spelling).ok().and_then(integer).filter(|value| *value >= 0)
}

/// Appends a bound, or null if the token is not a value of the type. NaN is not a bound.
fn push_bound(builder: &mut ColumnBuilder, primitive: PrimitiveType, token: Token<'_>, slack: i64) {
    let widen = |micros: i64, offset: Offset| match offset {
        Offset::WholeMinutes => micros.checked_add(slack),
        Offset::Missing | Offset::Exact => Some(micros),
    };
    let bounds_nothing = |text: &str| is_nan(text) && primitive != PrimitiveType::String;
    let pushed = match token {
        Token::Boolean(value) if primitive == PrimitiveType::Boolean => {
            builder.push_text(if value { "true" } else { "false" }, widen)
        }
        Token::Number(spelling) if is_numeric(primitive) => {
            std::str::from_utf8(spelling).is_ok_and(|spelling| builder.push_text(spelling, widen))
        }
        Token::String(text) if is_text(primitive) => {
            text.resolve().is_some_and(|text| !bounds_nothing(&text) && builder.push_text(&text, widen))
        }
        _ => false,
    };
    if !pushed {
        builder.push_null();
    }
}

fn is_numeric(primitive: PrimitiveType) -> bool {
    use PrimitiveType::{Byte, Decimal, Double, Float, Integer, Long, Short};
    matches!(primitive, Byte | Short | Integer | Long | Float | Double | Decimal(..))
}

/// Types whose bounds may be JSON strings. These include floating point types, for infinities.
fn is_text(primitive: PrimitiveType) -> bool {
    use PrimitiveType::{Date, Decimal, Double, Float, String, Timestamp, TimestampNtz};
    matches!(primitive, String | Date | Timestamp | TimestampNtz | Float | Double | Decimal(..))
}
