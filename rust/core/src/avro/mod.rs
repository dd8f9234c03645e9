//! Avro blocks straight into Arrow columns: manifests, manifest lists and Avro data files.
//!
//! The caller has read the header and found the blocks, and has resolved the writer's schema against the wanted
//! columns by field id: what arrives here is a tree of [`Node`]s, in the order in which the writer wrote, each of
//! which says where its values go, or that they are skipped. No object is made for a row.

mod codec;
mod column;
mod cursor;
mod plan;
mod read;

pub use codec::Codec;
pub use plan::Node;
pub use read::{Block, decode_avro};
