"""Whether the columns of a file that others wrote are those of a table (Iceberg spec, "Column Projection")."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from deltaberg.errors import SchemaError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.schema.evolution import is_promotion
from deltaberg.iceberg.schema.type_names import shown_type
from deltaberg.schema.columns import join_name
from deltaberg.schema.name_mapping import MappedField, NameMapping, field_id
from deltaberg.schema.types import DataType, Field, Fixed, List, Map, Primitive, Struct, field_paths, nested_fields

__all__ = ["columns_without_nulls", "named_by_ids"]

#: Types that the files of a format do not tell apart: how many digits of a second timestamps of ORC have, and whether
#: sixteen bytes are a UUID, which older releases of pyarrow do not tell.
_ALIKE: dict[str, dict[DataType, DataType]] = {
    "orc": {
        Primitive("timestamp_ns"): Primitive("timestamp"),
        Primitive("timestamp_ntz_ns"): Primitive("timestamp_ntz"),
    },
    "avro": {Primitive("uuid"): Fixed(16)},
    "parquet": {Primitive("uuid"): Fixed(16)},
}

_Path = tuple[Field, ...]


def columns_without_nulls(
    metadata: TableMetadata,
    held: Struct,
    names: NameMapping,
    elsewhere: Container[int] = (),
    *,
    has_ids: bool,
    format: str,
) -> list[_Path]:
    """Return the columns of a table that may hold no nulls, although the schema of a file allows them.

    Parameters
    ----------
    metadata
        The metadata of the table.
    held
        The columns of the file, in types of Iceberg, with names of the table.
    names
        The name mapping of the table.
    elsewhere
        The ids of columns whose values readers take from the partition.
    has_ids
        Whether columns of the file have field ids, by which readers find them; else they do by their names.
    format
        The format of the file.

    Raises
    ------
    SchemaError
        A column is not one of the table, or has a type that cannot be read as that of the table, or a required one is
        missing.
    """
    schema = metadata.current_schema.struct
    for child in () if has_ids else held:
        mapped, own = names.find(child.name), schema.get(child.name)
        if own is None or mapped is None or mapped.id != own.id:
            raise _unknown(child.name, mapped, metadata)
    without_nulls: list[_Path] = []
    for column in schema:
        known = held.get(column.name)
        if known is not None:
            without_nulls += _Fit(metadata.format_version, _ALIKE.get(format, {})).check((column,), known)
        elif not column.nullable and column.default is None and column.id not in elsewhere:
            raise SchemaError("the file lacks a required column", column=column.name)
    return without_nulls


def named_by_ids(metadata: TableMetadata, held: Struct, file_schema: pa.Schema) -> Struct:
    """Return the columns of a file with field ids, under the names that the table has for these.

    An id is not taken for that of another table as long as the column has a name that the table has, or had, for it.

    Parameters
    ----------
    held
        The columns of the file, in types of Iceberg.
    file_schema
        The same columns, with their ids.

    Raises
    ------
    SchemaError
        A column has no id, or one that the table has not in this place, or not under this name.
    """
    names: dict[int | None, set[str]] = {}
    for known in metadata.schemas.values():
        for *_, child in field_paths(known.struct):
            names.setdefault(child.id, set()).add(child.name)
    return _Ids(names).fields(metadata.current_schema.struct, held, list(file_schema), ())


class _Ids:
    """Finds the columns of a table by the field ids of a file; ``names`` are their present and former names."""

    def __init__(self, names: Mapping[int | None, Container[str]]) -> None:
        self._names = names

    def fields(self, own: Struct, held: Struct, stored: Sequence[pa.Field], path: tuple[str, ...]) -> Struct:
        """Return the fields of a struct of the file under their names in the table."""
        columns = {child.id: child for child in own}
        fields = []
        for child, with_id in zip(held, stored, strict=True):
            number, place = field_id(with_id), join_name((*path, child.name))
            if number is None:
                raise self._refused("has no field id, although other columns of the file have", place)
            column = columns.get(number)
            if column is None:
                raise self._refused(f"has the field id {number}, which no column of the table has at this place", place)
            if child.name not in self._names[number]:
                raise self._refused(f"has the field id {number}, which is that of {column.name!r}", place)
            inside = self._inside(column.type, child.type, with_id.type, (*path, child.name))
            fields.append(replace(child, name=column.name, physical_name="", type=inside))
        return Struct(tuple(fields))

    def _inside(self, own: DataType, held: DataType, stored: pa.DataType, path: tuple[str, ...]) -> DataType:
        if isinstance(own, Struct) and isinstance(held, Struct):
            return self.fields(own, held, list(stored), path)
        if isinstance(own, List) and isinstance(held, List):
            return List(self._part(own.element, held.element, stored.value_field, path, "element"))
        if isinstance(own, Map) and isinstance(held, Map):
            key = self._part(own.key, held.key, stored.key_field, path, "key")
            return Map(key, self._part(own.value, held.value, stored.item_field, path, "value"))
        return held

    def _part(self, own: Field, held: Field, stored: pa.Field, path: tuple[str, ...], step: str) -> Field:
        place = (*path, step)
        if field_id(stored) != own.id:
            raise self._refused(f"has the field id {field_id(stored)}, and {own.id} in the table", join_name(place))
        return replace(held, type=self._inside(own.type, held.type, stored.type, place))

    @staticmethod
    def _refused(what: str, place: str) -> SchemaError:
        return SchemaError(
            f"the column {place} of the file {what}", hint="read the file, and append its rows", column=place
        )


def _unknown(name: str, mapped: MappedField | None, metadata: TableMetadata) -> SchemaError:
    """Return what is wrong with a column of a file that stands for none of its name in the table."""
    schema = metadata.current_schema.struct
    if mapped is None:
        older = {column.id for known in metadata.schemas.values() for column in known.struct if column.name == name}
        renamed = next((column.name for column in schema if column.id in older), None)
        hint = "add the column to the table first"
        if renamed is not None:
            hint = f"it was renamed to {renamed!r}: rename it in the file, too, or read the file and append its rows"
        return SchemaError(f"the file has a column {name!r} that the table does not have", hint=hint, column=name)
    now = next((child.name for child in schema if child.id == mapped.id), None)
    gone = "no column" if mapped.id is None else "a column that was dropped"
    owner = gone if now is None else f"the column {now!r}"
    return SchemaError(
        f"in the name mapping of the table, the name {name!r} belongs to {owner}",
        hint="read the file, and append its rows: the name mapping is kept for the files that were added before",
        column=name,
    )


class _Fit:
    """Compares a column with that of a file."""

    def __init__(self, version: int, alike: Mapping[DataType, DataType]) -> None:
        self._version = version
        self._alike = alike

    def check(self, path: _Path, held: Field) -> Iterator[_Path]:
        own = path[-1]
        if not own.nullable and held.nullable:
            yield path
        pairs = _inner_pairs(own.type, held.type)
        if pairs is None:
            if not self._is_same(own.type, held.type):
                raise SchemaError(
                    f"the column is of the type {shown_type(own.type)}, and {shown_type(held.type)} in the file",
                    column=_name(path),
                )
            return
        for name, inner, other in pairs:
            if inner is None or (other is None and not inner.nullable):
                raise SchemaError(
                    f"the field {name!r} is not in the {'table' if inner is None else 'file'}", column=_name(path)
                )
            if other is not None:
                yield from self.check((*path, inner), other)

    def _is_same(self, own: DataType, held: DataType) -> bool:
        own, held = self._alike.get(own, own), self._alike.get(held, held)
        return own == held or is_promotion(held, own, self._version)


def _inner_pairs(own: DataType, held: DataType) -> list[tuple[str, Field | None, Field | None]] | None:
    """Return the fields of nested types of one kind, by their names; None for other types."""
    kinds = [kind for kind in (Struct, List, Map) if isinstance(own, kind) and isinstance(held, kind)]
    if not kinds:
        return None
    mine = {child.name: child for child in nested_fields(own)}
    theirs = {child.name: child for child in nested_fields(held)}
    return [(name, mine.get(name), theirs.get(name)) for name in {**mine, **theirs}]


def _name(path: _Path) -> str:
    return join_name(tuple(part.name for part in path))
