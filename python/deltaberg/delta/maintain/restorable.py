"""Checks of a commit that names files of an older version: they must be there, and they must stay.

Restores and clones do so. They also agree on the properties that say what holds for a history, and not for one version.
"""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.domains import ROW_TRACKING_DOMAIN
from deltaberg.delta.actions.log_action import read_actions
from deltaberg.delta.actions.table_actions import Metadata
from deltaberg.delta.data.deletion_vectors import locate_vectors, unique_ids
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.schema.enforce import with_marks
from deltaberg.delta.schema.new_columns import MAX_COLUMN_ID, highest_id
from deltaberg.delta.schema.writer_rules import identity_columns
from deltaberg.delta.snapshot.history import IN_COMMIT_TIMESTAMPS, SINCE_TIMESTAMP, SINCE_VERSION
from deltaberg.delta.snapshot.retention import KEPT_VERSIONS, PROTECTED_BEFORE, deleted_file_retention, unexpired
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import CommitConflictError, InvalidArgumentError
from deltaberg.schema.arrow import as_array
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
]

#: Properties that say what holds for the history, and not for one version of the table.
OF_HISTORY = (IN_COMMIT_TIMESTAMPS, SINCE_VERSION, SINCE_TIMESTAMP, PROTECTED_BEFORE, KEPT_VERSIONS)
#: A vacuum that runs may have begun so many milliseconds ago, with files that had expired by then.
_HOUR = 3_600_000


def file_keys(files: pa.Table) -> pa.StringArray:
    """Return what files are recognized by in other versions: their paths and their deletion vectors."""
    vectors = pc.fill_null(unique_ids(as_array(files.column("deletionVector"))), "")
    return pc.binary_join_element_wise(as_array(files.column("path")), vectors, "\n")


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
    since = (entry for entry in base.log.entries(target.version + 1) if entry.file.kind == "commit")
    actions = (
        action
        for entry in since
        if entry.version <= base.version
        for action in read_actions(base.log.read(entry), "metaData")
    )
    return max((highest_id(action.members.get("configuration") or {}) for action in actions), default=0)


def _marks(base: Snapshot, target: Snapshot) -> dict[str, int]:
    """Return the marks of the identity columns of the target up to which values were given since."""
    rules = identity_columns(base.schema)
    given = {field.physical_name: rules[field.name] for field in base.schema if field.name in rules}
    rules = identity_columns(target.schema)
    marks = {}
    for field in target.schema:
        old, since = rules.get(field.name), given.get(field.physical_name)
        if old is None or since is None or since.high_water_mark is None:
            continue
        mark = since.high_water_mark
        if old.high_water_mark is None or (mark - old.high_water_mark) * old.step > 0:
            marks[field.name] = mark
    return marks


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
