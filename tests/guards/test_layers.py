"""The package keeps its order and its page tells it; a planted breach of each rule is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

import pytest

from tests.guards import layers
from tests.support.pages import ROOT
from tests.support.requirements import load_requirements

pytestmark = pytest.mark.one_backend

#: The folders that users import names from. Inside, modules import modules.
_DOORS = {"", "catalogs", "cli", "delta", "expressions", "iceberg", "kernels", "kernels/pure", "spark", "spark/tables"}
_Rule = Callable[[Mapping[str, str]], object]


@cache
def _sources() -> Mapping[str, str]:
    """Return the texts of the package, by their paths in it."""
    package = ROOT / "python" / "deltaberg"
    return MappingProxyType(
        {path.relative_to(package).as_posix(): path.read_text("utf-8") for path in sorted(package.rglob("*.py"))}
    )


@cache
def _page() -> str:
    return (ROOT / "docs" / "architecture.md").read_text("utf-8")


def _strange_doors(sources: Mapping[str, str]) -> set[str]:
    return layers.doors(sources) ^ _DOORS


_RULES: tuple[_Rule, ...] = (
    layers.listed_folders,
    layers.folders_that_are_no_packages,
    layers.upward_imports,
    layers.circles,
    layers.dynamic_imports,
    layers.foreign_imports,
    layers.crowded_folders,
    layers.names_that_stand_twice,
    _strange_doors,
)


@pytest.mark.parametrize("rule", _RULES)
def test_the_package_keeps_the_rule(rule: _Rule) -> None:
    assert not rule(_sources())


def test_the_page_lists_layers_folders_and_modules_as_they_are() -> None:
    assert not layers.page_breaches(_page(), _sources())


def test_the_page_has_a_home_for_every_family_of_rules() -> None:
    families = {row.rpartition("-")[0] for row in load_requirements()}
    if not families:
        pytest.skip("the shared folder is missing")
    homes = _page().partition("\n## Where a rule lives\n")[2].partition("\n## ")[0]
    listed = {name.strip() for line in homes.splitlines() if "|" in line for name in line.split("|")[1].split(",")}
    assert not families - listed


_FOLDER = '"""Things."""\n'


@pytest.mark.parametrize(
    ("rule", "path", "planted"),
    [
        (layers.listed_folders, "schema/planted/__init__.py", _FOLDER),
        (layers.listed_folders, "cli/planted/__init__.py", _FOLDER),
        (layers.listed_folders, "kernels/pure/planted/__init__.py", _FOLDER),
        (layers.listed_folders, "delta/maintain/planted/__init__.py", _FOLDER),
        (layers.listed_folders, "delta/create/planted/__init__.py", _FOLDER),
        (layers.listed_folders, "planted/__init__.py", _FOLDER),
        (layers.listed_folders, "schema/planted/x.py", _FOLDER),
        (layers.folders_that_are_no_packages, "schema/planted/x.py", _FOLDER),
        (layers.folders_that_are_no_packages, "delta/maintain/cleaning/planted/inner/__init__.py", _FOLDER),
        (layers.upward_imports, "table/removal.py", "def f():\n    from deltaberg.spark.session import x"),
        (layers.upward_imports, "table/removal.py", "import_module('deltaberg.spark.session')"),
        (layers.upward_imports, "table/removal.py", "importlib.import_module(f'deltaberg.spark.{name}')"),
        (layers.upward_imports, "table/removal.py", "from importlib import import_module as x\nx('deltaberg.spark.y')"),
        (layers.upward_imports, "table/removal.py", "import importlib as x\nx.import_module('deltaberg.spark.y')"),
        (layers.upward_imports, "table/removal.py", "if TYPE_CHECKING:\n    from deltaberg import DeltaTable"),
        (layers.upward_imports, "iceberg/place.py", "from deltaberg.delta.table import DeltaTable"),
        (layers.upward_imports, "cli/show/text.py", "from deltaberg.cli.commands.alter import x"),
        (layers.upward_imports, "schema/variants/values.py", "from ..rows import conform"),
        (layers.upward_imports, "table/maintain/bins/stage.py", "from deltaberg.table.maintain.cloning import copies"),
        (layers.circles, "storage/options/names.py", "from deltaberg.storage.remote import x"),
        (layers.circles, "cli/options.py", "from deltaberg.cli.endings import x"),
        (layers.circles, "table/write/spec.py", "def f():\n    import deltaberg.table.write.write"),
        (
            layers.circles,
            "delta/maintain/own_paths.py",
            "from deltaberg.delta.maintain.cleaning.vacuum_candidates import x",
        ),
        (layers.circles, "iceberg/scan/source.py", "from deltaberg.iceberg import IcebergTable"),
        (layers.dynamic_imports, "table/removal.py", "import_module(name)"),
        (layers.dynamic_imports, "table/removal.py", "from importlib import import_module as x\nx(name)"),
        (layers.dynamic_imports, "table/removal.py", "from builtins import __import__ as x\nx(name)"),
        (layers.dynamic_imports, "table/removal.py", "x = importlib.import_module\nx('deltaberg.spark.y')"),
        (layers.dynamic_imports, "table/removal.py", "getattr(importlib, 'import_module')('deltaberg.spark.y')"),
        (layers.foreign_imports, "table/removal.py", "import pyspark.sql"),
        (layers.foreign_imports, "table/removal.py", "from deltaberg.engines import register_engine"),
        (layers.foreign_imports, "schema/types.py", "from deltaberg._native import x"),
        (layers.foreign_imports, "catalogs/places.py", "import urllib.request"),
        (layers.foreign_imports, "catalogs/rest/transport.py", "import requests"),
        (layers.foreign_imports, "catalogs/rest/transport.py", "def f():\n    from httpx import get"),
        (layers.foreign_imports, "storage/clients.py", "import_module('aiohttp')"),
        (layers.foreign_imports, "table/removal.py", "from py4j.java_gateway import x"),
        (layers.foreign_imports, "delta/place.py", "import boto3"),
        (layers.foreign_imports, "catalogs/rest/transport.py", "from urllib.request import urlopen"),
        (layers.names_that_stand_twice, "delta/create/compact.py", _FOLDER),
        (layers.names_that_stand_twice, "delta/create/compact/__init__.py", _FOLDER),
        (layers.names_that_stand_twice, "delta/create/schema.py", _FOLDER),
        (_strange_doors, "delta/create/__init__.py", "from deltaberg.delta.create.create import x"),
    ],
)
def test_a_planted_breach_is_found(rule: _Rule, path: str, planted: str) -> None:
    assert rule({**_sources(), path: f"{_sources().get(path, '')}\n{planted}\n"})


def test_a_circle_between_folders_is_found() -> None:
    sums, staging = "iceberg/maintain/statistics/partition_sums.py", "iceberg/maintain/copying/staging.py"
    planted = {
        sums: f"{_sources()[sums]}\nfrom deltaberg.iceberg.maintain.copying.staging import x\n",
        staging: f"{_sources()[staging]}\nfrom deltaberg.iceberg.maintain.statistics.partition_sums import x\n",
    }
    assert layers.circles({**_sources(), **planted})
    assert layers.upward_imports({**_sources(), **planted})


def test_a_crowded_folder_is_found() -> None:
    assert layers.crowded_folders({**_sources(), **{f"spark/maintain/planted{n}.py": _FOLDER for n in range(14)}})


def _without_row(name: str) -> str:
    return "".join(line for line in _page().splitlines(keepends=True) if not line.startswith(f"| `{name}`"))


@pytest.mark.parametrize(
    "planted",
    [
        lambda: _without_row("convert"),
        lambda: _without_row("storage"),
        lambda: _page().replace("| `storage` |", "| `tmp` |").replace("| `kernels` |", "| `storage` |"),
        lambda: _page().replace("`columns`, `tables` |", "`tables` |"),
        lambda: _page().replace("`columns`, `tables` |", "`tables`, `columns` |"),
        lambda: _page().replace("`rows`, `show`, `commands` |", "`lions` |"),
        lambda: _page().replace("(`cleaning`, `cloning`)", ""),
        lambda: _page().replace("`table/removal.py`", "`table/vanished.py`"),
        lambda: _page().replace("`bind.py`", "`vanished.py`"),
    ],
)
def test_a_page_that_says_something_else_is_found(planted: Callable[[], str]) -> None:
    assert planted() != _page()
    assert layers.page_breaches(planted(), _sources())
