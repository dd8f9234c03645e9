//! The kernels of deltaberg: what runs once for each action, row or file of a table.
//!
//! Pure functions, bytes or Arrow in and Arrow or bytes out. No I/O, no Python, no global state,
//! and no thread that outlives a call. Every one of them has a twin in Python with the same
//! results, in `deltaberg.kernels.pure`.

pub mod avro;
pub mod bitmap;
pub mod bounds;
pub mod deltalog;
mod error;
mod json;
mod keys;
pub mod murmur;
mod parallel;
mod partition;
pub mod stats;
mod values;
pub mod z85;

pub use error::{Error, ErrorKind, Result};
pub use keys::KeyIndex;
pub use partition::parse_partition_values;
pub use values::PrimitiveType;
