"""The form of a condition that pruning takes, derived from what the condition was bound to.

What the binder decided is what the form says, so that a comparison means the same to metadata and to rows. Where a
column is converted before it is compared, the values of its own type are looked for that the conversion brings to the
literal, with the kernel of the conversion itself. What has no such form prunes nothing, and is computed from the rows.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ExpressionError
from deltaberg.expressions.bind.bind import BoundValue, bind_condition
from deltaberg.expressions.bind.constants import moment_out_of_range
from deltaberg.expressions.build.column import all_of, any_of
from deltaberg.expressions.compute.bound import Bound, BoundComputed, BoundPredicate, join_bound, member
from deltaberg.expressions.compute.evaluate import among_doubles
from deltaberg.expressions.derive.sides import Side, side_of
from deltaberg.expressions.tree.nodes import CallNode, ColumnNode, LazyNode, LiteralNode, MemberNode, Node
from deltaberg.expressions.tree.tree import FALSE, TRUE, Call, Cast, ColumnValue, Literal, Value
from deltaberg.expressions.tree.types import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    NTZ,
    STRING,
    TIMESTAMP,
    is_bytes,
    is_floating,
    is_integral,
)
from deltaberg.kernels import plain_values as pv
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import Decimal, Field, Struct

__all__ = ["bind", "value_filter"]

_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}
_OPPOSITE = {"=": "!=", "<": ">=", "<=": ">", ">": "<=", ">=": "<", "<=>": "is distinct from"}
_OPPOSITE |= {"is null": "is not null", "is not null": "is null", "is nan": "is not nan"}
_TESTS = {
    "isnull": "is null",
    "isnotnull": "is not null",
    "isnan": "is nan",
    "startswith": "starts with",
    "like": "like",
}
_ORDERED = frozenset({"<", "<=", ">", ">="})
#: Doubles below this one are whole numbers of their own.
_WHOLE = float(1 << 53)
#: Decimals of so few digits are doubles of their own.
_SAFE_DIGITS = 15
_DAY, _HOUR = 86_400_000_000, 3_600_000_000
#: Of so many items of IN, each is looked for by itself.
_MOST_LOOKS = 64

#: What every row fulfils for which a condition is true, and whether it is the condition itself.
_Form = tuple[Bound, bool]
_UNKNOWN: _Form = (TRUE, False)


def bind(condition: object, schema: Struct, timezone: str = "UTC", now: dt.datetime | None = None) -> Bound:
    """Bind a condition to a schema.

    Parameters
    ----------
    condition
        The condition, as `bind_condition` takes it.
    timezone
        The zone of literals that have none and are compared with a ``timestamp``.
    now
        The time that ``current_timestamp()`` returns. By default it is that of the call.

    Raises
    ------
    ColumnNotFoundError
        If a column does not exist.
    ExpressionError
        If it is not a condition, or compares what cannot be compared.
    """
    moment = now or dt.datetime.now(dt.timezone.utc)
    whole = bind_condition(condition, schema, timezone=timezone, now=moment)
    try:
        implied, is_exact = _form(whole.node, 0, negated=False)
    except RecursionError:
        raise ExpressionError("the filter is nested too deeply") from None
    if is_exact or implied == FALSE:
        return implied
    names = {path[0].name for _, path in whole.paths}
    needed = Struct(tuple(child for child in schema if child.name in names))
    return BoundComputed(_Test(whole.tree, needed, timezone, moment), needed.fields, implied)


@dataclass(frozen=True)
class _Test:
    """A condition and all that it is bound with. Functions do not pickle, so that each process binds it again."""

    value: Value
    columns: Struct
    timezone: str
    now: dt.datetime = field(compare=False)

    def __str__(self) -> str:
        return str(self.value)

    def __getstate__(self) -> dict[str, Any]:
        return {name: member for name, member in self.__dict__.items() if name != "_bound"}

    @cached_property
    def _bound(self) -> BoundValue:
        return bind_condition(self.value, self.columns, timezone=self.timezone, now=self.now)

    def evaluate(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return a boolean for each row, or null."""
        return self._bound.evaluate(batch)


def value_filter(value: BoundValue, relation: int = 0) -> Value:
    """Return a condition on the columns of one relation that every row fulfils for which a condition is true.

    Of what says nothing about columns of the relation, compared with literals, nothing remains. In the extreme, it is
    TRUE, which keeps all rows. Rows that fulfil it need not match.

    Examples
    --------
    >>> from deltaberg.expressions.bind.bind import bind_condition
    >>> from deltaberg.schema.types import Field, Primitive, Struct
    >>> schema = Struct((Field("x", Primitive("integer")), Field("name", Primitive("string"))))
    >>> print(value_filter(bind_condition("x > 5 AND x % 2 = 0 AND name IN ('a', 'b')", schema)))
    (x > 5 AND name IN ('a', 'b'))
    """
    return _part(value.node, relation, negated=False)


def _part(node: Node, relation: int, negated: bool) -> Value:
    implied, is_exact = _form(node, relation, negated)
    if isinstance(implied, Literal):
        return implied
    if is_exact:
        return ~_unbound(node) if negated else _unbound(node)
    if isinstance(node, CallNode):
        return _part(node.arguments[0], relation, not negated) if node.name == "not" else TRUE
    parts = [_part(part, relation, negated) for part in node.children]
    known = [part for part in parts if part != TRUE]
    return all_of(known) if len(known) < len(parts) else (any_of if _is_or(node, negated) else all_of)(known)


def _is_or(node: Node, negated: bool) -> bool:
    return isinstance(node, LazyNode) and (node.name == "or") is not negated


def _unbound(node: Node) -> Value:
    """Return the value that was bound, with the literals that it was bound to."""
    if isinstance(node, LiteralNode):
        return Literal(_python(node.scalar), node.type)
    if isinstance(node, ColumnNode):
        return ColumnValue(tuple(part.name for part in node.path))
    arguments = tuple(map(_unbound, node.children))
    if isinstance(node, MemberNode):
        kind = node.arguments[0].type
        return Call("in", (*arguments, *(Literal(_python(item), kind) for item in node.items)))
    if not isinstance(node, (CallNode, LazyNode)):
        raise TypeError(type(node))
    return Cast(arguments[0], node.type) if node.name == "cast" else Call(node.name, arguments)


def _python(scalar: pa.Scalar) -> Any:
    """Return a scalar as a value of Python, which has no dates before the year 1."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return scalar


def _form(node: Node, relation: int, negated: bool) -> _Form:
    if isinstance(node, CallNode):
        if node.name == "not":
            return _form(node.arguments[0], relation, not negated)
        return (_comparison if node.name in _FLIPPED else _test)(node, relation, negated)
    if isinstance(node, LiteralNode):
        return TRUE if node.scalar.as_py() is (not negated) else FALSE, True
    if isinstance(node, ColumnNode) and node.type == BOOLEAN and node.relation == relation:
        return BoundPredicate("=", node.path, (pv.scalar(not negated),)), True
    if isinstance(node, MemberNode):
        return _membership(node, relation, negated)
    if isinstance(node, LazyNode) and node.name in ("and", "or"):
        forms = [_form(part, relation, negated) for part in node.arguments]
        joined = join_bound((form for form, _ in forms), not _is_or(node, negated))
        return joined, all(is_exact for _, is_exact in forms)
    return _UNKNOWN


def _test(node: CallNode, relation: int, negated: bool) -> _Form:
    """Derive IS NULL, isnan, startswith and LIKE."""
    operator = _TESTS.get(node.name)
    column, *others = node.arguments
    if operator is None or not isinstance(column, ColumnNode) or column.relation != relation:
        return _UNKNOWN
    if negated:
        operator = _OPPOSITE.get(operator) or f"not {operator}"
    if not others:
        is_known = node.name != "isnan" or is_floating(column.type)
        return (BoundPredicate(operator, column.path), True) if is_known else _UNKNOWN
    (literal,) = others
    if not isinstance(literal, LiteralNode) or column.type != STRING:
        return _UNKNOWN
    text: str | None = literal.scalar.as_py()
    if text is None:
        return FALSE, True
    if node.name == "like" and text.endswith("%") and not set(text[:-1]) & {"%", "_", "\\"}:
        operator, text = operator.replace("like", "starts with"), text[:-1]
    return BoundPredicate(operator, column.path, (pv.scalar(text, pa.string()),)), True


def _comparison(node: CallNode, relation: int, negated: bool) -> _Form:
    name = node.name
    left, right = node.arguments
    if isinstance(left, LiteralNode):
        left, right, name = right, left, _FLIPPED[name]
    operator = _OPPOSITE[name] if negated else name
    side = side_of(left, relation)
    if side is None:
        return _UNKNOWN
    moment = moment_out_of_range(right)
    if moment is not None:
        return _beyond(operator, side.path, is_above=moment.value > 0), True
    if not isinstance(right, LiteralNode):
        return _columns(operator, side, side_of(right, relation))
    literal = right.scalar
    if not literal.is_valid:
        if name != "<=>":
            return FALSE, True
        return BoundPredicate("is not null" if negated else "is null", side.path), True
    return _literal(operator, side, literal)


def _columns(operator: str, left: Side, right: Side | None) -> _Form:
    if right is None:
        return _UNKNOWN
    kinds = (left.column.type, right.column.type)
    is_plain = left.is_plain and right.is_plain
    if is_plain or all(map(is_integral, kinds)):
        return BoundPredicate(operator, left.path, other=right.path), True
    return _UNKNOWN


def _literal(operator: str, side: Side, literal: pa.Scalar) -> _Form:
    if side.is_plain:
        value = literal.cast(pa.float64()) if pa.types.is_float32(literal.type) else literal
        return BoundPredicate(operator, side.path, (value,)), True
    exact = _exactly(side, literal)
    if exact is not None:
        return BoundPredicate(operator, side.path, (exact,)), True
    fitting = None if operator in _ORDERED else _fitting(side, pv.array([literal], literal.type))
    if fitting is not None:
        return _equal(operator, side.path, fitting, fitting), True
    if side.keeps_order:
        return _placed(operator, side, literal), True
    return _rough(operator, side, literal, literal)


def _rough(operator: str, side: Side, least: pa.Scalar, greatest: pa.Scalar) -> _Form:
    """Return what a comparison with one of the values from a least to a greatest one implies."""
    parts: list[Bound] = []
    for one in (operator,) if operator in _ORDERED else (">=", "<=") if operator in ("=", "<=>", "in") else ():
        is_below = one in ("<", "<=")
        literal = greatest if is_below else least
        if side.keeps_order:
            parts.append(_placed(one, side, literal))
            continue
        shown = _shown_at(side, literal)
        if shown is None:
            return _UNKNOWN
        parts.append(BoundPredicate(one, side.path, (shown[int(is_below)],)))
    return join_bound(parts, is_and=True), False


def _shown_at(side: Side, instant: pa.Scalar) -> pa.Array | None:
    """Return the least and the greatest reading that the clock of a column may show at an instant.

    All of them differ from the instant by an offset that the zone has within a day. Every one lasts for hours.
    """
    from deltaberg.schema.rows.ordinals import limits, of_ordinals

    if side.column.type != NTZ or [cast.type for cast in side.casts] != [TIMESTAMP]:
        return None
    kind = arrow_type(side.column.type)
    low, high = limits(kind)
    around = range(instant.value - _DAY, instant.value + _DAY + 1, _HOUR)
    if not low <= around[0] <= around[-1] <= high:
        return None
    readings = of_ordinals(around, kind)
    instants = side.converted(readings)
    if any(pc.any(failure.rows).as_py() for failure in instants.failures):
        return None
    offsets = pc.min_max(pc.subtract(readings.cast(pa.int64()), instants.values.cast(pa.int64())))
    return of_ordinals([instant.value + offsets[end].as_py() for end in ("min", "max")], kind)


def _exactly(side: Side, literal: pa.Scalar) -> pa.Scalar | None:
    """Return a literal as a value of the column, if casts between whole numbers and decimals keep it."""
    if not side.is_exact:
        return None
    value = literal.as_py()
    if is_integral(side.column.type):
        if value != int(value):
            return None
        value = int(value)
    try:
        return pv.scalar(value, arrow_type(side.column.type))
    except (pa.ArrowInvalid, OverflowError):
        return None


def _placed(operator: str, side: Side, literal: pa.Scalar) -> Bound:
    """Compare a column, which is converted, with a literal by the values that the conversion brings to it."""
    from deltaberg.schema.rows.ordinals import limits, of_ordinals

    kind = arrow_type(side.column.type)
    low, high = limits(kind)
    if operator in _ORDERED:
        # All values before this one are on the lesser side.
        border = side.first("<" if operator in ("<", ">=") else "<=", literal)
        is_below = operator in ("<", "<=")
        if low < border <= high:
            return BoundPredicate("<" if is_below else ">=", side.path, tuple(of_ordinals([border], kind)))
        return _beyond(operator, side.path, is_above=border > high)
    first, after = side.first("<", literal), side.first("<=", literal)
    ends = of_ordinals([first, after - 1], kind) if first < after else pv.array([], kind)
    return _equal(operator, side.path, ends[:1], ends[1:])


def _beyond(operator: str, path: tuple[Field, ...], *, is_above: bool) -> Bound:
    """Compare a column with what is greater, or less, than all values of its type."""
    if operator not in _ORDERED:
        return _equal(operator, path, pa.array([]), pa.array([]))
    return BoundPredicate("is not null", path) if (operator in ("<", "<=")) == is_above else FALSE


def _equal(operator: str, path: tuple[Field, ...], first: pa.Array, last: pa.Array) -> Bound:
    """Return that a column is, or is not, one of the values from a first to a last one, if there are any."""
    not_null = BoundPredicate("is not null", path)
    if not len(first):
        never: dict[str, Bound] = {"=": FALSE, "<=>": FALSE, "!=": not_null, "is distinct from": TRUE}
        return never[operator]
    if first == last:
        return BoundPredicate(operator, path, tuple(first))
    inside = [BoundPredicate(">=", path, tuple(first)), BoundPredicate("<=", path, tuple(last))]
    outside = [BoundPredicate("<", path, tuple(first)), BoundPredicate(">", path, tuple(last))]
    if operator in ("=", "<=>"):
        return join_bound(inside if operator == "=" else [not_null, *inside], is_and=True)
    null = BoundPredicate("is null", path)
    return join_bound(outside if operator == "!=" else [*outside, null], is_and=False)


def _fitting(side: Side, values: pa.Array) -> pa.Array | None:
    """Return those values of the column that are converted to one of some values; None if they are not known."""
    source, to = side.column.type, side.casts[-1].type
    kind = arrow_type(source)
    if is_bytes(source) and to == BINARY and len(side.casts) == 1:
        return values.filter(pc.equal(pc.binary_length(values), kind.byte_width)).cast(kind)
    if not side.is_exact:
        # Different values of the column must be different doubles.
        if to != DOUBLE or len(side.casts) > 1:
            return None
        is_short = isinstance(source, Decimal) and source.precision <= _SAFE_DIGITS
        if not is_short and not (is_integral(source) and pc.all(pc.less(pc.abs(values), _WHOLE)).as_py()):
            return None
    originals = side.back(values)
    again = side.converted(originals).values
    return originals.filter(among_doubles(again, values) if is_floating(to) else pc.is_in(again, value_set=values))


def _membership(node: MemberNode, relation: int, negated: bool) -> _Form:
    side = side_of(node.arguments[0], relation)
    if side is None:
        return _UNKNOWN
    items = node.items
    if items.null_count:
        if negated:
            return FALSE, True
        items = items.drop_null()
    operator = "not in" if negated else "in"
    if side.is_plain:
        return member(operator, side.path, items.cast(pa.float64()) if is_floating(side.column.type) else items), True
    fitting = _fitting(side, items)
    if fitting is not None:
        return member(operator, side.path, fitting), True
    if side.keeps_order and len(items) <= _MOST_LOOKS:
        parts = [_placed("!=" if negated else "=", side, item) for item in items]
        return join_bound(parts, is_and=negated), True
    if is_floating(items.type):
        items = items.filter(pc.is_finite(items))
    ends = pc.min_max(items)
    return _rough(operator, side, ends["min"], ends["max"]) if len(items) else _UNKNOWN
