"""Verification of an Iceberg table: what its metadata says, compared with what is in the store. Nothing is changed.

The store is asked before anything is reported. What is wrong while others commit must be wrong in newer metadata, too,
since a snapshot may have expired, or a file may have left the table, in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.choices import VerifyDepth
from deltaberg.errors import DataFileNotFoundError, DeltabergError, UnsafePathError
from deltaberg.files.formats.footers import count_rows
from deltaberg.iceberg.deletes.puffin import PuffinFile
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.maintain.verify_metadata import (
    NamedFile,
    findings_in_metadata,
    lineage_findings,
    manifest_findings,
    named_files,
)
from deltaberg.iceberg.manifests.fields import DATA, DELETED, POSITION_DELETES, ManifestPart
from deltaberg.iceberg.metadata.snapshot_refs import in_words
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.validate import vector_violations
from deltaberg.schema.arrow import as_array
from deltaberg.storage.location import parse_location
from deltaberg.table.maintain.file_tasks import FileTasks
from deltaberg.table.maintain.verifying.findings import (
    DAMAGED,
    DANGLING,
    DATA_FILE,
    ROWS,
    VECTOR,
    VIOLATION,
    Finding,
    VerifyResult,
)
from deltaberg.table.maintain.verifying.looks import TOGETHER, difference, look_in_parallel, unreadable
from deltaberg.table.maintain.verifying.presence import CONCURRENT, Presences, find_files
from deltaberg.table.rows.progress import Told
from deltaberg.whole_numbers import counted
from deltaberg.workers import in_chunks, map_in_order

__all__ = ["verify_table"]

_POSITIONS, _KEYS = "position delete file", "equality delete file"
_MANIFEST = "manifest"
_OTHER = "other snapshot of branches or tags", "other snapshots of branches or tags"
_PART = ManifestPart(
    rest=("first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes"), deleted=True
)
#: What is kept of live entries.
_ENTRY = pa.schema(
    [
        ("location", pa.string()),
        ("file_path", pa.string()),
        ("what", pa.string()),
        ("format", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("first_row_id", pa.int64()),
        ("referenced", pa.string()),
        ("content_offset", pa.int64()),
        ("content_size_in_bytes", pa.int64()),
    ]
)
#: How many manifests are read at a time.
_MANIFESTS_AT_ONCE = 64


def verify_table(
    newest: Callable[[], tuple[LoadedTable, IcebergSource]],
    depth: VerifyDepth,
    tasks: FileTasks | None,
    told: Told,
    *,
    is_pinned: bool,
    with_refs: bool,
) -> VerifyResult:
    """Compare a snapshot, and what metadata names, with the store.

    Parameters
    ----------
    newest
        Returns the newest metadata with the snapshot that is meant in it.
    depth
        How closely files are looked at.
    tasks
        What lists a large table in place of this process.
    told
        What is told how many files were looked for, or looked into.
    is_pinned
        Whether the snapshot is meant as it was opened, whatever comes later.
    with_refs
        Whether the snapshots of all branches and tags are also looked at.

    Raises
    ------
    StorageError
        The table cannot be listed.
    """
    loaded, source = newest()
    first = _Verification(loaded, source, depth, tasks, told, with_refs=with_refs)
    findings = list(dict.fromkeys(first.findings()))
    if findings and not is_pinned:
        newer, source = newest()
        if newer.file != loaded.file:
            first = _Verification(newer, source, depth, tasks, told, with_refs=with_refs)
            again = {(one.kind, one.path) for one in first.findings()}
            findings = [one for one in findings if (one.kind, one.path) in again or one.path == str(loaded.file)]
    return VerifyResult(first.state, depth, tuple(findings), first.checked)


class _Head(NamedTuple):
    """A snapshot that is verified, and how findings call it."""

    source: IcebergSource
    name: str


class _Content(NamedTuple):
    """Live files of a snapshot: their entries, their locations as a set, the number of each in that, and its name."""

    entries: pa.Table
    paths: kernels.PathSet
    places: pa.Int64Array
    named_by: str


class _Verification:
    def __init__(
        self,
        loaded: LoadedTable,
        source: IcebergSource,
        depth: VerifyDepth,
        tasks: FileTasks | None,
        told: Told,
        *,
        with_refs: bool,
    ) -> None:
        self._loaded = loaded
        self._source = source
        self._heads = [_Head(source, source.description), *(_others(source) if with_refs else ())]
        self._depth = depth
        self._tasks = tasks
        self._told = told
        #: What could not be read, by the recorded path.
        self._failures: dict[str, DeltabergError] = {}
        self._found: list[Finding] = []
        self.checked: dict[str, int] = {}

    @property
    def state(self) -> str:
        """The snapshots that are verified."""
        others = len(self._heads) - 1
        return f"{self._heads[0].name}{f' and {counted(others, *_OTHER)}' if others else ''}"

    def findings(self) -> Iterator[Finding]:
        """Look for all files, and into them."""
        yield from findings_in_metadata(self._loaded)
        named = list(named_files(self._loaded.metadata))
        contents: list[_Content] = []
        listed: set[str] = set()
        for head in self._heads:
            # What one snapshot names is not looked at again for the next.
            rows = [row for row in self._manifest_rows(head) if row["manifest_path"] not in listed]
            listed.update(row["manifest_path"] for row in rows)
            named += [NamedFile(_MANIFEST, row["manifest_path"], row["manifest_length"], head.name) for row in rows]
            contents += [_without(one, contents) for one in self._live(rows, head)]
        self.checked[_MANIFEST] = len(listed)
        recorded = [one.recorded for one in named]
        located = self._locate(pa.chunked_array([recorded], pa.string()), "file", "the table").to_pylist()
        others = kernels.PathSet([pa.array(located, pa.string()).drop_null()])
        sought = [others, *(content.paths for content in contents)]
        groups = find_files(self._source.store, self._loaded.root, sought, self._tasks, self._told)
        pairs = list(zip(contents, groups[1:], strict=True))
        yield from self._found
        yield from self._of_named(named, located, others, groups[0])
        for content, presences in pairs:
            yield from self._of_content(content, presences)
        data, deletes = contents[:2]
        yield from self._of_names(data, deletes)
        yield from lineage_findings(data.entries, self._loaded.metadata, self._source.description)
        if self._depth != "names":
            for content, presences in pairs[1::2]:
                yield from self._of_vectors(content, presences)
        if self._depth == "footers":
            for content, presences in pairs:
                yield from self._of_footers(content, presences)

    def _manifest_rows(self, head: _Head) -> list[dict[str, Any]]:
        snapshot = head.source.snapshot
        try:
            rows: list[dict[str, Any]] = head.source.manifests.to_pylist()
        except DeltabergError as error:
            if snapshot is None or snapshot.manifest_list is None:
                raise
            self._failures[snapshot.manifest_list] = error
            return []
        return rows

    def _live(self, rows: Sequence[dict[str, Any]], head: _Head) -> tuple[_Content, _Content]:
        """Read each manifest once, and return the live data files and delete files."""
        kept: dict[bool, list[pa.Table]] = {True: [_ENTRY.empty_table()], False: [_ENTRY.empty_table()]}

        def read(row: dict[str, Any]) -> pa.Table | DeltabergError:
            try:
                (entries,) = head.source.reader.read([row], _PART)
            except DeltabergError as error:
                return error
            return entries.table

        for some in in_chunks(rows, _MANIFESTS_AT_ONCE):
            for row, table in zip(some, map_in_order(CONCURRENT, read, some), strict=True):
                if isinstance(table, DeltabergError):
                    self._failures[row["manifest_path"]] = table
                    continue
                if head.source.snapshot is not None:
                    self._found += manifest_findings(row, table, head.source.snapshot, row["manifest_path"])
                live = table.filter(pc.not_equal(table.column("status"), DELETED))
                kept[row["content"] == DATA].append(self._entries(live, head.name))
        return _content(kept[True], head.name), _content(kept[False], head.name)

    def _entries(self, live: pa.Table, named_by: str) -> pa.Table:
        content, is_vector = live.column("content"), pc.equal(live.column("file_format"), "puffin")
        deletes = pc.if_else(is_vector, VECTOR, pc.if_else(pc.equal(content, POSITION_DELETES), _POSITIONS, _KEYS))
        what = pc.if_else(pc.equal(content, DATA), DATA_FILE, deletes)
        located = self._locate(live.column("file_path"), DATA_FILE, named_by)
        names = ("file_format", "file_size_in_bytes", "record_count", "first_row_id", "referenced_data_file")
        columns = [live.column(name) for name in (*names, "content_offset", "content_size_in_bytes")]
        table = pa.Table.from_arrays([located, live.column("file_path"), what, *columns], names=_ENTRY.names)
        return table.cast(_ENTRY).filter(located.is_valid())

    def _locate(self, recorded: pa.ChunkedArray, what: str, named_by: str) -> pa.StringArray:
        """Return where files are; null for those whose paths cannot be followed, which are findings."""
        resolver = self._source.resolver
        try:
            return as_array(resolver.locate(recorded, self._loaded.prefix))
        except UnsafePathError:
            return pa.array([self._one(path, what, named_by) for path in recorded.to_pylist()], pa.string())

    def _one(self, recorded: str, what: str, named_by: str) -> str | None:
        try:
            return str(self._source.resolver.resolve(recorded))
        except UnsafePathError as error:
            self._found.append(Finding(VIOLATION, what, recorded, named_by, None, error.message))
            return None

    def _of_named(
        self,
        named: Sequence[NamedFile],
        located: Sequence[str | None],
        paths: kernels.PathSet,
        presences: Presences,
    ) -> Iterator[Finding]:
        """Compare files that metadata and lists name with the store, and tell why some of them could not be read."""
        numbers = iter(paths.numbers(pa.array(located, pa.string()).drop_null()).to_pylist())
        for file, location in zip(named, located, strict=True):
            if file.what != _MANIFEST:
                self.checked[file.what] = self.checked.get(file.what, 0) + 1
            if location is None:
                continue
            finding = difference(file.what, location, file.size, file.named_by, presences.of(next(numbers)))
            failure = self._failures.get(file.recorded)
            if finding is not None:
                yield finding
            elif failure is not None and not isinstance(failure, DataFileNotFoundError):
                yield unreadable(file.what, location, file.named_by, failure)

    def _of_content(self, content: _Content, presences: Presences) -> Iterator[Finding]:
        """Compare live files with the store, most of them without looking at each."""
        entries = content.entries
        for pair in pc.value_counts(entries.column("what")).to_pylist():
            self.checked[pair["values"]] = self.checked.get(pair["values"], 0) + pair["counts"]
        listed, sizes = presences.sizes.take(content.places), as_array(entries.column("size"))
        odd = pc.indices_nonzero(pc.or_(listed.is_null(), pc.not_equal(listed, sizes).fill_null(False)))
        seen: set[str] = set()
        for row in entries.take(odd).append_column("place", content.places.take(odd)).to_pylist():
            answer = presences.of(row["place"])
            finding = difference(row["what"], row["location"], row["size"], _named_by(row, content), answer)
            # A file may hold the vectors of many data files.
            if finding is not None and row["location"] not in seen:
                seen.add(row["location"])
                yield finding

    def _of_names(self, data: _Content, deletes: _Content) -> Iterator[Finding]:
        """Find files that are live twice, and deletes of data files that are not there."""
        counted = pc.value_counts(data.places)
        twice = counted.filter(pc.greater(pc.struct_field(counted, "counts"), 1))
        for path in data.paths.texts(pc.struct_field(twice, "values")).to_pylist():
            yield Finding(VIOLATION, DATA_FILE, path, self._source.description, None, "it is live twice")
        named = deletes.entries.filter(as_array(deletes.entries.column("referenced")).is_valid())
        targets = self._locate(named.column("referenced"), DATA_FILE, self._source.description)
        numbers = data.paths.numbers(targets)
        for row in named.filter(numbers.is_null()).to_pylist():
            why = f"it is of the data file {row['referenced']}, which the snapshot does not have"
            yield Finding(DANGLING, row["what"], row["location"], self._source.description, None, why)
        vectors = numbers.filter(as_array(pc.equal(named.column("what"), VECTOR))).drop_null()
        counted = pc.value_counts(vectors)
        twice = counted.filter(pc.greater(pc.struct_field(counted, "counts"), 1))
        for path in data.paths.texts(pc.struct_field(twice, "values")).to_pylist():
            yield Finding(VIOLATION, DATA_FILE, path, self._source.description, None, "it has two deletion vectors")

    def _there(self, content: _Content, presences: Presences, chosen: pa.BooleanArray) -> pa.Table:
        """Return chosen files that are in the store as recorded: others are findings already."""
        sizes = as_array(content.entries.column("size"))
        listed = presences.sizes.take(content.places)
        asked = {number: answer for number, answer in presences.asked.items() if isinstance(answer, int)}
        if asked:
            known = pa.array([asked.get(number) for number in content.places.to_pylist()], pa.int64())
            listed = pc.coalesce(listed, known)
        return content.entries.filter(pc.and_(chosen, pc.equal(listed, sizes).fill_null(False)))

    def _of_vectors(self, deletes: _Content, presences: Presences) -> Iterator[Finding]:
        """Decode the deletion vectors whose files are there."""
        is_vector = as_array(pc.equal(deletes.entries.column("what"), VECTOR))
        vectors = self._there(deletes, presences, is_vector).sort_by("location")
        for start in range(0, len(vectors), TOGETHER):
            rows = vectors.slice(start, TOGETHER).to_pylist()
            yield from (one for _, seen in look_in_parallel(self._vector, rows, self._told) for one in seen)

    def _vector(self, row: Mapping[str, Any]) -> list[Finding]:
        path, named_by = row["location"], _of_data_file(row)
        told = {"referenced_data_file": row["referenced"], "record_count": row["rows"], **row}
        try:
            puffin = PuffinFile(parse_location(path), self._source.store, row["size"])
            texts = list(vector_violations(told, puffin))
        except DeltabergError as error:
            return [unreadable(VECTOR, path, named_by, error)]
        return [Finding(DAMAGED, VECTOR, path, named_by, None, text) for text in texts]

    def _of_footers(self, content: _Content, presences: Presences) -> Iterator[Finding]:
        """Compare the rows of Parquet files with what manifests say."""
        is_parquet = as_array(pc.equal(content.entries.column("format"), "parquet"))
        files = self._there(content, presences, is_parquet)
        self.checked["footer"] = self.checked.get("footer", 0) + len(files)
        store = self._source.store

        def count(row: Mapping[str, Any]) -> int | DeltabergError:
            place = parse_location(row["location"])
            try:
                return count_rows(store.open(place), place.path, row["size"])
            except DeltabergError as error:
                return error

        for start in range(0, len(files), TOGETHER):
            rows = files.slice(start, TOGETHER).to_pylist()
            for row, found in look_in_parallel(count, rows, self._told):
                if isinstance(found, DeltabergError):
                    yield unreadable(row["what"], row["location"], _named_by(row, content), found)
                elif found != row["rows"]:
                    yield Finding(ROWS, row["what"], row["location"], _named_by(row, content), row["rows"], found)


def _others(source: IcebergSource) -> Iterator[_Head]:
    """Yield the snapshots of branches and tags, the newest first, but the one that is given."""
    refs, snapshots = source.metadata.all_refs, source.metadata.snapshots
    own = None if source.snapshot is None else source.snapshot.snapshot_id
    numbers = {ref.snapshot_id for ref in refs.values()} & snapshots.keys() - {own}
    # Snapshots of the first format version all have the same sequence number.
    newest = (one for one in reversed(list(snapshots.values())) if one.snapshot_id in numbers)
    for number in (one.snapshot_id for one in sorted(newest, key=lambda one: -one.sequence_number)):
        yield _Head(source.at(snapshots[number]), in_words(number, refs))


def _of_data_file(row: Mapping[str, Any]) -> str:
    return f"the data file {row['referenced']}"


def _named_by(row: Mapping[str, Any], content: _Content) -> str:
    return _of_data_file(row) if row["what"] == VECTOR else content.named_by


def _content(tables: Sequence[pa.Table], named_by: str) -> _Content:
    entries = pa.concat_tables(tables).combine_chunks()
    locations = as_array(entries.column("location"))
    paths = kernels.PathSet([locations])
    return _Content(entries, paths, paths.numbers(locations), named_by)


def _without(content: _Content, others: Sequence[_Content]) -> _Content:
    """Return the files that are not among those of other snapshots. A file of vectors may hold further ones."""
    entries = content.entries
    repeated = reduce(
        pc.or_,
        (
            one.paths.contains(as_array(entries.column("location")))
            for one in others
            if one.named_by != content.named_by
        ),
        pa.repeat(pa.scalar(False), len(entries)),
    )
    repeated = pc.and_(repeated, pc.not_equal(entries.column("what"), VECTOR))
    return _content([entries.filter(pc.invert(repeated))], content.named_by) if pc.any(repeated).as_py() else content
