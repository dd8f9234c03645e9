"""The tests of the grid import only packages that its environments have."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests import grid
from tests.support.packages import ROOT

pytestmark = pytest.mark.one_backend


def _test_modules() -> Iterator[Path]:
    for name in grid._TESTS:
        place = ROOT / name
        yield from [place] if place.is_file() else sorted(place.rglob("*.py"))
    yield from (path / "conftest.py" for path in (ROOT / "tests",))


def _imported(path: Path) -> Iterator[str]:
    """Return the modules that a module imports as soon as it is imported."""
    waiting: list[ast.AST] = list(ast.parse(path.read_text("utf-8")).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, (ast.Try, ast.With)) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node.test)
        ):
            waiting.extend(node.body)


def _of_grid(locked: str) -> set[str]:
    names = re.findall(r"(?m)^([A-Za-z0-9_.-]+)==", (ROOT / "requirements" / locked).read_text("utf-8"))
    return {name.lower().replace("_", "-") for name in names}


def test_the_tests_of_the_grid_import_what_its_environments_have() -> None:
    there = _of_grid("grid-4.1.4.txt")
    homes = packages_distributions()
    waiting, seen, wrong = list(_test_modules()), set[Path](), []
    while waiting:
        path = waiting.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        for name in _imported(path):
            top, *rest = name.split(".")
            if top == "tests":
                place = ROOT.joinpath(top, *rest)
                waiting += [place.with_suffix(".py"), place / "__init__.py"]
            elif top not in sys.stdlib_module_names and top != "deltaberg":
                owners = {owner.lower().replace("_", "-") for owner in homes.get(top, ["?"])}
                if not owners & there:
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert len(seen) > 50
    assert not wrong
