"""From an Avro schema and wanted Arrow columns to the nodes that the kernel `decode_avro` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import CorruptAvroError
from deltaberg.files.avro.schema import AvroField, AvroType
from deltaberg.kernels.results import AvroNode
from deltaberg.schema.name_mapping import FIELD_ID

__all__ = ["by_id", "by_name"]

_Keys = Mapping[int, Sequence[int]]
#: Maps the fields of a record and the wanted columns to the slot of each field.
_Match = Callable[[Sequence[AvroField], Sequence[pa.Field]], "list[int | None]"]


def by_id(schema: AvroType, columns: pa.Schema, keys: _Keys) -> AvroNode:
    """Resolve wanted columns by their ids.

    Raises
    ------
    CorruptAvroError
        If the file lacks a field that is not nullable.
    """
    return _read(schema, pa.struct(list(columns)), None, _match_ids, keys)


def by_name(schema: AvroType, columns: pa.Schema) -> AvroNode:
    """Resolve wanted top-level columns by name, with everything that the file has in them."""
    return _read(schema, pa.struct(list(columns)), None, _match_names, {})


def _match_ids(stored: Sequence[AvroField], columns: Sequence[pa.Field]) -> list[int | None]:
    slots = {_id_of(child): slot for slot, child in enumerate(columns)}
    known = {part.id for part in stored}
    missing = [child for child in columns if not child.nullable and _id_of(child) not in known]
    if missing:
        raise CorruptAvroError(
            f"the Avro file has no field {missing[0].name} (id {_id_of(missing[0])}), which is required",
            column=missing[0].name,
        )
    return _once([None if part.id is None else slots.get(part.id) for part in stored], columns)


def _match_names(stored: Sequence[AvroField], columns: Sequence[pa.Field]) -> list[int | None]:
    slots = {child.name: slot for slot, child in enumerate(columns)}
    return _once([slots.get(part.name) for part in stored], columns)


def _once(slots: list[int | None], columns: Sequence[pa.Field]) -> list[int | None]:
    """Refuse two fields for one column, whose values would get mixed up."""
    chosen = [slot for slot in slots if slot is not None]
    twice = next((slot for slot in chosen if chosen.count(slot) > 1), None) if len(set(chosen)) < len(chosen) else None
    if twice is not None:
        name = columns[twice].name
        raise CorruptAvroError(f"the Avro file has two fields for the column {name}", column=name)
    return slots


def _id_of(child: pa.Field) -> int:
    return int((child.metadata or {})[FIELD_ID])


def _read(stored: AvroType, target: pa.DataType, slot: int | None, match: _Match, keys: _Keys) -> AvroNode:
    """Return the node of a type whose values are decoded into a column of the target type."""
    kind = stored.kind
    if kind == "union":
        others = [_read(branch.type, target, None, match, keys) for branch in stored.fields]
        return (kind, 0, slot, others, None)
    if kind == "record" and pt.is_struct(target):
        return (kind, 0, slot, _fields(stored.fields, list(target), match, keys), None)
    if kind == "array" and pt.is_list(target):
        return (kind, 0, slot, [_read(stored.fields[0].type, target.value_type, None, match, keys)], None)
    if kind == "pairs" and pt.is_map(target):
        pair = stored.fields[0].type.value
        entry = [target.key_field, target.item_field]
        children = [
            _read(part.type, child.type, index, match, keys)
            for index, (part, child) in enumerate(zip(pair.fields, entry, strict=True))
        ]
        chosen = None if pair.fields[0].id is None else keys.get(pair.fields[0].id)
        return (kind, 0, slot, [("record", 0, None, children, None)], chosen)
    if kind == "map" and pt.is_map(target):
        return (kind, 0, slot, [_read(stored.fields[0].type, target.item_type, None, match, keys)], None)
    return _whole(stored, slot)


def _fields(stored: Sequence[AvroField], columns: Sequence[pa.Field], match: _Match, keys: _Keys) -> list[AvroNode]:
    slots = match(stored, columns)
    return [
        _whole(part.type, None) if slot is None else _read(part.type, columns[slot].type, slot, match, keys)
        for part, slot in zip(stored, slots, strict=True)
    ]


def _whole(stored: AvroType, slot: int | None) -> AvroNode:
    """Return the node of a leaf, or of a type that is skipped."""
    return (stored.kind, stored.size, slot, [_whole(child.type, None) for child in stored.fields], None)
