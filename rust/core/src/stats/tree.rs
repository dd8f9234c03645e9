//! The wanted columns as a tree that guides the reading of nested statistics.

use super::columns::{Row, StatsLeaf};
use crate::json::{Cursor, JsonError, Kind, Token};

/// The three kinds of per-column statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Min,
    Max,
    NullCount,
}

impl Part {
    /// How many parts there are.
    pub(super) const COUNT: usize = 3;
}

/// A field on the path to a wanted leaf.
#[derive(Default)]
pub(super) struct Tree {
    children: Vec<(String, Tree)>,
    leaf: Option<usize>,
}

impl Tree {
    /// Builds the tree of some leaves.
    pub(super) fn new(leaves: &[StatsLeaf]) -> Self {
        let mut root = Self::default();
        for (index, leaf) in leaves.iter().enumerate() {
            root.insert(&leaf.path, index);
        }
        root
    }

    fn insert(&mut self, path: &[String], index: usize) {
        let Some((name, rest)) = path.split_first() else {
            self.leaf = Some(index);
            return;
        };
        if let Some((_, child)) = self.children.iter_mut().find(|(known, _)| known == name) {
            child.insert(rest, index);
            return;
        }
        let mut child = Self::default();
        child.insert(rest, index);
        self.children.push((name.clone(), child));
    }

    /// Reads the object of one part from its start.
    pub(super) fn read<'a, const QUOTED: bool>(
        &self,
        cursor: &mut Cursor<'a, QUOTED>,
        part: Part,
        row: &mut Row<'a>,
    ) -> Result<(), JsonError> {
        self.value(cursor, part, row, 1)
    }

    fn value<'a, const QUOTED: bool>(
        &self,
        cursor: &mut Cursor<'a, QUOTED>,
        part: Part,
        row: &mut Row<'a>,
        depth: u32,
    ) -> Result<(), JsonError> {
        self.forget(part, row);
        if cursor.kind()? != Kind::Object || self.children.is_empty() {
            let token = cursor.scalar(depth)?;
            if let Some(leaf) = self.leaf {
                row.set(part, leaf, token);
            }
            return Ok(());
        }
        let inside = depth.saturating_add(1);
        cursor.object(|cursor, key| {
            let key = key.bytes();
            match self.children.iter().find(|(name, _)| name.as_bytes() == &*key) {
                Some((_, child)) => child.value(cursor, part, row, inside),
                None => cursor.skip(inside),
            }
        })
    }

    /// A repeated key replaces everything that its first value said.
    fn forget(&self, part: Part, row: &mut Row<'_>) {
        if let Some(leaf) = self.leaf {
            row.set(part, leaf, Token::Null);
        }
        for (_, child) in &self.children {
            child.forget(part, row);
        }
    }
}
