//! Scalars as the Delta protocol spells them in text: partition values and JSON statistics.

mod datetime;
mod number;
mod types;

pub use datetime::{Offset, date, timestamp};
pub use number::{integer, is_nan};
pub use types::{ColumnBuilder, PrimitiveType};
