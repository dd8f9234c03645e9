"""A run of the tests that hangs is ended, and says where it was."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = "pytester"
pytestmark = pytest.mark.one_backend

_CONFTEST = """
import sys
sys.path.insert(0, {root!r})
from tests.support.watchdog import Watchdog

def pytest_configure(config):
    config.pluginmanager.register(Watchdog({grace}))
"""


def _run(pytester: pytest.Pytester, grace: float, tests: str) -> pytest.RunResult:
    pytester.makeconftest(_CONFTEST.format(root=str(Path(__file__).parents[2]), grace=grace))
    pytester.makepyfile(tests)
    return pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-o", "timeout=0.3", timeout=100
    )


def test_a_process_that_does_not_end(pytester: pytest.Pytester) -> None:
    run = _run(
        pytester,
        3,
        """
        import threading

        def wait_for_ever():
            threading.Event().wait()

        def test_passes():
            threading.Thread(target=wait_for_ever).start()
        """,
    )
    assert run.ret == 1
    run.stdout.fnmatch_lines(["*1 passed*"])
    run.stderr.fnmatch_lines(["Timeout*", "*in wait_for_ever"])


def test_a_test_that_goes_on_after_its_timeout(pytester: pytest.Pytester) -> None:
    run = _run(
        pytester,
        3,
        """
        import threading
        from contextlib import suppress

        def test_hangs():
            with suppress(BaseException):
                threading.Event().wait()
            threading.Event().wait()
        """,
    )
    assert run.ret == 1
    run.stderr.fnmatch_lines(["Timeout*", "*in test_hangs"])


@pytest.mark.parametrize("more", ["", "\n        def test_next(server): pass\n"], ids=["last", "not last"])
def test_a_fixture_that_does_not_end_after_a_timeout(more: str, pytester: pytest.Pytester) -> None:
    run = _run(
        pytester,
        3,
        """
        import threading
        import pytest

        @pytest.fixture(scope="session")
        def server():
            yield
            threading.Event().wait()

        def test_hangs(server): threading.Event().wait()
        """
        + more,
    )
    assert run.ret == 1
    run.stderr.fnmatch_lines(["Timeout*", "*in server"])


def test_no_test_runs_after_a_timeout(pytester: pytest.Pytester) -> None:
    run = _run(
        pytester,
        60,
        """
        import threading

        def test_waits(): threading.Event().wait()

        def test_next(): pass
        """,
    )
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(["*test_waits took too long*"])
