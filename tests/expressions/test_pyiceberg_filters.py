"""Expressions of pyiceberg as filters of scans and conditions of changes."""

from __future__ import annotations

import datetime as dt
import importlib
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions.parser import parse
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import LongType, NestedField

from deltaberg import create_table
from deltaberg.errors import EvaluationError, ExpressionError, UnsupportedExpressionError
from deltaberg.expressions.bind import bind
from deltaberg.expressions.build.filters import as_filter
from deltaberg.schema.from_arrow import as_table_schema
from deltaberg.schema.types import Field, Primitive, Struct

pytestmark = pytest.mark.one_backend

#: Checkers of types do not know how its classes are made.
ice: Any = importlib.import_module("pyiceberg.expressions")

_UTC = dt.timezone.utc
_DAY, _MOMENT, _TIME = dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3, 4, 5), dt.time(1, 2)
_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "id": (pa.int64(), [1, 2, 3, 4]),
    "x": (pa.float64(), [1.0, None, float("nan"), 5.0]),
    "s": (pa.string(), ["it's", None, "b", "ab"]),
    "b": (pa.bool_(), [True, False, None, True]),
    "d": (pa.date32(), [_DAY, None, dt.date(2026, 1, 3), dt.date(1960, 1, 1)]),
    "y": (pa.timestamp("us"), [_MOMENT, None, dt.datetime(1960, 1, 1), dt.datetime(2026, 1, 2)]),
    "z": (pa.timestamp("us", "UTC"), [one and one.replace(tzinfo=_UTC) for one in (_MOMENT, None, _MOMENT, None)]),
    "n": (pa.decimal128(9, 2), [Decimal("1.25"), Decimal(2), None, Decimal("-3.5")]),
    "c": (pa.binary(), [b"ab", b"", None, b"\xff"]),
    "r": (pa.struct([("a", pa.int64())]), [{"a": 1}, {"a": None}, None, {"a": 4}]),
}
#: The values that are among the fifty days from the second of January on, as text.
_INSIDE = ("2026-01-02", "2026-01-03", "2026-01-02 00:00:00")
_FILTERS: list[Any] = [
    ice.EqualTo("id", 2),
    ice.And(ice.GreaterThan("id", 1), ice.LessThanOrEqual("id", 3), ice.NotEqualTo("id", 2)),
    ice.Or(ice.LessThan("id", 2), ice.Not(ice.LessThan("id", 4))),
    ice.In("s", ["ab", "it's", "q"]),
    ice.StartsWith("s", "a"),
    ice.NotStartsWith("s", "a"),
    ice.And(ice.NotNull("x"), ice.NotNaN("x")),
    ice.IsNaN("x"),
    ice.GreaterThanOrEqual("x", 4.0) & ~ice.IsNaN("x"),
    ice.IsNull("r.a"),
    ice.EqualTo("r.a", 4),
    ice.EqualTo("b", False),
    ice.GreaterThanOrEqual("d", _DAY),
    ice.EqualTo("y", _MOMENT),
    ice.EqualTo("z", _MOMENT.replace(tzinfo=_UTC)),
    ice.In("n", [Decimal("1.25"), Decimal("-3.50")]),
    ice.EqualTo("c", b"ab"),
    ice.EqualTo("t", _TIME),
    ice.EqualTo("u", uuid.UUID(int=2)),
    ice.AlwaysTrue(),
    ice.AlwaysFalse(),
]
_TEXTS = [
    "x is nan",
    "x is not nan",
    "NOT x IS NaN",
    "id == 1 or id <> 2 and not id in (3, 4)",
    "s = 'it''s' or s like 'a%'",
    "d > '2026-01-01' and b = true",
    "id between 2 and 3 and s is not null",
    "5 > id and r.a is null",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    plain = as_table_schema(pa.schema([(name, kind) for name, (kind, _) in _VALUES.items()]))
    columns = Struct((*plain, Field("t", Primitive("time")), Field("u", Primitive("uuid"))))
    table = create_table(tmp_path_factory.mktemp("filters") / "t", columns, format="iceberg")
    arrays = {name: pa.array(values, kind) for name, (kind, values) in _VALUES.items()}
    keys = pa.array([uuid.UUID(int=number).bytes for number in range(4)], pa.binary(16))
    table.append(pa.table({**arrays, "t": pa.array([_TIME, None, dt.time(0), None], pa.time64("us")), "u": keys}))
    return table


def test_rows_are_those_that_pyiceberg_finds(table: Any) -> None:
    """The zone of literals changes nothing: moments of pyiceberg are in UTC."""
    theirs = StaticTable.from_metadata(table.metadata_location)
    for condition in [*_FILTERS, *_TEXTS]:
        wanted = theirs.scan(row_filter=condition).to_arrow()["id"].to_pylist()
        given = [condition, parse(condition)] if isinstance(condition, str) else [condition]
        for one in given:
            found = table.scan(one, timezone="Asia/Tokyo").to_arrow()["id"].to_pylist()
            assert found == wanted, str(one)
    computed = table.scan("x is not nan AND id + 1 > 1 AND NOT (x is nan)")
    assert computed.to_arrow()["id"].to_pylist() == [1, 4]


def test_days_beside_timestamps_are_their_midnight_in_utc(table: Any) -> None:
    """pyiceberg refuses to compare them; it keeps its days as it keeps its moments, in UTC."""
    rows = [
        [row["id"] for row in table.scan(one, timezone=zone).to_arrow().to_pylist()]
        for one in (
            ice.EqualTo("y", dt.date(2026, 1, 2)),
            ice.In("y", [dt.date(2026, 1, 2), dt.date(1960, 1, 1)]),
            ice.GreaterThan("z", _DAY),
            ice.LessThan("z", dt.date(2026, 1, 3)) & ice.GreaterThan("id", 1),
        )
        for zone in ("UTC", "Asia/Tokyo", "America/Los_Angeles")
    ]
    assert rows == [[4]] * 3 + [[3, 4]] * 3 + [[1, 3]] * 3 + [[3]] * 3


@pytest.mark.parametrize("name", ["d", "y", "z", "id"])
@pytest.mark.parametrize("kind", [ice.In, ice.NotIn])
def test_lists_of_days_are_bound_together(name: str, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors do not name the type of every day, either."""
    columns = as_table_schema(pa.schema([(name, _VALUES[name][0])]))
    tree = as_filter(kind(name, [_DAY + dt.timedelta(days) for days in range(50)]))
    monkeypatch.setattr(bind._Binder, "_literal", None)
    if name == "id":
        with pytest.raises(ExpressionError) as caught:
            bind.bind_condition(tree, columns)
        assert caught.value.message == "values of the types bigint, date cannot be compared"
    else:
        found = bind.bind_condition(tree, columns).evaluate(pa.record_batch({name: pa.array(*reversed(_VALUES[name]))}))
        inside = [None if one is None else str(one) in _INSIDE for one in _VALUES[name][1]]
        assert found.to_pylist() == [one if one is None else one is (kind is ice.In) for one in inside]


def test_rows_are_changed(tmp_path: Path) -> None:
    for form in ("delta", "iceberg"):
        changed = create_table(tmp_path / form, {"id": pa.int64(), "d": pa.date32()}, format=form)
        changed.append(pa.table({"id": [1, 2, 3, 4, 5], "d": [_DAY, None, _DAY, None, _DAY]}))
        changed.delete(ice.EqualTo("id", 1))
        changed.update({"id": "id + 10"}, ice.And(ice.NotNull("d"), ice.EqualTo("d", _DAY), ice.LessThan("id", 5)))
        changed.overwrite(pa.table({"id": [4]}), where=ice.In("id", [4, 5]))
        assert sorted(changed.scan().to_arrow()["id"].to_pylist()) == [2, 4, 13]


def test_others_are_refused_by_name(table: Any) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=True))
    bound = ice.EqualTo("id", 1).bind(schema)
    for refused in (bound, ice.Not(bound), ice.BoundReference):
        with pytest.raises(ExpressionError, match=r"BoundEqualTo|is not a filter"):
            as_filter(refused)
    too_great = ice.EqualTo("id", ice.literals.IntAboveMax())
    for refused, name in ((ice.Reference("id"), "Reference"), (too_great, "IntAboveMax")):
        with pytest.raises(UnsupportedExpressionError, match=f"class pyiceberg.expressions.*{name} are not taken"):
            table.scan(refused)
    with pytest.raises(ExpressionError, match="cannot be compared"):
        table.scan(ice.EqualTo("b", 1))
    # Texts of dates and timestamps would compare as texts with texts.
    for compared in (ice.NotEqualTo, ice.LessThan, lambda name, value: ice.In(name, [value, value + dt.timedelta(1)])):
        for column in ("s", "c", "id"):
            with pytest.raises(ExpressionError, match="a timestamp cannot be compared with a value of the type"):
                table.scan(compared(column, _MOMENT)).count()
            with pytest.raises(
                (ExpressionError, EvaluationError),
                match=r"not a value of the type date|date cannot be",
            ):
                table.scan(compared(column, _DAY)).count()
