"""Name mappings: ids for the columns of files without ids, by name (Iceberg spec, "Column Projection")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import CorruptDataFileError
from deltaberg.hints import shown_value
from deltaberg.schema.types import DataType, List, Map, Struct

__all__ = [
    "FIELD_ID",
    "MappedField",
    "NameMapping",
    "extended_mapping",
    "field_id",
    "has_field_ids",
    "mapping_of",
    "with_mapped_ids",
]

#: The key of a field's id in the metadata of Arrow fields, as in the schemas that pyarrow reads from Parquet.
FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class MappedField:
    """The names that a column may have in files, its id, and the mapping of its nested columns."""

    names: tuple[str, ...]
    id: int | None = None
    fields: NameMapping | None = None


@dataclass(frozen=True)
class NameMapping:
    """The mapped columns of one level: a struct's fields, a list's ``element``, or a map's ``key`` and ``value``.

    If ``whole`` is true, a file with a top-level column that is not mapped gets no ids at all.
    """

    fields: tuple[MappedField, ...] = ()
    whole: bool = False

    def find(self, name: str) -> MappedField | None:
        """Return the mapped column with a name."""
        return next((mapped for mapped in self.fields if name in mapped.names), None)


_NOTHING = NameMapping()


def field_id(child: pa.Field) -> int | None:
    """Return the id of a field in a file, or None.

    Raises
    ------
    CorruptDataFileError
        The id is not a number.
    """
    text = (child.metadata or {}).get(FIELD_ID)
    try:
        return None if text is None else int(text)
    except ValueError:
        raise CorruptDataFileError(
            f"the id of the column {shown_value(child.name)} is {shown_value(text)}, not a number"
        ) from None


def has_field_ids(file_schema: pa.Schema) -> bool:
    """Return whether a column of a file has a field id, at any level."""
    return any(field_id(child) is not None for child in _all_fields(file_schema))


def _all_fields(within: pa.Schema | pa.DataType) -> Iterator[pa.Field]:
    count = len(within) if isinstance(within, pa.Schema) else within.num_fields
    for number in range(count):
        child = within.field(number)
        yield child
        yield from _all_fields(child.type)


def with_mapped_ids(file_schema: pa.Schema, mapping: NameMapping | None) -> pa.Schema:
    """Return the schema of a file. If it has no ids, add those that a mapping has for its names, at every level.

    Examples
    --------
    >>> mapping = NameMapping((MappedField(("id", "record_id"), 1),))
    >>> with_mapped_ids(pa.schema([("record_id", pa.int64())]), mapping).field(0).metadata
    {b'PARQUET:field_id': b'1'}
    """
    if mapping is None or any(field_id(child) is not None for child in file_schema):
        return file_schema
    if mapping.whole and any(mapping.find(child.name) is None for child in file_schema):
        return file_schema
    return pa.schema(_mapped(file_schema, mapping))


def mapping_of(schema: Struct) -> NameMapping:
    """Return the mapping of a schema's own names, for files that have no other columns.

    Examples
    --------
    >>> from deltaberg.schema.types import Field, Primitive
    >>> mapping_of(Struct((Field("a", Primitive("long"), id=7),))).find("a").id
    7
    """
    return NameMapping(_fields_of(schema), whole=True)


def extended_mapping(mapping: NameMapping, schema: Struct) -> NameMapping:
    """Return a mapping with the names that the columns of a schema have now, besides those that they had.

    A name stays with the column that had it first, since files are read by it that are there already.

    Examples
    --------
    >>> from deltaberg.schema.types import Field, Primitive
    >>> old = NameMapping((MappedField(("a",), 7),))
    >>> extended_mapping(old, Struct((Field("b", Primitive("long"), id=7),))).fields[0].names
    ('a', 'b')
    """
    return replace(mapping, fields=_extended(mapping.fields, _fields_of(schema)))


def _extended(known: tuple[MappedField, ...], own: tuple[MappedField, ...]) -> tuple[MappedField, ...]:
    taken = {name for mapped in known for name in mapped.names}
    current = {mapped.id: mapped for mapped in own}
    found = [
        mapped if mapped.id not in current else _with_names(mapped, current.pop(mapped.id), taken) for mapped in known
    ]
    return (*found, *(mapped for mapped in current.values() if taken.isdisjoint(mapped.names)))


def _with_names(mapped: MappedField, now: MappedField, taken: AbstractSet[str]) -> MappedField:
    names = (*mapped.names, *(name for name in now.names if name not in taken))
    inner = () if now.fields is None else now.fields.fields
    before = () if mapped.fields is None else mapped.fields.fields
    return replace(mapped, names=names, fields=NameMapping(_extended(before, inner)) if inner else mapped.fields)


def _fields_of(within: DataType) -> tuple[MappedField, ...]:
    if isinstance(within, Struct):
        children = [(child.name, child) for child in within]
    elif isinstance(within, List):
        children = [("element", within.element)]
    elif isinstance(within, Map):
        children = [("key", within.key), ("value", within.value)]
    else:
        return ()
    return tuple(MappedField((name,), child.id, NameMapping(_fields_of(child.type))) for name, child in children)


def _mapped(children: Iterable[pa.Field], mapping: NameMapping) -> list[pa.Field]:
    return [_with_id(child, mapping.find(child.name)) for child in children]


def _with_id(child: pa.Field, mapped: MappedField | None) -> pa.Field:
    inside = _NOTHING if mapped is None or mapped.fields is None else mapped.fields
    metadata = {} if mapped is None or mapped.id is None else {FIELD_ID: str(mapped.id).encode()}
    return child.with_type(_inner(child.type, inside)).with_metadata(metadata or None)


def _inner(arrow: pa.DataType, mapping: NameMapping) -> pa.DataType:
    if pt.is_struct(arrow):
        return pa.struct(_mapped(arrow, mapping))
    if pt.is_list(arrow):
        return pa.list_(_with_id(arrow.value_field, mapping.find("element")))
    if pt.is_map(arrow):
        key = _with_id(arrow.key_field, mapping.find("key"))
        return pa.map_(key, _with_id(arrow.item_field, mapping.find("value")))
    return arrow
