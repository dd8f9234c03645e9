"""Every example in a docstring runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import shutil
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
def test_examples_run(name: str, table_path: str, iceberg_path: str, tmp_path: Path) -> None:
    module: ModuleType = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for number, example in enumerate(_Finder(exclude_empty=True).find(module, name)):
        if example.examples:
            # Each docstring has a table of its own to change.
            own = tmp_path / str(number)
            delta = str(shutil.copytree(table_path, own / "example"))
            example.globs.update(table_path=delta, iceberg_path=iceberg_path, new_path=str(own / "new"))
            example.globs["table"] = deltaberg.open_table(delta)
            runner.run(example)
    assert runner.failures == 0
