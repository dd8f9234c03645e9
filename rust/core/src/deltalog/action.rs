//! The actions of a log entry. They refer to places in its text: nothing is copied before an action
//! has proved to be live, so that a million of them stay small.

use super::fields::{
    Met, RecordCount, Span, boolean, each_field, expect, integer, is_null, owned_text, required, small_integer,
    statistics, string_map, text,
};
use crate::json::{Cursor, JsonError, Kind};

type Result<T> = std::result::Result<T, JsonError>;

/// The depth of an action's fields: inside the object of the line and the object of the action.
const FIELD_DEPTH: u32 = 2;

/// An `add` or a `remove` action.
#[derive(Clone, Debug)]
pub(super) struct FileAction {
    pub path: Span,
    pub partition_values: Span,
    pub stats: Span,
    pub record_count: RecordCount,
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
        record_count: RecordCount::Unread,
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
            b"stats" => (action.stats, action.record_count) = statistics(met.once(5, cursor)?)?,
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
