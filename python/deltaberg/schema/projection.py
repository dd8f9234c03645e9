"""Turning the columns of a file into the wanted columns.

Files of the same schema are planned once. The plan lists the leaves to read, and for every wanted field the field of
the file that it comes from, found by id or by physical name. A field that the file lacks is filled with its default, or
null. Nested fields are renamed, reordered, dropped, filled and promoted at any depth, and null structs, lists and maps
stay null.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import CorruptDataFileError, SchemaError
from deltaberg.schema.arrow import arrow_field, arrow_type
from deltaberg.schema.convert import convert_leaf, is_promotable, list_with_values, struct_of
from deltaberg.schema.name_mapping import field_id
from deltaberg.schema.rows.text_lengths import pad_texts
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct
from deltaberg.schema.variants.shredding import VariantLayout, unshred

__all__ = [
    "Children",
    "Leaf",
    "Projection",
    "Projections",
    "find_leaf",
    "has_ids",
    "leaf_count",
    "leaf_offsets",
    "plan_projection",
    "tops_of",
]

#: The type of columns that hold only nulls, which writers leave out of files.
_VOID = Primitive("void")
_Convert = Callable[[pa.Array], pa.Array]


@dataclass
class Projection:
    """The plan for a file. ``leaves`` are the numbers of the Parquet columns to read."""

    leaves: list[int]
    #: For each of the wanted fields, the name of the file's top-level field and how its array is converted, or None if
    #: the file lacks it.
    wanted: Sequence[Field]
    sources: list[tuple[str, _Convert] | None]

    def apply(self, batch: pa.RecordBatch, rows: int) -> list[pa.Array]:
        """Return an array for each wanted field, from a batch of the leaves that were read."""
        arrays = []
        for field, source in zip(self.wanted, self.sources, strict=True):
            if source is None:
                arrays.append(_missing(field, rows))
                continue
            name, convert = source
            try:
                arrays.append(convert(batch.column(name)))
            except (SchemaError, CorruptDataFileError) as error:
                raise error.with_context(column=field.name) from None
        return arrays


def plan_projection(fields: Sequence[Field], file_schema: pa.Schema, by_id: bool) -> Projection:
    """Plan how the wanted fields are read from a file with this schema.

    Parameters
    ----------
    fields
        Top-level fields, possibly with only some of their nested fields.
    file_schema
        The Arrow schema of the file, with field ids in the metadata ``PARQUET:field_id``.
    by_id
        Whether fields are resolved by id or by physical name.

    Raises
    ------
    SchemaError
        If a type in the file cannot be read as the table's, or fields are resolved by id and the file has no ids.
    """
    if by_id and fields and not has_ids(file_schema):
        raise SchemaError(
            "the data file has no field ids, but the table resolves its columns by id",
            hint="an Iceberg table may map names to ids (schema.name-mapping.default); a Delta table must be rewritten",
        )
    planner = _Planner(by_id)
    children = Children(file_schema, by_id)
    offsets = leaf_offsets(children.fields, 0)
    sources: list[tuple[str, _Convert] | None] = []
    for want in fields:
        index = None if want.type == _VOID else children.find(want)
        if index is None:
            sources.append(None)
            continue
        child = children.fields[index]
        try:
            convert = planner.field(want, child.type, offsets[index])
        except SchemaError as error:
            raise error.with_context(column=want.name) from None
        sources.append((child.name, convert))
    return Projection(sorted(set(planner.leaves)), fields, sources)


class Projections:
    """The last projections that were planned, which serve all files of the same schema. Threads may share them.

    A file has one of its columns, and perhaps another one of the columns of a filter.
    """

    def __init__(self) -> None:
        self._last: tuple[tuple[Sequence[Field], pa.Schema, bool, Projection], ...] = ()

    def __reduce__(self) -> tuple[type[Projections], tuple[()]]:
        return Projections, ()

    def plan(self, fields: Sequence[Field], file_schema: pa.Schema, by_id: bool) -> Projection:
        """Return what `plan_projection` returns."""
        last = self._last
        for planned in last:
            if planned[0] == fields and planned[2] == by_id and planned[1].equals(file_schema, True):
                return planned[3]
        projection = plan_projection(fields, file_schema, by_id)
        self._last = ((fields, file_schema, by_id, projection), *last[:1])
        return projection


def _missing(field: Field, rows: int) -> pa.Array:
    """Return the values of a field that the file lacks: its default, or nulls."""
    target = arrow_type(field.type)
    if field.default is None:
        return pa.nulls(rows, target)
    return pa.repeat(pa.scalar(field.default, target), rows)


class Leaf(NamedTuple):
    """Where a column is in a file: the number of its first leaf, its type, and whether it is a single leaf."""

    number: int
    type: pa.DataType
    is_leaf: bool


def find_leaf(path: Sequence[Field], file_schema: pa.Schema, by_id: bool) -> Leaf | None:
    """Find the column at the end of a path of struct fields; None if the file lacks it, or if its type is void."""
    if path[-1].type == _VOID:
        return None
    children = Children(file_schema, by_id)
    first = 0
    for part in path:
        index = children.find(part)
        if index is None:
            return None
        first += sum(leaf_count(child.type) for child in children.fields[:index])
        found = children.fields[index].type
        children = Children(found if pt.is_struct(found) else (), by_id)
    return Leaf(first, found, leaf_count(found) == 1 and not pt.is_nested(found))


def has_ids(fields: pa.Schema | pa.StructType) -> bool:
    """Return whether any field has an id."""
    for child in fields:
        if field_id(child) is not None:
            return True
        inner = child.type
        if pt.is_list(inner) or pt.is_map(inner):
            inner = inner.value_type if pt.is_list(inner) else inner.item_type
        if pt.is_struct(inner) and has_ids(inner):
            return True
    return False


def leaf_offsets(children: Sequence[pa.Field] | pa.Schema | pa.StructType, first: int) -> list[int]:
    """Return the number of the first leaf of each child."""
    offsets = []
    for child in children:
        offsets.append(first)
        first += leaf_count(child.type)
    return offsets


def tops_of(leaves: Sequence[int], schema: pa.Schema) -> list[int]:
    """Return the numbers of the top-level columns that contain leaves."""
    offsets = leaf_offsets(schema, 0)
    return sorted({bisect_right(offsets, leaf) - 1 for leaf in leaves})


def leaf_count(stored: pa.DataType) -> int:
    """Return how many leaves a type in a file has."""
    if isinstance(stored, pa.BaseExtensionType):
        return leaf_count(stored.storage_type)
    if pt.is_struct(stored):
        return sum(leaf_count(child.type) for child in stored)
    if pt.is_map(stored):
        return leaf_count(stored.key_type) + leaf_count(stored.item_type)
    if pt.is_list(stored) or pt.is_large_list(stored) or pt.is_fixed_size_list(stored):
        return leaf_count(stored.value_type)
    return 1


class Children:
    """The fields of a struct in a file, which are indexed once and then found by id or name."""

    def __init__(self, fields: Iterable[pa.Field], by_id: bool) -> None:
        self.fields = list(fields)
        self._by_id = by_id

    def find(self, want: Field) -> int | None:
        """Find the file's field for a wanted one."""
        # A field without an id is a hidden one, which the format only knows by its name.
        if self._by_id and want.id is not None:
            return self._ids.get(want.id)
        index = self._names.get(want.physical_name)
        if index is not None:
            return index
        folded = self._folded.get(want.physical_name.lower(), [])
        return folded[0] if len(folded) == 1 else None

    @cached_property
    def _ids(self) -> dict[int | None, int]:
        # If several fields have the same id or name, the first one counts.
        return {field_id(child): index for index, child in reversed([*enumerate(self.fields)])}

    @cached_property
    def _names(self) -> dict[str, int]:
        return {child.name: index for index, child in reversed([*enumerate(self.fields)])}

    @cached_property
    def _folded(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for index, child in enumerate(self.fields):
            found.setdefault(child.name.lower(), []).append(index)
        return found


class _Planner:
    """Plans fields, and collects the leaves that they need."""

    def __init__(self, by_id: bool) -> None:
        self._by_id = by_id
        self.leaves: list[int] = []

    def field(self, want: Field, found: pa.DataType, first: int) -> _Convert:
        """Plan how values of a field are converted; ``first`` is the number of the first leaf."""
        convert, length = self.plan(want.type, found, first), want.length
        if length is None or not length.is_padded:
            return convert
        return lambda array: pad_texts(convert(array), length)

    def plan(self, want: DataType, stored: pa.DataType, first: int) -> _Convert:
        """Plan how values of a type are converted; ``first`` is the number of the first leaf."""
        if isinstance(stored, pa.BaseExtensionType):
            inner = self.plan(want, stored.storage_type, first)
            return lambda array: inner(array.storage)
        if want == Primitive("variant"):
            return self._variant(stored, first)
        if want == _VOID:
            self.leaves.append(first)
            return lambda array: pa.nulls(len(array))
        if isinstance(want, Struct):
            return self._struct(want, stored, first)
        if isinstance(want, List):
            return self._list(want, stored, first)
        if isinstance(want, Map):
            return self._map(want, stored, first)
        if not is_promotable(stored, want):
            raise SchemaError(f"the file stores {stored}, but the column has the type {want}")
        self.leaves.append(first)
        return lambda array: convert_leaf(array, want)

    def _struct(self, want: Struct, found: pa.DataType, first: int) -> _Convert:
        if not pt.is_struct(found):
            raise SchemaError(f"the file stores {found}, but the column has the type {want}")
        children = Children(found, self._by_id)
        offsets = leaf_offsets(children.fields, first)
        sources: list[tuple[str, _Convert] | None] = []
        for child in want:
            index = None if child.type == _VOID else children.find(child)
            if index is None:
                sources.append(None)
            else:
                inner = children.fields[index]
                sources.append((inner.name, self.field(child, inner.type, offsets[index])))
        if not any(sources):
            # Any leaf of the struct tells whether the struct itself is null.
            self.leaves.append(first)
        fields = [arrow_field(child) for child in want]

        def convert(array: pa.StructArray) -> pa.StructArray:
            children = [
                _missing(child, len(array)) if source is None else source[1](array.field(source[0]))
                for source, child in zip(sources, want, strict=True)
            ]
            return struct_of(array, children, fields)

        return convert

    def _list(self, want: List, found: pa.DataType, first: int) -> _Convert:
        if not (pt.is_list(found) or pt.is_large_list(found) or pt.is_fixed_size_list(found)):
            raise SchemaError(f"the file stores {found}, but the column has the type {want}")
        inner = self.field(want.element, found.value_type, first)
        target = arrow_type(want)

        def convert(array: pa.Array) -> pa.Array:
            if pt.is_fixed_size_list(array.type):
                array = array.cast(pa.list_(array.type.value_field))
            start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
            return list_with_values(array, inner(array.values.slice(start, stop - start)), target, start)

        return convert

    def _map(self, want: Map, found: pa.DataType, first: int) -> _Convert:
        if not pt.is_map(found):
            raise SchemaError(f"the file stores {found}, but the column has the type {want}")
        keys = self.field(want.key, found.key_type, first)
        values = self.field(want.value, found.item_type, first + leaf_count(found.key_type))
        target = arrow_type(want)
        fields = [target.key_field, target.item_field]

        def convert(array: pa.MapArray) -> pa.MapArray:
            start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
            parts = [keys(array.keys.slice(start, stop - start)), values(array.items.slice(start, stop - start))]
            entries = pa.StructArray.from_arrays(parts, fields=fields)
            return list_with_values(array, entries, target, start)

        return convert

    def _variant(self, found: pa.DataType, first: int) -> _Convert:
        layout = VariantLayout.of(found)
        self.leaves.extend(range(first, first + leaf_count(found)))
        return lambda array: unshred(array, layout)
