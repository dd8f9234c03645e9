"""Rows whose values do not fit their columns: refused with what mends them, or cast as Spark casts them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import create_table, open_table, write_table
from deltaberg.errors import InvalidArgumentError, SchemaError
from tests.support.command_line import call, printed

_US, _UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
_NOON = dt.datetime(2026, 1, 2, 12)
_DAY = dt.datetime(2026, 1, 2)
#: The type of a column, values that it does not hold, what Spark's cast makes of them, and the zone if one is needed.
_CASTS: list[tuple[pa.DataType, pa.Array, list[Any], str | None]] = [
    (pa.int32(), pa.array(["7", " 8 ", None]), [7, 8, None], None),
    (pa.int32(), pa.array([1.7, -1.7]), [1, -1], None),
    (pa.int32(), pa.array([True, False]), [1, 0], None),
    (pa.int64(), pa.array([Decimal("12.50"), None]), [12, None], None),
    (pa.float64(), pa.array(["1.5", "-Infinity"]), [1.5, float("-inf")], None),
    (pa.float32(), pa.array([0.1]), [0.10000000149011612], None),
    (pa.decimal128(5, 2), pa.array(["1.005", "2"]), [Decimal("1.01"), Decimal("2.00")], None),
    (pa.decimal128(5, 2), pa.array([1.255]), [Decimal("1.26")], None),
    (pa.bool_(), pa.array(["yes", "0", None]), [True, False, None], None),
    (pa.string(), pa.array([7, None]), ["7", None], None),
    (pa.string(), pa.array([True]), ["true"], None),
    (pa.date32(), pa.array([_NOON], _US), [dt.date(2026, 1, 2)], None),
    (pa.date32(), pa.array([_NOON], _UTC), [dt.date(2026, 1, 2)], "UTC"),
    (_US, pa.array([dt.date(2026, 1, 2)]), [_DAY], None),
    (_US, pa.array([_NOON], _UTC), [_NOON + dt.timedelta(hours=1)], "Europe/Berlin"),
    (_UTC, pa.array([_NOON - dt.timedelta(hours=12)], _US), [_DAY.replace(tzinfo=dt.timezone.utc)], "UTC"),
]


def _table(root: Path, format: Any, kind: pa.DataType) -> Any:
    return create_table(root / "t", pa.schema([("id", pa.int64()), ("x", kind)]), format=format)


def _read(root: Path) -> Any:
    return open_table(root / "t").scan().to_arrow().sort_by("id").column("x").to_pylist()


def _rows(values: pa.Array) -> pa.Table:
    return pa.table({"id": range(len(values)), "x": values})


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize(("kind", "values", "expected", "timezone"), _CASTS)
def test_values_are_cast_if_the_caller_asks_for_it(
    tmp_path: Path, format: str, kind: pa.DataType, values: pa.Array, expected: list[Any], timezone: str | None
) -> None:
    table = _table(tmp_path, format, kind)
    if not (pa.types.is_timestamp(kind) and kind.tz and timezone):
        with pytest.raises(SchemaError, match=r"cannot be written to a column of the type|does not fit the type"):
            table.append(_rows(values), timezone=timezone)
    if timezone is not None:
        with pytest.raises(SchemaError, match="pass timezone="):
            table.append(_rows(values), safe=False)
    table.append(_rows(values), safe=False, timezone=timezone)
    assert _read(tmp_path) == expected


_TEXTS = pa.table({"id": pa.array([0, 1]), "x": pa.array(["7", "8"])})
_VERBS: list[Callable[[Any, bool], object]] = [
    lambda table, safe: table.append(_TEXTS, safe=safe),
    lambda table, safe: table.overwrite(_TEXTS, safe=safe),
    lambda table, safe: table.upsert(_TEXTS, "id", safe=safe),
    lambda table, safe: table.append([_TEXTS.slice(0, 1), _TEXTS.slice(1)], safe=safe),
    lambda table, safe: write_table(table.location, _TEXTS, mode="append", safe=safe),
]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize("verb", _VERBS)
def test_every_verb_that_takes_rows_casts(tmp_path: Path, format: str, verb: Callable[[Any, bool], object]) -> None:
    table = _table(tmp_path, format, pa.int32())
    with pytest.raises(SchemaError, match="or pass safe=False to have it cast as Spark does"):
        verb(table, True)
    verb(table, False)
    assert _read(tmp_path) == [7, 8]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_what_no_cast_takes_is_refused(tmp_path: Path, format: str) -> None:
    table = _table(tmp_path, format, pa.int32())
    for values in (["seven"], [1 << 40], [float("nan")], [b"7"], [[7]]):
        with pytest.raises(SchemaError) as raised:
            table.append(_rows(pa.array(values)), safe=False)
        assert raised.value.context["column"] == "x"
        assert "safe=False" not in str(raised.value)
    with pytest.raises(InvalidArgumentError, match="safe must be True or False"):
        table.append(_TEXTS, safe="no")
    assert _read(tmp_path) == []


@pytest.mark.one_backend
def test_commands_cast_if_they_are_asked_to(tmp_path: Path) -> None:
    _table(tmp_path, "delta", pa.int32())
    pq.write_table(_TEXTS, tmp_path / "rows.parquet")
    refused = call("append", tmp_path / "t", tmp_path / "rows.parquet")
    assert "--no-safe to have it cast" in refused.stderr
    printed("append", tmp_path / "t", tmp_path / "rows.parquet", "--no-safe")
    assert _read(tmp_path) == [7, 8]


_INSTANT = dt.datetime(2026, 1, 2, 12, tzinfo=dt.timezone.utc)
_TEXTS_OF_TIMES = [
    (_UTC, "2026-01-02T14:00:00+02:00", {}, _INSTANT),
    (_UTC, "2026-01-02T14:00:00+02:00", {"timezone": "Asia/Tokyo"}, _INSTANT),
    (_UTC, "2026-01-02 12:00:00Z", {"timezone": "Asia/Tokyo"}, _INSTANT),
    (_UTC, "2026-01-02 21:00", {"timezone": "Asia/Tokyo"}, _INSTANT),
    (_UTC, "2026-01-02 12:00:00Z", {"safe": False}, _INSTANT),
    (_UTC, "2026-01-02T12:00:00.000000000Z", {}, _INSTANT),
    (_UTC, "2026-01-02T12:00:00.000000999Z", {"allow_truncation": True}, _INSTANT),
    (_UTC, "2026-01-02T12:00:00.000000999Z", {}, "has digits below the microsecond\nhint: pass allow_truncation=True"),
    (_UTC, "2026-01-02T12:00:00", {}, "2026-01-02T12:00:00 has no zone\nhint: pass timezone="),
    (_UTC, "2026-01-02", {}, "2026-01-02 has no zone\nhint: pass timezone="),
    (_UTC, "02.01.2026", {}, "'02.01.2026' is no timestamp\nhint: write it as 2024-01-31 12:00:00Z, or convert"),
    (_UTC, "02.01.2026", {"timezone": "UTC"}, "'02.01.2026' is no timestamp"),
    (_US, "2026-01-02T12:00:00.000000999", {"allow_truncation": True}, _NOON),
    (_US, "2026-01-02T12:00:00", {}, _NOON),
    (_US, "2026-01-02T12:00:00Z", {}, "has a zone\nhint: leave it out"),
    (_US, "soon", {}, "'soon' is no timestamp\nhint: write it as 2024-01-31 12:00:00, or convert"),
    (pa.date32(), "02.01.2026", {}, "'02.01.2026' is no date\nhint: write it as 2024-01-31, or convert"),
]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize(("kind", "text", "options", "expected"), _TEXTS_OF_TIMES)
def test_texts_of_times(
    tmp_path: Path, format: str, kind: pa.DataType, text: str, options: dict[str, Any], expected: Any
) -> None:
    table, rows = _table(tmp_path, format, kind), _rows(pa.array([None, text]))
    if isinstance(expected, str):
        with pytest.raises(SchemaError) as raised:
            table.append(rows, **options)
        message, _, hint = expected.partition("\nhint: ")
        assert raised.value.message.endswith(message)
        assert (raised.value.hint or "").startswith(hint)
    else:
        table.append(rows, **options)
        assert _read(tmp_path) == [None, expected]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_texts_with_and_without_a_zone_in_one_column(tmp_path: Path, format: str) -> None:
    table = _table(tmp_path, format, _UTC)
    texts = pa.array(["2026-01-02 21:00", None, "2026-01-02 12:00:00+00", "2026-01-02 21:00:00.5"])
    with pytest.raises(SchemaError, match="2026-01-02 21:00 has no zone"):
        table.append(_rows(texts))
    table.append(_rows(texts), timezone="Asia/Tokyo")
    assert _read(tmp_path) == [_INSTANT, None, _INSTANT, _INSTANT.replace(microsecond=500_000)]


@pytest.mark.spark
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_spark_casts_the_same(tmp_path: Path, spark: Any, format: Any) -> None:
    import pyspark.sql.functions as sf

    columns = {"a": "int", "b": "decimal(5,2)", "c": "string", "d": "date"}
    kinds = {"a": pa.int32(), "b": pa.decimal128(5, 2), "c": pa.string(), "d": pa.date32()}
    table = create_table(tmp_path / "t", kinds, format=format)
    frame = spark.sql("SELECT ' 7 ' a, 1.255D b, 9 c, timestamp_ntz'2026-01-02 12:00:00' d")
    with pytest.raises(SchemaError, match="column"):
        table.append(frame)
    table.append(frame, safe=False)
    wanted = frame.select(*(sf.col(name).cast(kind).alias(name) for name, kind in columns.items())).collect()
    assert table.refresh().scan().to_arrow().to_pylist() == [row.asDict() for row in wanted]
