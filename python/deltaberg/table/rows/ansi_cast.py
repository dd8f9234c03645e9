"""Values that do not fit a column as they are, converted by Spark's ANSI cast."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import EvaluationError, ExpressionError, SchemaError, UnsupportedExpressionError
from deltaberg.schema.from_arrow import table_schema
from deltaberg.schema.rows.conform import Conformer, ConformOptions
from deltaberg.schema.types import DataType, shown_type

__all__ = ["ansi_cast"]

_ZONED = ("timestamp", "timestamp_ns")
_OF_A_CLOCK = ("timestamp_ntz", "timestamp_ntz_ns", "date", "string")


def ansi_cast(source_type: pa.DataType, want: DataType, timezone: str | None) -> Callable[[pa.Array], pa.Array] | None:
    """Return what casts values to the type of a column; None if Spark has no such cast, or none that we have.

    What Spark's cast refuses in ANSI mode raises: a number that is too great, or a text that is no number.

    Raises
    ------
    SchemaError
        The cast needs a zone.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> ansi_cast(pa.string(), Primitive("integer"), None)(pa.array([" 7 "])).to_pylist()
    [7]
    """
    from deltaberg.expressions.bind.bind import bind_value
    from deltaberg.expressions.build.column import col

    is_instant = pt.is_timestamp(source_type) and source_type.tz is not None
    is_of_a_clock = not is_instant and (
        pt.is_temporal(source_type) or pt.is_string(source_type) or pt.is_large_string(source_type)
    )
    between_zones = (is_instant and str(want) in _OF_A_CLOCK) or (is_of_a_clock and str(want) in _ZONED)
    if between_zones and timezone is None:
        raise SchemaError(
            f"{source_type} cannot be written to a column of the type {shown_type(want)}",
            hint="pass ⟪timezone=⟫ to say in which zone these timestamps are",
        )
    try:
        columns = table_schema(pa.schema([("value", source_type)]))
        bound = bind_value(col("value"), columns, target=want, timezone=timezone or "UTC")
    except (ExpressionError, SchemaError, UnsupportedExpressionError):
        return None
    given = Conformer(pa.schema([("value", source_type)]), columns, ConformOptions(allow_truncation=True))

    def convert(values: pa.Array) -> pa.Array:
        rows = given.apply(pa.record_batch([values], ["value"]))
        try:
            return bound.evaluate(rows)
        except EvaluationError as error:
            raise SchemaError(error.message) from error

    return convert
