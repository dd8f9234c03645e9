"""Bound values, evaluated on the columns of a batch.

Evaluation never stops at the first row that fails: each node returns its values and, apart from them, the rows that
failed. So CASE, AND and the like can forget failures of rows that Spark would not have evaluated, without a batch ever
being split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import TooLargeError
from deltaberg.kernels import plain_values as pv
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Field

__all__ = [
    "MOST_BYTES",
    "MOST_OF_ONE",
    "TOO_LONG",
    "CallNode",
    "ColumnNode",
    "Datum",
    "Failure",
    "Frame",
    "Kernel",
    "LazyNode",
    "ListNode",
    "LiteralNode",
    "MemberNode",
    "Node",
    "Outcome",
    "columns_of",
    "computed_once",
    "failed_where",
    "folded",
    "null_where_failed",
    "spread",
    "then",
    "too_large",
]

#: The most bytes of the texts of an Arrow array, and of one text that a function makes.
MOST_BYTES = (1 << 31) - 2
MOST_OF_ONE = 1 << 28
#: Why a text fails that would take more memory than one text may.
TOO_LONG = "a text is longer than 256 MiB"

#: The values of the rows: one each, or the same for all.
Datum: TypeAlias = "pa.Array | pa.Scalar"


@dataclass(frozen=True)
class Failure:
    """The rows that failed, without nulls, and why."""

    rows: pa.BooleanArray
    message: str

    def only(self, rows: pa.BooleanArray) -> Failure:
        """Return the failure of those rows alone for which the mask is true."""
        return Failure(pc.and_(self.rows, rows), self.message)


@dataclass(frozen=True)
class Outcome:
    """The values of a node, and the rows that failed. The value of a row that failed is arbitrary."""

    values: Datum
    failures: tuple[Failure, ...] = ()


#: Computes the values from those of the arguments, of which one is an array. It never raises for a value.
Kernel: TypeAlias = "Callable[..., Datum | Outcome]"


def failed_where(values: Datum, rows: pa.Array, message: str) -> Outcome:
    """Return values of which those rows failed for which the mask is true."""
    rows = rows.fill_null(pv.FALSE)
    return Outcome(values, (Failure(rows, message),) if pc.any(rows).as_py() else ())


def then(outcome: Outcome, kernel: Kernel) -> Outcome:
    """Return the results of a kernel of results, with the failures of both."""
    found = kernel(outcome.values)
    last = found if isinstance(found, Outcome) else Outcome(found)
    return Outcome(last.values, (*outcome.failures, *last.failures))


def null_where_failed(node: CallNode, name: str, keeps: tuple[Callable[[Datum], Datum], str] | None = None) -> CallNode:
    """Return a call that is null where its kernel fails. What its arguments fail at stays a failure.

    Parameters
    ----------
    keeps
        For the values of a cast, the failures that stay, and their message; by default none.
    """
    kernel = node.kernel

    def forgive(*values: Datum) -> Datum | Outcome:
        outcome = kernel(*values)
        if not isinstance(outcome, Outcome):
            return outcome
        results = outcome.values
        for failure in outcome.failures:
            results = pc.if_else(failure.rows, pv.scalar(None, results.type), results)
        if keeps is None or not outcome.failures:
            return results
        chosen, message = keeps
        stay = pc.fill_null(chosen(values[0]), fill_value=pv.FALSE)
        return Outcome(results, tuple(Failure(failure.only(stay).rows, message) for failure in outcome.failures))

    return replace(node, name=name, kernel=forgive)


def too_large() -> TooLargeError:
    """Return the error of results that no Arrow array holds."""
    return TooLargeError(
        "the results for the rows that are read together take more than 2 GiB", hint="pass a smaller ⟪batch_size⟫"
    )


def spread(values: Datum, rows: int) -> pa.Array:
    """Return values as an array of so many rows.

    Raises
    ------
    TooLargeError
        If no array holds them.
    """
    if not isinstance(values, pa.Scalar):
        return values
    is_text = isinstance(values, (pa.StringScalar, pa.BinaryScalar)) and values.is_valid
    if is_text and values.as_buffer().size * rows > MOST_BYTES:
        raise too_large()
    return pa.repeat(values, rows)


class Frame:
    """The columns of a batch, as nodes read them."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.rows = batch.num_rows
        self._batch = batch
        self._read: dict[tuple[int, ...], pa.Array] = {}

    def column(self, places: tuple[int, ...], kind: DataType) -> pa.Array:
        """Return a column, or the field of a struct that the places lead to, in the Arrow type of its type."""
        array = self._read.get(places)
        if array is None:
            array = self._batch.column(places[0])
            for place in places[1:]:
                array = pc.struct_field(array, [place])
            target = arrow_type(kind)
            if array.type != target:
                array = array.cast(target)
            self._read[places] = array
        return array


@dataclass(frozen=True)
class Node:
    """A bound value of a type."""

    type: DataType

    @property
    def children(self) -> tuple[Node, ...]:
        """The nodes from which the value is computed."""
        return ()

    def evaluate(self, _: Frame) -> Outcome:
        """Return the values of all rows, and the rows that failed."""
        raise NotImplementedError


@dataclass(frozen=True)
class ColumnNode(Node):
    """A column of a relation. ``places`` leads to it from the columns of the batch."""

    relation: int
    path: tuple[Field, ...]
    places: tuple[int, ...]

    def evaluate(self, frame: Frame) -> Outcome:
        """Return the values of the column."""
        return Outcome(frame.column(self.places, self.type))


@dataclass(frozen=True)
class LiteralNode(Node):
    """The same value for all rows: a scalar, or what makes one. Intervals are kept as they are, without a scalar."""

    given: Any
    value: object = field(default=None, compare=False)
    #: Whether the literal stands in the text, and is not the result of a function of literals.
    is_written: bool = False

    def widened(self, to: DataType) -> LiteralNode:
        """Return the same number in another type, which has it."""
        return LiteralNode(to, self.given.as_py() if isinstance(self.given, pa.Scalar) else self.given)

    @property
    def scalar(self) -> pa.Scalar:
        """The value. A number that is widened is made of the wider type alone."""
        return self.given if isinstance(self.given, pa.Scalar) else pv.scalar(self.given, arrow_type(self.type))

    def evaluate(self, _: Frame) -> Outcome:
        """Return the scalar."""
        return Outcome(self.scalar)


@dataclass(frozen=True)
class CallNode(Node):
    """A function of its arguments, which is null where one of them is, unless its kernel says otherwise.

    As in Spark, an argument is not evaluated in rows in which an earlier one is null, so its failures there are none.
    """

    name: str
    arguments: tuple[Node, ...]
    kernel: Kernel = field(compare=False)
    #: Spark evaluates the divisor first.
    last_first: bool = False
    #: Whether all arguments are evaluated, even if an earlier one is null.
    eager: bool = False
    #: Whether it is a cast between instants and clocks in a zone in which no clock was ever set back.
    is_steady: bool = False

    @property
    def children(self) -> tuple[Node, ...]:
        """The arguments."""
        return self.arguments

    def evaluate(self, frame: Frame) -> Outcome:
        """Return the results of the kernel."""
        outcomes = [argument.evaluate(frame) for argument in self.arguments]
        values = [outcome.values for outcome in outcomes]
        if values and all(isinstance(value, pa.Scalar) for value in values):
            values[0] = pa.repeat(values[0], frame.rows)
        found = self.kernel(*values)
        outcome = found if isinstance(found, Outcome) else Outcome(found)
        if not any(before.failures for before in outcomes):
            return outcome
        return Outcome(outcome.values, (*self._before(outcomes, frame.rows), *outcome.failures))

    def _before(self, outcomes: Sequence[Outcome], rows: int) -> list[Failure]:
        """Return the failures of the arguments, where they are evaluated."""
        failures: list[Failure] = []
        valid: pa.BooleanArray | None = None
        for outcome in reversed(outcomes) if self.last_first else outcomes:
            failures += [failure if valid is None else failure.only(valid) for failure in outcome.failures]
            if self.eager:
                continue
            known = pc.is_valid(spread(outcome.values, rows))
            valid = known if valid is None else pc.and_(valid, known)
        return failures


@dataclass(frozen=True)
class LazyNode(Node):
    """A node that decides which of its arguments count: AND, OR, CASE, COALESCE, IN."""

    name: str
    arguments: tuple[Node, ...]
    decide: Callable[[Sequence[Outcome], int], Outcome] = field(compare=False)

    @property
    def children(self) -> tuple[Node, ...]:
        """The arguments."""
        return self.arguments

    def evaluate(self, frame: Frame) -> Outcome:
        """Return what the arguments' outcomes amount to."""
        return self.decide([argument.evaluate(frame) for argument in self.arguments], frame.rows)


@dataclass(frozen=True)
class ListNode(Node):
    """Several literals of one type, as items of IN."""

    given: Sequence[Any] | pa.Array = field(compare=False)

    @property
    def values(self) -> pa.Array:
        """The literals. Numbers that are widened are made of the wider type alone."""
        return self.given if isinstance(self.given, pa.Array) else pv.array(self.given, arrow_type(self.type))

    def cast_by(self, convert: Callable[[Node], Node]) -> ListNode | None:
        """Return the literals, converted as a column is; None if that fails for one of them."""
        found = convert(ColumnNode(self.type, 0, (), (0,)))
        values = self.values
        outcome = found.evaluate(Frame(pa.RecordBatch.from_arrays([values], ["value"])))
        return None if outcome.failures else ListNode(found.type, spread(outcome.values, len(values)))

    def widened(self, to: DataType) -> ListNode:
        """Return the same numbers in another type, which has them."""
        return ListNode(to, self.given.to_pylist() if isinstance(self.given, pa.Array) else self.given)

    @property
    def parts(self) -> list[Node]:
        """The literals, each by itself."""
        return [LiteralNode(self.type, scalar, is_written=True) for scalar in self.values]


@dataclass(frozen=True)
class MemberNode(LazyNode):
    """IN with literals, which are no values of rows: only the argument is evaluated."""

    items: pa.Array = field(compare=False)


def columns_of(node: Node) -> list[ColumnNode]:
    """Return the columns from which a value is computed, perhaps with repetitions."""
    columns: list[ColumnNode] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ColumnNode):
            columns.append(one)
        else:
            waiting += reversed(one.children)
    return columns


#: What literals are computed on.
_ONE_ROW = Frame(pa.RecordBatch.from_arrays([pa.nulls(1)], names=["row"]))


def computed_once(node: Node) -> Outcome:
    """Return what a node without columns is for every row."""
    return node.evaluate(_ONE_ROW)


def folded(node: Node) -> Node:
    """Return the value of a node whose children are literals as a literal, unless it fails."""
    if not node.children or not all(isinstance(child, LiteralNode) for child in node.children):
        return node
    outcome = computed_once(node)
    if any(pc.any(failure.rows).as_py() for failure in outcome.failures):
        return node
    return LiteralNode(node.type, spread(outcome.values, 1)[0])
