"""Columns that a commit of ours adds to a table: their names, ids and physical names, and their metadata.

Delta protocol, "Schema Serialization Format" and "Column Mapping".
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace

from deltaberg.delta.features import READ_ELSEWHERE
from deltaberg.delta.schema.column_mapping import COLUMN_ID, PHYSICAL_NAME
from deltaberg.delta.schema.schema import PRIMITIVES, partition_type_name
from deltaberg.delta.schema.writer_rules import FEATURES_OF_MEMBERS, OF_ONE_TABLE
from deltaberg.errors import ColumnNotFoundError, CorruptLogError, SchemaError
from deltaberg.schema.columns import ColumnNames, column_names, find_column, join_name
from deltaberg.schema.from_arrow import as_comment
from deltaberg.schema.types import DataType, Decimal, Field, List, Map, Primitive, Struct, field_paths

__all__ = [
    "MAX_COLUMN_ID",
    "ColumnNumbers",
    "as_given",
    "check_columns",
    "check_names_in_files",
    "highest_id",
    "partition_names",
]

#: The property that keeps the highest id that was ever given to a column.
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
_RESERVED = "delta."
#: What names must not contain where files use them.
_FORBIDDEN = " ,;{}()\n\t="
_MAP = 'rename it, or set the property delta.columnMapping.mode to "name"; ' + READ_ELSEWHERE["columnMapping"]

_Path = tuple[str, ...]


def highest_id(properties: Mapping[str, str]) -> int:
    """Return the highest id that a column of a table ever had. The table keeps it after its column mapping has ended.

    Examples
    --------
    >>> highest_id({MAX_COLUMN_ID: "7"}), highest_id({})
    (7, 0)
    """
    text = properties.get(MAX_COLUMN_ID, "")
    return int(text) if re.fullmatch("[0-9]{1,10}", text) else 0


#: What looks like a transform of a column, as Iceberg has them.
_TRANSFORM = re.compile(r"\s*\w+\s*\(.+\)\s*(as\s.+)?", re.DOTALL | re.IGNORECASE)
_NO_TRANSFORMS = (
    "Delta tables are partitioned by columns, not by transforms: name a column that holds these values, such as a"
    " generated one, or create the table with ⟪format='iceberg'⟫"
)


class ColumnNumbers:
    """Assigns ids and physical names to columns.

    Parameters
    ----------
    highest
        The highest id that was given before.

    Examples
    --------
    >>> numbers = ColumnNumbers(4)
    >>> field = numbers.assign(Field("a", Primitive("long")))
    >>> field.id, field.physical_name[:4], numbers.highest
    (5, 'col-', 5)
    """

    def __init__(self, highest: int = 0) -> None:
        self.highest = highest

    @classmethod
    def of(cls, mapping_mode: str, properties: Mapping[str, str]) -> ColumnNumbers | None:
        """Return what numbers the next columns of a table; None without column mapping.

        Raises
        ------
        CorruptLogError
            The property that keeps the highest id is not a number.
        """
        if mapping_mode == "none":
            return None
        text = properties.get(MAX_COLUMN_ID, "")
        if not re.fullmatch("[0-9]{1,10}", text):
            raise CorruptLogError(f"{MAX_COLUMN_ID} is {text!r}, which is not a number")
        return cls(int(text))

    def inside(self, kind: DataType) -> DataType:
        """Return a type in which all fields of structs have ids and physical names."""
        return _inside(kind, self.assign)

    def assign(self, field: Field) -> Field:
        """Return a field with an id and a physical name, as well as all fields of structs inside it."""
        self.highest += 1
        number = self.highest
        physical = f"col-{uuid.uuid4()}"
        kind = _inside(field.type, self.assign)
        metadata = {**field.metadata, COLUMN_ID: number, PHYSICAL_NAME: physical}
        return replace(field, type=kind, metadata=metadata, id=number, physical_name=physical)


def as_given(schema: Struct) -> Struct:
    """Return columns as the caller describes those of a new table, without what they have as columns of another one.

    These are ids, physical names, and changes of types. The ``doc`` of a field of an Iceberg table is its comment.
    """
    return Struct(tuple(map(_as_given, schema)))


def _as_given(field: Field) -> Field:
    described = as_comment(field.metadata)
    metadata = {key: value for key, value in described.items() if not key.startswith(OF_ONE_TABLE)}
    kind = _inside(field.type, _as_given)
    return replace(field, type=kind, metadata=metadata, id=None, physical_name=field.name)


def _inside(kind: DataType, change: Callable[[Field], Field]) -> DataType:
    """Return a type in which the fields of structs are changed. What is inside lists and maps has no ids itself."""
    if isinstance(kind, Struct):
        return Struct(tuple(change(child) for child in kind))
    if isinstance(kind, List):
        return List(replace(kind.element, type=_inside(kind.element.type, change)))
    if isinstance(kind, Map):
        key = replace(kind.key, type=_inside(kind.key.type, change))
        return Map(key, replace(kind.value, type=_inside(kind.value.type, change)))
    return kind


def check_columns(schema: Struct, *, mapped: bool, instead: str = _MAP) -> None:
    """Refuse columns that a table must not have.

    Parameters
    ----------
    mapped
        Whether column mapping is on, so that names may hold any character.
    instead
        What to do about a name with a character that is not allowed.

    Raises
    ------
    SchemaError
        There are no columns, two names differ only in case, a name is empty or has a character that is not allowed,
        the metadata of a column uses a reserved key, or a type is none of Delta's.
    """
    if not len(schema):
        raise SchemaError("a table needs at least one column")
    _check_struct(schema, (), None if mapped else instead)


def check_names_in_files(schema: Struct) -> None:
    """Refuse to end the column mapping of a table whose columns have names that files cannot have.

    Raises
    ------
    SchemaError
        A name has a character that is not allowed.
    """
    for path in field_paths(schema):
        _check_characters(path[-1].name, join_name([field.name for field in path]), "rename it")


def _check_characters(name: str, shown: str, instead: str) -> None:
    bad = sorted(set(name) & set(_FORBIDDEN))
    if bad:
        raise SchemaError(f"the name of a column contains {bad[0]!r}", hint=instead, column=shown)


def _check_struct(schema: Struct, above: _Path, instead: str | None) -> None:
    """Check the fields of a struct; ``instead`` is None where names may hold any character."""
    seen: dict[str, str] = {}
    for field in schema:
        path = (*above, field.name)
        shown = join_name(path)
        earlier = seen.get(field.name.lower())
        if earlier is not None:
            raise SchemaError(
                f"two columns have the same name when case is ignored: {earlier!r} and {field.name!r}", column=shown
            )
        seen[field.name.lower()] = field.name
        if not field.name:
            raise SchemaError("a column has an empty name", column=shown)
        if instead is not None:
            _check_characters(field.name, shown, instead)
        _check_metadata(field, shown)
        _check_type(field.type, path, instead)


def _check_metadata(field: Field, shown: str) -> None:
    reserved = sorted(key for key in field.metadata if key.startswith(_RESERVED))
    mapping = {COLUMN_ID, PHYSICAL_NAME} if field.id is not None else set()
    other = [key for key in reserved if key not in mapping and key not in FEATURES_OF_MEMBERS]
    if other:
        raise SchemaError(
            f"the metadata of a column has the reserved key {other[0]}", hint="leave the key out", column=shown
        )


def _check_type(kind: DataType, path: _Path, instead: str | None) -> None:
    if isinstance(kind, Struct):
        if not len(kind):
            raise SchemaError(
                "a struct needs at least one field",
                hint="leave the column out, or give it a field that has a type",
                column=join_name(path),
            )
        _check_struct(kind, path, instead)
    elif isinstance(kind, List):
        _check_type(kind.element.type, (*path, "element"), instead)
    elif isinstance(kind, Map):
        _check_type(kind.key.type, (*path, "key"), instead)
        _check_type(kind.value.type, (*path, "value"), instead)
    elif not isinstance(kind, Decimal) and not (isinstance(kind, Primitive) and kind.name in PRIMITIVES):
        raise SchemaError(f"Delta tables have no type {kind}", column=join_name(path))


def partition_names(schema: Struct, names: ColumnNames) -> list[str]:
    """Return the names of partition columns as the schema spells them. A text is one name.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    InvalidArgumentError
        The argument does not name columns.
    SchemaError
        A column cannot partition a table, is given twice, or no other column is left.
    """
    columns: list[str] = []
    for name in column_names(names):
        try:
            path = find_column(schema, name)
        except ColumnNotFoundError as error:
            if isinstance(name, str) and _TRANSFORM.fullmatch(name):
                raise ColumnNotFoundError(error.message, hint=_NO_TRANSFORMS, column=name) from None
            raise
        if len(path) > 1:
            raise SchemaError(
                "a field of a struct cannot be a partition column", column=join_name([part.name for part in path])
            )
        partition_type_name(path[0])
        if path[0].name in columns:
            raise SchemaError("a partition column is given twice", column=path[0].name)
        columns.append(path[0].name)
    if len(columns) == len(schema):
        raise SchemaError("all columns are partition columns, so that files would have none")
    return columns
