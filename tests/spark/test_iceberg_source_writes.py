"""``frame.write.format("iceberg")`` without a jar: modes, options, errors and what a failed write leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import CommitConflictError, DeltabergError
from deltaberg.spark.source.iceberg_write_options import IcebergWriteOptions
from tests.spark.doors import SourceWrites, needs_data_sources, register

pytestmark = [pytest.mark.spark, needs_data_sources, pytest.mark.one_backend]

_SOURCE = SourceWrites(IcebergWriteOptions)

_COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.string())])


def _named(**options: str) -> dict[str, str]:
    return {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}


def _rows(root: Path, **moment: Any) -> list[tuple[Any, ...]]:
    table = open_table(root, "iceberg", **moment).scan().to_arrow()
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_quickstart(spark: Any, tmp_path: Path) -> None:
    """Three steps of iceberg-spark's quickstart: create by an append, overwrite partitions, append to a branch."""
    root = tmp_path / "taxis"
    register(spark)
    frame = spark.createDataFrame(
        [(1, 1.8, "N"), (2, 2.5, "N"), (2, 0.7, "Y")], "vendor long, miles double, flag string"
    )
    frame.write.format("iceberg").mode("append").option("partitionBy", "vendor").save(str(root))
    table = open_table(root, "iceberg")
    assert ([part.name for part in table.spec.fields], len(table.snapshots)) == (["vendor"], 1)
    again = spark.createDataFrame([(2, 9.0, "Z")], frame.schema)
    again.write.format("iceberg").mode("overwrite").option("overwrite-mode", "dynamic").save(str(root))
    assert _rows(root) == [(1, 1.8, "N"), (2, 9.0, "Z")]
    table.refresh().alter().create_branch("audit").commit()
    branch = again.write.format("iceberg").mode("append").option("branch", "audit")
    branch.option("snapshot-property.owner", "ada").save(str(root))
    audit = open_table(root, "iceberg", ref="audit")
    assert (_rows(root), len(_rows(root, ref="audit"))) == ([(1, 1.8, "N"), (2, 9.0, "Z")], 3)
    assert audit.snapshot is not None
    assert audit.snapshot.summary["owner"] == "ada"
    read = spark.read.format("iceberg").option("branch", "audit").load(str(root))
    assert sorted(row.miles for row in read.collect()) == [1.8, 9.0, 9.0]


def test_modes_and_options(tmp_path: Path) -> None:
    root = tmp_path / "t"
    rows = pa.table({"id": [1, 2], "p": ["x", "y"]})
    _SOURCE.write(rows, root, partitionBy='["p", "bucket(4, id)"]')
    _SOURCE.write(rows, root, **_named(write_format="avro", compression_codec="zstd", fanout_enabled="true"))
    table = open_table(root, "iceberg")
    assert sorted(set(table.inspect("files")["file_format"].to_pylist())) == ["AVRO", "PARQUET"]
    more = pa.table({"id": [3], "p": ["x"], "price": [0.5]})
    _SOURCE.write(
        more, root, **_named(merge_schema="true", snapshot_property__owner="ada", target_file_size_bytes="99")
    )
    found = table.refresh().snapshot
    assert found is not None
    assert (found.operation, found.summary["owner"], table.schema.names[-1]) == ("append", "ada", "price")
    _SOURCE.write(pa.table({"id": [9], "p": ["y"]}), root, "overwrite", **_named(overwrite_mode="dynamic"))
    assert sorted(row[:2] for row in _rows(root)) == [(1, "x"), (1, "x"), (2, "y"), (2, "y"), (3, "x"), (9, "y")]
    _SOURCE.write(pa.table({"id": [7], "p": ["z"]}), root, **_named(snapshot_property__wap__id="w"))
    assert len(_rows(root)) == 6
    table.refresh().publish("w")
    assert len(_rows(root)) == 7
    _SOURCE.write(pa.table({"id": [0], "p": ["q"]}), root, "overwrite")
    assert [row[:2] for row in _rows(root)] == [(0, "q")]
    _SOURCE.write(pa.table({"id": pa.array([], pa.int64())}), root, "overwrite")
    assert _rows(root) == []


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("append", {"overwrite-mode": "dynamic"}, "overwrite-mode applies only to overwrites"),
        ("overwrite", {"overwrite-mode": "some"}, "must be static or dynamic"),
        ("append", {"distribution-mode": "hash"}, "must be none"),
        ("append", {"check-nullability": "false"}, "must be true"),
        ("overwrite", {"isolation-level": "snapshot"}, "must be serializable"),
        ("append", {"check-ordering": "true"}, "must be false"),
        ("append", {"delete-granularity": "row"}, "must be file or partition"),
        ("append", {"write-format": "orc", "compression-strategy": "size"}, "speed or compression"),
        ("append", {"output-spec-id": "0"}, "does not obey the option output-spec-id"),
        ("overwrite", {"Validate-From-Snapshot-Id": "1"}, "does not obey the option validate-from-snapshot-id"),
        ("append", {"use-table-distribution-and-ordering": "false"}, "does not obey the option use-table"),
        ("append", {"advisory-partition-size": "1000"}, "does not obey the option advisory-partition-size"),
        ("append", {"shred-variants": "true"}, "does not obey the option shred-variants"),
        ("append", {"mergeSchema": "true", "merge-schema": "true"}, "cannot be used together"),
        ("append", {"target-file-size-bytes": "big"}, "must be an integer"),
        ("append", {"write-format": "csv"}, "must be parquet or orc or avro"),
        ("append", {"compression-codec": "zip"}, "zip"),
        ("append", {"branch": "b"}, "no branch 'b'"),
        ("append", {"partitionBy": "id"}, "is not partitioned, but id is asked for"),
        ("append", {"overwrite-mod": "x"}, "did you mean overwrite-mode"),
        ("append", {}, "string cannot be written to a column of the type long"),
    ],
)
def test_what_is_refused(mode: str, options: dict[str, str], message: str, tmp_path: Path) -> None:
    """Before a task starts, in the process that plans the write."""
    columns = pa.schema([("id", pa.int64())])
    create_table(tmp_path / "t", columns, format="iceberg")
    found = columns if options else pa.schema([("id", pa.string())])
    with pytest.raises(DeltabergError, match=message):
        IcebergWriteOptions({"path": str(tmp_path / "t"), **options}).stage(found, overwrite=mode == "overwrite")


def test_partition_transforms_have_commas(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "p": ["x", "y"], "a,b": [1, 2]})
    _SOURCE.write(rows, tmp_path / "t", partitionBy="bucket(16, id), truncate(2, p),`a,b`")
    found = [part.transform for part in open_table(tmp_path / "t", "iceberg").metadata.specs[0].fields]
    assert found == ["bucket[16]", "truncate[2]", "identity"]


def test_options_that_ask_for_what_is_done_anyway(tmp_path: Path) -> None:
    root = tmp_path / "t"
    rows = pa.table({"id": [1, 2], "p": ["x", "y"]})
    anyway = _named(isolation_level="serializable", delete_granularity="partition", check_ordering="false")
    for strategy in ("speed", "compression"):
        more = _named(write_format="orc", compression_strategy=strategy)
        _SOURCE.write(rows, root, "overwrite", **anyway, **more, **_named(check_nullability="true"))
    assert _rows(root) == [(1, "x"), (2, "y")]
    assert open_table(root, "iceberg").inspect("files")["file_format"].to_pylist() == ["ORC"]


@pytest.mark.parametrize("options", [{}, _named(isolation_level="serializable")], ids=["none", "serializable"])
def test_overwrites_are_serializable(tmp_path: Path, options: dict[str, str]) -> None:
    """An overwrite does not lose what it did not know of."""
    root = tmp_path / "t"
    table = create_table(root, _COLUMNS, format="iceberg")
    table.append(pa.table({"id": [1], "p": ["x"]}))
    late = _SOURCE.writer(root, _COLUMNS, "overwrite", **options)
    message = late.write(iter(pa.table({"id": [2], "p": ["y"]}).to_batches()))
    table.append(pa.table({"id": [3], "p": ["z"]}))
    with pytest.raises(CommitConflictError, match="rows to be replaced"):
        late.commit([message])
    assert _rows(root) == [(1, "x"), (3, "z")]


def test_a_table_that_changed_meanwhile(tmp_path: Path) -> None:
    """The write is planned on the snapshot that the first process saw; later commits are checked against it."""
    root = tmp_path / "t"
    table = create_table(root, _COLUMNS, format="iceberg", partition_by="p")
    table.append(pa.table({"id": [1], "p": ["x"]}))
    rows = pa.table({"id": [2], "p": ["x"]}).to_batches()
    appending, replacing, merging = (
        _SOURCE.writer(root, _COLUMNS),
        _SOURCE.writer(root, _COLUMNS, "overwrite", **_named(overwrite_mode="dynamic")),
        _SOURCE.writer(root, _COLUMNS.append(pa.field("n", pa.int64())), **_named(merge_schema="true")),
    )
    messages = [appending.write(iter(rows)), appending.write(iter(()))]
    appending.write(iter(rows))
    table.append(pa.table({"id": [5], "p": ["y"]}))
    appending.commit(messages)
    assert _rows(root) == [(1, "x"), (2, "x"), (5, "y")]
    files = {path.name for path in (root / "data").rglob("*.parquet")}
    for late, batches in ((replacing, rows), (merging, [rows[0].append_column("n", pa.array([1]))])):
        if late is merging:
            table.refresh().alter().add("other", pa.string()).commit()
        with pytest.raises(CommitConflictError, match="another commit"):
            late.commit([late.write(iter(batches))])
    assert {path.name for path in (root / "data").rglob("*.parquet")} == files
    message = replacing.write(iter(rows))
    replacing.abort([message, None])
    assert {path.name for path in (root / "data").rglob("*.parquet")} == files
    with pytest.raises(DeltabergError, match="there is a table of the format iceberg already"):
        create_table(root, _COLUMNS, format="delta")
