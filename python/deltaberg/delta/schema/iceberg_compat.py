"""The requirements of compatibility with Iceberg (Delta protocol, "IcebergCompatV1" and "IcebergCompatV2").

Tables that shall be offered as tables of Hudi have rules as well, which the protocol does not tell. delta-spark checks
them at each commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.table_actions import Metadata, Protocol
from deltaberg.delta.features import active_features, supports
from deltaberg.delta.schema.column_mapping import NESTED_IDS, PHYSICAL_NAME, mapping_mode
from deltaberg.delta.schema.new_columns import MAX_COLUMN_ID, ColumnNumbers
from deltaberg.delta.schema.schema_json import SchemaDocument
from deltaberg.delta.schema.type_changes import fits_iceberg, recorded_changes
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint
from deltaberg.schema.arrow import as_array
from deltaberg.schema.types import List, Map, Primitive, Struct, fields_inside

__all__ = [
    "FORMATS",
    "V1",
    "V2",
    "check_compatible",
    "compatibility_tags",
    "is_compatible",
    "untagged_files",
    "with_nested_ids",
]

V1, V2 = "icebergCompatV1", "icebergCompatV2"
#: The property that names the other formats in which engines also offer the table.
FORMATS = "delta.universalFormat.enabledFormats"
#: The tag by which delta-spark tells files that were written since the second version is active.
_TAG, _TAGGED = "ICEBERG_COMPAT_VERSION", "2"
#: Types that the second version has no place for.
_FOREIGN = ("void", "variant")
#: Types that Hudi has no place for.
_FOREIGN_TO_HUDI = ("void", "byte", "short", "timestamp_ntz")


def is_compatible(active: Collection[str]) -> bool:
    """Return whether a table with these active features is compatible with Iceberg."""
    return V1 in active or V2 in active


def compatibility_tags(active: Collection[str]) -> dict[str, str]:
    """Return the tags of files that are written to a table with these active features."""
    return {_TAG: _TAGGED} if V2 in active else {}


def untagged_files(live: pa.Table) -> pa.BooleanArray:
    """Return which live files were written before the second version was active."""
    tags = pc.map_lookup(as_array(live.column("tags")), pa.scalar(_TAG), "last")
    return pc.not_equal(pc.fill_null(tags, ""), _TAGGED)


def check_compatible(protocol: Protocol, metadata: Metadata, schema: Struct) -> None:
    """Refuse a table that says that it is compatible with Iceberg, and is not.

    Raises
    ------
    InvalidArgumentError
        Column mapping is off, deletion vectors are in the way, both versions are active, or a column has a type that
        the version has no place for; or neither is active, and the table shall be offered as an Iceberg table. Or it
        shall be offered as a table of Hudi, and deletion vectors or the type of a column are in the way.
    """
    active = active_features(protocol, metadata.configuration)
    formats = {one.strip() for one in metadata.configuration.get(FORMATS, "").lower().split(",")}
    if "hudi" in formats:
        _check_hudi(metadata, schema)
    if not is_compatible(active):
        if "iceberg" in formats:
            # delta-spark commits nothing to such a table.
            raise _refused(
                f"{FORMATS} names iceberg, but the table is not compatible with Iceberg",
                "set delta.enableIcebergCompatV2 to true as well",
            )
        return
    name = V1 if V1 in active else V2
    if {V1, V2} <= active:
        raise _refused(f"{V1} and {V2} are both active", "enable one of them")
    if mapping_mode(protocol, metadata.configuration) == "none":
        raise _refused(f"{name} needs column mapping", "set delta.columnMapping.mode to name")
    vectors = supports(protocol, "deletionVectors") if name == V1 else "deletionVectors" in active
    if vectors:
        away = "⟪drop_feature('deletionVectors')⟫" if name == V1 else "⟪reorg(upgrade_iceberg_compat=2)⟫"
        hint = Hint(f"leave deletion vectors out; {away} takes them from a table")
        raise _refused(f"{name} and deletion vectors exclude each other", hint)
    _check_types(name, schema)


def _check_types(name: str, schema: Struct) -> None:
    """Refuse the types, and the changes of types, that a version of the compatibility has no place for."""
    for path, field in fields_inside(schema):
        kind = field.type
        foreign = isinstance(kind, (List, Map)) if name == V1 else False
        if foreign or (isinstance(kind, Primitive) and kind.name in (_FOREIGN[:1] if name == V1 else _FOREIGN)):
            raise InvalidArgumentError(f"{name} does not allow columns of the type {kind}", column=".".join(path))
    # delta-spark commits nothing to a table with such a change.
    for path, field in fields_inside(schema):
        for old, new in recorded_changes(field):
            if not fits_iceberg(old, new):
                raise InvalidArgumentError(
                    f"{name} does not allow that the type {old} became {new}, which Iceberg does not know",
                    column=".".join(path),
                )


def _check_hudi(metadata: Metadata, schema: Struct) -> None:
    if metadata.configuration.get("delta.enableDeletionVectors", "").strip().lower() == "true":
        raise _refused(
            f"{FORMATS} names hudi, which has no place for deletion vectors", "set delta.enableDeletionVectors to false"
        )
    for path, field in fields_inside(schema):
        if isinstance(field.type, Primitive) and field.type.name in _FOREIGN_TO_HUDI:
            raise InvalidArgumentError(
                f"{FORMATS} names hudi, which does not allow columns of the type {field.type}", column=".".join(path)
            )


def _refused(message: str, hint: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, hint=hint)


def with_nested_ids(protocol: Protocol, metadata: Metadata) -> Metadata:
    """Return metadata in which the elements of lists and the keys and values of maps have ids, if `V2` is active.

    Those that have one keep it. The metadata is the very same if there is nothing to add.
    """
    mode = mapping_mode(protocol, metadata.configuration)
    if V2 not in active_features(protocol, metadata.configuration) or mode == "none":
        return metadata
    numbers = ColumnNumbers.of(mode, metadata.configuration)
    document = SchemaDocument(metadata.schema_string or "")
    if numbers is None:
        return metadata
    before = numbers.highest
    _number_fields(document.fields(), numbers)
    if numbers.highest == before:
        return metadata
    changed = metadata.with_members({"schemaString": document.to_json()})
    return changed.with_properties({MAX_COLUMN_ID: str(numbers.highest)})


def _number_fields(fields: list[dict[str, Any]], numbers: ColumnNumbers) -> None:
    for field in fields:
        metadata = field.setdefault("metadata", {})
        nested_ids = dict(metadata.get(NESTED_IDS) or {})
        for key in _keys(field.get("type"), str(metadata.get(PHYSICAL_NAME, field["name"])), numbers):
            if key not in nested_ids:
                numbers.highest += 1
                nested_ids[key] = numbers.highest
        if nested_ids:
            metadata[NESTED_IDS] = nested_ids


def _keys(kind: Any, path: str, numbers: ColumnNumbers) -> Iterator[str]:
    """Yield the path of each element, key and value of a type, and number the fields of structs inside it."""
    if not isinstance(kind, dict):
        return
    if kind.get("type") == "struct":
        _number_fields(kind["fields"], numbers)
    elif kind.get("type") == "udt":
        yield from _keys(kind.get("sqlType"), path, numbers)
    elif kind.get("type") == "array":
        yield f"{path}.element"
        yield from _keys(kind.get("elementType"), f"{path}.element", numbers)
    elif kind.get("type") == "map":
        yield f"{path}.key"
        yield f"{path}.value"
        yield from _keys(kind.get("keyType"), f"{path}.key", numbers)
        yield from _keys(kind.get("valueType"), f"{path}.value", numbers)
