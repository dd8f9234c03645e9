"""Uploads in parts that Ctrl-C interrupts at any moment: their threads end, and no object lacks a part."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.one_backend, pytest.mark.slow]

_INTERRUPTED_OFTEN = """
import faulthandler, random, signal, sys, time
from deltaberg.storage.upload import Upload
from tests.support.threads import threads_alive, wait_for_threads
generator = random.Random(int(sys.argv[1]))
interrupts = 0
def interrupt(*_):
    global interrupts
    interrupts += 1
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
objects = []
def stream(parts):
    objects.append(sum(map(len, parts)))
written = bytes(3 << 20)
def upload():
    with Upload(lambda data: objects.append(len(data)), stream) as file:
        for _ in range(6):
            file.write(written)
# Interruptions come at any moment of an upload, however long this machine takes for one.
began = time.monotonic()
upload()
longest = 2 * (time.monotonic() - began)
whole = 1
for number in range(300):
    faulthandler.dump_traceback_later(30, exit=True)
    try:
        signal.setitimer(signal.ITIMER_REAL, generator.uniform(0.0001, longest))
        # An interruption in a destructor is not raised.
        while interrupts <= number:
            upload()
            whole += 1
    except KeyboardInterrupt:
        pass
faulthandler.cancel_dump_traceback_later()
wait_for_threads(0)
print(threads_alive(), whole, len(objects), *set(objects))
"""


def test_interrupted_uploads(seed: int) -> None:
    print(f"seed {seed}")
    command = [sys.executable, "-c", _INTERRUPTED_OFTEN, str(seed)]
    ended = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "Exception ignored" not in ended.stderr
    threads, whole, count, *sizes = map(int, ended.stdout.split())
    assert threads == 0
    assert sizes == [18 << 20]
    # An interruption may come when the object has just been made.
    assert 0 < whole <= count <= whole + 300
