//! Which logical files newer actions have named, at one hash probe per file action.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use hashbrown::HashTable;

/// Where the path of an entry is stored: a column and a row of a [`Paths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub column: u32,
    pub row: u32,
}

/// The columns that hold the paths of entries, in canonical form.
pub(super) trait Paths {
    /// The canonical path at `place`.
    fn path(&self, place: Place) -> &[u8];
}

/// A canonical path with its hash, which another thread may have computed.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub path: &'a [u8],
    pub hash: u32,
}

/// The hash function of one [`Keys`], seeded at random.
#[derive(Clone, Default)]
pub(super) struct KeyHasher(RandomState);

impl KeyHasher {
    /// The hash of a canonical path: 32 bits, so that a million entries stay small.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn hash(&self, path: &[u8]) -> u32 {
        self.0.hash_one(path) as u32
    }
}

const NONE: u32 = u32::MAX;

/// What is known about a data file.
struct Entry {
    hash: u32,
    place: Place,
    /// The newest commit that adds the path, counted from the newest of all, or [`NONE`].
    added_in: u32,
    /// Whether the path was named without a deletion vector, as nearly all paths are.
    plain: bool,
}

/// A deletion vector that was named together with the path at a place.
struct Vector {
    hash: u32,
    place: Place,
    id: Box<str>,
}

/// The result of showing an action to [`Keys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// No newer action names the logical file.
    First,
    /// A newer action replaces or removes the logical file.
    Newer,
    /// The same commit adds the path with another deletion vector.
    Conflict,
}

/// The logical files of the actions seen so far, newest first.
#[derive(Default)]
pub(super) struct Keys {
    files: HashTable<Entry>,
    vectors: Vectors,
    hasher: KeyHasher,
}

impl Keys {
    /// The hasher whose hashes a [`Key`] must hold.
    pub(super) fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Shows an add of commit `commit`; `place` is where its path will be stored if it is live.
    pub(super) fn add(&mut self, key: Key<'_>, vector: &str, commit: u32, place: Place, paths: &impl Paths) -> Seen {
        let Some(entry) = find_mut(&mut self.files, key, paths) else {
            self.insert(key, place, commit, vector);
            return Seen::First;
        };
        let (known, added_in) = (self.vectors.knows(entry, vector), entry.added_in);
        if added_in == commit && !known {
            return Seen::Conflict;
        }
        if added_in == NONE {
            entry.added_in = commit;
        }
        if !known {
            self.vectors.note(entry, vector);
        }
        if known || added_in != NONE { Seen::Newer } else { Seen::First }
    }

    /// Shows a remove; `place` is where its path will be stored if it is a tombstone.
    pub(super) fn remove(&mut self, key: Key<'_>, vector: &str, place: Place, paths: &impl Paths) -> Seen {
        let Some(entry) = find_mut(&mut self.files, key, paths) else {
            self.insert(key, place, NONE, vector);
            return Seen::First;
        };
        if self.vectors.knows(entry, vector) {
            return Seen::Newer;
        }
        self.vectors.note(entry, vector);
        Seen::First
    }

    /// Whether no action seen so far replaces or removes an older add of this logical file.
    pub(super) fn keeps_add(&self, path: &[u8], vector: &str, paths: &impl Paths) -> bool {
        self.find(path, paths).is_none_or(|entry| entry.added_in == NONE && !self.vectors.knows(entry, vector))
    }

    /// Whether no action seen so far names this logical file.
    pub(super) fn keeps_remove(&self, path: &[u8], vector: &str, paths: &impl Paths) -> bool {
        self.find(path, paths).is_none_or(|entry| !self.vectors.knows(entry, vector))
    }

    /// The places of all paths that a commit added.
    pub(super) fn added_places(&self) -> impl Iterator<Item = Place> + '_ {
        self.files.iter().filter(|entry| entry.added_in != NONE).map(|entry| entry.place)
    }

    /// Notes that a commit adds the path, with whatever deletion vector.
    pub(super) fn note_added(&mut self, key: Key<'_>, paths: &impl Paths) {
        if let Some(entry) = find_mut(&mut self.files, key, paths) {
            entry.added_in = 0;
        }
    }

    fn find(&self, path: &[u8], paths: &impl Paths) -> Option<&Entry> {
        let hash = self.hasher.hash(path);
        self.files.find(spread(hash), |entry| entry.hash == hash && paths.path(entry.place) == path)
    }

    fn insert(&mut self, key: Key<'_>, place: Place, added_in: u32, vector: &str) {
        let mut entry = Entry { hash: key.hash, place, added_in, plain: false };
        self.vectors.note(&mut entry, vector);
        self.files.insert_unique(spread(key.hash), entry, |entry| spread(entry.hash));
    }
}

/// The deletion vectors that files were named with; an empty id stands for none.
#[derive(Default)]
struct Vectors {
    table: HashTable<Vector>,
    hasher: KeyHasher,
}

impl Vectors {
    fn knows(&self, entry: &Entry, id: &str) -> bool {
        if id.is_empty() {
            return entry.plain;
        }
        let hash = self.hash(entry, id);
        self.table.find(spread(hash), |vector| vector.place == entry.place && *vector.id == *id).is_some()
    }

    fn note(&mut self, entry: &mut Entry, id: &str) {
        if id.is_empty() {
            entry.plain = true;
            return;
        }
        let vector = Vector { hash: self.hash(entry, id), place: entry.place, id: id.into() };
        self.table.insert_unique(spread(vector.hash), vector, |vector| spread(vector.hash));
    }

    fn hash(&self, entry: &Entry, id: &str) -> u32 {
        self.hasher.hash(id.as_bytes()) ^ entry.hash
    }
}

fn find_mut<'t>(table: &'t mut HashTable<Entry>, key: Key<'_>, paths: &impl Paths) -> Option<&'t mut Entry> {
    table.find_mut(spread(key.hash), |entry| entry.hash == key.hash && paths.path(entry.place) == key.path)
}

/// The hash table takes bits from both ends of a 64-bit hash.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
