"""Every example in a docstring runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import deltaberg


def _modules() -> list[str]:
    found = pkgutil.walk_packages(deltaberg.__path__, "deltaberg.")
    return ["deltaberg", *(module.name for module in found if not module.name.endswith("_native"))]


@pytest.mark.parametrize("name", _modules())
def test_examples_run(name: str, table: Any, table_path: str, iceberg_path: str, tmp_path: Path) -> None:
    module: ModuleType = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    known = {"table": table, "table_path": table_path, "iceberg_path": iceberg_path, "new_path": f"{tmp_path}/new"}
    for example in finder.find(module, name, extraglobs=known):
        runner.run(example)
    assert runner.failures == 0
