"""Runs the sides of a case in turns, each in its own process, so that a slow machine affects all of them."""

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
    """A case did not run, or its sides found different results."""


class _Side:
    """A process that does one piece of its work at a time, on request."""

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
        """Let the process do the next piece. If it ended while it waited, `wait` raises."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write("\n")
            self._process.stdin.flush()

    def wait(self) -> None:
        """Wait until the process asks for its next turn, or is done.

        Raises
        ------
        CaseError
            If it failed.
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
        """End the process and its descendants, whatever they are doing."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


def run_sides(case: str, sides: Iterable[str], scale: float) -> dict[str, dict[str, Any]]:
    """Return the amounts, findings and bytes of each side.

    Raises
    ------
    CaseError
        If a side failed.
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
