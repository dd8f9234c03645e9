"""How column mapping names the columns in files: by ids and physical names (Delta protocol, "Column Mapping")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from deltaberg.delta.actions.domains import clustering_columns
from deltaberg.delta.actions.table_actions import Protocol
from deltaberg.delta.features import MAPPING_MODE, reads_column_mapping, recorded_mapping_mode
from deltaberg.errors import CorruptLogError, SchemaError
from deltaberg.schema.columns import ColumnName, find_column, join_name
from deltaberg.schema.types import DataType, Field, List, Map, Struct, fields_inside

__all__ = [
    "COLUMN_ID",
    "NESTED_IDS",
    "PHYSICAL_NAME",
    "check_mapping",
    "clustering_names",
    "clustering_paths",
    "mapping_mode",
    "read_mapping",
    "with_inner_ids",
]

#: The members of a field's metadata that map it.
COLUMN_ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
#: Where a field keeps the ids of elements, keys and values inside it: the paths begin with its physical name.
NESTED_IDS = "delta.columnMapping.nested.ids"
#: What one edition of the protocol calls it.
_NESTED_IDS_BEFORE = "parquet.field.nested.ids"


def mapping_mode(protocol: Protocol, properties: Mapping[str, str]) -> str:
    """Return how columns are found in files: ``none`` (by name), ``name`` (by physical name) or ``id``.

    Raises
    ------
    CorruptLogError
        If the property is none of these.
    """
    if not reads_column_mapping(protocol):
        return "none"
    mode = recorded_mapping_mode(properties)
    if mode not in ("none", "name", "id"):
        raise CorruptLogError(f"{MAPPING_MODE} is {mode!r}; it must be none, name or id")
    return mode


def read_mapping(metadata: Mapping[str, Any], path: tuple[str, ...]) -> tuple[int, str]:
    """Return the id and the physical name in the metadata of the field at a path.

    Raises
    ------
    CorruptLogError
        If one of them is missing, or the id is not an integer of 32 bits.
    """
    field_id, physical_name = metadata.get(COLUMN_ID), metadata.get(PHYSICAL_NAME)
    if not isinstance(field_id, int) or isinstance(field_id, bool) or not isinstance(physical_name, str):
        raise CorruptLogError(
            f"column mapping is on, but a column lacks {COLUMN_ID} or {PHYSICAL_NAME}", column=".".join(path)
        )
    if not -(1 << 31) <= field_id < 1 << 31:
        raise CorruptLogError(f"{COLUMN_ID} {field_id} is not an integer of 32 bits", column=".".join(path))
    return field_id, physical_name


def with_inner_ids(kind: DataType, metadata: Mapping[str, Any], names: Sequence[str]) -> DataType:
    """Return the type of a field with the ids that its metadata gives to elements, keys and values inside it.

    Parameters
    ----------
    names
        The names with which their paths may begin: the physical name, or the shown one.
    """
    ids = metadata.get(NESTED_IDS, metadata.get(_NESTED_IDS_BEFORE))
    if not isinstance(ids, Mapping):
        return kind
    for name in names:
        if any(str(path).startswith(f"{name}.") for path in ids):
            return _with_ids(kind, ids, name)
    return kind


def _with_ids(kind: DataType, ids: Mapping[str, Any], path: str) -> DataType:
    def numbered(child: Field, step: str) -> Field:
        here = f"{path}.{step}"
        found = ids.get(here)
        known = found if isinstance(found, int) and not isinstance(found, bool) else None
        return replace(child, type=_with_ids(child.type, ids, here), id=known)

    if isinstance(kind, List):
        return List(numbered(kind.element, "element"))
    if isinstance(kind, Map):
        return Map(numbered(kind.key, "key"), numbered(kind.value, "value"))
    return kind


def check_mapping(schema: Struct) -> None:
    """Refuse a schema in which an id repeats, or a physical name repeats within one struct.

    Raises
    ------
    CorruptLogError
        If that is so; the message names both columns.
    """
    ids: dict[int | None, str] = {}
    structs = [((), schema), *((path, field.type) for path, field in fields_inside(schema))]
    for path, siblings in structs:
        names: dict[str, str] = {}
        for field in siblings if isinstance(siblings, Struct) else ():
            shown = ".".join((*path, field.name))
            for kind, seen, value in (("id", ids, field.id), ("physical name", names, field.physical_name)):
                earlier = seen.setdefault(value, shown)  # type: ignore[arg-type]
                if earlier != shown:
                    raise CorruptLogError(f"columns {earlier} and {shown} have the same column mapping {kind}, {value}")


def clustering_names(schema: Struct, domains: Mapping[str, str]) -> list[str]:
    """Return the names of the columns by which a table is clustered.

    Raises
    ------
    CorruptLogError
        If the domain is not what the protocol says.
    """
    columns = []
    for path in clustering_columns(domains):
        names: list[str] = []
        inside: DataType = schema
        for part in path:
            children = tuple(inside) if isinstance(inside, Struct) else ()
            field = next((child for child in children if child.physical_name == part), None)
            names.append(part if field is None else field.name)
            inside = schema if field is None else field.type
        columns.append(join_name(names))
    return columns


def clustering_paths(schema: Struct, names: Sequence[ColumnName]) -> list[tuple[Field, ...]]:
    """Return the columns by which a table shall be clustered.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    SchemaError
        A column is given twice.
    """
    paths: list[tuple[Field, ...]] = []
    for name in names:
        path = find_column(schema, name)
        if path in paths:
            raise SchemaError("a clustering column is given twice", column=join_name([field.name for field in path]))
        paths.append(path)
    return paths
