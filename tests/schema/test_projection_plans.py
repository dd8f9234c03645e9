"""The columns of a file are found by id, by name, and by name regardless of case, in linear time."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest

from deltaberg.schema import projection
from deltaberg.schema.name_mapping import FIELD_ID, field_id
from deltaberg.schema.projection import Projections, find_leaf, plan_projection
from deltaberg.schema.types import Field, Primitive, Struct

pytestmark = pytest.mark.one_backend

_LONG = Primitive("long")
_COLUMNS = 2_000


def _file(*columns: tuple[str, int | None]) -> pa.Schema:
    return pa.schema(
        [
            pa.field(name, pa.int64(), metadata=None if number is None else {FIELD_ID: str(number)})
            for name, number in columns
        ]
    )


def _found(want: Field, schema: pa.Schema, by_id: bool) -> int | None:
    """Return the number of the column that is read, which both functions that look for columns must agree on."""
    leaves = plan_projection([want], schema, by_id).leaves
    leaf = find_leaf([want], schema, by_id)
    assert leaves == ([] if leaf is None else [leaf.number])
    return None if leaf is None else leaf.number


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ([("b", 2), ("a", 1)], 1),
        ([("a", 2), ("b", 1)], 1),
        ([("a", 2), ("b", 1), ("c", 1)], 1),
        ([("a", None), ("b", 3)], None),
        ([("a", None), ("b", 1)], 1),
    ],
)
def test_columns_by_id(columns: list[tuple[str, int | None]], found: int | None) -> None:
    """The first of those with the id, whatever their names are."""
    assert _found(Field("a", _LONG, id=1), _file(*columns), by_id=True) == found


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["b", "a"], 1),
        (["A", "a"], 1),
        (["a", "A"], 0),
        (["b", "A"], 1),
        (["A", "A"], None),
        (["b"], None),
        (["x", "a", "y"], 1),
    ],
)
@pytest.mark.parametrize("by_id", [False, True])
def test_columns_by_name(names: list[str], found: int | None, by_id: bool) -> None:
    """The very name, or else the only one that differs in case; a field without an id is found so in any file."""
    schema = _file(*((name, 7 + at) for at, name in enumerate(names)))
    assert _found(Field("A title", _LONG, physical_name="a"), schema, by_id) == found


class _Counted:
    """A schema that counts how often its columns are gone through."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.looks = 0

    def __iter__(self) -> Iterator[pa.Field]:
        self.looks += 1
        return iter(self._schema)


@pytest.mark.parametrize("by_id", [True, False])
def test_the_columns_of_a_file_are_gone_through_once(by_id: bool) -> None:
    """And not for each column that is wanted."""
    schema = _Counted(_file(*((f"C{number}", number) for number in range(_COLUMNS))))
    wanted = [Field(f"c{number}", _LONG, id=number) for number in reversed(range(_COLUMNS))]
    plan = plan_projection(wanted, schema, by_id)
    assert plan.leaves == list(range(_COLUMNS))
    assert [source and source[0] for source in plan.sources] == [f"C{number}" for number in reversed(range(_COLUMNS))]
    # Once more to see that there are ids.
    assert schema.looks <= 2


def test_each_field_of_a_struct_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = _file(*((f"c{number}", number) for number in range(_COLUMNS)))
    schema = pa.schema([pa.field("s", pa.struct(list(inner)), metadata={FIELD_ID: "9999"})])
    reversed_struct = Struct(tuple(Field(f"c{number}", _LONG, id=number) for number in reversed(range(_COLUMNS))))
    looks = 0

    def counted(child: pa.Field) -> int | None:
        nonlocal looks
        looks += 1
        return field_id(child)

    monkeypatch.setattr(projection, "field_id", counted)
    assert plan_projection([Field("s", reversed_struct, id=9999)], schema, by_id=True).leaves == list(range(_COLUMNS))
    assert looks <= _COLUMNS + 3


def test_a_plan_serves_files_of_the_same_schema_only() -> None:
    projections = Projections()
    columns = [Field("a", Primitive("long"), id=1), Field("b", Primitive("string"), id=2)]
    first = pa.schema([_with_id("a", pa.int64(), 1), _with_id("b", pa.string(), 2)])
    same = pa.schema([_with_id("a", pa.int64(), 1), _with_id("b", pa.string(), 2)])
    swapped = pa.schema([_with_id("a", pa.string(), 2), _with_id("b", pa.int64(), 1)])
    narrow = pa.schema([_with_id("a", pa.int32(), 1)])
    planned = projections.plan(columns, first, by_id=True)
    assert projections.plan(list(columns), same, by_id=True) is planned
    for schema, by_id in ((swapped, True), (narrow, True), (first, True), (narrow, False), (first, False)):
        for fields in (columns, columns[:1]):
            again = projections.plan(fields, schema, by_id)
            fresh = plan_projection(fields, schema, by_id)
            names = [[source and source[0] for source in plan.sources] for plan in (again, fresh)]
            assert (again.leaves, names[0], again.wanted) == (fresh.leaves, names[1], fields)
    assert pickle.loads(pickle.dumps(projections)).plan(columns, first, by_id=True) is not planned


def _with_id(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={FIELD_ID: str(number)})
