"""Rows that are appended: their columns, files and statistics, and what the commit records."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import CommitResult, DeltaTable, create_table, write_table
from deltaberg.errors import (
    ConstraintViolationError,
    InvalidArgumentError,
    MetadataChangedError,
    SchemaError,
    UnsupportedFeatureError,
)
from tests.support.canon import canonical_lines
from tests.support.delta_builder import DeltaBuilder
from tests.support.log_entries import named_actions
from tests.support.rows import ID, ids, ids_of
from tests.support.typed_rows import every_type, partitioned_rows

_KINDS = [
    pa.string(),
    pa.bool_(),
    pa.int8(),
    pa.int64(),
    pa.float64(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.timestamp("us"),
    pa.decimal128(10, 2),
]


def _data_files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.parquet"))


def _same(table: DeltaTable, rows: pa.Table) -> None:
    found = table.scan().to_arrow()
    assert found.schema.names == rows.schema.names
    assert canonical_lines(found) == canonical_lines(rows)


@pytest.mark.req("DL-SCHEMA-05", "DL-SCHEMA-06", "DL-SCHEMA-07", "DL-SCHEMA-08", half="writer")
@pytest.mark.req("DL-SCHEMA-09", "DL-SCHEMA-10", "DL-SCHEMA-11", half="writer")
@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_every_type(tmp_path: Path, mode: str) -> None:
    rows = every_type()
    table = create_table(tmp_path / "t", rows.schema, properties={"delta.columnMapping.mode": mode})
    result = table.append(rows)
    assert (result.version, result.added_rows, result.added_files) == (1, 4, 1)
    _same(table, rows)
    _same(DeltaTable(tmp_path / "t"), rows)
    for number in range(1, 5):
        assert ids_of(table, filter=f"id = {number}") == [number]
    parquet = pq.ParquetFile(_data_files(tmp_path / "t")[0]).schema
    kinds = {
        parquet.column(index).path.split(".")[0]: parquet.column(index).logical_type for index in range(len(parquet))
    }
    physical = {child.name: child.physical_name for child in table.schema}
    assert json.loads(kinds[physical["at"]].to_json())["isAdjustedToUTC"] is True
    assert json.loads(kinds[physical["local"]].to_json())["isAdjustedToUTC"] is False


@pytest.mark.req("DL-CM-05", "DL-CM-06", "DL-CM-07", "DL-CM-08", half="writer")
@pytest.mark.parametrize("mode", ["name", "id"])
def test_files_hold_physical_names_and_ids(tmp_path: Path, mode: str) -> None:
    inner = pa.struct([("d", pa.int32())])
    columns = pa.schema([("e", pa.list_(inner)), ("m", pa.map_(pa.string(), inner)), ("region", pa.string())])
    table = create_table(tmp_path / "t", columns, partition_by="region", properties={"delta.columnMapping.mode": mode})
    table.append(pa.table({"e": [[{"d": 1}]], "m": [[("k", {"d": 2})]], "region": ["EU"]}, schema=columns))
    e, m, region = table.schema.fields
    (add,) = named_actions(tmp_path / "t", 1, "add")
    assert add["partitionValues"] == {region.physical_name: "EU"}
    assert named_actions(tmp_path / "t", 0, "metaData")[0]["partitionColumns"] == ["region"]
    stored = pq.ParquetFile(_data_files(tmp_path / "t")[0]).schema_arrow
    assert stored.names == [e.physical_name, m.physical_name]
    d = e.type.element.type.fields[0]  # type: ignore[attr-defined]
    found = stored.field(0).type.value_type.field(0)
    assert found.name == d.physical_name
    assert (stored.field(0).metadata[b"PARQUET:field_id"], found.metadata[b"PARQUET:field_id"]) == (
        str(e.id).encode(),
        str(d.id).encode(),
    )
    assert table.scan("region = 'EU'").count() == 1
    assert len(table.scan("region = 'US'").files()) == 0


@pytest.mark.req("DL-PART-01", "DL-PART-02", "DL-PART-03", "DL-PART-04", "DL-PART-07", half="writer")
@pytest.mark.req("DL-PART-08", "DL-PART-09", "BEY-20", "DL-ACT-09", "DL-ACT-10", half="writer")
@pytest.mark.parametrize("kind", _KINDS, ids=str)
def test_partition_values(tmp_path: Path, kind: pa.DataType) -> None:
    rows = partitioned_rows(kind)
    table = create_table(tmp_path / "t", rows.schema, partition_by="p")
    result = table.append(rows)
    assert result.added_files == len(rows)
    _same(DeltaTable(tmp_path / "t"), rows)
    for add in named_actions(tmp_path / "t", 1, "add"):
        assert set(add["partitionValues"]) == {"p"}
        assert (tmp_path / "t" / unquote(add["path"])).stat().st_size == add["size"]


@pytest.mark.req("DL-PART-01", half="writer")
def test_an_empty_text_is_a_null_partition(tmp_path: Path) -> None:
    write_table(tmp_path / "t", pa.table({"id": [1, 2], "p": ["", None]}), partition_by="p")
    assert DeltaTable(tmp_path / "t").scan("p IS NULL").count() == 2
    assert [add["partitionValues"] for add in named_actions(tmp_path / "t", 0, "add")] == [{"p": None}]


@pytest.mark.req("DL-FILE-01", half="writer")
def test_no_directory_is_hidden(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "_p": ["x"], ".q": ["_y"]})
    table = create_table(tmp_path / "t", rows.schema, partition_by=["_p", ".q"])
    table.append(rows)
    (add,) = named_actions(tmp_path / "t", 1, "add")
    assert not any(part.startswith(("_", ".")) for part in add["path"].split("/"))
    _same(table, rows)


@pytest.mark.req("DL-ACT-07", "DL-ACT-11", "DL-ACT-13", "DL-STAT-02", "DL-STAT-06", "DL-STAT-07", half="writer")
def test_what_an_add_records(tmp_path: Path) -> None:
    before = int(time.time() * 1000)
    rows = pa.table({"id": [3, 1, None], "s": [{"x": 1.5}, {"x": None}, None], "l": [[1], [2], [3]]})
    write_table(tmp_path / "t", rows)
    (add,) = named_actions(tmp_path / "t", 0, "add")
    file = tmp_path / "t" / add["path"]
    assert add["size"] == file.stat().st_size
    assert before <= add["modificationTime"] <= int(time.time() * 1000)
    assert add["dataChange"] is True
    stats = json.loads(add["stats"])
    assert stats["numRecords"] == 3
    assert stats["minValues"] == {"id": 1, "s": {"x": 1.5}}
    assert stats["maxValues"] == {"id": 3, "s": {"x": 1.5}}
    assert {name: stats["nullCount"][name] for name in ("id", "s")} == {"id": 1, "s": {"x": 2}}


@pytest.mark.req("DL-STAT-10", half="writer")
@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("a" * 32, "a" * 32, "a" * 32),
        ("a" * 40, "a" * 32, "a" * 32 + "\x7f"),
        ("a" * 32 + "~", "a" * 32, "a" * 32 + "\x7f"),
        # A bound that ends as the text goes on would be less than the text.
        ("a" * 32 + "\x7f" + "b", "a" * 32, "a" * 32 + "\U0010ffff"),
        ("a" * 32 + "ü", "a" * 32, "a" * 32 + "\U0010ffff"),
        ("a" * 32 + "\U0010ffff" * 2 + "b", "a" * 32, "a" * 32 + "\U0010ffff" * 2 + "\x7f"),
        ("a" * 32 + "\U0010ffff", "a" * 32, "a" * 32 + "\U0010ffff"),
    ],
)
def test_bounds_of_long_texts(tmp_path: Path, text: str, low: str, high: str) -> None:
    write_table(tmp_path / "t", pa.table({"t": [text]}))
    stats = json.loads(named_actions(tmp_path / "t", 0, "add")[0]["stats"])
    assert (stats["minValues"]["t"], stats["maxValues"]["t"]) == (low, high)
    assert DeltaTable(tmp_path / "t").scan([("t", "=", text)]).count() == 1


@pytest.mark.req("DL-CLU-04", half="writer")
def test_which_columns_have_statistics(tmp_path: Path) -> None:
    columns = pa.schema([(f"c{number}", pa.int64()) for number in range(50)])
    rows = pa.table([[number] for number in range(50)], schema=columns)

    def recorded(name: str, **kwargs: Any) -> list[str]:
        create_table(tmp_path / name, columns, **kwargs).append(rows)
        return list(json.loads(named_actions(tmp_path / name, 1, "add")[0]["stats"])["minValues"])

    assert recorded("default") == [f"c{number}" for number in range(32)]
    assert recorded("clustered", cluster_by="c40") == [f"c{number}" for number in [*range(32), 40]]
    assert recorded("three", properties={"delta.dataSkippingNumIndexedCols": 3}) == ["c0", "c1", "c2"]
    assert recorded("named", properties={"delta.dataSkippingStatsColumns": "c7,c49"}) == ["c7", "c49"]


def test_data_of_every_library(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "name": ["a", None]})
    write_table(tmp_path / "from", rows)
    scan = DeltaTable(tmp_path / "from").scan()
    inputs = [
        rows,
        rows.to_batches()[0],
        rows.to_reader(),
        rows.to_pandas(),
        pl.from_arrow(rows),
        scan,
        pa.table({"NAME": rows["name"].cast(pa.large_string()), "Id": rows["id"].cast(pa.int8())}),
        pa.table({"id": rows["id"].dictionary_encode(), "name": rows["name"].dictionary_encode()}),
    ]
    table = create_table(tmp_path / "t", rows.schema)
    for data in inputs:
        table.append(data)
    assert ids_of(table) == [1] * len(inputs) + [2] * len(inputs)


@pytest.mark.req("DL-SCHEMA-14", half="writer")
def test_columns_that_the_table_lacks(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID)
    more = pa.table({"id": [1], "extra": ["x"]})
    with pytest.raises(SchemaError, match="columns that the table does not have: extra"):
        table.append(more)
    assert not _data_files(tmp_path / "t")
    assert table.append(more, schema_mode="merge").version == 1
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "extra": "x"}]
    assert DeltaTable(tmp_path / "t", version=0).schema.names == ["id"]


@pytest.mark.parametrize("rows", [{"k": [1], "K": [2]}, {"s": [{"a": 1, "A": 2}]}], ids=["columns", "fields"])
def test_new_columns_that_differ_only_in_case(tmp_path: Path, rows: dict[str, Any]) -> None:
    """Spark would find both by either name."""
    table = create_table(tmp_path, {"id": pa.int64(), "s": pa.struct({"x": pa.int64()})}, format="delta")
    with pytest.raises(SchemaError, match="two columns have the same name when case is ignored"):
        table.append(pa.table({"id": [1], **rows}), schema_mode="merge")
    assert table.refresh().version == 0
    assert not _data_files(tmp_path)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (pa.table({"id": ["x"]}), SchemaError, "string cannot be written to a column of the type long"),
        (pa.table({"id": [1.5]}), SchemaError, "1.5 is no whole number"),
        (pa.table({"id": pa.array([1 << 63], pa.uint64())}), SchemaError, "does not fit the type long"),
        ({"id": [1]}, InvalidArgumentError, "data of type dict"),
        (None, InvalidArgumentError, "data of type NoneType"),
    ],
)
def test_rows_that_do_not_fit(tmp_path: Path, rows: Any, error: type[Exception], message: str) -> None:
    table = create_table(tmp_path / "t", ID)
    with pytest.raises(error, match=message):
        table.append(rows)
    assert DeltaTable(tmp_path / "t").version == 0
    assert not _data_files(tmp_path / "t")


def test_nulls_that_are_not_allowed(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64())]))
    with pytest.raises((SchemaError, ConstraintViolationError), match="must not be null"):
        table.append(pa.table({"id": pa.array([1, None], pa.int64())}))
    with pytest.raises(SchemaError, match="lack a column that must not be null"):
        table.append(pa.table({"x": [1]}))
    assert table.append(pa.table({"id": [1]})).added_rows == 1
    assert not [path for path in _data_files(tmp_path / "t") if path.stat().st_size == 0]
    assert len(_data_files(tmp_path / "t")) == 1


def test_no_rows_make_a_version_without_files(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID)
    result = table.append(ids().slice(0, 0))
    assert (result.added_files, result.added_rows) == (0, 0)
    assert table.scan().count() == 0
    assert not _data_files(tmp_path / "t")


@pytest.mark.req("DL-ACT-25", half="writer")
def test_a_repeated_batch_is_written_once(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID)
    first = table.append(ids(1), txn=("stream", 7))
    again = table.append(ids(1), txn=("stream", 7))
    other = DeltaTable(tmp_path / "t", version=None).append(ids(1), txn=("stream", 6))
    assert (first.committed, again.committed, other.committed) == (True, False, False)
    assert (DeltaTable(tmp_path / "t").version, ids_of(DeltaTable(tmp_path / "t"))) == (1, [1])
    assert len(_data_files(tmp_path / "t")) == 1
    assert table.transactions["stream"].version == 7


def test_a_batch_that_somebody_else_wrote_leaves_no_files(tmp_path: Path) -> None:
    """The table object is older than the commit that has recorded the same progress."""
    slow = create_table(tmp_path / "t", ID)
    DeltaTable(tmp_path / "t").append(ids(1), txn=("stream", 7))
    result = slow.append(ids(1), txn=("stream", 7))
    assert (result.committed, ids_of(slow)) == (False, [1])
    assert len(_data_files(tmp_path / "t")) == 1


@pytest.mark.req("DL-LOG-07", half="writer")
def test_appends_of_two_table_objects(tmp_path: Path) -> None:
    one = create_table(tmp_path / "t", ID)
    other = DeltaTable(tmp_path / "t")
    one.append(ids(1))
    result = other.append(ids(2))
    assert result.version == 2
    assert ids_of(other) == [1, 2]


def test_a_lost_commit_leaves_no_files(tmp_path: Path) -> None:
    one = create_table(tmp_path / "t", ID)
    other = DeltaTable(tmp_path / "t")
    one.append(pa.table({"id": [1], "x": [1]}), schema_mode="merge")
    with pytest.raises(MetadataChangedError, match="version 1 was committed meanwhile, and it changed the metadata"):
        other.append(ids(2))
    assert ids_of(DeltaTable(tmp_path / "t")) == [1]
    assert len(_data_files(tmp_path / "t")) == 1


@pytest.mark.parametrize("pinned", [{"version": 0}, {"timestamp": "2100-01-01"}, {"location_map": {"/a": "/b"}}])
def test_a_pinned_table_is_not_written(tmp_path: Path, pinned: dict[str, Any]) -> None:
    create_table(tmp_path / "t", ID)
    if "timestamp" in pinned:
        pinned = {"timestamp": DeltaTable(tmp_path / "t").timestamp}
    table = DeltaTable(tmp_path / "t", **pinned)
    with pytest.raises(InvalidArgumentError, match=f"opened with {next(iter(pinned))}"):
        table.append(ids(1))


@pytest.mark.req("DL-FEAT-09", half="writer")
def test_an_unknown_feature_is_refused_by_name(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)), protocol=builder.protocol(1, 7, None, ["fooFeature"]))
    assert ids_of(DeltaTable(builder.root)) == [1]
    with pytest.raises(UnsupportedFeatureError, match="fooFeature"):
        DeltaTable(builder.root).append(ids(2))


def test_timestamps_without_a_zone(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", pa.schema([("at", pa.timestamp("us", "UTC"))]))
    naive = pa.table({"at": pa.array([0], pa.timestamp("us"))})
    with pytest.raises(SchemaError, match="timezone="):
        table.append(naive)
    table.append(naive, timezone="Asia/Tokyo")
    assert table.scan().to_arrow()["at"].cast(pa.int64()).to_pylist() == [-9 * 3600 * 1_000_000]
    with pytest.raises(InvalidArgumentError, match="not a time zone"):
        table.append(naive, timezone="Mars")
    nanos = pa.table({"at": pa.array([1], pa.timestamp("ns", "UTC"))})
    with pytest.raises(SchemaError, match="allow_truncation"):
        table.append(nanos)
    assert table.append(nanos, allow_truncation=True).added_rows == 1


def test_files_as_they_are_asked_for(tmp_path: Path) -> None:
    rows = pa.table(
        {"id": pa.array(range(200_000), pa.int64()), "t": [f"{number * 7919 % 200_000}" for number in range(200_000)]}
    )
    table = create_table(tmp_path / "t", rows.schema, properties={"delta.parquet.compression.codec": "zstd"})
    assert table.append(rows, target_file_size=100_000).added_files > 3
    table.append(rows, compression="gzip")
    codecs = {pq.ParquetFile(path).metadata.row_group(0).column(0).compression for path in _data_files(tmp_path / "t")}
    assert codecs == {"ZSTD", "GZIP"}
    assert table.scan().count() == 400_000
    for wrong in ({"compression": "zip"}, {"target_file_size": 0}, {"schema_mode": "widen"}):
        with pytest.raises(InvalidArgumentError, match=r"not a codec|must be merge or|target_file_size must"):
            table.append(rows, **wrong)


def test_what_the_history_says(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, partition_by=None)
    result = table.append(ids(1, 2), user_metadata="nightly")
    assert isinstance(result, CommitResult)
    info = table.history()[0].info
    assert (info["operation"], info["operationParameters"]) == ("WRITE", {"mode": "Append", "partitionBy": "[]"})
    assert info["operationMetrics"]["numOutputRows"] == "2"
    assert (info["isBlindAppend"], info["userMetadata"]) == (True, "nightly")
    assert info["engineInfo"].startswith("deltaberg/")
    assert (result.added_bytes, result.metrics["numFiles"]) == (_data_files(tmp_path / "t")[0].stat().st_size, 1)


def test_in_commit_timestamps(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, properties={"delta.enableInCommitTimestamps": True})
    table.append(ids(1))
    times = [named_actions(tmp_path / "t", version, "commitInfo")[0]["inCommitTimestamp"] for version in (0, 1)]
    assert times[0] < times[1]
    first = json.loads((tmp_path / "t" / "_delta_log" / f"{1:020d}.json").read_text("utf-8").splitlines()[0])
    assert list(first) == ["commitInfo"]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_commit_tells_by_which_road_its_rows_came(tmp_path: Path, format: Any) -> None:
    table = create_table(tmp_path, ids().schema, format=format)
    assert table.append(ids(1, 2)).road == "local"
    assert table.alter().set({"owner": "ada"}).commit().road == ""
