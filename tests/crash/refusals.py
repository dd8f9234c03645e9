"""Has the file system refuse the calls of an operation, one after the other: no space, no permission, a bad disk."""

from __future__ import annotations

import errno
import io
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deltaberg.errors import CommitUnknownError, StorageError
from deltaberg.storage import atomic
from tests.crash.aftermath import local_files, look_after
from tests.crash.formats import format_of
from tests.crash.operations import Operation
from tests.crash.starts import restore
from tests.crash.states import Verdict
from tests.crash.targets import Target
from tests.support.tally import Tally, sample

__all__ = ["refuse_everywhere"]

#: What the system says, and whether it goes on saying so: a disk that is full stays full.
_REFUSALS = {errno.ENOSPC: True, errno.EACCES: True, errno.EIO: False}
#: The calls that make or fill files, besides opening and writing them. Removing files is always possible.
_CALLS = ("fsync", "link", "replace", "mkdir")


class _Disk:
    """Counts the calls that need space or permission, and refuses some."""

    def __init__(self, number: int | None = None, reason: int = 0) -> None:
        self.names: list[str] = []
        self._number, self._reason = number, reason

    def _ask(self, name: str) -> None:
        number = len(self.names)
        self.names.append(name)
        if self._number is None:
            return
        if number == self._number or (number > self._number and _REFUSALS[self._reason]):
            raise OSError(self._reason, os.strerror(self._reason))

    def _asked(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def asked(*arguments: Any, **named: Any) -> Any:
            self._ask(name)
            return call(*arguments, **named)

        return asked

    def _open(self, path: str, mode: str) -> io.BufferedWriter:
        assert mode == "xb"
        self._ask("open")
        disk = self

        class _File(io.BufferedWriter):
            def write(self, data: Any) -> int:
                disk._ask("write")
                return super().write(data)

        return _File(io.FileIO(path, "xb"))

    @contextmanager
    def in_place(self) -> Iterator[_Disk]:
        """Stand between the library and the system."""
        with pytest.MonkeyPatch.context() as patch:
            for name in _CALLS:
                patch.setattr(os, name, self._asked(getattr(os, name), name))
            patch.setattr(atomic, "open", self._open, raising=False)
            yield self


def refuse_everywhere(operation: Operation, folder: Path, most: int | None, generator: random.Random) -> Tally:
    """Refuse each call of an operation that makes or fills files, and say what was found.

    The operation must raise an error of the store, leave the table as it was, and leave no data files behind, unless
    it was done already.

    Parameters
    ----------
    folder
        A folder for the tables. Those that operations start from are kept in it.
    most
        How many of them; None tries everything.
    generator
        Chooses them.
    """
    tally = Tally(operation.name, "refusals")
    with tally.timed():
        _refuse_everywhere(tally, operation, folder, most, generator)
    return tally


def _refuse_everywhere(
    tally: Tally, operation: Operation, folder: Path, most: int | None, generator: random.Random
) -> None:
    root = folder / "table"
    original = restore(operation.start, Target(str(root), kind=operation.kind))
    disk = _Disk()

    def run() -> None:
        with disk.in_place():
            operation.run(Target(str(root), kind=operation.kind))

    verdict = Verdict.of(operation, Target(str(root), kind=operation.kind), run)
    before = _data_files(operation, original)
    trials = [(number, reason) for number in range(len(disk.names)) for reason in _REFUSALS]
    tally.planned = len(trials)
    failed = 0
    for number, reason in sample(trials, most, generator):
        at = Target(str(root), kind=operation.kind)
        restore(operation.start, at)
        where = f"{errno.errorcode[reason]} at call {number}, {disk.names[number]}"
        error: Exception | None = None
        try:
            with _Disk(number, reason).in_place():
                operation.run(Target(str(root), kind=operation.kind))
        except Exception as caught:  # noqa: BLE001 - what it may be is checked below
            error = caught
        tally.tried += 1
        failed += error is not None
        if error is not None and not isinstance(error, (StorageError, CommitUnknownError)):
            tally.wrong.append(f"{where}: {type(error).__name__}: {error}")
        left = _data_files(operation, root) - before
        state = look_after(tally, verdict, where, at, partial(local_files, root), acknowledged=error is None)
        if state == verdict.before and left and not isinstance(error, CommitUnknownError):
            tally.wrong.append(f"{where}: files are left behind: {sorted(left)}")
    tally.note = f"{failed} ended with an error"


def _data_files(operation: Operation, root: Path) -> set[str]:
    is_data = format_of(Target(str(root), kind=operation.kind)).is_data
    return {name for name in local_files(root) if is_data(name)}
