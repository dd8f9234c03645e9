"""What a run of the tests did not try, and the command that tries it: the last lines of the run.

Some tests need a program that this machine may lack: PostgreSQL, or what Maven and npm download. Comparisons with the
tables of other engines take long, and run where they are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from typing import NamedTuple, NoReturn

import pytest

__all__ = ["AZURE", "DUCKDB", "ENGINES", "JUDGES", "NEEDS", "POSTGRES", "REST_SERVER", "UNTRIED", "Need", "Untried"]


class Need(NamedTuple):
    """What some tests need: ``tests`` says what they try, and ``remedy`` how to try it."""

    tests: str
    remedy: str

    def skip(self, reason: str) -> NoReturn:
        """Skip the test that runs, and have the summary of the run count it."""
        pytest.skip(f"{self.tests}: {reason}")


_TESTS = "make test-local"
POSTGRES = Need("SQL catalogs in PostgreSQL", f"apt-get install postgresql, then {_TESTS}")
REST_SERVER = Need(
    "REST catalogs with Iceberg's reference server",
    f"get Maven, then python -m tests.support.rest_reference --install, then {_TESTS}",
)
AZURE = Need("Azure's blob store", f"python -m tests.support.azurite --install, then {_TESTS}")
ENGINES = Need("tables of delta-spark and iceberg-spark", "make interop, with Java, where Maven Central can be reached")
DUCKDB = Need("tables read by DuckDB", "python -m tests.interop.duckdb_reader --install, then make interop")
JUDGES = Need("further comparisons with other engines", "make interop")
NEEDS = (POSTGRES, REST_SERVER, AZURE, ENGINES, DUCKDB, JUDGES)


class Untried:
    """A plugin that says when the run ends what was not tried; ``counts`` are the tests by what they need."""

    def __init__(self, needs: Iterable[Need] = NEEDS) -> None:
        self._needs = tuple(needs)
        self.counts: Counter[Need] = Counter()

    def leave_out(self, need: Need, tests: int) -> None:
        """Count tests that were not chosen."""
        self.counts[need] += tests

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that `Need.skip` skipped."""
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            self.counts.update(need for need in self._needs if reason.startswith(f"{need.tests}: "))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
        """Print what was not tried, one line for each need, below the summary of pytest."""
        yield
        found = [(need, self.counts[need]) for need in self._needs if self.counts[need]]
        if not found:
            return
        terminalreporter.section("not tried")
        for need, count in found:
            tests = "1 test" if count == 1 else f"{count} tests"
            terminalreporter.line(f"{tests} of {need.tests}. To run them: {need.remedy}")


#: Where a run keeps the plugin.
UNTRIED = pytest.StashKey[Untried]()
