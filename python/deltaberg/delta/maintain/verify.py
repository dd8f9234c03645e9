"""Verification of a Delta table: what its log says, compared with what is in the store. Nothing is changed.

The store is asked before anything is reported. What is missing from the listing is asked for by its name, and what is
missing then must still be named by the newest version, because a file may have been removed and vacuumed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.choices import VerifyDepth
from deltaberg.delta.maintain.live_names import LiveNames
from deltaberg.delta.maintain.verify_log import LogNames, NamedFile, change_files, checksum_findings
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import DeltabergError
from deltaberg.files.formats.footers import count_rows
from deltaberg.files.read.bitmaps import load_bitmap
from deltaberg.storage.location import PathResolver, parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain.file_tasks import FileTasks
from deltaberg.table.maintain.verifying.findings import (
    DATA_FILE,
    MISSING,
    ROWS,
    SIZE,
    UNCHECKED,
    VECTOR,
    Finding,
    VerifyResult,
)
from deltaberg.table.maintain.verifying.looks import TOGETHER, difference, look_in_parallel, unreadable
from deltaberg.table.maintain.verifying.presence import Presence, Presences, find_files
from deltaberg.table.rows.progress import Told

__all__ = ["verify_table"]

#: What findings are about.
_CHANGE_FILE = "change data file"
_SIDECAR = "sidecar"
_FOOTER = "footer"


def verify_table(
    snapshot: Snapshot,
    resolver: PathResolver,
    depth: VerifyDepth,
    tasks: FileTasks | None,
    told: Told,
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
    told
        What is told how many files were looked for, or looked into.
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
    verification = _Verification(snapshot, resolver, depth, tasks, told)
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
    def __init__(
        self, snapshot: Snapshot, resolver: PathResolver, depth: VerifyDepth, tasks: FileTasks | None, told: Told
    ) -> None:
        self._tasks = tasks
        self._told = told
        self._snapshot = snapshot
        self._resolver = resolver
        self._depth = depth
        self._store: StoreSpec = snapshot.log.store
        self._version = f"version {snapshot.version}"
        self._names = LiveNames.of(snapshot, resolver)
        if depth == "footers" or (depth == "vectors" and len(self._names.vectors)):
            # Record counts are known in the order of the live files.
            _ = snapshot.live
            self._names = LiveNames.of(snapshot, resolver)
        self.checked: dict[str, int] = {}

    def of_files(self, log: LogNames) -> Iterator[_Found]:
        """Look for all files, and into them."""
        names, vector_files = self._names, self._names.vector_files
        changes = list(change_files(self._snapshot, log.versions, self._resolver))
        sidecars = list(log.sidecars.values())
        beside = _locations_of([*changes, *sidecars])
        others = kernels.PathSet([vector_files.drop_null(), beside])
        data, found = find_files(self._store, self._snapshot.log.root, [names.data, others], self._tasks, self._told)

        def answers(locations: pa.StringArray) -> list[Presence]:
            return [found.of(number) for number in others.numbers(locations).to_pylist()]

        yield from self._of_data(data)
        self.checked[VECTOR] = len(vector_files) - vector_files.null_count
        placed = pc.indices_nonzero(vector_files.is_valid()).to_pylist()
        of_vectors = dict(zip(placed, answers(vector_files.drop_null()), strict=True))
        yield from self._compared(VECTOR, self._vector_files(placed), list(of_vectors.values()))
        lost = [
            one
            for what, files in ((_CHANGE_FILE, changes), (_SIDECAR, sidecars))
            for one in self._compared(what, _beside(files), answers(_locations_of(files)))
        ]
        for what, files in ((_CHANGE_FILE, changes), (_SIDECAR, sidecars)):
            self.checked[what] = len(files)
        yield from self._still_named(lost, log)
        if self._depth != "names":
            yield from self._of_vectors(of_vectors)
        if self._depth == "footers":
            yield from self._of_footers(data)

    def _of_data(self, data: Presences) -> Iterator[_Found]:
        """Compare the data files with the log, most of them without looking at each."""
        names = self._names
        self.checked[DATA_FILE] = len(names.sizes)
        listed = data.sizes.take(names.places)
        is_odd = pc.or_(listed.is_null(), pc.fill_null(pc.not_equal(listed, names.sizes), False))
        for start in range(0, len(listed), TOGETHER):
            rows = pc.add(pc.indices_nonzero(is_odd.slice(start, TOGETHER)).cast(pa.int64()), start)
            if len(rows):
                places, sizes = (numbers.take(rows).to_pylist() for numbers in (names.places, names.sizes))
                files = zip(names.locations(rows), sizes, rows.to_pylist(), strict=True)
                wanted = (_Named(location, size, self._version, row) for location, size, row in files)
                yield from self._compared(DATA_FILE, wanted, [data.of(place) for place in places])

    def _vector_files(self, numbers: Sequence[int]) -> Iterator[_Named]:
        locations = self._names.vector_files.drop_null().to_pylist()
        for number, location in zip(numbers, locations, strict=True):
            end = self._names.end_of_vector(number)
            yield _Named(location, end, self._named_by_file(number), self._file_of(number), is_part=True)

    def _file_of(self, vector: int) -> int:
        """Return the number of the file that has a vector."""
        found: int = self._names.with_vectors[vector].as_py()
        return found

    def _named_by_file(self, vector: int) -> str:
        return f"the data file {self._names.location(self._file_of(vector))}"

    def _compared(self, what: str, files: Iterator[_Named], answers: Sequence[Presence]) -> Iterator[_Found]:
        """Compare what the store says of some files with what names them."""
        for file, answer in zip(files, answers, strict=True):
            finding = difference(what, file.location, file.size, file.named_by, answer, is_part=file.is_part)
            if finding is not None:
                yield _Found(file.row, finding)

    def _still_named(self, found: Sequence[_Found], log: LogNames) -> list[_Found]:
        """Leave out sidecars of checkpoints that were cleaned up meanwhile."""
        sidecars = {one.finding.path for one in found if one.finding.what == _SIDECAR}
        named = log.still_named(sidecars)
        return [one for one in found if one.finding.what != _SIDECAR or one.finding.path in named]

    def _of_vectors(self, answers: Mapping[int, Presence]) -> Iterator[_Found]:
        """Decode the deletion vectors whose files are there."""
        names = self._names
        for number, error in names.unplaced.items():
            yield self._damaged_vector(number, error)
        valid = pc.indices_nonzero(names.vectors.is_valid()).to_pylist()
        numbers = [number for number in valid if isinstance(answers.get(number, 0), int)]
        counts = self._record_counts if numbers else []

        def decode(number: int) -> DeltabergError | None:
            most = counts[self._file_of(number)]
            return _failure(lambda: load_bitmap(names.vector(number), self._store, True, most))

        self.checked[VECTOR] = len(numbers)
        for number, failure in look_in_parallel(decode, numbers, self._told):
            if failure is not None:
                yield self._damaged_vector(number, failure)

    def _damaged_vector(self, number: int, error: DeltabergError) -> _Found:
        row = self._file_of(number)
        path = self._names.vector_files[number].as_py() or self._names.location(row)
        return _Found(row, unreadable(VECTOR, path, self._named_by_file(number), error))

    def _of_footers(self, data: Presences) -> Iterator[_Found]:
        """Compare the rows of data files with what their statistics say."""
        counts, names = self._record_counts, self._names
        both = zip(map(data.of, names.places.to_pylist()), names.sizes.to_pylist(), strict=True)
        # A file of another size is a finding already.
        there = {row: size for row, (size, own) in enumerate(both) if isinstance(size, int) and own in (None, size)}

        def count(row: int) -> int | DeltabergError:
            place = parse_location(names.location(row))
            try:
                return count_rows(self._store.open(place), place.path, there[row])
            except DeltabergError as error:
                return error

        self.checked[_FOOTER] = len(there)
        for row, rows in look_in_parallel(count, list(there), self._told):
            path = names.location(row)
            if isinstance(rows, DeltabergError):
                yield _Found(row, unreadable(DATA_FILE, path, self._version, rows))
            elif counts[row] not in (None, rows):
                yield _Found(row, Finding(ROWS, DATA_FILE, path, self._version, counts[row], rows))

    @cached_property
    def _record_counts(self) -> list[int | None]:
        counts: list[int | None] = self._snapshot.live.statistics(None, ()).record_count.to_pylist()
        return counts

    def still_live(self, findings: Sequence[_Found]) -> list[_Found]:
        """Leave out what is about files that the newest version does not have any more."""
        rows = sorted({one.row for one in findings if one.row is not None})
        newest = self._snapshot.newer() if rows else self._snapshot
        if newest is self._snapshot:
            return list(findings)
        keys = dict(zip(rows, self._names.keys(pa.array(rows, pa.int64())), strict=True))
        live = LiveNames.of(newest, self._resolver)
        files = live.files_at(pa.array(sorted({location for location, _ in keys.values()}), pa.string()))
        still = set(live.keys(files))
        return [one for one in findings if one.row is None or keys[one.row] in still]


def _locations_of(files: Sequence[NamedFile]) -> pa.StringArray:
    return pa.array([one.location for one in files], pa.string())


def _beside(files: Sequence[NamedFile]) -> Iterator[_Named]:
    return (_Named(*file) for file in files)


def _failure(work: Callable[[], object]) -> DeltabergError | None:
    try:
        work()
    except DeltabergError as error:
        return error
    return None


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
