"""Checks of a commit that names files of an older version: they must be there, and they must stay.

Restores and clones do so. They also agree on the properties that say what holds for a history, and not for one version.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.domains import ROW_TRACKING_DOMAIN, row_id_high_water_mark
from deltaberg.delta.actions.log_action import LogAction, read_actions
from deltaberg.delta.actions.table_actions import Metadata, read_metadata
from deltaberg.delta.data.deletion_vectors import locate_vectors, unique_ids
from deltaberg.delta.features import recorded_mapping_mode
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.schema.enforce import with_marks
from deltaberg.delta.schema.new_columns import MAX_COLUMN_ID, highest_id
from deltaberg.delta.schema.row_tracking import MATERIALIZED_ROW_COLUMNS
from deltaberg.delta.schema.schema import parse_schema
from deltaberg.delta.schema.writer_rules import identity_columns
from deltaberg.delta.snapshot.history import IN_COMMIT_TIMESTAMPS, SINCE_TIMESTAMP, SINCE_VERSION
from deltaberg.delta.snapshot.retention import KEPT_VERSIONS, PROTECTED_BEFORE, deleted_file_retention, unexpired
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import CommitConflictError, InvalidArgumentError
from deltaberg.schema.arrow import as_array
from deltaberg.schema.types import Struct
from deltaberg.storage.location import PathResolver
from deltaberg.table.maintain.file_tasks import FileTasks
from deltaberg.table.maintain.listed_files import later_clock
from deltaberg.table.maintain.verifying.findings import first_paths
from deltaberg.table.maintain.verifying.presence import lost_locations
from deltaberg.table.rows.progress import Told, untold

__all__ = [
    "OF_HISTORY",
    "absent_keys",
    "check_unexpired",
    "file_keys",
    "is_rearranged",
    "lost_files",
    "metadata_over",
    "renumbered_files",
    "row_id_mark",
]

#: Properties that say what holds for the history, and not for one version of the table.
OF_HISTORY = (IN_COMMIT_TIMESTAMPS, SINCE_VERSION, SINCE_TIMESTAMP, PROTECTED_BEFORE, KEPT_VERSIONS)
#: What tells the ids of the rows of a file.
_IDS = ("baseRowId", "defaultRowCommitVersion")
#: A vacuum that runs may have begun so many milliseconds ago, with files that had expired by then.
_HOUR = 3_600_000


def file_keys(files: pa.Table) -> pa.StringArray:
    """Return what files are recognized by in other versions: their paths and their deletion vectors."""
    vectors = pc.fill_null(unique_ids(as_array(files.column("deletionVector"))), "")
    return pc.binary_join_element_wise(as_array(files.column("path")), vectors, "\n")


def renumbered_files(files: pa.Table, others: pa.Table) -> pa.Int64Array:
    """Return the numbers of files with row ids that are among other files as well, where their rows have other ids."""
    ids = [pc.fill_null(files.column(name), -1).cast(pa.string()) for name in _IDS]
    other_ids = [pc.fill_null(others.column(name), -1).cast(pa.string()) for name in _IDS]
    keys, other_keys = file_keys(files), file_keys(others)
    numbered, others_numbered = (
        pc.binary_join_element_wise(one, *map(as_array, texts), "\n")
        for one, texts in ((keys, ids), (other_keys, other_ids))
    )
    is_there = pc.is_in(keys, value_set=other_keys)
    is_as_it_was = pc.is_in(numbered, value_set=others_numbered)
    has_ids = as_array(files.column(_IDS[0])).is_valid()
    return pc.indices_nonzero(pc.and_(pc.and_not(is_there, is_as_it_was), has_ids)).cast(pa.int64())


def absent_keys(keys: pa.StringArray, others: pa.StringArray) -> pa.Int64Array:
    """Return the numbers of the keys that are not among others."""
    return pc.indices_nonzero(pc.invert(pc.is_in(keys, value_set=others))).cast(pa.int64())


def check_unexpired(newest: Snapshot, files: pa.Table, version: int, hint: str, *, dry_run: bool) -> None:
    """Refuse files that were removed too long ago, and so may be deleted by a vacuum that is running.

    Parameters
    ----------
    newest
        The newest version of the table.
    files
        The files of an older one, or some of them.
    version
        The older version.
    hint
        What would help.
    dry_run
        Whether nothing may be written.

    Raises
    ------
    InvalidArgumentError
        There is one.
    """
    if not len(files):
        return
    log, retention = newest.log, deleted_file_retention(newest.metadata.configuration)
    # The store tells its time by an object that is written, which a dry run must not do.
    at = time.time_ns() // 1_000_000 if dry_run else later_clock(log.storage, log.path)
    kept = unexpired(newest.tombstones, at, max(retention - _HOUR, 0))
    vectors = as_array(files.column("deletionVector"))
    in_files = pc.fill_null(pc.not_equal(pc.struct_field(vectors, "storageType"), "i"), False)
    # A live file is not taken, nor is a vector that has no file of its own.
    live = pc.and_(pc.is_in(files.column("path"), value_set=newest.live.table.column("path")), pc.invert(in_files))
    safe = pc.or_(live, pc.is_in(file_keys(files), value_set=file_keys(kept)))
    unsafe = files.column("path").filter(pc.invert(safe)).to_pylist()
    if unsafe:
        raise InvalidArgumentError(
            f"{len(unsafe)} files of version {version} were removed so long ago that a vacuum may be deleting them: "
            f"{first_paths(unsafe)}",
            hint=hint,
        )


def check_unmoved(newest: Snapshot, base: Snapshot, again: str | None = None) -> None:
    """Refuse what was planned on a version that is not the newest one any more; ``again`` says what to do then."""
    if newest.version != base.version:
        raise CommitConflictError(
            f"version {newest.version} was committed meanwhile", hint=again, winner=newest.version
        )


def lost_files(
    log: LogDirectory,
    files: pa.Table,
    resolver: PathResolver,
    tasks: FileTasks | None = None,
    told: Told = untold,
) -> pa.BooleanArray:
    """Return which files are gone, or have lost their deletion vectors.

    Parameters
    ----------
    log
        The log of the table.
    files
        Files as actions record them, with the columns ``path`` and ``deletionVector``.
    tasks
        What lists a large table in place of this process.
    told
        What is told of how many files it is known whether they are there.

    Raises
    ------
    StorageError
        The store does not say whether one is there.
    """
    data = as_array(resolver.locate(files.column("path")))
    descriptors = as_array(files.column("deletionVector"))
    vectors = pc.struct_field(locate_vectors(descriptors, resolver), "location")
    wanted = pc.unique(pa.concat_arrays([data, vectors])).drop_null()
    gone = lost_locations(log.store, log.root, wanted, tasks, told)
    return pc.or_(*(pc.is_in(one, value_set=gone, skip_nulls=True) for one in (data, vectors)))


def metadata_over(base: Snapshot, target: Snapshot) -> Metadata:
    """Return the metadata of a state that a table gets, with what may not fall, and the id of the table.

    Parameters
    ----------
    base
        The newest version of the table.
    target
        The state: an older version, or a version of the table that it is a clone of.
    """
    now, then = base.metadata.configuration, target.metadata.configuration
    kept: dict[str, str | None] = {name: now.get(name) for name in OF_HISTORY if now.get(name) != then.get(name)}
    greatest = _greatest_id(base, target)
    if greatest > highest_id(then):
        kept[MAX_COLUMN_ID] = str(greatest)
    metadata = target.metadata.with_properties(kept) if kept else target.metadata
    if metadata.id != base.metadata.id:
        metadata = metadata.with_members({"id": base.metadata.id})
    marks = _marks(base, target)
    return (
        metadata.with_members({"schemaString": with_marks(metadata.schema_string or "", marks)}) if marks else metadata
    )


def _greatest_id(base: Snapshot, target: Snapshot) -> int:
    """Return the greatest id that a column of the table ever had."""
    now = highest_id(base.metadata.configuration)
    if now or target.mapping_mode == "none" or target.log.root != base.log.root:
        return now
    # Other engines forget it where column mapping ends. What was given since then is in the log.
    actions = _actions_since(base, target, "metaData")
    return max((highest_id(action.members.get("configuration") or {}) for action in actions), default=0)


def row_id_mark(base: Snapshot, target: Snapshot) -> int | None:
    """Return the greatest id of a row up to which none is to be given again after a restore; None if rows have no ids.

    Parameters
    ----------
    base
        The newest version of the table.
    target
        The older version.
    """
    now, then = (row_id_high_water_mark(one.domains) for one in (base, target))
    if then is None:
        return now
    marks = [then, -1 if now is None else now]
    names = ([one.metadata.configuration.get(name) for name in MATERIALIZED_ROW_COLUMNS] for one in (base, target))
    if now is None or len({*map(tuple, names)}) > 1:
        # The mark goes with row tracking, where that is dropped. What was given since then is in the log.
        for action in _actions_since(base, target, "domainMetadata"):
            if action.members.get("domain") == ROW_TRACKING_DOMAIN and not action.members.get("removed"):
                mark = row_id_high_water_mark({ROW_TRACKING_DOMAIN: str(action.members.get("configuration"))})
                marks.append(-1 if mark is None else mark)
    return max(marks)


def _actions_since(base: Snapshot, target: Snapshot, name: str) -> Iterator[LogAction]:
    """Return the actions of a kind in the commits after an older version."""
    for entry in base.log.entries(target.version + 1):
        if entry.file.kind == "commit" and entry.version <= base.version:
            yield from read_actions(base.log.read(entry), name)


def _marks(base: Snapshot, target: Snapshot) -> dict[str, int]:
    """Return the marks of the identity columns of the target up to which values were given since."""
    rules = identity_columns(target.schema)
    columns = [field for field in target.schema if field.name in rules]
    states = [_given_marks(base.schema)]
    if any(field.physical_name not in states[0] for field in columns) and base.log.root == target.log.root:
        # A mark goes with its column, where that is dropped or replaced. What was given before that is in the log.
        changed = (read_metadata(action.members) for action in _actions_since(base, target, "metaData"))
        states += [
            _given_marks(parse_schema(one.schema_string or "", recorded_mapping_mode(one.configuration)))
            for one in changed
        ]
    marks = {}
    for field in columns:
        rule = rules[field.name]
        since = [state[field.physical_name] for state in states if field.physical_name in state]
        if not since:
            continue
        mark = max(since) if rule.step > 0 else min(since)
        if rule.high_water_mark is None or (mark - rule.high_water_mark) * rule.step > 0:
            marks[field.name] = mark
    return marks


def _given_marks(columns: Struct) -> dict[str, int]:
    """Return the marks of identity columns that have some, by the names of the columns in files."""
    rules = identity_columns(columns)
    marks = ((field.physical_name, rules[field.name].high_water_mark) for field in columns if field.name in rules)
    return {name: mark for name, mark in marks if mark is not None}


def is_rearranged(base: Snapshot) -> bool:
    """Return whether all commits after a version only move rows to other files, or change nothing."""
    actions = (
        action
        for _, data in base.newer_commits().commits
        for action in read_actions(data, "add", "remove", "metaData", "protocol", "domainMetadata")
    )
    return all(
        action.members.get("domain") == ROW_TRACKING_DOMAIN
        if action.name == "domainMetadata"
        else action.name in ("add", "remove") and action.members.get("dataChange") is False
        for action in actions
    )
