//! The paths of surviving actions: the columns that a replay returns, and what its keys are compared with.

use arrow_array::StringArray;

use super::keys::{Paths, Place};
use super::texts::Texts;
use crate::error::Result;

/// Stands for the column of canonical spellings that differ from the spelling in the log.
const ASIDE: u32 = u32::MAX;

/// Every column of paths of a replay: two for each piece of a log entry, adds first.
#[derive(Default)]
pub(super) struct PathColumns {
    closed: Vec<StringArray>,
    open: Vec<Texts>,
    aside: Texts,
    /// The row of removes that each canonical spelling kept aside stands for.
    aside_rows: Vec<Option<Place>>,
}

impl PathColumns {
    /// Opens the two columns of the next piece.
    pub(super) fn open_piece(&mut self) {
        self.open.push(Texts::default());
        self.open.push(Texts::default());
    }

    /// The number of a column of piece `piece`: its adds, or its removes.
    pub(super) fn column(piece: usize, removes: bool) -> u32 {
        u32::try_from(piece.saturating_mul(2).saturating_add(usize::from(removes))).unwrap_or(ASIDE)
    }

    /// Where the next path of `column` will be found by its canonical spelling.
    pub(super) fn next_place(&self, column: u32, has_other_spelling: bool) -> Place {
        if has_other_spelling {
            return Place { column: ASIDE, row: to_u32(self.aside.len()) };
        }
        Place { column, row: to_u32(self.open_column(column).map_or(0, Texts::len)) }
    }

    /// Stores a path as the log spells it, and its canonical spelling if that differs.
    pub(super) fn push(&mut self, column: u32, path: &[u8], canonical: Option<&[u8]>) -> Result<()> {
        let is_remove = column % 2 == 1;
        let index = self.open_index(column);
        let Some(open) = index.and_then(|index| self.open.get_mut(index)) else {
            return Err(super::columns::inconsistent("a path for a closed column"));
        };
        let row = to_u32(open.len());
        open.push(path)?;
        if let Some(canonical) = canonical {
            self.aside.push(canonical)?;
            self.aside_rows.push(is_remove.then_some(Place { column, row }));
        }
        Ok(())
    }

    /// Closes all open columns and returns them: adds, then removes, piece by piece.
    pub(super) fn close_pieces(&mut self) -> Result<Vec<StringArray>> {
        let closed: Vec<StringArray> = self.open.drain(..).map(|column| column.close(None)).collect::<Result<_>>()?;
        self.closed.extend(closed.iter().cloned());
        Ok(closed)
    }

    /// The row of removes that a key's place stands for, if it does.
    pub(super) fn remove_at(&self, place: Place) -> Option<Place> {
        if place.column == ASIDE {
            return self.aside_rows.get(place.row as usize).copied().flatten();
        }
        (place.column % 2 == 1).then_some(place)
    }

    fn open_index(&self, column: u32) -> Option<usize> {
        (column as usize).checked_sub(self.closed.len())
    }

    fn open_column(&self, column: u32) -> Option<&Texts> {
        self.open_index(column).and_then(|index| self.open.get(index))
    }
}

impl Paths for PathColumns {
    fn path(&self, place: Place) -> &[u8] {
        let row = place.row as usize;
        if place.column == ASIDE {
            return self.aside.get(row);
        }
        match self.closed.get(place.column as usize) {
            Some(closed) => bytes_at(closed, row),
            None => self.open_column(place.column).map_or(&[], |open| open.get(row)),
        }
    }
}

/// The bytes of a string column's row.
pub(super) fn bytes_at(column: &StringArray, row: usize) -> &[u8] {
    let offsets = column.value_offsets();
    let start = offsets.get(row).copied().unwrap_or(0);
    let end = offsets.get(row.saturating_add(1)).copied().unwrap_or(start);
    column.value_data().get(to_usize(start)..to_usize(end)).unwrap_or_default()
}

fn to_usize(value: i32) -> usize {
    usize::try_from(value).unwrap_or(0)
}

fn to_u32(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(ASIDE)
}
