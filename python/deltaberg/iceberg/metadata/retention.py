"""The properties of a table that say for how long clean-up keeps what, and whether it may delete files at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from deltaberg.iceberg.metadata.property_values import choice_of
from deltaberg.iceberg.metadata.write_metadata import DELETES_METADATA, kept_in_log
from deltaberg.table.property_values import number_of

__all__ = ["COLLECTED", "Retention", "check_retention", "is_collected", "retention_of"]

#: Whether the files of a table are its own.
COLLECTED = "gc.enabled"
_AGE, _DAYS = "history.expire.max-snapshot-age-ms", 5 * 24 * 3_600_000
_LEAST = "history.expire.min-snapshots-to-keep"
_REF_AGE, _ENDLESS = "history.expire.max-ref-age-ms", (1 << 63) - 1


class Retention(NamedTuple):
    """The retention of snapshots (Iceberg spec, "Snapshot Retention Policy").

    Parameters
    ----------
    snapshot_age
        The age in milliseconds from which on snapshots expire.
    fewest
        How many snapshots each branch keeps at least.
    ref_age
        The age in milliseconds from which on branches and tags expire.
    """

    snapshot_age: int
    fewest: int
    ref_age: int


def retention_of(properties: Mapping[str, str]) -> Retention:
    """Return the retention that the properties ``history.expire.…`` say.

    Raises
    ------
    InvalidArgumentError
        A property is no positive whole number.
    """
    return Retention(
        number_of(properties, _AGE, _DAYS), number_of(properties, _LEAST, 1), number_of(properties, _REF_AGE, _ENDLESS)
    )


def is_collected(properties: Mapping[str, str]) -> bool:
    """Return whether the files of a table are its own, so that clean-up may delete them (``gc.enabled``)."""
    return properties.get(COLLECTED, "true").strip().lower() == "true"


def check_retention(properties: Mapping[str, str]) -> None:
    """Refuse properties that no clean-up could go by.

    Raises
    ------
    InvalidArgumentError
        A property has no valid value.
    """
    retention_of(properties)
    kept_in_log(properties)
    for name in (COLLECTED, DELETES_METADATA):
        choice_of(properties, name, ("true", "false"))
