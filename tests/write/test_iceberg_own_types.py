"""Rows of columns whose types only Iceberg has are merged, upserted, updated and deleted by keys like all others."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import EvaluationError, ExpressionError, InvalidArgumentError, SchemaError
from deltaberg.iceberg import IcebergTable
from deltaberg.schema.types import Field, Fixed, Primitive, Struct

pytestmark = pytest.mark.one_backend

_ONE, _TWO = uuid.UUID(int=1), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
_NANOS = pa.timestamp("ns")
_ZONED = pa.timestamp("ns", "Europe/Paris")
#: For each type its values: one that is in the table, and another one.
_VALUES: dict[str, tuple[Any, pa.Array]] = {
    "uuid": (Primitive("uuid"), pa.array([_ONE.bytes, _TWO.bytes], pa.binary(16))),
    "fixed": (Fixed(4), pa.array([b"abcd", b"\0\0\0\0"], pa.binary(4))),
    "time": (Primitive("time"), pa.array([dt.time(1, 2, 3), dt.time(23, 59, 59, 999_999)], pa.time64("us"))),
    "nanos": (Primitive("timestamp_ntz_ns"), pa.array([5, (1 << 63) - 1], pa.int64()).cast(_NANOS)),
    "zoned": (Primitive("timestamp_ns"), pa.array([-5, 1_700_000_000_123_456_789], pa.int64()).cast(_ZONED)),
}
_TYPES = pytest.mark.parametrize("name", list(_VALUES))


def _new(root: Path, **columns: Any) -> IcebergTable:
    schema = Struct((Field("id", Primitive("long")), *(Field(name, kind) for name, kind in columns.items())))
    table: IcebergTable = create_table(root / "t", schema, format="iceberg", properties={"format-version": "3"})
    return table


def _rows(values: pa.Array, *ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "x": values})


def _content(table: IcebergTable) -> list[tuple[int, Any]]:
    found = open_table(table.location, validate=True).scan(columns=["id", "x"]).to_arrow().sort_by("id")
    values = found["x"].cast(pa.int64()) if pa.types.is_timestamp(found["x"].type) else found["x"]
    return list(zip(found["id"].to_pylist(), values.to_pylist(), strict=True))


def _plain(values: pa.Array) -> list[Any]:
    found: list[Any] = (values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_pylist()
    return found


@_TYPES
def test_rows_are_merged(tmp_path: Path, name: str) -> None:
    kind, values = _VALUES[name]
    old, new = _plain(values)
    table = _new(tmp_path, x=kind)
    table.append(_rows(values.take([0, 0]), 1, 2))
    source = _rows(values.take([1, 1]), 2, 3)
    merge = table.merge(source, "target.id = source.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert _content(table) == [(1, old), (2, new), (3, new)]
    table.merge(source, "target.id = source.id - 1").when_matched_update({"x": "source.x"}).execute()
    assert _content(table) == [(1, new), (2, new), (3, new)]
    table.merge(table.scan(), "target.id = source.id").when_matched_update_all().execute()
    table.merge(_rows(values, 1, 2), "target.x = source.x AND target.id >= source.id").when_matched_delete(
        "target.x <=> source.x AND target.id = 3"
    ).execute()
    assert _content(table) == [(1, new), (2, new)]


@_TYPES
def test_rows_are_upserted_and_deleted_by_keys(tmp_path: Path, name: str) -> None:
    kind, values = _VALUES[name]
    old, new = _plain(values)
    table = _new(tmp_path, x=kind)
    table.append(_rows(values.take([0, 0]), 1, 2))
    table.upsert(_rows(values.take([1, 1]), 2, 3), "id")
    assert _content(table) == [(1, old), (2, new), (3, new)]
    table.upsert(_rows(values.take([0]), 7), "x")
    assert _content(table) == [(2, new), (3, new), (7, old)]
    table.delete_by_keys(_rows(values.take([1]), 0), ["x"])
    assert _content(table) == [(7, old)]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("uuid", f"'{str(_TWO).upper()}'", _TWO.bytes),
        ("uuid", _TWO, _TWO.bytes),
        ("uuid", _TWO.bytes, _TWO.bytes),
        ("uuid", "coalesce(x, '00000000-0000-0000-0000-000000000000')", _ONE.bytes),
        ("fixed", b"wxyz", b"wxyz"),
        ("fixed", "X'7778797A'", b"wxyz"),
        ("time", "'01:02'", dt.time(1, 2)),
        ("time", dt.time(3), dt.time(3)),
        ("nanos", "TIMESTAMP_NTZ '1970-01-01 00:00:01'", 1_000_000_000),
        ("nanos", "'1970-01-01 00:00:00.000000007'", 7),
        ("nanos", pd.Timestamp(7), 7),
        ("nanos", dt.datetime(1970, 1, 1, 0, 0, 1), 1_000_000_000),
        ("zoned", "'1970-01-01 02:00:00.000000007+02:00'", 7),
        ("zoned", dt.datetime(1970, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=1))), 3_600_000_000_000),
        ("zoned", "DATE '1970-01-02'", 86_400_000_000_000),
    ],
)
def test_values_are_set(tmp_path: Path, name: str, value: Any, expected: Any) -> None:
    kind, values = _VALUES[name]
    table = _new(tmp_path, x=kind)
    table.append(_rows(values.take([0, 0]), 1, 2))
    table.update({"x": value}, "id = 2")
    assert _content(table) == [(1, _plain(values)[0]), (2, expected)]
    if not isinstance(value, str):
        source = pa.table({"id": pa.array([1], pa.int64())})
        table.merge(source, "target.id = source.id").when_matched_update({"x": value}).execute()
        assert _content(table) == [(1, expected), (2, expected)]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("uuid", "'f79c3e09677c4bbda4793f349cb785e7'", "a text is not a value of the type uuid"),
        ("fixed", b"abc", "does not have the 4 bytes"),
        ("nanos", "TIMESTAMP_NTZ '2300-01-01 00:00:00'", "from 1677 to 2262"),
        ("nanos", dt.datetime(1600, 1, 1), "from 1677 to 2262"),
        ("time", "'25:00'", "a text is not a value of the type time"),
    ],
)
def test_values_that_do_not_fit_are_refused(tmp_path: Path, name: str, value: Any, message: str) -> None:
    kind, values = _VALUES[name]
    table = _new(tmp_path, x=kind)
    table.append(_rows(values.take([0]), 1))
    with pytest.raises(EvaluationError, match=message) as caught:
        table.update({"x": value})
    assert caught.value.context["column"] == "x"


def test_texts_are_written_to_columns_of_uuids(tmp_path: Path) -> None:
    table = _new(tmp_path, x=Primitive("uuid"))
    texts = pa.array([str(_ONE), str(_TWO).upper(), None])
    table.append(_rows(texts, 1, 2, 3))
    table.upsert(_rows(texts.take([1]), 1), "id")
    merge = table.merge(_rows(texts.take([0]), 2), "target.id = source.id AND target.x != source.x")
    merge.when_matched_update_all().execute()
    assert _content(table) == [(1, _TWO.bytes), (2, _ONE.bytes), (3, None)]
    table.delete_by_keys(pa.table({"x": texts.take([0])}))
    assert _content(table) == [(1, _TWO.bytes), (3, None)]
    with pytest.raises(SchemaError, match="'no' is not written like f79c3e09-677c"):
        table.append(_rows(pa.array(["no"]), 4))


@pytest.mark.parametrize("mode", [None, "merge"])
def test_a_source_has_these_types_only_where_the_table_has_them(tmp_path: Path, mode: Any) -> None:
    """Frames of pandas have nanoseconds, of which functions can compute nothing."""
    table = _new(tmp_path, x=Primitive("timestamp_ntz"), b=Primitive("binary"), text=Primitive("string"))
    at = pa.array([1_700_000_000_123_456_000], pa.int64()).cast(_NANOS)
    source = pa.table({"id": [1], "at": at, "x": at, "b": pa.array([b"ab"], pa.binary(2))})
    values: dict[str | Sequence[str], Any] = {
        "id": "source.id",
        "x": "source.at",
        "b": "concat(source.b, X'00')",
        "text": "CAST(source.x AS STRING)",
    }
    merge = table.merge(source, "target.id = source.id", schema_mode=mode)
    merge.when_not_matched_insert(values).execute()
    (row,) = table.scan().to_arrow().to_pylist()
    assert (row["x"].microsecond, row["b"], row["text"]) == (123_456, b"ab\0", "2023-11-14 22:13:20.123456")
    finer = source.set_column(2, "x", pa.array([1], pa.int64()).cast(_NANOS))
    merge = table.merge(finer, "target.id = source.id").when_matched_update({"x": "source.x"})
    with pytest.raises(SchemaError, match="digits below the microsecond"):
        merge.execute()


def test_new_columns_of_a_merge_have_the_types_that_an_append_gives_them(tmp_path: Path) -> None:
    table = _new(tmp_path)
    new = {name: values.take([1]) for name, (_, values) in _VALUES.items() if name != "uuid"}
    source = pa.table({"id": [1], **new})
    merge = table.merge(source, "target.id = source.id", schema_mode="merge")
    merge.when_not_matched_insert_all().execute()
    found = {child.name: child.type for child in table.schema}
    assert found == {"id": Primitive("long"), **{name: _VALUES[name][0] for name in new}}
    assert table.scan().to_arrow()["nanos"].cast(pa.int64()).to_pylist() == [(1 << 63) - 1]


def test_delta_tables_have_none_of_these_types(tmp_path: Path) -> None:
    table = create_table(tmp_path / "d", {"id": pa.int64(), "s": pa.string()})
    table.append(pa.table({"id": [1], "s": [str(_ONE)]}))
    source = pa.table({"id": [1], "t": _VALUES["time"][1].take([0])})
    with pytest.raises(SchemaError, match="has no type in tables"):
        table.merge(source, "target.id = source.id").when_matched_delete().execute()
    for value in (_ONE, dt.time(1)):
        with pytest.raises(ExpressionError, match="is not a value"):
            table.update({"s": value})


@pytest.mark.parametrize("micros", [-1, 86_400_000_000])
def test_times_are_within_a_day(tmp_path: Path, micros: int) -> None:
    """pyarrow takes them, and shows them as times of another day."""
    table = _new(tmp_path, x=Primitive("time"))
    table.append(_rows(pa.array([0, 86_399_999_999], pa.time64("us")), 1, 2))
    with pytest.raises(SchemaError, match=f"{micros} microseconds from midnight are not within a day"):
        table.append(_rows(pa.array([micros], pa.time64("us")), 3))
    assert len(_content(table)) == 2


def test_default_values_may_be_given_in_several_forms(tmp_path: Path) -> None:
    table = _new(tmp_path)
    table.append(pa.table({"id": [1]}))
    added = table.alter()
    for name, value in (("a", _TWO), ("b", str(_TWO)), ("c", _TWO.bytes), ("d", pa.scalar(_TWO.bytes))):
        added.add(name, pa.uuid(), default=value)
    added.add("n", pa.decimal128(9, 2), default=1).commit()
    (row,) = table.scan().to_arrow().to_pylist()
    assert {str(uuid.UUID(bytes=bytes(row[name]))) for name in "abcd"} == {str(_TWO)}
    assert str(row["n"]) == "1.00"
    with pytest.raises(InvalidArgumentError, match="pass a datetime with a time zone"):
        table.alter().add("at", pa.timestamp("us", "UTC"), default=dt.datetime(2020, 1, 1))
    with pytest.raises(InvalidArgumentError, match="pass a UUID, its text or its bytes"):
        table.alter().add("u", pa.uuid(), default="7")


def test_streams_without_valid_batches_are_refused(tmp_path: Path) -> None:
    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.chunked_array([pa.array([{"id": 1}, None])]).__arrow_c_stream__(requested_schema)

    table = _new(tmp_path)
    with pytest.raises(InvalidArgumentError, match="the stream of the rows gives a batch that is not valid"):
        table.append(Stream())
    assert table.scan().count() == 0
