"""Properties and features of a table that exclude or need one another (Delta protocol, sections of the features)."""

from __future__ import annotations

from collections.abc import Mapping

from deltaberg.delta.actions.table_actions import Metadata, Protocol
from deltaberg.delta.after_commit.symlink_manifests import SYMLINK_MANIFESTS
from deltaberg.delta.features import active_features
from deltaberg.delta.schema.column_mapping import mapping_mode
from deltaberg.delta.schema.iceberg_compat import V1, check_compatible, is_compatible
from deltaberg.delta.schema.row_tracking import check_hidden_names
from deltaberg.delta.schema.schema import parse_schema
from deltaberg.delta.schema.writer_rules import IdentityColumn, identity_columns
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import verbatim
from deltaberg.schema.types import Struct

__all__ = ["ROW_TRACKING_SUSPENDED", "check_combinations"]

_FEED_NAMES = ("_change_type", "_commit_version", "_commit_timestamp")
#: The features that readers of manifests of symlinks do not know.
_UNKNOWN_TO_MANIFESTS = ("deletionVectors", "columnMapping")
#: The property that keeps new rows from getting ids.
ROW_TRACKING_SUSPENDED = "delta.rowTrackingSuspended"


def check_combinations(protocol: Protocol, metadata: Metadata, before: Snapshot | None = None) -> None:
    """Refuse a protocol and metadata that contradict each other, or the columns that the table had before.

    Parameters
    ----------
    before
        The version before; None for a new table.

    Raises
    ------
    InvalidArgumentError
        Row tracking is enabled and suspended, commits are to write manifests of symlinks beside deletion vectors or
        column mapping, a column has a name of the change data feed or of a hidden column, the start or the step of an
        identity column changes, or the table cannot be compatible with Iceberg although it says so.

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
    _check_manifests(protocol, metadata, before)
    if metadata.schema_string is None:
        return
    schema = parse_schema(metadata.schema_string, mapping_mode(protocol, properties))
    if "changeDataFeed" in active:
        _check_feed_names(schema)
    check_compatible(protocol, metadata, schema)
    check_hidden_names(schema, properties)
    if before is not None:
        _check_identities(identity_columns(before.schema), identity_columns(schema))
        if is_compatible(active):
            _check_partitions(before, metadata, schema, enables_v1=V1 in active - before.active_features)


def _check_manifests(protocol: Protocol, metadata: Metadata, before: Snapshot | None) -> None:
    """Refuse manifests of symlinks together with what their readers do not know, unless the table has both already."""
    if not metadata.is_enabled(SYMLINK_MANIFESTS):
        return
    active = active_features(protocol, metadata.configuration)
    has_already = before is not None and before.is_enabled(SYMLINK_MANIFESTS)
    known = before.active_features if before is not None and has_already else frozenset[str]()
    for feature in _UNKNOWN_TO_MANIFESTS:
        if feature in active and feature not in known:
            raise InvalidArgumentError(
                f"{SYMLINK_MANIFESTS} cannot be true for a table with {feature}, "
                "which readers of manifests do not know",
                hint=f"leave one of the two out; ⟪drop_feature('{verbatim(feature)}')⟫ takes the feature from a table",
                feature=feature,
            )


def _check_feed_names(schema: Struct) -> None:
    """Refuse columns whose names those of the change data feed would hide."""
    for field in schema:
        if field.name.lower() in _FEED_NAMES:
            raise InvalidArgumentError(
                f"a table with a change data feed cannot have a column {field.name}, which the feed adds itself",
                hint="rename the column, or leave delta.enableChangeDataFeed out",
                column=field.name,
            )


def _check_partitions(before: Snapshot, metadata: Metadata, schema: Struct, *, enables_v1: bool) -> None:
    """Refuse other partition columns in a table that is compatible with Iceberg."""
    old = before.partition_fields
    if enables_v1 and old and len(before.live.table):
        raise InvalidArgumentError(
            f"{V1} cannot be enabled on a partitioned table, whose files lack the partition columns",
            hint="enable version 2, or create the table with the property",
        )
    known = {field.name: field for field in schema}
    new = [known[name] for name in metadata.partition_columns if name in known]
    same = len(old) == len(new) and all(
        one.name == other.name or one.physical_name == other.physical_name for one, other in zip(old, new, strict=True)
    )
    if old and not same and is_compatible(before.active_features):
        raise InvalidArgumentError(
            "a table that is compatible with Iceberg keeps the names of its partition columns",
            hint="keep the partitioning, or create another table",
        )


def _check_identities(before: Mapping[str, IdentityColumn], after: Mapping[str, IdentityColumn]) -> None:
    for name, old in before.items():
        new = after.get(name, old)
        if (old.start, old.step, old.allow_explicit_insert) != (new.start, new.step, new.allow_explicit_insert):
            raise InvalidArgumentError(
                "the start and the step of an identity column, and whether values can be given, never change",
                column=name,
            )
