"""What users see is what docs/api.md lists, and does not change unless somebody writes it down."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

import deltaberg
import deltaberg.catalogs
import deltaberg.choices
import deltaberg.delta
import deltaberg.iceberg
from deltaberg.catalogs.filesystem import FilesystemCatalog
from deltaberg.catalogs.rest_catalog import RestCatalog
from deltaberg.catalogs.sql_catalog import SqlCatalog
from tests.guards.surface import RECORDED, Entry, entries, members, surface

pytestmark = pytest.mark.one_backend

_PACKAGE = Path(deltaberg.__file__).parent
_ENTRIES = {entry.name: entry for entry in entries()}


def test_the_surface_is_the_recorded_one() -> None:
    renew = "python -m tests.guards.surface --write renews it; tell users of the change in docs/api.md and CHANGELOG.md"
    assert surface() == RECORDED.read_text("utf-8"), renew


@pytest.mark.parametrize(
    "module", [deltaberg, deltaberg.choices, deltaberg.delta, deltaberg.iceberg, deltaberg.catalogs]
)
def test_the_page_lists_every_public_name(module: object) -> None:
    prefix = f"{module.__name__}."  # type: ignore[attr-defined]
    for name in module.__all__:  # type: ignore[attr-defined]
        found = getattr(module, name)
        alike = [one for one in _ENTRIES if one.rpartition(".")[2] == name]
        assert alike, f"docs/api.md lacks {prefix}{name}"
        assert any(_object(one) is found for one in alike), f"docs/api.md lacks {prefix}{name}"


@pytest.mark.parametrize("name", _ENTRIES)
def test_the_page_lists_public_names_only(name: str) -> None:
    module, _, last = name.rpartition(".")
    assert last in import_module(module).__all__


def _object(name: str) -> object:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


@pytest.mark.parametrize("entry", _ENTRIES.values(), ids=_ENTRIES)
def test_the_page_lists_the_members_of_a_class(entry: Entry) -> None:
    found = _object(entry.name)
    if not inspect.isclass(found) or issubclass(found, Exception):
        assert entry.members is None
        return
    listed, there = set(entry.members or ()), set(members(found))
    assert listed == there, f"docs/api.md: members of {entry.name}"


@pytest.mark.parametrize("kind", [FilesystemCatalog, SqlCatalog, RestCatalog])
def test_catalogs_have_the_members_of_every_catalog(kind: type) -> None:
    assert set(members(kind)) <= set(members(deltaberg.catalogs.Catalog))


def test_no_public_argument_is_declared_twice() -> None:
    """What several public functions take is declared in one typed dictionary, which the others extend."""
    declared: dict[tuple[str, str], set[str]] = defaultdict(set)
    kinds = {"TypedDict"}
    classes = [
        node
        for path in sorted(_PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    for _ in range(6):
        kinds |= {one.name for one in classes if kinds & {ast.unparse(base) for base in one.bases}}
    for one in classes:
        if one.name in kinds:
            for part in one.body:
                if isinstance(part, ast.AnnAssign):
                    declared[ast.unparse(part.target), ast.unparse(part.annotation)].add(one.name)
    assert len(declared) > 50
    twice = {name: sorted(where) for (name, _), where in declared.items() if len(where) > 1}
    # Those of a new table, and those of a commit.
    assert twice == {"properties": ["DescribedArguments", "NewTableArguments"]}
