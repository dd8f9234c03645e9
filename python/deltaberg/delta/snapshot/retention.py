"""Retention of removed files, of entries of the log and of the progress of applications, by table properties."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.table_actions import Transaction
from deltaberg.errors import SchemaError, in_context
from deltaberg.hints import shown_value
from deltaberg.whole_numbers import whole_number

__all__ = [
    "KEPT_VERSIONS",
    "PROTECTED_BEFORE",
    "deleted_file_retention",
    "expired",
    "kept_versions",
    "log_retention",
    "parse_interval",
    "truncation_retention",
    "unexpired",
    "unexpired_transactions",
]

_RETENTION = "delta.deletedFileRetentionDuration"
_DEFAULT = "interval 1 week"
_LOG_RETENTION = "delta.logRetentionDuration"
_LOG_DEFAULT = "interval 30 days"
#: Names versions that no vacuum and no clean-up of the log takes apart, as in ``3, 17``.
KEPT_VERSIONS = "deltaberg.keepVersions"
#: Names the version up to which checkpoints protect readers that do not know a feature that was dropped.
PROTECTED_BEFORE = "delta.requireCheckpointProtectionBeforeVersion"
_TRUNCATION = "delta.dropFeatureTruncateHistory.retentionDuration"
_TRUNCATION_DEFAULT = "interval 24 hours"
_TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
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
    """Return the length of an interval, written as Spark does, in milliseconds.

    Raises
    ------
    SchemaError
        If the text is not an interval, is longer than Spark counts, or has months or years, which have no fixed length.

    Examples
    --------
    >>> parse_interval("interval 1 week 2 hours")
    612000000
    """
    wanted = text.strip().lower().removeprefix("interval").strip()
    parts = _PART.findall(wanted)
    micros = sum(int(count) * _MICROS[unit] for count, unit in parts)
    # Spark counts microseconds in 64 bits.
    if not parts or _PART.sub("", wanted).strip() or micros >= 1 << 63:
        raise SchemaError(f"{shown_value(text)} is not an interval", hint="write it as interval 7 days")
    return micros // 1_000


def _interval(properties: Mapping[str, str], name: str, default: str) -> int:
    with in_context(setting=name):
        return parse_interval(properties.get(name, default))


def deleted_file_retention(properties: Mapping[str, str]) -> int:
    """Return how long vacuum must keep a removed file, in milliseconds.

    Raises
    ------
    SchemaError
        If the property is not an interval.
    """
    return _interval(properties, _RETENTION, _DEFAULT)


def log_retention(properties: Mapping[str, str]) -> int:
    """Return how long entries of the log are kept, in milliseconds.

    Raises
    ------
    SchemaError
        If the property is not an interval.
    """
    return _interval(properties, _LOG_RETENTION, _LOG_DEFAULT)


def truncation_retention(properties: Mapping[str, str]) -> int:
    """Return how long entries of the log are kept where a feature is dropped with its history, in milliseconds.

    Raises
    ------
    SchemaError
        If the property is not an interval.
    """
    return _interval(properties, _TRUNCATION, _TRUNCATION_DEFAULT)


def kept_versions(properties: Mapping[str, str]) -> frozenset[int]:
    """Return the versions that the property ``deltaberg.keepVersions`` names.

    Raises
    ------
    SchemaError
        The property is not a list of versions: nobody knows what must stay.
    """
    text = properties.get(KEPT_VERSIONS, "")
    versions = [whole_number(part.strip(), 0) for part in text.split(",") if part.strip()]
    if None in versions:
        raise SchemaError(
            f"the property {KEPT_VERSIONS} must be versions such as 3, 17, not {shown_value(text)}",
            setting=KEPT_VERSIONS,
        )
    return frozenset(version for version in versions if version is not None)


def unexpired_transactions(
    transactions: Mapping[str, Transaction], properties: Mapping[str, str], at: int
) -> dict[str, Transaction]:
    """Return the progress of applications that still counts at an instant.

    Without the property ``delta.setTransactionRetentionDuration``, progress counts for ever. That of which the time is
    not recorded never expires, because forgetting it could let rows be written twice.

    Parameters
    ----------
    transactions
        The newest ``txn`` action of each application, by application id.
    properties
        The table properties.
    at
        The instant, in milliseconds since 1970.

    Raises
    ------
    SchemaError
        If the property is not an interval.

    Examples
    --------
    >>> known = {"old": Transaction("old", 1, 0), "new": Transaction("new", 1, 9_000), "ever": Transaction("ever", 1)}
    >>> list(unexpired_transactions(known, {_TRANSACTION_RETENTION: "interval 1 second"}, 10_000))
    ['new', 'ever']
    """
    if _TRANSACTION_RETENTION not in properties:
        return dict(transactions)
    oldest = at - _interval(properties, _TRANSACTION_RETENTION, "")
    return {
        name: known
        for name, known in transactions.items()
        if known.last_updated is None or known.last_updated >= oldest
    }


def expired(tombstones: pa.Table, at: int, retention: int) -> pa.Table:
    """Return the tombstones that have expired at an instant. Those without a time of deletion have.

    Parameters
    ----------
    at
        The instant, in milliseconds since 1970.
    retention
        How long files are kept, in milliseconds.
    """
    return tombstones.filter(_has_expired(tombstones, at, retention))


def unexpired(tombstones: pa.Table, at: int, retention: int) -> pa.Table:
    """Return the tombstones that `expired` leaves out, which checkpoints must keep."""
    return tombstones.filter(pc.invert(_has_expired(tombstones, at, retention)))


def _has_expired(tombstones: pa.Table, at: int, retention: int) -> pa.ChunkedArray:
    deleted = pc.fill_null(tombstones.column("deletionTimestamp"), 0)
    return pc.less(deleted, at - retention)
