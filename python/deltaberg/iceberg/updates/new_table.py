"""The metadata of a new table (Iceberg spec, "Table Metadata Fields")."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deltaberg.errors import ColumnNotFoundError, InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.metadata.sort_orders import SortField, SortOrder, encode_sort_order
from deltaberg.iceberg.metadata.specs import FIRST_PARTITION_ID, PartitionField, PartitionSpec, encode_spec
from deltaberg.iceberg.metadata.versions import (
    ROW_LINEAGE,
    check_columns,
    check_new_names,
    check_order,
    check_spec,
    highest_field_id,
)
from deltaberg.iceberg.schema.evolution import is_promotion, is_same_type
from deltaberg.iceberg.schema.schema import Schema, encode_schema
from deltaberg.iceberg.updates.updates import (
    AddSchema,
    AddSortOrder,
    AddSpec,
    AssignUUID,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetLocation,
    SetProperties,
    Update,
    UpgradeFormatVersion,
)
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct
from deltaberg.table.arguments import checked_properties

__all__ = [
    "DEFAULT_VERSION",
    "FORMAT_VERSION",
    "RESERVED_PROPERTIES",
    "check_properties",
    "creation_updates",
    "given_properties",
    "new_metadata",
    "with_fresh_ids",
]

#: The property that stands for the version of the format.
FORMAT_VERSION = "format-version"
#: The format version of new tables.
DEFAULT_VERSION = 2
#: Properties that other tools show of a table's metadata, and that no table stores.
RESERVED_PROPERTIES = frozenset(
    {
        FORMAT_VERSION,
        "uuid",
        "snapshot-count",
        "current-snapshot-summary",
        "current-snapshot-id",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)


def check_properties(properties: Mapping[Any, Any]) -> None:
    """Refuse table properties that cannot be stored.

    Raises
    ------
    InvalidArgumentError
        If one is reserved, or is not text.
    """
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidArgumentError(
                f"the property {name!r} is {shown_value(value)}, which is not text", hint="pass strings, such as '4'"
            )
        if name in RESERVED_PROPERTIES:
            raise InvalidArgumentError(
                f"the property {name} is reserved", hint="leave it out: it follows from the metadata"
            )


def given_properties(properties: Mapping[str, Any] | None) -> tuple[int, dict[str, str]]:
    """Return the format version that table properties name, and the properties without it, as text.

    Raises
    ------
    InvalidArgumentError
        They are not a mapping, or the format version is not known.

    Examples
    --------
    >>> given_properties({"format-version": "3", "commit.retry.num-retries": 4})
    (3, {'commit.retry.num-retries': '4'})
    """
    kept = {name: _text(value) for name, value in checked_properties(properties).items()}
    version = kept.pop(FORMAT_VERSION, str(DEFAULT_VERSION))
    if version not in ("1", "2", "3"):
        raise InvalidArgumentError(f"the format version is {shown_value(version)}", hint="pass 1, 2 or 3")
    return int(version), kept


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else value


def with_fresh_ids(
    struct: Struct, last: int = 0, prior: Struct | None = None, version: int = DEFAULT_VERSION
) -> tuple[Struct, dict[int, int]]:
    """Return columns with new field ids, and what became of the ids that they had.

    The fields of a struct get their ids before anything inside them does, as in the reference implementation.

    Parameters
    ----------
    last
        The highest id that is in use already.
    prior
        Columns that are replaced. A field keeps its id and its initial default value if it has the same name there,
        and a type whose values can be read as those of the new type.
    version
        The format version, which decides what can be read so.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> inner = Struct((Field("x", Primitive("long")),))
    >>> found, _ = with_fresh_ids(Struct((Field("a", inner), Field("b", Primitive("long")))))
    >>> [child.id for child in found], found.fields[0].type.fields[0].id
    ([1, 2], 3)
    """
    ids = _Ids(last, version)
    return ids.struct(struct, prior), ids.known


class _Ids:
    def __init__(self, last: int, version: int) -> None:
        self._last = last
        self._version = version
        self.known: dict[int, int] = {}

    def _next(self, child: Field, old: Field | None) -> tuple[Field, Field | None]:
        """Return a field with its id, and the field that it was if it keeps the id."""
        if old is not None and old.id is not None and _is_read_as(old.type, child.type, self._version):
            return replace(child, id=old.id, default=old.default), old
        self._last += 1
        if child.id is not None:
            self.known[child.id] = self._last
        return replace(child, id=self._last), None

    def _inside(self, child: Field, old: Field | None) -> Field:
        return replace(child, type=self._type(child.type, None if old is None else old.type))

    def struct(self, found: Struct, known: DataType | None) -> Struct:
        old = {child.name: child for child in known} if isinstance(known, Struct) else {}
        numbered = [self._next(child, old.get(child.name)) for child in found]
        return Struct(tuple(self._inside(*pair) for pair in numbered))

    def _type(self, kind: DataType, prior: DataType | None) -> DataType:
        if isinstance(kind, Struct):
            return self.struct(kind, prior)
        if isinstance(kind, List):
            return List(self._inside(*self._next(kind.element, prior.element if isinstance(prior, List) else None)))
        if isinstance(kind, Map):
            old = (prior.key, prior.value) if isinstance(prior, Map) else (None, None)
            key, value = self._next(kind.key, old[0]), self._next(kind.value, old[1])
            return Map(self._inside(*key), self._inside(*value))
        return kind


def _is_read_as(old: DataType, new: DataType, version: int) -> bool:
    """Return whether values of one type can be read as another."""
    if isinstance(new, (Struct, List, Map)):
        return type(old) is type(new)
    # Partition values that were made of dates are not those of timestamps.
    return is_same_type(old, new) or (old != Primitive("date") and is_promotion(old, new, version))


def _moved(sources: tuple[int, ...], known: Mapping[int, int], what: str) -> tuple[int, ...]:
    missing = [source for source in sources if source not in known]
    if missing:
        raise ColumnNotFoundError(f"the source of {what} is the column with the id {missing[0]}, which does not exist")
    return tuple(known[source] for source in sources)


def new_metadata(
    schema: Schema,
    spec: PartitionSpec | None = None,
    sort_order: SortOrder | None = None,
    *,
    location: str,
    properties: Mapping[str, str] | None = None,
    format_version: int = DEFAULT_VERSION,
    uuid: str | None = None,
    now_ms: int,
) -> dict[str, Any]:
    """Return the metadata of a new table without snapshots.

    Columns and partition fields get new ids, in the order of the reference implementation; the partition spec and the
    sort order name their source columns by the ids that these had in ``schema``.

    Raises
    ------
    InvalidArgumentError
        If a property is reserved.
    SchemaError
        If the format version does not have a type of a column, or if the partition spec or the sort order does not fit
        the schema.
    """
    check_properties(properties or {})
    struct, new_ids = with_fresh_ids(schema.struct)
    identifiers = _moved(schema.identifier_field_ids, new_ids, "an identifier")
    fresh = Schema(struct, 0, identifiers)
    check_columns(fresh, format_version)
    check_new_names(struct, (), Struct)
    own_spec = PartitionSpec(
        0,
        tuple(
            PartitionField(
                _moved(part.source_ids, new_ids, f"the partition field {part.name!r}"),
                FIRST_PARTITION_ID + number,
                part.name,
                part.transform,
            )
            for number, part in enumerate(spec.fields if spec else ())
        ),
    )
    check_spec(own_spec, fresh, format_version)
    fields = tuple(
        SortField(_moved(part.source_ids, new_ids, "a sort field"), part.transform, part.direction, part.null_order)
        for part in (sort_order.fields if sort_order else ())
    )
    own_order = SortOrder(1 if fields else 0, fields)
    check_order(own_order, fresh)
    raw: dict[str, Any] = {
        "format-version": format_version,
        "table-uuid": uuid or str(uuids.uuid4()),
        "location": location.rstrip("/") or location,
    }
    if format_version > 1:
        raw["last-sequence-number"] = 0
    columns = encode_schema(fresh) | {"schema-id": 0}
    raw |= {"last-updated-ms": now_ms, "last-column-id": highest_field_id(struct)}
    if format_version == 1:
        raw |= {"schema": columns, "partition-spec": encode_spec(own_spec)["fields"]}
    raw |= {
        "current-schema-id": 0,
        "schemas": [columns],
        "default-spec-id": 0,
        "partition-specs": [encode_spec(own_spec)],
        "last-partition-id": FIRST_PARTITION_ID - 1 + len(own_spec.fields),
        "default-sort-order-id": own_order.order_id,
        "sort-orders": [encode_sort_order(own_order)],
        "properties": dict(properties or {}),
        # Readers of the first two versions expect a number.
        "current-snapshot-id": None if format_version >= ROW_LINEAGE else -1,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    if format_version >= ROW_LINEAGE:
        raw["next-row-id"] = 0
    metadata_of_json(raw)
    return raw


def creation_updates(raw: Mapping[str, Any]) -> list[Update]:
    """Return the changes that make a new table of nothing, for a catalog that is sent changes."""
    metadata = metadata_of_json(dict(raw))
    updates: list[Update] = [] if metadata.table_uuid is None else [AssignUUID(metadata.table_uuid)]
    updates += [
        UpgradeFormatVersion(metadata.format_version),
        AddSchema(metadata.current_schema),
        SetCurrentSchema(),
        AddSpec(metadata.specs[metadata.default_spec_id]),
        SetDefaultSpec(),
        AddSortOrder(metadata.sort_orders[metadata.default_sort_order_id]),
        SetDefaultSortOrder(),
        SetLocation(metadata.location),
        SetProperties(metadata.properties),
    ]
    return updates
