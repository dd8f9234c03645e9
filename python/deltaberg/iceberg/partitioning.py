"""Partition structs: the typed partition values of files, and what all specs of a table have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import SchemaError
from deltaberg.iceberg.evolution import nested_fields
from deltaberg.iceberg.spec import PartitionField, PartitionSpec
from deltaberg.iceberg.transforms import parse_transform
from deltaberg.schema import DataType, Field, Primitive, Struct, arrow_type

__all__ = ["field_by_id", "identity_sources", "partition_struct", "path_to_id", "union_struct", "union_values"]

_STRING = Primitive("string")


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
    return Struct(tuple(Field(part.name, _result(part, schemas), id=part.field_id) for part in spec.fields))


def _result(part: PartitionField, schemas: Sequence[Struct]) -> DataType:
    source = field_by_id(schemas, part.source_ids[0]) if len(part.source_ids) == 1 else None
    if source is None:
        return _STRING
    try:
        return parse_transform(part.transform).result_type(source.type)
    except SchemaError:
        return _STRING


def union_struct(specs: Sequence[PartitionSpec], schemas: Sequence[Struct]) -> Struct:
    """Give a struct with the partition fields of all specs, by field id, the newest names first."""
    found: dict[int | None, Field] = {}
    for spec in sorted(specs, key=lambda spec: spec.spec_id, reverse=True):
        for child in partition_struct(spec, schemas):
            found.setdefault(child.id, child)
    names: set[str] = set()
    unique = []
    for child in sorted(found.values(), key=lambda child: child.id or 0):
        name = child.name if child.name not in names else f"{child.name}_{child.id}"
        names.add(name)
        unique.append(Field(name, child.type, id=child.id))
    return Struct(tuple(unique))


def union_values(values: pa.StructArray, own: Struct, union: Struct) -> pa.StructArray:
    """Bring partition values of one spec into the struct of all."""
    by_id = {child.id: values.field(index) for index, child in enumerate(own)}
    fields = [pa.field(child.name, arrow_type(child.type)) for child in union]
    if not fields:
        return pa.Array.from_buffers(pa.struct([]), len(values), [None], children=[])
    mask = values.is_null() if values.null_count else None
    arrays = []
    for child, target in zip(union, fields, strict=True):
        found = by_id.get(child.id)
        if found is None:
            arrays.append(pa.nulls(len(values), target.type))
            continue
        plain = found if mask is None else pc.if_else(mask, pa.scalar(None, found.type), found)
        arrays.append(plain if plain.type == target.type else plain.cast(target.type))
    return pa.StructArray.from_arrays(arrays, fields=fields)


def identity_sources(specs: Sequence[PartitionSpec], schema: Struct) -> dict[int, Field]:
    """Give the top-level columns that are partitioned by identity, by the id of the partition field."""
    top = {child.id: child for child in schema}
    return {
        part.field_id: top[part.source_ids[0]]
        for spec in specs
        for part in spec.fields
        if part.transform == "identity" and len(part.source_ids) == 1 and part.source_ids[0] in top
    }
