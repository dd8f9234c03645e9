"""Runs the sides of a case, each in a process of its own, in turns: what slows the machine slows all of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack, closing, suppress
from typing import Any

from benches.measure import TURN

__all__ = ["CaseError", "run_sides"]


_COMMAND = [sys.executable, "-m", "benches"]


class CaseError(Exception):
    """A case did not run, or its sides found different things."""


class _Side:
    """A process that does one piece of its work at a time, when it is told to."""

    def __init__(self, case: str, side: str, scale: float) -> None:
        self._name = f"{case}, {side}"
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - close() closes it
        self._process = subprocess.Popen(
            [*_COMMAND, "--side", case, side, "--scale", str(scale)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            # A group of its own, which ends with it: Spark's JVM would outlive it.
            start_new_session=True,
        )
        #: What it measured, when it is done.
        self.result: dict[str, Any] | None = None

    def go_on(self) -> None:
        """Let it do the next piece; what ended while it waited is told by `wait`."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write("\n")
            self._process.stdin.flush()

    def wait(self) -> None:
        """Wait until it asks for its next turn, or is done.

        Raises
        ------
        CaseError
            Where it failed.
        """
        assert self._process.stdout is not None
        line = ""
        for line in self._process.stdout:
            if line.strip() == TURN:
                return
        if ended := self._process.wait():
            self._errors.seek(0)
            # What Java threw is at the top of many lines that say where.
            said = "".join(line for line in self._errors if not line.startswith("\tat "))
            raise CaseError(f"{self._name}, ended with {ended}: {said[-2000:]}")
        self.result = json.loads(line)

    def close(self) -> None:
        """End the process and those that it started, whatever they do."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


def run_sides(case: str, sides: Iterable[str], scale: float) -> dict[str, dict[str, Any]]:
    """Give for each side its amounts, what it found, and the bytes beside them.

    Raises
    ------
    CaseError
        Where a side failed.
    """
    with ExitStack() as stack:
        running = {side: stack.enter_context(closing(_Side(case, side, scale))) for side in sides}
        for side in running.values():
            side.wait()
        while waiting := [side for side in running.values() if side.result is None]:
            for side in waiting:
                side.go_on()
                side.wait()
        return {name: side.result for name, side in running.items() if side.result is not None}
