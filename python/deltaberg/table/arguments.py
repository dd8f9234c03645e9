"""Arguments that the tables of every format take: instants, time zones, options of scans."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from deltaberg.errors import InvalidArgumentError
from deltaberg.storage import LocationMap
from deltaberg.table.scan import ScanOptions

__all__ = ["AUTO", "Instant", "checked_map", "parse_instant", "scan_options", "zone_of"]

#: How callers name an instant.
Instant = dt.datetime | dt.date | str
#: The location map that a table makes itself.
AUTO = "auto"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def parse_instant(value: Instant, timezone: dt.tzinfo) -> int:
    """Give an instant in milliseconds since 1970; one without a zone is in ``timezone``."""
    if isinstance(value, str):
        text = value.strip()
        try:
            value = dt.datetime.fromisoformat(text.removesuffix("Z") + ("+00:00" if text.endswith("Z") else ""))
        except ValueError:
            raise InvalidArgumentError(
                f"{text!r} is no timestamp", hint="write it as 2024-01-31 12:00:00, perhaps with a zone"
            ) from None
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    aware = value if value.tzinfo is not None else value.replace(tzinfo=timezone)
    return (aware - _EPOCH) // dt.timedelta(milliseconds=1)


def zone_of(name: str) -> ZoneInfo:
    """Give the time zone of a name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidArgumentError(f"{name!r} is no time zone", hint="use a name such as Europe/Paris") from None


def scan_options(options: ScanOptions | None, execution: Mapping[str, Any], timezone: str) -> ScanOptions:
    """Give the options of a scan, of which single ones may be given by name."""
    chosen = options or ScanOptions(timezone=timezone)
    try:
        return replace(chosen, **execution) if execution else chosen
    except TypeError:
        known = ", ".join(ScanOptions.__dataclass_fields__)
        unknown = ", ".join(name for name in execution if name not in ScanOptions.__dataclass_fields__)
        raise InvalidArgumentError(f"unknown scan option {unknown}", hint=f"known are {known}") from None


def checked_map(location_map: LocationMap | str | None) -> LocationMap | str | None:
    """Refuse text other than `AUTO`."""
    if isinstance(location_map, str) and location_map != AUTO:
        raise InvalidArgumentError(f"location_map is {location_map!r}", hint=f'pass a mapping, or "{AUTO}"')
    return location_map
