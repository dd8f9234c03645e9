//! Pieces of a log entry, parsed in parallel, and the keys that identify the files they name.

use std::borrow::Cow;

use super::action::{DeletionVector, FileAction};
use super::canonical::canonical;
use super::fields;
use super::keys::KeyHasher;
use super::line::{self, LineError, Lines};

/// Log entries are parsed in pieces of about this size.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// A run of whole lines of a commit.
pub(super) struct Piece<'a> {
    pub commit: usize,
    /// Where it begins in the commit.
    pub start: usize,
    pub data: &'a [u8],
}

/// A parsed piece: its actions, and the key of each file action.
pub(super) struct Parsed<'a> {
    pub start: usize,
    pub lines: Lines<'a>,
    pub adds: Vec<FileKey>,
    pub removes: Vec<FileKey>,
}

/// What identifies a logical file, apart from the path as the log spells it.
pub(super) struct FileKey {
    pub hash: u32,
    /// Parts that hardly any file has.
    rare: Option<Box<RareKey>>,
}

#[derive(Default)]
struct RareKey {
    /// The path, if the log writes it with JSON escapes.
    resolved: Option<Vec<u8>>,
    /// The canonical spelling, if it differs from the path.
    canonical: Option<Vec<u8>>,
    /// The unique id of the deletion vector; empty without one.
    vector: String,
}

impl FileKey {
    fn new(action: &FileAction, piece: &[u8], hasher: &KeyHasher) -> Self {
        let path = fields::unicode(action.path.raw(piece)).unwrap_or_default();
        let spelling = canonical(&path);
        let hash = hasher.hash(&spelling);
        let other = (*spelling != *path).then(|| spelling.into_owned());
        let vector = action.vector.as_deref().map(vector_id);
        if other.is_none() && vector.is_none() && matches!(path, Cow::Borrowed(_)) {
            return Self { hash, rare: None };
        }
        let resolved = if let Cow::Owned(path) = path { Some(path) } else { None };
        let rare = RareKey { resolved, canonical: other, vector: vector.unwrap_or_default() };
        Self { hash, rare: Some(Box::new(rare)) }
    }

    /// The path with its JSON escapes resolved.
    pub(super) fn path<'k>(&'k self, action: &FileAction, piece: &'k [u8]) -> &'k [u8] {
        let resolved = self.rare.as_ref().and_then(|rare| rare.resolved.as_ref());
        resolved.map_or_else(|| action.path.bytes(piece), Vec::as_slice)
    }

    /// The canonical spelling, if it differs from the path.
    pub(super) fn canonical(&self) -> Option<&[u8]> {
        self.rare.as_ref().and_then(|rare| rare.canonical.as_deref())
    }

    pub(super) fn vector(&self) -> &str {
        self.rare.as_ref().map_or("", |rare| &rare.vector)
    }
}

/// Cuts a log entry into pieces at line borders; returns each with its offset.
pub(super) fn split(data: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut start = 0_usize;
    std::iter::from_fn(move || {
        let rest = data.get(start..).filter(|rest| !rest.is_empty())?;
        let border = rest.get(PIECE_BYTES..).and_then(|tail| memchr::memchr(b'\n', tail));
        let end = border.map_or(rest.len(), |border| PIECE_BYTES.saturating_add(border).saturating_add(1));
        let piece = (start, rest.get(..end).unwrap_or(rest));
        start = start.saturating_add(end);
        Some(piece)
    })
}

pub(super) fn parse<'a>(piece: &Piece<'a>, hasher: &KeyHasher) -> Result<Parsed<'a>, LineError> {
    if u32::try_from(piece.data.len()).is_err() {
        return Err(LineError { line: 0, what: "the line is longer than 4 GiB".to_owned() });
    }
    let lines = line::parse(piece.data)?;
    let keys = |actions: &[FileAction]| actions.iter().map(|action| FileKey::new(action, piece.data, hasher)).collect();
    let (adds, removes) = (keys(&lines.adds), keys(&lines.removes));
    Ok(Parsed { start: piece.start, lines, adds, removes })
}

/// The unique id of a deletion vector (Delta protocol, "Derived Fields").
fn vector_id(vector: &DeletionVector) -> String {
    let (storage_type, path) = (&vector.storage_type, &vector.path_or_inline);
    match vector.offset {
        Some(offset) => format!("{storage_type}{path}@{offset}"),
        None => format!("{storage_type}{path}"),
    }
}
