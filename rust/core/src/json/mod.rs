//! A strict JSON reader for log lines and statistics. It validates everything that it skips, copies
//! nothing, and allocates nothing. It accepts what Python's `json.loads` accepts, except `NaN`,
//! `Infinity`, and more than 128 levels of nesting.

mod cursor;
mod scan;
mod text;

pub use cursor::{Cursor, JsonError, Kind, Token};
pub(crate) use scan::string_end;
pub use text::Text;

#[cfg(test)]
mod tests;
