"""Per-file statistics as they are recorded: their text, and the typed columns of those that a filter names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError
from deltaberg.kernels.pure.log import strict_json
from deltaberg.kernels.pure.log.values import PrimitiveType, parse_integer, parse_timestamp

__all__ = ["parse_log_stats", "parse_stats", "record_counts", "stats_texts"]

_NUMERIC = frozenset({"byte", "short", "integer", "long", "float", "double"})
_TEXT = frozenset({"string", "date", "timestamp", "timestamp_ntz", "float", "double"})
#: How much a zone offset may have lost when it was cut to whole minutes: nearly a minute.
_OFFSET_ERROR_MICROS = 59_000_000
_MAX_INT64 = (1 << 63) - 1


class _Number(str):
    """A JSON number, as it is spelled."""

    __slots__ = ()


def parse_stats(
    stats: pa.StringArray, leaves: Sequence[tuple[Sequence[str], str | None]], threads: int = 0
) -> pa.Table:
    """Parse the statistics of some columns.

    Statistics are hints: text that is not valid JSON and values that do not fit their type become null, which means
    unknown. They are never an error.

    Parameters
    ----------
    stats
        The JSON text of each file's statistics.
    leaves
        The columns to read: the physical names on the path from the root, and the primitive type, or None if only the
        null count is wanted.
    threads
        Ignored by this twin.

    Returns
    -------
    pyarrow.Table
        ``numRecords``, ``tightBounds``, and for leaf ``i`` the columns ``min.i``, ``max.i`` (unless it has no type)
        and ``nullCount.i``.
    """
    if stats.type != pa.string():
        raise InvalidArgumentError("Cast error: an array of strings was expected")
    return _parse(stats.to_pylist(), leaves)


def parse_log_stats(
    versions: pa.Int64Array,
    places: pa.StructArray,
    commits: Iterable[tuple[int, bytes | None]],
    leaves: Sequence[tuple[Sequence[str], str | None]],
    threads: int = 0,
) -> pa.Table:
    """Parse statistics from the bytes of commits, at the places that a replay returned.

    ``commits`` yields the bytes for each run of equal ``versions`` in turn, or None if a commit is gone and its
    statistics are unknown. The result has the columns of `parse_stats`.
    """
    return _parse(_log_texts(versions, places, iter(commits)), leaves)


def stats_texts(data: bytes, places: pa.StructArray, threads: int = 0) -> pa.StringArray:
    """Return the texts at places in the bytes of a commit, with their escapes resolved.

    A missing place and what is not the inside a JSON string become null. ``threads`` is ignored by this twin.

    Raises
    ------
    InvalidArgumentError
        If a place lies outside the commit.
    """
    return pa.array(_texts_at(data, places.to_pylist()), pa.string())


def record_counts(data: bytes, places: Iterable[dict[str, int] | None]) -> list[int | None]:
    """Return the record counts of statistics at places in the bytes of a commit."""
    return [_count(_read(text).get("numRecords")) for text in _texts_at(data, places)]


def _texts_at(data: bytes, places: Iterable[dict[str, int] | None]) -> list[str | None]:
    return [None if place is None else _text_at(data, place["offset"], place["length"]) for place in places]


def _log_texts(
    versions: pa.Int64Array, places: pa.StructArray, commits: Iterator[tuple[int, bytes | None]]
) -> Iterator[str | None]:
    rows = zip(versions.to_pylist(), places.to_pylist(), strict=True)
    for version, run in groupby(rows, lambda row: row[0]):
        given, data = next(commits, (None, None))
        if given != version:
            raise InvalidArgumentError(f"statistics in the log: the bytes of commit {version} were expected")
        for _, place in run:
            yield None if data is None or place is None else _text_at(data, place["offset"], place["length"])


def _text_at(data: bytes, offset: int, length: int) -> str | None:
    raw = data[offset : offset + length]
    if offset < 0 or length < 0 or offset + length > len(data):
        raise InvalidArgumentError("statistics in the log: a place lies outside its commit")
    try:
        text: str = json.loads(b'"' + raw + b'"')
        text.encode()
    except ValueError:
        return None
    return text


def _parse(texts: Iterable[str | None], leaves: Sequence[tuple[Sequence[str], str | None]]) -> pa.Table:
    primitives = [None if name is None else PrimitiveType.from_name(name) for _, name in leaves]
    names: dict[str, tuple[pa.DataType, list[Any]]] = {
        "numRecords": (pa.int64(), []),
        "tightBounds": (pa.bool_(), []),
    }
    for index, primitive in enumerate(primitives):
        if primitive is not None:
            names[f"min.{index}"] = (primitive.arrow, [])
            names[f"max.{index}"] = (primitive.arrow, [])
        names[f"nullCount.{index}"] = (pa.int64(), [])
    for text in texts:
        statistics = _read(text)
        names["numRecords"][1].append(_count(statistics.get("numRecords")))
        tight = statistics.get("tightBounds")
        names["tightBounds"][1].append(tight if isinstance(tight, bool) else None)
        for index, ((path, _), primitive) in enumerate(zip(leaves, primitives, strict=True)):
            if primitive is not None:
                lower, upper = _leaf(statistics, "minValues", path), _leaf(statistics, "maxValues", path)
                names[f"min.{index}"][1].append(_bound(lower, primitive, -_OFFSET_ERROR_MICROS))
                names[f"max.{index}"][1].append(_bound(upper, primitive, _OFFSET_ERROR_MICROS))
            names[f"nullCount.{index}"][1].append(_count(_leaf(statistics, "nullCount", path)))
    arrays = {name: pa.array(values, arrow) for name, (arrow, values) in names.items()}
    return pa.table(arrays)


_DECODER = strict_json.decoder(parse_int=_Number, parse_float=_Number)


def _read(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        found = strict_json.loads(text, _DECODER)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _leaf(found: dict[str, Any], part: str, path: Sequence[str]) -> Any:
    value: Any = found.get(part)
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _count(value: Any) -> int | None:
    if not isinstance(value, _Number):
        return None
    count = parse_integer(value)
    return count if count is not None and count >= 0 else None


def _bound(value: Any, primitive: PrimitiveType, slack: int) -> Any:
    is_decimal = primitive.name.startswith("decimal")
    if isinstance(value, bool):
        return value if primitive.name == "boolean" else None
    if isinstance(value, _Number):
        return primitive.parse(value) if is_decimal or primitive.name in _NUMERIC else None
    if not isinstance(value, str) or not (is_decimal or primitive.name in _TEXT) or not _is_unicode(value):
        return None
    if primitive.name in ("timestamp", "timestamp_ntz"):
        return _timestamp_bound(value, slack)
    return None if value.lower() == "nan" and primitive.name != "string" else primitive.parse(value)


def _timestamp_bound(text: str, slack: int) -> int | None:
    found = parse_timestamp(text)
    if found is None:
        return None
    micros, zone = found
    micros += slack if zone == "minutes" else 0
    return micros if -_MAX_INT64 - 1 <= micros <= _MAX_INT64 else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
