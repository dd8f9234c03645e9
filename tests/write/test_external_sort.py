"""Sorting on disk: the order is that of a stable sort in memory, whatever the runs are, and nothing is left behind."""

from __future__ import annotations

import datetime as dt
import errno
import os
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import StorageError
from deltaberg.table.sort import external_sort
from deltaberg.table.sort.external_sort import sort_batches
from deltaberg.table.sort.order import OrderTerm, sort_indices
from tests.support.effort import examples

pytestmark = pytest.mark.one_backend

_NAN = float("nan")
_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [3, 1, 2, -5]),
    "double": (pa.float64(), [0.0, -0.0, _NAN, 1.5, float("-inf")]),
    "string": (pa.string(), ["b", "", "ä", "\U0001f600", "\uffff"]),
    "binary": (pa.binary(), [b"\xff", b"", b"a"]),
    "fixed": (pa.binary(2), [b"\xff\x00", b"\x00\x01"]),
    "decimal": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-2.25")]),
    "boolean": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [dt.date(1960, 1, 1), dt.date(2020, 1, 1)]),
    "timestamp": (pa.timestamp("us", "UTC"), [dt.datetime(1, 1, 1, tzinfo=dt.timezone.utc), 0]),
}


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a block be a row or a few of them, and runs hold little more."""
    monkeypatch.setattr(external_sort, "_SMALLEST_BLOCK", 1)


@st.composite
def _sorts(draw: st.DrawFn) -> tuple[list[pa.RecordBatch], list[OrderTerm], int]:
    names = draw(st.lists(st.sampled_from(list(_VALUES)), min_size=1, max_size=3))
    terms = [
        OrderTerm((str(number),), descending=draw(st.booleans()), nulls_first=draw(st.booleans()))
        for number in range(len(names))
    ]
    sizes = draw(st.lists(st.integers(0, 9), max_size=12))
    rng = random.Random(draw(st.integers(0, 1 << 20)))
    batches, at = [], 0
    for size in sizes:
        columns = [
            pa.array([rng.choice([None, *_VALUES[name][1]]) for _ in range(size)], _VALUES[name][0]) for name in names
        ]
        columns.append(pa.array(range(at, at + size), pa.int64()))
        batches.append(pa.record_batch(columns, [*map(str, range(len(names))), "at"]))
        at += size
    return batches, terms, draw(st.integers(1, 3000))


@examples(200)
@given(_sorts())
def test_it_is_the_stable_sort_of_all_rows(
    tiny: None, given_sort: tuple[list[pa.RecordBatch], list[OrderTerm], int]
) -> None:
    batches, terms, memory = given_sort
    if not batches:
        return
    whole = pa.Table.from_batches(batches)
    found = pa.Table.from_batches(sort_batches(batches, whole.schema, terms, memory=memory), whole.schema)
    assert found["at"].to_pylist() == whole.take(sort_indices(whole, terms))["at"].to_pylist()


@pytest.fixture(scope="module")
def tiny() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(external_sort, "_SMALLEST_BLOCK", 1)
        yield


@pytest.mark.parametrize("runs", [1, 2, 3, 7, 50])
def test_more_runs_than_are_merged_at_once(
    runs: int, tiny_blocks: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two runs are merged at a time. Equal rows stay in their order through all passes."""
    monkeypatch.setattr(external_sort, "_RUNS", 2)
    stored: list[int] = []
    store = external_sort._Sort.store

    def counted(self: Any, rows: Any, place: int | None = None) -> None:
        store(self, rows, place)
        stored.append(len(self.runs))

    monkeypatch.setattr(external_sort._Sort, "store", counted)
    rng = random.Random(runs)
    values = [rng.randrange(5) for _ in range(runs * 10)]
    rows = pa.table({"x": pa.array(values, pa.int64()), "at": pa.array(range(len(values)), pa.int64())})
    batches = rows.to_batches(max_chunksize=10)
    found = list(sort_batches(batches, rows.schema, [OrderTerm(("x",))], memory=480, directory=str(tmp_path)))
    assert pa.Table.from_batches(found)["at"].to_pylist() == sorted(range(len(values)), key=values.__getitem__)
    # A merge of two runs takes one of them away.
    assert len(stored) == (0 if runs == 1 else runs + max(runs - 2, 0))
    assert not os.listdir(tmp_path)


def test_rows_of_any_type_go_along(tiny_blocks: None, tmp_path: Path) -> None:
    nested: list[Any] = [{"a": [1, None], "m": [("k", b"v")]}, None, {"a": [], "m": []}] * 20
    kind = pa.struct([("a", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.binary()))])
    rows = pa.table(
        {"x": list(range(60, 0, -1)), "nested": pa.array(nested, kind), "text": ["ä" * n for n in range(60)]}
    )
    batches = rows.to_batches(max_chunksize=7)
    found = sort_batches(batches, rows.schema, [OrderTerm(("x",))], memory=700, directory=str(tmp_path))
    assert pa.Table.from_batches(found).to_pylist() == rows.to_pylist()[::-1]


def _many(count: int, size: int) -> Iterator[pa.RecordBatch]:
    rng = random.Random(3)
    for _ in range(count):
        raw = rng.randbytes(8 * size)
        keys = pa.Array.from_buffers(pa.int64(), size, [None, pa.py_buffer(raw)])
        yield pa.record_batch({"x": keys, "y": keys, "text": keys.cast(pa.string())})


_SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("text", pa.string())])


#: A pool lives as long as the process, since Arrow itself may keep memory of it.
_POOLS: list[pa.MemoryPool] = []


@pytest.mark.parametrize("batches", [20, 80])
def test_memory_does_not_grow_with_the_rows(batches: int, tmp_path: Path) -> None:
    """A batch has about 2 MiB, so that all of them have 40 or 160 MiB."""
    memory = 16 << 20
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    _POOLS.append(pool)
    pa.set_memory_pool(pool)
    try:
        last, count = -(1 << 63), 0
        terms = [OrderTerm(("x",))]
        for batch in sort_batches(_many(batches, 50_000), _SCHEMA, terms, memory=memory, directory=str(tmp_path)):
            ends = pc.min_max(batch["x"])
            assert last <= ends["min"].as_py() == batch["x"][0].as_py()
            last = ends["max"].as_py()
            count += batch.num_rows
    finally:
        pa.set_memory_pool(usual)
    assert count == batches * 50_000
    assert pool.max_memory() < 2 * memory
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("end", ["close", "fail"])
def test_nothing_is_left_where_it_ends_early(end: str, tiny_blocks: None, tmp_path: Path) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield from _many(5, 100)
        assert os.listdir(tmp_path)
        if end == "fail":
            raise KeyboardInterrupt

    batches = sort_batches(rows(), _SCHEMA, [OrderTerm(("x",))], memory=1000, directory=str(tmp_path))
    if end == "fail":
        with pytest.raises(KeyboardInterrupt):
            next(batches)
    else:
        assert next(batches).num_rows
        assert os.listdir(tmp_path)
        batches.close()  # type: ignore[attr-defined]
    assert not os.listdir(tmp_path)


def test_a_full_disk(tiny_blocks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: Any, **_options: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pyarrow.OSFile", full)
    with pytest.raises(StorageError, match="rows that are being sorted cannot be stored: No space") as caught:
        list(sort_batches(_many(5, 100), _SCHEMA, [OrderTerm(("x",))], memory=1000, directory=str(tmp_path)))
    assert "TMPDIR" in str(caught.value)
    assert not os.listdir(tmp_path)
