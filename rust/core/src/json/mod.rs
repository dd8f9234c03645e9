//! A strict JSON reader for log lines and statistics: it validates everything that it passes over,
//! copies nothing, and allocates nothing. It accepts exactly what Python's `json.loads` accepts with
//! `NaN` and `Infinity` refused, nesting limited to 128 levels.

mod cursor;
mod scan;
mod text;

pub use cursor::{Cursor, JsonError, Kind, Token};
pub use text::Text;

#[cfg(test)]
mod tests;
