"""Random tables: types, partitions, mapped columns, deletes, evolution. All roads give the rows that pyarrow reads."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaberg import DeltaTable, Scan, open_table
from deltaberg.spark.types import spark_schema
from deltaberg.table.read.scan import bound_scan
from tests.spark.doors import needs_native, unchanged
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field, struct_type
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile
from tests.support.roads import Road, collect, native_plan, rows_of

pytestmark = [pytest.mark.spark, needs_native]

_KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "byte": (pa.int8(), [1, -128]),
    "short": (pa.int16(), [0, 32767]),
    "float": (pa.float32(), [1.5, float("nan"), -0.0]),
    "double": (pa.float64(), [0.1, float("inf")]),
    "text": (pa.string(), ["", "x", "ü €"]),
    "bytes": (pa.binary(), [b"", b"\x00\xff"]),
    "flag": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(2024, 2, 29)]),
    "money": (pa.decimal128(12, 2), [Decimal("0.01"), Decimal("-9999999999.99")]),
    "wide": (pa.decimal128(38, 6), [Decimal("1.000001")]),
    "at": (pa.timestamp("us", "UTC"), [dt.datetime(1582, 10, 10, tzinfo=dt.timezone.utc)]),
    "local": (pa.timestamp("us"), [dt.datetime(2024, 3, 10, 2, 30)]),
    "many": (pa.list_(pa.int64()), [[], [1, None]]),
    "by_name": (pa.map_(pa.string(), pa.float64()), [[], [("k", None)]]),
}
_PARTITIONS = {"p": ("integer", ["1", "-5", None]), "q": ("date", ["2024-02-29", "1400-01-01", None])}


class _Table:
    """A table of random columns; its files name them as the mapping says."""

    def __init__(self, builder: DeltaBuilder, rng: random.Random, mode: str | None) -> None:
        self._rng = rng
        self._mode = mode
        self._numbers = 0
        chosen = rng.sample(sorted(_KINDS), 5)
        inner = [self._field("x", "integer"), self._field("y", "string")]
        columns = [self._field("id", "long"), *(self._field(name, _KINDS[name][0]) for name in chosen)]
        columns += [self._field("s", struct_type(*inner))]
        partitions = [self._field(name, kind) for name, (kind, _) in _PARTITIONS.items()]
        stored = pa.struct([self._stored(inner[0], pa.int32()), self._stored(inner[1], pa.string())])
        kinds = [pa.int64(), *(_KINDS[name][0] for name in chosen), stored]
        self._schema = pa.schema([self._stored(*pair) for pair in zip(columns, kinds, strict=True)])
        self._values = [_KINDS[name][1] for name in chosen]
        self._keys = [self._physical(column) for column in partitions]
        adds = [self._add(builder, number) for number in range(10)]
        configuration = {"delta.columnMapping.maxColumnId": "99"}
        builder.create(
            [*columns, *partitions],
            *adds,
            partition_by=list(_PARTITIONS),
            configuration={} if mode is None else {**configuration, "delta.columnMapping.mode": mode},
            protocol=builder.features("columnMapping", "deletionVectors", "timestampNtz"),
        )

    def _field(self, name: str, kind: Any) -> dict[str, Any]:
        if self._mode is None:
            return field(name, kind)
        self._numbers += 1
        physical = f"col-{self._rng.randrange(1 << 20)}-{self._numbers}"
        ids: dict[str, Any] = {"delta__columnMapping__id": self._numbers}
        return field(name, kind, **ids, delta__columnMapping__physicalName=physical)

    def _physical(self, column: dict[str, Any]) -> str:
        return str(column["metadata"].get("delta.columnMapping.physicalName", column["name"]))

    def _stored(self, column: dict[str, Any], kind: pa.DataType) -> pa.Field:
        number = column["metadata"].get("delta.columnMapping.id")
        return pa.field(self._physical(column), kind, metadata={"PARQUET:field_id": str(number)} if number else None)

    def _add(self, builder: DeltaBuilder, number: int) -> Any:
        rng, count = self._rng, self._rng.randrange(1, 300)
        texts = [f.name for f in self._schema.field(self._schema.names[-1]).type]
        structs = [None, dict.fromkeys(texts), {texts[0]: number, texts[1]: "in"}]
        values = [[1000 * number + row for row in range(count)]]
        values += [[rng.choice([None, *choices]) for _ in range(count)] for choices in [*self._values, structs]]
        arrays = [pa.array(column, child.type) for column, child in zip(values, self._schema, strict=True)]
        gone = sorted(rng.sample(range(count), rng.randrange(count)))
        return builder.add(
            pa.table(arrays, schema=self._schema),
            partition={
                key: rng.choice(choices) for key, (_, choices) in zip(self._keys, _PARTITIONS.values(), strict=True)
            },
            vector=builder.vector(gone, rng.choice("uip")) if gone else None,
            path=f"dir {number}/f.parquet" if number < 3 else None,
            writer={"row_group_size": rng.choice([10, 1000])},
        )


def _scans(table: DeltaTable) -> Iterator[Scan]:
    for condition in (
        None,
        "s.x > 3",
        "q < DATE '2000-01-01' AND NOT s IS NULL",
        "p IS NULL OR id IN (1, 2005)",
        "p <=> s.x",
    ):
        yield table.scan(condition)
        yield table.scan(condition, ["id", "q", "s"])
    yield table.scan("p = 1", ["s.y", "p"])


@pytest.mark.parametrize("mode", [None, "name", "id"])
def test_every_road(builder: DeltaBuilder, spark: Any, rng: random.Random, mode: str | None) -> None:
    _Table(builder, rng, mode)
    table = open_table(builder.root, "delta")
    for scan in _scans(table):
        expected = rows_of(scan.to_arrow())
        assert rows_of(collect(scan.to_spark(spark, road="native"))) == expected, scan
        assert rows_of(collect(scan.to_spark(spark, road="arrow"))) == expected, scan
        fused = scan.map_in_arrow(spark, unchanged, spark_schema(bound_scan(scan).output))
        assert rows_of(collect(fused)) == expected, scan
    assert table.scan(columns=[]).to_spark(spark, road="native").count() == table.scan().count() > 0


def _iceberg(root: Path, rng: random.Random) -> None:
    """Make a table whose columns are renamed, widened, dropped and added again between files, with deleted rows."""
    builder = IcebergBuilder(root, {"id": "long", "a": "int", "b": "string", "p": "int"}, specs=[[_BY_P]])
    files: list[IcebergFile] = []
    ids = itertools.count(5)
    for _ in range(6):
        for _ in range(rng.randrange(1, 3)):
            p, count = rng.choice([1, 2, None]), rng.randrange(1, 200)
            rows = [
                {"id": row, "p": p, **{child["name"]: _value(rng, child["type"]) for child in builder.fields[1:-1]}}
                for row in (1000 * len(files) + number for number in range(count))
            ]
            files.append(builder.data(rows, partition={"p": p}, row_group_size=rng.choice([10, 1000])))
            builder.commit(files[-1])
        if rng.random() < 0.7:
            file = rng.choice(files)
            gone = sorted(rng.sample(range(file.rows), rng.randrange(1, file.rows + 1)))
            builder.commit(builder.position_deletes([(file, place) for place in gone]), operation="delete")
        if rng.random() < 0.2:
            keys = [{"id": 1000 * rng.randrange(len(files)) + rng.randrange(200)} for _ in range(5)]
            deletes = builder.equality_deletes([1], keys, partition=files[-1].partition)
            builder.commit(deletes, operation="delete")
        builder.schemas.append(_evolved(rng, builder.fields, ids))
    builder.commit()


_BY_P = {"source-id": 4, "name": "p", "transform": "identity"}


def _value(rng: random.Random, kind: str) -> Any:
    known: dict[str, list[Any]] = {"int": [1, -(1 << 31)], "long": [1 << 40, 0], "string": ["", "ü"]}
    return rng.choice([None, *known[kind]])


def _evolved(rng: random.Random, fields: list[dict[str, Any]], ids: Iterator[int]) -> list[dict[str, Any]]:
    """Change one of the columns between the first and the last; two may exchange their names."""
    first, *inner, last = (dict(child) for child in fields)
    what = rng.choice(["rename", "swap", "widen", "drop", "add"])
    if what == "rename":
        rng.choice(inner)["name"] = f"new{next(ids)}"
    elif what == "swap":
        inner[0]["name"], inner[-1]["name"] = inner[-1]["name"], inner[0]["name"]
    elif what == "widen" and any(child["type"] == "int" for child in inner):
        next(child for child in inner if child["type"] == "int")["type"] = "long"
    elif what == "drop" and len(inner) > 1:
        inner.pop(rng.randrange(len(inner)))
    else:
        taken = {child["name"] for child in inner}
        name = next(name for name in ("a", "b", "c", f"d{len(inner)}") if name not in taken)
        inner.append({"id": next(ids), "name": name, "required": False, "type": rng.choice(["int", "string"])})
    return [first, *inner, last]


@pytest.mark.req("ICE-SCAN-12")
def test_every_road_of_iceberg(spark: Any, rng: random.Random, tmp_path: Path) -> None:
    road, native = Road("spark", spark), 0
    for number in range(3):
        _iceberg(tmp_path / str(number), rng)
        table = open_table(tmp_path / str(number))
        chosen = rng.sample(table.schema.names, rng.randrange(1, len(table.schema)))
        for scan in (table.scan(), table.scan("p = 1 OR id > 2500"), table.scan("p IS NULL", [*chosen, "_pos"])):
            expected = rows_of(scan.to_arrow())
            assert rows_of(road.table(scan)) == expected, scan
            assert rows_of(road.fused(scan, unchanged, spark_schema(bound_scan(scan).output))) == expected, scan
            native += pc.sum(native_plan(scan, spark, forced=True).files).as_py() or 0
    assert native > 0
