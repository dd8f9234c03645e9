//! The paths of the live files of a table, among which each file is looked up that a store lists.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::builder::{Int64Builder, LargeStringBuilder};
use arrow_array::{Array, BooleanArray, Int64Array, LargeStringArray, StringArray};
use arrow_buffer::BooleanBufferBuilder;
use hashbrown::HashTable;

use crate::error::{Error, ErrorKind, Result};

/// Distinct paths, which are compared byte by byte.
///
/// Besides its bytes, a path takes an offset of 4 bytes, a mark of one, and 5 bytes in a table that is filled to between
/// 7/16 and 7/8: at most 17 in all. Hashes have a random key, since whoever names files could choose names whose hashes are equal.
#[derive(Default)]
pub struct PathSet {
    /// One, unless the paths have more bytes than an offset counts.
    parts: Vec<Part>,
    state: RandomState,
}

/// So many paths that offsets of 4 bytes suffice.
struct Part {
    bytes: Vec<u8>,
    /// Where each path begins and the one before it ends, and then the end of the last one.
    bounds: Vec<u32>,
    /// The numbers of the paths.
    places: HashTable<u32>,
    /// Whether each path was asked about.
    asked: Vec<AtomicBool>,
    /// How many bytes it may have.
    most: u32,
}

impl PathSet {
    /// Adds the paths of an array of strings.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not an array of strings, or if one of them is null, and `TooLarge` if one has more
    /// than 4 GiB.
    pub fn add(&mut self, paths: &dyn Array) -> Result<()> {
        each(paths, |path| self.insert(path, u32::MAX))
    }

    /// Gives back memory that no path needs. It is of use once all of them have been added.
    pub fn shrink(&mut self) {
        for part in &mut self.parts {
            part.bytes.shrink_to_fit();
            part.bounds.shrink_to_fit();
            part.asked.shrink_to_fit();
        }
    }

    /// How many distinct paths there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.places.len()).fold(0, usize::saturating_add)
    }

    /// Whether there are no paths.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns which paths of an array of strings are in the set, and marks these.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not an array of strings, or if one of them is null.
    pub fn contains(&self, paths: &dyn Array) -> Result<BooleanArray> {
        let mut found = BooleanBufferBuilder::new(paths.len());
        each(paths, |path| {
            found.append(self.look_up(path).is_some());
            Ok(())
        })?;
        Ok(BooleanArray::new(found.finish(), None))
    }

    /// Returns the number of each path of an array of strings, null for those that are not in the set, and marks the
    /// others. Distinct paths are numbered in the order in which they were added.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not an array of strings, or if one of them is null.
    pub fn numbers(&self, paths: &dyn Array) -> Result<Int64Array> {
        let mut found = Int64Builder::with_capacity(paths.len());
        each(paths, |path| {
            found.append_option(self.look_up(path));
            Ok(())
        })?;
        Ok(found.finish())
    }

    /// Returns paths by their numbers.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no path of a number.
    pub fn texts(&self, numbers: &Int64Array) -> Result<LargeStringArray> {
        let mut found = LargeStringBuilder::new();
        for number in numbers {
            let mut place = number.and_then(|number| usize::try_from(number).ok());
            let mut text = None;
            for part in &self.parts {
                text = text.or_else(|| at(&part.bytes, &part.bounds, u32::try_from(place?).ok()?));
                place = place.and_then(|place| place.checked_sub(part.places.len()));
            }
            let text = text.and_then(|text| str::from_utf8(text).ok());
            found.append_value(
                text.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "there is no path of a number"))?,
            );
        }
        Ok(found.finish())
    }

    /// Returns the number of a path, and marks it.
    fn look_up(&self, path: &[u8]) -> Option<i64> {
        let hash = self.state.hash_one(path);
        let mut first = 0_usize;
        for part in &self.parts {
            if let Some(place) = part.find(hash, path) {
                if let Some(mark) = part.asked.get(place) {
                    mark.store(true, Ordering::Relaxed);
                }
                return i64::try_from(first.saturating_add(place)).ok();
            }
            first = first.saturating_add(part.places.len());
        }
        None
    }

    /// Returns the paths of the set about which `contains` was not asked.
    ///
    /// # Errors
    /// None but those of a set that is not whole.
    pub fn unasked(&self) -> Result<LargeStringArray> {
        let mut found = LargeStringBuilder::new();
        for part in &self.parts {
            for (place, mark) in (0..).zip(&part.asked) {
                if !mark.load(Ordering::Relaxed) {
                    let path = at(&part.bytes, &part.bounds, place).and_then(|path| str::from_utf8(path).ok());
                    found.append_value(path.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "a path is lost"))?);
                }
            }
        }
        Ok(found.finish())
    }

    /// Adds a path to the last part, or to a new one of at most so many bytes.
    fn insert(&mut self, path: &[u8], most: u32) -> Result<()> {
        let hash = self.state.hash_one(path);
        if self.parts.iter().any(|part| part.find(hash, path).is_some()) {
            return Ok(());
        }
        if self.parts.last_mut().is_some_and(|part| part.push(hash, path, &self.state)) {
            return Ok(());
        }
        let (bytes, asked) = (Vec::new(), Vec::new());
        let mut part = Part { bytes, bounds: vec![0], places: HashTable::new(), asked, most };
        if !part.push(hash, path, &self.state) {
            return Err(Error::new(ErrorKind::TooLarge, "a path exceeds 4 GiB"));
        }
        self.parts.push(part);
        Ok(())
    }
}

impl Part {
    /// Returns the number of a path in this part.
    fn find(&self, hash: u64, path: &[u8]) -> Option<usize> {
        let place = self.places.find(hash, |place| at(&self.bytes, &self.bounds, *place) == Some(path))?;
        usize::try_from(*place).ok()
    }

    /// Adds a path that is not in here, and returns whether there was room for it.
    fn push(&mut self, hash: u64, path: &[u8], state: &RandomState) -> bool {
        let end = u32::try_from(self.bytes.len().saturating_add(path.len())).ok().filter(|end| *end <= self.most);
        let place = u32::try_from(self.places.len()).ok();
        let (Some(end), Some(place)) = (end, place) else { return false };
        let Self { bytes, bounds, places, asked, .. } = self;
        bytes.extend_from_slice(path);
        bounds.push(end);
        asked.push(AtomicBool::new(false));
        places.insert_unique(hash, place, |place| state.hash_one(at(bytes, bounds, *place).unwrap_or_default()));
        true
    }
}

/// Returns a path by its number.
fn at<'a>(bytes: &'a [u8], bounds: &[u32], place: u32) -> Option<&'a [u8]> {
    let place = usize::try_from(place).ok()?;
    let (start, end) = (bounds.get(place)?, bounds.get(place.checked_add(1)?)?);
    bytes.get(usize::try_from(*start).ok()?..usize::try_from(*end).ok()?)
}

/// Passes on each path of an array of strings.
fn each(paths: &dyn Array, mut found: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut take = |path: Option<&str>| match path {
        Some(path) => found(path.as_bytes()),
        None => Err(Error::new(ErrorKind::InvalidArgument, "a path is null")),
    };
    if let Some(paths) = paths.as_any().downcast_ref::<StringArray>() {
        paths.iter().try_for_each(&mut take)
    } else if let Some(paths) = paths.as_any().downcast_ref::<LargeStringArray>() {
        paths.iter().try_for_each(&mut take)
    } else {
        Err(Error::new(ErrorKind::InvalidArgument, "paths are an array of strings"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets reach 4 GiB; parts of 8 bytes show what is beyond.
    #[test]
    fn paths_are_found_in_all_parts() {
        let names = ["ab", "", "abcdefgh", "c", "cd", "abcdefg", "dcba", "ba"];
        let mut set = PathSet::default();
        for name in names.iter().chain(&names) {
            assert_eq!(set.insert(name.as_bytes(), 8), Ok(()));
        }
        assert_eq!(set.len(), names.len());
        assert!(set.parts.len() > 3);
        let asked = StringArray::from_iter_values(names.iter().chain(&["a", "abc", "bcdefgh", "abcdefghc"]));
        let found: Vec<bool> =
            set.contains(&asked).unwrap_or_else(|_| BooleanArray::from(vec![false])).values().iter().collect();
        assert_eq!(found, [vec![true; 8], vec![false; 4]].concat());
        assert_eq!(set.unasked().map(|paths| paths.len()), Ok(0));
        let numbers = set.numbers(&asked);
        let wanted: Int64Array = (0..8).map(Some).chain([None; 4]).collect();
        assert_eq!(numbers, Ok(wanted.clone()));
        assert_eq!(set.texts(&wanted.slice(0, 8)), Ok(LargeStringArray::from_iter_values(names)));
        for wrong in [None, Some(-1), Some(8)] {
            assert_eq!(
                set.texts(&Int64Array::from(vec![wrong])).map_err(|error| error.kind()),
                Err(ErrorKind::InvalidArgument)
            );
        }
        assert_eq!(set.insert(b"123456789", 8).map_err(|error| error.kind()), Err(ErrorKind::TooLarge));
        assert_eq!(set.len(), names.len());
    }
}
