"""Types that only Iceberg has, on the roads to Spark: read as iceberg-spark reads them, or refused by name."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import SchemaError, UnsupportedFeatureError
from deltaberg.iceberg import IcebergTable
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.spark import register
from tests.spark.doors import needs_data_sources
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.roads import collect

pytestmark = pytest.mark.spark

_UUIDS = [uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), uuid.UUID(int=0), None, uuid.UUID(int=(1 << 128) - 1)]
_BYTES = [None if one is None else one.bytes for one in _UUIDS]
_TEXTS = [None if one is None else str(one) for one in _UUIDS]


@pytest.fixture
def builder(tmp_path: Path) -> IcebergBuilder:
    """A table of UUIDs and fixed bytes, some of them nested."""
    inner = [
        {"id": 11, "name": "u", "required": False, "type": "uuid"},
        {"id": 12, "name": "f", "required": False, "type": "fixed[16]"},
    ]
    fields = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "u", "required": False, "type": "uuid"},
        {"id": 3, "name": "f", "required": False, "type": "fixed[16]"},
        {"id": 4, "name": "s", "required": False, "type": {"type": "struct", "fields": inner}},
        {
            "id": 5,
            "name": "l",
            "required": False,
            "type": {"type": "list", "element-id": 13, "element-required": False, "element": "uuid"},
        },
        {
            "id": 6,
            "name": "m",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 14,
                "key": "fixed[16]",
                "value-id": 15,
                "value-required": False,
                "value": "uuid",
            },
        },
    ]
    table = IcebergBuilder(tmp_path / "t", fields)
    rows: list[dict[str, Any]] = [
        {"id": number, "u": one, "f": one, "s": {"u": one, "f": one}, "l": [one, None], "m": [(b"k" * 16, one)]}
        for number, one in enumerate(_BYTES)
    ]
    table.commit(table.data([*rows, {"id": len(rows)}]))
    return table


def _check(frame: Any) -> None:
    assert [kind for _, kind in frame.dtypes] == [
        "bigint",
        "string",
        "binary",
        "struct<u:string,f:binary>",
        "array<string>",
        "map<binary,string>",
    ]
    rows = sorted(collect(frame).to_pylist(), key=lambda row: row["id"])
    assert [row["u"] for row in rows] == [*_TEXTS, None]
    assert [row["f"] for row in rows] == [*_BYTES, None]
    expected = [{"u": text, "f": data} for text, data in zip(_TEXTS, _BYTES, strict=True)]
    assert [row["s"] for row in rows] == [*expected, None]
    assert [row["l"] for row in rows] == [*[[text, None] for text in _TEXTS], None]
    assert [row["m"] for row in rows] == [*[[(b"k" * 16, text)] for text in _TEXTS], None]


def test_uuids_and_fixed_bytes(builder: IcebergBuilder, spark: Any) -> None:
    table = open_table(builder.root)
    _check(table.scan().to_spark(spark))
    assert collect(table.scan(f"u = '{_UUIDS[0]}'", columns=["u"]).to_spark(spark))["u"].to_pylist() == _TEXTS[:1]


@needs_data_sources
def test_uuids_by_the_data_source(builder: IcebergBuilder, spark: Any) -> None:
    register(spark)
    frame = spark.read.format("iceberg").load(str(builder.root))
    _check(frame)
    assert frame.where(f"u > '{_TEXTS[1]}'").count() == 2


@pytest.mark.parametrize("kind", ["time", "timestamp_ns", "timestamptz_ns"])
def test_types_that_spark_lacks(tmp_path: Path, kind: str, spark: Any) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "x": kind}, format_version=3)
    builder.commit(builder.data([{"id": 1}], fields=builder.fields[:1]))
    table = open_table(builder.root)
    with pytest.raises(UnsupportedFeatureError, match="Spark has no type for time"):
        table.scan().to_spark(spark)
    assert table.scan(columns=["id"]).to_spark(spark).count() == 1


_PARTITIONS = pytest.mark.parametrize("partition_by", [None, ["u", "f", "bucket(4, s.u)"]], ids=["whole", "parted"])


@needs_data_sources
@_PARTITIONS
def test_what_spark_reads_it_writes(
    builder: IcebergBuilder, spark: Any, tmp_path: Path, partition_by: list[str] | None
) -> None:
    """Rows of one table go to another one by each way that Spark has: UUIDs are text on the way."""
    register(spark)
    kept = open_table(builder.root).scan(columns=["id", "u", "f", "s", "l"]).to_arrow()
    columns = Struct(tuple(child for child in open_table(builder.root).schema if child.name != "m"))
    table: IcebergTable = create_table(tmp_path / "c", columns, format="iceberg", partition_by=partition_by)
    frame = spark.read.format("iceberg").option("columns", "id,u,f,s,l").load(str(builder.root))
    frame.write.format("iceberg").mode("append").save(str(tmp_path / "c"))

    def check() -> None:
        assert table.refresh().scan().to_arrow().sort_by("id").equals(kept.sort_by("id"))

    check()
    table.delete("id >= 0")
    table.append(frame)
    check()
    table.upsert(frame, "id")
    check()
    merge = table.merge(frame, "target.id = source.id AND target.u <=> source.u AND target.f <=> source.f")
    merge.when_matched_update_all().execute()
    check()
    table.on_spark(spark).merge(frame, "target.u = source.u").when_matched_update_all().execute()
    check()
    table.delete_by_keys(frame.select("u"))
    assert table.refresh().scan().count() == 0


def test_text_that_is_no_uuid_is_named(spark: Any, tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", Struct((Field("u", Primitive("uuid")),)), format="iceberg")
    frame = spark.createDataFrame([("f79c3e09",)], "u string")
    with pytest.raises(SchemaError, match="'f79c3e09' is not written like"):
        table.append(frame)
    with pytest.raises(SchemaError, match="'f79c3e09' is not written like"):
        table.upsert(frame, "u")
