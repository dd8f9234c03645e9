//! The hot loops of deltaberg: whatever runs once per action, row or file of a table.
//!
//! Kernels are pure functions from bytes or Arrow data to Arrow data or bytes. They do no I/O, know
//! nothing of Python, hold no global state, and leave no thread running when they return. Each has a
//! Python twin with the same results in `deltaberg.kernels.pure`.

pub mod avro;
pub mod bitmap;
pub mod bounds;
pub mod curves;
pub mod deltalog;
mod error;
mod fingerprint;
mod json;
mod keys;
mod locations;
pub mod murmur;
mod parallel;
mod parquet_rows;
mod partition;
mod paths;
pub mod stats;
mod theta;
mod values;
pub mod z85;

pub use error::{Error, ErrorKind, Result};
pub use fingerprint::fingerprint;
pub use keys::KeyIndex;
pub use locations::locate_paths;
pub use parquet_rows::{Decoding, ParquetRows};
pub use partition::parse_partition_values;
pub use paths::PathSet;
pub use theta::{unite_sketches, update_sketch};
pub use values::PrimitiveType;
