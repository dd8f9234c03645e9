"""The limits of each format version for schemas, specs and sort orders (Iceberg spec, "Schemas", "Partitioning")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from deltaberg.errors import ColumnNotFoundError, InvalidArgumentError, SchemaError
from deltaberg.iceberg.metadata.sort_orders import SortOrder
from deltaberg.iceberg.metadata.specs import FIRST_PARTITION_ID, PartitionField, PartitionSpec
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.type_names import is_shape, shown_type
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct, field_paths, nested_fields

__all__ = [
    "NEWEST_VERSION",
    "ROW_DELETES_SINCE",
    "ROW_LINEAGE",
    "VECTORS_SINCE",
    "check_columns",
    "check_fields",
    "check_identifiers",
    "check_new_names",
    "check_order",
    "check_spec",
    "column_named",
    "fields_named_as_columns",
    "full_names",
    "highest_field_id",
    "layout_sources",
]

#: The newest format version that is written.
NEWEST_VERSION = 3
#: The format version that brought row lineage, new types and default values.
ROW_LINEAGE = 3
#: The format versions that brought delete files, and deletion vectors.
ROW_DELETES_SINCE, VECTORS_SINCE = 2, 3
#: The ids above are those of metadata columns.
_HIGHEST_USER_ID = 2_147_483_447
_LATER_TYPES = frozenset({"timestamp_ns", "timestamp_ntz_ns", "variant", "void"})


def highest_field_id(within: DataType) -> int:
    """Return the highest field id inside a type; 0 if there is none."""
    return max((path[-1].id or 0 for path in field_paths(within)), default=0)


def check_columns(schema: Schema, version: int) -> None:
    """Refuse a schema that a table of a format version cannot have.

    Raises
    ------
    SchemaError
        As `check_fields` and `check_identifiers` raise it.
    """
    check_fields(schema.struct, version)
    check_identifiers(schema)


def check_fields(columns: Struct, version: int) -> None:
    """Refuse columns that a table of a format version cannot have.

    Raises
    ------
    SchemaError
        If a field has no id, or one that is reserved; if a type or a default value needs a newer format version.
    """
    for steps in field_paths(columns):
        path, child = _dotted(steps), steps[-1]
        if child.id is None:
            raise SchemaError("a column has no field id", column=path)
        if child.id > _HIGHEST_USER_ID:
            raise SchemaError(
                f"the field id {child.id} is reserved for metadata columns",
                hint=f"ids of columns are at most {_HIGHEST_USER_ID}",
                column=path,
            )
        if version < ROW_LINEAGE:
            _check_is_early(path, child, version)


def check_identifiers(schema: Schema) -> None:
    """Refuse identifier fields that identify nothing.

    Raises
    ------
    SchemaError
        If an identifier field is missing, or of a type that identifies nothing.
    """
    for number in schema.identifier_field_ids:
        _check_identifier(schema, number)


def _check_is_early(path: str, child: Field, version: int) -> None:
    late = isinstance(child.type, Primitive) and child.type.name in _LATER_TYPES
    hint = f"set the format version of the table to {ROW_LINEAGE}"
    if child.type == Primitive("void"):
        hint = f"give the column a type, or leave it out, since all of its values are null; or {hint}"
    if late or is_shape(child):
        raise SchemaError(f"format version {version} has no type {shown_type(child.type)}", hint=hint, column=path)
    if child.default is not None or child.metadata.get("write-default") is not None:
        raise SchemaError(f"format version {version} has no default values", hint=hint, column=path)


def _check_identifier(schema: Schema, number: int) -> None:
    path = _path(schema.struct, number)
    if path is None or any(isinstance(part.type, (List, Map)) for part in path[:-1]):
        raise SchemaError(f"the identifier field {number} is not a column, or is inside a list or a map")
    column = path[-1]
    if not isinstance(column.type, Primitive) and isinstance(column.type, (Struct, List, Map)):
        raise SchemaError("an identifier field has a nested type", column=column.name)
    if any(part.nullable for part in path):
        raise SchemaError("an identifier field may be null", hint="make it required", column=column.name)
    if isinstance(column.type, Primitive) and column.type.name in ("float", "double"):
        raise SchemaError("an identifier field is a floating-point number", column=column.name)


def check_spec(spec: PartitionSpec, schema: Schema, version: int) -> None:
    """Refuse a partition spec that does not fit a schema.

    Raises
    ------
    ColumnNotFoundError
        If a source column is missing.
    SchemaError
        If a source column is nested in a list or a map or is not of a primitive type, if a name is used twice or is
        that of another column, or if the ids are not those that version 1 demands.
    """
    names: set[str] = set()
    for number, part in enumerate(spec.fields):
        for source in part.source_ids:
            # The source of a field that was dropped in version 1 may be gone.
            if part.transform != "void":
                _check_source(schema, source, f"the partition field {part.name!r}")
        if not part.name or part.name in names:
            raise SchemaError(f"the name of the partition field {part.name!r} is empty, or used twice")
        names.add(part.name)
        if version == 1 and part.field_id != FIRST_PARTITION_ID + number:
            raise SchemaError("the ids of partition fields count up from 1000 in format version 1")
    for part, _ in fields_named_as_columns(spec.fields, schema.struct):
        raise SchemaError(
            f"the partition field {part.name!r} has the name of another column",
            hint="give it another name, as in 'bucket(16, id) as shard'",
        )


def check_new_names(columns: Struct, specs: Iterable[PartitionSpec], before: Callable[[], Struct]) -> None:
    """Refuse columns of a table that get the full name of another one, or of a partition field with other values.

    Names that columns have already are let be, so that tables of others can be changed, and mended step by step.

    Parameters
    ----------
    columns
        The columns that the table gets.
    specs
        All partition specs of the table. Readers also compare the names in the older ones.
    before
        Returns the columns that the table has.

    Raises
    ------
    SchemaError
        If a column gets such a name.
    """
    _check_full_names(columns, before)
    parts = [part for spec in specs for part in spec.fields]
    found = fields_named_as_columns(parts, columns)
    known = {(part.name, column.id) for part, column in fields_named_as_columns(parts, before())} if found else ()
    for part, column in found:
        if (part.name, column.id) not in known:
            raise SchemaError(
                f"the name {part.name!r} is that of a partition field whose values are not those of the column",
                hint="choose another name: partition fields keep theirs, also when the partitioning has changed since",
                column=part.name,
            )


def _check_full_names(columns: Struct, before: Callable[[], Struct]) -> None:
    """Refuse two fields whose full names are the same, such as ``a.b`` and the field ``b`` of ``a``.

    iceberg-java and pyiceberg cannot load a table with such names.
    """
    if not any("." in child.name for *_, child in field_paths(columns)):
        return
    new = _names_of_several(columns)
    if new:
        new -= _names_of_several(before())
    for name in new:
        raise SchemaError(
            "this is the full name of two columns, so that other engines could not load the table",
            hint="choose a name without dots",
            column=name,
        )


def _names_of_several(columns: Struct) -> set[str]:
    return {name for name, times in Counter(name for _, name in full_names(columns)).items() if times > 1}


def full_names(within: DataType) -> Iterator[tuple[int | None, str]]:
    """Yield the id and the dotted name of each field, element, key and value, at any depth."""
    return ((path[-1].id, _dotted(path)) for path in field_paths(within))


def _dotted(path: Sequence[Field]) -> str:
    return ".".join(part.name for part in path)


def fields_named_as_columns(parts: Iterable[PartitionField], columns: Struct) -> list[tuple[PartitionField, Field]]:
    """Return the partition fields that have the name of a column with other values, each with that column.

    iceberg-java cannot load a table with such a name, in any of its specs. It compares no names of fields whose source
    is gone.
    """
    pairs = []
    for part in parts:
        column = column_named(columns, part.name)
        if column is None or any(_path(columns, source) is None for source in part.source_ids):
            continue
        if part.transform not in ("identity", "void") or column.id != part.source_id:
            pairs.append((part, column))
    return pairs


def column_named(within: DataType, name: str) -> Field | None:
    """Return the column that readers find by a name with dots; None if there is none.

    Such names may leave out the step into the structs of a list or a map.

    Examples
    --------
    >>> inner = Struct((Field("x", Primitive("long"), id=3),))
    >>> columns = Struct((Field("l", List(Field("element", inner, id=2)), id=1),))
    >>> [column_named(columns, name).id for name in ("l", "l.element", "l.element.x", "l.x")]
    [1, 2, 3, 3]
    """
    for child in nested_fields(within):
        if child.name == name:
            return child
        rest = name[len(child.name) + 1 :] if name.startswith(f"{child.name}.") else None
        found = None if rest is None else column_named(child.type, rest)
        if found is None and isinstance(child.type, Struct) and not isinstance(within, Struct):
            found = column_named(child.type, name)
        if found is not None:
            return found
    return None


def check_order(order: SortOrder, schema: Schema) -> None:
    """Refuse a sort order that does not fit a schema.

    Raises
    ------
    ColumnNotFoundError
        If a source column is missing.
    SchemaError
        If a source column is nested in a list or a map, or is not of a primitive type.
    InvalidArgumentError
        If a direction or an order of nulls is not known.
    """
    for part in order.fields:
        for source in part.source_ids:
            _check_source(schema, source, "a sort field")
        if part.direction not in ("asc", "desc") or part.null_order not in ("nulls-first", "nulls-last"):
            raise InvalidArgumentError(
                f"a sort field has the direction {part.direction!r} and the null order {part.null_order!r}",
                hint="directions are asc and desc; null orders are nulls-first and nulls-last",
            )


def layout_sources(spec: PartitionSpec, order: SortOrder | None) -> Iterator[tuple[str, int]]:
    """Yield what in a partition spec and in a sort order needs which column, by its id.

    The source of a void partition field may be gone.
    """
    for part in spec.fields:
        if part.transform != "void":
            yield from ((f"the partition field {part.name!r}", number) for number in part.source_ids)
    for term in order.fields if order else ():
        yield from (("the sort order", number) for number in term.source_ids)


def _check_source(schema: Schema, number: int, what: str) -> None:
    path = _path(schema.struct, number)
    if path is None:
        raise ColumnNotFoundError(f"the source of {what} is the column with the id {number}, which does not exist")
    if any(isinstance(part.type, (List, Map)) for part in path) or isinstance(path[-1].type, Struct):
        raise SchemaError(
            f"the source of {what} is not of a primitive type, or is inside a list or a map",
            column=_dotted(path),
        )


def _path(within: DataType, number: int) -> tuple[Field, ...] | None:
    """Return the fields that lead to an id."""
    return next((path for path in field_paths(within) if path[-1].id == number), None)
