"""How long removed files stay (Delta protocol, "Add File and Remove File", and the table's retention property)."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import SchemaError

__all__ = ["deleted_file_retention", "expired", "parse_interval"]

_RETENTION = "delta.deletedFileRetentionDuration"
_DEFAULT = "interval 1 week"
_MICROS = {
    "week": 7 * 86_400_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_PART = re.compile(r"(\d{1,12})\s+(week|day|hour|minute|second|millisecond|microsecond)s?")


def parse_interval(text: str) -> int:
    """Give an interval as Spark writes it in milliseconds.

    Raises
    ------
    SchemaError
        Where it is none, or holds months or years, which have no length of their own.

    Examples
    --------
    >>> parse_interval("interval 1 week 2 hours")
    612000000
    """
    wanted = text.strip().lower().removeprefix("interval").strip()
    parts = _PART.findall(wanted)
    if not parts or _PART.sub("", wanted).strip():
        raise SchemaError(f"{text!r} is no interval", hint="write it as interval 7 days")
    return sum(int(count) * _MICROS[unit] for count, unit in parts) // 1_000


def deleted_file_retention(properties: Mapping[str, str]) -> int:
    """Give how long vacuum spares a removed file, in milliseconds."""
    return parse_interval(properties.get(_RETENTION, _DEFAULT))


def expired(tombstones: pa.Table, at: int, retention: int) -> pa.Table:
    """Give the tombstones whose time is over at an instant; a file without a time of deletion is long gone.

    Parameters
    ----------
    at, retention
        In milliseconds, the first since 1970.
    """
    deleted = pc.fill_null(tombstones.column("deletionTimestamp"), 0)
    return tombstones.filter(pc.less(deleted, at - retention))
