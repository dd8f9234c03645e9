//! The actions of a log entry. They hold places in the entry's text: nothing is copied until an
//! action has proven to be live, and a million of them stay small.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::json::{Cursor, JsonError, Kind, Text};

type Result<T> = std::result::Result<T, JsonError>;

/// Containers around the fields of an action: the line and the action itself.
const FIELD_DEPTH: u32 = 2;

/// A value in the text of a piece: a JSON object, or what is between the quotes of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    len: u32,
    escaped: bool,
}

impl Span {
    /// Stands for a value that is not there, or null.
    const NONE: Self = Self { start: u32::MAX, len: 0, escaped: false };

    /// Whether there is a value.
    pub(super) fn is_some(self) -> bool {
        self.start != u32::MAX
    }

    /// Where the value begins in the piece.
    pub(super) fn start(self) -> usize {
        self.start as usize
    }

    /// How many bytes it has.
    pub(super) fn len(self) -> usize {
        self.len as usize
    }

    /// The bytes of the value in its piece.
    pub(super) fn bytes(self, piece: &[u8]) -> &[u8] {
        piece.get(self.start()..self.start().saturating_add(self.len())).unwrap_or_default()
    }

    /// The string, its escapes resolved.
    pub(super) fn text(self, piece: &[u8]) -> Option<Cow<'_, str>> {
        if self.is_some() { Text::new(self.bytes(piece), self.escaped).resolve() } else { None }
    }

    fn of(start: usize, len: usize, escaped: bool) -> Self {
        let number = |value| u32::try_from(value).unwrap_or(u32::MAX);
        Self { start: number(start), len: number(len), escaped }
    }
}

/// An `add` or a `remove` action.
#[derive(Clone, Debug)]
pub(super) struct FileAction {
    pub path: Span,
    pub partition_values: Span,
    pub stats: Span,
    pub tags: Span,
    pub clustering_provider: Span,
    pub size: Option<i64>,
    /// `modificationTime` of an add, `deletionTimestamp` of a remove.
    pub time: Option<i64>,
    pub base_row_id: Option<i64>,
    pub default_row_commit_version: Option<i64>,
    pub vector: Option<Box<DeletionVector>>,
    pub data_change: bool,
    pub extended_file_metadata: Option<bool>,
}

/// A deletion vector descriptor.
#[derive(Clone, Debug)]
pub(super) struct DeletionVector {
    pub storage_type: String,
    pub path_or_inline: String,
    pub offset: Option<i32>,
    pub size_in_bytes: i32,
    pub cardinality: i64,
}

/// A `txn` action.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transaction {
    pub app_id: Span,
    pub version: i64,
    pub last_updated: Option<i64>,
}

/// A `domainMetadata` action.
#[derive(Clone, Copy, Debug)]
pub(super) struct Domain {
    pub name: Span,
    pub configuration: Span,
    pub removed: bool,
}

/// Which of the two file actions is read: they share most fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileActionKind {
    Add,
    Remove,
}

/// Reads an `add` or a `remove` whose object begins here.
pub(super) fn file_action(cursor: &mut Cursor<'_>, kind: FileActionKind) -> Result<FileAction> {
    let mut action = FileAction {
        path: Span::NONE,
        partition_values: Span::NONE,
        stats: Span::NONE,
        tags: Span::NONE,
        clustering_provider: Span::NONE,
        size: None,
        time: None,
        base_row_id: None,
        default_row_commit_version: None,
        vector: None,
        data_change: false,
        extended_file_metadata: None,
    };
    let (mut data_change, mut deletion_time) = (None, None);
    let mut met = Met::default();
    each_field(cursor, |cursor, key| {
        match key {
            b"path" => action.path = text(met.once(0, cursor)?, "path")?,
            b"partitionValues" => action.partition_values = string_map(met.once(1, cursor)?, "partitionValues")?,
            b"size" => action.size = integer(met.once(2, cursor)?, "size")?,
            b"modificationTime" => action.time = integer(met.once(3, cursor)?, "modificationTime")?,
            b"dataChange" => data_change = boolean(met.once(4, cursor)?, "dataChange")?,
            b"stats" => action.stats = statistics(met.once(5, cursor)?)?,
            b"tags" => action.tags = string_map(met.once(6, cursor)?, "tags")?,
            b"deletionVector" => action.vector = deletion_vector(met.once(7, cursor)?)?,
            b"baseRowId" => action.base_row_id = integer(met.once(8, cursor)?, "baseRowId")?,
            b"defaultRowCommitVersion" => {
                action.default_row_commit_version = integer(met.once(9, cursor)?, "defaultRowCommitVersion")?;
            }
            b"clusteringProvider" => action.clustering_provider = text(met.once(10, cursor)?, "clusteringProvider")?,
            b"deletionTimestamp" => deletion_time = integer(met.once(11, cursor)?, "deletionTimestamp")?,
            b"extendedFileMetadata" => {
                action.extended_file_metadata = boolean(met.once(12, cursor)?, "extendedFileMetadata")?;
            }
            _ => cursor.skip(FIELD_DEPTH)?,
        }
        Ok(())
    })?;
    let is_add = kind == FileActionKind::Add;
    let name = if is_add { "add" } else { "remove" };
    if is_add {
        required(cursor, action.partition_values.is_some().then_some(()), name, "partitionValues")?;
        required(cursor, action.size, name, "size")?;
        required(cursor, action.time, name, "modificationTime")?;
    } else {
        action.time = deletion_time;
    }
    required(cursor, action.path.is_some().then_some(()), name, "path")?;
    action.data_change = required(cursor, data_change, name, "dataChange")?;
    Ok(action)
}

fn deletion_vector(cursor: &mut Cursor<'_>) -> Result<Option<Box<DeletionVector>>> {
    if is_null(cursor)? {
        return Ok(None);
    }
    let (mut storage_type, mut path_or_inline, mut offset) = (None, None, None);
    let (mut size_in_bytes, mut cardinality) = (None, None);
    expect(cursor, Kind::Object, "deletionVector")?;
    let mut met = Met::default();
    each_field(cursor, |cursor, key| {
        match key {
            b"storageType" => storage_type = owned_text(met.once(0, cursor)?, "storageType")?,
            b"pathOrInlineDv" => path_or_inline = owned_text(met.once(1, cursor)?, "pathOrInlineDv")?,
            b"offset" => offset = small_integer(met.once(2, cursor)?, "offset")?,
            b"sizeInBytes" => size_in_bytes = small_integer(met.once(3, cursor)?, "sizeInBytes")?,
            b"cardinality" => cardinality = integer(met.once(4, cursor)?, "cardinality")?,
            _ => cursor.skip(FIELD_DEPTH.saturating_add(1))?,
        }
        Ok(())
    })?;
    Ok(Some(Box::new(DeletionVector {
        storage_type: required(cursor, storage_type, "deletionVector", "storageType")?,
        path_or_inline: required(cursor, path_or_inline, "deletionVector", "pathOrInlineDv")?,
        offset,
        size_in_bytes: required(cursor, size_in_bytes, "deletionVector", "sizeInBytes")?,
        cardinality: required(cursor, cardinality, "deletionVector", "cardinality")?,
    })))
}

/// Reads a `txn` whose object begins here.
pub(super) fn transaction(cursor: &mut Cursor<'_>) -> Result<Transaction> {
    let (mut app_id, mut version, mut last_updated) = (Span::NONE, None, None);
    let mut met = Met::default();
    each_field(cursor, |cursor, key| {
        match key {
            b"appId" => app_id = text(met.once(0, cursor)?, "appId")?,
            b"version" => version = integer(met.once(1, cursor)?, "version")?,
            b"lastUpdated" => last_updated = integer(met.once(2, cursor)?, "lastUpdated")?,
            _ => cursor.skip(FIELD_DEPTH)?,
        }
        Ok(())
    })?;
    required(cursor, app_id.is_some().then_some(()), "txn", "appId")?;
    Ok(Transaction { app_id, version: required(cursor, version, "txn", "version")?, last_updated })
}

/// Reads a `domainMetadata` whose object begins here.
pub(super) fn domain(cursor: &mut Cursor<'_>) -> Result<Domain> {
    let (mut name, mut configuration, mut removed) = (Span::NONE, Span::NONE, None);
    let mut met = Met::default();
    each_field(cursor, |cursor, key| {
        match key {
            b"domain" => name = text(met.once(0, cursor)?, "domain")?,
            b"configuration" => configuration = text(met.once(1, cursor)?, "configuration")?,
            b"removed" => removed = boolean(met.once(2, cursor)?, "removed")?,
            _ => cursor.skip(FIELD_DEPTH)?,
        }
        Ok(())
    })?;
    required(cursor, name.is_some().then_some(()), "domainMetadata", "domain")?;
    required(cursor, configuration.is_some().then_some(()), "domainMetadata", "configuration")?;
    Ok(Domain { name, configuration, removed: required(cursor, removed, "domainMetadata", "removed")? })
}

/// The known keys of one object that were met: JSON gives no meaning to a second one.
#[derive(Default)]
pub(super) struct Met(u32);

impl Met {
    /// Notes known key number `index`, and gives the cursor to read its value with.
    #[inline]
    pub(super) fn once<'c, 'a>(&mut self, index: u32, cursor: &'c mut Cursor<'a>) -> Result<&'c mut Cursor<'a>> {
        let bit = 1_u32.checked_shl(index).unwrap_or(0);
        if self.0 & bit != 0 {
            return cursor.fail("a key is repeated");
        }
        self.0 |= bit;
        Ok(cursor)
    }
}

/// Calls `each` with the resolved bytes of every key; half of a surrogate pair makes a key unknown.
#[inline]
pub(super) fn each_field<'a>(
    cursor: &mut Cursor<'a>,
    mut each: impl FnMut(&mut Cursor<'a>, &[u8]) -> Result<()>,
) -> Result<()> {
    cursor.object(|cursor, key| {
        if key.is_escaped() {
            let resolved = key.resolve().unwrap_or_default();
            each(cursor, resolved.as_bytes())
        } else {
            each(cursor, key.raw())
        }
    })
}

#[inline]
fn required<T>(cursor: &Cursor<'_>, value: Option<T>, action: &str, field: &str) -> Result<T> {
    match value {
        Some(value) => Ok(value),
        None => cursor.fail(format!("{action} has no {field}, which the protocol requires")),
    }
}

#[inline]
fn is_null(cursor: &mut Cursor<'_>) -> Result<bool> {
    let null = cursor.skip_blanks() == Some(b'n');
    if null {
        cursor.null()?;
    }
    Ok(null)
}

/// Refuses a value of another type.
#[inline]
pub(super) fn expect(cursor: &mut Cursor<'_>, kind: Kind, field: &str) -> Result<()> {
    let found = cursor.kind()?;
    if found == kind {
        return Ok(());
    }
    cursor.fail(format!("{field} must be {}, it is {}", kind.name(), found.name()))
}

/// Reads a string or null, unresolved.
#[inline]
fn raw_text<'a>(cursor: &mut Cursor<'a>, field: &str) -> Result<Option<(Span, Text<'a>)>> {
    if is_null(cursor)? {
        return Ok(None);
    }
    expect(cursor, Kind::String, field)?;
    let start = cursor.at().saturating_add(1);
    let text = cursor.string()?;
    Ok(Some((Span::of(start, text.raw().len(), text.is_escaped()), text)))
}

#[inline]
fn text(cursor: &mut Cursor<'_>, field: &str) -> Result<Span> {
    let Some((span, text)) = raw_text(cursor, field)? else { return Ok(Span::NONE) };
    if text.is_escaped() && text.resolve().is_none() {
        return cursor.fail(format!("{field} is not valid Unicode"));
    }
    Ok(span)
}

fn owned_text(cursor: &mut Cursor<'_>, field: &str) -> Result<Option<String>> {
    let Some((_, text)) = raw_text(cursor, field)? else { return Ok(None) };
    match text.resolve() {
        Some(text) => Ok(Some(text.into_owned())),
        None => cursor.fail(format!("{field} is not valid Unicode")),
    }
}

/// Statistics stay unread text: half of a surrogate pair in them only makes them unknown later.
#[inline]
fn statistics(cursor: &mut Cursor<'_>) -> Result<Span> {
    Ok(raw_text(cursor, "stats")?.map_or(Span::NONE, |(span, _)| span))
}

#[inline]
fn boolean(cursor: &mut Cursor<'_>, field: &str) -> Result<Option<bool>> {
    if is_null(cursor)? {
        return Ok(None);
    }
    expect(cursor, Kind::Boolean, field)?;
    Ok(Some(cursor.boolean()?))
}

#[inline]
fn integer(cursor: &mut Cursor<'_>, field: &str) -> Result<Option<i64>> {
    if is_null(cursor)? {
        return Ok(None);
    }
    expect(cursor, Kind::Number, field)?;
    match cursor.integer()? {
        Some(value) => Ok(Some(value)),
        None => cursor.fail(format!("{field} must be an integer of 64 bits")),
    }
}

fn small_integer(cursor: &mut Cursor<'_>, field: &str) -> Result<Option<i32>> {
    match integer(cursor, field)?.map(i32::try_from) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(_)) => cursor.fail(format!("{field} must be an integer of 32 bits")),
    }
}

/// Checks a map of string to string or null.
fn string_map(cursor: &mut Cursor<'_>, field: &str) -> Result<Span> {
    if is_null(cursor)? {
        return Ok(Span::NONE);
    }
    expect(cursor, Kind::Object, field)?;
    let start = cursor.at();
    let mut keys = MapKeys::default();
    cursor.object(|cursor, key| {
        let Some(resolved) = key.resolve() else {
            return cursor.fail(format!("{field} is not valid Unicode"));
        };
        if !keys.insert(resolved) {
            return cursor.fail("a key is repeated");
        }
        if is_null(cursor)? {
            return Ok(());
        }
        expect(cursor, Kind::String, "a value in partitionValues or tags")?;
        let value = cursor.string()?;
        if value.is_escaped() && value.resolve().is_none() {
            return cursor.fail(format!("{field} is not valid Unicode"));
        }
        Ok(())
    })?;
    Ok(Span::of(start, cursor.since(start).len(), false))
}

/// The keys of a map that were met: a few in a row, many in a set.
#[derive(Default)]
struct MapKeys<'a> {
    first: Option<Cow<'a, str>>,
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> MapKeys<'a> {
    const FEW: usize = 16;

    /// Whether the key is new.
    fn insert(&mut self, key: Cow<'a, str>) -> bool {
        let Some(first) = &self.first else {
            self.first = Some(key);
            return true;
        };
        if *first == key || self.few.contains(&key) {
            return false;
        }
        if self.few.len() < Self::FEW {
            self.few.push(key);
            return true;
        }
        self.many.insert(key)
    }
}
