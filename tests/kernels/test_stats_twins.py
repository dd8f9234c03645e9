"""Statistics: native and Python agree on every type and any text, and the contents of a file never raise."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import InvalidArgumentError
from tests.kernels.json_text import Members, Raw, broken, spell, values
from tests.kernels.scalar_texts import PRIMITIVES, texts
from tests.kernels.twins import Raised, native_kernels, same, twins
from tests.support.effort import examples

_PATHS = [("a",), ("b",), ("s", "x"), ("s", "y"), ("s", "t", "z"), ("ü",), ("numRecords",), ('"',), ("\n", "a.b")]

_Leaf = tuple[tuple[str, ...], str | None]


def _leaves() -> st.SearchStrategy[list[_Leaf]]:
    primitive = st.none() | st.sampled_from(PRIMITIVES)
    return st.lists(st.tuples(st.sampled_from(_PATHS), primitive), max_size=4, unique_by=lambda leaf: leaf[0])


def _bounds(primitive: str | None) -> st.SearchStrategy[Any]:
    """Draw values for a leaf: its own texts as strings and as numbers, and anything else."""
    own = texts(primitive or "long")
    numbers = st.sampled_from(["0", "-0", "1.5", "1e3", "9223372036854775808", "0.1", "123456789.123456789", "1e400"])
    return own | own.filter(_is_number).map(Raw) | numbers.map(Raw) | st.booleans() | values()


def _is_number(text: str) -> bool:
    try:
        return not isinstance(json.loads(text, parse_constant=lambda name: name), (str, bool, dict, list, type(None)))
    except (ValueError, RecursionError):
        return False


@st.composite
def _statistics(draw: st.DrawFn, leaves: list[_Leaf]) -> str:
    parts: list[tuple[str, Any]] = []
    counts = st.integers(0, 100) | st.integers() | st.sampled_from([Raw("1.0"), Raw("-0"), Raw("1e2"), "3", None])
    if draw(st.booleans()):
        parts.append(("numRecords", draw(counts)))
    if draw(st.booleans()):
        parts.append(("tightBounds", draw(st.booleans() | values())))
    for name in draw(st.lists(st.sampled_from(["minValues", "maxValues", "nullCount"]), max_size=4)):
        tree: list[tuple[str, Any]] = []
        for path, primitive in leaves:
            if draw(st.integers(0, 4)):
                _put(tree, path, draw(counts if name == "nullCount" else _bounds(primitive)))
        if not draw(st.integers(0, 5)):
            tree.append((draw(st.sampled_from(["a", "s", "other", "\ud800"])), draw(values())))
        parts.append((name, Members(tree)))
    if not draw(st.integers(0, 5)):
        parts.append(("other", draw(values())))
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    return spell(Members(parts), rng if draw(st.booleans()) else None)


def _put(tree: list[tuple[str, Any]], path: tuple[str, ...], value: Any) -> None:
    name, *rest = path
    if not rest:
        tree.append((name, value))
        return
    inside = next((known for key, known in tree if key == name and isinstance(known, Members)), None)
    if inside is None:
        inside = Members([])
        tree.append((name, inside))
    _put(inside.pairs, tuple(rest), value)


@st.composite
def _cases(draw: st.DrawFn) -> tuple[list[_Leaf], list[str | None]]:
    leaves = draw(_leaves())
    rows: list[str | None] = []
    for _ in range(draw(st.integers(0, 5))):
        text: str | None = draw(_statistics(leaves))
        kind = draw(st.integers(0, 7))
        if kind == 0 and text is not None:
            text = draw(broken(text.encode("utf-8", "surrogatepass"))).decode(errors="replace")
        elif kind == 1:
            text = draw(st.none() | st.text(max_size=10))
        rows.append(None if text is None else text.encode("utf-8", "replace").decode())
    return leaves, rows


@examples(150)
@given(_cases())
def test_texts(case: tuple[list[_Leaf], list[str | None]]) -> None:
    leaves, rows = case
    array = pa.array(rows, pa.string())
    found = twins(lambda kernels: kernels.parse_stats(array, leaves))
    assert len(found) == len(rows)
    assert same(found, native_kernels().parse_stats(array, leaves, 3))


@examples(100)
@given(_cases(), st.integers(0, 1 << 32), st.data())
def test_texts_in_the_log(case: tuple[list[_Leaf], list[str | None]], seed: int, data: st.DataObject) -> None:
    """The same statistics inside of commits, escaped as JSON strings are, at the places that a replay gives."""
    leaves, rows = case
    rng = random.Random(seed)
    commits: list[tuple[int, bytes]] = []
    expected_texts: list[str | None] = []
    for version in range(3, 0, -1):
        lines = []
        for index, text in enumerate(rows):
            body = {"path": f"{version}-{index}", "partitionValues": {}, "size": 1, "modificationTime": 1}
            lines.append(spell({"add": {**body, "dataChange": True, "stats": text}}, rng))
            expected_texts.append(text)
        commits.append((version, "\n".join(lines).encode("utf-8", "surrogatepass")))
    adds = twins(lambda kernels: kernels.replay(commits)).adds
    versions, places = (adds.column(name).combine_chunks() for name in ("version", "stats"))
    gone = data.draw(st.sampled_from([None, 1, 2, 3]))
    if not len(adds):
        return
    given_ = [(version, None if version == gone else text) for version, text in commits]
    found = twins(lambda kernels: kernels.parse_log_stats(versions, places, iter(given_), leaves))
    known = [
        None if version == gone else text for version, text in zip(versions.to_pylist(), expected_texts, strict=True)
    ]
    assert same(found, native_kernels().parse_stats(pa.array(known, pa.string()), leaves))


_PLACES = pa.struct([("offset", pa.int64()), ("length", pa.int32())])


@examples(100)
@given(
    st.binary(max_size=40) | st.text('"\\u{}aN0d8', max_size=20).map(str.encode),
    st.lists(st.tuples(st.integers(-3, 50), st.integers(-3, 50)) | st.none(), min_size=1, max_size=3),
    st.sampled_from([1, 2]),
)
def test_places_that_lie(data: bytes, places: list[tuple[int, int] | None], version: int) -> None:
    rows = [None if place is None else {"offset": place[0], "length": place[1]} for place in places]
    versions = pa.array([1] * len(rows), pa.int64())
    array = pa.array(rows, _PLACES)
    leaves: list[_Leaf] = [(("a",), "string")]
    found = twins(lambda kernels: kernels.parse_log_stats(versions, array, [(version, data)], leaves))
    outside = any(place is not None and (min(place) < 0 or sum(place) > len(data)) for place in places)
    assert isinstance(found, Raised) == (outside or version == 2)
    if isinstance(found, Raised):
        assert found.kind is InvalidArgumentError
