"""Both backends side by side: what one returns or raises, the other must return or raise too."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from deltaberg import kernels
from deltaberg.errors import DeltabergError, KernelUnavailableError
from deltaberg.kernels import Replay, pure

__all__ = ["Raised", "backends", "native_kernels", "same", "twins"]


def native_kernels() -> ModuleType:
    """Return the compiled kernels; skip where there are none."""
    try:
        return kernels.backend("native")
    except KernelUnavailableError as error:
        pytest.skip(f"{error.message}: {error.context['why']}")


def backends() -> list[ModuleType]:
    """Return the installed backends."""
    try:
        return [pure, kernels.backend("native")]
    except KernelUnavailableError:
        return [pure]


class Raised(NamedTuple):
    """One of our exceptions, as a value."""

    kind: type[DeltabergError]
    message: str
    context: dict[str, Any]


def twins(call: Callable[[ModuleType], Any], messages: bool = True) -> Any:
    """Run a call on both backends, and return what both of them returned or, as `Raised`, raised.

    Without ``messages``, exceptions must only agree in class and context.
    """
    outcome, expected = (_outcome(call, module) for module in (native_kernels(), pure))
    if isinstance(outcome, Raised) and isinstance(expected, Raised) and not messages:
        assert (outcome.kind, outcome.context) == (expected.kind, expected.context), (outcome, expected)
    else:
        assert same(outcome, expected), f"\nnative: {_shown(outcome)}\npython: {_shown(expected)}"
    return outcome


def _outcome(call: Callable[[ModuleType], Any], module: ModuleType) -> Any:
    try:
        return call(module)
    except DeltabergError as error:
        return Raised(type(error), error.message, error.context)


def _shown(found: Any) -> str:
    return "\n".join(str(part) for part in found) if isinstance(found, Replay) else repr(found)


def same(left: Any, right: Any) -> bool:
    """Return whether two results are the same, including NaN and Arrow types, but not the chunks of tables."""
    if isinstance(left, Replay) and isinstance(right, Replay):
        return all(same(*pair) for pair in zip(left, right, strict=True))
    if isinstance(left, (pa.Table, pa.RecordBatch)):
        if type(left) is not type(right) or not left.schema.equals(right.schema) or len(left) != len(right):
            return False
        return all(same(*pair) for pair in zip(left.columns, right.columns, strict=True))
    if isinstance(left, pa.ChunkedArray):
        return isinstance(right, pa.ChunkedArray) and same(left.combine_chunks(), right.combine_chunks())
    if isinstance(left, pa.Array):
        if not isinstance(right, pa.Array) or left.type != right.type:
            return False
        left.validate(full=True)
        right.validate(full=True)
        return bool(_comparable(left).equals(_comparable(right)))
    return type(left) is type(right) and bool(left == right)


def _comparable(array: pa.Array) -> pa.Array:
    """Return floats as their bits, because NaN does not equal itself."""
    bits = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(array.type)
    return array if bits is None else array.view(bits)
