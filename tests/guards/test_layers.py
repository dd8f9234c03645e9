"""Imports go down only, and pyspark is imported in ``spark`` alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

_PACKAGE = Path(__file__).resolve().parents[2] / "python" / "deltaberg"

# Each layer may import itself and those below. What stands on one line never imports each other.
_LAYERS = [
    {"_version"},
    {"errors"},
    {"kernels"},
    {"schema"},
    {"expressions"},
    {"pruning"},
    {"storage"},
    {"files"},
    {"table"},
    {"delta", "iceberg"},
    {"convert"},
    {"api"},
    {"", "spark"},
    {"cli"},
    {"__main__"},
]
_LEVELS = {name: level for level, names in enumerate(_LAYERS) for name in names}

# A scan goes to Spark by its own methods, which import the layer above when they are called.
_UPWARD = {("table/scan.py", "spark")}

# Packages that are imported in some layers only.
_OWNERS = {
    "pyspark": {"spark"},
    "obstore": {"storage"},
    "sqlalchemy": {"iceberg"},
    "sqlglot": {"expressions"},
    "yaml": {"iceberg"},
    "click": {"cli"},
    "rich": {"cli"},
    "pandas": {"table", "spark"},
    "polars": {"table"},
}


def _sources() -> list[Path]:
    return sorted(_PACKAGE.rglob("*.py"))


def _imports(path: Path, *, for_types: bool = True) -> Iterator[str]:
    """Give the absolute names that a module imports, wherever in the file; those for types alone can be left out."""
    package = ["deltaberg", *path.relative_to(_PACKAGE).parent.parts]
    tree = ast.parse(path.read_text("utf-8"))
    if not for_types:
        tree.body = [
            node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _layer(name: str) -> str:
    """Give the layer of a part of the package."""
    name = name.removesuffix(".py")
    return {"__init__": "", "_native": "kernels", "__version__": "_version"}.get(name, name)


@pytest.mark.one_backend
def test_imports_go_down() -> None:
    wrong = []
    for path in _sources():
        inside = path.relative_to(_PACKAGE)
        own = _layer(inside.parts[0])
        assert own in _LEVELS, f"{inside} belongs to no layer"
        for name in _imports(path):
            parts = name.split(".")
            if parts[0] != "deltaberg" or len(parts) < 2:
                continue
            # What is no layer is a name that the package itself gives.
            other = _layer(parts[1]) if _layer(parts[1]) in _LEVELS else ""
            if other == own or (str(inside), other) in _UPWARD:
                continue
            if _LEVELS[other] >= _LEVELS[own]:
                wrong.append(f"{inside} imports {name}")
    assert not wrong


@pytest.mark.one_backend
def test_optional_packages_have_one_home() -> None:
    wrong = []
    for path in _sources():
        inside = path.relative_to(_PACKAGE)
        for name in _imports(path, for_types=False):
            owners = _OWNERS.get(name.split(".")[0])
            if owners is not None and _layer(inside.parts[0]) not in owners:
                wrong.append(f"{inside} imports {name}")
    assert not wrong


@pytest.mark.one_backend
def test_upward_imports_are_still_there() -> None:
    """An exception that nothing needs any more has to go."""
    for source, layer in _UPWARD:
        assert any(name.startswith(f"deltaberg.{layer}") for name in _imports(_PACKAGE / source))
