"""Data files of Iceberg tables in Parquet, ORC and Avro, as the property of the table says."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc
from pyiceberg.table import StaticTable

from deltaberg import ParquetOptions, create_table, open_table
from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError
from deltaberg.schema.from_arrow import as_table_schema
from deltaberg.schema.types import Field, Fixed, Primitive, Struct

pytestmark = pytest.mark.one_backend

_UTC = dt.timezone.utc
_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.bool_(), [True, False]),
    "i": (pa.int32(), [-1, 2]),
    "l": (pa.int64(), [1 << 40, -5]),
    "f": (pa.float32(), [1.5, float("nan")]),
    "g": (pa.float64(), [-0.0, 2.5]),
    "n": (pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-3.50")]),
    "w": (pa.decimal128(30, 4), [Decimal("12345678901234567890.1234"), Decimal(0)]),
    "d": (pa.date32(), [dt.date(1960, 1, 1), dt.date(2026, 1, 2)]),
    "z": (pa.timestamp("us", "UTC"), [dt.datetime(2026, 1, 2, tzinfo=_UTC), dt.datetime(1950, 1, 1, tzinfo=_UTC)]),
    "y": (pa.timestamp("us"), [dt.datetime(2026, 1, 2, 3, 4, 5, 6), dt.datetime(1950, 1, 1)]),
    "s": (pa.string(), ["ä" * 20, ""]),
    "x": (pa.binary(), [b"\xff", b""]),
    "r": (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": None}, {"a": None, "b": "x"}]),
    "k": (pa.list_(pa.string()), [["a", None], []]),
    "m": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [("b", None)]]),
    "o": (pa.map_(pa.int32(), pa.struct([("a", pa.date32())])), [[(1, {"a": dt.date(2020, 1, 1)})], []]),
}
#: Types that Arrow does not tell, or has no names for.
_OTHERS: dict[str, tuple[Any, pa.DataType, list[Any]]] = {
    "t": (Primitive("time"), pa.time64("us"), [dt.time(1, 2, 3, 4), dt.time(0)]),
    "c": (Fixed(3), pa.binary(3), [b"abc", b"\x00\x01\x02"]),
    "u": (Primitive("uuid"), pa.binary(16), [bytes(range(16)), bytes(16)]),
}
_COLUMNS = Struct(
    (
        Field("id", Primitive("long"), nullable=False),
        *as_table_schema(pa.schema([(name, kind) for name, (kind, _) in _VALUES.items()])),
        *(Field(name, kind) for name, (kind, _, _) in _OTHERS.items()),
    )
)


def _rows() -> pa.Table:
    columns = {name: pa.array([*values, None], kind) for name, (kind, values) in _VALUES.items()}
    others = {name: pa.array([*values, None], kind) for name, (_, kind, values) in _OTHERS.items()}
    return pa.table({"id": [1, 2, 3], **columns, **others})


def _shown(rows: pa.Table) -> list[str]:
    return [repr(row) for row in rows.sort_by("id").to_pylist()]


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_slices_of_rows_are_stored_as_they_are(tmp_path: Path, form: str) -> None:
    """pyarrow's writer of ORC files stores the fields of other rows where structs are a slice of an array."""
    structs = pa.array([{"a": number, "b": {"c": str(number)}} if number % 5 else None for number in range(12)])
    within = pa.ListArray.from_arrays(pa.array([0, 2, 2, 5], pa.int32()), structs.slice(6, 5))
    mapped = pa.MapArray.from_arrays(pa.array([0, 1, 1, 3], pa.int32()), pa.array([1, 2, 3]), structs.slice(3, 3))
    rows = pa.table({"id": [1, 2, 3], "s": structs.slice(9), "k": within, "m": mapped})
    table = create_table(tmp_path / "t", rows.schema, format="iceberg", properties={"write.format.default": form})
    table.append(rows)
    table.append(rows.slice(2))
    first, second, third = rows.to_pylist()
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [first, second, third, third]


@pytest.mark.parametrize("codec", ["default", "zstd", "snappy", "uncompressed"])
@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_files_have_the_format_of_the_table(tmp_path: Path, form: str, codec: str) -> None:
    properties = {"write.format.default": form}
    if codec != "default":
        properties[f"write.{form}.compression-codec"] = codec
    table = create_table(
        tmp_path / "t", _COLUMNS, format="iceberg", partition_by=["truncate(1, s)"], properties=properties
    )
    done = table.append(_rows())
    files = table.inspect("files").to_pylist()
    assert (done.added_files, {row["file_format"] for row in files}) == (3, {form.upper()})
    assert all(row["file_path"].endswith(f".{form}") for row in files)
    assert all((row["split_offsets"] is not None) == (form == "parquet") for row in files)
    assert _shown(table.scan().to_arrow()) == _shown(_rows())
    assert _shown(open_table(tmp_path / "t", "iceberg", validate=True).scan("l < 0").to_arrow()) == _shown(
        _rows().slice(1, 1)
    )
    assert table.scan("id > 2").files().num_rows == 1
    if form == "avro":
        for row in files:
            with open(row["file_path"], "rb") as file:
                read = fastavro.reader(file)
                assert read.codec == {"default": "deflate", "zstd": "zstandard", "uncompressed": "null"}.get(
                    codec, codec
                )
                assert len(list(read)) == 1
    else:
        theirs = StaticTable.from_metadata(table.metadata_location).scan(selected_fields=("id", "l", "s", "d", "k"))
        wanted = ["id", "l", "s", "d", "k"]
        assert _shown(theirs.to_arrow().select(wanted)) == _shown(_rows().select(wanted))
    if form == "orc":
        (first, *_) = files
        assert orc.ORCFile(first["file_path"]).compression == {
            "default": "ZLIB",
            "uncompressed": "UNCOMPRESSED",
        }.get(codec, codec.upper())


@pytest.mark.parametrize("form", ["orc", "avro"])
def test_formats_mix_in_a_table(tmp_path: Path, form: str) -> None:
    columns = pa.schema([("id", pa.int64()), ("x", pa.string())])
    properties = {"format-version": "3", "write.format.default": form}
    table = create_table(tmp_path / "t", columns, format="iceberg", sort_by="id desc", properties=properties)
    rows = pa.table({"id": list(range(3000)), "x": [f"text {number}" for number in range(3000)]})
    table.append(rows.to_reader(max_chunksize=500), target_file_size=4000)
    table.append(pa.table({"id": [1], "x": [None]}, schema=columns))
    before = (
        table.scan(columns=["_row_id", "id", "x"]).to_arrow().sort_by([("id", "ascending"), ("_row_id", "ascending")])
    )
    table.alter().set({"write.format.default": "parquet"}).commit()
    done = table.compact()
    assert done.removed_files > 1
    after = (
        table.scan(columns=["_row_id", "id", "x"]).to_arrow().sort_by([("id", "ascending"), ("_row_id", "ascending")])
    )
    assert after.equals(before)
    assert {row["file_format"] for row in table.inspect("files").to_pylist()} == {"PARQUET"}
    table.alter().set({"write.format.default": form}).commit()
    with pytest.raises(InvalidArgumentError, match="about Parquet files"):
        table.append(rows, writer_properties=ParquetOptions())


def test_what_no_reader_holds_is_refused(tmp_path: Path) -> None:
    for name, kind in (("a", pa.timestamp("us")), ("b", pa.list_(pa.struct([("x", pa.timestamp("us", "UTC"))])))):
        table = create_table(
            tmp_path / name, pa.schema([("v", kind)]), format="iceberg", properties={"write.format.default": "orc"}
        )
        for year in (1600, 2300):
            value = dt.datetime(year, 1, 1, tzinfo=None if name == "a" else _UTC)
            with pytest.raises(SchemaError, match="before 1677 or after 2262"):
                table.append(pa.table({"v": pa.array([value if name == "a" else [{"x": value}]], kind)}))
        for micros in (-1, -500_000, -1_500_000):
            value = dt.datetime(1970, 1, 1, tzinfo=None if name == "a" else _UTC) + dt.timedelta(microseconds=micros)
            with pytest.raises(SchemaError, match="before 1970 has a fraction of a second"):
                table.append(pa.table({"v": pa.array([value if name == "a" else [{"x": value}]], kind)}))
        assert not list((tmp_path / name / "data").rglob("*.orc"))
        values = [
            dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=None if name == "a" else _UTC),
            dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=None if name == "a" else _UTC),
            None,
        ]
        rows = pa.table({"v": pa.array([value if name == "a" else [{"x": value}] for value in values], kind)})
        table.append(rows)
        assert table.scan().to_arrow().equals(rows)
    with pytest.raises(UnsupportedFeatureError, match="format 'csv' are not written"):
        create_table(tmp_path / "c", {"v": pa.int64()}, format="iceberg", properties={"write.format.default": "csv"})
