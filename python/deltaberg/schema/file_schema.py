"""The Arrow schema of data files that are written: physical names, field ids, and which columns are required."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from deltaberg.errors import UnsupportedFeatureError
from deltaberg.schema.arrow import VARIANT, arrow_type
from deltaberg.schema.columns import join_name
from deltaberg.schema.convert import list_with_values, rows_valid
from deltaberg.schema.name_mapping import FIELD_ID
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct

__all__ = ["StoredType", "file_schema", "is_stored", "to_file"]

#: Returns the Arrow type as which a field is written if it is not that of its type: an extension of it.
StoredType: TypeAlias = Callable[[Field], "pa.DataType | None"]

_VOID = Primitive("void")
_VARIANT = Primitive("variant")
_BINARY = Primitive("binary")
_UUID = Primitive("uuid")
#: Its Parquet columns are annotated as UUID; before pyarrow 18 they are sixteen bytes and nothing more.
_UUID_TYPE = pa.uuid() if hasattr(pa, "uuid") else arrow_type(_UUID)


def is_stored(field: Field) -> bool:
    """Return whether data files hold a field. Columns of the type void are never written."""
    return field.type != _VOID


def file_schema(schema: Struct, *, required: bool = False, own: StoredType | None = None) -> pa.Schema:
    """Return the schema that data files of a table are written with.

    Fields are named by their physical names and carry their ids, if they have any. Elements of lists, and keys and
    values of maps, are named ``element``, ``key`` and ``value``, as in the three-level lists of Parquet.

    Parameters
    ----------
    schema
        The columns to store.
    required
        Whether fields that are not nullable are also required in the file. Iceberg asks for that; the writers of
        Delta leave every field optional, except keys of maps.
    own
        Returns the types of fields that are written in another one.

    Raises
    ------
    UnsupportedFeatureError
        If the table, or a struct, list or map, holds nothing but columns of the type void.

    Examples
    --------
    >>> field = Field("id", Primitive("long"), id=1, physical_name="col-1")
    >>> stored = file_schema(Struct((field,)))
    >>> stored.names, stored.field(0).metadata
    (['col-1'], {b'PARQUET:field_id': b'1'})
    """
    stored = [_stored(child, child.physical_name, (), required, own) for child in schema if is_stored(child)]
    if len(schema) and not stored:
        raise UnsupportedFeatureError(
            "a table without any stored column cannot be written to Parquet",
            hint="add a column that has a type: those of nulls alone are void, and are not stored",
        )
    return pa.schema(stored)


def _stored(field: Field, name: str, above: tuple[str, ...], required: bool, own: StoredType | None) -> pa.Field:
    metadata = None if field.id is None else {FIELD_ID: str(field.id).encode()}
    kind = (own and own(field)) or _stored_type(field.type, (*above, field.name), required, own)
    return pa.field(name, kind, nullable=field.nullable or not required, metadata=metadata)


def _stored_type(kind: DataType, path: tuple[str, ...], required: bool, own: StoredType | None) -> pa.DataType:
    if kind == _VARIANT:
        return pa.struct([child.remove_metadata() for child in VARIANT])
    if kind == _UUID:
        return _UUID_TYPE
    if isinstance(kind, Struct):
        children = [_stored(child, child.physical_name, path, required, own) for child in kind if is_stored(child)]
        if not children:
            raise UnsupportedFeatureError(
                "a struct without any stored field cannot be written to Parquet",
                hint="leave the column out, or give it a field that has a type",
                column=join_name(path),
            )
        return pa.struct(children)
    if isinstance(kind, List):
        return pa.list_(_inside(kind.element, "element", path, required, own))
    if isinstance(kind, Map):
        key = _inside(kind.key, "key", path, required, own).with_nullable(False)
        return pa.map_(key, _inside(kind.value, "value", path, required, own))
    return arrow_type(kind)


def _inside(field: Field, name: str, path: tuple[str, ...], required: bool, own: StoredType | None) -> pa.Field:
    if not is_stored(field):
        raise UnsupportedFeatureError(
            "lists and maps of the type void cannot be written to data files",
            hint="give the elements a type, such as text",
            column=join_name((*path, name)),
        )
    return _stored(replace(field, name=name), name, path, required, own)


def to_file(array: pa.Array, kind: DataType, field: pa.Field) -> pa.Array:
    """Return a column of the table's Arrow type as it is in files, without a copy of its values.

    Parameters
    ----------
    array
        Values of ``arrow_type(kind)``.
    kind
        The type of the column.
    field
        The field of the column in `file_schema`.
    """
    target = field.type
    # A required field has no nulls but those below a null struct, where Parquet stores no value at all.
    valid = rows_valid(array) if field.nullable else None
    if kind == _VARIANT:
        children = [to_file(array.field(index), _BINARY, target.field(index)) for index in range(2)]
        return pa.Array.from_buffers(target, len(array), [valid], children=children)
    if isinstance(kind, Struct):
        stored = [(index, child) for index, child in enumerate(kind) if is_stored(child)]
        children = [
            to_file(array.field(index), child.type, inside)
            for (index, child), inside in zip(stored, target, strict=True)
        ]
        return pa.Array.from_buffers(target, len(array), [valid], children=children)
    if isinstance(kind, (List, Map)):
        start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
        if isinstance(kind, List):
            values = to_file(array.values.slice(start, stop - start), kind.element.type, target.value_field)
        else:
            keys = to_file(array.keys.slice(start, stop - start), kind.key.type, target.key_field)
            items = to_file(array.items.slice(start, stop - start), kind.value.type, target.item_field)
            entry = pa.struct([target.key_field, target.item_field])
            values = pa.Array.from_buffers(entry, stop - start, [None], children=[keys, items])
        made = list_with_values(array, values, target, start)
        return made if field.nullable or not made.null_count else _without_nulls(made, [values])
    array = array if field.nullable else _without_nulls(array)
    is_extended = isinstance(target, pa.BaseExtensionType)
    return pa.ExtensionArray.from_storage(target, array) if is_extended and array.type != target else array


def _without_nulls(array: pa.Array, children: list[pa.Array] | None = None) -> pa.Array:
    """Return an array in which whatever is stored below the nulls counts as values."""
    own = array.buffers()[: array.type.num_buffers]
    return pa.Array.from_buffers(array.type, len(array), [None, *own[1:]], 0, array.offset, children)
