"""The columns of a table that is made of files which are there already: those of all files together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from deltaberg.errors import SchemaError
from deltaberg.schema.columns import join_name
from deltaberg.schema.types import DataType, Field, List, Map, Struct

__all__ = ["united_columns"]


def united_columns(files: Iterable[tuple[str, Struct]], partition: Struct) -> Struct:
    """Return the columns of all files in the order in which they appear; partition columns come last.

    Parameters
    ----------
    files
        Each file, as messages name it, and its columns.
    partition
        The columns whose values are in the names of directories.

    Raises
    ------
    SchemaError
        The columns of the files do not fit together.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> one, other = (Struct((Field(name, Primitive("long")),)) for name in "ab")
    >>> print(united_columns([("x", one), ("y", other)], Struct()))
    struct<a: long, b: long>
    """
    merged = Struct()
    seen: dict[Struct, None] = {}
    for file, columns in files:
        if columns not in seen:
            seen[columns] = None
            try:
                merged = _union(merged, columns, ())
            except SchemaError as error:
                raise error.with_context(file=file) from None
    partitions = {field.name.lower() for field in partition}
    stored = [field for field in merged if field.name.lower() not in partitions]
    return Struct((*stored, *(replace(field, nullable=True) for field in partition)))


def _union(known: Struct, found: Struct, above: tuple[str, ...]) -> Struct:
    """Return the fields of two structs, all of which may be null."""
    fields = {field.name: field for field in known}
    folded = {field.name.lower(): field.name for field in known}
    for field in found:
        path = (*above, field.name)
        earlier = folded.setdefault(field.name.lower(), field.name)
        if earlier != field.name:
            raise SchemaError(f"the column is spelled {earlier} in another file", column=join_name(path))
        old = fields.get(field.name)
        kind = _union_type(field.type if old is None else old.type, field.type, path)
        fields[field.name] = replace(field if old is None else old, type=kind, nullable=True)
    return Struct(tuple(fields.values()))


def _union_type(united: DataType, kind: DataType, path: tuple[str, ...]) -> DataType:
    if isinstance(united, Struct) and isinstance(kind, Struct):
        return _union(united, kind, path)
    if isinstance(united, List) and isinstance(kind, List):
        return List(_union_inside(united.element, kind.element, path))
    if isinstance(united, Map) and isinstance(kind, Map):
        key = replace(united.key, type=_union_type(united.key.type, kind.key.type, (*path, "key")))
        return Map(key, _union_inside(united.value, kind.value, path))
    if united != kind:
        raise SchemaError(
            f"the column has the type {kind}, and {united} in another file",
            hint="rewrite the files with one type",
            column=join_name(path),
        )
    return united


def _union_inside(known: Field, found: Field, path: tuple[str, ...]) -> Field:
    return replace(known, type=_union_type(known.type, found.type, (*path, known.name)), nullable=True)
