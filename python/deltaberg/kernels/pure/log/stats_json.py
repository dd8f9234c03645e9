"""Per-file statistics: from typed columns to JSON text, for files that are written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import InvalidArgumentError

__all__ = ["format_stats"]

#: Dates outside of the years 1 to 9999 have no text that every reader knows. In days since 1970.
_FIRST_DAY, _LAST_DAY = -719162, 2932896
#: The number of 1970-01-01 among Python's days.
_EPOCH = date(1970, 1, 1).toordinal()
_DAY_MILLIS = 86_400_000

#: The texts of a column, None for values that have none.
_Texts = list["str | None"]


def format_stats(
    statistics: pa.RecordBatch, paths: Sequence[Sequence[str]], tight: bool, threads: int = 0
) -> pa.StringArray:
    """Write the statistics of files as JSON objects.

    Parameters
    ----------
    statistics
        The columns that `parse_stats` returns: ``numRecords``, and for the leaf with the path ``paths[i]`` the columns
        ``min.i``, ``max.i`` and ``nullCount.i``. A missing column and a null are unknown, and left out, as are bounds
        of a type that has none. Timestamps are rounded outward to milliseconds, unless that is the year 10000.
    paths
        The physical names on the path from the root to each leaf. Paths with the same first name are neighbours.
    tight
        Whether to add ``tightBounds``.
    threads
        Ignored by this twin.

    Raises
    ------
    InvalidArgumentError
        If a column has an unexpected type.
    """
    leaves = [(list(path), index) for index, path in enumerate(paths)]
    whole: list[tuple[str, Any]] = []
    count = _leaf(statistics, "numRecords", upper=False)
    if count is not None:
        whole.append(('"numRecords":', count))
    for name, side, upper in (
        ("minValues", "min", False),
        ("maxValues", "max", True),
        ("nullCount", "nullCount", False),
    ):

        def column(index: int, side: str = side, upper: bool = upper) -> _Texts | None:
            return _leaf(statistics, f"{side}.{index}", upper=upper)

        whole.append((f'"{name}":', _members(leaves, column)))
    texts = []
    for row in range(statistics.num_rows):
        members = list(_written(whole, row))
        texts.append("{" + ",".join([*members, '"tightBounds":true'] if tight else members) + "}")
    return pa.array(texts, pa.string())


def _members(leaves: Sequence[tuple[list[str], int]], column: Callable[[int], _Texts | None]) -> list[tuple[str, Any]]:
    """Return the names, as JSON, and the texts or members of an object whose leaves have these paths."""
    members: list[tuple[str, Any]] = []
    numbered = [
        ((path[0], -1) if len(path) > 1 else (None, place), path, index) for place, (path, index) in enumerate(leaves)
    ]
    for _, group in groupby(numbered, key=lambda leaf: leaf[0]):
        inside = [(path, index) for _, path, index in group]
        path, index = inside[0]
        if not path:
            continue
        name = f"{_quoted(path[0])}:"
        if len(path) > 1:
            members.append((name, _members([(path[1:], index) for path, index in inside], column)))
        elif (texts := column(index)) is not None:
            members.append((name, texts))
    return members


def _written(members: Sequence[tuple[str, Any]], row: int) -> Iterator[str]:
    """Return the members that a row has."""
    for name, value in members:
        if value and isinstance(value[0], tuple):
            inside = ",".join(_written(value, row))
            text = f"{{{inside}}}" if inside else None
        else:
            text = value[row] if value else None
        if text is not None:
            yield name + text


def _leaf(found: pa.RecordBatch, name: str, *, upper: bool) -> _Texts | None:
    index = found.schema.get_field_index(name)
    if index < 0:
        return None
    values = found.column(index)
    convert = _conversion(values.type, upper=upper)
    if convert is None:
        return None
    plain = values
    if pt.is_date32(values.type):
        plain = values.view(pa.int32())
    elif pt.is_timestamp(values.type):
        plain = values.view(pa.int64())
    return [None if value is None else convert(value) for value in plain.to_pylist()]


def _conversion(kind: pa.DataType, *, upper: bool) -> Callable[[Any], str | None] | None:
    """Return what makes a text of a value; None if values of the type are not recorded."""
    if pt.is_signed_integer(kind):
        return str
    if kind in (pa.float32(), pa.float64()):
        return _number
    if pt.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if pt.is_decimal128(kind):
        return lambda value: format(value, "f")
    if pt.is_string(kind) or pt.is_large_string(kind):
        return _quoted
    if pt.is_date32(kind):
        return lambda day: f'"{_day(day)}"' if _FIRST_DAY <= day <= _LAST_DAY else None
    if pt.is_timestamp(kind) and kind.unit == "us":
        return lambda micros: _timestamp(micros, upper=upper, zone="" if kind.tz is None else "Z")
    if pt.is_null(kind) or pt.is_struct(kind) or _is_binary(kind):
        return None
    raise InvalidArgumentError(f"statistics cannot be of the type {kind}")


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _day(day: int) -> str:
    return date.fromordinal(day + _EPOCH).isoformat()


def _number(value: float) -> str | None:
    """Return a double. Infinities, which JSON lacks, are strings, as Spark writes them; NaN has no text."""
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return None if math.isnan(value) else repr(value)


def _timestamp(micros: int, *, upper: bool, zone: str) -> str | None:
    millis = -(-micros // 1000) if upper else micros // 1000
    if millis // _DAY_MILLIS > _LAST_DAY:
        # The year 10000 has no text. Readers allow for values up to the end of the millisecond.
        millis = micros // 1000
    day, rest = divmod(millis, _DAY_MILLIS)
    if not _FIRST_DAY <= day <= _LAST_DAY:
        return None
    seconds, milli = divmod(rest, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f'"{_day(day)}T{hour:02}:{minute:02}:{second:02}.{milli:03}{zone}"'
