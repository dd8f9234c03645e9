"""The rules of a table as its operations apply them, and the marks of identity columns that a commit records."""

from __future__ import annotations

import datetime as dt

from deltaberg.delta.features import supported_features
from deltaberg.delta.schema.enforce import TableRules, table_rules, with_marks
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import UnsupportedFeatureError

__all__ = ["record_marks", "rules_of"]


def rules_of(table: Snapshot, timezone: str, now: dt.datetime | None = None) -> TableRules:
    """Return the rules of a table for its rows; each operation takes one, since identity values count up in it.

    Parameters
    ----------
    timezone
        The zone of timestamps without one in expressions, which is the one of conditions and new values, too.
    now
        The time of functions such as ``current_timestamp``; the present by default.

    Raises
    ------
    UnsupportedFeatureError
        A rule cannot be evaluated; the message names it.
    """
    try:
        return table_rules(
            table.schema,
            table.metadata.configuration,
            supported_features(table.protocol),
            timezone=timezone,
            now=now,
        )
    except UnsupportedFeatureError as error:
        raise error.with_context(table=str(table.log.root), version=table.version) from None


def record_marks(transaction: Transaction, rules: TableRules) -> None:
    """Have a transaction record the last values that were generated for identity columns.

    The metadata changes with them, so that of two commits with generated values one is refused.
    """
    marks = rules.marks()
    if marks:
        metadata = transaction.snapshot.metadata
        text = with_marks(metadata.schema_string or "", marks)
        transaction.set_metadata(metadata.with_members({"schemaString": text}))
