"""Columns and nested types as the JSON of a schema has them; all of them may be null."""

from __future__ import annotations

from typing import Any

__all__ = ["field_json", "list_json", "map_json", "struct_json"]


def field_json(number: int, name: str, kind: Any, **members: Any) -> dict[str, Any]:
    """Return a field of a struct, with more members."""
    return {"id": number, "name": name, "required": False, "type": kind, **members}


def struct_json(*fields: dict[str, Any]) -> dict[str, Any]:
    """Return a struct of these fields."""
    return {"type": "struct", "fields": list(fields)}


def list_json(number: int, element: Any) -> dict[str, Any]:
    """Return a list whose elements have this id."""
    return {"type": "list", "element-id": number, "element-required": False, "element": element}


def map_json(key_id: int, key: Any, value_id: int, value: Any) -> dict[str, Any]:
    """Return a map whose keys and values have these ids."""
    ids = {"key-id": key_id, "value-id": value_id}
    return {"type": "map", "key": key, "value": value, "value-required": False, **ids}
