"""``spark.read.format("iceberg")`` without a jar: options, snapshots, changes and errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import InvalidArgumentError
from deltaberg.spark.source.iceberg_options import IcebergReadOptions
from tests.spark.doors import needs_data_sources, register
from tests.support.iceberg_builder import IcebergBuilder

pytestmark = [pytest.mark.spark, needs_data_sources]


@pytest.fixture
def table(tmp_path: Path) -> IcebergBuilder:
    """A table with three snapshots: a and b; a, b and c; a and c. A branch adds d, and a tag names the second one."""
    spec = [{"source-id": 1, "name": "id_bucket", "transform": "bucket[4]"}]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "name": "string"}, specs=[spec])
    first = builder.data([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], partition={"id_bucket": 0})
    builder.commit(first)
    builder.commit(builder.data([{"id": 3, "name": "c"}], partition={"id_bucket": 1}))
    builder.commit(builder.position_deletes([(first, 1)]), operation="delete")
    builder.refs["second"] = {"snapshot-id": 1001, "type": "tag"}
    builder.refs["side"] = {"snapshot-id": 1002, "type": "branch"}
    builder.commit(builder.data([{"id": 4, "name": "d"}], partition={"id_bucket": 2}), branch="side")
    return builder


def _names(frame: Any) -> str:
    return "".join(sorted(row["name"] for row in frame.collect()))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, "ac"),
        ({"snapshot-id": 1000}, "ab"),
        ({"SNAPSHOT-ID": "1001"}, "abc"),
        ({"as-of-timestamp": 1_700_000_000_000 + 1_001_500}, "abc"),
        ({"branch": "side"}, "acd"),
        ({"tag": "second"}, "abc"),
        ({"start-snapshot-id": 1000}, "c"),
        ({"start-snapshot-id": 1000, "end-snapshot-id": 1001}, "c"),
        ({"changes": "true", "start-snapshot-id": 1000}, "bc"),
        ({"changes": "true"}, "abbc"),
        ({"changes": "true", "net-changes": "true"}, "ac"),
        ({"changes": "true", "identifier-columns": "id, name"}, "abbc"),
        ({"filter": "id > 1"}, "c"),
        ({"columns": "name", "batchSize": "1"}, "ac"),
    ],
)
def test_rows(options: Mapping[str, Any], names: str, spark: Any, table: IcebergBuilder) -> None:
    frame = register(spark).read.format("iceberg").options(**options).load(str(table.root))
    assert _names(frame) == names


def test_a_metadata_file_and_a_view(spark: Any, table: IcebergBuilder) -> None:
    register(spark)
    older = table.root / "metadata" / "v1.metadata.json"
    assert _names(spark.read.format("iceberg").load(str(older))) == "ab"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW berg USING iceberg OPTIONS (path '{table.root}')")
    assert [tuple(row) for row in spark.sql("SELECT count(*), max(id) FROM berg").collect()] == [(2, 3)]


def test_the_snapshot_is_pinned(spark: Any, table: IcebergBuilder) -> None:
    """The tasks read the snapshot that Spark planned, even if the table has changed since."""
    frame = register(spark).read.format("iceberg").load(str(table.root))
    assert frame.schema.names == ["id", "name"]
    table.commit(table.data([{"id": 9, "name": "z"}], partition={"id_bucket": 3}))
    assert _names(frame) == "ac"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"snapshot-id": "1", "branch": "main"}, "cannot be used together"),
        ({"snapshot-id": "1", "start-snapshot-id": "1"}, "cannot be used together"),
        ({"end-snapshot-id": "1"}, "needs start-snapshot-id"),
        ({"snapshot-id": "one"}, "snapshot-id must be an integer, not 'one'"),
        ({"location-map": "here"}, "location-map"),
        ({"net-changes": "true"}, "net-changes needs changes"),
        ({"versionAsOf": "1"}, "has no option versionAsOf"),
    ],
)
def test_options_that_contradict(options: dict[str, str], message: str, table: IcebergBuilder) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        IcebergReadOptions({"path": str(table.root), **options}).scan()


def test_the_fused_road(spark: Any, table: IcebergBuilder) -> None:
    """The function gets batches of exactly the scan's schema, with deletes applied and metadata columns filled."""
    scan = open_table(table.root).scan(columns=["id", "_pos", "_spec_id"])

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            assert batch.schema.names == ["id", "_pos", "_spec_id"]
            yield pa.record_batch({"id": batch.column("id"), "pos": batch.column("_pos")})

    rows = scan.map_in_arrow(spark, count, "id long, pos long").collect()
    assert sorted(tuple(row) for row in rows) == [(1, 0), (3, 0)]
