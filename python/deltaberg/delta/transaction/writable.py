"""Which tables can be written: features that are obeyed, and rules that a change must keep.

Delta protocol, "Table Features" and the writer requirements of its sections.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltaberg.delta.actions.table_actions import Protocol
from deltaberg.delta.features import check_protocol, check_written, feature_violations, supported_features
from deltaberg.delta.schema.writer_rules import (
    check_constraints,
    column_defaults,
    column_invariants,
    generation_expressions,
    identity_columns,
)
from deltaberg.delta.snapshot.table_configuration import TableConfiguration
from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError

__all__ = ["check_protocol_change", "check_writable"]


def check_writable(table: TableConfiguration) -> None:
    """Refuse a table with a feature or a rule of columns that this library does not obey when it writes.

    Raises
    ------
    UnsupportedFeatureError
        The message names the features, or the rules.
    """
    try:
        check_written(table.protocol)
        _check_rules(table)
    except UnsupportedFeatureError as error:
        raise error.with_context(table=str(table.log.root), version=table.version) from None


def _check_rules(table: TableConfiguration) -> None:
    """Refuse rules that would have to be enforced for every row."""
    schema, supported = table.schema, supported_features(table.protocol)
    rules: dict[str, Mapping[str, object]] = {
        "checkConstraints": check_constraints(table.metadata.configuration),
        "invariants": column_invariants(schema),
        "generatedColumns": generation_expressions(schema),
        "allowColumnDefaults": column_defaults(schema),
        "identityColumns": identity_columns(schema),
    }
    for feature, found in rules.items():
        if found and feature in supported:
            raise UnsupportedFeatureError(
                f"the table has {feature}, which are not enforced yet: {', '.join(sorted(found))}",
                hint="write to it with an engine that enforces them",
                feature=feature,
            )


def check_protocol_change(before: Protocol, after: Protocol) -> None:
    """Refuse a protocol that takes back what another one demands, or that contradicts itself.

    Raises
    ------
    InvalidArgumentError
        A version is lower, a feature is missing, or a feature is in the wrong list.
    CorruptLogError, UnsupportedFeatureError
        The new protocol is not valid, or not supported.
    """
    check_protocol(after)
    violations = feature_violations(after)
    if violations:
        raise InvalidArgumentError(f"the new protocol is not valid: {'; '.join(violations)}")
    if after.min_reader_version < before.min_reader_version or after.min_writer_version < before.min_writer_version:
        raise InvalidArgumentError(
            f"the protocol ({after.min_reader_version}, {after.min_writer_version}) is lower than the table's "
            f"({before.min_reader_version}, {before.min_writer_version})",
            hint="protocol versions only rise",
        )
    lost = sorted(supported_features(before) - supported_features(after))
    if lost:
        raise InvalidArgumentError(f"the new protocol lacks features of the table: {', '.join(lost)}")
