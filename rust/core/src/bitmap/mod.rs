//! Row position bitmaps: the 64-bit Roaring format of Delta deletion vectors and of Iceberg v3
//! deletion vectors (Delta protocol, "Deletion Vector Format"; Iceberg Puffin, `deletion-vector-v1`).
//!
//! A bitmap is passed around in the *portable* 64-bit Roaring format, which [`unframe`] checks once.
//! Every other function walks those bytes in place and decodes only what it needs.

mod encode;
mod frame;
mod legacy;
mod portable;
mod read;

pub use encode::encode;
pub use frame::{Framing, unframe};
pub use read::{keep_mask, positions};
