"""Which tables can be written: features that are obeyed, and rules that a change must keep.

Delta protocol, "Table Features" and the writer requirements of its sections.
"""

from __future__ import annotations

from deltaberg.delta.actions.table_actions import Protocol
from deltaberg.delta.features import check_protocol, check_written, feature_violations, supported_features
from deltaberg.delta.snapshot.table_configuration import TableConfiguration
from deltaberg.errors import ConstraintViolationError, InvalidArgumentError, UnsupportedFeatureError

__all__ = ["check_changeable", "check_protocol_change", "check_writable"]


def check_writable(table: TableConfiguration) -> None:
    """Refuse a table with a feature that this library does not obey when it writes.

    Raises
    ------
    UnsupportedFeatureError
        The message names the features.
    """
    try:
        check_written(table.protocol)
    except UnsupportedFeatureError as error:
        raise error.with_context(table=str(table.log.root), version=table.version) from None


def check_changeable(table: TableConfiguration, file: str | None = None) -> None:
    """Refuse to remove a file, or to change rows, of a table whose rows stay.

    Raises
    ------
    ConstraintViolationError
        The table is append-only.
    """
    if "appendOnly" in table.active_features:
        raise ConstraintViolationError(
            "the table only grows: delta.appendOnly is true", table=str(table.log.root), file=file
        )


def check_protocol_change(before: Protocol, after: Protocol, dropped: str | None = None) -> None:
    """Refuse a protocol that drops features or versions, or that contradicts itself.

    Parameters
    ----------
    dropped
        The feature that is dropped: the only one that may be missing. Then versions may be lower, too.

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
    lower = after.min_reader_version < before.min_reader_version or after.min_writer_version < before.min_writer_version
    if lower and dropped is None:
        raise InvalidArgumentError(
            f"the protocol ({after.min_reader_version}, {after.min_writer_version}) is lower than the table's "
            f"({before.min_reader_version}, {before.min_writer_version})",
            hint="protocol versions only rise",
        )
    lost = sorted(supported_features(before) - supported_features(after) - {dropped})
    if lost:
        raise InvalidArgumentError(f"the new protocol lacks features of the table: {', '.join(lost)}")
