"""Evaluating comparisons of columns: each row of a batch yields true, false or null (unknown)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import EvaluationError, first_line
from deltaberg.expressions.compute.bound import Bound, BoundAnd, BoundComputed, BoundOr, BoundPredicate, next_numbers
from deltaberg.expressions.tree.tree import Literal
from deltaberg.kernels import plain_values as pv
from deltaberg.schema.types import Field

__all__ = ["ColumnReader", "among_doubles", "compare_values", "evaluate"]

#: Returns the array of a column for the rows of the batch.
ColumnReader = Callable[[tuple[Field, ...]], pa.Array]

_COMPARISONS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def evaluate(bound: Bound, column: ColumnReader, rows: int) -> pa.BooleanArray:
    """Return a boolean for each row, or null if the filter is unknown.

    Raises
    ------
    EvaluationError
        If a condition cannot be computed for a row.
    """
    if isinstance(bound, Literal):
        return pv.array([bound.value], pa.bool_()).take(pa.nulls(rows, pa.int8()).fill_null(pv.ZERO))
    if isinstance(bound, BoundPredicate):
        return _predicate(bound, column)
    if isinstance(bound, BoundComputed):
        arrays = [column((child,)) for child in bound.columns] or [pa.nulls(rows)]
        names = [child.name for child in bound.columns] or [""]
        return bound.test.evaluate(pa.RecordBatch.from_arrays(arrays, names))
    if isinstance(bound, BoundOr) and bound.is_long:
        return _alternatives(bound, column, rows)
    return _joined(bound, column, rows)


def _joined(bound: BoundAnd | BoundOr, column: ColumnReader, rows: int) -> pa.BooleanArray:
    join = pc.and_kleene if isinstance(bound, BoundAnd) else pc.or_kleene
    first, *others = (evaluate(part, column, rows) for part in bound.parts)
    for other in others:
        first = join(first, other)
    return first


def _alternatives(bound: BoundOr, column: ColumnReader, rows: int) -> pa.BooleanArray:
    """Evaluate many parts of OR on the rows alone that fulfil what all of them demand. Unknown is false here."""
    possible = evaluate(bound.outline, column, rows).fill_null(pv.FALSE)
    some = pc.sum(possible).as_py() or 0
    if not some:
        return possible

    def chosen(path: tuple[Field, ...]) -> pa.Array:
        return column(path).filter(possible)

    if bound.rows is None:
        matching = _joined(bound, chosen, some)
    else:
        paths, sets, matching_numbers = bound.rows
        numbers = pa.repeat(pv.scalar(0, pa.int64()), some)
        for path, distinct in zip(paths, sets, strict=True):
            numbers = next_numbers(numbers, chosen(path), distinct)
        matching = pc.is_in(numbers, value_set=matching_numbers)
    return pc.replace_with_mask(possible, possible, matching.fill_null(pv.FALSE))


def _predicate(bound: BoundPredicate, column: ColumnReader) -> pa.BooleanArray:
    # What fails while columns are read is the fault of a file; what fails behind that is the fault of the condition.
    values = column(bound.path)
    other = None if bound.other is None else column(bound.other)
    try:
        return _tested(bound, values, other)
    except pa.ArrowException as error:
        message = f"the condition cannot be evaluated: {first_line(error)}"
        raise EvaluationError(message, expression=str(bound)) from None


def _tested(bound: BoundPredicate, values: pa.Array, other: pa.Array | None) -> pa.BooleanArray:
    operator = bound.operator
    if operator == "is null":
        return pc.is_null(values)
    if operator == "is not null":
        return pc.is_valid(values)
    if bound.is_floating:
        values = values.cast(pa.float64())
    if operator in ("is nan", "is not nan"):
        nan = pc.is_nan(values).fill_null(pv.FALSE)
        return nan if operator == "is nan" else pc.invert(nan)
    if other is not None:
        other = other.cast(pa.float64()) if bound.is_floating else other
        return compare_values(operator, values, other, bound.is_floating)
    if operator in ("in", "not in"):
        return _membership(bound, values)
    literal = bound.values[0]
    if operator in ("starts with", "not starts with"):
        matches = pc.starts_with(values, literal.as_py())
        return matches if operator == "starts with" else pc.invert(matches)
    if operator in ("like", "not like"):
        from deltaberg.expressions.tree.like import ESCAPE, like_kernel

        matches = like_kernel(literal.as_py(), ESCAPE)(values)
        return matches if operator == "like" else pc.invert(matches)
    return compare_values(operator, values, literal, bound.is_floating)


def compare_values(
    operator: str, left: pa.Array | pa.Scalar, right: pa.Array | pa.Scalar, floating: bool
) -> pa.BooleanArray:
    """Compare values. NaN equals NaN, and is greater than every other number."""
    if operator in ("<=>", "is distinct from"):
        equal = pc.fill_null(compare_values("=", left, right, floating), fill_value=pv.FALSE)
        same = pc.or_(equal, pc.and_(pc.is_null(left), pc.is_null(right)))
        return same if operator == "<=>" else pc.invert(same)
    plain = _COMPARISONS[operator](left, right)
    if not floating:
        return plain
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    if operator in ("=", "<=", ">="):
        both = pc.and_(left_nan, right_nan)
        plain = pc.or_(plain, both)
    if operator == "!=":
        return pc.and_(plain, pc.invert(pc.and_(left_nan, right_nan)))
    if operator in (">", ">="):
        return pc.or_(plain, pc.and_(left_nan, pc.invert(right_nan)))
    if operator in ("<", "<="):
        return pc.or_(plain, pc.and_(pc.invert(left_nan), right_nan))
    return plain


def among_doubles(values: pa.Array, items: pa.Array) -> pa.BooleanArray:
    """Return whether floating point numbers are among others. NaN equals NaN, and -0.0 equals 0.0."""
    # The look-up compares bits, but for those of NaN. The sum of -0.0 and 0.0 is 0.0.
    return pc.is_in(pc.add(values, pv.scalar(0.0, values.type)), value_set=pc.add(items, pv.scalar(0.0, items.type)))


def _membership(bound: BoundPredicate, values: pa.Array) -> pa.BooleanArray:
    if bound.is_floating:
        found = among_doubles(values, bound.literals)
    else:
        found = pc.is_in(values, value_set=bound.literals.cast(values.type))
    found = pc.if_else(pc.is_valid(values), found, pv.scalar(None, pa.bool_()))
    return found if bound.operator == "in" else pc.invert(found)
