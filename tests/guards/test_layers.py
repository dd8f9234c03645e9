"""Imports go down only, and only ``spark`` imports pyspark."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_PACKAGE = Path(__file__).resolve().parents[2] / "python" / "deltaberg"

# Each layer may import itself and those below. What stands on one line never imports each other.
_LAYERS = [
    {"_version", "choices", "hints", "lazy_names"},
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
    {"convert"},
    {"api"},
    {"", "spark"},
    {"cli"},
    {"__main__"},
]
#: The same inside of layers that are folders of folders: a folder owns the reading and the writing of its noun.
_ROOMS = {
    "expressions": [{"double_quotes", "instants", "like", "scalars"}, {"sql_text"}, {"values"}],
    "files": [{"avro"}, {"read", "write"}],
    "table": [
        {"arguments", "formats", "removal"},
        {"commit"},
        {"not_found", "opening"},
        {"read"},
        {"write"},
        {"commit_options", "compact", "join", "new_table"},
        {"rewrite"},
        {"transaction"},
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
        {"maintenance"},
        {"scan"},
        {"transaction"},
        {"validate"},
        {"operations"},
        {"table_transaction"},
        {"table"},
        {"place"},
    ],
    "iceberg": [
        {"encryption", "metadata"},
        {"location", "partition"},
        {"manifests"},
        {"deletes"},
        {"scan"},
        {"inspect"},
        {"validate"},
        {"transaction"},
        {"operations"},
        {"verbs"},
        {"table_transaction"},
        {"table"},
        {"place"},
        {"catalogs"},
    ],
    "spark": [
        {"arrays", "functions", "hashes", "hints", "session", "types"},
        {"jobs"},
        {"native"},
        {"read"},
        {"write"},
        {"source"},
        {"columns"},
        {"tables"},
    ],
}
_LEVELS = {name: level for level, names in enumerate(_LAYERS) for name in names}

#: Folders of which other modules import only the names that `__all__` of the folder lists.
_PRIVATE_FOLDERS = ("spark/native",)

# Rows go to Spark, and come from it, by these functions, which import the layer above when they are called.
_UPWARD = {
    ("table/read/scan.py", "spark"): {"explanation", "map_in_arrow", "to_spark"},
    ("table/write/sources.py", "spark"): {"open_rows"},
    ("table/verbs/table.py", "spark"): {"on_spark"},
}

# Packages that are imported in some layers only.
_OWNERS = {
    "pyspark": {"spark"},
    "obstore": {"storage"},
    "urllib3": {"iceberg"},
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
    """Return the absolute names that a module imports, wherever in the file; imports for types only can be left out."""
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
            if other == own or (str(inside), other) in _UPWARD:
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


@pytest.mark.one_backend
@pytest.mark.parametrize("folder", _PRIVATE_FOLDERS)
def test_private_folders_have_one_door(folder: str) -> None:
    package = "deltaberg." + folder.replace("/", ".")
    door = ast.parse((_PACKAGE / folder / "__init__.py").read_text("utf-8"))
    (listed,) = (ast.literal_eval(node.value) for node in door.body if isinstance(node, ast.Assign))
    used = {
        name.removeprefix(f"{package}.")
        for path in _sources()
        if not path.is_relative_to(_PACKAGE / folder)
        for name in _imports(path)
        if name.startswith(f"{package}.")
    }
    assert used == set(listed)


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
def test_only_these_functions_import_upward() -> None:
    """No other function may, and no statement outside of a function; exceptions without use must be removed."""
    for (source, layer), allowed in _UPWARD.items():
        tree = ast.parse((_PACKAGE / source).read_text("utf-8"))
        wanted = f"deltaberg.{layer}"
        upward = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == wanted]
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        found = [function.name for function in functions for node in ast.walk(function) if node in upward]
        assert set(found) == allowed
        assert len(found) == len(upward) == len(allowed)
        assert sum(name.split(".")[:2] == wanted.split(".") for name in set(_imports(_PACKAGE / source))) == 1 + len(
            allowed
        )


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
