"""The tool behind ``make mutants``: what it plants compiles, and its probes change nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.mutants import with_probes
from tests.support import reached
from tests.support.mutations import Mutant, mutants_of

pytestmark = pytest.mark.one_backend

_ROOT = Path(__file__).parents[2]
_SOURCE = '''"""Ünïcode before what is changed."""

from __future__ import annotations

import os

LIMIT = 3


def grade(value: int, *more: int, text: str = "é") -> str | None:
    if value < 1 and not more:
        return None
    total = value + sum(each for each in more if each)
    found = {}
    found["é"] = total * 2
    if total > 1 << 4:
        raise ValueError(f"{total + 1} is too much")
    return text + ("high" if total >= LIMIT else "low") + str(found)
'''


def _grades(source: str) -> list[str]:
    names: dict[str, object] = {}
    exec(compile(source, "module.py", "exec"), names)
    grades = []
    for arguments in ((0,), (0, 1), (1,), (2, 1), (3,), (16,), (17,)):
        try:
            grades.append(repr(names["grade"](*arguments)))  # type: ignore[operator]
        except ValueError as error:
            grades.append(repr(error))
    return grades


@pytest.fixture
def mutants(tmp_path: Path) -> list[Mutant]:
    (tmp_path / "module.py").write_text(_SOURCE, "utf-8")
    return list(mutants_of(tmp_path, "module.py"))


def test_every_kind_of_mutant_changes_what_the_function_does(mutants: list[Mutant]) -> None:
    changed = {mutant.diff(_SOURCE).partition("\n")[2]: mutant for mutant in mutants}
    assert len(changed) == len(mutants)
    for line, mutant in changed.items():
        # Of one value more or less, the examples see only those at an edge.
        try:
            assert _grades(mutant.applied(_SOURCE)) != _grades(_SOURCE) or "sum(" in line or "4" in line, line
        except TypeError:
            continue
    planted = "\n".join(changed)
    for text in (
        "value <= 1",
        "value < (0)",
        " or not more",
        "(more)",
        "pass",
        "return None",
        "not each",
        "total > (1 >> 4)",
    ):
        assert text in planted, text
    # What is no code of a call is left alone: types, defaults, constants of the module, and the insides of texts.
    assert not [line for line in changed if "def grade" in line or "LIMIT =" in line or "is too much" in line]


def test_probes_change_nothing_and_tell_what_is_reached(
    tmp_path: Path, mutants: list[Mutant], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(reached.REACHED, str(tmp_path))
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/test_a.py::test_a[x y] (call)")
    monkeypatch.setattr(reached, "_seen", set())
    assert _grades(with_probes(_SOURCE, list(enumerate(mutants)))) == _grades(_SOURCE)
    (tmp_path / "passed.json").write_text('{"tests/test_a.py::test_a[x y]": 0.5}', "utf-8")
    assert reached.reach_of(tmp_path) == {
        number: {"tests/test_a.py::test_a[x y]": 0.5} for number in range(len(mutants))
    }


def test_mutants_of_the_package_compile(rng: random.Random) -> None:
    files = sorted(str(path.relative_to(_ROOT)) for path in (_ROOT / "python/deltaberg").rglob("*.py"))
    for file in rng.sample(files, 30):
        source, found = (_ROOT / file).read_text("utf-8"), list(mutants_of(_ROOT, file))
        compile(with_probes(source, list(enumerate(found))), file, "exec")
        for mutant in rng.sample(found, min(3, len(found))):
            compile(mutant.applied(source), file, "exec")
