"""Ends a run of the tests that hangs where the timeout of a test cannot end it, and says where it was.

The timeout of a test interrupts Python code of the main thread, once. It does not end native code, a pool that waits
for its threads, a random test that then tries its example again, or a process that waits for its children at its end.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Generator
from typing import Any

import pytest
import pytest_timeout

__all__ = ["Watchdog"]

_GRACE = 180.0


class Watchdog:
    """A plugin that ends the process, and prints the stacks of its threads.

    It does so when a test takes ``grace`` seconds longer than its timeout, or when a test that failed, or the process,
    takes so long to end. Once a test has exceeded its timeout, no further test runs: what hung may be a session or a
    server that all of them use.
    """

    def __init__(self, grace: float = _GRACE) -> None:
        self._grace = grace
        # Later, the output of tests is captured.
        self._output = os.dup(sys.__stderr__.fileno()) if sys.__stderr__ else None
        self._session: pytest.Session | None = None
        self._has_timeout = False

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keep the session, to end it."""
        self._session = session

    @pytest.hookimpl(wrapper=True)
    def pytest_timeout_set_timer(self, settings: Any) -> Generator[None, object, object]:
        """Watch a test that has a timeout."""
        self._has_timeout = True
        self._watch(settings.timeout)
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Stop watching a test when it has ended, with all fixtures that end with it."""
        try:
            return (yield)
        finally:
            self._has_timeout = False
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self) -> None:
        """Go on watching a test that failed: pytest and its timeout have just stopped all watching."""
        if self._has_timeout:
            self._watch(0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Start no further test after one that exceeded its timeout."""
        if report.failed and "from pytest-timeout" in report.longreprtext and self._session:
            self._session.shouldfail = f"{report.nodeid} took too long, and others would wait for what it left behind"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Watch the end of fixtures that outlived the last test."""
        self._watch(0)

    def pytest_unconfigure(self) -> None:
        """Watch the end of the process."""
        self._watch(0)

    def _watch(self, allowed: float) -> None:
        if self._output is not None and not pytest_timeout.is_debugging():
            faulthandler.dump_traceback_later(allowed + self._grace, exit=True, file=self._output)
