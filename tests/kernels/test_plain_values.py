"""Values made without pandas are those that pyarrow makes, and it refuses the others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltaberg.kernels import plain_values as pv

pytestmark = pytest.mark.one_backend

_INTEGERS = st.integers(-(1 << 65), 1 << 65) | st.integers(-5, 5)
_DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=3) | st.just(Decimal("Infinity"))
_PLAIN = {
    pa.bool_(): st.booleans(),
    pa.int32(): _INTEGERS,
    pa.int64(): _INTEGERS,
    pa.float64(): st.floats() | st.integers(-5, 5),
    pa.string(): st.text(),
    pa.decimal128(6, 3): _DECIMALS,
    pa.decimal256(60, 4): _DECIMALS,
}
_COLUMNS = st.sampled_from(list(_PLAIN)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(st.none() | _PLAIN[kind], max_size=20))
)


def _outcome(make: Callable[[], pa.Array | pa.Scalar]) -> tuple[Any, ...]:
    try:
        values = make()
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError) as error:
        return (type(error),)
    if isinstance(values, pa.Array):
        values.validate(full=True)
    # The text tells 0.0 from -0.0, and has NaN once.
    return values.type, str(values.to_pylist() if isinstance(values, pa.Array) else values.as_py())


@example((pa.string(), ["\ud800"]))
@example((pa.decimal128(6, 3), [Decimal("1E+999999999"), Decimal("-0"), Decimal("999.999")]))
@given(_COLUMNS)
def test_values_are_those_of_pyarrow(column: tuple[pa.DataType, list[Any]]) -> None:
    kind, values = column
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "pandas", raising=False)
        assert _outcome(lambda: pv.array(values, kind)) == _outcome(lambda: pa.array(values, kind))
        for value in values:
            assert _outcome(partial(pv.scalar, value, kind)) == _outcome(partial(pa.scalar, value, kind))


@pytest.mark.parametrize("value", [True, 5, 1.5, "a", b"a", None, 1 << 63])
def test_types_of_scalars_are_those_of_pyarrow(value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    assert _outcome(lambda: pv.scalar(value)) == _outcome(lambda: pa.scalar(value))


def test_scalars_and_many_values_become_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    scalars = [pa.scalar(5, pa.timestamp("us")), pa.scalar(None, pa.timestamp("us"))]
    assert pv.array(scalars, pa.timestamp("us")).equals(pa.array(scalars, pa.timestamp("us")))
    assert pv.array(range(10_000), pa.int64()).equals(pa.array(range(10_000), pa.int64()))
