"""Tables of both formats that are compacted while others delete their rows, and what tests ask of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaberg import CompactResult, DeltaTable, create_table, open_table
from deltaberg.delta.data.deletion_vectors import _relative_path
from deltaberg.delta.log.commit import put_entry
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.maintain.compact import DeltaRewrite
from deltaberg.delta.transaction import log_change
from deltaberg.iceberg.location.directory_commit import DirectoryAttempt
from deltaberg.iceberg.maintain.compact import IcebergRewrite
from deltaberg.storage.base import PutResult
from deltaberg.table.maintain.compact import Compaction, compact_table
from deltaberg.table.maintain.packing import Packing
from deltaberg.table.maintain.row_order import RowOrder
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.verbs.table import operations_of
from tests.support.log_entries import actions_at
from tests.support.snapshot_log import faults_of_directory

__all__ = ["DELTA", "ICEBERG", "KINDS", "Kind", "before_puts", "compacted", "delete", "rows"]

_COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int64()), ("x", pa.int64())])


class Kind(NamedTuple):
    """A format, and how its tables are made and looked at."""

    name: str
    format: Any
    properties: dict[str, str]
    #: What the table says of a row besides its values.
    lineage: list[str]

    def create(self, root: Path, files: int = 3, rows_of_file: int = 10, properties: Mapping[str, str] = {}) -> Any:
        """Make a table of a partition 0, whose files hold numbers that follow each other, and of a partition 1."""
        table: Any = create_table(
            root, _COLUMNS, format=self.format, partition_by="p", properties={**self.properties, **properties}
        )
        for number in range(files):
            table.append(rows(range(number * rows_of_file, (number + 1) * rows_of_file)))
        for number in (-1, -2):
            table.append(rows([number], 1))
        return table

    def known(self, table: Any) -> dict[int, dict[str, Any]]:
        """Return the rows by their ids, with what the table says of them."""
        opened: Any = open_table(table.location, self.format, validate=True)
        found = opened.scan(columns=[*_COLUMNS.names, *self.lineage]).to_arrow().sort_by("id").to_pylist()
        by_id = {row["id"]: row for row in found}
        assert len(by_id) == len(found)
        return by_id

    def feed(self, table: Any, start: int) -> list[tuple[int, str]]:
        """Return the changes after a state, as ids and kinds."""
        scan = table.changes(start + 1 if self.format == "delta" else start)
        return sorted((row["id"], row["_change_type"].lower()) for row in scan.to_arrow().to_pylist())

    def stored(self, root: Path) -> set[str]:
        """Return the names of files of data and of deletes."""
        kinds = ("part-*.parquet", "deletion_vector_*.bin") if self.format == "delta" else ("data/**/*",)
        return {path.name for kind in kinds for path in root.rglob(kind) if path.is_file()}

    def named(self, root: Path) -> set[str]:
        """Return the names of the files that some state of the table has."""
        paths = _paths_of_log(root) if self.format == "delta" else _paths_of_snapshots(root)
        return {path.rpartition("/")[2] for path in paths}

    def faults(self, table: Any, root: Path) -> list[Any]:
        """Return what is wrong with the table."""
        return list(table.verify().findings) if self.format == "delta" else faults_of_directory(root)


DELTA = Kind(
    "delta",
    "delta",
    {
        "delta.enableDeletionVectors": "true",
        "delta.enableChangeDataFeed": "true",
        "delta.enableRowTracking": "true",
    },
    ["_metadata.row_id", "_metadata.row_commit_version"],
)
_MERGE_ON_READ = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
#: By format version.
ICEBERG = {
    2: Kind("iceberg-2", "iceberg", {**_MERGE_ON_READ, "format-version": "2"}, []),
    3: Kind(
        "iceberg-3",
        "iceberg",
        {**_MERGE_ON_READ, "format-version": "3"},
        ["_row_id", "_last_updated_sequence_number"],
    ),
}
KINDS = (DELTA, *ICEBERG.values())


def rows(ids: Any, p: int = 0) -> pa.Table:
    """Return rows of one partition."""
    numbers = pa.array(ids, pa.int64())
    return pa.table({"id": numbers, "p": pa.repeat(p, len(numbers)), "x": pc.bit_wise_xor(numbers, 45)})


def delete(table: Any, where: str | Iterable[int], strategy: Any = None) -> Callable[[], object]:
    """Return what deletes rows of a table as another writer does."""
    condition = where if isinstance(where, str) else f"id IN ({', '.join(map(str, where))})"
    return lambda: open_table(table.location).delete(condition, strategy=strategy)


def before_puts(monkeypatch: pytest.MonkeyPatch, *others: Callable[[], object]) -> None:
    """Let something happen before each attempt of a compaction, so that it is lost, as long as there is something."""
    left, send = list(others), DirectoryAttempt.send

    def put_after(log: LogDirectory, version: int, data: bytes) -> PutResult:
        if left and b'"OPTIMIZE"' in data:
            left.pop(0)()
        return put_entry(log, version, data)

    def send_after(attempt: DirectoryAttempt) -> Any:
        if left and b'"operation":"replace"' in attempt.data.replace(b" ", b""):
            left.pop(0)()
        return send(attempt)

    monkeypatch.setattr(log_change, "put_entry", put_after)
    monkeypatch.setattr(DirectoryAttempt, "send", send_after)


def compacted(
    kind: Kind, table: Any, order: RowOrder | None, where: str | None = None, **options: Any
) -> CompactResult:
    """Compact a table with options that its verb does not take."""
    compaction = Compaction(where, Packing(1), RowOptions(**options), order=order)
    rewrite: Any = DeltaRewrite if kind.format == "delta" else IcebergRewrite
    return compact_table(lambda: operations_of(table.transaction()).transaction, table.refresh, compaction, rewrite)


def _paths_of_log(root: Path) -> Iterable[str]:
    for version in range(DeltaTable(root).version + 1):
        for action in actions_at(root, version):
            ((name, body),) = action.items()
            if name in ("add", "remove", "cdc"):
                yield body["path"]
                vector = body.get("deletionVector")
                if vector is not None and vector["storageType"] == "u":
                    yield _relative_path(vector["pathOrInlineDv"])


def _paths_of_snapshots(root: Path) -> Iterable[str]:
    newest: Any = open_table(root, "iceberg")
    for number in newest.inspect("snapshots")["snapshot_id"].to_pylist():
        state: Any = open_table(root, "iceberg", snapshot_id=number)
        for kind in ("data_files", "delete_files"):
            yield from state.inspect(kind)["file_path"].to_pylist()
