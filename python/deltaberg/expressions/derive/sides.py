"""Columns that are compared behind casts, and the values of theirs that the casts bring to a literal."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal as PyDecimal

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.compute.evaluate import compare_values
from deltaberg.expressions.tree.nodes import CallNode, ColumnNode, Frame, Node, Outcome, spread, then
from deltaberg.expressions.tree.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    MICROS_OF,
    NTZ,
    STRING,
    TIMESTAMP,
    decimal_of,
    is_floating,
    is_moment,
    keeps_numbers,
)
from deltaberg.kernels import plain_values as pv
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Field

__all__ = ["Side", "exact_column", "side_of"]

#: So many values are converted together, when one is looked for.
_TOGETHER = 32


@dataclass(frozen=True)
class Side:
    """A column that is compared, behind the casts that convert it."""

    column: ColumnNode
    casts: tuple[CallNode, ...]

    @property
    def path(self) -> tuple[Field, ...]:
        """The fields that lead to the column."""
        return self.column.path

    @property
    def is_plain(self) -> bool:
        """Whether values are compared as they are, or as doubles, which the comparison makes of floats itself."""
        return not self.casts or (is_floating(self.column.type) and {cast.type for cast in self.casts} == {DOUBLE})

    @property
    def is_exact(self) -> bool:
        """Whether the casts keep every value, and are between whole numbers and decimals."""
        return all(map(keeps_numbers, self._kinds, self._kinds[1:]))

    @property
    def keeps_order(self) -> bool:
        """Whether the casts make no value less than one that it was not less than."""
        steps = zip(self._kinds, self.casts, strict=False)
        return all(_keeps_order(given, cast.type, cast.is_steady) for given, cast in steps)

    @property
    def _kinds(self) -> list[DataType]:
        return [self.column.type, *(cast.type for cast in self.casts)]

    def converted(self, values: pa.Array) -> Outcome:
        """Return values of the column as they are compared, and which of them fail."""
        found = Outcome(values)
        for cast in self.casts:
            found = then(Outcome(spread(found.values, len(values)), found.failures), cast.kernel)
        return Outcome(spread(found.values, len(values)), found.failures)

    def back(self, values: pa.Array) -> pa.Array:
        """Return values of the type that is compared as those of the column, without those that it does not have."""
        # Only columns that are converted need casts.
        from deltaberg.expressions.cast.casts import cast_node, forgiving_cast

        column = ColumnNode(self.casts[-1].type, 0, (), (0,))
        back = forgiving_cast(cast_node(column, self.column.type, dt.timezone.utc), column, "try_cast")
        return back.evaluate(Frame(pa.RecordBatch.from_arrays([values], ["value"]))).values.drop_null()

    def _near(self, literal: pa.Scalar) -> list[int]:
        """Return the number of a value of the column near a literal, if there is one."""
        from deltaberg.schema.rows.ordinals import ordinals_of

        number = decimal_of(self.column.type)
        if number is None or not isinstance(literal, pa.DoubleScalar):
            return ordinals_of(self.back(pv.array([literal], literal.type)))
        double = literal.as_py()
        return [round(PyDecimal(repr(double)).scaleb(number.scale))] if math.isfinite(double) else []

    def first(self, operator: str, literal: pa.Scalar) -> int:
        """Return the number of the first value for which it is not true that it is less, or at most, a literal."""
        from deltaberg.schema.rows.ordinals import limits, of_ordinals

        kind, target = arrow_type(self.column.type), self.casts[-1].type
        low, high = limits(kind)
        end, near = high + 1, self._near(literal)
        while low < end:
            step = max((end - low) // _TOGETHER, 1)
            points = range(low, end, step)[:_TOGETHER]
            for number in near:
                points = range(max(low, number - 1), min(end, number + 2)) or points
            near = []
            found = self.converted(of_ordinals(points, kind))
            less = compare_values(operator, found.values, literal, is_floating(target))
            for failure in found.failures:
                # Only the ends of types are beyond what they are converted to.
                less = pc.if_else(failure.rows, pa.array([number < 0 for number in points]), less)
            count = pc.sum(less).as_py() or 0
            end = points[count] if count < len(points) else end
            low = points[count - 1] + 1 if count else low
        return low


def _keeps_order(source: DataType, to: DataType, is_steady: bool) -> bool:
    narrow = decimal_of(source)
    if narrow is not None:
        return to in (FLOAT, DOUBLE) or keeps_numbers(source, to)
    if MICROS_OF.get(to) == source:
        return True
    # Digits below the microsecond are lost, or fail.
    is_lossless = to != DATE and (source not in MICROS_OF or to in MICROS_OF)
    return (source == DATE or (is_steady and is_lossless)) and is_moment(to)


def side_of(node: Node, relation: int) -> Side | None:
    """Return the column of a relation behind casts; None for other nodes."""
    casts: list[CallNode] = []
    while isinstance(node, CallNode) and node.name == "cast":
        casts.insert(0, node)
        node = node.arguments[0]
    return Side(node, tuple(casts)) if isinstance(node, ColumnNode) and node.relation == relation else None


def exact_column(node: Node, relation: int) -> ColumnNode | None:
    """Return the column behind casts that keep every value and the order, so that it can be compared with literals."""
    side = side_of(node, relation)
    known = (BOOLEAN, FLOAT, DOUBLE, STRING, DATE, NTZ, TIMESTAMP)
    if side is None or not (decimal_of(side.column.type) or side.column.type in known):
        return None
    return side.column if side.is_plain or side.keeps_order else None
