"""Words that say nothing are no names for what lives long."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.support.pages import ROOT

pytestmark = pytest.mark.one_backend

#: Words that fit every value.
_EMPTY_WORDS = frozenset({"found", "given", "known", "made", "wanted"})
#: The most lines from the first to the last place of such a name in a function.
_MOST_LINES = 5


def _long_lived(text: str) -> Iterator[str]:
    """Return the functions and their locals and parameters of these names that live longer."""
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        lines: dict[str, list[int]] = defaultdict(list)
        for node in ast.walk(function):
            if isinstance(node, (ast.Name, ast.arg)):
                name = node.id if isinstance(node, ast.Name) else node.arg
                lines[name].append(node.lineno)
        yield from (
            f"{function.name}: {name}"
            for name, at in lines.items()
            if name in _EMPTY_WORDS and max(at) - min(at) >= _MOST_LINES
        )


def test_no_name_says_nothing() -> None:
    sources = sorted(
        path for folder in ("python/deltaberg", "benches", "tests") for path in (ROOT / folder).rglob("*.py")
    )
    assert not [
        f"{path.relative_to(ROOT)}: {name}" for path in sources for name in _long_lived(path.read_text("utf-8"))
    ]


@pytest.mark.parametrize(("between", "counted"), [(3, []), (4, ["f: made"])])
def test_a_name_that_lives_long_is_counted(between: int, counted: list[str]) -> None:
    text = "def f():\n    made = 1\n" + "    work()\n" * between + "    return made\n"
    assert list(_long_lived(text)) == counted


def test_a_parameter_is_counted() -> None:
    assert list(_long_lived("def f(\n    found,\n" + "    a=1,\n" * 5 + "):\n    return found\n")) == ["f: found"]
