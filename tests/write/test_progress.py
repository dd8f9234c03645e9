"""Progress: the callers of transactions and compactions are told of the rows that are written, and can stop each."""

from __future__ import annotations

import gc
import inspect
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from deltaberg import (
    DeltaTable,
    IcebergTable,
    MaintenancePolicy,
    MaintenanceProgress,
    Scan,
    ScanProgress,
    create_table,
    open_table,
)
from deltaberg.choices import Format
from deltaberg.errors import SchemaError
from deltaberg.table.rows.progress import WriteProgress
from deltaberg.table.rows.shown_progress import ShownProgress
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend

#: Each with what it tells in the end, and the sum of the ids after it.
_OPERATIONS: dict[str, tuple[Callable[[Any], object], WriteProgress, int]] = {
    "delete": (lambda it: it.delete("id = 1", strategy="copy-on-write"), WriteProgress(3, 1), 9),
    "update": (
        lambda it: it.update({"id": "id + 10"}, where="id = 1", strategy="copy-on-write"),
        WriteProgress(4, 1),
        20,
    ),
    # Row 1 stays as it is.
    "upsert": (lambda it: it.upsert(ids(1, 7), "id", strategy="copy-on-write"), WriteProgress(1, 1), 17),
    "merge": (
        lambda it: (
            it.merge(ids(1, 7), "source.id = target.id", source_alias="source", target_alias="target")
            .when_matched_delete()
            .when_not_matched_insert_all()
            .execute()
        ),
        WriteProgress(4, 1),
        16,
    ),
    # The new rows are written to one file, and those that stay to another.
    "overwrite": (lambda it: it.overwrite(ids(2), where="id = 2"), WriteProgress(4, 2), 10),
    "two operations": (lambda it: (it.append(ids(5, 6)), it.append(ids(7))), WriteProgress(3, 2), 28),
}


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize("name", _OPERATIONS)
def test_operations_tell_how_far_they_are(tmp_path: Path, format: Literal["delta", "iceberg"], name: str) -> None:
    table: Any = create_table(tmp_path, ID, format=format)
    table.append(ids(1, 2, 3, 4))
    operation, whole, after = _OPERATIONS[name]

    def stop(_: WriteProgress) -> None:
        raise KeyError("stop")

    files = set(tmp_path.rglob("*.parquet"))
    with pytest.raises(KeyError, match="stop"), table.transaction(progress=stop) as transaction:
        operation(transaction)
    assert set(tmp_path.rglob("*.parquet")) == files
    told: list[WriteProgress] = []
    with table.transaction(progress=told.append) as transaction:
        operation(transaction)
    assert told == sorted(told)
    assert told[-1].rows == whole.rows
    assert told[-1].files <= whole.files
    assert sum(ids_of(table)) == after


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_compaction_tells_how_far_all_of_its_groups_are(tmp_path: Path, format: Literal["delta", "iceberg"]) -> None:
    """Several bins of a group are written at a time, and each group is a transaction of its own."""
    columns = pa.schema([*ID, ("p", pa.int64())])
    table: Any = create_table(tmp_path, columns, format=format, partition_by="p")
    for number in range(2):
        table.append(pa.table({"id": [number] * 4, "p": [0, 1, 2, 3]}))
    told: list[WriteProgress] = []
    table.compact(dry_run=True, progress=told.append)
    assert told == []
    size = max(table.scan().files()["file_size_in_bytes"].to_pylist())
    # Two groups of two partitions each.
    assert len(table.compact(group_size=4 * size, progress=told.append).commits) == 2
    assert told == sorted(told)
    assert told[-1].rows == 8
    assert told[-1].files <= 4

    def stop(_: WriteProgress) -> None:
        raise KeyError("stop")

    table.append(pa.table({"id": [2] * 4, "p": [0, 1, 2, 3]}))
    files = set(tmp_path.rglob("*.parquet"))
    with pytest.raises(KeyError, match="stop"):
        table.compact(z_order_by="id", progress=stop)
    assert set(tmp_path.rglob("*.parquet")) == files


def test_clones_tell_how_many_files_are_copied(tmp_path: Path) -> None:
    """What is copied when the caller stops the clone is not copied again."""
    table: Any = create_table(tmp_path / "source", ID)
    for number in range(5):
        table.append(ids(number))

    def stop(_: WriteProgress) -> None:
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        table.clone(tmp_path / "clone", progress=stop)
    copied = len(list((tmp_path / "clone").rglob("*.parquet")))
    assert copied > 0
    told: list[WriteProgress] = []
    table.clone(tmp_path / "clone", progress=told.append)
    assert told == [(0, number) for number in range(1, 6 - copied)]
    assert ids_of(open_table(tmp_path / "clone")) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize("threads", [1, 2])
def test_scans_tell_how_far_they_are(tmp_path: Path, format: Format, threads: int) -> None:
    table = create_table(tmp_path, ID, format=format)
    for number in range(3):
        table.append(ids(number, number + 10))
    told: list[ScanProgress] = []
    scan = table.scan("id < 12", threads=threads)
    rows = {
        "to_arrow": scan.to_arrow(progress=told.append).num_rows,
        "to_pandas": len(scan.to_pandas(progress=told.append)),
        "to_polars": scan.to_polars(progress=told.append).height,
        "count": scan.count(progress=told.append),
    }
    assert set(rows.values()) == {5}
    assert [(one.rows, one.tasks) for one in told[2::3]][:3] == [(5, 3)] * 3
    assert told[:3] == sorted(told[:3])
    assert told[2].tasks_read < 3
    assert scan.max("id", progress=told.append) == 11

    def stop(_: ScanProgress) -> None:
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        scan.to_arrow(progress=stop)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_maintenance_tells_its_steps(tmp_path: Path, format: Format) -> None:
    table = create_table(tmp_path, ID, format=format)
    for number in range(6):
        table.append(ids(number))
    told: list[MaintenanceProgress] = []
    done = table.maintain(MaintenancePolicy(max_commits=2), dry_run=False, progress=told.append)
    assert [one.step for one in told if one.done is None] == [one.step for one in done.steps]
    assert max(one.done.rows for one in told if isinstance(one.done, WriteProgress)) == 6
    assert ids_of(table) == [0, 1, 2, 3, 4, 5]


#: Methods that tell nothing of their progress: most are done at once, or do nothing before their result is used.
_AT_ONCE = {
    "appends": "a scan",
    "changes": "a scan",
    "cleanup_metadata": "small files of one directory",
    "compact_log": "one file",
    "compute_partition_stats": "one file",
    "expired_tombstones": "a table in memory",
    "explain": "metadata",
    "explain_append": "metadata",
    "explanation": "metadata",
    "files": "metadata",
    "follow": "gives one commit after the other",
    "generate": "a small file for each partition",
    "head": "a few rows",
    "history": "metadata",
    "inspect": "metadata",
    "map_in_arrow": "Spark shows its own progress",
    "on_spark": "does nothing by itself",
    "refresh": "metadata",
    "rewrite_table_path": "metadata",
    "scan": "does nothing by itself",
    "to_batches": "gives one batch after the other",
    "to_reader": "gives one batch after the other",
    "to_spark": "Spark shows its own progress",
}


@pytest.mark.parametrize("kind", [DeltaTable, IcebergTable, Scan])
def test_every_long_verb_takes_progress(kind: type) -> None:
    silent = set()
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        taken = {*inspect.signature(method).parameters, *(getattr(method, "__takes__", None) or ())}
        if not name.startswith("_") and "progress" not in taken:
            silent.add(name)
    assert silent
    assert silent <= _AT_ONCE.keys()


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_true_shows_it_where_somebody_sees_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Format) -> None:
    screen = io.StringIO()
    bars: list[Progress] = []

    def on_screen() -> ShownProgress:
        bars.append(Progress(TextColumn("{task.description}"), console=Console(file=screen, force_terminal=True)))
        bars[-1].start()
        return ShownProgress(bars[-1])

    table = create_table(tmp_path / "t", {"id": pa.int64()}, format=format)
    # Standard error of the tests is no terminal.
    table.append(pa.table({"id": [1]}), progress=True)
    monkeypatch.setattr(ShownProgress, "on_screen", staticmethod(on_screen))
    table.append(pa.table({"id": [1, 2]}), progress=True)
    table.append(pa.table({"id": [3]}), progress=False)
    with pytest.raises(SchemaError, match="string cannot be written to a column of the type long"):
        table.append(pa.table({"id": ["x"]}), progress=True)
    table.compact(progress=True)
    (table.vacuum if isinstance(table, DeltaTable) else table.remove_orphan_files)(dry_run=True, progress=True)
    table.to_arrow(progress=True)
    last = table.maintain(dry_run=False, progress=True).steps[-1].step
    gc.collect()
    assert "2 rows, 0 files" in screen.getvalue()
    assert re.search(r"4 rows, \d of 1 task\b", screen.getvalue())
    assert last in screen.getvalue()
    assert not any(bar.live.is_started for bar in bars)
    assert len(bars) >= 6


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_what_is_done_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture, format: Format) -> None:
    caplog.set_level("DEBUG", "deltaberg")
    table = create_table(tmp_path / "t", {"id": pa.int64()}, format=format)
    stale = open_table(tmp_path / "t")
    table.append(pa.table({"id": [1]}))
    stale.append(pa.table({"id": [2, 3]}))
    transaction = table.transaction()
    transaction.delete("id = 1")
    transaction.abort()
    said = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "deltaberg.commit"]
    assert any(level == "INFO" and "inserted 2 rows" in text for level, text in said)
    assert any(level == "DEBUG" and "append has done RowNumbers(inserted=2" in text for level, text in said)
    assert said[-1] == ("INFO", f"{table.location}: the transaction ends without a commit")
