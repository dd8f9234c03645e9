"""Random filters, and the rows that they keep according to pyarrow."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg import col
from deltaberg.expressions.tree.tree import Value
from tests.support.canon import canonical_lines

__all__ = ["FilterCase", "check_filters", "filter_cases"]

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_ALIKE = ("=", "<=", ">=")
_UNORDERED = (pt.is_nested, pt.is_null)


class FilterCase(NamedTuple):
    """A filter, and whether it is true, false or unknown (null) for each row."""

    filter: Value
    mask: pa.ChunkedArray

    def __str__(self) -> str:
        return str(self.filter)


def filter_cases(rows: pa.Table, rng: random.Random, count: int) -> list[FilterCase]:
    """Draw filters on the columns of a table, with values that occur in it."""
    names = [name for name in rows.column_names if not name.startswith("_")]
    return [_case(rows, names, rng, depth=rng.choice((0, 0, 1, 2))) for _ in range(count)]


def check_filters(table: Any, rng: random.Random, count: int = 30) -> int:
    """Compare filtered scans of an Iceberg table with the filtered table; return how many files were never planned."""
    names = table.schema.names
    whole = table.scan(columns=[*map(_name, names), "_file"]).to_arrow()
    every = _file_names(table.scan().files()["file_path"])
    skipped = 0
    for case in filter_cases(whole, rng, count):
        scan = table.scan(case.filter)
        kept = whole.filter(case.mask)
        planned = _file_names(scan.files()["file_path"])
        assert planned <= every, case
        assert planned >= _file_names(kept["_file"]), case
        assert scan.count() == kept.num_rows, case
        assert canonical_lines(scan.to_arrow()) == canonical_lines(kept.select(names)), case
        skipped += len(every - planned)
    return skipped


def _file_names(paths: pa.ChunkedArray) -> set[str]:
    """Return the names of files, which writers never use twice: scans say where files are, rows what is recorded."""
    return {path.rpartition("/")[2] for path in paths.to_pylist()}


def _name(name: str) -> tuple[str, ...]:
    return (name,)


def _case(rows: pa.Table, names: list[str], rng: random.Random, depth: int) -> FilterCase:
    if depth == 0:
        return _leaf(rows.column(name := rng.choice(names)), name, rng)
    left = _case(rows, names, rng, depth - 1)
    kind = rng.choice(("and", "or", "not"))
    if kind == "not":
        return FilterCase(~left.filter, pc.invert(left.mask))
    right = _case(rows, names, rng, depth - 1)
    if kind == "and":
        return FilterCase(left.filter & right.filter, pc.and_kleene(left.mask, right.mask))
    return FilterCase(left.filter | right.filter, pc.or_kleene(left.mask, right.mask))


def _leaf(values: pa.ChunkedArray, name: str, rng: random.Random) -> FilterCase:
    column = col((name,))
    plain = [value for value in values if value.is_valid and _is_pythons(value)]
    if not plain or any(test(values.type) for test in _UNORDERED) or rng.random() < 0.1:
        chosen = rng.random() < 0.5
        test = column.is_null() if chosen else column.is_not_null()
        return FilterCase(test, pc.is_null(values) if chosen else pc.is_valid(values))
    literal = rng.choice(plain)
    roll = rng.random()
    if pt.is_string(values.type) and roll < 0.3:
        prefix = literal.as_py()[: rng.randint(0, 3)]
        return FilterCase(column.starts_with(prefix), pc.starts_with(values, prefix))
    if roll < 0.25:
        several = [literal, *rng.choices(plain, k=rng.randint(0, 3))]
        mask = _compare("=", values, literal)
        for other in several[1:]:
            mask = pc.or_(mask, _compare("=", values, other))
        return FilterCase(column.is_in([_python(one) for one in several]), mask)
    operator = rng.choice(list(_COMPARISONS))
    return FilterCase(_predicate(column, operator, _python(literal)), _compare(operator, values, literal))


def _predicate(column: Any, operator: str, literal: Any) -> Value:
    matched: Value = {
        "=": column.__eq__,
        "!=": column.__ne__,
        "<": column.__lt__,
        "<=": column.__le__,
        ">": column.__gt__,
        ">=": column.__ge__,
    }[operator](literal)
    return matched


def _is_pythons(value: pa.Scalar) -> bool:
    """Return whether Python can represent a value: its dates begin in the year 1."""
    try:
        _python(value)
    except (OverflowError, ValueError):
        return False
    return True


def _python(literal: pa.Scalar) -> Any:
    """Return what a user would write: text if Python's own type has too few digits."""
    if pt.is_timestamp(literal.type) and literal.type.unit == "ns":
        shown = str(literal.cast(pa.timestamp("ns")).cast(pa.string()))
        return shown + "Z" if literal.type.tz else shown
    value = literal.as_py()
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.timezone.utc)
    return value


def _compare(operator: str, values: pa.ChunkedArray, literal: pa.Scalar) -> pa.ChunkedArray:
    """Compare values. Unlike in pyarrow, NaN equals itself and is greater than every other number."""
    if not pt.is_floating(values.type):
        return _COMPARISONS[operator](values, literal)
    # Two numbers that have the order of the values: whether it is NaN, and what it is where it is not.
    nan, literal_nan = pc.is_nan(values), literal.as_py() != literal.as_py()
    plain = _COMPARISONS[operator](pc.if_else(nan, pa.scalar(0, values.type), values), 0 if literal_nan else literal)
    differ = pc.not_equal(nan, literal_nan)
    return pc.if_else(differ, _COMPARISONS[operator](nan, literal_nan), pc.if_else(nan, operator in _ALIKE, plain))
