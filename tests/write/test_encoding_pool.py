"""Encoding on threads: files side by side, the jobs of a file in order, and no rows kept longer than needed."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from deltaberg.table.write import encoding
from deltaberg.table.write.encoding import EncodingPool, Job
from deltaberg.workers import wait_for

pytestmark = pytest.mark.one_backend

_LARGE = 2 << 20


@pytest.fixture
def pool() -> Iterator[EncodingPool]:
    made = EncodingPool(2, 100 * _LARGE)
    yield made
    made.stop()


class _Rows:
    """What a job holds; a reference to it can be weak."""

    def encode(self) -> str:
        return "encoded"


def test_a_job_that_waits_for_its_file_keeps_no_thread(pool: EncodingPool) -> None:
    """With two threads, the first job of another file begins although two jobs of the first file are not done."""
    other_ran = threading.Event()
    first = pool.submit(None, _LARGE, lambda: other_ran.wait(30))
    second = pool.submit(first, _LARGE, lambda: "second")
    pool.submit(None, _LARGE, other_ran.set)
    assert first.result() is True
    assert second.result() == "second"


def test_files_are_finished_before_others_begin() -> None:
    """Otherwise all files of a write would be open at the end."""
    pool = EncodingPool(1, 1000 * _LARGE)
    order: list[str] = []
    begin = threading.Event()
    gate = pool.submit(None, _LARGE, lambda: begin.wait(30))
    ends: list[Job[Any]] = []
    for file in "abc":
        written = pool.submit(None, _LARGE, partial(order.append, f"write {file}"))
        ends.append(pool.submit(written, 0, partial(order.append, f"finish {file}")))
    begin.set()
    assert gate.result() is True
    for end in ends:
        end.result()
    pool.stop()
    assert order == [f"{step} {file}" for file in "abc" for step in ("write", "finish")]


def test_a_file_whose_rows_are_written_is_finished_before_others_begin() -> None:
    """Also where the rows were written before the end of the file was submitted."""
    pool = EncodingPool(1, 1000 * _LARGE)
    order: list[str] = []
    begin = threading.Event()
    written = pool.submit(None, _LARGE, partial(order.append, "write a"))
    written.wait()
    gate = pool.submit(None, _LARGE, lambda: begin.wait(30))
    others = [pool.submit(None, _LARGE, partial(order.append, f"write {file}")) for file in "bc"]
    end = pool.submit(written, 0, partial(order.append, "finish a"))
    begin.set()
    jobs: list[Job[Any]] = [gate, *others, end]
    for job in jobs:
        job.result()
    pool.stop()
    assert order == ["write a", "finish a", "write b", "write c"]


def test_the_end_drops_what_has_not_begun() -> None:
    """With the rows that it holds, and what follows it."""
    pool = EncodingPool(1, 1000 * _LARGE)
    begun, begin = threading.Event(), threading.Event()

    def wait() -> bool:
        begun.set()
        return begin.wait(30)

    running = pool.submit(None, _LARGE, wait)
    rows = _Rows()
    reference = weakref.ref(rows)
    dropped = pool.submit(None, _LARGE, rows.encode)
    following = [pool.submit(dropped, 0, rows.encode), pool.submit(running, 0, rows.encode)]
    del rows
    assert begun.wait(30)
    threading.Timer(0.05, begin.set).start()
    pool.stop()
    assert running.result() is True
    for job in (dropped, *following):
        with pytest.raises(RuntimeError, match="dropped"):
            job.result()
    del job
    assert reference() is None


def test_a_failure_is_raised_by_all_that_follows(pool: EncodingPool) -> None:
    both = threading.Event()

    def fail() -> None:
        both.wait(30)
        raise ValueError("no space")

    failed = pool.submit(None, _LARGE, fail)
    following = pool.submit(failed, 0, lambda: "finished")
    both.set()
    for job in (failed, following):
        with pytest.raises(ValueError, match="no space"):
            job.result()
    with pytest.raises(ValueError, match="no space"):
        pool.submit(None, _LARGE, lambda: None)
    with pytest.raises(ValueError, match="no space"):
        pool.check()


@pytest.mark.parametrize("size", [10, _LARGE])
def test_rows_are_released_once_they_are_encoded(pool: EncodingPool, size: int) -> None:
    """The results of a file refer to one another for as long as the file is open."""
    rows = [_Rows() for _ in range(4)]
    kept = [weakref.ref(one) for one in rows]
    last: Job[Any] | None = None
    results = []
    gc.disable()
    try:
        while rows:
            last = pool.submit(last, size, rows.pop().encode)
            results.append(last)
        assert [result.result() for result in results] == ["encoded"] * 4
        # The thread that has run the last job lets go of it.
        pool.stop()
        assert [reference() for reference in kept] == [None] * 4
    finally:
        gc.enable()


def test_the_writer_is_woken_once_for_each_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs end while nobody waits, too: what they told would wake a later wait, which then finds no room."""
    waits = 0

    def count(items: Any) -> bool:
        nonlocal waits
        waits += 1
        goes_on.set()
        return wait_for(items)

    monkeypatch.setattr(encoding, "wait_for", count)
    pool = EncodingPool(1, 2 * _LARGE)
    try:
        for number in range(1, 4):
            goes_on = threading.Event()
            held = [pool.submit(None, _LARGE, partial(goes_on.wait, 30)) for _ in range(2)]
            # There is room for two: the third waits for the first alone.
            last = pool.submit(None, _LARGE, lambda: "last")
            for job in held:
                assert job.result()
            assert last.result() == "last"
            assert waits == number
    finally:
        pool.stop()
