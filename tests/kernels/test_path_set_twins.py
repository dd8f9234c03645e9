"""Sets of paths: both kernels find exactly the paths that are in a set of Python."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import InvalidArgumentError
from tests.kernels.twins import Raised, backends, twins
from tests.support.effort import examples

#: Few names, so that they meet: beginnings of one another, of equal length, empty, and spelled in two ways.
_names = st.sampled_from(["", "t", "t2", "t/", "t/a", "t/b", "a%20b", "a b", "é", "e\u0301", "\x00", "\n", "x" * 300])
_kinds = st.sampled_from([pa.string(), pa.large_string()])


@st.composite
def _arrays(draw: st.DrawFn) -> pa.Array | pa.ChunkedArray:
    kind = draw(_kinds)
    chunks = [pa.array(names, kind) for names in draw(st.lists(st.lists(_names, max_size=5), min_size=1, max_size=3))]
    # What stands in front of a slice is no part of it.
    sliced = [chunk.slice(draw(st.integers(0, 2))) for chunk in chunks]
    return pa.chunked_array(sliced, kind) if draw(st.booleans()) else sliced[0]


def _texts(arrays: list[Any]) -> list[str]:
    return [text for array in arrays for text in array.to_pylist()]


@examples(300)
@given(st.lists(_arrays(), max_size=4), st.lists(_names, max_size=12), _kinds)
def test_paths_are_found_that_are_in_the_set(arrays: list[Any], asked: list[str], kind: pa.DataType) -> None:
    members = set(_texts(arrays))
    assert twins(lambda kernels: len(kernels.PathSet(iter(arrays)))) == len(members)

    def ask(kernels: ModuleType) -> tuple[pa.Array, ...]:
        made = kernels.PathSet(arrays)
        before = made.unasked()
        numbers = made.numbers(pa.array(asked, kind))
        assert made.contains(pa.array(asked, kind)).equals(numbers.is_valid())
        return numbers, made.texts(numbers.drop_null()), before, made.unasked()

    numbers, texts, before, left = twins(ask)
    order = {path: number for number, path in enumerate(dict.fromkeys(_texts(arrays)))}
    assert numbers.to_pylist() == [order.get(path) for path in asked]
    assert texts.to_pylist() == [path for path in asked if path in members]
    found = twins(lambda kernels: kernels.PathSet(arrays).contains(pa.array(asked, kind)))
    assert found.to_pylist() == [path in members for path in asked]
    assert before.to_pylist() == list(dict.fromkeys(_texts(arrays)))
    assert left.to_pylist() == [path for path in dict.fromkeys(_texts(arrays)) if path not in asked]


def test_many_paths_from_a_stream() -> None:
    """Arrays are taken one at a time, and names that differ only at the end are told apart."""
    folder = "region=eu/day=2024-01-01/" + "x" * 60

    def arrays(taken: list[int]) -> Iterator[pa.Array]:
        for first in range(0, 100_000, 10_000):
            taken.append(first)
            yield pa.array([f"{folder}-{number:06}" for number in range(first, first + 12_000)])

    asked = pa.array([f"{folder}-{number:06}" for number in range(-5_000, 110_000)])
    taken: list[int] = []
    found = twins(lambda kernels: kernels.PathSet(arrays(taken)).contains(asked))
    assert found.to_pylist() == [0 <= number < 102_000 for number in range(-5_000, 110_000)]
    assert taken == 2 * list(range(0, 100_000, 10_000))


def _made(live: pa.Array, wrong: Any, kernels: ModuleType) -> Any:
    return kernels.PathSet([live, wrong])


def _asked(live: pa.Array, wrong: Any, kernels: ModuleType) -> Any:
    return kernels.PathSet([live]).contains(wrong)


def test_what_is_no_array_of_paths() -> None:
    live = pa.array(["a"])
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
    )
    for wrong, message in (
        (pa.array(["a", None]), "a path is null"),
        (pa.array([None], pa.large_string()), "a path is null"),
        (pa.array([1]), "paths are an array of strings"),
        (pa.array([b"a"]), "paths are an array of strings"),
        (pa.array(["a"]).dictionary_encode(), "paths are an array of strings"),
        (["a"], "an object with the Arrow PyCapsule interface was expected"),
        ("a", "an object with the Arrow PyCapsule interface was expected"),
        (None, "an object with the Arrow PyCapsule interface was expected"),
    ):
        for outcome in (twins(partial(_made, live, wrong)), twins(partial(_asked, live, wrong))):
            assert outcome == Raised(InvalidArgumentError, message, {})
    # An array is no iterable of arrays, and text that is not UTF-8 is none.
    for call in (lambda kernels: kernels.PathSet(live), lambda kernels: kernels.PathSet([broken])):
        outcome = twins(call, messages=False)
        assert isinstance(outcome, Raised)
        assert outcome.kind is InvalidArgumentError


@pytest.mark.parametrize(
    "wrong", [pa.array([2]), pa.array([0, -1]), pa.array([None], pa.int64()), pa.array([0], pa.int32()), [0]], ids=str
)
def test_numbers_of_no_path(wrong: Any) -> None:
    found = twins(lambda kernels: kernels.PathSet([pa.array(["a", "b"])]).texts(wrong), messages=False)
    assert isinstance(found, Raised)
    assert found.kind is InvalidArgumentError


@pytest.mark.parametrize("kernels", backends(), ids=lambda module: module.__name__)
def test_what_fails_in_the_iterable_is_raised(kernels: ModuleType) -> None:
    def arrays() -> Iterator[pa.Array]:
        yield pa.array(["a"])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        kernels.PathSet(arrays())
