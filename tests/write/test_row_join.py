"""Joining rows: the pairs, and what joins nothing, are those of a comparison of all pairs, whatever memory there is."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import TooLargeError
from deltaberg.table.merge.join import JoinKeys, JoinMemory, RowJoin
from deltaberg.table.merge.stored_rows import FileRows, StoredRows
from tests.support.effort import examples

_LEFT = pa.schema([("a", pa.int64()), ("f", pa.float64()), ("x", pa.int64()), ("address", pa.int64())])
_RIGHT = pa.schema([("b", pa.int64()), ("g", pa.float64()), ("y", pa.int64())])
_FLOATS = st.sampled_from([None, 0.0, -0.0, math.nan, 2.5])
_KEY = st.none() | st.integers(0, 3)


def _joins(left: tuple[Any, ...], right: tuple[Any, ...], *, keys: int, null_safe: list[bool]) -> bool:
    for (a, b), safe in list(zip(zip(left, right, strict=False), null_safe, strict=False))[:keys]:
        if a is None or b is None:
            if not (safe and a is b):
                return False
        elif not (a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b))):
            return False
    return bool(left[2] <= right[2])


def _shown(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple("NaN" if isinstance(value, float) and math.isnan(value) else value for value in row)


@given(
    st.lists(st.tuples(_KEY, _FLOATS, st.integers(0, 3)), max_size=25),
    st.lists(st.tuples(_KEY, _FLOATS, st.integers(0, 3)), max_size=25),
    st.integers(0, 2),
    st.lists(st.booleans(), min_size=2, max_size=2),
    st.sampled_from([1, 600, 1 << 20]),
    st.integers(1, 30),
)
@examples(150)
def test_pairs_of_a_comparison_of_all(
    left: list[tuple[Any, ...]],
    right: list[tuple[Any, ...]],
    keys: int,
    null_safe: list[bool],
    memory: int,
    batch: int,
) -> None:
    stored = StoredRows(_RIGHT, memory)
    rights = pa.Table.from_pylist([dict(zip(_RIGHT.names, row, strict=True)) for row in right], _RIGHT)
    for rows in rights.to_batches(max_chunksize=batch):
        stored.add(rows)
    lefts = pa.Table.from_pylist(
        [dict(zip(_LEFT.names, (*row, number), strict=True)) for number, row in enumerate(left)], _LEFT
    )
    join_keys = JoinKeys(
        [lambda rows: rows["a"], lambda rows: rows["f"]][:keys],
        [lambda rows: rows["b"], lambda rows: rows["g"]][:keys],
        null_safe[:keys],
    )
    counted: Counter[Any] = Counter()
    alone: Counter[int] = Counter()
    with (
        stored,
        RowJoin(
            stored,
            3,
            _LEFT,
            join_keys if keys else None,
            lambda pairs: pc.less_equal(pairs["x"], pairs["y"]),
            JoinMemory(memory),
        ) as join,
    ):
        for joined in join.pairs(lefts.to_batches(max_chunksize=batch)):
            addresses = joined.left["address"]
            assert joined.pairs.schema.names == ["a", "f", "x", "b", "g", "y"]
            pairs = zip(addresses.take(joined.numbers).to_pylist(), joined.pairs.to_pylist(), strict=True)
            for address, pair in pairs:
                counted[address, _shown(tuple(pair.values())[3:])] += 1
                assert _shown(tuple(pair.values())[:3]) == _shown(left[address])
            if joined.alone is not None:
                alone.update(addresses.take(joined.alone).to_pylist())
        rest = Counter(_shown(tuple(row.values())) for rows in join.rest() for row in rows.to_pylist())
    options: Any = {"keys": keys, "null_safe": null_safe}
    expected = Counter(
        (number, _shown(other)) for number, row in enumerate(left) for other in right if _joins(row, other, **options)
    )
    assert counted == expected
    assert alone == Counter(
        number for number, row in enumerate(left) if not any(_joins(row, other, **options) for other in right)
    )
    assert rest == Counter(_shown(other) for other in right if not any(_joins(row, other, **options) for row in left))


def test_one_key_of_many_rows_is_joined_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key with many rows on both sides makes more pairs than are held at a time."""
    monkeypatch.setattr("deltaberg.table.merge.join._PAIRS", 100)
    stored = StoredRows(pa.schema([("k", pa.int64())]), 1 << 20)
    stored.add(pa.record_batch({"k": [1] * 40 + [2]}))
    left = pa.record_batch({"k": [1, 2] * 30})
    keys = JoinKeys([lambda rows: rows["k"]], [lambda rows: rows["k"]], [False])
    with RowJoin(stored, 1, left.schema, keys) as join:
        sizes = [joined.pairs.num_rows for joined in join.pairs([left])]
    assert sum(sizes) == 30 * 40 + 30
    assert max(sizes) <= 200


@pytest.mark.one_backend
@pytest.mark.parametrize("most", [1, 7])
def test_pairs_that_are_too_large_are_joined_in_smaller_pieces(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """An array holds 2 GiB of text, which is less than the pairs of one key may have."""
    taken = RowJoin._checked

    def checked(self: RowJoin, left: Any, numbers: pa.Array, right: Any, others: pa.Array) -> Any:
        if len(numbers) > most:
            raise TooLargeError("too many")
        return taken(self, left, numbers, right, others)

    monkeypatch.setattr(RowJoin, "_checked", checked)
    stored = StoredRows(pa.schema([("k", pa.int64())]), 1 << 20)
    stored.add(pa.record_batch({"k": [1, 3]}))
    left = pa.record_batch({"k": [1, 2] * 30})
    keys = JoinKeys([lambda rows: rows["k"]], [lambda rows: rows["k"]], [False])
    with RowJoin(stored, 1, left.schema, keys, wants_alone=True) as join:
        found = list(join.pairs([left]))
    assert sum(joined.pairs.num_rows for joined in found) == 30
    assert sum(joined.left.num_rows for joined in found) == len(left)
    assert sum(len(joined.alone) for joined in found if joined.alone is not None) == 30
    stored = StoredRows(pa.schema([("k", pa.int64())]), 1 << 20)
    stored.add(pa.record_batch({"k": [1] * 8}))
    with RowJoin(stored, 1, left.schema, keys) as join, pytest.raises(TooLargeError, match="too many"):
        list(join.pairs([left]))


@pytest.mark.one_backend
def test_rows_of_files_are_read_by_file_and_position() -> None:
    schema = pa.schema([("position", pa.int64()), ("x", pa.string())])
    for memory in (1, 1 << 20):
        with FileRows(schema, memory) as rows:
            for number, position in ((3, 9), (1, 4), (3, 2), (1, 5), (3, 4)):
                batch = pa.record_batch({"position": [position], "x": [f"{number}-{position}"]}, schema)
                rows.add(number, batch)
            assert rows.of_file(3)["x"].to_pylist() == ["3-2", "3-4", "3-9"]
            assert rows.of_file(1)["x"].to_pylist() == ["1-4", "1-5"]
            assert rows.of_file(2).num_rows == 0
            assert rows.of_file(3)["position"].to_pylist() == [2, 4, 9]


_MEASURED = """
import sys
import pyarrow as pa
from deltaberg.table.merge.join import JoinKeys, JoinMemory, RowJoin
from deltaberg.table.merge.stored_rows import StoredRows
from tests.support.memory import peak_memory

count, folder = int(sys.argv[1]), sys.argv[2]
schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])

def batches(first):
    for number in range(count):
        k = pa.array(range(first + number * 50_000, first + (number + 1) * 50_000), pa.int64())
        yield pa.record_batch([k, k], schema)

memory = JoinMemory(24 << 20, folder)
keys = JoinKeys([lambda rows: rows["k"]], [lambda rows: rows["k"]], [False])
pairs = rest = 0
with StoredRows(schema, memory.limit // 4, folder) as right:
    for batch in batches(25_000):
        right.add(batch)
    with RowJoin(right, 2, schema, keys, memory=memory) as join:
        for joined in join.pairs(batches(0)):
            pairs += joined.pairs.num_rows
        rest = sum(rows.num_rows for rows in join.rest())
print(pairs, rest, peak_memory())
"""


@pytest.mark.full
@pytest.mark.one_backend
def test_memory_does_not_grow_with_either_side(tmp_path: Path) -> None:
    peaks = []
    for count in (15, 120):
        command = [sys.executable, "-c", _MEASURED, str(count), str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        pairs, rest, peak = map(int, done.stdout.split())
        assert (pairs, rest) == (count * 50_000 - 25_000, 25_000)
        peaks.append(peak)
    # Eight times the rows: 96 MB of them on each side. What is stored is removed at the end.
    assert peaks[1] - peaks[0] < 60 << 20, peaks
    assert not list(tmp_path.iterdir())
