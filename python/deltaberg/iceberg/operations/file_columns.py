"""Whether the columns of a file that others wrote are those of a table (Iceberg spec, "Column Projection")."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from deltaberg.errors import SchemaError, UnsupportedFeatureError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.schema_evolution import is_promotion
from deltaberg.schema import (
    DataType,
    Field,
    Fixed,
    List,
    Map,
    MappedField,
    NameMapping,
    Primitive,
    Struct,
    join_name,
    nested_fields,
)

__all__ = ["columns_without_nulls"]

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
        The columns of the file, in types of Iceberg.
    names
        The name mapping of the table.
    elsewhere
        The ids of columns whose values readers take from the partition.
    has_ids
        Whether columns of the file have field ids.
    format
        The format of the file.

    Raises
    ------
    SchemaError
        A column is not one of the table, or has a type that cannot be read as that of the table, or a required one is
        missing.
    UnsupportedFeatureError
        Columns have field ids.
    """
    if has_ids:
        raise UnsupportedFeatureError(
            "the columns of the file have field ids, which may be those of another table",
            hint="read the file, and append its rows",
            feature="field ids",
        )
    schema = metadata.current_schema.struct
    for child in held:
        mapped, own = names.find(child.name), schema.get(child.name)
        if own is None or mapped is None or mapped.id != own.id:
            raise _unknown(child.name, mapped, schema)
    found: list[_Path] = []
    for column in schema:
        known = held.get(column.name)
        if known is not None:
            found += _Fit(metadata.format_version, _ALIKE.get(format, {})).check((column,), known)
        elif not column.nullable and column.default is None and column.id not in elsewhere:
            raise SchemaError("the file lacks a required column", column=column.name)
    return found


def _unknown(name: str, mapped: MappedField | None, schema: Struct) -> SchemaError:
    """Return what is wrong with a column of a file that stands for none of its name in the table."""
    if mapped is None:
        return SchemaError(
            f"the file has a column {name!r} that the table does not have",
            hint="add the column to the table first",
            column=name,
        )
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
                    f"the column is of the type {own.type}, and {held.type} in the file", column=_name(path)
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
