"""Runs the Spark tests on the minors of PySpark, each in an environment of its own: ``make grid``.

The environments stay under ``.venv-grid``. They import the package of this tree, with the compiled module where it
has been built.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_FOLDER = _ROOT / ".venv-grid"
_TOOLS = (
    "boto3",
    "fastavro",
    "googleapis-common-protos",
    "grpcio",
    "grpcio-status",
    "hypothesis",
    "moto[server]",
    "obstore",
    "pyarrow",
    "pyroaring",
    "pytest",
    "pytest-timeout",
    "sqlglot",
    "zstandard",
)
#: What is run everywhere: the tests of the Spark layer, and a choice of tests that read by every road.
_TESTS = (
    "tests/spark",
    "tests/protocol/test_column_mapping.py",
    "tests/protocol/test_deletion_vectors.py",
    "tests/conformance",
)
#: What is run in few minutes, on the oldest and the newest.
_SMOKE = ("tests/spark/test_tables.py", "tests/spark/test_tasks.py", "tests/protocol/test_deletion_vectors.py")


class Minor(NamedTuple):
    """What one release of PySpark needs beside itself, and the newest Python that it runs on."""

    packages: tuple[str, ...]
    newest_python: tuple[int, int]


_MINORS = {
    # Written before numpy 2, and before Python 3.12 took distutils away.
    "3.5.9": Minor(("pandas<2.3", "numpy<2", "pyarrow<20"), (3, 11)),
    "4.0.5": Minor(("pandas<3",), (3, 13)),
    "4.1.4": Minor(("pandas<3",), (3, 14)),
    "4.3.0": Minor(("pandas",), (3, 14)),
}
_ENDS = ("3.5.9", "4.3.0")


class Result(NamedTuple):
    """How the tests went on one release."""

    version: str
    counts: str
    failed: bool


def _interpreter(minor: Minor) -> str | None:
    """Give an interpreter that is not too new: this one where it fits."""
    if sys.version_info[:2] <= minor.newest_python:
        return sys.executable
    major, newest = minor.newest_python
    names = (f"python{major}.{number}" for number in range(newest, 9, -1))
    return next((found for name in names if (found := shutil.which(name))), None)


def _prepare(version: str, minor: Minor, interpreter: str) -> Path:
    """Make the environment, or take the one that is there."""
    folder = _FOLDER / version
    python = folder / "bin" / "python"
    wanted = " ".join([interpreter, version, *minor.packages, *_TOOLS])
    stamp = folder / "packages.txt"
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return python
    subprocess.run([interpreter, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"pyspark=={version}", *minor.packages, *_TOOLS], check=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "deltaberg-tree.pth").write_text(f"{_ROOT / 'python'}\n", "utf-8")
    stamp.write_text(wanted, "utf-8")
    return python


def _test(version: str, python: Path, options: Sequence[str]) -> Result:
    variables = {**os.environ, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    for name in ("PYTHONPATH", "SPARK_HOME"):
        variables.pop(name, None)
    command = [str(python), "-m", "pytest", "-m", "spark", "-p", "no:cacheprovider", "--color=no", *options]
    print(f"\nPySpark {version}", flush=True)
    with subprocess.Popen(command, cwd=_ROOT, env=variables, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        last = ""
        for line in running.stdout:
            print(line, end="", flush=True)
            last = line if re.search(r"\bin [0-9.]+s", line) else last
    return Result(version, last.strip(" =\n") or "no tests ran", running.returncode != 0)


def main() -> int:
    """Test the releases that were named, all by default, and print a table of results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"of {', '.join(_MINORS)}")
    parser.add_argument("--tests", action="append", default=[], help="tests instead of the usual ones")
    parser.add_argument("--smoke", action="store_true", help="few tests, on the oldest and the newest")
    parser.add_argument("--prepare", action="store_true", help="only make the environments")
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.versions) - set(_MINORS))
    if unknown:
        parser.error(f"unknown version {', '.join(unknown)}")
    results = []
    tests = chosen.tests or (_SMOKE if chosen.smoke else _TESTS)
    for version in chosen.versions or (_ENDS if chosen.smoke else _MINORS):
        minor = _MINORS[version]
        interpreter = _interpreter(minor)
        if interpreter is None:
            newest = ".".join(map(str, minor.newest_python))
            results.append(Result(version, f"not run: it needs a CPython that is not newer than {newest}", failed=True))
            continue
        python = _prepare(version, minor, interpreter)
        if not chosen.prepare:
            results.append(_test(version, python, ["--quiet", *tests]))
    print()
    for result in results:
        print(f"PySpark {result.version}: {'FAILED ' if result.failed else ''}{result.counts}")
    return int(any(result.failed for result in results))


if __name__ == "__main__":
    sys.exit(main())
