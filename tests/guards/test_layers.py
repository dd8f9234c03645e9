"""Imports go down only, and only ``spark`` imports pyspark."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

_PACKAGE = Path(__file__).resolve().parents[2] / "python" / "deltaberg"

# Each layer may import itself and those below. What stands on one line never imports each other.
_LAYERS = [
    {"_version", "choices", "engines", "hints", "lazy_names"},
    {"errors", "whole_numbers", "words", "workers"},
    {"signatures"},
    {"lossless_json"},
    {"kernels"},
    {"schema"},
    {"expressions"},
    {"pruning"},
    {"storage"},
    {"files"},
    {"table"},
    {"delta", "iceberg"},
    {"catalogs"},
    {"convert"},
    {"api"},
    {"", "spark"},
    {"cli"},
    {"__main__"},
]
#: The same inside of layers that are folders of folders: a folder owns the reading and the writing of its noun.
_ROOMS = {
    "expressions": [
        {"tree"},
        {"compute"},
        {"time"},
        {"build", "cast"},
        {"functions"},
        {"bind"},
        {"derive"},
    ],
    "files": [{"avro"}, {"formats", "write"}, {"read"}],
    "table": [
        {"arguments", "formats", "property_values", "removal"},
        {"rows"},
        {"sort"},
        {"commit"},
        {"open"},
        {"read"},
        {"write"},
        {"change"},
        {"merge"},
        {"transaction"},
        {"maintain"},
        {"verbs"},
    ],
    "delta": [
        {"actions"},
        {"features"},
        {"log"},
        {"schema"},
        {"checkpoint"},
        {"data"},
        {"snapshot"},
        {"after_commit"},
        {"scan"},
        {"transaction"},
        {"validate"},
        {"properties"},
        {"rows"},
        {"alter"},
        {"create"},
        {"change"},
        {"write"},
        {"maintain"},
        {"operations"},
        {"table_transaction"},
        {"upkeep"},
        {"staged_write", "table"},
        {"place"},
    ],
    "iceberg": [
        {"encryption", "schema"},
        {"metadata"},
        {"updates"},
        {"location", "partition"},
        {"manifests"},
        {"deletes"},
        {"scan"},
        {"inspect"},
        {"validate"},
        {"transaction"},
        {"rows"},
        {"create", "refs"},
        {"alter"},
        {"change"},
        {"write"},
        {"maintain"},
        {"operations"},
        {"rewriting_verbs", "statistics_verbs", "upkeep", "verbs"},
        {"table_transaction"},
        {"staged_write", "table"},
        {"place"},
    ],
    "catalogs": [
        {"arguments", "names", "outcome", "places", "sql"},
        {"rest", "swap_commit"},
        {"base"},
        {"config", "filesystem", "rest_catalog", "sql_catalog"},
        {"load"},
    ],
    "spark": [
        {"arrays", "functions", "hashes", "hints", "session", "types"},
        {"jobs"},
        {"native"},
        {"read"},
        {"write"},
        {"maintain"},
        {"source"},
        {"columns"},
        {"tables"},
    ],
}
_LEVELS = {name: level for level, names in enumerate(_LAYERS) for name in names}

#: The folders that users import names from. Inside, modules import modules.
_DOORS = {"", "catalogs", "cli", "delta", "expressions", "iceberg", "kernels", "kernels/pure", "spark", "spark/tables"}
#: The most modules that stand beside one another in a folder.
_MOST_MODULES = 14

# Packages that are imported in some layers only.
_OWNERS: dict[str, set[str]] = {
    "typing_extensions": set(),  # only type checkers need it
    "pyspark": {"spark"},
    "obstore": {"storage"},
    "urllib3": {"catalogs"},
    "sqlalchemy": {"catalogs"},
    "sqlglot": {"expressions"},
    "yaml": {"catalogs"},
    "click": {"cli"},
    "rich": {"cli"},
    "pandas": {"table", "spark"},
    "polars": {"table"},
}


def _sources() -> list[Path]:
    return sorted(_PACKAGE.rglob("*.py"))


@cache
def _imports(path: Path, *, for_types: bool = True) -> tuple[str, ...]:
    """Return the absolute names that a module imports, wherever in the file; imports for types only can be left out."""
    return tuple(_imported(path, for_types))


def _imported(path: Path, for_types: bool) -> Iterator[str]:
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
    """Return the layer of a part of the package."""
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
            # What is not a layer is a name that the package itself gives.
            other = _layer(parts[1]) if _layer(parts[1]) in _LEVELS else ""
            if other == own:
                continue
            if _LEVELS[other] >= _LEVELS[own]:
                wrong.append(f"{inside} imports {name}")
    assert not wrong


def _level(rooms: list[set[str]], name: str) -> int:
    """Return the level of a folder in the order. The package's own names are above all folders."""
    return next((level for level, names in enumerate(rooms) if name in names), len(rooms))


@pytest.mark.one_backend
@pytest.mark.parametrize("layer", sorted(_ROOMS))
def test_imports_go_down_inside_of_a_layer(layer: str) -> None:
    rooms = _ROOMS[layer]
    there = {path.name.removesuffix(".py") for path in (_PACKAGE / layer).iterdir() if path.suffix in (".py", "")}
    assert there - {"__init__", "__pycache__"} == set().union(*rooms)
    wrong = []
    for path in sorted((_PACKAGE / layer).rglob("*.py")):
        own = path.relative_to(_PACKAGE / layer).parts[0].removesuffix(".py")
        for name in _imports(path):
            parts = name.split(".")
            if parts[:2] != ["deltaberg", layer] or len(parts) < 3 or own in ("__init__", parts[2]):
                continue
            if _level(rooms, parts[2]) >= _level(rooms, own):
                wrong.append(f"{path.relative_to(_PACKAGE)} imports {name}")
    assert not wrong


def _folders() -> list[Path]:
    return sorted({path.parent for path in _sources()})


@pytest.mark.one_backend
def test_doors_are_for_users() -> None:
    """A folder without a door says what it is for, and nothing else."""
    doors = set()
    for folder in _folders():
        body = ast.parse((folder / "__init__.py").read_text("utf-8")).body
        assert ast.get_docstring(ast.Module(body, [])), f"{folder} does not say what it is for"
        if len(body) > 1:
            doors.add("" if folder == _PACKAGE else folder.relative_to(_PACKAGE).as_posix())
    assert doors == _DOORS


@pytest.mark.one_backend
def test_folders_can_be_overlooked() -> None:
    full = {
        str(folder.relative_to(_PACKAGE)): len(names)
        for folder in _folders()
        if len(names := [path for path in folder.glob("*.py") if path.name != "__init__.py"]) > _MOST_MODULES
    }
    assert not full


@pytest.mark.one_backend
def test_names_of_modules_stand_once_in_a_layer() -> None:
    """Twins of kernels have the names of what they are twins of."""
    homes: dict[tuple[str, str], list[str]] = {}
    for path in _sources():
        layer, *_ = path.relative_to(_PACKAGE).parts
        if path.name != "__init__.py" and layer != "kernels":
            homes.setdefault((layer, path.stem), []).append(str(path.relative_to(_PACKAGE)))
    assert not [found for found in homes.values() if len(found) > 1]


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
def test_the_architecture_lists_the_folders() -> None:
    page = (_PACKAGE.parents[1] / "docs" / "architecture.md").read_text("utf-8")
    section = page.partition("\n## Layers\n")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
    listed = {row[1].strip(" `"): re.findall(r"`(\w+)`", row[3]) for row in rows}
    for layer, rooms in _ROOMS.items():
        folders = [name for names in rooms for name in sorted(names) if (_PACKAGE / layer / name).is_dir()]
        found = next(found for names, found in listed.items() if layer in re.findall(r"\w+", names))
        assert found == folders, f"docs/architecture.md lists other folders of {layer}"
