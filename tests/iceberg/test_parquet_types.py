"""Types in Parquet data files: what the footer says about them, and the values that are read."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import IcebergTable, open_table
from deltaberg.errors import SchemaError
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.schema.types import Primitive
from deltaberg.schema.variants.values import variant_to_json
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile, arrow_of, iceberg_fields
from tests.support.roads import by_every_road


def _with_file(
    root: Path, types: Mapping[str, str], rows: pa.Table, version: int = 2
) -> tuple[IcebergTable, pq.ParquetSchema]:
    """Return a table of one file, and the schema in the footer of the file."""
    builder = IcebergBuilder(root / "t", types, format_version=version)
    path = builder.root / "data" / "file.parquet"
    pq.write_table(rows, path)
    builder.commit(IcebergFile(str(path), len(rows), path.stat().st_size))
    return open_table(builder.root, "iceberg"), pq.ParquetFile(path).schema


def _rows(types: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), arrow_of(iceberg_fields(**types)))


def _numbered(types: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return fields with ids from 1 on."""
    return pa.schema(
        [
            pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
            for number, (name, kind) in enumerate(types.items(), start=1)
        ]
    )


@by_every_road
@pytest.mark.req("ICE-PQ-02", half="reader")
def test_numbers(tmp_path: Path) -> None:
    types = {"i": "int", "l": "long", "f": "float", "d": "double", "b": "boolean"}
    rows: list[dict[str, Any]] = [
        {"i": -(1 << 31), "l": -(1 << 63), "f": -3.4028234663852886e38, "d": -1.7976931348623157e308, "b": False},
        {"i": (1 << 31) - 1, "l": (1 << 63) - 1, "f": 1.401298464324817e-45, "d": 5e-324, "b": True},
        {"i": 0, "l": 0, "f": math.nan, "d": math.nan, "b": True},
        {"i": 1, "l": 1, "f": -0.0, "d": -0.0, "b": None},
        {"i": None, "l": None, "f": math.inf, "d": -math.inf, "b": None},
    ]
    table, footer = _with_file(tmp_path, types, _rows(types, rows))
    physical = [footer.column(index).physical_type for index in range(5)]
    assert physical == ["INT32", "INT64", "FLOAT", "DOUBLE", "BOOLEAN"]
    assert {footer.column(index).logical_type.type for index in range(5)} == {"NONE"}
    found = table.scan().to_arrow()
    assert found.schema.types == [pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_()]
    # As text: NaN equals nothing, and 0 equals -0.
    assert [str(row) for row in found.to_pylist()] == [str(row) for row in rows]


_UUID = bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")


@by_every_road
@pytest.mark.req("ICE-PQ-05", half="reader")
@pytest.mark.parametrize("annotated", [True, False])
def test_text_and_bytes(tmp_path: Path, annotated: bool) -> None:
    """Older versions of pyarrow do not write the annotation of uuids."""
    if annotated and not hasattr(pa, "uuid"):
        pytest.skip("this pyarrow has no uuids")
    types = {"s": "string", "u": "uuid", "f": "fixed[5]", "b": "binary"}
    rows: list[dict[str, Any]] = [
        {"s": "日本 \U0001f388", "u": _UUID, "f": b"\0\1\2\3\4", "b": b"\xff\xfe"},
        dict.fromkeys(types),
    ]
    stored = _rows(types, rows)
    if annotated:
        field = pa.field("u", pa.uuid(), metadata=stored.schema.field("u").metadata)
        stored = stored.set_column(1, field, stored.column("u").cast(pa.uuid()))
    table, footer = _with_file(tmp_path, types, stored)
    found = [(footer.column(index).physical_type, footer.column(index).length) for index in range(4)]
    assert found == [("BYTE_ARRAY", 0), ("FIXED_LEN_BYTE_ARRAY", 16), ("FIXED_LEN_BYTE_ARRAY", 5), ("BYTE_ARRAY", 0)]
    logical = [footer.column(index).logical_type.type for index in range(4)]
    assert logical == ["STRING", "UUID" if annotated else "NONE", "NONE", "NONE"]
    assert table.scan().to_arrow().schema.types == [pa.string(), pa.binary(16), pa.binary(5), pa.binary()]
    assert table.scan().to_arrow().to_pylist() == rows
    assert table.scan("b = X'fffe' AND f = X'0001020304'").count() == 1


@by_every_road
@pytest.mark.req("ICE-BIN-10", half="reader")
def test_bounds_of_nested_columns_are_none(tmp_path: Path) -> None:
    """Bounds that a writer stores anyway are not used; those of a struct's fields are."""
    long = {"required": False, "type": "long"}
    inner = {"type": "struct", "fields": [{"id": 2, "name": "x", **long}]}
    listed = {"type": "list", "element-id": 4, "element-required": False, "element": "long"}
    mapped = {
        "type": "map", "key-id": 6, "key": "string", "value-id": 7, "value-required": False, "value": "long"
    }  # fmt: skip
    kinds = {1: ("s", inner), 3: ("l", listed), 5: ("m", mapped)}
    fields = [{"id": number, "name": name, "required": False, "type": kind} for number, (name, kind) in kinds.items()]
    builder = IcebergBuilder(tmp_path / "t", fields)
    bounds = {number: struct.pack("<q", 5) for number in (1, 3, 4, 5, 6, 7)} | {2: struct.pack("<q", 1)}
    metrics: dict[str, dict[int, Any]] = {"lower_bounds": bounds, "upper_bounds": bounds}
    rows = [{"s": {"x": 1}, "l": [1], "m": [("k", 1)]}]
    builder.commit(builder.data(rows, metrics={**metrics, "null_value_counts": {1: 0, 2: 0, 3: 0, 5: 0}}))
    table = open_table(builder.root, "iceberg", validate=True)
    assert table.scan().to_arrow().to_pylist() == rows
    for condition, files in (("l IS NOT NULL", 1), ("m IS NOT NULL", 1), ("s.x = 1", 1), ("s.x = 5", 0)):
        assert len(table.scan(condition).files()) == files, condition
        assert table.scan(condition).count() == files
    shown = table.scan().files(statistics=True).to_pylist()[0]
    assert (shown["lower_bounds"], shown["upper_bounds"]) == ({"s.x": 1}, {"s.x": 1})


@by_every_road
@pytest.mark.req("BEY-36", half="reader")
def test_nanoseconds(tmp_path: Path) -> None:
    types = {"wall": "timestamp_ns", "instant": "timestamptz_ns"}
    numbers = [1510871468000001001, -1, -(1 << 63) + 1, None]
    kinds = [pa.timestamp("ns"), pa.timestamp("ns", "UTC")]
    schema = _numbered(dict(zip(types, kinds, strict=True)))
    arrays = [pa.array(numbers, pa.int64()).cast(kind) for kind in kinds]
    table, footer = _with_file(tmp_path, types, pa.Table.from_arrays(arrays, schema=schema), version=3)
    for index in (0, 1):
        logical = json.loads(footer.column(index).logical_type.to_json())
        assert (logical["Type"], logical["timeUnit"]) == ("Timestamp", "nanoseconds")
        assert logical["isAdjustedToUTC"] is bool(index)
    found = table.scan().to_arrow()
    assert found.schema.types == kinds
    assert [column.cast(pa.int64()).to_pylist() for column in found.columns] == [numbers, numbers]
    assert table.scan("wall = TIMESTAMP '2017-11-16 22:31:08.000001001'").count() == 1
    assert table.scan("wall = TIMESTAMP '2017-11-16 22:31:08.000001'").count() == 0
    assert table.scan("instant < TIMESTAMP '1970-01-01 00:00:00Z'").count() == 2


_EMPTY = b"\x01\x00\x00"
#: The numbers 1 and 2 of 8 bits, null, and a text.
_VALUES = [b"\x0c\x01", b"\x0c\x02", b"\x00", b"\x09hi"]


def _variants() -> pa.Table:
    parts = [pa.array([_EMPTY] * 4, pa.binary()), pa.array(_VALUES, pa.binary())]
    fields = [pa.field(name, pa.binary(), nullable=False) for name in ("metadata", "value")]
    group = pa.StructArray.from_arrays(parts, fields=fields)
    schema = _numbered({"id": pa.int64(), "v": group.type})
    return pa.Table.from_arrays([pa.array(range(4), pa.int64()), group], schema=schema)


@by_every_road
@pytest.mark.req("BEY-37", half="reader")
def test_variants(tmp_path: Path) -> None:
    table, footer = _with_file(tmp_path, {"id": "long", "v": "variant"}, _variants(), version=3)
    # The group has an id, its parts have none.
    assert "field_id=2 v" in str(footer)
    assert "field_id=-1 metadata" in str(footer)
    found = table.scan("id >= 0").to_arrow().column("v").to_pylist()
    assert [variant_to_json(row["metadata"], row["value"]) for row in found] == ["1", "2", "null", '"hi"']
    assert [(row["metadata"], row["value"]) for row in found] == [(_EMPTY, value) for value in _VALUES]


@by_every_road
@pytest.mark.req("BEY-37", half="reader")
@pytest.mark.parametrize("transform", ["identity", "bucket[4]", "truncate[2]"])
def test_nothing_is_partitioned_by_variants(tmp_path: Path, transform: str) -> None:
    with pytest.raises(SchemaError, match="variant"):
        parse_transform(transform).apply(_variants().column("v").combine_chunks(), Primitive("variant"))
    # A table that says so all the same has its variants in its files.
    specs = [[{"source-id": 2, "name": "p", "transform": transform}]]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "v": "long"}, format_version=3, specs=specs)
    file = builder.data([{"id": 1, "v": 1}], partition={"p": 1})
    builder.commit(file)
    builder.schemas = [iceberg_fields(id="long", v="variant")]
    pq.write_table(_variants(), file.path)
    builder.write()
    found = open_table(builder.root).scan("id < 2").to_arrow().to_pylist()
    assert found == [{"id": row, "v": {"metadata": _EMPTY, "value": _VALUES[row]}} for row in (0, 1)]
