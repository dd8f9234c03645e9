//! Row position bitmaps: the 64-bit Roaring format of Delta deletion vectors and of Iceberg v3
//! deletion vectors (Delta protocol, "Deletion Vector Format"; Iceberg Puffin, `deletion-vector-v1`).
//!
//! A bitmap travels as the bytes of the *portable* 64-bit Roaring format, checked once by
//! [`unframe`]; every other function here walks those bytes in place and decodes nothing that it
//! does not need.

mod encode;
mod frame;
mod legacy;
mod portable;
mod read;

pub use encode::encode;
pub use frame::{Framing, unframe};
pub use read::{keep_mask, positions};
