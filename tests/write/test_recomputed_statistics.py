"""Statistics of data files that are computed anew: what they are, which files get them, and what stays as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table, write_table
from deltaberg.delta.alter import recomputed_statistics
from deltaberg.delta.snapshot.recorded_adds import recorded_adds
from deltaberg.errors import ConcurrentDeleteReadError, DataFileNotFoundError
from tests.support.command_line import json_lines
from tests.support.log_entries import named_actions

_NONE = {"delta.dataSkippingNumIndexedCols": "0"}
_ALL = {"delta.dataSkippingNumIndexedCols": "32"}


def _bare(root: Path, **properties: str) -> DeltaTable:
    """Return a table of two files without bounds."""
    rows = pa.table({"id": [1, 2], "x": [0.5, float("nan")], "p": ["a", "b"]})
    table: DeltaTable = create_table(root, rows.schema, partition_by="p", properties={**_NONE, **properties})
    table.append(rows)
    table.alter().set(_ALL).commit()
    return table


def _adds(root: Path, version: int) -> list[dict[str, Any]]:
    return named_actions(root, version, "add")


def test_files_without_statistics(tmp_path: Path) -> None:
    table = _bare(tmp_path)
    before = {add["path"]: add for add in _adds(tmp_path, 1)}
    assert len(table.scan("id > 1").files()) == 2
    done = table.compute_statistics()
    assert (done.operation, done.metrics["numFilesRead"], done.metrics["numFilesUpdated"]) == ("COMPUTE STATS", 2, 2)
    assert len(table.scan("id > 1").files()) == 1
    after = {add["path"]: add for add in _adds(tmp_path, done.version)}
    assert {path: json.loads(add.pop("stats")) for path, add in sorted(after.items())} == {
        path: {
            "numRecords": 1,
            "minValues": {"id": number, **({"x": 0.5} if number == 1 else {})},
            "maxValues": {"id": number, **({"x": 0.5} if number == 1 else {})},
            "nullCount": {"id": 0, "x": 0},
        }
        for number, path in enumerate(sorted(before), 1)
    }
    for add in before.values():
        del add["stats"]
    assert after == {path: {**add, "dataChange": False} for path, add in before.items()}
    theirs = pa.table(deltalake.DeltaTable(tmp_path).get_add_actions(flatten=True)).sort_by("min.id")
    assert (theirs["min.id"].to_pylist(), theirs["max.x"].to_pylist()) == ([1, 2], [0.5, None])
    # What is right stays.
    again = table.compute_statistics()
    assert (again.committed, again.metrics["numFilesRead"], again.metrics["numFilesUpdated"]) == (False, 2, 0)
    assert DeltaTable(tmp_path).version == done.version


def test_chosen_files(tmp_path: Path) -> None:
    table = _bare(tmp_path)
    done = table.compute_statistics("p = 'b'", user_metadata="why")
    assert (done.metrics["numFilesRead"], done.metrics["numFilesUpdated"]) == (1, 1)
    assert [add["partitionValues"] for add in _adds(tmp_path, done.version)] == [{"p": "b"}]
    said = table.history(1)[0].info
    assert (said["userMetadata"], "p" in said["operationParameters"]["predicate"]) == ("why", True)
    assert len(table.scan("id = 7").files()) == 1


def test_deleted_rows_count_and_row_ids_stay(tmp_path: Path) -> None:
    options = {
        "delta.enableDeletionVectors": "true",
        "delta.enableRowTracking": "true",
        "delta.columnMapping.mode": "name",
    }
    rows = pa.table({"id": range(10)})
    table: DeltaTable = create_table(tmp_path, rows.schema, properties={**_NONE, **options})
    table.append(rows)
    table.delete("id > 7", strategy="merge-on-read")
    table.alter().set(_ALL).commit()
    columns = ["id", "_metadata.row_id", "_metadata.row_commit_version"]
    before = table.scan(columns=columns).to_arrow()
    done = table.compute_statistics()
    (add,) = _adds(tmp_path, done.version)
    (name,) = (child.physical_name for child in table.schema)
    found = json.loads(add["stats"])
    assert found == {
        "numRecords": 10,
        "minValues": {name: 0},
        "maxValues": {name: 9},
        "nullCount": {name: 0},
        "tightBounds": False,
    }
    assert table.scan(columns=columns).to_arrow().equals(before)
    assert not table.compute_statistics().committed


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_statistics_that_a_checkpoint_has_only_as_columns(tmp_path: Path, vectors: str) -> None:
    typed = {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "true"}
    rows = pa.table({"id": [1, 2, 3], "x": [0.5, 1.5, float("nan")], "tags": [["a"], None, []]})
    properties = {**_NONE, **typed, "delta.enableDeletionVectors": vectors}
    table: DeltaTable = create_table(tmp_path, rows.schema, properties=properties)
    table.append(rows)
    table.append(rows)
    table.delete("id = 1 AND x < 1", strategy="merge-on-read" if vectors == "true" else "copy-on-write")
    table.alter().set(_ALL).commit()
    table.checkpoint()
    # The columns of the checkpoint lack the bounds.
    files = len(DeltaTable(tmp_path).live_files)
    done = DeltaTable(tmp_path).compute_statistics()
    assert done.metrics["numFilesUpdated"] == files
    DeltaTable(tmp_path).checkpoint()
    again = DeltaTable(tmp_path).compute_statistics()
    assert (again.committed, again.metrics["numFilesRead"]) == (False, files)


def test_a_delete_meanwhile_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _bare(tmp_path)
    others: list[Callable[[], object]] = [
        lambda: DeltaTable(tmp_path).delete("id = 2"),
        lambda: write_table(tmp_path, pa.table({"id": [3], "x": [1.0], "p": ["a"]}), mode="append"),
    ]

    def read(*arguments: Any) -> Any:
        others.pop(0)()
        return recorded_adds(*arguments)

    monkeypatch.setattr(recomputed_statistics, "recorded_adds", read)
    with pytest.raises(ConcurrentDeleteReadError, match="version 3 was committed meanwhile, and it removed a file"):
        table.compute_statistics()
    assert table.refresh().scan().to_arrow()["id"].to_pylist() == [1]
    done = table.compute_statistics()
    assert (done.committed, done.metrics["numFilesUpdated"]) == (True, 1)
    assert sorted(DeltaTable(tmp_path).scan().to_arrow()["id"].to_pylist()) == [1, 3]


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    table = _bare(tmp_path)
    next(tmp_path.glob("p=a/*.parquet")).unlink()
    with pytest.raises(DataFileNotFoundError, match="a live data file is gone"):
        table.compute_statistics()
    assert DeltaTable(tmp_path).version == table.version
    assert table.compute_statistics("p = 'b'").committed


def test_at_the_command_line(tmp_path: Path) -> None:
    _bare(tmp_path)
    (said,) = json_lines("stats", tmp_path, "--where", "p = 'a'")
    assert (said["version"], said["files"], said["updated_files"], said["committed"]) == (3, 1, 1, True)
