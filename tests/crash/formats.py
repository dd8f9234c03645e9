"""What the harness has to know of each format: what readers see, how writers go on, and what files are called."""

from __future__ import annotations

import posixpath
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

import deltaberg
from deltaberg.delta.maintain.cloning.clone_metadata import CLONED_FROM
from tests.crash.starts import LOST, LOST_ID
from tests.crash.targets import Target
from tests.support.serial_log import check_history, read_objects
from tests.support.snapshot_log import check_snapshots, newest_metadata

__all__ = ["NO_TABLE", "Files", "Format", "Rows", "State", "format_of"]

#: What reads the files of a table, by their paths below its directory.
Files = Mapping[str, Callable[[], bytes]]
_Row = tuple[tuple[str, str], ...]
Rows = tuple[_Row, ...]


class State(NamedTuple):
    """What a reader sees, without names that differ from run to run."""

    version: int
    schema: str
    about: tuple[Any, ...]
    rows: Rows

    @property
    def values(self) -> list[tuple[int, int]]:
        """The id and the value of each row, sorted."""
        found = [dict(row) for row in self.rows]
        return sorted((int(row["id"]), int(row["value"])) for row in found)


#: There is no table.
NO_TABLE = State(-1, "", (), ())


class Format(Protocol):
    """One of the formats."""

    def state(self, table: Any) -> State:
        """Return what a reader sees of an open table."""
        ...

    def moments(self, table: Any, first: int) -> tuple[int, ...]:
        """Return the versions, beginning with one, or the snapshots that can be read."""
        ...

    def past(self, at: Target, moment: int) -> Rows:
        """Return the rows of one of them."""
        ...

    def between(self, at: Target, version: int) -> State:
        """Return what an older version shows."""
        ...

    def go_on(self, at: Target, table: Any, files: Callable[[], Files]) -> list[str]:
        """Let another writer commit on top of what is there, and say what is wrong then."""
        ...

    def is_known(self, name: str) -> bool:
        """Return whether a file that a killed writer left shows by its name what it is."""
        ...

    def is_data(self, name: str) -> bool:
        """Return whether a file is to be deleted if it does not become part of the table."""
        ...


def _rows(table: Any, where: str | None = None) -> Rows:
    rows = table.scan(where).to_arrow().to_pylist()
    return tuple(sorted(tuple(sorted((name, repr(value)) for name, value in row.items())) for row in rows))


#: What data files are called that no version names yet, or never will.
_DATA = ("part-", "deletion_vector_", "cdc-", "old-", "copied-")
_TEMPORARY = ".deltaberg-"


class _Delta:
    def state(self, table: Any) -> State:
        about = (
            table.metadata.description,
            tuple(sorted((name, _without_random(name, value)) for name, value in table.properties.items())),
            tuple(sorted((name, one.version) for name, one in table.transactions.items())),
        )
        # Physical names of new columns are random.
        return State(table.version, str(table.arrow_schema.remove_metadata()), about, _rows_there(table))

    def moments(self, table: Any, first: int) -> tuple[int, ...]:
        return tuple(range(first, table.version + 1))

    def past(self, at: Target, moment: int) -> Rows:
        return _rows_there(at.open(version=moment))

    def between(self, at: Target, version: int) -> State:
        return self.state(at.open(version=version))

    def go_on(self, at: Target, table: Any, files: Callable[[], Files]) -> list[str]:
        version = table.version
        with table.transaction() as transaction:
            transaction.set_transaction("later", 1)
        if at.open().version != version + 1:
            return ["the commit of the next writer is not there"]
        found = read_objects(files())
        # A clean-up takes the oldest ones.
        return check_history(found).faults if 0 in found else []

    def is_known(self, name: str) -> bool:
        last = posixpath.basename(name)
        in_log = name.startswith("_delta_log/") and not last.startswith(_DATA)
        return in_log or last.startswith((_TEMPORARY, *_DATA))

    def is_data(self, name: str) -> bool:
        return not name.startswith("_delta_log/") and not _is_copy(name)


def _is_copy(name: str) -> bool:
    """Return whether a file stays: the next clone goes on with it, and another one that runs may have named it."""
    return posixpath.basename(name).startswith("copied-")


def _rows_there(table: Any) -> Rows:
    """Return the rows of a table, but for those of a file that the start has lost, which nobody can read."""
    return _rows(table, f"id < {LOST_ID}" if LOST in table.live_files["path"].to_pylist() else None)


def _without_random(name: str, value: str) -> str:
    """Return the value of a property without what is random: the ends of names, and the id of a clone."""
    if name == CLONED_FROM:
        return value.partition(',"of":')[0]
    return value[: -len(str(uuid.UUID(int=0)))] if name.startswith("delta.rowTracking.materialized") else value


_METADATA_FILE = re.compile(r"v?(\d+)(-[0-9a-f-]{36})?(\.gz)?\.metadata\.json")
#: How the names of data files, delete files and manifests end.
_ICEBERG_FILES = (".parquet", ".avro", ".orc", ".puffin", ".stats")
#: A row that nobody else writes.
_LATER = pa.table({"id": pa.array([1000], pa.int64()), "value": pa.array([10_000], pa.int64())})


class _Iceberg:
    def state(self, table: Any) -> State:
        metadata = table.metadata
        about = (
            metadata.format_version,
            tuple(sorted(table.properties.items())),
            str(table.spec),
            str(table.sort_order),
            tuple(one.operation for one in table.snapshots),
            len(metadata.schemas),
            metadata.last_sequence_number,
            metadata.next_row_id,
        )
        return State(_number(table), str(table.arrow_schema.remove_metadata()), about, _rows_left(table))

    def moments(self, table: Any, first: int) -> tuple[int, ...]:
        return tuple(one.snapshot_id for one in table.snapshots[first:])

    def past(self, at: Target, moment: int) -> Rows:
        return _rows_left(at.open(snapshot_id=moment))

    def between(self, at: Target, version: int) -> State:
        log = [entry.metadata_file for entry in at.open().metadata.metadata_log]
        name = next(one for one in log if _version(one) == version)
        return self.state(deltaberg.open_table(name, "iceberg", storage_options=dict(at.options)))

    def go_on(self, at: Target, table: Any, files: Callable[[], Files]) -> list[str]:
        version, rows = _number(table), len(_rows_left(table))
        table.append(_LATER)
        reopened = at.open()
        faults = []
        if (_number(reopened), len(_rows_left(reopened))) != (version + 1, rows + 1):
            faults.append("the commit of the next writer is not there")
        there = files()
        metadata = newest_metadata(there, posixpath.basename(reopened.metadata_location))
        # Older snapshots name what the start has lost.
        return faults + [fault for fault in check_snapshots(metadata, there).faults if LOST not in fault]

    def is_known(self, name: str) -> bool:
        last = posixpath.basename(name)
        return (
            last.endswith(_ICEBERG_FILES)
            or last.startswith((_TEMPORARY, "catalog.db", "version-hint.text", "dropped-table.json"))
            or _METADATA_FILE.fullmatch(last) is not None
        )

    def is_data(self, name: str) -> bool:
        return name.endswith(_ICEBERG_FILES) and not _is_copy(name)


def _rows_left(table: Any) -> Rows:
    """Return the rows of a table, but for those of a file that the start has lost."""
    return _rows(table, f"id < {LOST_ID} OR id > {LOST_ID}" if LOST in table.properties else None)


def _version(name: str) -> int:
    """Return the number of a metadata file, beginning with 0."""
    last = posixpath.basename(name)
    match = _METADATA_FILE.fullmatch(last)
    assert match is not None, name
    return int(match[1]) - last.startswith("v")


def _number(table: Any) -> int:
    return _version(table.metadata_location)


_DELTA, _ICEBERG = _Delta(), _Iceberg()


def format_of(at: Target) -> Format:
    """Return the format of a table."""
    return _DELTA if at.kind == "delta" else _ICEBERG
