"""The rules of a table as its operations apply them, and the marks of identity columns that a commit records."""

from __future__ import annotations

import datetime as dt

import pyarrow.types as pt

from deltaberg.delta.features import supported_features
from deltaberg.delta.schema.enforce import table_rules, with_marks
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import UnsupportedFeatureError
from deltaberg.schema.arrow import arrow_type
from deltaberg.table.rows.table_rules import TableRules

__all__ = ["empty_as_null", "record_marks", "rules_of"]


def empty_as_null(table: Snapshot) -> frozenset[str]:
    """Return the names of the partition columns whose empty values are recorded as null.

    Delta protocol, "Partition Value Serialization": an empty text stands for null, whatever the type.
    """
    names = {field.name: arrow_type(field.type) for field in table.partition_fields}
    return frozenset(name for name, kind in names.items() if pt.is_string(kind) or pt.is_binary(kind))


def rules_of(table: Snapshot, timezone: str, now: dt.datetime | None = None) -> TableRules:
    """Return the rules of a table for its rows; each operation takes one, since identity values count up in it.

    Parameters
    ----------
    timezone
        The zone of timestamps without one in expressions, as in conditions and new values.
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
            empty_as_null=empty_as_null(table),
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
