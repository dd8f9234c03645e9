"""The columns that equality deletes compare (Iceberg spec, "Equality Delete Files")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow.compute as pc

from deltaberg.errors import CorruptMetadataError
from deltaberg.iceberg.manifests.fields import EQUALITY_DELETES
from deltaberg.iceberg.manifests.reader import Entries, ManifestReader
from deltaberg.iceberg.partition.structs import path_to_id
from deltaberg.schema.types import Field, List, Map, Primitive, Struct

__all__ = ["all_key_fields", "key_fields"]


def key_fields(entries: Sequence[Entries], reader: ManifestReader) -> tuple[Field, ...]:
    """Return the columns that the equality deletes among delete files compare, as top-level fields.

    A struct has only those of its fields that are compared.

    Raises
    ------
    CorruptMetadataError
        If a file names no columns, or one that cannot be compared.
    """
    ids: set[int | None] = set()
    for found in entries:
        equality = found.table.filter(pc.equal(found.table.column("content"), EQUALITY_DELETES))
        lists = equality.column("equality_ids")
        if lists.null_count or pc.any(pc.equal(pc.list_value_length(lists), 0), min_count=0).as_py():
            raise CorruptMetadataError("an equality delete file names no columns (equality_ids)", table=reader.table)
        ids |= set(pc.list_flatten(lists).unique().to_pylist())
    if None in ids:
        raise CorruptMetadataError("an equality delete file has a null among its equality_ids", table=reader.table)
    compared = []
    for number in sorted(number for number in ids if number is not None):
        path = next((path for path in (path_to_id(schema, number) for schema in reader.schemas) if path), None)
        if path is None:
            raise CorruptMetadataError(
                f"an equality delete file compares a column of id {number}, which no schema has", table=reader.table
            )
        narrow = path[-1]
        if isinstance(narrow.type, (Struct, List, Map)) or narrow.type == Primitive("variant"):
            raise CorruptMetadataError(
                f"an equality delete file compares the column {narrow.name} (id {number}) of type {narrow.type}",
                table=reader.table,
            )
        for outer in reversed(path[:-1]):
            narrow = Field(outer.name, Struct((narrow,)), id=outer.id)
        compared.append(narrow)
    return all_key_fields([compared])


def all_key_fields(keys: Iterable[Iterable[Field]]) -> tuple[Field, ...]:
    """Return all compared columns of several results of `key_fields`, each once."""
    tops: dict[int | None, Field] = {}
    for narrow in (child for found in keys for child in found):
        known = tops.get(narrow.id)
        tops[narrow.id] = narrow if known is None else _merged(known, narrow)
    return tuple(tops.values())


def _merged(one: Field, other: Field) -> Field:
    if not isinstance(one.type, Struct) or not isinstance(other.type, Struct):
        return one
    parts = {child.id: child for child in one.type}
    for child in other.type:
        known = parts.get(child.id)
        parts[child.id] = child if known is None else _merged(known, child)
    return Field(one.name, Struct(tuple(parts.values())), id=one.id)
