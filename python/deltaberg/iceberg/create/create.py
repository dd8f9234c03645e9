"""Creating a table: its columns, partition spec, sort order and properties."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deltaberg.errors import ColumnNotFoundError, InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.iceberg.create.settings import check_new_settings
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.metadata.sort_orders import SortField, SortOrder
from deltaberg.iceberg.metadata.specs import FIRST_PARTITION_ID, PartitionField, PartitionSpec
from deltaberg.iceberg.partition.structs import path_to_id
from deltaberg.iceberg.partition.transforms import Identity, Unknown, Void, parse_transform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.updates.new_columns import given_columns
from deltaberg.iceberg.updates.new_table import (
    FORMAT_VERSION,
    check_properties,
    given_properties,
    new_metadata,
    with_fresh_ids,
)
from deltaberg.schema.columns import ColumnName, find_column, join_name
from deltaberg.schema.types import Field, Struct
from deltaberg.schema.void_columns import warn_of_void
from deltaberg.table.open.new_table import Description, NewTable, other_partitioning
from deltaberg.table.sort.curves import check_ordered
from deltaberg.table.sort.order import TermText

__all__ = ["check_partitioning", "checked_metadata", "descriptions", "metadata_of", "partition_field", "sort_field"]

#: A transform of a column: ``day(at)``, ``bucket(16, id)``, ``truncate(4, name)``; Spark's plural names are known.
_TERM = re.compile(r"\s*([A-Za-z_]+)\s*\(\s*(?:([0-9]{1,10})\s*,\s*)?(.+?)\s*(?:,\s*([0-9]{1,10})\s*)?\)\s*")
_NAMED = re.compile(r"((?:[^`]|`[^`]*`)+?)\s+as\s+(\S+)\s*", re.IGNORECASE)
_PLURALS = {"years": "year", "months": "month", "days": "day", "hours": "hour"}


def metadata_of(table: NewTable, location: str) -> dict[str, Any]:
    """Return the metadata of a new table at a location, as JSON. What describes it is the property ``comment``.

    Raises
    ------
    SchemaError, ColumnNotFoundError
        The columns are not valid, or one that is named is missing.
    InvalidArgumentError
        A property or a transform is not valid.
    UnsupportedFeatureError
        A property asks for files that are not written.
    """
    described = {} if table.description is None else {"comment": table.description}
    version, properties = given_properties({**table.properties, **described})
    columns, _ = with_fresh_ids(given_columns(table.schema, version))
    parts = [
        partition_field(columns, name, FIRST_PARTITION_ID + number)[0]
        for number, name in enumerate(table.partition_by or ())
    ]
    order = tuple(sort_field(columns, name) for name in table.sort_by or ())
    sort_order = SortOrder(1, order) if order else None
    made = checked_metadata(Schema(columns), PartitionSpec(0, tuple(parts)), sort_order, location, version, properties)
    warn_of_void(columns)
    return made


def checked_metadata(
    schema: Schema,
    spec: PartitionSpec | None,
    order: SortOrder | None,
    location: str,
    version: int,
    properties: Mapping[str, str],
) -> dict[str, Any]:
    """Return the metadata of a new table, as JSON, whose properties every verb can go by.

    Raises
    ------
    SchemaError, InvalidArgumentError, UnsupportedFeatureError
        As `metadata_of` raises them.
    """
    raw = new_metadata(
        schema,
        spec,
        order,
        location=location,
        properties=properties,
        format_version=version,
        now_ms=time.time_ns() // 1_000_000,
    )
    check_new_settings(metadata_of_json(dict(raw)))
    return raw


def partition_field(
    columns: Struct, name: ColumnName, number: int, *, evolves: bool = False
) -> tuple[PartitionField, bool]:
    """Return the partition field that a column, or a transform of one, makes, and whether the caller has named it.

    Otherwise it is named as iceberg-spark names it.

    Parameters
    ----------
    columns
        The columns of the table.
    name
        A column, or a transform of one, such as ``day(at)`` or ``bucket(16, id) as shard``.
    number
        The id of the field.
    evolves
        Whether the table is partitioned already. The names of buckets and truncated values then have their widths, so
        that they differ from those of fields with other widths.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    InvalidArgumentError
        There is no such transform.
    SchemaError
        The transform does not take the column.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> columns = Struct((Field("at", Primitive("timestamp"), id=1), Field("id", Primitive("long"), id=2)))
    >>> [partition_field(columns, name, 1000)[0].name for name in ("days(at)", "bucket(16, id)", "id", "id as key")]
    ['at_day', 'id_bucket', 'id', 'key']
    >>> partition_field(columns, "bucket(8, id)", 1001, evolves=True)[0].name
    'id_bucket_8'
    """
    named = _NAMED.fullmatch(name) if isinstance(name, str) and columns.get(name) is None else None
    path, transform = _term(columns, name if named is None else named[1])
    parse_transform(transform).result_type(path[-1].type)
    own = _own_name(path, transform, evolves=evolves) if named is None else named[2]
    return PartitionField((path[-1].id or 0,), number, own, transform), named is not None


def _own_name(path: Sequence[Field], transform: str, *, evolves: bool) -> str:
    kind, _, width = transform.rstrip("]").partition("[")
    suffix = {"identity": "", "truncate": "_trunc"}.get(kind, f"_{kind}")
    column = ".".join(part.name for part in path)
    return f"{column}{suffix}_{width}" if evolves and width else f"{column}{suffix}"


def sort_field(columns: Struct, name: ColumnName) -> SortField:
    """Return the term of a sort order that text such as ``day(at) desc nulls last`` describes.

    Nulls come first where values ascend and last where they descend, unless the text says otherwise.

    Raises
    ------
    InvalidArgumentError
        The values have no order.
    ColumnNotFoundError
        There is no such column.
    SchemaError
        The transform does not take the column.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> found = sort_field(Struct((Field("id", Primitive("long"), id=2),)), "id desc")
    >>> found.source_ids, found.direction, found.null_order
    ((2,), 'desc', 'nulls-last')
    """
    said = TermText.of(name)
    path, transform = _term(columns, said.term)
    parsed = parse_transform(transform)
    if isinstance(parsed, Void):
        raise InvalidArgumentError(
            f"{shown_value(name)} is null in all rows, so that it puts them into no order", hint="name the column alone"
        )
    if isinstance(parsed, Identity):
        check_ordered(path)
    parsed.result_type(path[-1].type)
    direction, nulls = "desc" if said.descending else "asc", "nulls-first" if said.nulls_first else "nulls-last"
    return SortField((path[-1].id or 0,), transform, direction, nulls)


def _term(columns: Struct, name: ColumnName) -> tuple[tuple[Field, ...], str]:
    """Return the column of a term, and its transform."""
    matched = _TERM.fullmatch(name) if isinstance(name, str) and columns.get(name) is None else None
    if matched is None:
        return find_column(columns, name), str(Identity())
    width = matched[2] or matched[4]
    text = _PLURALS.get(matched[1].lower(), matched[1].lower())
    transform = text if width is None else f"{text}[{width}]"
    if isinstance(parse_transform(transform), Unknown):
        raise InvalidArgumentError(
            f"{shown_value(name)} is not a transform of a column",
            hint="known are year, month, day and hour(column), bucket(16, column) and truncate(4, column)",
        )
    return find_column(columns, matched[3]), transform


def check_partitioning(metadata: TableMetadata, partition_by: Sequence[ColumnName]) -> None:
    """Refuse a partitioning that is not that of a table.

    Raises
    ------
    InvalidArgumentError
        It is another one.
    """
    columns, spec = metadata.current_schema.struct, metadata.specs[metadata.default_spec_id]
    own = [part for part in spec.fields if part.transform != "void"]
    try:
        asked = [partition_field(columns, name, 0)[0] for name in partition_by]
        shown = _described(asked)
    except ColumnNotFoundError as error:
        asked, shown = [], [str(error.context["column"])]
    terms, own_terms = ([(part.source_ids, part.transform) for part in parts] for parts in (asked, own))
    if terms != own_terms or len(asked) < len(partition_by):
        hint = (
            'leave out ⟪partition_by⟫, change it with ⟪alter()⟫, or overwrite the table with ⟪schema_mode="overwrite"⟫'
        )
        raise other_partitioning(_described(own), shown, hint)


def descriptions(metadata: TableMetadata, new: NewTable) -> Iterator[Description]:
    """Yield what is said of a new table beside its columns and partitioning, and what a table has instead.

    Raises
    ------
    InvalidArgumentError, ColumnNotFoundError
        No table can be as it is said.
    """
    version, asked = given_properties(new.properties)
    check_properties(asked)
    own = {**metadata.properties, FORMAT_VERSION: str(metadata.format_version)}
    # A table that was upgraded has what is asked for, and more.
    if FORMAT_VERSION in new.properties and version > metadata.format_version:
        asked[FORMAT_VERSION] = str(version)
    if new.description is not None:
        asked.pop("comment", None)
    yield from Description.of_properties(asked, own)
    if new.description is not None:
        change = f"set({json.dumps({'comment': new.description}, ensure_ascii=False)})"
        yield Description("description", "description", new.description or None, own.get("comment") or None, change)
    if new.sort_by is not None:
        columns = metadata.current_schema.struct
        orders = (
            [sort_field(columns, name) for name in new.sort_by],
            metadata.sort_orders[metadata.default_sort_order_id].fields,
        )
        new_terms, own_terms = ([_term_text(metadata, part) for part in order] or None for order in orders)
        change = f"sort_by({', '.join(map(repr, new.sort_by))})"
        yield Description("sort_by", "order of rows", new_terms, own_terms, change)


def _term_text(metadata: TableMetadata, part: SortField) -> str:
    paths = (path_to_id(metadata.current_schema.struct, number) for number in part.source_ids)
    names = ", ".join(join_name([field.name for field in path]) for path in paths)
    return f"{part.transform}({names}) {part.direction} {part.null_order.replace('-', ' ')}"


def _described(parts: Sequence[PartitionField]) -> list[str]:
    return [f"{part.name} ({part.transform})" if "[" in part.transform else part.name for part in parts]
