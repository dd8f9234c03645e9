"""Kernels work after a fork and in many threads, do not leak memory, and release the interpreter lock."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest

from deltaberg import kernels
from deltaberg.kernels import pure
from tests.kernels.twins import backends, native_kernels, same
from tests.kernels.workload import CALLS, large_calls

_names = pytest.mark.parametrize("name", CALLS)
_backends = pytest.mark.parametrize("module", backends(), ids=lambda module: module.__name__.rpartition(".")[2])


def test_every_kernel_is_called() -> None:
    assert set(CALLS) == set(kernels.FUNCTIONS)


@_backends
def test_callable_in_a_forked_child(module: ModuleType) -> None:
    """Spark forks its workers. All kernels, with their threads, ran in the parent before."""
    expected = {name: call(module) for name, call in CALLS.items()}
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if all(same(call(module), expected[name]) for name, call in CALLS.items()) else 1
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@_backends
@_names
def test_the_same_from_four_threads(name: str, module: ModuleType) -> None:
    call = CALLS[name]
    expected = call(module)
    start = threading.Barrier(4)

    def work(_: int) -> list[Any]:
        start.wait()
        return [call(module) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        found = [result for results in pool.map(work, range(4)) for result in results]
    assert len(found) == 20
    assert all(same(result, expected) for result in found)


#: Ticks during a call. Hundreds are usual; a lock that is only let go of between two pieces of work gives a few.
_FEW = 30
#: So many calls are made at most: on a busy machine, the other thread may have no processor during most of them.
_CALLS = 50


@pytest.mark.parametrize("name", ["replay", "parse_log_stats", "encode_bitmap"])
def test_other_threads_run_meanwhile(name: str, large: dict[str, Callable[[ModuleType], Any]]) -> None:
    """A thread that needs the interpreter gets on while a kernel runs, again and again.

    The time after which the interpreter takes its lock from a thread is set so long that the other thread can only
    tick where the kernel lets go of the lock: were it held, there would be no tick at all.
    """
    module = native_kernels()
    ticks, done, ready = 0, threading.Event(), threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            ready.set()
            # Gives the lock away, and asks for it again.
            time.sleep(0)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    ticking = threading.Thread(target=tick)
    try:
        ticking.start()
        ready.wait()
        most = 0
        for _ in range(_CALLS):
            before = ticks
            large[name](module)
            most = max(most, ticks - before)
            if most > _FEW:
                break
    finally:
        done.set()
        sys.setswitchinterval(interval)
        ticking.join()
    assert most > _FEW


@pytest.fixture(scope="module")
def large() -> dict[str, Callable[[ModuleType], Any]]:
    return large_calls()


_LEAKS = """
import gc, os, sys
import pyarrow as pa
from deltaberg import kernels
from deltaberg.kernels import pure
from tests.kernels.workload import CALLS

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

module, grown = kernels.backend(sys.argv[1]), {}
for name, call in CALLS.items():
    for _ in range(150):
        call(module)
    before = resident()
    for _ in range(int(sys.argv[2])):
        call(module)
    grown[name] = resident() - before
print(max(grown.values()), grown)
"""

#: A leak of 4 KiB in each call would come to this.
_CEILING = 4 << 20


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="this system does not say how large a process is")
@pytest.mark.parametrize(
    "module",
    [pytest.param(one, marks=pytest.mark.full if one is pure else (), id=one.__name__) for one in backends()],
)
def test_leak_ceiling(module: ModuleType) -> None:
    name = "python" if module.__name__.endswith("pure") else "native"
    finished = subprocess.run(
        [sys.executable, "-c", _LEAKS, name, "1000" if name == "native" else "200"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert int(finished.stdout.split(maxsplit=1)[0]) < _CEILING, finished.stdout
