"""A list of values keeps the files whose bounds enclose one of the values, however long the list is."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaberg.expressions.compute.bound import BoundPredicate
from deltaberg.pruning import evaluate
from deltaberg.pruning.evaluate import may_match, must_match
from deltaberg.pruning.stats import ColumnStats, FileStats, stats_key
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Decimal, Field, Primitive

pytestmark = pytest.mark.one_backend

_KINDS: dict[str, tuple[DataType, list[Any]]] = {
    "long": (Primitive("long"), [*range(-4, 5), -(1 << 63), (1 << 63) - 1]),
    "string": (Primitive("string"), ["", "a", "ab", "b", "é", "\U0001f43b"]),
    "binary": (Primitive("binary"), [b"", b"\0", b"a", b"\xff"]),
    "boolean": (Primitive("boolean"), [False, True]),
    "double": (Primitive("double"), [float("-inf"), -1.5, -0.0, 0.0, 2.5, float("inf"), float("nan")]),
    "date": (Primitive("date"), [dt.date(2020, 1, day) for day in range(1, 7)]),
    "decimal": (Decimal(5, 2), [PyDecimal(number).scaleb(-2) for number in range(-3, 4)]),
    "uuid": (Primitive("uuid"), [bytes([number] * 16) for number in (0, 1, 255)]),
    "timestamp": (Primitive("timestamp"), list(range(5))),
    "time": (Primitive("time"), list(range(5))),
}


def _column(kind: DataType, values: list[Any]) -> pa.Array:
    return pa.array(values, arrow_type(kind))


def _predicate(operator: str, kind: DataType, values: list[Any]) -> BoundPredicate:
    scalars = tuple(pa.scalar(value, arrow_type(kind)) for value in values)
    return BoundPredicate(operator, (Field("c", kind, id=1),), scalars)


def _stats(lower: pa.Array | None, upper: pa.Array | None, files: int) -> FileStats:
    counts = pa.array([3] * files, pa.int64())
    nulls = pa.array([0] * files, pa.int64())
    key = stats_key((Field("c", Primitive("long"), id=1),))
    return FileStats(files, counts, {key: ColumnStats(lower, upper, nulls)})


def _has_room(lower: Any, upper: Any, values: list[Any]) -> bool:
    """Return whether a value is between two bounds; None, NaN and a reversed pair of bounds exclude nothing."""
    lower, upper = (None if limit != limit else limit for limit in (lower, upper))  # noqa: PLR0124
    if lower is not None and upper is not None and lower > upper:
        lower = upper = None
    return any(
        value != value or ((lower is None or lower <= value) and (upper is None or value <= upper))  # noqa: PLR0124
        for value in values
    )


@pytest.mark.parametrize("name", list(_KINDS))
def test_every_value_is_held_against_the_bounds(rng: random.Random, name: str) -> None:
    kind, domain = _KINDS[name]
    for _ in range(200):
        files = rng.randrange(6)
        values = rng.sample(domain, rng.randrange(1, len(domain) + 1))
        lower, upper = (
            None if rng.random() < 0.1 else [rng.choice([*domain, None]) for _ in range(files)] for _ in range(2)
        )
        lowers, uppers = (None if limits is None else _column(kind, limits) for limits in (lower, upper))
        pairs = list(zip(lower or [None] * files, upper or [None] * files, strict=True))
        room = [_has_room(low, high, values) for low, high in pairs]
        is_floating = name == "double"
        single = [not is_floating and low is not None and low == high and low in values for low, high in pairs]
        stats = _stats(lowers, uppers, files)
        assert may_match(_predicate("in", kind, values), stats).to_pylist() == room
        assert must_match(_predicate("in", kind, values), stats).to_pylist() == single
        assert may_match(_predicate("not in", kind, values), stats).to_pylist() == [not found for found in single]
        assert must_match(_predicate("not in", kind, values), stats).to_pylist() == [not found for found in room]


@pytest.mark.parametrize("count", [3, 1_000])
def test_a_file_between_the_values_of_a_list(count: int) -> None:
    """No value lies in it, though some are less and some are greater."""
    kind = Primitive("long")
    lower, upper = [10 * number + 1 for number in range(count)], [10 * number + 9 for number in range(count)]
    upper[count // 2] += 1
    stats = _stats(_column(kind, lower), _column(kind, upper), count)
    predicate = _predicate("in", kind, [10 * number for number in range(count + 1)])
    assert pc.indices_nonzero(may_match(predicate, stats)).to_pylist() == [count // 2]


class _Counted:
    """The compute functions, with how often each was called."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(pc, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            return function(*arguments, **options)

        return counted


@pytest.mark.parametrize("operator", ["in", "not in"])
def test_the_work_does_not_grow_with_values_times_files(monkeypatch: pytest.MonkeyPatch, operator: str) -> None:
    kind = Primitive("string")
    limits = _column(kind, [str(number) for number in range(50)])
    stats = _stats(limits, limits, len(limits))
    calls = []
    for count in (2, 2_000):
        counted = _Counted()
        monkeypatch.setattr(evaluate, "pc", counted)
        predicate = _predicate(operator, kind, [str(number) for number in range(count)])
        assert may_match(predicate, stats).true_count == (min(count, 50) if operator == "in" else 50 - min(count, 50))
        must_match(predicate, stats)
        calls.append(counted.calls)
    assert calls[0] == calls[1]
