"""Rules of columns and properties that writers must enforce; readers only report them.

Delta protocol, "Column Invariants", "CHECK Constraints", "Generated Columns", "Default Columns", "Identity Columns".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from deltaberg.delta.schema.text_types import TEXT_TYPE
from deltaberg.errors import CorruptLogError, SchemaError
from deltaberg.schema.types import Field, Primitive, Struct, fields_inside

__all__ = [
    "CURRENT_DEFAULT",
    "FEATURES_OF_MEMBERS",
    "IDENTITY_MARK",
    "OF_ONE_TABLE",
    "IdentityColumn",
    "check_constraints",
    "checked_new_rules",
    "column_defaults",
    "column_invariants",
    "features_of_rules",
    "generation_expressions",
    "given_metadata",
    "identity_columns",
]

_CONSTRAINT = "delta.constraints."
_IDENTITY = "delta.identity."
_LONG = Primitive("long")
_GENERATED = "delta.generationExpression"
_INVARIANT = "delta.invariants"
#: How the members of metadata begin that belong to the columns of one table.
OF_ONE_TABLE = ("delta.columnMapping.", "delta.typeChanges")
#: The member of a field's metadata that holds the default value of a column.
CURRENT_DEFAULT = "CURRENT_DEFAULT"
#: The member of a field's metadata that keeps the last generated value of an identity column.
IDENTITY_MARK = f"{_IDENTITY}highWaterMark"
_EXPLICIT = f"{_IDENTITY}allowExplicitInsert"
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


#: The features by which writers obey the members of a field's metadata.
FEATURES_OF_MEMBERS = {
    CURRENT_DEFAULT: "allowColumnDefaults",
    _GENERATED: "generatedColumns",
    _INVARIANT: "invariants",
    **dict.fromkeys((f"{_IDENTITY}start", f"{_IDENTITY}step", IDENTITY_MARK, _EXPLICIT), "identityColumns"),
}


class IdentityColumn(NamedTuple):
    """The rule for the values of an identity column; ``high_water_mark`` is None before the first one."""

    start: int
    step: int
    high_water_mark: int | None
    allow_explicit_insert: bool


def check_constraints(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the CHECK constraints among table properties, as SQL by name."""
    return {name.removeprefix(_CONSTRAINT): sql for name, sql in properties.items() if name.startswith(_CONSTRAINT)}


def column_invariants(schema: Struct) -> dict[str, str]:
    """Return the invariants of columns, including nested ones, as SQL by path.

    Raises
    ------
    CorruptLogError
        If an invariant is not written as the protocol says.
    """
    invariants = {}
    for path, field in _fields(schema):
        text = field.metadata.get(_INVARIANT)
        if text is not None:
            try:
                invariants[path] = str(json.loads(text)["expression"]["expression"])
            except (ValueError, TypeError, KeyError, RecursionError):
                raise CorruptLogError("an invariant is not written as the protocol says", column=path) from None
    return invariants


def generation_expressions(schema: Struct) -> dict[str, str]:
    """Return the generation expressions of columns, as SQL by path."""
    return _texts(schema, _GENERATED)


def column_defaults(schema: Struct) -> dict[str, str]:
    """Return the default values of columns, as SQL by path."""
    return _texts(schema, CURRENT_DEFAULT)


def identity_columns(schema: Struct) -> dict[str, IdentityColumn]:
    """Return the identity columns by path.

    Raises
    ------
    CorruptLogError
        If one lacks its start or step, or if these are not integers.
    """
    columns = {}
    for path, field in _fields(schema):
        if f"{_IDENTITY}start" in field.metadata:
            columns[path] = IdentityColumn(
                _integer(field, "start", path),
                _integer(field, "step", path),
                _integer(field, "highWaterMark", path) if IDENTITY_MARK in field.metadata else None,
                field.metadata.get(_EXPLICIT) is True,
            )
    return columns


def given_metadata(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return what a new table keeps of the metadata of an Arrow field.

    These are its comment, the lengths of its texts, and members of the protocol.

    The ids and names of column mapping and the changes of types are those of another table. Texts of numbers and of
    booleans become what the protocol asks for.

    Examples
    --------
    >>> given_metadata({"delta.identity.start": "1", "delta.identity.allowExplicitInsert": "true", "other": "x"})
    {'delta.identity.start': 1, 'delta.identity.allowExplicitInsert': True}
    """
    kept: dict[str, Any] = {}
    for key, text in metadata.items():
        if key in ("comment", CURRENT_DEFAULT, TEXT_TYPE) or (
            key.startswith("delta.") and not key.startswith(OF_ONE_TABLE)
        ):
            kept[key] = _plain_value(text) if key.startswith(_IDENTITY) else text
    return kept


def checked_new_rules(schema: Struct) -> Struct:
    """Return the columns of a new table with whole rules, as far as these do not depend on their expressions.

    An identity column takes no values unless its metadata says so. Other engines ask for that member.

    Raises
    ------
    SchemaError
        A rule is not written as the protocol says, or a column has rules that exclude each other.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> rule = {"delta.identity.start": 1, "delta.identity.step": 1}
    >>> dict(checked_new_rules(Struct((Field("id", Primitive("long"), metadata=rule),))).fields[0].metadata)
    {'delta.identity.start': 1, 'delta.identity.step': 1, 'delta.identity.allowExplicitInsert': False}
    """
    for path, field in _fields(schema):
        _check_new_rule(field, path)
    try:
        column_invariants(schema)
    except CorruptLogError as error:
        raise SchemaError(error.message, column=error.context.get("column")) from error
    return Struct(tuple(_with_explicit(field) for field in schema))


def _with_explicit(field: Field) -> Field:
    if not _is_identity(field.metadata):
        return field
    return replace(field, metadata={**field.metadata, _EXPLICIT: field.metadata.get(_EXPLICIT, False)})


def _is_identity(metadata: Mapping[str, Any]) -> bool:
    return any(key.startswith(_IDENTITY) for key in metadata)


def _check_new_rule(field: Field, path: str) -> None:
    metadata = field.metadata
    kinds = [key for key in (_GENERATED, CURRENT_DEFAULT) if key in metadata]
    for key in kinds:
        if not isinstance(metadata[key], str):
            raise SchemaError(f"{key} is {metadata[key]!r}, which is not text", hint="write it as SQL", column=path)
    if len(kinds) + _is_identity(metadata) > 1:
        raise SchemaError(
            "a column is an identity column, is generated, or has a default value",
            hint="choose one of them",
            column=path,
        )
    if not _is_identity(metadata):
        return
    if field.type != _LONG:
        raise SchemaError(f"an identity column has the type {field.type}, not long", column=path)
    for name in ("start", "step", *(["highWaterMark"] if IDENTITY_MARK in metadata else [])):
        value = metadata.get(_IDENTITY + name)
        if type(value) is not int or not _LEAST <= value <= _MOST:
            raise SchemaError(f"{_IDENTITY}{name} is {value!r}, which is not an integer of 64 bits", column=path)
    if not metadata[f"{_IDENTITY}step"]:
        raise SchemaError("the step of an identity column is 0", column=path)
    if not isinstance(metadata.get(_EXPLICIT, False), bool):
        raise SchemaError(f"{_EXPLICIT} is {metadata[_EXPLICIT]!r}, which is neither true nor false", column=path)


def _plain_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def features_of_rules(schema: Struct) -> set[str]:
    """Return the features that the rules of columns need."""
    members = {key for _, field in _fields(schema) for key in field.metadata}
    return {feature for key, feature in FEATURES_OF_MEMBERS.items() if key in members}


def _integer(field: Field, name: str, path: str) -> int:
    value: Any = field.metadata.get(_IDENTITY + name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise CorruptLogError(f"{_IDENTITY}{name} is {value!r}, which is not an integer", column=path)
    return value


def _fields(schema: Struct) -> Iterator[tuple[str, Field]]:
    return ((".".join(path), field) for path, field in fields_inside(schema))


def _texts(schema: Struct, key: str) -> dict[str, str]:
    return {path: str(field.metadata[key]) for path, field in _fields(schema) if key in field.metadata}
