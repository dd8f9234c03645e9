"""Projections hold: for rows and filters at random, no match is missed, and nothing is proven that is not so."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.expressions import Bound, BoundAnd, BoundOr, BoundPredicate, evaluate
from deltaberg.iceberg.ordinals import of_ordinals
from deltaberg.iceberg.projections import project
from deltaberg.iceberg.spec import PartitionField
from deltaberg.iceberg.transforms import parse_transform
from deltaberg.schema import DataType, Decimal, Field, Primitive, Struct, arrow_type
from tests.kernels.twins import examples

_DAY = 86_400_000_000
_INT_ENDS, _LONG_ENDS = (-(1 << 31), (1 << 31) - 1), (-(1 << 63), (1 << 63) - 1)
#: Hours of what is farther away than these microseconds do not fit an integer.
_MICROS = 7_000_000_000_000_000_000


def _near(*places: int, low: int, high: int) -> st.SearchStrategy[int]:
    """Give numbers on both sides of some places: most of what goes wrong goes wrong there."""
    near = st.tuples(st.sampled_from(places), st.integers(-12, 12)).map(sum)
    return (near | st.integers(low, high)).filter(lambda number: low <= number <= high)


def _instants(factor: int, low: int, high: int) -> st.SearchStrategy[int]:
    days = (-719_162, -365, -31, -1, 0, 1, 31, 365, 17_486, 11_016, 2_932_896)
    places = [day * _DAY * factor for day in days] + [3_600_000_000 * factor, -3_600_000_000 * factor, low, high]
    return _near(*places, low=low, high=high)


_TEXT = st.text("ab日\U0001f600", max_size=4)
_BYTES = st.binary(max_size=4).map(lambda value: bytes(byte % 3 for byte in value))
_FLOATS = st.sampled_from([0.0, -0.0, 1.0, -1.5, math.nan, math.inf, -math.inf])

_OF_TIMESTAMPS = ["identity", "bucket[4]", "year", "month", "day", "hour"]
#: Of each type: whether its values are given by their numbers, the values, and transforms.
_CASES: list[tuple[DataType, bool, st.SearchStrategy[Any], list[str]]] = [
    (
        Primitive("integer"), True, _near(0, 10, -10, 100, *_INT_ENDS, low=_INT_ENDS[0], high=_INT_ENDS[1]),
        ["identity", "bucket[4]", "truncate[1]", "truncate[10]", "truncate[8]", "truncate[7]", "truncate[2147483647]"],
    ),
    (
        Primitive("long"), True, _near(0, 10, -10, 100, *_LONG_ENDS, low=_LONG_ENDS[0], high=_LONG_ENDS[1]),
        ["identity", "bucket[4]", "truncate[1]", "truncate[10]", "truncate[8]", "truncate[1000000007]"],
    ),
    (
        Decimal(5, 2), True, _near(0, 50, -50, 1000, low=-99_950, high=99_999),
        ["identity", "bucket[4]", "truncate[1]", "truncate[50]", "truncate[7]"],
    ),
    (
        Decimal(38, 3), True, _near(0, -50, 10**20, 10**38 - 1, low=-(10**37), high=10**38 - 1),
        ["identity", "bucket[4]", "truncate[50]", "truncate[7]"],
    ),
    (
        Primitive("date"), True, _near(0, 31, -31, 365, -365, 17_486, *_INT_ENDS, low=_INT_ENDS[0], high=_INT_ENDS[1]),
        ["identity", "bucket[4]", "year", "month", "day"],
    ),
    *(
        (Primitive(name), True, _instants(1, -_MICROS, _MICROS), _OF_TIMESTAMPS)
        for name in ("timestamp", "timestamp_ntz")
    ),
    *(
        (Primitive(name), True, _instants(1000, *_LONG_ENDS), _OF_TIMESTAMPS)
        for name in ("timestamp_ns", "timestamp_ntz_ns")
    ),
    (Primitive("time"), True, _near(0, low=0, high=_DAY - 1), ["identity", "bucket[4]"]),
    (Primitive("string"), False, _TEXT, ["identity", "bucket[4]", "truncate[1]", "truncate[2]", "truncate[3]"]),
    (Primitive("binary"), False, _BYTES, ["identity", "bucket[4]", "truncate[1]", "truncate[2]"]),
    (Primitive("uuid"), False, st.integers(0, 3).map(lambda value: bytes([value] * 16)), ["identity", "bucket[4]"]),
    (Primitive("boolean"), False, st.booleans(), ["identity"]),
    (Primitive("float"), False, _FLOATS, ["identity"]),
    (Primitive("double"), False, _FLOATS, ["identity"]),
]  # fmt: skip

_ONE = ("=", "!=", "<", "<=", ">", ">=", "<=>", "is distinct from")
_MANY = ("in", "not in")
_NONE = ("is null", "is not null")


def _array(values: list[Any], kind: DataType, numbers: bool) -> pa.Array:
    return of_ordinals(values, arrow_type(kind)) if numbers else pa.array(values, arrow_type(kind))


@st.composite
def _predicates(draw: st.DrawFn, kind: DataType, numbers: bool, values: st.SearchStrategy[Any]) -> BoundPredicate:
    path = (Field("x", kind, id=1),)
    floating = kind in (Primitive("float"), Primitive("double"))
    names = [*_ONE, *_MANY, *_NONE]
    if kind == Primitive("string"):
        names += ["starts with", "not starts with", "like", "not like"]
    if floating:
        names += ["is nan", "is not nan"]
    operator = draw(st.sampled_from(names))
    if operator in ("like", "not like"):
        return BoundPredicate(operator, path, (pa.scalar(draw(st.sampled_from(["a_", "%b", "a%b", "_%"]))),))
    count = 0 if operator.startswith("is n") else draw(st.integers(2, 4)) if operator in _MANY else 1
    found = _array(draw(st.lists(values, min_size=count, max_size=count)), kind, numbers)
    return BoundPredicate(operator, path, tuple(found.cast(pa.float64()) if floating else found))


@st.composite
def _situations(draw: st.DrawFn) -> tuple[DataType, pa.Array, list[str], Bound]:
    kind, numbers, values, transforms = draw(st.sampled_from(_CASES))
    rows = _array(draw(st.lists(st.none() | values, max_size=8)), kind, numbers)
    chosen = draw(st.lists(st.sampled_from([*transforms, "void", "zorder"]), min_size=1, max_size=2, unique=True))
    predicates = draw(st.lists(_predicates(kind, numbers, values), min_size=1, max_size=3))
    bound: Bound = predicates[0]
    for predicate in predicates[1:]:
        parts = (bound, predicate)
        bound = BoundAnd(parts) if draw(st.booleans()) else BoundOr(parts)
    return kind, rows, chosen, bound


@examples(600)
@given(_situations())
def test_projections_hold(situation: tuple[DataType, pa.Array, list[str], Bound]) -> None:
    kind, rows, transforms, bound = situation
    schema = Struct((Field("x", kind, id=1),))
    parts = [PartitionField((1,), 1000 + place, str(place), name) for place, name in enumerate(transforms)]
    known = {
        part.field_id: parse_transform(part.transform).apply(rows, kind) for part in parts if part.transform != "zorder"
    }

    def holds(condition: Bound) -> pa.BooleanArray:
        found = evaluate(condition, lambda path: rows if path[-1].id == 1 else known[path[-1].id or 0], len(rows))
        return found.fill_null(False)

    matches = holds(bound)
    inclusive, strict = (project(bound, parts, schema, strict=strict) for strict in (False, True))
    assert not pc.any(pc.and_(matches, pc.invert(holds(inclusive)))).as_py(), f"{bound} misses rows by {inclusive}"
    assert not pc.any(pc.and_(holds(strict), pc.invert(matches))).as_py(), f"{bound} is not proven by {strict}"
