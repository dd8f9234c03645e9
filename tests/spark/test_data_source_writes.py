"""``frame.write.format("delta")`` without a jar: modes, options, errors and what a failed write leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import DeltabergError, InvalidArgumentError
from deltaberg.spark.source.delta_write_options import DeltaWriteOptions
from tests.spark.doors import SourceWrites, needs_data_sources, own_calls, register

pytestmark = [pytest.mark.spark, needs_data_sources]

_SOURCE = SourceWrites(DeltaWriteOptions)


def _save(frame: Any, root: Path, mode: str = "append", **options: Any) -> None:
    register(frame.sparkSession)
    frame.write.format("delta").mode(mode).options(**options).save(str(root))


def _rows(root: Path, *names: str) -> list[tuple[Any, ...]]:
    table = open_table(root, "delta").scan(columns=list(names) or None).to_arrow()
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_a_table_is_created_and_overwritten(spark: Any, tmp_path: Path) -> None:
    """The names of columns in files are chosen once, in the process that plans the write."""
    root = tmp_path / "table"
    _save(spark.createDataFrame([(1, "x"), (2, "y")], "id long, p string"), root, partitionBy="p")
    table = open_table(root, "delta")
    assert (table.version, table.partition_columns) == (0, ["p"])
    table.alter().set({"delta.columnMapping.mode": "name"}).commit()
    frame = spark.createDataFrame([(3, "x", 0.5)], "id long, p string, price double")
    _save(frame, root, "overwrite", partitionOverwriteMode="dynamic", mergeSchema="true")
    assert _rows(root, "id", "p", "price") == [(2, "y", None), (3, "x", 0.5)]
    assert table.refresh().schema.fields[-1].physical_name.startswith("col-")


def test_a_place_with_a_table_of_the_other_format(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "p": ["x"]})
    create_table(tmp_path / "t", rows.schema, format="iceberg")
    for mode in ("append", "overwrite"):
        with pytest.raises(InvalidArgumentError, match="there is a table of the format iceberg already"):
            _SOURCE.write(rows, tmp_path / "t", mode)
    assert not (tmp_path / "t" / "_delta_log").exists()


def test_a_dynamic_overwrite_of_a_table_without_partitions_replaces_all_rows(tmp_path: Path) -> None:
    """As with delta-spark, whose jobs set the option whatever table they write."""
    for number in (1, 2):
        rows = pa.table({"id": [number], "p": ["x"]})
        _SOURCE.write(rows, tmp_path / "t", "overwrite", partitionOverwriteMode="dynamic")
        assert _rows(tmp_path / "t") == [(number, "x")]


def test_modes(tmp_path: Path) -> None:
    """Rows are appended, or replace all rows, those of a filter, or those of their partitions."""
    root = tmp_path / "table"
    rows = pa.table({"id": [1, 2], "p": ["x", "y"]})
    _SOURCE.write(rows, root, partitionBy='["p"]', userMetadata="first", txnAppId="app", txnVersion="1")
    table = open_table(root, "delta")
    assert (table.version, table.partition_columns) == (0, ["p"])
    assert table.history()[0].info["userMetadata"] == "first"
    _SOURCE.write(rows, root, txnAppId="app", txnVersion="1")
    assert table.refresh().version == 0
    _SOURCE.write(pa.table({"id": [3, 4], "p": ["x", "y"], "price": [0.5, 0.5]}), root, mergeSchema="true")
    assert _rows(root, "id", "price") == [(1, None), (2, None), (3, 0.5), (4, 0.5)]
    _SOURCE.write(pa.table({"id": [9], "p": ["x"]}), root, "overwrite", replaceWhere="p = 'x'")
    assert _rows(root, "id", "p") == [(2, "y"), (4, "y"), (9, "x")]
    _SOURCE.write(pa.table({"id": [7], "p": ["y"]}), root, "overwrite", partitionOverwriteMode="dynamic")
    assert _rows(root, "id", "p") == [(7, "y"), (9, "x")]
    _SOURCE.write(pa.table({"id": [0]}), root, "overwrite", overwriteSchema="true", partitionBy="[]")
    assert (_rows(root), table.refresh().partition_columns) == ([(0,)], [])
    _SOURCE.write(pa.table({"id": pa.array([], pa.int64())}), root, "overwrite")
    assert (_rows(root), table.refresh().version) == ([], 5)


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("append", {"replaceWhere": "id = 1"}, "replaceWhere applies only to overwrites"),
        ("append", {"overwriteSchema": "true"}, "overwriteSchema applies only to overwrites"),
        ("overwrite", {"overwriteSchema": "true", "mergeSchema": "true"}, "cannot be used together"),
        ("overwrite", {"partitionOverwriteMode": "some"}, "must be static or dynamic"),
        ("append", {"txnAppId": "app"}, "need each other"),
        ("append", {"txnAppId": "app", "txnVersion": "one"}, "must be an integer"),
        ("append", {"timezone": "Mars/Phobos"}, "is not a time zone"),
        ("append", {"partitionBy": "[1]"}, "must be a JSON list of names"),
        ("append", {"mergeShema": "true"}, "did you mean mergeSchema"),
        ("append", {"partitionBy": "other"}, "other"),
        ("append", {}, "string cannot be written to a column of the type long"),
    ],
)
def test_what_is_refused(mode: str, options: dict[str, str], message: str, tmp_path: Path) -> None:
    """Before a task starts, in the process that plans the write."""
    root = tmp_path / "table"
    columns = pa.schema([("id", pa.int64())])
    create_table(root, columns)
    found = columns if options else pa.schema([("id", pa.string())])
    with pytest.raises(DeltabergError, match=message):
        DeltaWriteOptions({"path": str(root), **options}).stage(found, overwrite=mode == "overwrite")


def test_rows_that_break_a_rule_commit_nothing(spark: Any, tmp_path: Path) -> None:
    """Spark's tasks report the error, and the files of the others are deleted."""
    table = create_table(tmp_path / "table", pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    frame = spark.createDataFrame([(1,), (None,)], "id long").repartition(2)
    with pytest.raises(Exception, match="ConstraintViolationError") as raised:
        _save(frame, tmp_path / "table")
    assert own_calls(raised.value) <= {"call"}
    assert table.refresh().version == 0
    assert not list((tmp_path / "table").glob("*.parquet"))


def test_a_write_needs_a_path() -> None:
    with pytest.raises(InvalidArgumentError, match=r"hint: use save\(path\)"):
        DeltaWriteOptions({}).stage(pa.schema([("id", pa.int64())]), overwrite=False)


def _batches(*ids: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"c": list(ids)})


def test_abort_deletes_only_what_no_commit_can_name(tmp_path: Path) -> None:
    """Where a task failed, the commit was never tried. Where none did, its outcome may be unknown."""
    root = tmp_path / "table"
    columns = pa.schema([("id", pa.int64())])
    create_table(root, columns)
    writer = _SOURCE.writer(root, columns)
    message = writer.write(_batches(1, 2))
    writer.abort([message])
    assert len(list(root.glob("*.parquet"))) == 1
    writer.abort([message, None])
    assert not list(root.glob("*.parquet"))


def test_a_twin_of_a_task_leaves_no_duplicate(tmp_path: Path) -> None:
    root = tmp_path / "table"
    columns = pa.schema([("id", pa.int64())])
    table = create_table(root, columns)
    writer = _SOURCE.writer(root, columns)
    writer.write(_batches(1, 2))
    writer.commit([writer.write(_batches(1, 2)), writer.write(iter(()))])
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [1, 2]


def test_a_table_that_changed_meanwhile(tmp_path: Path) -> None:
    """The write is planned on the version that the first process saw; later commits are checked against it."""
    root = tmp_path / "table"
    columns = pa.schema([("id", pa.int64())])
    table = create_table(root, columns)
    first, second = _SOURCE.writer(root, columns), _SOURCE.writer(root, columns)
    messages = [first.write(_batches(1))]
    table.append(pa.table({"id": [5]}))
    first.commit(messages)
    assert _rows(root) == [(1,), (5,)]
    table.refresh().alter().add("note", pa.string()).commit()
    with pytest.raises(DeltabergError, match="metadata"):
        second.commit([second.write(_batches(2))])
    assert _rows(root, "id") == [(1,), (5,)]
    with pytest.raises(InvalidArgumentError, match="in memory"):
        _SOURCE.writer(Path("memory://x"), columns)
