"""The table property ``schema.name-mapping.default`` (Iceberg spec, "Name Mapping Serialization")."""

from __future__ import annotations

import json
from typing import Any

from deltaberg.errors import CorruptMetadataError
from deltaberg.iceberg.schema.json_members import field_number
from deltaberg.schema.name_mapping import MappedField, NameMapping

__all__ = ["NAME_MAPPING", "encode_name_mapping", "read_name_mapping"]

NAME_MAPPING = "schema.name-mapping.default"
_DEEPEST = 100


def read_name_mapping(text: str | None) -> NameMapping | None:
    """Read a name mapping; return None for None.

    Raises
    ------
    CorruptMetadataError
        If the text is not a name mapping.

    Examples
    --------
    >>> read_name_mapping('[{"field-id": 1, "names": ["id", "record_id"]}]').find("record_id").id
    1
    """
    if text is None:
        return None
    try:
        return _mapping(json.loads(text), 0)
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, CorruptMetadataError):
            raise
        raise CorruptMetadataError(f"{NAME_MAPPING} cannot be read: {error}", property=NAME_MAPPING) from None


def _mapping(found: Any, depth: int) -> NameMapping:
    if not isinstance(found, list) or depth > _DEEPEST:
        raise CorruptMetadataError(f"{NAME_MAPPING} is not a list of fields", property=NAME_MAPPING)
    return NameMapping(tuple(_field(part, depth) for part in found))


def _field(part: Any, depth: int) -> MappedField:
    names = part.get("names", []) if isinstance(part, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise CorruptMetadataError(f"a field of {NAME_MAPPING} has no list of names", property=NAME_MAPPING)
    number = part.get("field-id")
    if number is not None:
        field_number(number, f"a field-id of {NAME_MAPPING}")
    inner = part.get("fields")
    return MappedField(tuple(names), number, None if inner is None else _mapping(inner, depth + 1))


def encode_name_mapping(mapping: NameMapping) -> str:
    """Return the text of a name mapping, the inverse of `read_name_mapping`.

    Examples
    --------
    >>> encode_name_mapping(NameMapping((MappedField(("id", "record_id"), 1),)))
    '[{"field-id": 1, "names": ["id", "record_id"]}]'
    """
    return json.dumps(_members(mapping), ensure_ascii=False)


def _members(mapping: NameMapping) -> list[dict[str, Any]]:
    fields = []
    for mapped in mapping.fields:
        own: dict[str, Any] = {} if mapped.id is None else {"field-id": mapped.id}
        own["names"] = list(mapped.names)
        if mapped.fields is not None:
            own["fields"] = _members(mapped.fields)
        fields.append(own)
    return fields
