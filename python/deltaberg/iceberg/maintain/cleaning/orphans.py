"""Orphans: files in the directory of a table that no snapshot reaches, such as leftovers of interrupted writes.

What the newest metadata reaches is read before the directory is listed, and so is what newer metadata adds, after the
listing and before each batch of deletions. A file of a commit that comes meanwhile therefore stays.
"""

from __future__ import annotations

import datetime as dt
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.choices import PrefixMismatch
from deltaberg.errors import DataFileNotFoundError, DeltabergError, InvalidArgumentError, in_context
from deltaberg.hints import Hint
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.location.pointer import KnowsOthers, TablePointer
from deltaberg.iceberg.maintain.cleaning.metadata_beside import SETTLED, check_metadata_beside
from deltaberg.iceberg.maintain.cleaning.reached import Places, Reached, snapshots_with
from deltaberg.iceberg.maintain.cleaning.snapshot_retention import check_collected
from deltaberg.iceberg.maintain.cleaning.sweep import TABLE_FILE, Sweep, check_alone, is_in, own_folders
from deltaberg.iceberg.metadata.snapshot_refs import in_words
from deltaberg.iceberg.transaction.writable import check_writable
from deltaberg.schema.arrow import as_array
from deltaberg.storage.location import parse_location
from deltaberg.table.arguments import check_flags, checked_choice, checked_function, parse_instant
from deltaberg.table.maintain.cleanup import CleanupProgress, CleanupResult, OnProgress, warnings_of_unnamed
from deltaberg.table.maintain.file_tasks import FileTasks, list_by_tasks
from deltaberg.table.maintain.listed_files import INNER_TABLE, are_hidden, earlier_clock
from deltaberg.table.maintain.verifying.findings import first_paths
from deltaberg.table.maintain.verifying.presence import look_up

__all__ = ["OrphanRequest", "remove_orphans"]

_HOUR = 3_600_000
_DAY = 24 * _HOUR
#: Files are orphans at this age, unless the caller says otherwise, and at no lesser one without being told.
_AGE, _LEAST_AGE = 3 * _DAY, _DAY
#: How many snapshots an error names.
_MOST_NAMED = 10
_HINT = r"(?:^|/)version-hint\.text$"
_METADATA = r"(?s)(?:^|/)metadata/[^/]*$"

_REASON = "no snapshot, and no metadata of the table, names it"
_LIVE = "the table needs it"
_YOUNG = "too young to be a leftover"
_IS_HIDDEN = "hidden: its path has a part that begins with _ or ."
_NESTED = "of another table below the directory"
_ELSEWHERE = "the table names a file of this path in another store"
_FOUND = pa.schema(
    [
        ("location", pa.string()),
        ("kind", pa.string()),
        ("bytes", pa.int64()),
        ("modified", pa.timestamp("ms", "UTC")),
        ("reason", pa.string()),
    ]
)


@dataclass(frozen=True)
class OrphanRequest:
    """The request to remove orphans; see `IcebergTable.remove_orphan_files` for its arguments and their defaults.

    Raises
    ------
    InvalidArgumentError
        An argument is not of its type.
    """

    older_than: Any
    location: Any
    prefix_mismatch: str
    enforce_retention_duration: bool
    dry_run: bool
    progress: OnProgress | None
    zone: dt.tzinfo

    def __post_init__(self) -> None:
        check_flags(self, "enforce_retention_duration", "dry_run")
        hint = "leave it out to have an error for such files"
        checked_choice("prefix_mismatch", self.prefix_mismatch, get_args(PrefixMismatch), hint)
        if self.progress is not None:
            checked_function("progress", self.progress, "CleanupProgress")
        if self.older_than is not None:
            object.__setattr__(self, "older_than", parse_instant(self.older_than, self.zone))
        if self.location is not None:
            object.__setattr__(self, "location", parse_location(self.location))

    def limit(self, now: int) -> int:
        """Return the time in milliseconds since 1970 before which a file must have been written.

        Raises
        ------
        InvalidArgumentError
            It is less than a day ago, and nobody has switched the check off.
        """
        if self.older_than is None:
            return now - _AGE
        limit: int = self.older_than
        if limit > now - _LEAST_AGE and self.enforce_retention_duration:
            raise InvalidArgumentError(
                "files that are less than a day old may belong to writers that have yet to commit",
                hint=Hint(
                    "choose an earlier time for ⟪older_than⟫, or use ⟪enforce_retention_duration=False⟫ if you "
                    "know that nobody writes to the table"
                ),
            )
        return limit


def remove_orphans(
    pointer: TablePointer, loaded: LoadedTable, asked: OrphanRequest, tasks: FileTasks | None
) -> CleanupResult:
    """Delete the files below a table that nothing reaches, or find them.

    Parameters
    ----------
    pointer
        What finds newer metadata.
    loaded
        The newest metadata.
    asked
        What is asked for.
    tasks
        What lists a large table, reads many manifests and deletes many files in place of this process.

    Raises
    ------
    InvalidArgumentError
        The property ``gc.enabled`` is false, the directory is also that of another table or in one, files may belong to
        running writers, or a file that is found has the path of one that the table names in another store.
    DataFileNotFoundError
        The table names files that are not there, which shows that the listing or the table is not whole.
    DeltabergError
        What the table reaches cannot be read, or the store failed. Nothing was deleted.
    """
    with in_context(table=str(loaded.root)):
        return _Orphans(pointer, loaded, asked, tasks).run()


class _Orphans:
    def __init__(
        self, pointer: TablePointer, loaded: LoadedTable, asked: OrphanRequest, tasks: FileTasks | None
    ) -> None:
        self._begun = time.monotonic()
        self._loaded = loaded
        self._asked = asked
        self._tasks = tasks
        check_alone(loaded, unnamed=True)
        if isinstance(pointer, KnowsOthers):
            pointer.check_unshared(loaded)
        load = pointer.committer(unsafe_single_writer=True).load
        newest = load(loaded)
        # If another commit has just landed, what finds the table finds that commit as well.
        if newest is None or (newest.file != loaded.file and pointer.load().file == loaded.file):
            raise InvalidArgumentError(
                "the newest metadata of the table is not known here, and files that it needs could be deleted",
                hint="open the table from its catalog, or by its directory",
                file=str(loaded.file),
            )
        check_writable(loaded.metadata, loaded.resolver)
        check_collected(loaded.metadata)
        self._now = earlier_clock(loaded.store.open(loaded.file), loaded.file.path.rpartition("/")[0])
        self._limit = asked.limit(self._now)
        self._places = Places(loaded)
        self._reached = Reached(self._places, tasks)
        self._sweep = Sweep(load, loaded, self._reached, tasks, asked.progress)
        self._folders = own_folders(loaded, loaded.metadata)
        self._folder = self._folders[0] if asked.location is None else self._sweep.folder(asked.location)
        self._above = f"{str(self._folder).rstrip('/')}/"
        self._kept: Counter[str] = Counter()
        self._nested: set[str] = set()
        self._passed_over: list[str] = []
        names = {field.name for spec in loaded.metadata.specs.values() for field in spec.fields}
        hidden = sorted(name for name in names if name.startswith(("_", ".")))
        # Directories of partition values are not hidden, whatever the name of the field.
        self._shown = rf"(^|/)(?:{'|'.join(map(re.escape, hidden))})=[^/]*" if hidden else None

    def run(self) -> CleanupResult:
        settled = self._now - SETTLED
        snapshots = self._loaded.metadata.snapshots.values()
        self._reached.add(self._loaded, [one for one in snapshots if one.timestamp_ms < settled])
        old = self._reached.parts[0]
        self._reached.add(self._loaded, [one for one in snapshots if one.timestamp_ms >= settled])
        files = pa.Table.from_batches(list(self._listed()), _FOUND)
        self._require_whole(as_array(old.unasked().cast(pa.string())))
        files = self._without_others(files)
        if files.num_rows:
            self._sweep.look_at_newer()
            newest = self._sweep.loaded
            folders = own_folders(newest, newest.metadata)
            check_metadata_beside(newest, folders, self._places, self._reached, settled)
            files = self._sweep.without_reached(files)
        if not self._asked.dry_run:
            files = self._sweep.carry_out(files, TABLE_FILE)
        kept = self._kept + self._sweep.kept
        return CleanupResult(
            self._asked.dry_run,
            self._sweep.as_cleaned(files),
            self._sweep.failed,
            {reason: count for reason, count in sorted(kept.items()) if count},
            time.monotonic() - self._begun,
            (*self._sweep.warnings, *warnings_of_unnamed(self._passed_over), *self._unlisted_folders()),
        )

    def _unlisted_folders(self) -> list[str]:
        """Return what is to be said of directories of the table elsewhere: others may have theirs below them."""
        if self._asked.location is not None:
            return []
        folders = self._folders
        # Only older metadata names the directory then, and it takes a request for each of these files to know.
        if any(self._has_others(part) for part in self._reached.parts):
            folders = self._sweep.all_folders()
        left = [str(one) for one in folders if not is_in(one, [self._folder])]
        why = "others may have files there; pass a directory as location if it is the table's alone"
        return [f"orphans were not looked for in {', '.join(left)}: {why}"] if left else []

    def _has_others(self, part: kernels.PathSet) -> bool:
        """Return whether there are files that are not in a directory of the table, as its newest metadata says."""
        left = as_array(part.unasked().cast(pa.string()))
        for folder in (self._folder, *self._folders):
            left = left.filter(pc.invert(pc.starts_with(left, f"{str(folder).rstrip('/')}/")))
        return len(left) > 0

    def _listed(self) -> Iterator[pa.RecordBatch]:
        """List the directory, and yield what is old enough and not reached."""

        def is_wanted(paths: pa.StringArray) -> pa.BooleanArray:
            is_hint = pc.match_substring_regex(paths, _HINT)
            reached = pc.or_(self._reached.contains(self._located(paths)), is_hint)
            self._kept[_LIVE] += reached.true_count
            inner = pc.struct_field(pc.extract_regex(paths, INNER_TABLE), "table").drop_null()
            self._nested.update(inner.unique().to_pylist())
            self._sweep.listed += len(paths)
            return pc.invert(reached)

        listing = list_by_tasks(self._tasks, self._loaded.store, self._folder, is_wanted, self._passed_over.append)
        chosen = 0
        for batch in listing:
            paths, sizes, modified = batch.columns
            hidden = self._is_hidden(paths)
            old = pc.less(modified, self._limit)
            self._kept[_IS_HIDDEN] += hidden.true_count
            self._kept[_YOUNG] += pc.and_(pc.invert(hidden), pc.invert(old)).true_count
            mask = pc.and_(pc.invert(hidden), old)
            some = paths.filter(mask)
            kinds = pc.if_else(pc.match_substring_regex(some, _METADATA), "metadata", "data file")
            times = modified.filter(mask).cast(pa.timestamp("ms", "UTC"))
            chosen += len(some)
            columns = [self._located(some), kinds, sizes.filter(mask), times, pa.repeat(_REASON, len(some))]
            yield pa.RecordBatch.from_arrays(columns, schema=_FOUND)
            if self._asked.progress is not None:
                self._asked.progress(CleanupProgress(self._sweep.listed, chosen, 0))

    def _located(self, paths: pa.StringArray) -> pa.StringArray:
        return pc.binary_join_element_wise(self._above, paths, "")

    def _is_hidden(self, paths: pa.StringArray) -> pa.BooleanArray:
        shown = paths if self._shown is None else pc.replace_substring_regex(paths, self._shown, r"\1shown")
        return are_hidden(shown)

    def _require_whole(self, unlisted: pa.StringArray) -> None:
        """Refuse to go on where the listing lacks what the table names, and the store does too."""
        missing = unlisted.filter(pc.starts_with(unlisted, self._above)).to_pylist()
        gone = []
        for text, answer in zip(missing, look_up(self._loaded.store, self._folder, missing), strict=True):
            if isinstance(answer, DeltabergError):
                raise answer
            if answer is None:
                gone.append(text)
        if gone:
            raise DataFileNotFoundError(
                f"files are missing ({len(gone)}) that the table names: {first_paths(gone)}; {self._needing(gone[0])}"
                "nothing was deleted",
                hint=Hint(
                    "⟪verify()⟫ shows what is missing: put it back from a copy. If it is lost for good, take it out of "
                    "the branches by ⟪repair()⟫, drop the tags that need it by ⟪alter().drop_tag()⟫, and let the older "
                    "snapshots that need it expire"
                ),
                file=gone[0],
            )

    def _needing(self, location: str) -> str:
        """Return what is to be said of the snapshots that need a file."""
        refs = self._loaded.metadata.all_refs
        named = [in_words(one.snapshot_id, refs) for one in snapshots_with(self._loaded, location)]
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        return f"the first one is needed by {', '.join(named[:_MOST_NAMED])}{more}; " if named else ""

    def _without_others(self, files: pa.Table) -> pa.Table:
        """Return files without those of tables below, and those that the table may name by another store."""
        own = self._loaded.file.path.rpartition("/")[0]
        inner = [f"{self._above}{one}/" for one in sorted(self._nested) if not own.startswith(f"{self._above}{one}/")]
        for one in inner:
            files = self._apart(files, pc.starts_with(as_array(files.column("location")), one), _NESTED)
        elsewhere = {one.path: one.recorded for one in self._places.elsewhere}
        if not elsewhere or self._asked.prefix_mismatch == "delete":
            return files
        paths = [parse_location(text).path.strip("/") for text in files.column("location").to_pylist()]
        same = pa.array([path in elsewhere for path in paths], pa.bool_())
        if same.true_count and self._asked.prefix_mismatch == "error":
            path = next(path for path in paths if path in elsewhere)
            raise InvalidArgumentError(
                f"{same.true_count} files have paths that the table names in another store, such as {elsewhere[path]}",
                hint=Hint(
                    "pass ⟪prefix_mismatch='ignore'⟫ if they are the same files, which then stay, or "
                    "⟪prefix_mismatch='delete'⟫ if they are others"
                ),
            )
        return self._apart(files, same, _ELSEWHERE)

    def _apart(self, found: pa.Table, stays: pa.BooleanArray, reason: str) -> pa.Table:
        self._kept[reason] += stays.true_count
        return found.filter(pc.invert(stays))
