"""`write_table`: creates a table or writes to one, with the words of deltalake."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table, find_commit, open_table, write_table
from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError
from tests.support.canon import canonical_lines
from tests.support.rows import ids

_ROWS = pa.table({"id": [1, 2, 3], "p": ["a", "b", None]})


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"mode": "upsert"}, InvalidArgumentError, "or 'ignore', not 'upsert'"),
        ({"format": "hudi"}, InvalidArgumentError, "format must be 'delta' or 'iceberg', not 'hudi'"),
        ({"format": "iceberg", "user_metadata": "a"}, UnsupportedFeatureError, "user_metadata applies only to Delta"),
        ({"partition_by": "nope"}, SchemaError, "no column 'nope'"),
        ({"configuration": {"delta.nope": "1"}}, InvalidArgumentError, "no property"),
        ({"schema_mode": "widen"}, InvalidArgumentError, "schema_mode must be merge or overwrite, not 'widen'"),
        ({"compression": "zip"}, InvalidArgumentError, "not a codec"),
    ],
)
def test_arguments_that_are_refused(tmp_path: Path, arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        write_table(tmp_path / "t", _ROWS, **arguments)
    assert not (tmp_path / "t").exists()


def test_rows_that_make_no_table_leave_nothing(tmp_path: Path) -> None:
    def broken() -> Any:
        yield _ROWS.to_batches()[0]
        raise OSError("the source is gone")

    reader = pa.RecordBatchReader.from_batches(_ROWS.schema, broken())
    with pytest.raises(OSError, match="the source is gone"):
        write_table(tmp_path / "t", reader)
    assert not list((tmp_path / "t").rglob("*.*"))


@pytest.mark.parametrize("partition_by", [None, "p", ["p"]])
def test_the_same_calls_as_deltalake(tmp_path: Path, partition_by: Any) -> None:
    """Users of deltalake change one import: the tables hold the same rows at every version."""
    calls: list[tuple[pa.Table, dict[str, Any]]] = [
        (_ROWS, {"partition_by": partition_by, "name": "n", "configuration": {"delta.appendOnly": "false"}}),
        (_ROWS, {"mode": "append"}),
        (pa.table({"id": [7], "p": ["a"], "x": [1.5]}), {"mode": "append", "schema_mode": "merge"}),
        (pa.table({"id": [8], "p": ["b"], "x": [2.5]}), {"mode": "overwrite"}),
        (pa.table({"id": ["text"], "p": ["b"]}), {"mode": "overwrite", "schema_mode": "overwrite"}),
        (_ROWS, {"mode": "ignore"}),
    ]
    for rows, arguments in calls:
        write_table(tmp_path / "ours", rows, **arguments)
        deltalake.write_deltalake(tmp_path / "theirs", rows, **arguments)
    assert DeltaTable(tmp_path / "ours").version == deltalake.DeltaTable(tmp_path / "theirs").version()
    for version in range(DeltaTable(tmp_path / "ours").version + 1):
        ours = pa.table(deltalake.DeltaTable(tmp_path / "ours", version=version).to_pyarrow_table())
        theirs = pa.table(deltalake.DeltaTable(tmp_path / "theirs", version=version).to_pyarrow_table())
        assert ours.schema.names == theirs.schema.names
        assert canonical_lines(ours) == canonical_lines(theirs)


@pytest.mark.parametrize("target", [None, 5, b"t"])
def test_targets_that_are_no_place(target: Any) -> None:
    for write in (lambda: write_table(target, ids(1)), lambda: create_table(target, ids(1).schema)):
        with pytest.raises(InvalidArgumentError, match="the target is of the type builtins"):
            write()


def test_tables_of_deltalake(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, ids(1))
    with pytest.raises(InvalidArgumentError, match=r"the target is of the type deltalake.*DeltaTable"):
        write_table(deltalake.DeltaTable(tmp_path), ids(1))  # type: ignore[arg-type]


def test_a_directory_with_a_table_of_each_format_asks_for_the_format(tmp_path: Path) -> None:
    for known in ("delta", "iceberg"):
        other = tmp_path / known
        write_table(other, _ROWS, format=known)
        shutil.copytree(other, tmp_path / "t", dirs_exist_ok=True)
    with pytest.raises(InvalidArgumentError, match="a Delta table and an Iceberg table"):
        write_table(tmp_path / "t", _ROWS, mode="append")
    write_table(tmp_path / "t", _ROWS, mode="append", format="delta")
    assert open_table(tmp_path / "t", "delta").scan().count() == 6


@pytest.mark.parametrize(
    "token", ["1-6a5f0d4e-3c52-4a8e-9d1b-7e2f8c0b4a11", "77", "v1.metadata.json@12@6f23f31b378fcda1"]
)
def test_the_token_of_a_commit_tells_the_format(tmp_path: Path, token: str) -> None:
    """A table may not be there yet, or each format may have one."""
    assert find_commit(tmp_path / "nothing", token) is None
    for known in ("delta", "iceberg"):
        write_table(tmp_path / known, _ROWS, format=known)
        shutil.copytree(tmp_path / known, tmp_path / "t", dirs_exist_ok=True)
    assert find_commit(tmp_path / "t", token) is None
    with pytest.raises(InvalidArgumentError, match="token of a commit"):
        find_commit(tmp_path / "t", "nonsense")
