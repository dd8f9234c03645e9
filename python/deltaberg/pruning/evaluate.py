"""Three-valued evaluation of a filter on statistics.

The *inclusive* projection asks whether any row of a file can match. If not, the file need not be read. The *strict*
projection asks whether every row must match. If so, the file's rows need not be filtered. An unknown statistic never
skips a file and never proves a match.

The same evaluator serves partition values and the statistics of data files and row groups, so that the rules for nulls,
NaN and inexact bounds exist only once.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import EvaluationError
from deltaberg.expressions.compute.bound import Bound, BoundAnd, BoundComputed, BoundOr, BoundPredicate, bound_paths
from deltaberg.expressions.compute.evaluate import evaluate
from deltaberg.expressions.tree.tree import Literal
from deltaberg.kernels import plain_values as pv
from deltaberg.pruning.stats import ColumnStats, FileStats, stats_key
from deltaberg.schema.rows.text_lengths import pad_texts
from deltaberg.schema.types import Field

__all__ = ["keep_rows", "may_match", "must_match"]


def may_match(bound: Bound, stats: FileStats) -> pa.BooleanArray:
    """Return a mask of the files in which a row can match (the inclusive projection)."""
    if isinstance(bound, Literal):
        return stats.all(bound.value)
    if isinstance(bound, BoundComputed):
        return _computed(bound, stats, True)
    if _has_values(bound, stats):
        return _by_value(bound, stats)
    if isinstance(bound, BoundPredicate):
        return _may(bound, stats)
    if isinstance(bound, BoundOr) and bound.is_long:
        return may_match(bound.outline, stats)
    return _join(bound, [may_match(part, stats) for part in bound.parts])


def must_match(bound: Bound, stats: FileStats) -> pa.BooleanArray:
    """Return a mask of the files in which every row must match (the strict projection)."""
    if isinstance(bound, Literal):
        return stats.all(bound.value)
    if isinstance(bound, BoundComputed):
        return _computed(bound, stats, False)
    if _has_values(bound, stats):
        return _by_value(bound, stats)
    if isinstance(bound, BoundPredicate):
        return _must(bound, stats)
    if isinstance(bound, BoundOr) and bound.is_long:
        # To prove it takes each part by itself. The rows of the file tell faster.
        return stats.all(False)
    return _join(bound, [must_match(part, stats) for part in bound.parts])


def keep_rows(table: pa.Table, mask: pa.BooleanArray) -> pa.Table:
    """Keep the rows for which a mask without nulls is true.

    Usually all rows or none are kept, and filtering a table of many columns is slow even if it has few rows.
    """
    kept = pc.sum(mask).as_py() or 0
    return table if kept == len(table) else table.filter(mask) if kept else table.slice(0, 0)


def _join(bound: BoundAnd | BoundOr, parts: list[pa.BooleanArray]) -> pa.BooleanArray:
    join = pc.and_ if isinstance(bound, BoundAnd) else pc.or_
    joined, *others = parts
    for other in others:
        joined = join(joined, other)
    return joined


def _computed(bound: BoundComputed, stats: FileStats, inclusive: bool) -> pa.BooleanArray:
    """Compute a condition where the values of its columns are known. Elsewhere, only what it implies is known."""
    if _has_values(bound, stats):
        try:
            return _by_value(bound, stats)
        except EvaluationError:
            # A file may have no rows left. If it has, the first one says so.
            pass
    return may_match(bound.implied, stats) if inclusive else stats.all(False)


def _has_values(bound: Bound, stats: FileStats) -> bool:
    return all(stats_key(path) in stats.values for path in bound_paths(bound))


def _by_value(bound: Bound, stats: FileStats) -> pa.BooleanArray:
    """Evaluate a filter on columns whose value in each file is known. As on rows, unknown is not true."""

    def column(path: tuple[Field, ...]) -> pa.Array:
        return stats.values[stats_key(path)]

    return evaluate(bound, column, stats.files).fill_null(pv.FALSE)


def _bounds(bound: BoundPredicate, stats: FileStats) -> tuple[pa.Array | None, pa.Array | None]:
    """Return the bounds of the predicate's column, as double if it is floating point.

    Bounds that contradict each other are ignored.
    """
    column = stats.columns.get(stats_key(bound.path), ColumnStats())
    lower, upper = column.lower, column.upper
    length = bound.path[-1].length
    if upper is not None and length is not None and length.is_padded:
        # The bounds are those of texts as they are stored. Characters below a space sort before the padding.
        padded = pad_texts(pc.replace_substring_regex(upper, "[\\x00-\\x1f](?s:.)*", ""), length)
        upper = pc.max_element_wise(upper, padded)
    if bound.is_floating:
        lower = None if lower is None else lower.cast(pa.float64())
        upper = None if upper is None else upper.cast(pa.float64())
    if lower is None or upper is None:
        return lower, upper
    inverted = pc.greater(lower, upper).fill_null(pv.FALSE)
    if not pc.any(inverted, min_count=0).as_py():
        return lower, upper
    nothing = pv.scalar(None, lower.type)
    return pc.if_else(inverted, nothing, lower), pc.if_else(inverted, nothing, upper)


def _may(bound: BoundPredicate, stats: FileStats) -> pa.BooleanArray:
    key = stats_key(bound.path)
    operator = bound.operator
    if bound.other is not None:
        nulls_match = operator in ("<=>", "is distinct from")
        return (
            stats.all(True)
            if nulls_match
            else pc.invert(pc.or_(stats.all_null(key), stats.all_null(stats_key(bound.other))))
        )
    if operator == "is null":
        return pc.invert(stats.no_null(key))
    if operator == "is distinct from":
        return pc.invert(pc.and_(_only(bound, stats), stats.no_null(key)))
    if operator == "is not nan":
        return pc.invert(pc.and_(stats.no_number(key), stats.no_null(key)))
    # No other predicate is true for a null.
    possible = pc.invert(stats.all_null(key))
    if operator == "is nan":
        return pc.and_not(possible, stats.no_nan(key))
    if operator in ("is not null", "like", "not like"):
        return possible
    if operator in ("=", "<=>", "in", "<", "<=") and not bound.has_nan:
        possible = pc.and_not(possible, stats.no_number(key))
    return pc.and_(possible, _within(bound, stats))


def _within(bound: BoundPredicate, stats: FileStats) -> pa.BooleanArray:
    """Return a mask of the files whose bounds allow a match."""
    lower, upper = _bounds(bound, stats)
    operator = bound.operator
    if operator == "in":
        return _any_within(bound, stats)
    value = bound.values[0]
    if operator in ("=", "<=>"):
        return pc.and_(_unless(pc.greater, lower, value, stats), _unless(pc.less, upper, value, stats))
    if operator in ("<", "<="):
        if bound.is_floating and _is_nan(value):
            return stats.all(True)
        return _unless(pc.greater_equal if operator == "<" else pc.greater, lower, value, stats)
    if operator in (">", ">="):
        below = _unless(pc.less_equal if operator == ">" else pc.less, upper, value, stats)
        if not bound.is_floating:
            return below
        # NaN is greater than every number, and bounds do not include it.
        below = stats.all(False) if _is_nan(value) else below
        return pc.or_(below, pc.invert(stats.no_nan(stats_key(bound.path))))
    if operator == "starts with":
        return _may_start_with(lower, upper, value.as_py(), stats)
    if operator == "not starts with":
        return pc.invert(_both_start_with(lower, upper, value.as_py(), stats))
    return pc.invert(_only(bound, stats))


def _unless(refutes: pc.Function, limit: pa.Array | None, value: pa.Scalar, stats: FileStats) -> pa.BooleanArray:
    """Return a mask of the files for which no known limit rules out a match."""
    if limit is None or _is_nan(value):
        return stats.all(True)
    return pc.invert(refutes(limit, value).fill_null(pv.FALSE))


def _is_nan(value: pa.Scalar) -> bool:
    return bool(value.type == pa.float64() and value.as_py() != value.as_py())


def _any_within(bound: BoundPredicate, stats: FileStats) -> pa.BooleanArray:
    """Return a mask of the files whose bounds allow one of the predicate's values.

    The bounds and the values are sorted together, so the cost hardly depends on the number of values.
    """
    if bound.has_nan:
        return stats.all(True)
    lower, upper = (None if limit is None else _without_nan(limit) for limit in _bounds(bound, stats))
    values = bound.sorted_literals
    # The least value that is not below the lower bound, or null if there is none.
    nearest = pa.repeat(values[0], stats.files) if lower is None else values.take(_number_below(values, lower))
    possible = nearest.is_valid()
    return possible if upper is None else pc.and_(possible, pc.greater_equal(upper, nearest).fill_null(pv.TRUE))


def _number_below(values: pa.Array, limits: pa.Array) -> pa.Int64Array:
    """Return, for each limit, how many of the sorted values are below it, or null if all are. None is below a null."""
    # The sort is stable, so a limit precedes the values that are equal to it.
    order = pc.array_sort_indices(pa.concat_arrays([limits.cast(values.type), values]))
    is_limit = pc.less(order, pv.scalar(len(limits)))
    below = pc.cumulative_sum(pc.invert(is_limit).cast(pa.int64())).filter(is_limit)
    # Inverting the permutation that sorts the limits restores their original order.
    below = below.take(pc.array_sort_indices(order.filter(is_limit)))
    below = pc.if_else(limits.is_valid(), below, pv.ZERO)
    return pc.if_else(pc.less(below, pv.scalar(len(values))), below, pv.scalar(None, pa.int64()))


def _without_nan(limit: pa.Array) -> pa.Array:
    """Replace limits that are NaN, which mean nothing, by null."""
    if not pt.is_floating(limit.type):
        return limit
    return pc.if_else(pc.is_nan(limit), pv.scalar(None, limit.type), limit)


def _only(bound: BoundPredicate, stats: FileStats) -> pa.BooleanArray:
    """Return a mask of the files in which every non-null value is known to be among the predicate's values.

    Nothing is known about a floating point column, which may hold NaN in spite of its bounds.
    """
    lower, upper = _bounds(bound, stats)
    if lower is None or upper is None or bound.is_floating:
        return stats.all(False)
    values = bound.literals
    return pc.and_(pc.equal(lower, upper).fill_null(pv.FALSE), pc.is_in(lower.cast(values.type), value_set=values))


def _may_start_with(lower: pa.Array | None, upper: pa.Array | None, prefix: str, stats: FileStats) -> pa.BooleanArray:
    possible = stats.all(True)
    if lower is not None:
        above = pc.greater(pc.utf8_slice_codeunits(lower, 0, len(prefix)), pv.scalar(prefix))
        possible = pc.and_(possible, pc.invert(above.fill_null(pv.FALSE)))
    if upper is not None:
        below = pc.less(pc.utf8_slice_codeunits(upper, 0, len(prefix)), pv.scalar(prefix))
        possible = pc.and_(possible, pc.invert(below.fill_null(pv.FALSE)))
    return possible


def _both_start_with(lower: pa.Array | None, upper: pa.Array | None, prefix: str, stats: FileStats) -> pa.BooleanArray:
    if lower is None or upper is None:
        return stats.all(False)
    both = pc.and_(pc.starts_with(lower, prefix), pc.starts_with(upper, prefix))
    return both.fill_null(pv.FALSE)


def _must(bound: BoundPredicate, stats: FileStats) -> pa.BooleanArray:
    key = stats_key(bound.path)
    operator = bound.operator
    if operator == "is not nan":
        return stats.no_nan(key)
    if operator in ("is nan", "like", "not like") or bound.other is not None:
        return stats.all(False)
    if operator == "is null":
        return stats.all_null(key)
    if operator == "is distinct from":
        return pc.or_(stats.all_null(key), pc.and_(stats.no_null(key), _never(bound, stats)))
    if operator == "is not null":
        return stats.no_null(key)
    return pc.and_(stats.no_null(key), _always(bound, stats))


def _always(bound: BoundPredicate, stats: FileStats) -> pa.BooleanArray:
    """Return a mask of the files whose bounds prove the predicate for every non-null value."""
    lower, upper = _bounds(bound, stats)
    operator, value = bound.operator, bound.values[0]
    if operator in ("=", "<=>", "in"):
        return _only(bound, stats)
    if operator in ("!=", "not in"):
        return _never(bound, stats)
    if operator == "starts with":
        return _both_start_with(lower, upper, value.as_py(), stats)
    if operator == "not starts with":
        return pc.invert(_may_start_with(lower, upper, value.as_py(), stats))
    if _is_nan(value):
        return stats.all(False)
    if operator in ("<", "<="):
        # NaN is greater than every number, and bounds do not include it.
        if upper is None or bound.is_floating:
            return stats.all(False)
        return (pc.less if operator == "<" else pc.less_equal)(upper, value).fill_null(pv.FALSE)
    if lower is None:
        return stats.all(False)
    return (pc.greater if operator == ">" else pc.greater_equal)(lower, value).fill_null(pv.FALSE)


def _never(bound: BoundPredicate, stats: FileStats) -> pa.BooleanArray:
    """Return a mask of the files whose bounds prove that no value equals one of the predicate's values."""
    if bound.has_nan:
        return stats.all(False)
    return pc.invert(_any_within(bound, stats))
