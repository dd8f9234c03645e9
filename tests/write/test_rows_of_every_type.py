"""Every type of Arrow, pandas and Polars: what a table makes of it, or which error says what to do."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from deltaberg import create_table, open_table, write_table
from deltaberg.choices import Format
from deltaberg.errors import DeltabergError

pytestmark = [pytest.mark.one_backend, pytest.mark.parametrize("format", ["delta", "iceberg"])]

_I64 = pa.int64()
_US, _NS = pa.timestamp("us"), pa.timestamp("ns")
_ZONED_US, _ZONED_NS = pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")
_AT = dt.datetime(2024, 5, 6, 7, 8, 9)
_IN_UTC = _AT.replace(tzinfo=dt.timezone.utc)


class _Own(pa.ExtensionType):  # type: ignore[misc]
    """An extension type without a hash, as those that are written in Python."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests.own")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: Any) -> _Own:
        return cls()


def _list(value: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", value))


def _arrow() -> dict[str, tuple[pa.Array, Any]]:
    """Return values of each type of Arrow, with the types that tables of the formats give back."""
    arrays: dict[str, tuple[pa.Array, Any]] = {"bool": (pa.array([True, None]), pa.bool_())}
    wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
    for bits in (8, 16, 32, 64):
        signed = pa.int32() if bits < 32 else None
        own = getattr(pa, f"int{bits}")()
        arrays[f"int{bits}"] = (pa.array([1, None], own), (own, signed or own))
        arrays[f"uint{bits}"] = (
            pa.array([1, None], getattr(pa, f"uint{bits}")()),
            (wider[bits], pa.int32() if bits == 8 else wider[bits]),
        )
    arrays["float16"] = (pa.array(np.array([1.5], "float16")), pa.float32())
    arrays["float32"] = (pa.array([1.5, None], pa.float32()), pa.float32())
    arrays["float64"] = (pa.array([1.5, float("inf")]), pa.float64())
    for name in ("string", "large_string", "string_view"):
        arrays[name] = (pa.array(["a", None], getattr(pa, name)()), pa.string())
    for name in ("binary", "large_binary", "binary_view"):
        arrays[name] = (pa.array([b"a", None], getattr(pa, name)()), pa.binary())
    arrays["binary(3)"] = (pa.array([b"abc"], pa.binary(3)), (pa.binary(), pa.binary(3)))
    for name in ("date32", "date64"):
        arrays[name] = (pa.array([dt.date(2024, 1, 2), None], getattr(pa, name)()), pa.date32())
    for unit in ("s", "ms", "us", "ns"):
        arrays[f"timestamp({unit})"] = (
            pa.array([_AT], pa.timestamp(unit)),
            (_US, _NS if unit == "ns" else _US),
        )
        arrays[f"timestamp({unit}, UTC)"] = (
            pa.array([_IN_UTC], pa.timestamp(unit, "UTC")),
            (_ZONED_US, _ZONED_NS if unit == "ns" else _ZONED_US),
        )
    arrays["timestamp(us, Europe/Berlin)"] = (pa.array([_IN_UTC], pa.timestamp("us", "Europe/Berlin")), _ZONED_US)
    for precision in (5, 15, 38):
        kind = pa.decimal128(precision, 2)
        arrays[f"decimal128({precision})"] = (pa.array([Decimal("1.25")], kind), kind)
    arrays["decimal256"] = (pa.array([Decimal("1.25")], pa.decimal256(38, 2)), pa.decimal128(38, 2))
    for name, given in (("list", pa.list_(_I64)), ("large_list", pa.large_list(_I64)), ("list(2)", pa.list_(_I64, 2))):
        arrays[name] = (pa.array([[1, 2], None], given), _list(_I64))
    for name in ("list_view", "large_list_view"):
        arrays[name] = (pa.array([[1, 2], None], getattr(pa, name)(_I64)), _list(_I64))
    struct = pa.struct([("a", _I64)])
    arrays["struct"] = (pa.array([{"a": 1}, None], struct), struct)
    arrays["list of struct"] = (pa.array([[{"a": 1}]], pa.list_(struct)), _list(struct))
    arrays["map"] = (pa.array([[("k", 1)]], pa.map_(pa.string(), _I64)), pa.map_(pa.string(), _I64))
    arrays["map of structs"] = (pa.array([[(1, {"a": 1})]], pa.map_(_I64, struct)), pa.map_(_I64, struct))
    for name, values, kind in (("string", ["a", None], pa.string()), ("int64", [1], _I64), ("timestamp", [_AT], _US)):
        arrays[f"dictionary({name})"] = (pa.array(values, kind).dictionary_encode(), kind)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["a"]))
    arrays["run_end_encoded"] = (runs, pa.string())
    arrays["own extension"] = (pa.ExtensionArray.from_storage(_Own(), pa.array([1])), _I64)
    return arrays


_ARROW = _arrow()
_PROPERTIES: dict[str, dict[str, str]] = {"delta": {}, "iceberg": {"format-version": "3"}}


def test_types_of_arrow(tmp_path: Path, format: Format) -> None:
    """All of them in one table; a table of Iceberg has version 3, which has nanoseconds."""
    number = {"delta": 0, "iceberg": 1}[format]
    columns = {f"c{place}": values.slice(0, 1) for place, (values, _) in enumerate(_ARROW.values())}
    write_table(tmp_path / "t", pa.table(columns), format=format, properties=_PROPERTIES[format])
    rows = open_table(tmp_path / "t").to_arrow()
    for place, (name, (values, wanted)) in enumerate(_ARROW.items()):
        kind = wanted[number] if isinstance(wanted, tuple) else wanted
        assert rows.schema.field(place).type == kind, name
        assert rows[place][0].as_py() == values[0].as_py(), name
    assert len(columns) > 45


def _times(kind: str) -> list[tuple[Any, Any]]:
    return [(pa.array([1], getattr(pa, kind)(unit)), (f"{kind}[{unit}]", "")) for unit in ("s", "ms")]


#: Rows that are refused, and what the error says for both formats, or for each; an empty text where they are taken.
_REFUSED: dict[str, tuple[Any, Any]] = {
    "null": (pa.nulls(1), "add a column that has a type"),
    **{f"time32({n})": one for n, one in enumerate(_times("time32"))},
    **{
        f"time64({unit})": (pa.array([1000], pa.time64(unit)), (f"time64[{unit}] has no type in tables", ""))
        for unit in ("us", "ns")
    },
    **{
        f"duration({unit})": (pa.array([1], pa.duration(unit)), f"duration[{unit}] has no type in tables")
        for unit in ("s", "ms", "us", "ns")
    },
    "interval": (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "month_day_nano_interval has no type"),
    "decimal256(50)": (pa.array([Decimal(1)], pa.decimal256(50, 2)), "decimal256(50, 2) has no type in tables"),
    "negative scale": (pa.array([Decimal("1E+3")], pa.decimal128(5, -2)), "decimal128(5, -2) has no type in tables"),
    "list of nulls": (pa.array([[None]], pa.list_(pa.null())), "give the elements a type"),
    "no fields": (pa.array([{}], pa.struct([])), "give it a field that has a type"),
    "union": (
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1]), pa.array(["a"])]),
        "has no type in tables",
    ),
    "pandas timedelta": (pd.Series(pd.to_timedelta(["1s"])), "duration[ns] has no type in tables"),
    "pandas period": (pd.Series(pd.period_range("2024-01", periods=1, freq="M")), "dt.to_timestamp()"),
    "pandas interval": (pd.Series(pd.interval_range(0, 1)), "astype(str)"),
    "pandas complex": (pd.Series([1 + 2j]), "astype()"),
    "pandas objects": (pd.Series(["a", 1], dtype=object), "astype()"),
    "polars Time": (pl.Series([dt.time(1)]), ("time64[ns] has no type in tables", "")),
    "polars Duration": (pl.Series([dt.timedelta(1)]), "duration[us] has no type in tables"),
    "polars Int128": (pl.Series([1], dtype=pl.Int128), "cannot be converted to Arrow"),
    "polars Object": (pl.Series([object()], dtype=pl.Object), "give the column a type of Polars"),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_what_has_no_type_is_refused(tmp_path: Path, format: Format, name: str) -> None:
    values, texts = _REFUSED[name]
    rows = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame}.get(type(values), pa.table)({"c": values})
    text = texts if isinstance(texts, str) else texts[format == "iceberg"]
    if not text:
        assert write_table(tmp_path / "t", rows, format=format, properties=_PROPERTIES[format]).inserted_rows == 1
        return
    with pytest.raises(DeltabergError) as raised:
        write_table(tmp_path / "t", rows, format=format, properties=_PROPERTIES[format])
    assert text in str(raised.value)
    assert raised.value.hint


_INTEGERS = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]


def test_types_of_frames(tmp_path: Path, format: Format) -> None:
    """The types of pandas and of Polars, each as a column of one frame."""
    pandas: dict[str, pd.Series[Any]] = {
        **{name: pd.Series([1, 0], dtype=name) for name in ("float16", "float32", "float64", "bool")},
        **{name.lower(): pd.Series([1, 0], dtype=name.lower()) for name in _INTEGERS},
        **{f"{name}_with_null": pd.Series([1, None], dtype=name) for name in (*_INTEGERS, "Float32", "boolean")},
        "object": pd.Series(["a", None], dtype=object),
        "string": pd.Series(["a", None], dtype="string"),
        "arrow": pd.Series([1, None], dtype="int64[pyarrow]"),
        "category": pd.Series(["a", None], dtype="category"),
        "sparse": pd.Series(pd.arrays.SparseArray([0, 1])),
        "at": pd.Series(pd.to_datetime(["2024-01-01", None])),
        "zoned": pd.Series(pd.to_datetime(["2024-01-01", None]).tz_localize("UTC")),
    }
    write_table(tmp_path / "pandas", pd.DataFrame(pandas), format=format)
    stored_rows = open_table(tmp_path / "pandas").to_arrow()
    assert stored_rows.column_names == list(pandas)
    for name, series in pandas.items():
        expected: Any = None if series.isna().iloc[1] else series.iloc[1]
        # Decimals are not compared with integers of numpy.
        assert stored_rows[name][1].as_py() == (expected.item() if hasattr(expected, "item") else expected), name
    polars = {
        **{name: pl.Series([1, None], dtype=getattr(pl, name)) for name in (*_INTEGERS, "Float32", "Float64")},
        "Boolean": [True, None],
        "String": ["a", None],
        "Binary": [b"a", None],
        "Date": [dt.date(2024, 1, 1), None],
        "Datetime": [_AT, None],
        "Decimal": pl.Series([Decimal("1.5"), None]),
        "Categorical": pl.Series(["a", None], dtype=pl.Categorical),
        "Enum": pl.Series(["a", None], dtype=pl.Enum(["a"])),
        "List": [[1], None],
        "Array": pl.Series([[1, 2], None], dtype=pl.Array(pl.Int64, 2)),
        "Struct": pl.Series([{"a": 1}, None]),
    }
    frame = pl.DataFrame(polars)
    write_table(tmp_path / "polars", frame, format=format)
    rows = open_table(tmp_path / "polars").to_arrow()
    assert rows.column_names == list(polars)
    assert rows.to_pylist() == frame.to_arrow().to_pylist()


#: What pandas makes of the values of a column, and what becomes of it: the value, or a part of the error.
_DRIFTS: list[tuple[str, pa.DataType, Any, Any]] = [
    ("integers with a null", _I64, pd.Series([1, None]), 1),
    ("small integers with a null", pa.int32(), pd.Series([1, None]), 1),
    ("fractions", _I64, pd.Series([1.5, None]), "round the column first"),
    ("doubles that were rounded", _I64, pd.Series([2.0**53, None]), "dtype_backend"),
    ("nothing but NaN", pa.string(), pd.Series([np.nan]), None),
    ("midnight", pa.date32(), pd.Series(pd.to_datetime(["2024-01-01"])), dt.date(2024, 1, 1)),
    ("noon", pa.date32(), pd.Series(pd.to_datetime(["2024-01-01 12:00"])), "dt.normalize()"),
    ("text of a date", pa.date32(), pd.Series(["2024-01-01"]), dt.date(2024, 1, 1)),
    ("text of a time", _US, pd.Series(["2024-05-06T07:08:09"]), _AT),
    ("text without a zone", _ZONED_US, pd.Series(["2024-05-06T07:08:09"]), "timezone="),
    ("nanoseconds", _US, pd.Series(pd.to_datetime(["2024-05-06 07:08:09.000000001"])), "allow_truncation=True"),
    ("no zone", _ZONED_US, pd.Series(pd.to_datetime(["2024-05-06"])), "timezone="),
    ("a zone", _US, pd.Series(pd.to_datetime(["2024-05-06"]).tz_localize("UTC")), "remove the zone"),
    ("exact floats", pa.decimal128(10, 2), pd.Series([1.25]), Decimal("1.25")),
    ("floats of more digits", pa.decimal128(10, 2), pd.Series([1.255]), "digits of the column"),
    ("more digits than a float has", pa.float32(), pd.Series([0.1]), "store doubles"),
    ("great integers", _I64, pd.Series([2**63], dtype="uint64"), "decimal(20, 0)"),
    ("categories", pa.string(), pd.Series(["a"], dtype="category"), "a"),
    ("nullable integers", _I64, pd.Series([1], dtype="Int64"), 1),
    ("dates as objects", pa.date32(), pd.Series([dt.date(2024, 1, 1)]), dt.date(2024, 1, 1)),
    ("decimals as objects", pa.decimal128(10, 2), pd.Series([Decimal("1.25")]), Decimal("1.25")),
    ("lists as objects", pa.list_(_I64), pd.Series([[1, 2]]), [1, 2]),
    ("arrays as objects", pa.list_(pa.float64()), pd.Series([np.array([1.0])]), [1.0]),
    ("texts of numbers", _I64, pd.Series(["1"]), "safe=False"),
    ("numbers for texts", pa.string(), pd.Series([1]), "safe=False"),
    ("UUIDs", pa.binary(16), pd.Series([uuid.UUID(int=1).bytes]), uuid.UUID(int=1).bytes),
]


def test_what_pandas_makes_of_columns(tmp_path: Path, format: Format) -> None:
    columns = pa.schema([(f"c{place}", kind) for place, (_, kind, _, _) in enumerate(_DRIFTS)])
    table = create_table(tmp_path / "t", columns, format=format)
    kept: dict[str, Any] = {}
    for place, (name, _, series, outcome) in enumerate(_DRIFTS):
        if not _is_refused(outcome, series):
            kept[f"c{place}"] = series
            continue
        with pytest.raises(DeltabergError) as raised:
            table.append(pd.DataFrame({f"c{place}": series}))
        assert outcome in str(raised.value.hint), name
    # Where a column is shorter, pandas adds a NaN.
    table.append(pd.DataFrame(kept))
    row = table.to_arrow().to_pylist()[0]
    for place, (name, _, _, outcome) in enumerate(_DRIFTS):
        assert row[f"c{place}"] == (outcome if f"c{place}" in kept else None), name
    assert len(kept) >= 14


def _is_refused(outcome: Any, series: pd.Series[Any]) -> bool:
    return isinstance(outcome, str) and outcome != series.iloc[0]
