//! Decoding Avro blocks straight into Arrow columns, and encoding columns as blocks: manifests, manifest lists and Avro
//! data files.
//!
//! To read, the caller reads the header, and resolves the writer's schema against the wanted columns by field
//! id. The result is a tree of [`Node`]s in the writer's order: each says which column takes its values, or that they
//! are skipped. To write, the Arrow types say it all. No row ever becomes an object.

mod blocks;
mod chosen;
mod codec;
mod column;
mod cursor;
mod plan;
mod read;
mod write;

pub use blocks::{Block, find_blocks};
pub use chosen::{Chosen, First, decode_chosen};
pub use codec::Codec;
pub use plan::Node;
pub use read::{Limits, decode_avro};
pub use write::encode_avro;
