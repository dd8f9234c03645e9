"""Loops over values, for what Arrow cannot compute: remainders of doubles, long decimals, text in many forms.

Whatever can repeat is computed once for each distinct value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.tree.nodes import MOST_BYTES, MOST_OF_ONE, TOO_LONG, Datum, Outcome, failed_where, too_large
from deltaberg.kernels import plain_values as pv

__all__ = ["each_distinct", "each_row"]


def each_row(function: Callable[..., Any], kind: pa.DataType, message: str, *values: Datum) -> Outcome:
    """Return the results of a function of each row, null where a value is null.

    Parameters
    ----------
    function
        Returns what pyarrow converts to the type. For a row that fails it raises ArithmeticError or ValueError. A row
        also fails if its text would be too long.
    message
        Why a row fails; empty for a function that can only make texts that are too long.
    """
    rows = next(len(value) for value in values if isinstance(value, pa.Array))
    columns = [[value.as_py()] * rows if isinstance(value, pa.Scalar) else value.to_pylist() for value in values]
    results: list[Any] = []
    failed: list[bool] = []
    size = 0
    for row in zip(*columns, strict=True):
        result, wrong = None, False
        if None not in row:
            try:
                result = function(*row)
            except (ArithmeticError, ValueError):
                wrong = True
            if isinstance(result, (str, bytes)):
                if len(result) > MOST_OF_ONE:
                    result, wrong = None, True
                size += len(result or "")
                if size > MOST_BYTES:
                    raise too_large()
        results.append(result)
        failed.append(wrong)
    try:
        array = pv.array(results, kind)
    except (pa.ArrowInvalid, OverflowError):
        fitting = [_fits(result, kind) for result in results]
        results = [result if fits else None for result, fits in zip(results, fitting, strict=True)]
        failed = [wrong or not fits for wrong, fits in zip(failed, fitting, strict=True)]
        array = pv.array(results, kind)
    return failed_where(array, pv.array(failed, pa.bool_()), message or TOO_LONG) if any(failed) else Outcome(array)


def _fits(result: Any, kind: pa.DataType) -> bool:
    try:
        pv.scalar(result, kind)
    except (pa.ArrowInvalid, OverflowError):
        return False
    return True


def each_distinct(function: Callable[[Any], Any], kind: pa.DataType, message: str, values: pa.Array) -> Outcome:
    """Return the results of a function of one argument, which is called once for each distinct value."""
    if len(values) == 1:
        return each_row(function, kind, message, values)
    coded = values.dictionary_encode()
    found = each_row(function, kind, message, coded.dictionary)
    results = found.values.take(coded.indices)
    if not found.failures:
        return Outcome(results)
    return failed_where(results, pc.take(found.failures[0].rows, coded.indices), found.failures[0].message)
