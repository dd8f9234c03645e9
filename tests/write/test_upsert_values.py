"""Values of rows that are upserted: they become those of the table's columns before anything is compared."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import ColumnNotFoundError, ConstraintViolationError, SchemaError

_UTC = pa.timestamp("us", "UTC")
_NOON = dt.datetime(2026, 11, 22, 12)


def _keyed(root: Path, kind: pa.DataType) -> DeltaTable:
    return create_table(root, pa.schema([("k", kind), ("v", pa.int64())]))


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (pa.int64(), pa.array([1.5])),
        (pa.int32(), pa.array([1 << 40])),
        (pa.decimal128(5, 1), pa.array([Decimal("1.55")])),
        (pa.float32(), pa.array([1.1])),
        (pa.date32(), pa.array([_NOON], _UTC)),
        (pa.date32(), pa.array([_NOON], pa.timestamp("us"))),
        (_UTC, pa.array([1001], pa.timestamp("ns", "UTC"))),
        (_UTC, pa.array([_NOON], pa.timestamp("us"))),
        (pa.string(), pa.array([1])),
    ],
    ids=str,
)
def test_what_an_append_refuses_an_upsert_refuses(tmp_path: Path, kind: pa.DataType, keys: pa.Array) -> None:
    table = _keyed(tmp_path / "t", kind)
    rows = pa.table({"k": keys, "v": [1]})
    with pytest.raises(SchemaError) as appended:
        table.append(rows)
    for when in ("update", "ignore"):
        with pytest.raises(SchemaError) as upserted:
            table.upsert(rows, "k", when_matched=when)
        assert upserted.value.context["column"] == "k"
        assert upserted.value.message == appended.value.message
    values = create_table(tmp_path / "values", pa.schema([("id", pa.int64()), ("k", kind)]))
    with pytest.raises(SchemaError, match=r"cannot be written|does not fit"):
        values.upsert(pa.table({"id": [1], "k": keys}), "id")
    assert (table.refresh().version, values.refresh().version) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (pa.int64(), pa.array([1, 2], pa.int8())),
        (pa.int32(), pa.array([1, 2], pa.int64())),
        (pa.decimal128(5, 2), pa.array([Decimal("1.5"), Decimal("2.5")], pa.decimal128(3, 1))),
        (pa.float64(), pa.array([1.5, 2.5], pa.float32())),
        (_UTC, pa.array([1000, 2000], pa.timestamp("ns", "UTC"))),
        (pa.string(), pa.array(["a", "b"]).dictionary_encode()),
    ],
    ids=str,
)
def test_keys_that_stay_the_same_are_converted(tmp_path: Path, kind: pa.DataType, keys: pa.Array) -> None:
    table = _keyed(tmp_path / "t", kind)
    for value in (1, 2):
        table.upsert(pa.table({"K": keys, "V": pa.array([value, value], pa.int8())}), "k")
    rows = table.scan().to_arrow()
    assert (rows.num_rows, rows["v"].to_pylist()) == (2, [2, 2])
    with pytest.raises(ConstraintViolationError, match="the same key"):
        table.upsert(pa.table({"k": pa.concat_arrays([keys, keys])}), "k")


def test_times_without_a_zone_are_keys_in_the_zone_that_is_given(tmp_path: Path) -> None:
    table = _keyed(tmp_path / "t", _UTC)
    rows = pa.table({"k": pa.array([_NOON]), "v": [1]})
    for _ in range(2):
        table.upsert(rows, "k", timezone="Europe/Berlin")
    assert table.scan().to_arrow()["k"].to_pylist() == [_NOON.replace(hour=11, tzinfo=dt.timezone.utc)]


def test_digits_that_may_be_cut_off_are_cut_off_before_keys_are_compared(tmp_path: Path) -> None:
    table = _keyed(tmp_path / "t", _UTC)
    near = pa.table({"k": pa.array([1001, 1002], pa.timestamp("ns", "UTC"))})
    with pytest.raises(ConstraintViolationError, match="the same key"):
        table.upsert(near, "k", allow_truncation=True)
    for _ in range(2):
        table.upsert(near.slice(0, 1), "k", allow_truncation=True)
    assert table.scan().to_arrow().num_rows == 1


def test_columns_that_must_not_be_null_may_be_null_in_rows_that_are_not_written(tmp_path: Path) -> None:
    columns = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.int64(), nullable=False)])
    table = create_table(tmp_path / "t", columns)
    table.append(pa.table({"k": [1], "v": [1]}, columns))
    rows = pa.table({"k": [1], "v": pa.nulls(1, pa.int64())})
    with pytest.raises(ConstraintViolationError, match="must not be null"):
        table.upsert(rows, "k")
    table.upsert(rows, "k", when_matched="ignore")
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": 1}]


def test_structs_are_matched_by_name_and_keep_the_fields_that_rows_lack(tmp_path: Path) -> None:
    inner = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    table = create_table(tmp_path / "t", pa.schema([("k", pa.int64()), ("s", inner), ("l", pa.list_(inner))]))
    table.append(pa.table({"k": [1], "s": [{"x": 1, "y": 2}], "l": [[{"x": 1, "y": 2}]]}))
    with pytest.raises(SchemaError, match=r"lack the field element\.y"):
        table.upsert(pa.table({"k": [1], "l": [[{"x": 5}]]}), "k")
    table.upsert(pa.table({"k": [1], "s": [{"y": 5, "x": 6}]}), "k")
    table.upsert(pa.table({"k": [1, 3], "s": [{"X": 8}, {"X": 9}]}), "k")
    table.upsert(pa.table({"k": [2], "s": [{"x": 7}]}), "k", when_matched="ignore")
    assert table.scan().to_arrow().sort_by("k").to_pylist() == [
        {"k": 1, "s": {"x": 8, "y": 5}, "l": [{"x": 1, "y": 2}]},
        {"k": 2, "s": {"x": 7, "y": None}, "l": None},
        {"k": 3, "s": {"x": 9, "y": None}, "l": None},
    ]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
@pytest.mark.parametrize("keys", ["s.x", [("S", "x")], ["s.x", "id"]], ids=str)
def test_keys_are_fields_of_structs(tmp_path: Path, table_format: Any, keys: Any) -> None:
    """Rows with their values match, the other fields keep theirs, and a key in a null is null."""
    kind = pa.struct([("x", pa.int64()), ("y", pa.string())])
    table = create_table(tmp_path / "t", pa.schema([("id", pa.int64()), ("s", kind)]), format=table_format)
    table.append(pa.table({"id": [1, 1], "s": [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]}))
    table.append(pa.table({"id": [9, 9], "s": pa.array([{"x": None, "y": "n"}, None], kind)}))
    result = table.upsert(pa.table({"id": [1, 1], "s": [{"x": 2}, {"x": 3}]}), keys)
    names = ("numTargetRowsUpdated", "numTargetRowsInserted")
    # The row that matches would stay as it is.
    assert [result.metrics[name] for name in names] == [0, 1]
    rows = table.scan("id = 1").to_arrow()["s"].to_pylist()
    assert sorted(rows, key=str) == [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}, {"x": 3, "y": None}]
    assert table.scan().count() == 5
    for row in ({"x": None, "y": "n"}, None):
        with pytest.raises(ConstraintViolationError, match=r"the key s\.x is null"):
            table.upsert(pa.table({"id": [1], "s": pa.array([row], kind)}), keys)
    with pytest.raises(ConstraintViolationError, match="the same key"):
        table.upsert(pa.table({"id": [1, 1], "s": [{"x": 7, "y": "a"}, {"x": 7, "y": "b"}]}), keys)
    with pytest.raises(ColumnNotFoundError, match=r"(?i)no column 's\.x'"):
        table.upsert(pa.table({"id": [1], "s": [{"y": "a"}]}), keys)


def test_identifier_fields_inside_structs_are_keys(tmp_path: Path) -> None:
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False), ("y", pa.string())])
    columns = pa.schema([pa.field("s", inner, nullable=False), ("v", pa.int64())])
    table = create_table(tmp_path / "t", columns, format="iceberg")
    table.alter().identify_by("s.x").commit()
    table.upsert(pa.table({"s": [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}], "v": [1, 2]}))
    assert table.upsert(pa.table({"s": [{"x": 2}], "v": [20]})).metrics["numTargetRowsUpdated"] == 1
    assert table.scan().to_arrow().sort_by("v").to_pylist() == [
        {"s": {"x": 1, "y": "a"}, "v": 1},
        {"s": {"x": 2, "y": "b"}, "v": 20},
    ]


def test_a_tuple_holds_keys(tmp_path: Path) -> None:
    """As everywhere, it is the path of a field only inside of a list of names."""
    rows = pa.table({"id": [1], "s": [{"x": 1}]})
    table = create_table(tmp_path / "t", rows.schema)
    with pytest.raises(ColumnNotFoundError, match="there is no column 'x'"):
        table.upsert(rows, ("id", "x"))
    assert table.upsert(rows, [("id",)]).added_rows == 1
    assert table.upsert(rows, ("id", "s.x")).updated_rows == 0
    assert table.upsert(rows, [("id",), ("s", "x")]).inserted_rows == 0
