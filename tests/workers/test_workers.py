"""Calls on threads: their order, their failures, and their end, also where Ctrl-C comes."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import deltaberg
from deltaberg.storage.upload import Upload
from deltaberg.workers import Outcome, Workers, map_in_order
from tests.support.threads import settled_threads, threads_alive, wait_for_threads

pytestmark = pytest.mark.one_backend

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGE = Path(deltaberg.__file__).parent


@pytest.fixture(autouse=True)
def before() -> Iterator[int]:
    """The number of threads before a test, which must have ended when it is over."""
    count = settled_threads()
    yield count
    wait_for_threads(count)


class _Held:
    """An argument; a reference to it can be weak."""


def test_results_come_in_the_order_of_the_items() -> None:
    both = threading.Barrier(2)

    def call(item: int) -> int:
        if item < 2:
            both.wait(30)
        return item * item

    assert map_in_order(2, call, range(100)) == [item * item for item in range(100)]


@pytest.mark.parametrize(("threads", "items"), [(1, 3), (0, 3), (8, 1), (8, 0)])
def test_what_one_thread_can_do_starts_none(threads: int, items: int) -> None:
    here = threading.current_thread()
    assert map_in_order(threads, lambda _: threading.current_thread(), range(items)) == [here] * items


def test_the_first_failure_is_raised_and_the_rest_is_dropped(before: int) -> None:
    begun = []
    failed = threading.Event()

    def call(item: int) -> None:
        begun.append(item)
        if item == 3:
            failed.set()
            raise ValueError(f"item {item}")
        if item > 3:
            # Long enough for the others to be dropped before they begin.
            failed.wait(30)
            time.sleep(0.01)

    with pytest.raises(ValueError, match="item 3"):
        map_in_order(2, call, range(1000))
    count = len(begun)
    assert {0, 1, 2, 3} <= set(begun)
    assert count < 1000
    wait_for_threads(before)
    assert len(begun) == count


def test_the_end_waits_for_what_runs_and_drops_the_rest() -> None:
    begun, may_end = threading.Event(), threading.Event()
    ended = []

    def call() -> None:
        begun.set()
        may_end.wait(30)
        ended.append(True)

    workers = Workers(1)
    workers.submit(call)
    dropped = workers.submit(call)
    assert begun.wait(30)
    threading.Timer(0.05, may_end.set).start()
    workers.stop()
    assert ended == [True]
    late = workers.submit(call)
    for outcome in (dropped, late):
        with pytest.raises(RuntimeError, match="dropped"):
            outcome.result()
    # A second end finds nothing to do.
    workers.stop()
    assert ended == [True]


def test_as_many_calls_as_threads_run_at_a_time() -> None:
    """The barrier opens if three calls run together, and a fourth would be counted."""
    barrier = threading.Barrier(3)
    running: set[int] = set()
    most = []

    def call(item: int) -> None:
        running.add(item)
        barrier.wait(30)
        most.append(len(running))
        barrier.wait(30)
        running.discard(item)
        barrier.wait(30)

    map_in_order(3, call, range(30))
    assert set(most) == {3}


def test_no_threads_are_refused() -> None:
    with pytest.raises(ValueError, match="0 threads"):
        Workers(0)


def test_forgotten_workers_end(before: int) -> None:
    """An interruption can come before the end is told to them."""
    workers = Workers(2)
    assert workers.submit(int, "7").result() == 7
    assert threads_alive() > before
    del workers
    gc.collect()
    wait_for_threads(before)


def test_arguments_are_released_once_a_call_has_run() -> None:
    gc.disable()
    try:
        with Workers(1) as workers:
            held = _Held()
            known = weakref.ref(held)
            outcome = workers.submit(id, held)
            del held
            outcome.wait()
            assert known() is None
    finally:
        gc.enable()


def test_failures_keep_nothing_alive(before: int) -> None:
    """Neither the results of other calls nor the outcome itself, once the error is handled."""
    kept = []
    has_run = threading.Event()

    def call(item: int) -> _Held:
        if item == 1:
            has_run.wait(30)
            raise ValueError("no")
        if item == 2:
            has_run.set()
        held = _Held()
        kept.append(weakref.ref(held))
        return held

    gc.disable()
    try:
        with pytest.raises(ValueError, match="no"):
            map_in_order(2, call, range(4))
        wait_for_threads(before)
        assert len(kept) >= 2
        assert [reference() for reference in kept if reference() is not None] == []
    finally:
        gc.enable()


def test_a_call_runs_once() -> None:
    count = []
    outcome: Outcome[None] = Outcome(lambda: count.append(1))
    outcome.run()
    outcome.run()
    # One thread may drop what another one has begun.
    outcome.drop()
    assert outcome.result() is None
    assert count == [1]


_INTERRUPTED_OFTEN = """
import faulthandler, random, signal, sys
from deltaberg.workers import map_in_order
from tests.support.threads import threads_alive, wait_for_threads
generator = random.Random(int(sys.argv[1]))
interrupts = 0
def interrupt(*_):
    global interrupts
    interrupts += 1
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
running = set()
def call(item):
    running.add(item)
    sum(range(item % 500))
    running.discard(item)
for number in range(1000):
    faulthandler.dump_traceback_later(30, exit=True)
    try:
        signal.setitimer(signal.ITIMER_REAL, generator.uniform(0.0001, 0.005))
        # An interruption in a destructor is not raised.
        while interrupts <= number:
            map_in_order(2, call, range(200))
    except KeyboardInterrupt:
        pass
faulthandler.cancel_dump_traceback_later()
wait_for_threads(0)
print(len(running), threads_alive())
"""


@pytest.mark.slow
def test_interrupts_leave_nothing_waiting(seed: int) -> None:
    print(f"seed {seed}")
    command = [sys.executable, "-c", _INTERRUPTED_OFTEN, str(seed)]
    ended = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    running, threads = map(int, ended.stdout.split())
    assert (running, threads) == (0, 0)


#: What a module may use of these packages. The rest could be left waiting by Ctrl-C; workers may wait for one another.
_SAFE = {"Empty", "Lock", "RLock", "SimpleQueue", "get_ident"}
_ALLOWED = {
    "workers.py": {"start_new_thread"},
    "table/read/execute.py": {"Condition"},
    # It says which thread it is, and waits for nothing.
    "spark/jobs.py": {"main_thread"},
    # The event is the caller's, whose own thread waits for it.
    "table/streaming/follow.py": {"Event"},
    "table/verbs/table.py": {"Event"},
}
_PACKAGES = {"_thread", "concurrent", "multiprocessing", "queue", "threading"}


def test_threads_are_started_in_one_place() -> None:
    for path in _PACKAGE.rglob("*.py"):
        used = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _PACKAGES:
                used.add(node.attr)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _PACKAGES:
                used |= {alias.name for alias in node.names}
        where = path.relative_to(_PACKAGE).as_posix()
        assert used - _SAFE == _ALLOWED.get(where, set()), where


def _running_workers() -> object:
    workers = Workers(1)
    workers.submit(time.monotonic).wait()
    return workers


def _begun_upload() -> object:
    upload = Upload(len, lambda parts: sum(map(len, parts)))
    upload.write(bytes(9 << 20))
    return upload


@pytest.mark.parametrize("make", [_running_workers, _begun_upload, lambda: Workers(2)])
def test_what_is_dropped_runs_no_code_that_could_be_interrupted(before: int, make: Callable[[], object]) -> None:
    """Ctrl-C in a destructor can only be printed, as an exception that is ignored."""
    dropped = [make()]
    called: list[str] = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    dropped.clear()
    sys.setprofile(None)
    assert not called
    # Their threads end all the same.
    wait_for_threads(before)
    assert not [path for path in _PACKAGE.rglob("*.py") if "def __del__" in path.read_text("utf-8")]


def test_calls_that_wait_are_dropped_with_their_workers(before: int) -> None:
    begun, may_end = threading.Event(), threading.Event()
    workers = Workers(1)

    def call() -> None:
        begun.set()
        may_end.wait(30)

    first, second = workers.submit(call), workers.submit(time.monotonic)
    begun.wait(30)
    del workers
    may_end.set()
    first.wait()
    with pytest.raises(RuntimeError, match="dropped"):
        second.result()
    wait_for_threads(before)
