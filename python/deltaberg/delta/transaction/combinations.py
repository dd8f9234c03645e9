"""Properties and features of a table that exclude or need one another (Delta protocol, sections of the features)."""

from __future__ import annotations

from collections.abc import Mapping

from deltaberg.delta.actions.table_actions import Metadata, Protocol
from deltaberg.delta.features import active_features
from deltaberg.delta.schema.column_mapping import mapping_mode
from deltaberg.delta.schema.schema import parse_schema
from deltaberg.delta.schema.writer_rules import IdentityColumn, identity_columns
from deltaberg.errors import InvalidArgumentError
from deltaberg.schema import Struct

__all__ = ["ROW_TRACKING_SUSPENDED", "check_combinations"]

#: The property that keeps new rows from getting ids.
ROW_TRACKING_SUSPENDED = "delta.rowTrackingSuspended"


def check_combinations(protocol: Protocol, metadata: Metadata, before: Struct | None = None) -> None:
    """Refuse a protocol and metadata that contradict each other, or the columns that the table had before.

    Parameters
    ----------
    before
        The columns of the version before; None for a new table.

    Raises
    ------
    InvalidArgumentError
        Row tracking is enabled and suspended, or the start or the step of an identity column changes.

    Examples
    --------
    >>> metadata = table.metadata.with_properties(
    ...     {"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "true"}
    ... )
    >>> check_combinations(Protocol(1, 7, None, ("domainMetadata", "rowTracking")), metadata)
    Traceback (most recent call last):
        ...
    deltaberg.errors.InvalidArgumentError: row tracking cannot be enabled while it is suspended
    hint: unset delta.rowTrackingSuspended
    """
    properties = metadata.configuration
    active = active_features(protocol, properties)
    if "rowTracking" in active and properties.get(ROW_TRACKING_SUSPENDED, "").strip().lower() == "true":
        raise InvalidArgumentError(
            "row tracking cannot be enabled while it is suspended", hint=f"unset {ROW_TRACKING_SUSPENDED}"
        )
    if before is not None and metadata.schema_string is not None:
        after = parse_schema(metadata.schema_string, mapping_mode(protocol, properties))
        _check_identities(identity_columns(before), identity_columns(after))


def _check_identities(before: Mapping[str, IdentityColumn], after: Mapping[str, IdentityColumn]) -> None:
    for name, old in before.items():
        new = after.get(name, old)
        if (old.start, old.step, old.allow_explicit_insert) != (new.start, new.step, new.allow_explicit_insert):
            raise InvalidArgumentError(
                "the start and the step of an identity column, and whether values can be given, never change",
                column=name,
            )
