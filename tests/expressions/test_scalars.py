"""Values of numpy in filters and in values, as they come out of pandas, and the forms of ``is_in``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from deltaberg import col, open_table, write_table
from deltaberg.errors import ExpressionError

pytestmark = pytest.mark.one_backend

_ROWS = pa.table(
    {
        "a": [1, 5, 9],
        "f": [1.5, 2.5, 3.5],
        "s": ["x", "y", "z"],
        "b": [True, False, None],
        "t": pa.array([0, 86_400_000_000, 2 * 86_400_000_000], pa.timestamp("us", "UTC")),
        "n": pa.array([0, 1_500, 3_000], pa.timestamp("us")),
        "d": pa.array([0, 1, 2], pa.date32()),
        "x": [b"a", b"b", b"c"],
    }
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("scalars") / "t"
    write_table(root, _ROWS)
    return open_table(root, "delta")


_FILTERS: dict[str, tuple[Callable[[], Any], list[int]]] = {
    "int64": (lambda: col("a") > np.int64(4), [5, 9]),
    "int8": (lambda: col("a").between(np.int8(2), np.int8(6)), [5]),
    "uint64": (lambda: col("a") < np.uint64(2**63), [1, 5, 9]),
    "float16": (lambda: col("f") > np.float16(2), [5, 9]),
    "float32": (lambda: col("f") > np.float32(2), [5, 9]),
    "float64": (lambda: col("f") > np.float64(2), [5, 9]),
    "float for an integer": (lambda: col("a") > np.float32(4.5), [5, 9]),
    "bool": (lambda: col("b") == np.bool_(False), [5]),
    "str": (lambda: col("s") == np.str_("y"), [5]),
    "bytes": (lambda: col("x") == np.bytes_(b"b"), [5]),
    "days": (lambda: col("d") >= np.datetime64("1970-01-02"), [5, 9]),
    "microseconds": (lambda: col("t") > np.datetime64("1970-01-01T00:00:00.000001", "us"), [5, 9]),
    "nanoseconds": (lambda: col("n") > np.datetime64(1_499_999, "ns"), [5, 9]),
    "a maximum of pandas": (lambda: col("a") == pd.Series([1, 9]).max(), [9]),
    "an array without dimensions": (lambda: col("a") == np.array(9), [9]),
    "tuple": (lambda: [("a", ">", np.int64(4))], [5, 9]),
    "tuple with in": (lambda: [("a", "in", [np.int64(5), 9])], [5, 9]),
    "tuple with an array": (lambda: [("a", "not in", np.array([5]))], [1, 9]),
    "computed": (lambda: "a % 2 = 1", [1, 5, 9]),
    "is_in of a list": (lambda: col("a").is_in([np.int64(5)]), [5]),
    "is_in of an array": (lambda: col("a").is_in(np.array([5, 9])), [5, 9]),
    "is_in of a series": (lambda: col("a").is_in(pd.Series([5, 9])), [5, 9]),
    "is_in of arrow": (lambda: col("a").is_in(pa.array([5, 9])), [5, 9]),
    "is_in of a generator": (lambda: col("a").is_in(number for number in (5, 9)), [5, 9]),
    "is_in of several": (lambda: col("a").is_in(1, 5), [1, 5]),
    "is_in of one": (lambda: col("a").is_in(np.int64(5)), [5]),
    "is_in of a text": (lambda: col("s").is_in("xy"), []),
    "is_in of texts": (lambda: col("s").is_in("x", "y"), [1, 5]),
    "is_in of bytes": (lambda: col("x").is_in(b"a"), [1]),
    "is_in of none": (lambda: col("a").is_in([]), []),
    "is_in of null": (lambda: col("a").is_in(None), []),
    "isin": (lambda: col("a").isin(1, np.int64(5)), [1, 5]),
    "isin of an array": (lambda: col("a").isin(np.array([1, 5])), [1, 5]),
}


@pytest.mark.parametrize("name", _FILTERS)
def test_filters(table: Any, name: str) -> None:
    made, expected = _FILTERS[name]
    assert table.scan(made()).to_arrow()["a"].to_pylist() == expected


@pytest.mark.parametrize("value", [np.array([5]), np.timedelta64(5, "s"), np.complex64(1)])
def test_what_is_no_value_is_refused(table: Any, value: Any) -> None:
    with pytest.raises(ExpressionError, match=r"cannot be compared|is not a value"):
        table.scan(col("a") == value)


def test_tuples_take_lists_only(table: Any) -> None:
    for value in ("xy", 5, np.int64(5), b"x", None):
        with pytest.raises(ExpressionError, match="in takes a list of values"):
            table.scan([("a", "in", value)])


def test_values_of_an_update(tmp_path: Any) -> None:
    write_table(tmp_path / "t", _ROWS)
    table = open_table(tmp_path / "t", "delta")
    new: dict[Any, Any] = {
        "a": np.int64(7),
        "f": np.float32(0.5),
        "b": np.bool_(True),
        "d": np.datetime64("1970-01-09"),
    }
    table.update(new, "a = 5")
    rows = open_table(tmp_path / "t", "delta").scan(col("a") == 7).to_arrow().to_pylist()
    assert [(row["f"], row["b"], str(row["d"])) for row in rows] == [(0.5, True, "1970-01-09")]
