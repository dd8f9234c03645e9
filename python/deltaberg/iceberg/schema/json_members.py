"""Members of JSON objects: read from writers that are not trusted, and edited without touching anything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from deltaberg.errors import CorruptMetadataError
from deltaberg.hints import shown_value
from deltaberg.lossless_json import Number, has_lone_surrogate, integer_of

__all__ = [
    "check_text",
    "edited",
    "field_number",
    "integer",
    "integers",
    "members",
    "members_of",
    "objects",
    "optional",
    "optional_integer",
    "required",
    "strings",
    "text",
]

_INT64 = 1 << 63


def edited(raw: Mapping[str, Any], now: Mapping[str, Any], was: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a JSON object with those members set that have changed since it was read.

    All other members stay exactly as they are, whether they are known or not. This also keeps the difference between
    a missing member, a null and a default that is spelled out.

    Parameters
    ----------
    raw
        The object as it was read; empty for an object that is new.
    now
        The members as they should be; None removes a member.
    was
        The members as they were understood when ``raw`` was read.

    Examples
    --------
    >>> edited({"id": 1, "doc": None, "new-in-v9": True}, {"id": 2, "doc": None}, {"id": 1, "doc": None})
    {'id': 2, 'doc': None, 'new-in-v9': True}
    """
    copy = dict(raw)
    for name, value in now.items():
        if value == was.get(name):
            continue
        if value is None:
            copy.pop(name, None)
        else:
            copy[name] = value
    return copy


def members_of(model: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as members of JSON, but for what it was read from."""
    given = {field.name.replace("_", "-"): getattr(model, field.name) for field in fields(model) if field.name != "raw"}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}


def members(value: Any, what: str) -> Mapping[str, Any]:
    """Return a value that has to be a JSON object."""
    if not isinstance(value, dict):
        raise CorruptMetadataError(f"{what} is not a JSON object")
    return value


def optional(found: Mapping[str, Any], name: str, kind: type | tuple[type, ...], what: str) -> Any:
    """Return a member that has to be of one type, or None if it is missing or null."""
    value = found.get(name)
    if value is None:
        return None
    if kind is int and isinstance(value, Number):
        if value.integer is None:
            raise CorruptMetadataError(f"{name} of {what} is {value.text:.40}, not an integer of 64 bits", field=name)
        value = value.integer
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise CorruptMetadataError(f"{name} of {what} has an unexpected type", field=name)
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        raise CorruptMetadataError(f"{name} of {what} has more than 64 bits", field=name)
    if isinstance(value, str):
        check_text(value, f"{name} of {what}")
    return value


def check_text(value: str, what: str) -> None:
    """Refuse text with half of a surrogate pair: it has no UTF-8 form, which Arrow and paths need.

    Raises
    ------
    CorruptMetadataError
        If the text holds one.
    """
    if has_lone_surrogate(value):
        raise CorruptMetadataError(f"{what} holds half of a surrogate pair, so it is not text")


def required(found: Mapping[str, Any], name: str, kind: type | tuple[type, ...], what: str) -> Any:
    """Return a member that has to be there and of one type."""
    value = optional(found, name, kind, what)
    if value is None:
        raise CorruptMetadataError(f"{what} has no {name}", field=name)
    return value


def text(found: Mapping[str, Any], name: str, what: str) -> str:
    """Return a string member."""
    value: str = required(found, name, str, what)
    return value


def integer(found: Mapping[str, Any], name: str, what: str) -> int:
    """Return an integer member."""
    value: int = required(found, name, int, what)
    return value


def field_number(value: Any, what: str) -> int:
    """Return a value that has to be a field id: an integer of 32 bits, not negative."""
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise CorruptMetadataError(f"{what} is {shown_value(value)}, which is not a field id")
    return value


def optional_integer(found: Mapping[str, Any], name: str, what: str) -> int | None:
    """Return an integer member, or None if it is missing or null."""
    value: int | None = optional(found, name, int, what)
    return value


def objects(found: Mapping[str, Any], name: str, what: str) -> list[Mapping[str, Any]]:
    """Return a member that is a list of objects; an empty list if it is missing."""
    values = optional(found, name, list, what) or []
    return [members(value, f"an element of {name}") for value in values]


def integers(found: Mapping[str, Any], name: str, what: str) -> tuple[int, ...]:
    """Return a member that is a list of integers; an empty one if it is missing."""
    values = [integer_of(value) for value in optional(found, name, list, what) or []]
    known = tuple(value for value in values if value is not None and -_INT64 <= value < _INT64)
    if len(known) < len(values):
        raise CorruptMetadataError(f"{name} of {what} is not a list of integers", field=name)
    return known


def strings(found: Mapping[str, Any], name: str, what: str) -> dict[str, str]:
    """Return a member that maps strings to strings; an empty one if it is missing."""
    values = optional(found, name, dict, what) or {}
    if not all(isinstance(value, str) for value in values.values()):
        raise CorruptMetadataError(f"{name} of {what} is not a map of strings", field=name)
    for key, value in values.items():
        check_text(key, f"a key in {name} of {what}")
        check_text(value, f"a value in {name} of {what}")
    return dict(values)
