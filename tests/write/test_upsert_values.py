"""Values of rows that are upserted: they become those of the table's columns before anything is compared."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import ConstraintViolationError, InvalidArgumentError, SchemaError

_UTC = pa.timestamp("us", "UTC")
_NOON = dt.datetime(2026, 11, 22, 12)


def _keyed(root: Path, kind: pa.DataType) -> DeltaTable:
    return create_table(root, pa.schema([("k", kind), ("v", pa.int64())]))


@pytest.mark.parametrize(
    ("kind", "given"),
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
def test_what_an_append_refuses_an_upsert_refuses(tmp_path: Path, kind: pa.DataType, given: pa.Array) -> None:
    table = _keyed(tmp_path / "t", kind)
    rows = pa.table({"k": given, "v": [1]})
    with pytest.raises(SchemaError) as appended:
        table.append(rows)
    for when in ("update", "ignore"):
        with pytest.raises(SchemaError) as upserted:
            table.upsert(rows, "k", when_matched=when)
        assert upserted.value.context["column"] == "k"
        assert upserted.value.message == appended.value.message
    values = create_table(tmp_path / "values", pa.schema([("id", pa.int64()), ("k", kind)]))
    with pytest.raises(SchemaError, match=r"cannot be written|does not fit"):
        values.upsert(pa.table({"id": [1], "k": given}), "id")
    assert (table.refresh().version, values.refresh().version) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "given"),
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
def test_keys_that_stay_the_same_are_converted(tmp_path: Path, kind: pa.DataType, given: pa.Array) -> None:
    table = _keyed(tmp_path / "t", kind)
    for value in (1, 2):
        table.upsert(pa.table({"K": given, "V": pa.array([value, value], pa.int8())}), "k")
    rows = table.scan().to_arrow()
    assert (rows.num_rows, rows["v"].to_pylist()) == (2, [2, 2])
    with pytest.raises(ConstraintViolationError, match="the same key"):
        table.upsert(pa.table({"k": pa.concat_arrays([given, given])}), "k")


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


def test_keys_are_columns(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "s": [{"x": 1}]})
    table = create_table(tmp_path / "t", rows.schema)
    for keys, hint in (("s.x", "name columns"), (("s", "x"), "a tuple is one name"), (["id", "s.x"], "name columns")):
        with pytest.raises(InvalidArgumentError, match="not fields of structs") as caught:
            table.upsert(rows, keys)
        assert hint in (caught.value.hint or "")
    assert table.upsert(rows, [("id",)]).added_rows == 1
