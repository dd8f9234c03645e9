//! Delta log replay (Delta protocol, "Action Reconciliation"): commits, newest first, become the
//! live files, the tombstones and the newest of every other action.

mod action;
mod canonical;
mod columns;
mod keys;
mod line;
mod paths;
mod reconcile;
mod replay;

pub use reconcile::{Role, reconcile};
pub use replay::{Replay, replay};
