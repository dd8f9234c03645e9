"""Runs tests against the built wheels, each in a fresh environment without the source tree: ``make test-wheels``.

``pure``: the ``py3-none-any`` wheel, with what it requires. ``lowest``: the compiled wheel with the lowest versions
that ``pyproject.toml`` allows. The tests are copied, so that nothing of the tree but them can be imported.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.support.shared import shared_directory

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_TOOLS = ["fastavro", "hypothesis", "numpy", "pyroaring", "pytest", "pytest-timeout"]


class Environment(NamedTuple):
    """An environment: the wheel by its name's end, the extras, the backend to see, the tests."""

    wheel: str
    extras: str
    backend: str
    tests: tuple[str, ...]


_ENVIRONMENTS = {
    "pure": Environment("*-py3-none-any.whl", "sql", "python", ("tests/conformance",)),
    "lowest": Environment("*-abi3-*.whl", "sql", "native", ("tests/conformance",)),
}


def lowest_versions() -> list[str]:
    """Give the lower bounds of pyproject.toml's requirements as exact versions."""
    text = (_ROOT / "pyproject.toml").read_text("utf-8")
    wanted = text.partition("\ndependencies = ")[2].partition("[project.scripts]")[0]
    found = dict(re.findall(r'"([a-z]+)>=([0-9.]+)', wanted))
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def _prepare(name: str, environment: Environment) -> Path:
    (wheel,) = (_ROOT / "dist").glob(environment.wheel)
    folder = _ROOT / f".venv-{name}"
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    bounds = lowest_versions() if name == "lowest" else []
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("\n".join(bounds))
        constraints.flush()
        subprocess.run([*pip, "-c", constraints.name, f"{wheel}[{environment.extras}]", *_TOOLS], check=True)
    return python


def _test(name: str, environment: Environment, python: Path, folder: Path) -> int:
    shutil.copytree(_ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(_ROOT / "pyproject.toml", folder)
    shared = shared_directory()
    variables = {**os.environ, "DELTABERG_KERNELS": "auto"}
    variables.pop("PYTHONPATH", None)
    if shared is not None:
        variables["DELTABERG_SHARED"] = str(shared)
    check = (
        f"from deltaberg import kernels as k; print(k.report()); assert k.report().backend == {environment.backend!r}"
    )
    subprocess.run([str(python), "-I", "-c", check], check=True, cwd=folder, env=variables)
    marks = "not spark and not one_backend"
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
