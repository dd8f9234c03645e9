"""Arguments that the tables of every format take: instants, time zones, limits."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions import parse_timestamp
from deltaberg.storage import LocationMap, StoreOptions

__all__ = [
    "AUTO",
    "Instant",
    "checked_flag",
    "checked_limit",
    "checked_map",
    "checked_number",
    "checked_options",
    "checked_text",
    "parse_instant",
    "zone_of",
]

#: How callers name an instant.
Instant = dt.datetime | dt.date | str
#: The location map that a table makes itself.
AUTO = "auto"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def parse_instant(value: Instant, timezone: dt.tzinfo) -> int:
    """Give an instant in milliseconds since 1970; one without a zone is in ``timezone``."""
    if isinstance(value, str):
        text = value
        try:
            value, _ = parse_timestamp(text)
        except ValueError:
            raise InvalidArgumentError(
                f"{text.strip()!r} is no timestamp", hint="write it as 2024-01-31 12:00:00, perhaps with a zone"
            ) from None
    if not isinstance(value, dt.date):
        raise InvalidArgumentError(f"{value!r} is no timestamp", hint="pass text, a datetime or a date")
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    aware = value if value.tzinfo is not None else value.replace(tzinfo=timezone)
    return (aware - _EPOCH) // dt.timedelta(milliseconds=1)


def zone_of(name: str) -> ZoneInfo:
    """Give the time zone of a name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, TypeError, ValueError, OSError):
        raise InvalidArgumentError(f"{name!r} is no time zone", hint="use a name such as Europe/Paris") from None


def checked_limit(limit: int | None) -> int | None:
    """Refuse what is no number of rows or commits."""
    return None if limit is None else checked_number("limit", limit, 0, "pass how many at most, or None")


def checked_number(name: str, value: Any, least: int, hint: str) -> int:
    """Refuse what is no integer of 64 bits, or less than it may be."""
    if type(value) is not int or not least <= value < 1 << 63:
        raise InvalidArgumentError(f"{name} is {value!r}", hint=hint)
    return value


def checked_options(options: StoreOptions | None) -> dict[str, Any]:
    """Refuse what is no mapping of names; its values are in no message."""
    if options is not None and not isinstance(options, Mapping):
        raise InvalidArgumentError("storage_options is no mapping", hint="pass names and values, as in a dict")
    if not all(isinstance(name, str) for name in options or ()):
        raise InvalidArgumentError("a name in storage_options is no text", hint="pass names and values, as in a dict")
    return dict(options or {})


def checked_map(location_map: LocationMap | str | None) -> LocationMap | str | None:
    """Refuse what is neither a mapping of prefixes to locations nor `AUTO`; what it is is in no message."""
    if location_map is None or location_map == AUTO:
        return location_map
    if not isinstance(location_map, Mapping):
        raise InvalidArgumentError(
            f"location_map is of type {type(location_map).__name__}", hint=f'pass a mapping, or "{AUTO}"'
        )
    if not all(isinstance(old, str) for old in location_map):
        raise InvalidArgumentError(
            "a prefix in location_map is no text", hint="pass a mapping of recorded prefixes to locations"
        )
    return location_map


def checked_text(name: str, value: Any, hint: str) -> str:
    """Refuse what is no text, or empty."""
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError(f"{name} is {value!r:.200}", hint=hint)
    return value


def checked_flag(name: str, value: Any) -> bool:
    """Refuse what is neither True nor False: the text "false" would count as true."""
    if not isinstance(value, bool):
        raise InvalidArgumentError(f"{name} is {value!r:.200}", hint="pass True or False")
    return value
