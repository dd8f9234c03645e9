"""Projections are right: for any filter, no matching row is missed, and nothing is proven that is not true.

The rows are the values around the borders of partitions, and the literals of filters are among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.expressions.compute.bound import Bound, BoundAnd, BoundOr, BoundPredicate
from deltaberg.expressions.compute.evaluate import evaluate
from deltaberg.iceberg.metadata.specs import PartitionField
from deltaberg.iceberg.partition.projections import project
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.rows.ordinals import of_ordinals
from deltaberg.schema.types import DataType, Decimal, Field, Primitive, Struct
from tests.support.effort import examples

_DAY, _HOUR = 86_400_000_000, 3_600_000_000
_INT_ENDS, _LONG_ENDS = (-(1 << 31), (1 << 31) - 1), (-(1 << 63), (1 << 63) - 1)
#: Hours of what is farther away than these microseconds do not fit an integer.
_FAR = 7_000_000_000_000_000_000
#: Days that begin a year, a month, or neither; year 1, the year 10000.
_DAYS = (-719_162, -365, -31, -1, 0, 1, 31, 365, 11_016, 17_486, 2_932_897)


class _Case(NamedTuple):
    """A type, rows of it, and the transforms that take it."""

    kind: DataType
    rows: pa.Array
    transforms: tuple[str, ...]


def _numbers(kind: DataType, places: Iterable[int], reach: int, ends: tuple[int, int], *transforms: str) -> _Case:
    """Return a case with the values on both sides of some points, and at both ends of the type."""
    low, high = ends
    near = {place + step for place in (*places, *ends) for step in range(-reach, reach + 1)}
    rows = of_ordinals([None, *sorted(number for number in near if low <= number <= high)], arrow_type(kind))
    return _Case(kind, rows, ("identity", "bucket[4]", *transforms))


def _instants(name: str, factor: int, ends: tuple[int, int]) -> _Case:
    places = [day * _DAY * factor for day in _DAYS] + [_HOUR * factor, -_HOUR * factor]
    return _numbers(Primitive(name), places, 1, ends, "year", "month", "day", "hour")


def _values(kind: DataType, values: list[Any], *transforms: str) -> _Case:
    return _Case(kind, pa.array([None, *values], arrow_type(kind)), ("identity", *transforms))


_TEXTS = [
    "".join(letters)
    for length in range(5)
    for letters in product("a日\U0001f600"[: 3 if length < 4 else 2], repeat=length)
]
_BYTES = [bytes(octets) for length in range(4) for octets in product((0, 1, 255), repeat=length)]
_FLOATS = [0.0, -0.0, 1.0, -1.5, math.nan, math.inf, -math.inf]
_INTEGERS = ("truncate[1]", "truncate[10]", "truncate[8]", "truncate[7]")

_CASES = [
    _numbers(Primitive("integer"), [0, 100], 12, _INT_ENDS, *_INTEGERS, "truncate[2147483647]"),
    _numbers(Primitive("long"), [0, 100, 1_000_000_007], 12, _LONG_ENDS, *_INTEGERS, "truncate[1000000007]"),
    _numbers(Decimal(5, 2), [0, 50, -50], 8, (-99_950, 99_999), "truncate[1]", "truncate[50]", "truncate[7]"),
    _numbers(Decimal(38, 3), [0, -50, 10**20], 8, (-(10**37), 10**38 - 1), "truncate[50]", "truncate[7]"),
    _numbers(Primitive("date"), _DAYS, 2, _INT_ENDS, "year", "month", "day"),
    _instants("timestamp", 1, (-_FAR, _FAR)),
    _instants("timestamp_ntz", 1, (-_FAR, _FAR)),
    _instants("timestamp_ns", 1000, _LONG_ENDS),
    _instants("timestamp_ntz_ns", 1000, _LONG_ENDS),
    _numbers(Primitive("time"), [_HOUR], 3, (0, _DAY - 1)),
    _values(Primitive("string"), _TEXTS, "bucket[4]", "truncate[1]", "truncate[2]", "truncate[3]"),
    _values(Primitive("binary"), _BYTES, "bucket[4]", "truncate[1]", "truncate[2]"),
    _values(Primitive("uuid"), [bytes([value] * 16) for value in range(6)], "bucket[4]"),
    _values(Primitive("boolean"), [False, True]),
    _values(Primitive("float"), _FLOATS),
    _values(Primitive("double"), _FLOATS),
]

_ONE = ("=", "!=", "<", "<=", ">", ">=", "<=>", "is distinct from")
_MANY = ("in", "not in")
_NONE = ("is null", "is not null")


@st.composite
def _predicates(draw: st.DrawFn, case: _Case) -> BoundPredicate:
    path = (Field("x", case.kind, id=1),)
    floating = case.kind in (Primitive("float"), Primitive("double"))
    names = [*_ONE, *_MANY, *_NONE]
    if case.kind == Primitive("string"):
        names += ["starts with", "not starts with", "like", "not like"]
    if floating:
        names += ["is nan", "is not nan"]
    operator = draw(st.sampled_from(names))
    if operator in ("like", "not like"):
        return BoundPredicate(operator, path, (pa.scalar(draw(st.sampled_from(["a_", "%日", "a%a", "_%"]))),))
    count = 0 if operator.startswith("is n") else draw(st.integers(2, 4)) if operator in _MANY else 1
    places = draw(st.lists(st.integers(1, len(case.rows) - 1), min_size=count, max_size=count))
    found = case.rows.take(pa.array(places, pa.int64()))
    return BoundPredicate(operator, path, tuple(found.cast(pa.float64()) if floating else found))


@st.composite
def _situations(draw: st.DrawFn) -> tuple[_Case, list[str], Bound]:
    # Texts know more predicates than other types.
    texts = [case for case in _CASES if case.kind == Primitive("string")]
    case = draw(st.sampled_from([*_CASES, *texts, *texts]))
    chosen = [draw(st.sampled_from(case.transforms)), *draw(st.lists(st.sampled_from(["void", "zorder"]), max_size=1))]
    if draw(st.booleans()):
        chosen.append(draw(st.sampled_from(case.transforms)))
    bound: Bound = draw(_predicates(case))
    for predicate in draw(st.lists(_predicates(case), max_size=2)):
        parts = (bound, predicate)
        bound = BoundAnd(parts) if draw(st.booleans()) else BoundOr(parts)
    return case, chosen, bound


@examples(800)
@given(_situations())
def test_projections_hold(situation: tuple[_Case, list[str], Bound]) -> None:
    case, transforms, bound = situation
    schema = Struct((Field("x", case.kind, id=1),))
    parts = [PartitionField((1,), 1000 + place, str(place), name) for place, name in enumerate(transforms)]
    columns = {1: case.rows}
    for part in parts:
        if part.transform != "zorder":
            columns[part.field_id] = parse_transform(part.transform).apply(case.rows, case.kind)

    def holds(condition: Bound) -> pa.BooleanArray:
        return evaluate(condition, lambda path: columns[path[-1].id or 0], len(case.rows)).fill_null(False)

    matches = holds(bound)
    inclusive, strict = (project(bound, parts, schema, strict=strict) for strict in (False, True))
    missed = pc.and_(matches, pc.invert(holds(inclusive)))
    assert not pc.any(missed).as_py(), f"{bound} misses {case.rows.filter(missed)} by {inclusive}"
    wrong = pc.and_(holds(strict), pc.invert(matches))
    assert not pc.any(wrong).as_py(), f"{bound} is not proven of {case.rows.filter(wrong)} by {strict}"
