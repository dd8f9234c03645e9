"""DuckDB with the extensions that read tables: ``python -m tests.interop.duckdb_reader --install`` fetches it once.

DuckDB itself downloads its extensions, each for one version of DuckDB alone. PyPI has them as packages, too, seldom for
the newest version. So this DuckDB has an environment of its own, of the packages of ``requirements/duckdb.txt``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.packages import ROOT, make_environment, sync

__all__ = ["DuckDB", "DuckDBError", "installed", "running"]

_FOLDER = ROOT / ".venv-duckdb"
_PYTHON = _FOLDER / "bin" / "python"
#: It is written once all packages are there.
_DONE = _FOLDER / "done"
#: What the other process runs: it answers each line of JSON with one.
_CODE = """
import json, sys
from importlib.util import find_spec
from pathlib import Path
import duckdb

connection = duckdb.connect()
for name in ("avro", "iceberg", "delta"):
    folder = Path(find_spec(f"duckdb_extension_{name}").origin).parent
    for extension in folder.glob("extensions/*/*.duckdb_extension"):
        connection.load_extension(str(extension))
print(json.dumps(duckdb.__version__), flush=True)
for line in sys.stdin:
    function, location = json.loads(line)
    try:
        read = connection.execute(f"SELECT * FROM {function}(?)", [location])
        names = [column[0] for column in read.description]
        answer = {"rows": [dict(zip(names, row)) for row in read.fetchall()]}
    except Exception as error:
        answer = {"error": str(error)}
    print(json.dumps(answer, default=str), flush=True)
"""


class DuckDBError(Exception):
    """DuckDB refused a table; the message is its own."""


class DuckDB:
    """The process, and a pipe to it; `version` is that of DuckDB."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.version: str = self._answer()

    def read(self, function: str, location: str) -> list[dict[str, Any]]:
        """Return the rows of a table, read by a function of DuckDB such as ``delta_scan``."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([function, location]) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if "error" in answer:
            raise DuckDBError(answer["error"])
        rows: list[dict[str, Any]] = answer["rows"]
        return rows

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def installed() -> bool:
    """Return whether DuckDB is there with its extensions, as the lock file has them."""
    return _DONE.exists() and _DONE.read_text("utf-8") == _locked()


def _locked() -> str:
    return (ROOT / "requirements" / "duckdb.txt").read_text("utf-8")


@contextmanager
def running() -> Iterator[DuckDB]:
    """Run DuckDB in its environment until the end of the block."""
    with subprocess.Popen(
        [str(_PYTHON), "-I", "-c", _CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield DuckDB(process)
        finally:
            process.kill()


def main() -> int:
    """Install DuckDB and its extensions, unless they are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", action="store_true", required=True)
    parser.parse_args()
    if not installed():
        sync(make_environment(_FOLDER, sys.executable), "duckdb")
        _DONE.write_text(_locked(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
