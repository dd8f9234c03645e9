//! Delta log replay (Delta protocol, "Action Reconciliation"): from commits, newest first, to the live
//! files, the tombstones and the newest of every other action.

mod action;
mod canonical;
mod columns;
mod fields;
mod keys;
mod line;
mod newest;
mod paths;
mod pieces;
mod reconcile;
mod replay;
mod texts;

pub use reconcile::{Role, reconcile};
pub use replay::{Replay, replay};
