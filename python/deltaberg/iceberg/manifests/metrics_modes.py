"""Which metrics of a column manifests hold: the modes that table properties choose (``write.metadata.metrics.*``)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltaberg.iceberg.updates.column_properties import COLUMN_METRICS
from deltaberg.schema.types import DataType, List, Map, Struct, field_paths, nested_fields
from deltaberg.whole_numbers import whole_number

__all__ = ["MetricsMode", "cut_lower", "cut_upper", "metrics_modes"]

_DEFAULT = "write.metadata.metrics.default"
_MOST_INFERRED = "write.metadata.metrics.max-inferred-column-defaults"
_INFERRED_COLUMNS = 100
_TRUNCATE = re.compile(r"truncate\(([0-9]{1,9})\)")
_LAST_CODE_POINT, _FIRST_SURROGATE, _LAST_SURROGATE = 0x10FFFF, 0xD800, 0xDFFF
_LAST_BYTE = 0xFF


@dataclass(frozen=True)
class MetricsMode:
    """The metrics that are recorded of a column.

    Parameters
    ----------
    counts
        Whether values, nulls and NaN are counted, and bytes.
    bounds
        Whether bounds are recorded.
    length
        How many characters or bytes bounds have at most; None for whole values.
    """

    counts: bool = True
    bounds: bool = True
    length: int | None = None


_NONE, _COUNTS, _FULL = MetricsMode(False, False), MetricsMode(True, False), MetricsMode()
_TRUNCATED = MetricsMode(length=16)


def metrics_modes(
    schema: Struct, properties: Mapping[str, str], sorted_by: Collection[int] = ()
) -> dict[int, MetricsMode]:
    """Return the mode of each column that is not a struct, list or map, by its id.

    By default bounds are cut to 16 characters or bytes. If the properties name no default, only the first hundred
    columns have metrics. Columns by which files are sorted always have bounds, unless a property of their own says
    otherwise. A mode that is not known counts as none given, as in the Java library.

    Parameters
    ----------
    schema
        The columns of the table.
    properties
        The properties of the table.
    sorted_by
        The ids of the columns by which files are sorted.

    Examples
    --------
    >>> from deltaberg.schema.types import Field, Primitive
    >>> schema = Struct((Field("a", Primitive("long"), id=1), Field("b", Primitive("string"), id=2)))
    >>> modes = metrics_modes(schema, {"write.metadata.metrics.column.a": "counts"})
    >>> modes[1].bounds, modes[2].length
    (False, 16)
    """
    # Columns that have fields have no metrics of their own.
    leaves = (path for path in field_paths(schema) if not _is_nested(path[-1].type))
    named = {path[-1].id: ".".join(part.name for part in path) for path in leaves if path[-1].id is not None}
    default = _mode(properties.get(_DEFAULT))
    if default is None:
        most = whole_number(properties.get(_MOST_INFERRED, ""), 0)
        inferred = set(list(_by_level(schema))[: _INFERRED_COLUMNS if most is None else most])
        modes = {number: _TRUNCATED if number in inferred else _NONE for number in named}
    else:
        modes = dict.fromkeys(named, default)
    for number in sorted_by:
        if number in modes and not modes[number].bounds:
            modes[number] = _TRUNCATED
    own = {number: _mode(properties.get(f"{COLUMN_METRICS}{name}")) for number, name in named.items()}
    return modes | {number: mode for number, mode in own.items() if mode is not None}


def _mode(text: str | None) -> MetricsMode | None:
    name = (text or "").strip().lower()
    known = {"none": _NONE, "counts": _COUNTS, "full": _FULL}.get(name)
    found = _TRUNCATE.fullmatch(name)
    if found is not None and int(found[1]):
        return MetricsMode(length=int(found[1]))
    return known


def _is_nested(kind: DataType) -> bool:
    return isinstance(kind, (Struct, List, Map))


def _by_level(kind: DataType) -> Iterator[int]:
    """Yield the ids of columns, those of a struct before those of structs, lists and maps in it."""
    children = nested_fields(kind)
    for child in children:
        if not _is_nested(child.type) and child.id is not None:
            yield child.id
    for child in children:
        yield from _by_level(child.type)


def cut_lower(value: Any, length: int | None) -> Any:
    """Return a lower bound of text or bytes that is no longer than allowed."""
    return value if length is None else value[:length]


def cut_upper(value: Any, length: int | None) -> Any:
    r"""Return an upper bound of text or bytes that is no longer than allowed; None if there is none.

    What is cut off makes the last character or byte greater that can be.

    Examples
    --------
    >>> cut_upper("iceberg", 3), cut_upper("a\U0010ffffb", 2), cut_upper(b"\xff\xff", 1)
    ('icf', 'b', None)
    """
    if length is None or len(value) <= length:
        return value
    prefix = value[:length]
    for end in range(len(prefix), 0, -1):
        if isinstance(prefix, bytes):
            if prefix[end - 1] < _LAST_BYTE:
                return prefix[: end - 1] + bytes([prefix[end - 1] + 1])
        elif ord(prefix[end - 1]) < _LAST_CODE_POINT:
            following = ord(prefix[end - 1]) + 1
            # Surrogates are no characters.
            following = _LAST_SURROGATE + 1 if _FIRST_SURROGATE <= following <= _LAST_SURROGATE else following
            return prefix[: end - 1] + chr(following)
    return None
