"""A checker of Iceberg tables that shares no code with the writer.

It reads metadata as JSON, manifests by fastavro and data files by pyarrow, and believes nothing. It replays all
snapshots, oldest first, and says what each of them holds, and what is wrong.
"""

from __future__ import annotations

import io
import itertools
import json
import posixpath
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import orc

from tests.support.snapshot_deletes import deleted_positions

__all__ = ["Replay", "check_snapshots", "faults_of_directory", "newest_metadata"]

_EXISTING, _ADDED, _DELETED = 0, 1, 2
_COUNTS = {_EXISTING: "existing", _ADDED: "added", _DELETED: "deleted"}


@dataclass
class Replay:
    """What the metadata of a table says.

    Parameters
    ----------
    live
        The data files of each snapshot that is kept, as their entries by path.
    deletes
        The delete files of each snapshot that is kept, by path, and by the offset of the blob for a deletion vector.
    deleted
        The positions of deleted rows in each data file of each snapshot.
    parents
        The parent of each snapshot.
    faults
        What is wrong, a sentence each.
    """

    live: dict[int, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    deletes: dict[int, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    deleted: dict[int, dict[str, set[int]]] = field(default_factory=dict)
    parents: dict[int, int | None] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def say(self, sentence: str) -> None:
        """Record what is wrong."""
        self.faults.append(sentence)


def newest_metadata(files: Mapping[str, Callable[[], bytes]], name: str) -> dict[str, Any]:
    """Return the metadata in a file, by the last part of its name."""
    data = next(read() for path, read in files.items() if posixpath.basename(path) == name)
    found: dict[str, Any] = json.loads(zlib.decompress(data, 31) if data[:2] == b"\x1f\x8b" else data)
    return found


def faults_of_directory(root: Path) -> list[str]:
    """Return what is wrong with a table in a local directory without catalog."""
    files = {path.relative_to(root).as_posix(): path.read_bytes for path in root.rglob("*") if path.is_file()}
    names = [posixpath.basename(path) for path in files if path.endswith(".metadata.json")]
    newest = max(names, key=lambda name: int(name.lstrip("v").partition(".")[0]))
    return check_snapshots(newest_metadata(files, newest), files).faults


def check_snapshots(metadata: Mapping[str, Any], files: Mapping[str, Callable[[], bytes]]) -> Replay:
    """Replay all snapshots of a table.

    Parameters
    ----------
    metadata
        The newest metadata.
    files
        What reads the files of the table, by their paths below a directory. No two have the same name.
    """
    replay = Replay()
    reader = _Reader({posixpath.basename(path): read for path, read in files.items()})
    snapshots = sorted(metadata.get("snapshots", []), key=lambda one: one.get("sequence-number", one["timestamp-ms"]))
    _check_metadata(replay, metadata, snapshots)
    added_by: dict[str, int] = {}
    for snapshot in snapshots:
        number = snapshot["snapshot-id"]
        replay.parents[number] = snapshot.get("parent-snapshot-id")
        try:
            # Picking a snapshot adds its files again.
            source = snapshot.get("summary", {}).get("source-snapshot-id")
            _check_snapshot(replay, metadata, snapshot, reader, (added_by, None if source is None else int(source)))
        except FileNotFoundError as error:
            replay.say(f"snapshot {number} names {error}, which is not there")
    return replay


class _Reader:
    def __init__(self, files: Mapping[str, Callable[[], bytes]]) -> None:
        self._files = files
        self._rows: dict[str, int] = {}
        self._values: dict[tuple[str, tuple[int, ...]], list[tuple[Any, ...]]] = {}

    def read(self, path: str) -> bytes:
        name = posixpath.basename(path)
        if name not in self._files:
            raise FileNotFoundError(path)
        return self._files[name]()

    def records(self, path: str, length: int | None = None) -> list[Any]:
        data = self.read(path)
        if length is not None and length != len(data):
            raise FileNotFoundError(f"{path} of {length} bytes")
        return list(fastavro.reader(io.BytesIO(data)))

    def rows(self, path: str) -> int:
        if path not in self._rows:
            self._rows[path] = self._count(path)
        return self._rows[path]

    def values(self, path: str, ids: tuple[int, ...]) -> list[tuple[Any, ...]]:
        """Return fields of a Parquet file, which may be in structs, by their ids."""
        if (path, ids) not in self._values:
            table = pq.ParquetFile(io.BytesIO(self.read(path))).read()
            columns = {one: column for child in table.schema for one, column in _by_id(child, table[child.name])}
            self._values[path, ids] = list(zip(*(columns[number].to_pylist() for number in ids), strict=True))
        return self._values[path, ids]

    def _count(self, path: str) -> int:
        if path.endswith(".avro"):
            return len(self.records(path))
        source = pa.BufferReader(self.read(path))
        if path.endswith(".orc"):
            return int(orc.ORCFile(source).nrows)
        return int(pq.ParquetFile(source).metadata.num_rows)


def _by_id(child: pa.Field, column: pa.ChunkedArray) -> Iterator[tuple[int, pa.ChunkedArray]]:
    yield int((child.metadata or {})[b"PARQUET:field_id"]), column
    for inner in child.type if pa.types.is_struct(child.type) else ():
        yield from _by_id(inner, pc.struct_field(column, inner.name))


def _check_metadata(replay: Replay, metadata: Mapping[str, Any], snapshots: list[Any]) -> None:
    ids = [one["snapshot-id"] for one in snapshots]
    numbers = [one["sequence-number"] for one in snapshots if metadata["format-version"] > 1]
    # Snapshots of versions before 3 have no row ids.
    rows = [
        (one["first-row-id"], one["first-row-id"] + one["added-rows"]) for one in snapshots if "first-row-id" in one
    ]
    refs = {name: ref["snapshot-id"] for name, ref in metadata.get("refs", {}).items()}
    files = [entry["metadata-file"] for entry in metadata.get("metadata-log", [])]
    wrong = {
        "a snapshot is there twice": len(set(ids)) < len(ids),
        "a sequence number is there more than once": len(set(numbers)) < len(numbers),
        "a sequence number is above the last one": max(numbers, default=0) > metadata.get("last-sequence-number", 0),
        "row ids of two snapshots overlap": any(end > begin for (_, end), (begin, _) in itertools.pairwise(rows)),
        "the next row id was given already": bool(rows) and rows[-1][1] > metadata["next-row-id"],
        "a reference names no snapshot": not set(refs.values()) <= set(ids),
        "the branch main is not the current snapshot": metadata.get("current-snapshot-id", -1)
        not in (None, -1, refs.get("main", -1)),
        "a metadata file is in the log more than once": len(set(files)) < len(files),
    }
    for log in ("snapshot-log", "metadata-log"):
        times = [entry["timestamp-ms"] for entry in metadata.get(log, [])]
        wrong[f"the times of the {log} are not in order"] = [*times, metadata["last-updated-ms"]] != sorted(
            [*times, metadata["last-updated-ms"]]
        )
    for sentence, is_so in wrong.items():
        if is_so:
            replay.say(sentence)


def _check_snapshot(
    replay: Replay,
    metadata: Mapping[str, Any],
    snapshot: Mapping[str, Any],
    reader: _Reader,
    facts: tuple[dict[str, int], int | None],
) -> None:
    number = snapshot["snapshot-id"]
    parent = snapshot.get("parent-snapshot-id") or -1
    # What a parent held that has expired is not known. Some catalogs also make its children say that they have none.
    summary = snapshot.get("summary", {})
    is_first = summary.get("total-data-files") == summary.get("added-data-files", "0")
    none: dict[str, Any] | None = {} if parent == -1 and (is_first or replay.live) else None
    data = _Held(replay, number, replay.live.get(parent, none), metadata["format-version"])
    deletes = _Held(replay, number, replay.deletes.get(parent, none), metadata["format-version"])
    for manifest in reader.records(snapshot["manifest-list"]):
        held = deletes if manifest.get("content") else data
        held.take(manifest, reader.records(manifest["manifest_path"], manifest["manifest_length"]))
    data.check(*facts)
    deletes.check(*facts)
    replay.live[number] = live = data.live
    replay.deletes[number] = deletes.live
    _check_deletes(replay, number, live, deletes.live, reader)
    read = (reader.read, reader.values)
    replay.deleted[number] = deleted_positions(
        data.numbered, deletes.numbered, *read, lambda sentence: replay.say(f"snapshot {number} {sentence}")
    )
    for path, file in live.items():
        if reader.rows(path) != file["record_count"]:
            replay.say(f"snapshot {number} counts {file['record_count']} rows in {path}")
    totals = {
        "total-data-files": len(live),
        "total-records": sum(file["record_count"] for file in live.values()),
        "total-delete-files": len(deletes.live),
        "total-position-deletes": sum(f["record_count"] for f in deletes.live.values() if f["content"] == 1),
        "total-equality-deletes": sum(f["record_count"] for f in deletes.live.values() if f["content"] == 2),
    }
    for name, expected in totals.items():
        told = snapshot.get("summary", {}).get(name)
        if told is not None and int(told) != expected:
            replay.say(f"snapshot {number} says {name} {told}, not {expected}")


def _check_deletes(
    replay: Replay, number: int, live: Mapping[str, Any], deletes: Mapping[str, Mapping[str, Any]], reader: _Reader
) -> None:
    """Check that a data file has one vector, and that the delete files are there."""
    vectors = [file["referenced_data_file"] for file in deletes.values() if file["file_format"].lower() == "puffin"]
    for path in sorted(set(vectors)):
        if vectors.count(path) > 1:
            replay.say(f"snapshot {number} has {vectors.count(path)} deletion vectors for {path}")
        if path not in live:
            replay.say(f"snapshot {number} has a deletion vector for {path}, which it does not hold")
    for file in deletes.values():
        if len(reader.read(file["file_path"])) != file["file_size_in_bytes"]:
            replay.say(f"snapshot {number} has another size for {file['file_path']}")


def _name(file: Mapping[str, Any]) -> str:
    """Return what tells a file from all others: deletion vectors share their paths."""
    offset = file.get("content_offset")
    return str(file["file_path"]) if offset is None else f"{file['file_path']}@{offset}"


class _Held:
    """What the manifests of a snapshot hold, add and remove."""

    def __init__(
        self, replay: Replay, number: int, before: Mapping[str, Mapping[str, Any]] | None, version: int
    ) -> None:
        self._replay, self._number, self._before, self._version = replay, number, before, version
        self.live: dict[str, Mapping[str, Any]] = {}
        #: The same files, each with its sequence number.
        self.numbered: dict[str, tuple[Mapping[str, Any], int]] = {}
        self._added: set[str] = set()
        self._removed: set[str] = set()
        self._row_ids: list[tuple[int, int]] = []

    def _say(self, sentence: str) -> None:
        self._replay.say(f"snapshot {self._number} {sentence}")

    def take(self, manifest: Mapping[str, Any], entries: list[Any]) -> None:
        """Take the entries of a manifest."""
        is_own = manifest["added_snapshot_id"] == self._number
        next_row = manifest.get("first_row_id")
        counts = dict.fromkeys(_COUNTS, 0)
        for entry in entries:
            file, status = entry["data_file"], entry["status"]
            name = _name(file)
            counts[status] += 1
            if self._version > 1 and status != _ADDED and entry["sequence_number"] is None:
                self._say(f"holds {name} as {_COUNTS[status]} without a sequence number")
            if status == _DELETED:
                self._removed |= {name} if is_own else set()
                continue
            if name in self.live:
                self._say(f"holds {name} twice")
            self.live[name] = file
            own = entry.get("sequence_number")
            self.numbered[name] = (file, manifest.get("sequence_number", 0) if own is None else own)
            self._added |= {name} if status == _ADDED and is_own else set()
            first = file.get("first_row_id")
            if first is None and next_row is not None:
                first, next_row = next_row, next_row + file["record_count"]
            if first is not None:
                self._row_ids.append((first, file["record_count"]))
        for status, name in _COUNTS.items():
            told = manifest.get(f"{name}_files_count", manifest.get(f"{name}_data_files_count"))
            if told != counts[status]:
                self._say(f"counts {told} {name} files in {manifest['manifest_path']}")

    def check(self, added_by: dict[str, int], source: int | None) -> None:
        """Compare with the parent, and with all that was added before, but for the files of the source."""
        before = (self.live.keys() - self._added) | self._removed if self._before is None else self._before.keys()
        for path in sorted(self._removed - before):
            self._say(f"removes {path}, which its parent does not hold")
        for path in sorted(self._added):
            if added_by.setdefault(path, self._number) not in (self._number, source):
                self._say(f"adds {path} twice")
        made = (before | self._added) - self._removed
        if made != self.live.keys():
            self._say(f"holds {len(self.live)} files; its parent and its changes make {len(made)}")
        ordered = sorted(self._row_ids)
        if any(first + rows > second for (first, rows), (second, _) in itertools.pairwise(ordered)):
            self._say("gives a row id twice")
