"""Scalars of other libraries as values of Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["arrow_scalar", "python_value"]


def arrow_scalar(value: Any) -> Any:
    """Return a scalar of numpy as one of Arrow, and anything else as it is."""
    shape = getattr(value, "shape", None)
    # A Column of Spark has every attribute, and to compare one with anything gives another Column.
    if not hasattr(value, "dtype") or not isinstance(shape, tuple) or shape:
        return value
    try:
        # Arrow takes days only from arrays.
        return pa.array(value.reshape(1))[0]
    except (pa.ArrowException, AttributeError, TypeError, ValueError):
        return value


def python_value(value: Any) -> Any:
    """Return a scalar of Arrow or numpy as a value of Python, and anything else as it is.

    Timestamps in nanoseconds become text, because Python's own type has too few digits, and so do dates before the
    year 1 and after the year 9999.

    Examples
    --------
    >>> python_value(pa.scalar(1.5)), python_value([1])
    (1.5, [1])
    """
    value = arrow_scalar(value)
    if isinstance(value, pa.TimestampScalar) and value.type.unit == "ns":
        text = str(value.cast(pa.timestamp("ns")).cast(pa.string()))
        return text if value.type.tz is None else f"{text}Z"
    if not isinstance(value, pa.Scalar):
        return value
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return str(value.cast(pa.string()))
