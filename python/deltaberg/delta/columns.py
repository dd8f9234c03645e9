"""What columns and properties ask of writers: read here, enforced where rows are written.

Delta protocol, "Column Invariants", "CHECK Constraints", "Generated Columns", "Default Columns", "Identity Columns".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from deltaberg.errors import CorruptLogError
from deltaberg.schema import DataType, Field, List, Map, Struct

__all__ = [
    "IdentityColumn",
    "check_constraints",
    "column_defaults",
    "column_invariants",
    "generation_expressions",
    "identity_columns",
]

_CONSTRAINT = "delta.constraints."
_IDENTITY = "delta.identity."


class IdentityColumn(NamedTuple):
    """How the values of an identity column are made; ``high_water_mark`` is None before the first one."""

    start: int
    step: int
    high_water_mark: int | None
    allow_explicit_insert: bool


def check_constraints(properties: Mapping[str, str]) -> dict[str, str]:
    """Give the CHECK constraints among table properties: name to SQL."""
    return {name.removeprefix(_CONSTRAINT): sql for name, sql in properties.items() if name.startswith(_CONSTRAINT)}


def column_invariants(schema: Struct) -> dict[str, str]:
    """Give the invariants of columns, nested ones too: path to SQL.

    Raises
    ------
    CorruptLogError
        Where an invariant is not written as the protocol says.
    """
    found = {}
    for path, field in _fields(schema, ()):
        text = field.metadata.get("delta.invariants")
        if text is not None:
            try:
                found[path] = str(json.loads(text)["expression"]["expression"])
            except (ValueError, TypeError, KeyError, RecursionError):
                raise CorruptLogError("an invariant is not written as the protocol says", column=path) from None
    return found


def generation_expressions(schema: Struct) -> dict[str, str]:
    """Give the generation expressions of columns: path to SQL."""
    return _texts(schema, "delta.generationExpression")


def column_defaults(schema: Struct) -> dict[str, str]:
    """Give the defaults of columns: path to SQL."""
    return _texts(schema, "CURRENT_DEFAULT")


def identity_columns(schema: Struct) -> dict[str, IdentityColumn]:
    """Give the identity columns.

    Raises
    ------
    CorruptLogError
        Where one lacks its start or step, or they are no integers.
    """
    found = {}
    for path, field in _fields(schema, ()):
        if f"{_IDENTITY}start" in field.metadata:
            found[path] = IdentityColumn(
                _integer(field, "start", path),
                _integer(field, "step", path),
                _integer(field, "highWaterMark", path) if f"{_IDENTITY}highWaterMark" in field.metadata else None,
                field.metadata.get(f"{_IDENTITY}allowExplicitInsert") is True,
            )
    return found


def _integer(field: Field, name: str, path: str) -> int:
    value: Any = field.metadata.get(_IDENTITY + name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise CorruptLogError(f"{_IDENTITY}{name} is {value!r}, no integer", column=path)
    return value


def _texts(schema: Struct, key: str) -> dict[str, str]:
    return {path: str(field.metadata[key]) for path, field in _fields(schema, ()) if key in field.metadata}


def _fields(found: DataType, path: tuple[str, ...]) -> Iterator[tuple[str, Field]]:
    if isinstance(found, Struct):
        for field in found:
            here = (*path, field.name)
            yield ".".join(here), field
            yield from _fields(field.type, here)
    elif isinstance(found, List):
        yield from _fields(found.element.type, (*path, "element"))
    elif isinstance(found, Map):
        yield from _fields(found.key.type, (*path, "key"))
        yield from _fields(found.value.type, (*path, "value"))
