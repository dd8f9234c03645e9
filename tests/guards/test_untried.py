"""A run says what it did not try, and how to try it."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.interop.conftest import pytest_collection_modifyitems as leave_out_judges
from tests.support.untried import JUDGES, NEEDS, POSTGRES, REST_SERVER, UNTRIED, Untried

pytest_plugins = "pytester"
pytestmark = pytest.mark.one_backend

_TESTS = """
import pytest
from tests.support.untried import POSTGRES, REST_SERVER

@pytest.fixture(scope="module")
def database():
    POSTGRES.skip("its programs are not there")

@pytest.mark.parametrize("case", [1, 2])
def test_catalog(database, case): pass

def test_server(): REST_SERVER.skip("java is missing")

def test_other(): pytest.skip("it is Tuesday")

def test_passes(): pass
"""


def _summary(pytester: pytest.Pytester, plugin: Untried, *options: str) -> list[str]:
    lines = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider", *options, plugins=[plugin]).stdout.lines
    start = next((number for number, line in enumerate(lines, start=1) if " not tried " in line), len(lines) - 1)
    # The very last line counts the outcomes.
    return lines[start:-1]


def test_the_last_lines_say_what_was_not_tried_and_how_to_try_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(_TESTS)
    plugin = Untried()
    plugin.leave_out(JUDGES, 30)
    assert _summary(pytester, plugin) == [
        f"2 tests of {POSTGRES.tests}. To run them: {POSTGRES.remedy}",
        f"1 test of {REST_SERVER.tests}. To run them: {REST_SERVER.remedy}",
        f"30 tests of {JUDGES.tests}. To run them: make interop",
    ]


def test_a_run_that_tried_everything_says_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(_TESTS)
    assert _summary(pytester, Untried(), "-k", "other or passes") == []


def test_every_need_names_a_target_of_make() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text("utf-8")
    for need in NEEDS:
        (target,) = re.findall(r"make ([a-z-]+)", need.remedy)
        assert f"\n{target}: " in makefile


def test_comparisons_that_take_long_are_counted_where_they_were_left_out() -> None:
    plugin = Untried()
    left_out = [_Item(is_judge=True), _Item(is_judge=True)]
    items: list[Any] = [*left_out, _Item(is_judge=False)]
    dropped: list[Any] = []

    def pytest_deselected(items: list[Any]) -> None:
        dropped.extend(items)

    hook = SimpleNamespace(pytest_deselected=pytest_deselected)
    config: Any = SimpleNamespace(getoption=lambda _: False, hook=hook, stash={UNTRIED: plugin})
    leave_out_judges(config, items)
    assert (dropped, len(items)) == (left_out, 1)
    assert plugin.counts == {JUDGES: 2}


class _Item:
    def __init__(self, *, is_judge: bool) -> None:
        self._is_judge = is_judge

    def get_closest_marker(self, name: str) -> str | None:
        return name if name == "judges" and self._is_judge else None
