//! Reconciling an older state with newer file actions: a checkpoint with the commits after it, or an
//! open snapshot with the commits since.

use arrow_array::{Array, BooleanArray, Int32Array, RecordBatch, StringArray, StructArray};

use super::canonical::canonical;
use super::columns::inconsistent;
use super::keys::{Key, Keys, Paths, Place};
use super::paths::bytes_at;
use crate::error::Result;
use crate::parallel;

/// What the rows of the older state are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Live files.
    Add,
    /// Tombstones.
    Remove,
}

/// Returns masks of the rows of `older` that no newer action replaces or removes.
///
/// `adds` and `removes` come from a [`super::Replay`]. Only the columns `path` and `deletionVector` of
/// `older` are read.
///
/// # Errors
/// `InvalidArgument` if a column is missing or has the wrong type.
pub fn reconcile(
    adds: &[RecordBatch],
    removes: &[RecordBatch],
    older: &[RecordBatch],
    role: Role,
    threads: usize,
) -> Result<Vec<BooleanArray>> {
    let newer: Vec<FileColumns<'_>> = adds.iter().chain(removes).map(FileColumns::of).collect::<Result<_>>()?;
    let mut keys = Keys::default();
    let mut paths = Spellings { columns: &newer, aside: Vec::new() };
    for (number, columns) in newer.iter().enumerate() {
        let is_add = number < adds.len();
        for row in 0..columns.len() {
            let path = columns.path(row);
            let spelling = canonical(path.as_bytes());
            let key = Key { path: &spelling, hash: keys.hasher().hash(&spelling) };
            let same = *spelling == *path.as_bytes();
            let place = if same { place(number, row) } else { place(ASIDE, paths.aside.len()) };
            if !same {
                paths.aside.push(spelling.to_vec());
            }
            let vector = columns.vector_id(row);
            if is_add {
                keys.add(key, &vector, 0, place, &paths);
            } else {
                keys.remove(key, &vector, place, &paths);
                if columns.path_added.is_some_and(|added| added.is_valid(row) && added.value(row)) {
                    keys.note_added(key, &paths);
                }
            }
        }
    }
    let masks = parallel::map(older, threads, |batch| -> Result<BooleanArray> {
        let columns = FileColumns::of(batch)?;
        let keeps = |row| {
            let spelling = canonical(columns.path(row).as_bytes());
            let vector = columns.vector_id(row);
            match role {
                Role::Add => keys.keeps_add(&spelling, &vector, &paths),
                Role::Remove => keys.keeps_remove(&spelling, &vector, &paths),
            }
        };
        Ok((0..columns.len()).map(|row| Some(keeps(row))).collect())
    });
    masks.into_iter().collect()
}

const ASIDE: usize = u32::MAX as usize;

fn place(column: usize, row: usize) -> Place {
    let number = |value| u32::try_from(value).unwrap_or(u32::MAX);
    Place { column: number(column), row: number(row) }
}

/// The paths of the newer actions, and their canonical spellings if those differ.
struct Spellings<'a> {
    columns: &'a [FileColumns<'a>],
    aside: Vec<Vec<u8>>,
}

impl Paths for Spellings<'_> {
    fn path(&self, place: Place) -> &[u8] {
        let (column, row) = (place.column as usize, place.row as usize);
        if column == ASIDE {
            return self.aside.get(row).map(Vec::as_slice).unwrap_or_default();
        }
        self.columns.get(column).map_or(&[], |columns| bytes_at(columns.paths, row))
    }
}

/// The columns of file actions that identify logical files.
struct FileColumns<'a> {
    paths: &'a StringArray,
    vectors: Option<VectorColumns<'a>>,
    path_added: Option<&'a BooleanArray>,
}

struct VectorColumns<'a> {
    whole: &'a StructArray,
    storage_type: &'a StringArray,
    path_or_inline: &'a StringArray,
    offset: &'a Int32Array,
}

impl<'a> FileColumns<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Self> {
        let paths = batch.column_by_name("path").and_then(|column| column.as_any().downcast_ref());
        let vectors = batch.column_by_name("deletionVector");
        let vectors: Option<&StructArray> = vectors.and_then(|column| column.as_any().downcast_ref());
        let vectors = match vectors {
            Some(whole) if whole.null_count() < whole.len() => Some(VectorColumns::of(whole)?),
            _ => None,
        };
        let path_added = batch.column_by_name("pathAdded").and_then(|column| column.as_any().downcast_ref());
        let paths = paths.ok_or_else(|| inconsistent("file actions without a string column \"path\""))?;
        Ok(Self { paths, vectors, path_added })
    }

    fn len(&self) -> usize {
        self.paths.len()
    }

    fn path(&self, row: usize) -> &'a str {
        std::str::from_utf8(bytes_at(self.paths, row)).unwrap_or_default()
    }

    fn vector_id(&self, row: usize) -> String {
        let Some(vectors) = self.vectors.as_ref().filter(|vectors| vectors.whole.is_valid(row)) else {
            return String::new();
        };
        let text = |column: &StringArray| String::from_utf8_lossy(bytes_at(column, row)).into_owned();
        let mut id = text(vectors.storage_type);
        id.push_str(&text(vectors.path_or_inline));
        if vectors.offset.is_valid(row) {
            id.push('@');
            id.push_str(&vectors.offset.value(row).to_string());
        }
        id
    }
}

impl<'a> VectorColumns<'a> {
    fn of(whole: &'a StructArray) -> Result<Self> {
        let missing = |name| inconsistent(&format!("deletionVector without {name}"));
        let text = |name: &'static str| {
            let column: Option<&StringArray> =
                whole.column_by_name(name).and_then(|column| column.as_any().downcast_ref());
            column.ok_or_else(|| missing(name))
        };
        let offset = whole.column_by_name("offset").and_then(|column| column.as_any().downcast_ref());
        Ok(Self {
            whole,
            storage_type: text("storageType")?,
            path_or_inline: text("pathOrInlineDv")?,
            offset: offset.ok_or_else(|| missing("offset"))?,
        })
    }
}
