"""Members of JSON objects whose writer is not trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltaberg.errors import CorruptMetadataError

__all__ = [
    "field_number",
    "integer",
    "integers",
    "members",
    "objects",
    "optional",
    "optional_integer",
    "required",
    "strings",
    "text",
]

_INT64 = 1 << 63


def members(value: Any, what: str) -> Mapping[str, Any]:
    """Give a JSON object."""
    if not isinstance(value, dict):
        raise CorruptMetadataError(f"{what} is no JSON object")
    return value


def optional(found: Mapping[str, Any], name: str, kind: type | tuple[type, ...], what: str) -> Any:
    """Give a member of a type, or None where it is missing or null."""
    value = found.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise CorruptMetadataError(f"{name} of {what} has an unexpected type", field=name)
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        raise CorruptMetadataError(f"{name} of {what} has more than 64 bits", field=name)
    return value


def required(found: Mapping[str, Any], name: str, kind: type | tuple[type, ...], what: str) -> Any:
    """Give a member of a type."""
    value = optional(found, name, kind, what)
    if value is None:
        raise CorruptMetadataError(f"{what} has no {name}", field=name)
    return value


def text(found: Mapping[str, Any], name: str, what: str) -> str:
    """Give a string member."""
    value: str = required(found, name, str, what)
    return value


def integer(found: Mapping[str, Any], name: str, what: str) -> int:
    """Give an integer member."""
    value: int = required(found, name, int, what)
    return value


def field_number(value: Any, what: str) -> int:
    """Give the id of a field; ids are of 32 bits."""
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise CorruptMetadataError(f"{what} is {value!r:.80}, which is no id of a field")
    return value


def optional_integer(found: Mapping[str, Any], name: str, what: str) -> int | None:
    """Give an integer member, or None where it is missing or null."""
    value: int | None = optional(found, name, int, what)
    return value


def objects(found: Mapping[str, Any], name: str, what: str) -> list[Mapping[str, Any]]:
    """Give a member that is a list of objects; an empty list where it is missing."""
    values = optional(found, name, list, what) or []
    return [members(value, f"an element of {name}") for value in values]


def integers(found: Mapping[str, Any], name: str, what: str) -> tuple[int, ...]:
    """Give a member that is a list of integers; an empty one where it is missing."""
    values = optional(found, name, list, what) or []
    if not all(type(value) is int and -_INT64 <= value < _INT64 for value in values):
        raise CorruptMetadataError(f"{name} of {what} is no list of integers", field=name)
    return tuple(values)


def strings(found: Mapping[str, Any], name: str, what: str) -> dict[str, str]:
    """Give a member that maps strings to strings; an empty one where it is missing."""
    values = optional(found, name, dict, what) or {}
    if not all(isinstance(value, str) for value in values.values()):
        raise CorruptMetadataError(f"{name} of {what} is no map of strings", field=name)
    return dict(values)
