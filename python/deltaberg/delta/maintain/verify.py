"""Verification of a Delta table: what its log says, compared with what is in the store. Nothing is changed.

The store is asked before anything is reported. What is missing from the listing is asked for by its name, and what is
missing then must still be named by the newest version, because a file may have been removed and vacuumed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.choices import VerifyDepth
from deltaberg.delta.maintain.live_names import LiveNames
from deltaberg.delta.maintain.verify_log import LogNames, NamedFile, change_files, checksum_findings
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import CorruptDataFileError, CorruptDeletionVectorError, DeltabergError, ObjectNotFoundError
from deltaberg.files.formats.footers import count_rows
from deltaberg.files.read.bitmaps import load_bitmap
from deltaberg.storage.location import PathResolver, parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain.file_tasks import FileTasks
from deltaberg.table.maintain.findings import DAMAGED, MISSING, ROWS, SIZE, UNCHECKED, Finding, VerifyResult
from deltaberg.table.maintain.presence import CONCURRENT, Presence, find_files
from deltaberg.workers import in_chunks, map_in_order

__all__ = ["DATA_FILE", "VECTOR", "verify_table"]

#: What findings are about.
DATA_FILE = "data file"
VECTOR = "deletion vector"
_CHANGE_FILE = "change data file"
_SIDECAR = "sidecar"
_FOOTER = "footer"

#: Files that are looked into together.
_TOGETHER = 1 << 13

_T = TypeVar("_T")


def verify_table(
    snapshot: Snapshot,
    resolver: PathResolver,
    depth: VerifyDepth,
    tasks: FileTasks | None = None,
    *,
    is_pinned: bool,
) -> VerifyResult:
    """Compare a version with the store.

    Parameters
    ----------
    snapshot
        A version of the table.
    depth
        How closely files are looked at.
    tasks
        What lists a large table in place of this process.
    is_pinned
        Whether this version is meant. Otherwise it is the newest one, and what a later one has removed is not reported.

    Raises
    ------
    StorageError
        The table cannot be listed.
    CorruptTableError, UnsafePathError
        The log does not say what belongs to the version.
    """
    if not is_pinned:
        snapshot = snapshot.newer()
    verification = _Verification(snapshot, resolver, depth, tasks)
    log = LogNames(snapshot)
    found = [*verification.of_files(log)]
    if not is_pinned:
        found = verification.still_live(found)
    findings = [*log.confirmed(), *_once(found), *checksum_findings(snapshot)]
    checked = {"commit": len(log.versions), "checkpoint": log.checkpoints, **verification.checked}
    return VerifyResult(f"version {snapshot.version}", depth, tuple(findings), checked)


class _Found(NamedTuple):
    """A finding, and the number of the live file that it is about; None for one that no live file names."""

    row: int | None
    finding: Finding


class _Named(NamedTuple):
    """A file that is looked for: its location, its size, what names it, and the number of the live file that does.

    With ``is_part``, the file must have at least this size: it may hold more than what is looked for.
    """

    location: str
    size: int | None
    named_by: str
    row: int | None = None
    is_part: bool = False


class _Verification:
    def __init__(self, snapshot: Snapshot, resolver: PathResolver, depth: VerifyDepth, tasks: FileTasks | None) -> None:
        self._tasks = tasks
        self._snapshot = snapshot
        self._resolver = resolver
        self._depth = depth
        self._store: StoreSpec = snapshot.log.store
        self._names = LiveNames.of(snapshot, resolver)
        self.checked: dict[str, int] = {}

    def of_files(self, log: LogNames) -> Iterator[_Found]:
        """Look for all files, and into them."""
        names, vector_files = self._names, self._names.vector_files
        changes = list(change_files(self._snapshot, log.versions, self._resolver))
        beside = [*changes, *log.sidecars.values()]
        several = [names.data, vector_files.drop_null(), pa.array([one.location for one in beside], pa.string())]
        wanted = pc.unique(pa.concat_arrays(several))
        presence = find_files(self._store, self._snapshot.log.root, wanted, self._tasks)

        def answers(locations: pa.StringArray) -> list[Presence]:
            numbers = pc.index_in(locations, value_set=wanted).to_pylist()
            return [None if number is None else presence[number] for number in numbers]

        of_data, of_vectors = answers(names.data), answers(vector_files)
        rows = pc.indices_nonzero(pc.is_valid(vector_files)).to_pylist()
        yield from self._compared(DATA_FILE, self._data_files(), of_data)
        yield from self._compared(VECTOR, self._vector_files(rows), [of_vectors[row] for row in rows])
        lost = [
            found
            for what, files in ((_CHANGE_FILE, changes), (_SIDECAR, list(log.sidecars.values())))
            for found in self._compared(
                what, _beside(files), answers(pa.array([one.location for one in files], pa.string()))
            )
        ]
        yield from self._still_named(lost, log)
        if self._depth != "names":
            yield from self._of_vectors(of_vectors)
        if self._depth == "footers":
            yield from self._of_footers(of_data)

    def _data_files(self) -> Iterator[_Named]:
        sizes = self._names.files.column("size").to_pylist()
        version = f"version {self._snapshot.version}"
        for row, (location, size) in enumerate(zip(self._names.data.to_pylist(), sizes, strict=True)):
            yield _Named(location, size, version, row)

    def _vector_files(self, rows: Sequence[int]) -> Iterator[_Named]:
        locations = self._names.vector_files.take(pa.array(rows, pa.int64())).to_pylist()
        for row, location in zip(rows, locations, strict=True):
            end = self._names.end_of_vector(row)
            yield _Named(location, end, self._named_by_file(row), row, is_part=True)

    def _named_by_file(self, row: int) -> str:
        return f"the data file {self._names.data[row].as_py()}"

    def _compared(self, what: str, files: Iterator[_Named], answers: Sequence[Presence]) -> Iterator[_Found]:
        """Compare what the store says of some files with what names them."""
        self.checked[what] = len(answers)
        for file, answer in zip(files, answers, strict=True):
            finding = partial(Finding, what=what, path=file.location, named_by=file.named_by, expected=file.size)
            if answer is None:
                yield _Found(file.row, finding(MISSING))
            elif isinstance(answer, ObjectNotFoundError):
                yield _Found(file.row, finding(DAMAGED, found=answer.message))
            elif isinstance(answer, DeltabergError):
                yield _Found(file.row, finding(UNCHECKED, found=answer.message))
            elif file.size is not None and (answer < file.size if file.is_part else answer != file.size):
                least = f"at least {file.size}" if file.is_part else file.size
                yield _Found(file.row, finding(SIZE, expected=least, found=answer))

    def _still_named(self, found: Sequence[_Found], log: LogNames) -> list[_Found]:
        """Leave out sidecars of checkpoints that were cleaned up meanwhile."""
        sidecars = {one.finding.path for one in found if one.finding.what == _SIDECAR}
        named = log.still_named(sidecars)
        return [one for one in found if one.finding.what != _SIDECAR or one.finding.path in named]

    def _of_vectors(self, answers: Sequence[Presence]) -> Iterator[_Found]:
        """Decode the deletion vectors whose files are there."""
        names = self._names
        for row, error in names.unplaced.items():
            yield _Found(row, self._damaged(VECTOR, row, self._named_by_file(row), error))
        valid = pc.indices_nonzero(pc.is_valid(names.vectors)).to_pylist()
        inline = pc.is_null(names.vector_files).to_pylist()
        rows = [row for row in valid if inline[row] or isinstance(answers[row], int)]
        counts = self._record_counts if rows else []

        def decode(row: int) -> DeltabergError | None:
            return _failure(lambda: load_bitmap(names.vector(row), self._store, True, counts[row]))

        self.checked[VECTOR] = len(rows)
        for row, failure in _in_parallel(decode, rows):
            if failure is not None:
                yield _Found(row, self._damaged(VECTOR, row, self._named_by_file(row), failure))

    def _of_footers(self, answers: Sequence[Presence]) -> Iterator[_Found]:
        """Compare the rows of data files with what their statistics say."""
        counts, version = self._record_counts, f"version {self._snapshot.version}"
        sizes = self._names.files.column("size").to_pylist()
        # A file of another size is a finding already.
        there = {row: size for row, size in enumerate(answers) if isinstance(size, int) and sizes[row] in (None, size)}

        def count(row: int) -> int | DeltabergError:
            place = parse_location(self._names.data[row].as_py())
            try:
                return count_rows(self._store.open(place), place.path, there[row])
            except DeltabergError as error:
                return error

        self.checked[_FOOTER] = len(there)
        for row, found in _in_parallel(count, list(there)):
            if isinstance(found, DeltabergError):
                yield _Found(row, self._damaged(DATA_FILE, row, version, found))
            elif counts[row] not in (None, found):
                path = self._names.data[row].as_py()
                yield _Found(row, Finding(ROWS, DATA_FILE, path, version, counts[row], found))

    def _damaged(self, what: str, row: int, named_by: str, error: DeltabergError) -> Finding:
        """Return the finding of an error: only some of them say that what was read is damaged."""
        is_damage = isinstance(error, (CorruptDataFileError, CorruptDeletionVectorError))
        where = self._names.vector_files[row].as_py() if what == VECTOR else None
        path = where or self._names.data[row].as_py()
        return Finding(DAMAGED if is_damage else UNCHECKED, what, path, named_by, None, error.message)

    @cached_property
    def _record_counts(self) -> list[int | None]:
        counts: list[int | None] = self._snapshot.live.statistics(None, ()).record_count.to_pylist()
        return counts

    def still_live(self, found: Sequence[_Found]) -> list[_Found]:
        """Leave out what is about files that the newest version does not have any more."""
        rows = sorted({one.row for one in found if one.row is not None})
        newest = self._snapshot.newer() if rows else self._snapshot
        if newest is self._snapshot:
            return list(found)
        keys = dict(zip(rows, self._names.keys(pa.array(rows, pa.int64())), strict=True))
        paths = pa.array(sorted({path for path, _ in keys.values()}), pa.string())
        live = LiveNames.of(newest, self._resolver)
        numbers = pc.indices_nonzero(pc.is_in(live.files.column("path"), value_set=paths))
        still = set(live.keys(numbers.cast(pa.int64())))
        return [one for one in found if one.row is None or keys[one.row] in still]


def _beside(files: Sequence[NamedFile]) -> Iterator[_Named]:
    return (_Named(*file) for file in files)


def _failure(work: Callable[[], object]) -> DeltabergError | None:
    try:
        work()
    except DeltabergError as error:
        return error
    return None


def _in_parallel(look: Callable[[int], _T], rows: Sequence[int]) -> Iterator[tuple[int, _T]]:
    """Look at some files, several at a time."""
    for chunk in in_chunks(rows, _TOGETHER):
        yield from zip(chunk, map_in_order(CONCURRENT, look, chunk), strict=True)


def _once(found: Sequence[_Found]) -> list[Finding]:
    """Return the findings, with only one for a lost file that holds the vectors of several data files."""
    seen: set[tuple[str, str]] = set()
    kept = []
    for one in (one.finding for one in found):
        key = (one.kind, one.path)
        if one.what == VECTOR and one.kind in (MISSING, UNCHECKED, SIZE):
            if key in seen:
                continue
            seen.add(key)
        kept.append(one)
    return kept
