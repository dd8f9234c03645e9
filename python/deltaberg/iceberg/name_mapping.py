"""The table property ``schema.name-mapping.default`` (Iceberg spec, "Name Mapping Serialization")."""

from __future__ import annotations

import json
from typing import Any

from deltaberg.errors import CorruptMetadataError
from deltaberg.iceberg.json_members import field_number
from deltaberg.schema import MappedField, NameMapping

__all__ = ["NAME_MAPPING", "read_name_mapping"]

NAME_MAPPING = "schema.name-mapping.default"
_DEEPEST = 100


def read_name_mapping(text: str | None) -> NameMapping | None:
    """Read a name mapping; None where there is none.

    Raises
    ------
    CorruptMetadataError
        Where the text is none.

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
        raise CorruptMetadataError(f"{NAME_MAPPING} is no list of fields", property=NAME_MAPPING)
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
