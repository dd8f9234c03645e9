"""Properties and features of a table that exclude or need one another (Delta protocol, sections of the features)."""

from __future__ import annotations

from deltaberg.delta.actions.table_actions import Metadata, Protocol
from deltaberg.delta.features import active_features
from deltaberg.errors import InvalidArgumentError

__all__ = ["ROW_TRACKING_SUSPENDED", "check_combinations"]

#: The property that keeps new rows from getting ids.
ROW_TRACKING_SUSPENDED = "delta.rowTrackingSuspended"


def check_combinations(protocol: Protocol, metadata: Metadata) -> None:
    """Refuse a protocol and metadata that contradict each other.

    Raises
    ------
    InvalidArgumentError
        Row tracking is enabled and suspended.

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
