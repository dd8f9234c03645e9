"""Every example in a docstring runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import deltaberg


def _modules() -> list[str]:
    found = pkgutil.walk_packages(deltaberg.__path__, "deltaberg.")
    return ["deltaberg", *(module.name for module in found if not module.name.endswith("_native"))]


class _Finder(doctest.DocTestFinder):
    """Finds the examples of functions that decorators of other modules have wrapped, too."""

    def _from_module(self, module: ModuleType | None, object: Any) -> bool:
        own: bool = super()._from_module(module, inspect.unwrap(object) if callable(object) else object)  # type: ignore[misc]
        return own


@pytest.mark.parametrize("name", _modules())
def test_examples_run(name: str, table: Any, table_path: str, iceberg_path: str, tmp_path: Path) -> None:
    module: ModuleType = importlib.import_module(name)
    finder = _Finder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    known = {"table": table, "table_path": table_path, "iceberg_path": iceberg_path, "new_path": f"{tmp_path}/new"}
    for example in finder.find(module, name, extraglobs=known):
        runner.run(example)
    assert runner.failures == 0
