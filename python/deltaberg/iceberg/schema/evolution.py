"""Which changes are allowed from one schema of a table to the next (Iceberg spec, "Schema Evolution")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltaberg.iceberg.schema.schema import Schema
from deltaberg.schema.types import DataType, Decimal, Field, Fixed, List, Map, Primitive, Struct, field_paths

__all__ = ["forbidden_changes", "is_promotion", "is_same_type"]

_PROMOTIONS = {("integer", "long"), ("float", "double")}
#: The promotions that version 3 added.
_LATER_PROMOTIONS = {("date", "timestamp_ntz"), ("date", "timestamp_ntz_ns")}
_LATER = 3


def is_promotion(old: DataType, new: DataType, format_version: int) -> bool:
    """Return whether a column may change from one type to a different one.

    Examples
    --------
    >>> is_promotion(Primitive("integer"), Primitive("long"), 1)
    True
    """
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        return old.scale == new.scale and old.precision < new.precision
    if not isinstance(old, Primitive):
        return False
    if old.name == "void":
        return format_version >= _LATER
    if not isinstance(new, Primitive):
        return False
    pair = (old.name, new.name)
    return pair in _PROMOTIONS or (format_version >= _LATER and pair in _LATER_PROMOTIONS)


def forbidden_changes(schemas: Sequence[Schema], format_version: int) -> Iterator[str]:
    """Yield each forbidden change between schemas as a sentence; the oldest schema comes first."""
    seen: dict[int, tuple[Field, int | None]] = {}
    for schema in schemas:
        for *above, child in field_paths(schema.struct):
            parent = above[-1].id if above else None
            if child.id is None:
                continue
            before = seen.get(child.id)
            seen[child.id] = (child, parent)
            if before is None:
                continue
            was, old_parent = before
            name = f"{child.id} ({child.name})"
            if not _is_kept(was.type, child.type) and not is_promotion(was.type, child.type, format_version):
                yield f"the column {name} was {was.type} and is {child.type} in the schema {schema.schema_id}"
            elif old_parent != parent:
                yield f"the column {name} was moved in the schema {schema.schema_id}"
            elif _key_ids(was.type) != _key_ids(child.type):
                yield f"the key of the map {name} has other fields in the schema {schema.schema_id}"


def _is_kept(old: DataType, new: DataType) -> bool:
    """Return whether a type is unchanged. The contents of nested types have ids, and are compared on their own."""
    nested = (Struct, List, Map)
    return type(old) is type(new) if isinstance(old, nested) else old == new


def _key_ids(found: DataType) -> set[int | None]:
    """Return the ids of all fields in the key of a map; none for other types."""
    if not isinstance(found, Map):
        return set()
    return {found.key.id, *(inner.id for *_, inner in field_paths(found.key.type))}


def is_same_type(kind: DataType, kind_of_rows: DataType) -> bool:
    """Return whether the types of a table and of rows differ in ids at most. Rows hold a uuid as 16 bytes.

    Examples
    --------
    >>> is_same_type(Primitive("uuid"), Fixed(16)), is_same_type(Primitive("integer"), Primitive("long"))
    (True, False)
    """
    return str(kind) == str(kind_of_rows) or (kind == Primitive("uuid") and kind_of_rows == Fixed(16))
