"""Partition structs: the typed partition values of files, in the fields of one spec or of all specs of a table."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import SchemaError
from deltaberg.iceberg.metadata.specs import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import Unknown, parse_transform
from deltaberg.iceberg.schema.value_bytes import encode_values
from deltaberg.kernels.results import empty_structs
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Field, Primitive, Struct, field_paths

__all__ = [
    "AS_TEXT",
    "field_by_id",
    "identity_sources",
    "one_nan",
    "partition_keys",
    "partition_struct",
    "path_to_id",
    "source_columns",
    "union_struct",
    "union_values",
]

#: The key in a partition field's metadata that says that its values are read as text: their type is known to manifests
#: only, because the transform is unknown or the source column is gone.
AS_TEXT = "as-text"


#: The types that columns of others become ("Schema Evolution"). Decimals have the same bytes whatever their precision.
_WIDENED: dict[DataType, DataType] = {Primitive("integer"): Primitive("long"), Primitive("float"): Primitive("double")}


def path_to_id(schema: Struct, number: int) -> tuple[Field, ...]:
    """Return the fields from the root to a field id, through structs only; an empty path if there are none."""
    for child in schema:
        if child.id == number:
            return (child,)
        if isinstance(child.type, Struct):
            rest = path_to_id(child.type, number)
            if rest:
                return (child, *rest)
    return ()


def field_by_id(schemas: Iterable[Struct], number: int) -> Field | None:
    """Return the field with an id, at any level, from the first schema that has it."""
    return next((child for schema in schemas for *_, child in field_paths(schema) if child.id == number), None)


def source_columns(specs: Iterable[PartitionSpec], schemas: Sequence[Struct]) -> Struct:
    """Return the columns that specs are made of, at one level, each of the first schema that has it."""
    numbers = dict.fromkeys(number for spec in specs for part in spec.fields for number in part.source_ids)
    found = (field_by_id(schemas, number) for number in numbers)
    return Struct(tuple(one for one in found if one is not None))


def partition_struct(spec: PartitionSpec, schemas: Sequence[Struct]) -> Struct:
    """Return the struct of a spec's partition values, with the result types of the transforms.

    Parameters
    ----------
    schemas
        The schemas of the table, the current one first: a source column may have been dropped since.
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
    """Return a struct with the partition fields of all specs, in the order of their ids, under their newest names.

    A field that is ``void`` in a newer spec has the type that its values had before. Tables of version 1 may have used
    an id again for another field; if the types differ, the union has a field for each.
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
    """Return partition values of one spec in the struct of all specs."""
    fields = [pa.field(child.name, arrow_type(child.type)) for child in union]
    if not fields:
        return empty_structs(len(values))
    places = {(child.id, child.type): index for index, child in enumerate(own)}
    arrays = []
    for child, target in zip(union, fields, strict=True):
        place = places.get((child.id, child.type))
        found = pa.nulls(len(values), target.type) if place is None else pc.struct_field(values, place)
        arrays.append(found if found.type == target.type else found.cast(target.type))
    return pa.StructArray.from_arrays(arrays, fields=fields)


def identity_sources(specs: Sequence[PartitionSpec], schema: Struct) -> dict[int, Field]:
    """Return the top-level columns that are partitioned by identity, keyed by the id of the partition field.

    Columns whose types cannot be partitioned by are left out, whatever a spec says: their values are read from files.
    """
    top = {child.id: child for child in schema}
    return {
        part.field_id: top[part.source_ids[0]]
        for spec in specs
        for part in spec.fields
        if part.transform == "identity" and _result(part, [schema]) is not None and part.source_ids[0] in top
    }


def one_nan(column: pa.Array) -> pa.Array:
    """Return a column in which all NaN have the same bits; other columns as they are."""
    if not pt.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)


def partition_keys(values: pa.StructArray, own: Struct) -> list[Hashable]:
    """Return what is equal for equal partition values of one spec, whatever Python can make of them.

    So it is for values from before and after their column was widened. NaN equals NaN, but 0.0 does not equal -0.0.

    Parameters
    ----------
    values
        Partition values.
    own
        The struct of their spec.
    """
    columns = []
    for index, child in enumerate(own):
        column = values.field(index)
        # A column without a type is null in all rows.
        if column.type == arrow_type(child.type) and not pt.is_null(column.type):
            wide = _WIDENED.get(child.type, child.type)
            column = encode_values(one_nan(column).cast(arrow_type(wide)), wide)
        columns.append(column)
    if not columns:
        return [()] * len(values)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
