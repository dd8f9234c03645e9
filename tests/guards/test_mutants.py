"""The tool behind ``make mutants``: what it plants compiles, and its probes change nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.mutants import with_probes
from tests.support import probes
from tests.support.mutations import Mutant, blocks_of, mutants_of

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
#: Each block begins with its own name, whatever statement it begins with.
_BRANCHES = '''"""Ünïcode before what is probed."""

from __future__ import annotations

def branches(value, reached):
    "é"
    reached.add("é")
    if value < 1:
        for name in ["for"]: reached |= {"each", name}
        return
    elif value in reached.union({"elif"}):
        reached.add("never")
    elif value == 1:
        with reached.__class__(["with"]).union() and open(__file__) as file:
            reached |= {"with"}
    else:
        while "while" not in reached: reached |= {"turn", "while"}
    try:
        if reached.add("try") or value == 2:
            raise ValueError(reached.add("raise"))
    except ValueError:
        reached.add("except")
    finally:
        class Inner:
            reached.add("class")
        def inner(_):
            match reached.add("match"):
                case None: reached.add("case")
                case _: reached.add("never")
        if value == 3: inner(reached.add("call"))
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


@pytest.mark.parametrize("value", range(4))
def test_probes_change_nothing_and_tell_which_blocks_are_reached(value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = blocks_of(_BRANCHES)
    monkeypatch.setattr(probes, "hits", bytearray(len(blocks)))
    probed = with_probes(_BRANCHES, enumerate(blocks))
    assert len(probed.splitlines()) == len(_BRANCHES.splitlines())
    reached = _reached(_BRANCHES, value)
    assert _reached(probed, value) == reached
    begun = zip(blocks, probes.hits, strict=True)
    assert {_BRANCHES[block.start :].split('"')[1] for block, hit in begun if hit} == reached


def _reached(source: str, value: int) -> set[str]:
    names: dict[str, Any] = {"__file__": __file__}
    exec(compile(source, "module.py", "exec"), names)
    reached: set[str] = set()
    names["branches"](value, reached)
    return reached


def test_mutants_of_the_package_compile(rng: random.Random) -> None:
    files = sorted(str(path.relative_to(_ROOT)) for path in (_ROOT / "python/deltaberg").rglob("*.py"))
    for file in rng.sample(files, 30):
        source, found = (_ROOT / file).read_text("utf-8"), list(mutants_of(_ROOT, file))
        compile(with_probes(source, enumerate(blocks_of(source))), file, "exec")
        for mutant in rng.sample(found, min(3, len(found))):
            compile(mutant.applied(source), file, "exec")
