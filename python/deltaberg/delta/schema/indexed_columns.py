"""Which columns have statistics (Delta protocol, "Per-file Statistics", and two table properties)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.schema.columns import find_column, split_name
from deltaberg.schema.types import DataType, Decimal, Field, Primitive, Struct
from deltaberg.table.property_values import number_of

__all__ = ["check_indexed_names", "has_bounds", "indexed_columns", "renamed_in_properties"]

_COUNT = "delta.dataSkippingNumIndexedCols"
_NAMES = "delta.dataSkippingStatsColumns"
_DEFAULT_COUNT = 32
_ALL = -1
#: Names that need no backticks in a list of columns.
_PLAIN = re.compile("[A-Za-z0-9_]+")
#: The types whose smallest and greatest values are recorded.
_BOUNDED = frozenset(
    ("byte", "short", "integer", "long", "float", "double", "string", "date", "timestamp", "timestamp_ntz")
)


def has_bounds(kind: DataType) -> bool:
    """Return whether statistics hold the smallest and the greatest value of columns of a type."""
    return isinstance(kind, Decimal) or (isinstance(kind, Primitive) and kind.name in _BOUNDED)


def indexed_columns(
    schema: Struct, partition_columns: Collection[str], properties: Mapping[str, str]
) -> list[tuple[Field, ...]]:
    """Return the columns that have statistics, each as the path of its fields from the root of the schema.

    These are the first 32 leaves of the schema that are not partition columns, or as many as the property
    ``delta.dataSkippingNumIndexedCols`` says (-1 means all), or those that ``delta.dataSkippingStatsColumns`` names.
    A list, a map and a variant count as one leaf; only the nulls of these are counted.

    Raises
    ------
    SchemaError
        If a property is not a number, or not a list of names.

    Examples
    --------
    >>> schema = Struct((Field("a", Primitive("long")), Field("b", Primitive("long"))))
    >>> [[field.name for field in path] for path in indexed_columns(schema, [], {_COUNT: "1"})]
    [['a']]
    """
    leaves = [path for path in _leaves(schema, ()) if path[0].name not in partition_columns]
    names = properties.get(_NAMES)
    if names is not None:
        wanted = _parse_names(names)
        return [path for path in leaves if any(_starts_with(path, name) for name in wanted)]
    count = number_of(properties, _COUNT, _DEFAULT_COUNT, least=-(1 << 63))
    return leaves if count == _ALL else leaves[: max(count, 0)]


def check_indexed_names(schema: Struct, properties: Mapping[str, str]) -> None:
    """Refuse a property that names columns with statistics which the table lacks.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    SchemaError
        The property is not a list of names.
    """
    for name in _parse_names(properties.get(_NAMES, "")):
        find_column(schema, name)


def renamed_in_properties(properties: Mapping[str, str], path: Sequence[str], to: str | None) -> dict[str, str]:
    """Return the property that names the columns with statistics, as it is after a column was renamed or dropped.

    Parameters
    ----------
    path
        The names on the path to the column, or to the field of a struct.
    to
        Its new name; None if it was dropped.

    Returns
    -------
    dict
        Nothing if the property does not name the column.

    Raises
    ------
    SchemaError
        If the property is not a list of names.

    Examples
    --------
    >>> renamed_in_properties({_NAMES: "a, s.x,s.y"}, ["s", "x"], "new one")
    {'delta.dataSkippingStatsColumns': 'a,s.`new one`,s.y'}
    >>> renamed_in_properties({_NAMES: "a, s.x,s.y"}, ["s"], None)
    {'delta.dataSkippingStatsColumns': 'a'}
    """
    listed = _parse_names(properties.get(_NAMES, ""))
    named = [[part.lower() for part in name[: len(path)]] == [part.lower() for part in path] for name in listed]
    if not any(named):
        return {}
    end = len(path) - 1
    kept = [
        (*name[:end], to, *name[end + 1 :]) if is_named and to is not None else name
        for name, is_named in zip(listed, named, strict=True)
        if to is not None or not is_named
    ]
    return {_NAMES: ",".join(".".join(map(_quoted, name)) for name in kept)}


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _leaves(struct: Struct, above: tuple[Field, ...]) -> Iterator[tuple[Field, ...]]:
    for field in struct:
        path = (*above, field)
        if isinstance(field.type, Struct):
            yield from _leaves(field.type, path)
        else:
            yield path


def _parse_names(text: str) -> list[tuple[str, ...]]:
    parts: list[str] = []
    quoted = False
    current = ""
    for character in text:
        quoted ^= character == "`"
        if character == "," and not quoted:
            parts.append(current)
            current = ""
        else:
            current += character
    parts.append(current)
    try:
        return [split_name(part.strip()) for part in parts if part.strip()]
    except InvalidArgumentError as error:
        raise SchemaError(f"{_NAMES} is {text!r}, which is not a list of columns", hint=error.hint) from None


def _starts_with(path: tuple[Field, ...], name: tuple[str, ...]) -> bool:
    return len(path) >= len(name) and all(
        field.name.lower() == part.lower() for field, part in zip(path, name, strict=False)
    )
