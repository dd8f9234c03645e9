"""Runs the Spark tests on the releases of PySpark, each in an environment of its own: ``make grid``.

The environments stay under ``.venv-grid``. They import the package of this tree, with the compiled module where it
has been built. Each has the packages of its lock file in ``requirements/``. Two show on purpose how versions drift:
``lowest`` has the lowest versions that ``pyproject.toml`` allows, and ``newest`` is not locked and takes the newest of
everything.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.packages import ROOT, install, interpreter, make_environment, sync

__all__ = ["RELEASES", "Release", "main"]

_FOLDER = ROOT / ".venv-grid"
#: What is run everywhere: the tests of the Spark layer, and a choice of tests that read by every road.
_TESTS = (
    "tests/spark",
    "tests/protocol/test_column_mapping.py",
    "tests/protocol/test_deletion_vectors.py",
    "tests/conformance",
)


class Release(NamedTuple):
    """An environment: PySpark and what goes with it, and the oldest and the newest Python that it runs on."""

    packages: tuple[str, ...]
    oldest_python: tuple[int, int]
    newest_python: tuple[int, int]
    lowest: bool = False
    locked: bool = True


# Written before numpy 2, and before Python 3.12 took distutils away.
_SPARK_3 = Release(("pyspark==3.5.9", "pandas<2.3", "numpy<2", "pyarrow<20"), (3, 10), (3, 11))
RELEASES = {
    "3.5.9": _SPARK_3,
    "4.0.5": Release(("pyspark==4.0.5", "pandas<3"), (3, 10), (3, 13)),
    "4.1.4": Release(("pyspark==4.1.4", "pandas<3"), (3, 10), (3, 14)),
    "4.3.0": Release(("pyspark==4.3.0",), (3, 11), (3, 14)),
    "lowest": _SPARK_3._replace(lowest=True),
    "newest": Release(("pyspark",), (3, 11), (3, 14), locked=False),
}


class Result(NamedTuple):
    """How the tests went on one release."""

    name: str
    counts: str
    failed: bool


def _prepare(name: str, release: Release, chosen: str) -> Path:
    """Make the environment, or bring the one that is there up to date."""
    folder = _FOLDER / name
    python, stamp = folder / "bin" / "python", folder / "interpreter.txt"
    if not stamp.exists() or stamp.read_text("utf-8") != chosen:
        make_environment(folder, chosen)
        (site,) = (folder / "lib").glob("python*/site-packages")
        (site / "deltaberg-tree.pth").write_text(f"{ROOT / 'python'}\n", "utf-8")
        stamp.write_text(chosen, "utf-8")
    if release.locked:
        sync(python, f"grid-{name}")
    else:
        project = ["-r", "pyproject.toml", "--extra", "sql", "--extra", "spark", "--group", "grid"]
        install(python, "--upgrade", *project, *release.packages)
    return python


def _test(name: str, python: Path, options: Sequence[str]) -> Result:
    variables = {**os.environ, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    for variable in ("PYTHONPATH", "SPARK_HOME"):
        variables.pop(variable, None)
    command = [str(python), "-m", "pytest", "-m", "spark", "-p", "no:cacheprovider", "--color=no", *options]
    with subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        last = ""
        for line in running.stdout:
            print(line, end="", flush=True)
            last = line if re.search(r"\bin [0-9.]+s", line) else last
    return Result(name, last.strip(" =\n") or "no tests ran", running.returncode != 0)


def main() -> int:
    """Test the releases that were named, all by default, and print a table of results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RELEASES)}")
    parser.add_argument("--tests", action="append", default=[], help="tests instead of the usual ones")
    parser.add_argument("--prepare", action="store_true", help="only make the environments")
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.names) - set(RELEASES))
    if unknown:
        parser.error(f"unknown name {', '.join(unknown)}")
    results = []
    for name in chosen.names or RELEASES:
        release = RELEASES[name]
        try:
            installed = interpreter(release.oldest_python, release.newest_python)
        except LookupError as error:
            results.append(Result(name, f"not run: {error}", failed=True))
            continue
        print(f"\nPySpark {name}", flush=True)
        python = _prepare(name, release, installed)
        if not chosen.prepare:
            results.append(_test(name, python, ["--quiet", *(chosen.tests or _TESTS)]))
    print()
    for result in results:
        print(f"PySpark {result.name}: {'FAILED ' if result.failed else ''}{result.counts}")
    return int(any(result.failed for result in results))


if __name__ == "__main__":
    sys.exit(main())
