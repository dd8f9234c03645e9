"""Ends a run of the tests that hangs where the timeout of a test cannot end it, and says where it was.

The timeout of a test interrupts Python code of the main thread, once. It does not end native code, a pool that waits
for its threads, a random test that then tries its example again, or a process that waits for its children at its end.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Generator

import pytest

__all__ = ["Watchdog"]

_GRACE = 180.0


class Watchdog:
    """A plugin that ends the process, and prints the stacks of its threads.

    It does so when a test, or the end of the process, takes ``grace`` seconds longer than it may. Once a test has
    exceeded its timeout, no further test runs: what hung may be a session or a server that all of them use.
    """

    def __init__(self, grace: float = _GRACE) -> None:
        self._grace = grace
        # Later, the output of tests is captured.
        self._output = os.dup(sys.__stderr__.fileno()) if sys.__stderr__ else None
        self._session: pytest.Session | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keep the session, to end it."""
        self._session = session

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Watch a test."""
        marker = item.get_closest_marker("timeout")
        self._watch(float(marker.args[0] if marker else item.config.getini("timeout") or 0))
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Start no further test after one that exceeded its timeout."""
        if report.failed and "from pytest-timeout" in report.longreprtext and self._session:
            self._session.shouldfail = f"{report.nodeid} took too long, and others would wait for what it left behind"

    def pytest_unconfigure(self) -> None:
        """Watch the end."""
        self._watch(0)

    def _watch(self, allowed: float) -> None:
        if self._output is not None:
            faulthandler.dump_traceback_later(allowed + self._grace, exit=True, file=self._output)
