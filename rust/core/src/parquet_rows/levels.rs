//! Levels, which tell rows, lists and nulls apart: those of a leaf must make sense, and agree with those of its column.
//!
//! The `parquet` crate takes lists from their first leaf, and nulls of structures as well. So leaves that contradict each
//! other would give rows that another reader does not see.

use std::sync::{Arc, Mutex, PoisonError};

use parquet::basic::{ConvertedType, Repetition};
use parquet::schema::types::{SchemaDescriptor, Type};

use super::page::{Run, runs};

/// The greatest level that is read here: two of them fit into a byte.
const MOST: u8 = 15;

/// The levels of a group or a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Depth {
    pub definition: u8,
    pub repetition: u8,
}

/// What the levels of a leaf mean.
#[derive(Clone, Debug)]
pub struct Nesting {
    /// The definition level from which on the list of each repetition level has an item; 0 for that of rows.
    lists: [u8; MOST as usize + 1],
    own: Depth,
    /// Whether the levels are few, and no key of a map may be null.
    pub is_usual: bool,
    /// The innermost group that the leaf before lies in, too.
    pub shared: Depth,
}

impl Nesting {
    /// Tells whether a leaf lies in a list.
    pub fn has_lists(&self) -> bool {
        self.own.repetition > 0
    }
}

/// Returns what the levels of each leaf mean.
pub fn nestings(schema: &SchemaDescriptor) -> Vec<Nesting> {
    let mut walk = Walk::default();
    walk.group(schema.root_schema(), Depth::default(), true);
    walk.found
}

#[derive(Default)]
struct Walk {
    lists: [u8; MOST as usize + 1],
    shared: Depth,
    found: Vec<Nesting>,
}

impl Walk {
    fn group(&mut self, group: &Type, at: Depth, is_usual: bool) {
        for child in group.get_fields() {
            let info = child.get_basic_info();
            let repetition = if info.has_repetition() { info.repetition() } else { Repetition::REQUIRED };
            let is_repeated = repetition == Repetition::REPEATED;
            let own = Depth {
                definition: at.definition.saturating_add((repetition != Repetition::REQUIRED).into()),
                repetition: at.repetition.saturating_add(is_repeated.into()),
            };
            if is_repeated && let Some(list) = self.lists.get_mut(usize::from(own.repetition)) {
                *list = own.definition;
            }
            let is_usual = is_usual && own.definition <= MOST;
            if child.is_primitive() {
                self.found.push(Nesting { lists: self.lists, own, is_usual, shared: self.shared });
            } else {
                let is_map = matches!(info.converted_type(), ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE);
                self.group(child, own, is_usual && !(is_map && may_lack_keys(child)));
            }
            self.shared = at;
        }
    }
}

fn may_lack_keys(map: &Type) -> bool {
    let entries = map.get_fields().first().filter(|entries| !entries.is_primitive());
    let key = entries.and_then(|entries| entries.get_fields().first());
    key.is_none_or(|key| key.get_basic_info().repetition() != Repetition::REQUIRED)
}

/// The levels of a page.
pub struct Levels {
    definition: Vec<u8>,
    /// None if the leaf lies in no list.
    repetition: Vec<u8>,
}

impl Levels {
    /// Reads the levels of so many entries; none unless they are exactly that, each within its range.
    pub fn read(definition: &[u8], repetition: &[u8], nesting: &Nesting, count: u32) -> Option<Self> {
        Some(Self {
            definition: read(definition, nesting.own.definition, count)?,
            repetition: read(repetition, nesting.own.repetition, count)?,
        })
    }

    /// Tells whether the first entry begins a row.
    pub fn begin_a_row(&self) -> bool {
        self.repetition.first().is_none_or(|level| *level == 0)
    }

    /// Returns how many entries are values.
    pub fn values(&self, nesting: &Nesting, count: u32) -> Option<u32> {
        if self.definition.is_empty() {
            return Some(count);
        }
        let most = nesting.own.definition;
        u32::try_from(self.definition.iter().filter(|level| **level == most).count()).ok()
    }
}

fn read(bytes: &[u8], most: u8, count: u32) -> Option<Vec<u8>> {
    if most == 0 {
        return bytes.is_empty().then(Vec::new);
    }
    let width = 8_u32.checked_sub(most.leading_zeros())?;
    let mut found = Vec::new();
    runs(bytes, width, count, &mut |run| {
        match run {
            Run::Repeated { value, count } => {
                let value = u8::try_from(value).ok()?;
                found.resize(found.len().checked_add(usize::try_from(count).ok()?)?, value);
            }
            Run::Packed { bytes, count } => unpack(bytes, width, usize::try_from(count).ok()?, &mut found)?,
        }
        Some(())
    })?;
    found.iter().all(|level| *level <= most).then_some(found)
}

/// Appends levels of at most four bits, of which eight take as many bytes as one has bits.
fn unpack(bytes: &[u8], width: u32, count: usize, found: &mut Vec<u8>) -> Option<()> {
    let end = found.len().checked_add(count)?;
    let mask = !(u8::MAX.checked_shl(width)?);
    found.reserve(count.checked_add(8)?);
    for eight in bytes.chunks_exact(usize::try_from(width).ok()?) {
        let word = eight.iter().rev().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte));
        found.extend(
            [0_u32, 1, 2, 3, 4, 5, 6, 7].map(|at| word.wrapping_shr(at.wrapping_mul(width)).to_le_bytes()[0] & mask),
        );
    }
    found.truncate(end);
    (found.len() == end).then_some(())
}

/// How far the levels of a chunk have been followed.
#[derive(Default)]
pub struct Followed {
    /// The number of the next page.
    pub page: usize,
    pub rows: u64,
    /// The definition level of the last entry.
    last: u8,
}

impl Followed {
    /// Goes on to the entries of the next page; returns how many rows begin there, or none if they make no sense.
    pub fn follow(&mut self, levels: &Levels, nesting: &Nesting, count: u32) -> Option<u32> {
        let (mut rows, mut is_sound, mut last) = (count, true, self.last);
        if nesting.has_lists() {
            rows = 0;
            for (definition, repetition) in levels.definition.iter().zip(&levels.repetition) {
                // Only a list that has items goes on, and with an item.
                let least = *nesting.lists.get(usize::from(*repetition & MOST))?;
                is_sound &= *definition >= least && last >= least;
                rows = rows.wrapping_add((*repetition == 0).into());
                last = *definition;
            }
        }
        self.last = last;
        self.rows = self.rows.checked_add(rows.into())?;
        is_sound.then_some(rows)
    }
}

/// The levels that two leaves share, as far as those of one were read before those of the other.
#[derive(Default)]
struct Ahead {
    is_second: bool,
    levels: Vec<u8>,
}

/// One of two leaves of a column, which must agree on the groups that both lie in.
#[derive(Clone)]
pub struct Tie {
    shared: Depth,
    is_second: bool,
    ahead: Arc<Mutex<Ahead>>,
}

impl Tie {
    /// Ties the chunks of two leaves to each other.
    pub fn pair(shared: Depth) -> (Self, Self) {
        let first = Self { shared, is_second: false, ahead: Arc::default() };
        (first.clone(), Self { is_second: true, ..first })
    }

    /// Tells whether the next levels of this leaf agree with what is known of the other.
    pub fn agrees(&self, levels: &Levels) -> Option<()> {
        let mut own = self.of_groups(levels);
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if ahead.is_second == self.is_second || ahead.levels.is_empty() {
            ahead.is_second = self.is_second;
            ahead.levels.append(&mut own);
            return Some(());
        }
        let both = own.len().min(ahead.levels.len());
        if own.get(..both)? != ahead.levels.get(..both)? {
            return None;
        }
        if both < own.len() {
            *ahead = Ahead { is_second: self.is_second, levels: own.split_off(both) };
        } else {
            ahead.levels.drain(..both);
        }
        Some(())
    }

    /// Returns the levels of the shared groups alone, two in a byte.
    fn of_groups(&self, levels: &Levels) -> Vec<u8> {
        let most = self.shared.definition;
        if levels.repetition.is_empty() {
            return levels.definition.iter().map(|level| (*level).min(most)).collect();
        }
        let repeated = self.shared.repetition;
        let mut found = Vec::with_capacity(levels.definition.len());
        let entries = levels.definition.iter().zip(&levels.repetition);
        found.extend(
            entries
                .filter(|(_, repetition)| **repetition <= repeated)
                .map(|(definition, repetition)| (*definition).min(most) | (*repetition << 4)),
        );
        found
    }
}
