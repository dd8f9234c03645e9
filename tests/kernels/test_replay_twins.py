"""Replay and reconciliation: native and Python agree on valid and invalid logs."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import CorruptLogError
from tests.kernels.json_text import broken
from tests.kernels.log_texts import commits, entries
from tests.kernels.scalar_texts import ODD_TEXTS
from tests.kernels.twins import Raised, native_kernels, same, twins
from tests.support.effort import examples

_KEYS = ["path", "deletionVector"]


def _replayed(log: list[tuple[int, bytes]]) -> Any:
    return twins(lambda kernels: kernels.replay(iter(log)), messages=False)


@examples(80)
@given(commits(sound=True))
def test_sound_commits(log: list[tuple[int, bytes]]) -> None:
    replayed = _replayed(log)
    if isinstance(replayed, Raised):
        return
    one, four = (native_kernels().replay(log, threads) for threads in (1, 4))
    assert same(replayed, one)
    assert same(replayed, four)


@examples(100)
@given(commits())
def test_odd_commits(log: list[tuple[int, bytes]]) -> None:
    _check(log)


@examples(100)
@given(entries(sound=True).flatmap(broken))
def test_broken_commits(data: bytes) -> None:
    _check([(7, data)])


@examples(80)
@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_arbitrary_bytes(data: bytes) -> None:
    _check([(0, data)])
    _check([(0, b'{"add":' + data + b"}")])


def _check(log: list[tuple[int, bytes]]) -> None:
    replayed = _replayed(log)
    if isinstance(replayed, Raised):
        assert replayed.kind is CorruptLogError
        assert set(replayed.context) <= {"version", "line"}
        return
    _check_places(replayed.adds, dict(log))


@examples(30)
@given(ODD_TEXTS)
def test_odd_paths_in_messages(path: str) -> None:
    add = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    vectors = [{"storageType": "u", "pathOrInlineDv": name, "sizeInBytes": 1, "cardinality": 1} for name in "ab"]
    lines = [json.dumps({"add": {**add, "deletionVector": vector}}) for vector in vectors]
    found = twins(lambda kernels: kernels.replay([(0, "\n".join(lines).encode())]))
    assert isinstance(found, Raised)
    assert "is added twice in one commit" in found.message


def _check_places(adds: pa.Table, log: dict[int, bytes]) -> None:
    """The place of statistics is what stands between the quotes."""
    for version, place in zip(adds.column("version").to_pylist(), adds.column("stats").to_pylist(), strict=True):
        if place is not None:
            data, end = log[version], place["offset"] + place["length"]
            assert data[place["offset"] - 1 : place["offset"]] == data[end : end + 1] == b'"'
            assert isinstance(json.loads(data[place["offset"] - 1 : end + 1]), str)


@pytest.mark.parametrize("depth", [125, 126, 127, 128, 129, 100_000])
@pytest.mark.parametrize("brackets", ["[]", "{}"])
@pytest.mark.parametrize("line", ['{"new":%s}', '{"add":{"x":%s}}', '{"metaData":%s}', "%s"])
def test_depth(depth: int, brackets: str, line: str) -> None:
    opening, closing = ("[", "]") if brackets == "[]" else ('{"k":', "}")
    nested = (opening * depth).removesuffix('"k":') + closing * depth
    for text in (nested, nested[: depth // 2]):
        found = _replayed([(1, (line % text).encode())])
        if depth + line.count("{") > 128 or text != nested:
            assert isinstance(found, Raised)


@examples(50)
@given(commits(sound=True), commits(sound=True), st.sampled_from(["add", "remove"]))
def test_reconcile(newer: list[tuple[int, bytes]], older: list[tuple[int, bytes]], role: str) -> None:
    found = [_replayed(newer), _replayed(older)]
    if any(isinstance(one, Raised) for one in found):
        return
    adds, removes = found[0].adds.select(_KEYS), found[0].removes.select([*_KEYS, "pathAdded"])
    state = (found[1].adds if role == "add" else found[1].removes).select(_KEYS)
    given_ = (adds.to_batches(), removes.to_batches(), state.to_batches(max_chunksize=2))
    keep = twins(lambda kernels: kernels.reconcile(*given_, role))
    assert len(keep) == len(state)
    assert same(keep, native_kernels().reconcile(*given_, role, 3))


_DESCRIPTORS = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)


def _files() -> st.SearchStrategy[pa.RecordBatch]:
    text = st.sampled_from(["a", "file:/a", "/a", "%61", None, "", "u", "ü"])
    vector = st.none() | st.fixed_dictionaries(
        {"storageType": text, "pathOrInlineDv": text, "offset": st.none() | st.integers(0, 2)}
    )
    rows = st.lists(st.tuples(text, vector, st.none() | st.booleans()), max_size=5)
    return rows.map(
        lambda found: pa.record_batch(
            {
                "path": pa.array([row[0] for row in found], pa.string()),
                "deletionVector": pa.array([row[1] for row in found], _DESCRIPTORS),
                "pathAdded": pa.array([row[2] for row in found], pa.bool_()),
            }
        )
    )


@examples(50)
@given(st.lists(_files(), max_size=2), st.lists(_files(), max_size=2), st.lists(_files(), max_size=2), st.data())
def test_reconcile_of_any_columns(
    adds: list[pa.RecordBatch], removes: list[pa.RecordBatch], older: list[pa.RecordBatch], data: st.DataObject
) -> None:
    """What a checkpoint of a hostile writer holds: nulls where none may be, columns left out."""
    role = data.draw(st.sampled_from(["add", "remove", "other"]))
    lacking = data.draw(st.sampled_from([None, None, "path", "deletionVector"]))
    if lacking is not None:
        older = [batch.drop_columns([lacking]) for batch in older]
    twins(lambda kernels: kernels.reconcile(adds, removes, older, role))
