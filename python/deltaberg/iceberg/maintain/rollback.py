"""Restore of an Iceberg table, which is a rollback: its branch is set back to a snapshot that led to its newest one."""

from __future__ import annotations

from collections.abc import Callable

from deltaberg.errors import InvalidArgumentError, VersionNotFoundError
from deltaberg.expressions.time.instants import format_instant
from deltaberg.iceberg.alter.alter import Alteration
from deltaberg.iceberg.refs.references import rollback_target
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.table.maintain.restored import RestoreRequest, RestoreResult

__all__ = ["roll_back"]


def roll_back(
    begin: Callable[[], Transaction], asked: RestoreRequest, alter: Callable[[Transaction], Alteration]
) -> RestoreResult:
    """Set a branch back.

    Parameters
    ----------
    begin
        What begins a transaction on the newest state.
    asked
        What is asked for.
    alter
        What begins changes of the table alone.

    Raises
    ------
    VersionNotFoundError
        The table has no such snapshot, or none that is as old.
    InvalidArgumentError
        The snapshot did not lead to the newest one, or an argument is for Delta tables.
    """
    with begin() as transaction:
        for name in ("ignore_missing_files", "unsafe_expired"):
            if getattr(asked, name):
                raise InvalidArgumentError(
                    f"{name} is for Delta tables: Iceberg tables keep the files of a snapshot as long as the snapshot",
                    hint="leave it out",
                )
        at = asked.instant
        if at is not None:
            _check_passed(transaction, at)
        target = rollback_target(
            transaction.metadata,
            transaction.branch,
            snapshot_id=asked.target if at is None else None,
            before=None if at is None else at + 1,
        ).snapshot_id
        if asked.dry_run:
            transaction.abort()
            return RestoreResult(target, dry_run=True)
        return RestoreResult(target, alter(transaction).rollback_to_snapshot(target).commit())


def _check_passed(transaction: Transaction, instant: int) -> None:
    """Refuse a time after the last snapshot: which one will have been current then is not known before it has passed.

    Parameters
    ----------
    instant
        The time in milliseconds since 1970.
    """
    metadata, current = transaction.metadata, transaction.planned
    times = [entry.timestamp_ms for entry in metadata.snapshot_log] if transaction.is_on_main else []
    last = max(times + ([] if current is None else [current.timestamp_ms]), default=instant)
    if instant > last:
        raise VersionNotFoundError(
            f"{format_instant(instant)} is after the last snapshot",
            hint=f"the last one was committed at {format_instant(last)}",
        )
