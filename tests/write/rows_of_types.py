"""Hypothesis strategies for schemas of any type, and for rows that fit them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.types import DataType, Decimal, Field, Fixed, List, Map, Primitive, Struct

__all__ = ["Rows", "leaf_types", "rows_of_types", "table_of", "values_of"]

#: A schema, and rows as dictionaries.
Rows = tuple[Struct, list[dict[str, Any]]]

_UTC = dt.timezone.utc
_INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_INSTANTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(max_size=50),
    "binary": st.binary(max_size=50),
    "date": st.dates(),
    "timestamp": _INSTANTS.map(lambda instant: instant.replace(tzinfo=_UTC)),
    "timestamp_ntz": _INSTANTS,
    **{
        name: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) | st.integers(-3, 3)
        for name, bits in _INTEGERS.items()
    },
}

leaf_types: st.SearchStrategy[DataType] = st.one_of(
    st.sampled_from([Primitive(name) for name in _VALUES]),
    st.integers(1, 38).flatmap(lambda size: st.builds(Decimal, st.just(size), st.integers(0, size))),
    st.builds(Fixed, st.integers(1, 20)),
)


def _nested(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    element = st.builds(lambda kind, nullable: List(Field("element", kind, nullable)), inner, st.booleans())
    entries = st.builds(
        lambda kind, nullable: Map(Field("key", Primitive("string"), nullable=False), Field("value", kind, nullable)),
        inner,
        st.booleans(),
    )
    return st.one_of(element, entries, _structs(inner, "f"))


def _structs(kinds: st.SearchStrategy[DataType], prefix: str) -> st.SearchStrategy[Struct]:
    fields = st.lists(st.tuples(kinds, st.booleans()), min_size=1, max_size=3)

    def struct(chosen: list[tuple[DataType, bool]]) -> Struct:
        return Struct(tuple(Field(f"{prefix}{n}", kind, nullable) for n, (kind, nullable) in enumerate(chosen)))

    return fields.map(struct)


def values_of(field: Field) -> st.SearchStrategy[Any]:
    """Return values of a field, with nulls where it has them."""
    found = _values(field.type)
    return st.none() | found if field.nullable else found


def _values(kind: DataType) -> st.SearchStrategy[Any]:
    if isinstance(kind, Struct):
        return st.fixed_dictionaries({child.name: values_of(child) for child in kind})
    if isinstance(kind, List):
        return st.lists(values_of(kind.element), max_size=4)
    if isinstance(kind, Map):
        return st.dictionaries(values_of(kind.key), values_of(kind.value), max_size=3).map(lambda d: list(d.items()))
    if isinstance(kind, Fixed):
        return st.binary(min_size=kind.length, max_size=kind.length)
    if isinstance(kind, Decimal):
        most, exponent = 10**kind.precision - 1, -kind.scale
        return st.integers(-most, most).map(lambda number: _decimal(number, exponent))
    assert isinstance(kind, Primitive)
    return _VALUES[kind.name]


def _decimal(number: int, exponent: int) -> PyDecimal:
    return PyDecimal((int(number < 0), tuple(int(digit) for digit in str(abs(number))), exponent))


def rows_of_types(most: int = 30) -> st.SearchStrategy[Rows]:
    """Return schemas with rows that fit them."""
    kinds = st.recursive(leaf_types, _nested, max_leaves=4)
    return _structs(kinds, "c").flatmap(lambda schema: st.tuples(st.just(schema), _rows(schema, most)))


def _rows(schema: Struct, most: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    make: Callable[[Struct], st.SearchStrategy[Any]] = _values
    return st.lists(make(schema), min_size=1, max_size=most)


def table_of(rows: Rows) -> pa.Table:
    """Return rows as an Arrow table."""
    schema, values = rows
    return pa.Table.from_pylist(values, arrow_schema(schema))
