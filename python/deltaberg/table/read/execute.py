"""Reads tasks on this machine, several at a time, and returns their batches in the order of the tasks.

Memory is limited by what waits to be consumed, not by the size of the table: workers pause when the waiting batches
reach the cap. The task whose turn it is may always continue, so that there is no deadlock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from weakref import ref

import pyarrow as pa

from deltaberg.files.read.reader import ReadCounters, ReadSpec, read_task
from deltaberg.files.read.task import FileTask
from deltaberg.workers import Workers, give_back, wait_for

__all__ = ["read_in_order"]

#: Bytes of batches that may wait where the caller sets no cap.
_DEFAULT_WAITING = 256 << 20
#: Under a cap, a worker returns freed memory to the system each time it has read the cap divided by this number:
#: Arrow's allocator would keep as much again as is in use.
_TIDY_EACH = 4


def read_in_order(
    spec: ReadSpec, tasks: Sequence[FileTask], threads: int, waiting: int, counters: ReadCounters
) -> Iterator[pa.RecordBatch]:
    """Return the batches of tasks, in the order of the tasks.

    Parameters
    ----------
    threads
        How many tasks are read at a time; 1 reads in the calling thread.
    waiting
        How many bytes of batches may wait to be consumed; 0 means a default.
    """
    if threads <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield from _tidied(read_task(spec, task, counters, threads=threads > 1), waiting // _TIDY_EACH)
            counters.tasks_read += 1
        return
    consumer = _Consumer()
    pool = _Readers(spec, tasks, min(threads, len(tasks)), waiting, ref(consumer))
    try:
        pool.start()
        yield from pool.batches(counters)
    finally:
        pool.stop(counters)


def _tidied(batches: Iterator[pa.RecordBatch], each: int) -> Iterator[pa.RecordBatch]:
    """Pass batches on, and release freed memory after every ``each`` bytes; 0 leaves that to the allocator."""
    return _released(batches, each) if each > 0 else batches


def _released(batches: Iterator[pa.RecordBatch], each: int) -> Iterator[pa.RecordBatch]:
    yielded = 0
    for batch in batches:
        yielded += batch.nbytes
        yield batch
        if yielded >= each:
            pa.default_memory_pool().release_unused()
            yielded = 0


@dataclass
class _Output:
    """The waiting batches of one task, each with its bytes, which take as long to add up as a small batch to make."""

    batches: deque[tuple[pa.RecordBatch, int]] = field(default_factory=deque)
    done: bool = False
    error: BaseException | None = None


class _Consumer:
    """Lives for as long as batches can be consumed."""


class _Readers:
    """Workers that take tasks in order, and put their batches into one output for each task.

    So that Ctrl-C leaves no worker waiting, the consumer takes the lock itself and waits for a queue; see
    `deltaberg.workers`.
    """

    def __init__(
        self, spec: ReadSpec, tasks: Sequence[FileTask], threads: int, waiting: int, consumer: ref[_Consumer]
    ) -> None:
        self._spec = spec
        self._tasks = tasks
        self._cap = waiting or _DEFAULT_WAITING
        self._tidy_each = waiting // _TIDY_EACH
        self._outputs = [_Output() for _ in tasks]
        self._lock = threading.RLock()
        #: What workers wait for: room, their turn, or the end.
        self._changed = threading.Condition(self._lock)
        #: Whether the consumer waits, and what wakes it.
        self._waits = False
        self._woken: SimpleQueue[None] = SimpleQueue()
        self._held = 0
        self._next = 0
        self._turn = 0
        self._stopped = False
        self._consumer = consumer
        self._workers = Workers(threads)
        self._counters = [ReadCounters() for _ in range(threads)]

    def start(self) -> None:
        for counters in self._counters:
            self._workers.submit(self._work, counters)

    def batches(self, counters: ReadCounters) -> Iterator[pa.RecordBatch]:
        """Return all batches, task after task, and count these."""
        for index, output in enumerate(self._outputs):
            with self._lock:
                self._turn = index
                self._changed.notify_all()
            while True:
                batch = self._take(output)
                if batch is None:
                    break
                yield batch
            counters.tasks_read += 1

    def _take(self, output: _Output) -> pa.RecordBatch | None:
        while True:
            with self._lock:
                if output.batches:
                    batch, size = output.batches.popleft()
                    self._held -= size
                    self._changed.notify_all()
                    return batch
                if output.error is not None:
                    raise output.error
                if output.done:
                    return None
                self._waits = True
            wait_for(self._woken)

    def stop(self, counters: ReadCounters) -> None:
        """Stop the workers after their current batch, and add up their counters."""
        self._stopped = True
        with self._lock:
            self._changed.notify_all()
        give_back(self._lock)
        self._workers.stop()
        for counted in self._counters:
            for name, number in vars(counted).items():
                setattr(counters, name, getattr(counters, name) + number)

    def _work(self, counters: ReadCounters) -> None:
        while True:
            with self._lock:
                if self._stopped or self._next >= len(self._tasks):
                    return
                index = self._next
                self._next += 1
            output = self._outputs[index]
            error: BaseException | None = None
            try:
                self._read(index, output, counters)
            except BaseException as raised:  # noqa: BLE001 - the consumer raises it in its own thread
                error = raised
            with self._lock:
                output.done = True
                output.error = error
                self._tell_consumer(index)

    def _read(self, index: int, output: _Output, counters: ReadCounters) -> None:
        batches = read_task(self._spec, self._tasks[index], counters)
        try:
            for batch in _tidied(batches, self._tidy_each):
                size = batch.nbytes
                with self._lock:
                    while not self._may_put(index, output, size):
                        # An interruption may have come before the end was told to the workers.
                        self._changed.wait(1)
                        self._stopped = self._stopped or self._consumer() is None
                    if self._stopped:
                        return
                    output.batches.append((batch, size))
                    self._held += size
                    self._tell_consumer(index)
        finally:
            batches.close()  # type: ignore[attr-defined]

    def _tell_consumer(self, index: int) -> None:
        # It waits for the task whose turn it is. No worker waits for what another one has done.
        if index == self._turn and self._waits:
            self._waits = False
            self._woken.put(None)

    def _may_put(self, index: int, output: _Output, size: int) -> bool:
        if self._stopped or self._held + size <= self._cap:
            return True
        return index == self._turn and not output.batches
