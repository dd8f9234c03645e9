"""Partition structs: the typed partition values of files, and what all specs of a table have in common."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import SchemaError
from deltaberg.iceberg.evolution import nested_fields
from deltaberg.iceberg.spec import PartitionField, PartitionSpec
from deltaberg.iceberg.transforms import Unknown, parse_transform
from deltaberg.schema import DataType, Field, Primitive, Struct, arrow_type

__all__ = [
    "AS_TEXT",
    "field_by_id",
    "identity_sources",
    "partition_struct",
    "path_to_id",
    "union_struct",
    "union_values",
]

#: The metadata of a partition field whose type manifests alone know, of an unknown transform or a source that is gone:
#: its values are read as text.
AS_TEXT = "as-text"


def path_to_id(schema: Struct, number: int) -> tuple[Field, ...]:
    """Give the struct fields from the root to a field id; nothing where there is none outside of lists and maps."""
    for child in schema:
        if child.id == number:
            return (child,)
        if isinstance(child.type, Struct):
            rest = path_to_id(child.type, number)
            if rest:
                return (child, *rest)
    return ()


def field_by_id(schemas: Iterable[Struct], number: int) -> Field | None:
    """Give the field of an id, at any level, from the first schema that has it."""
    for schema in schemas:
        found = _find(schema, number)
        if found is not None:
            return found
    return None


def _find(within: DataType, number: int) -> Field | None:
    for child in nested_fields(within):
        found = child if child.id == number else _find(child.type, number)
        if found is not None:
            return found
    return None


def partition_struct(spec: PartitionSpec, schemas: Sequence[Struct]) -> Struct:
    """Give the struct of a spec's partition values, with the types of the transforms' results.

    Parameters
    ----------
    schemas
        The schemas of the table, the current one first: a source may have been dropped since.
    """
    fields = []
    for part in spec.fields:
        result = _result(part, schemas)
        kept = {AS_TEXT: True} if result is None else {}
        fields.append(Field(part.name, result or Primitive("string"), True, kept, part.field_id))
    return Struct(tuple(fields))


def _result(part: PartitionField, schemas: Sequence[Struct]) -> DataType | None:
    source = field_by_id(schemas, part.source_ids[0]) if len(part.source_ids) == 1 else None
    if source is None:
        return None
    try:
        transform = parse_transform(part.transform)
        return None if isinstance(transform, Unknown) else transform.result_type(source.type)
    except SchemaError:
        return None


def union_struct(specs: Sequence[PartitionSpec], schemas: Sequence[Struct]) -> Struct:
    """Give a struct with the partition fields of all specs, by field id, the newest names first.

    A field that is ``void`` in a newer spec has the type that its values had before. Tables of version 1 may have used
    an id again for something else; where the types differ, so do the fields here.
    """
    newest = sorted(specs, key=lambda spec: spec.spec_id, reverse=True)
    names: dict[int, str] = {}
    types: dict[int, dict[DataType, bool]] = {}
    for spec in newest:
        for part, child in zip(spec.fields, partition_struct(spec, schemas), strict=True):
            names.setdefault(part.field_id, part.name)
            known = types.setdefault(part.field_id, {})
            known[child.type] = known.get(child.type, False) or part.transform != "void"
    union: dict[str, Field] = {}
    for number in sorted(names):
        used = [kind for kind, has_values in types[number].items() if has_values] or list(types[number])[:1]
        for kind in used:
            name = _unused(names[number], number, union)
            union[name] = Field(name, kind, id=number)
    return Struct(tuple(union.values()))


def _unused(name: str, number: int, taken: Container[str]) -> str:
    while name in taken:
        name = f"{name}_{number}"
    return name


def union_values(values: pa.StructArray, own: Struct, union: Struct) -> pa.StructArray:
    """Bring partition values of one spec into the struct of all."""
    fields = [pa.field(child.name, arrow_type(child.type)) for child in union]
    if not fields:
        return pa.Array.from_buffers(pa.struct([]), len(values), [None], children=[])
    places = {(child.id, child.type): index for index, child in enumerate(own)}
    arrays = []
    for child, target in zip(union, fields, strict=True):
        place = places.get((child.id, child.type))
        found = pa.nulls(len(values), target.type) if place is None else pc.struct_field(values, place)
        arrays.append(found if found.type == target.type else found.cast(target.type))
    return pa.StructArray.from_arrays(arrays, fields=fields)


def identity_sources(specs: Sequence[PartitionSpec], schema: Struct) -> dict[int, Field]:
    """Give the top-level columns that are partitioned by identity, by the id of the partition field.

    Columns of types that nothing is partitioned by are not among them, whatever a spec says: files hold their values.
    """
    top = {child.id: child for child in schema}
    return {
        part.field_id: top[part.source_ids[0]]
        for spec in specs
        for part in spec.fields
        if part.transform == "identity" and _result(part, [schema]) is not None and part.source_ids[0] in top
    }
