"""Runs tests against the built wheels, each in a fresh environment without the source tree: ``make test-wheels``.

``pure``: the ``py3-none-any`` wheel, with what it requires. ``lowest``: the compiled wheel with the lowest versions
that ``pyproject.toml`` allows. What the wheels require is in ``requirements/wheel-*.txt``. The tests are copied, so
that nothing of the tree but them can be imported.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.support.packages import ROOT, install, interpreter, make_environment, sync
from tests.support.shared import shared_directory

__all__ = ["main"]


class Environment(NamedTuple):
    """An environment: the wheel by its name's end, the backend to see, the newest Python, the tests."""

    wheel: str
    backend: str
    newest_python: tuple[int, int]
    tests: tuple[str, ...]


#: What other versions of sqlglot and obstore would do in another way.
_OF_PACKAGES = ("tests/expressions/test_values.py", "tests/scan/test_scan.py::test_tables_in_memory_of_any_name")
_ENVIRONMENTS = {
    "pure": Environment("*-py3-none-any.whl", "python", (3, 14), ("tests/conformance",)),
    # The lowest pyarrow has no wheels for a newer Python.
    "lowest": Environment("*-abi3-*.whl", "native", (3, 12), ("tests/conformance", *_OF_PACKAGES)),
}


def _prepare(name: str, environment: Environment) -> Path:
    (wheel,) = (ROOT / "dist").glob(environment.wheel)
    python = make_environment(ROOT / f".venv-{name}", interpreter((3, 10), environment.newest_python))
    sync(python, f"wheel-{name}")
    install(python, "--no-deps", wheel)
    return python


def _test(name: str, environment: Environment, python: Path, folder: Path) -> int:
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    shared = shared_directory()
    variables = {**os.environ, "DELTABERG_KERNELS": "auto"}
    variables.pop("PYTHONPATH", None)
    if shared is not None:
        variables["DELTABERG_SHARED"] = str(shared)
    check = (
        f"from deltaberg import kernels as k; print(k.report()); assert k.report().backend == {environment.backend!r}"
    )
    subprocess.run([str(python), "-I", "-c", check], check=True, cwd=folder, env=variables)
    marks = "not spark"
    command = [str(python), "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "-m", marks, *environment.tests]
    print(f"{name}: {' '.join(environment.tests)}", flush=True)
    return subprocess.run(command, cwd=folder, env=variables, check=False).returncode


def main() -> int:
    """Make the environments that were named, and run their tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=sorted(_ENVIRONMENTS))
    failed = []
    for name in parser.parse_args().names:
        environment = _ENVIRONMENTS[name]
        python = _prepare(name, environment)
        with tempfile.TemporaryDirectory() as folder:
            if _test(name, environment, python, Path(folder)):
                failed.append(name)
    if failed:
        print(f"failed with: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
