"""The SQL text of a condition or value that is given as text or as a Column."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.spark.columns.build import OfFrame, SqlText, of_no_frame
from deltaberg.spark.columns.classic import classic_value
from deltaberg.spark.columns.connect import connect_value
from deltaberg.spark.session import SessionFacts

__all__ = ["column_text", "is_column"]


def is_column(given: object) -> bool:
    """Return whether an object is a Column of PySpark, of a classic session or of Spark Connect."""
    return isinstance(given, Column) or _is_remote(given)


def _is_remote(given: object) -> bool:
    # PySpark 3.5 has no common class of both.
    kind = type(given)
    return kind.__name__ == "Column" and kind.__module__.startswith("pyspark.sql.connect.")


def column_text(expression: Any, facts: SessionFacts, of_frame: OfFrame = of_no_frame) -> str:
    """Return a condition or value as SQL text.

    Parameters
    ----------
    expression
        SQL text, or a Column.
    facts
        The session that the Column belongs to.
    of_frame
        Says what columns of a certain DataFrame stand for, such as ``frame["id"]``; by default they are refused.

    Raises
    ------
    InvalidArgumentError
        It is neither.
    UnsupportedExpressionError
        A part of the Column has no exact SQL text, such as a window, an aggregate of distinct values or a function of
        Python.
    """
    if isinstance(expression, str):
        return expression
    if not is_column(expression):
        raise InvalidArgumentError(
            f"{shown_value(expression)} is neither SQL text nor a Column",
            hint='pass "id > 5" or col("id") > 5, and literals by lit()',
        )
    if _is_remote(expression):
        # The session of a Column that was made without a server has no client, nor do plain Columns need one.
        client: Any = getattr(facts.session, "client", None) if facts.is_remote else None
        found = connect_value(expression.to_plan(client), of_frame)
    else:
        found = classic_value(expression, of_frame)
    return found.text if isinstance(found, SqlText) else str(found)
