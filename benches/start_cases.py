"""The cases that include the start of Python: imports, the first row, and the command line.

Each runs in a fresh interpreter that has imported nothing, started by the process of the side.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benches import data, iceberg_data
from benches.iceberg_cases import newest_metadata
from benches.measure import Case, Outcome, Side, await_turn, joined

__all__ = ["START_CASES"]

_ROOT = Path(__file__).resolve().parents[1]

# Says on the last line of standard error, after all that was measured, what memory it took.
_PEAK = """
import atexit, sys

def peak():
    from tests.support.memory import peak_memory
    print(peak_memory(), file=sys.stderr)

atexit.register(peak)
"""
# Takes the time within the process: the start of the interpreter is the same for all.
_WITHIN = """
from time import perf_counter
start = perf_counter()
{code}
seconds = perf_counter() - start
import json
print(json.dumps([seconds, {{name: str(row[name]) for name in sorted(row)}}]))
"""
_PRINT = "{code}\nimport json\nprint(json.dumps(row, default=str))"
# What gives the first row of the table at PLACE, from the first import on.
_FIRST = {
    "deltaberg": "import deltaberg\nrow = deltaberg.open_table(PLACE).scan(limit=1).to_arrow().to_pylist()[0]",
    # By its own engine: the head of its pyarrow dataset leaves threads behind, on which the process hangs at its end.
    "deltalake": "import deltalake, pyarrow\n"
    "query = deltalake.QueryBuilder().register('t', deltalake.DeltaTable(PLACE)).execute('select * from t limit 1')\n"
    "row = pyarrow.table(query.read_all()).to_pylist()[0]",
    "polars": "import polars\nrow = polars.scan_delta(PLACE).head(1).collect().to_dicts()[0]",
    "pyiceberg": "from pyiceberg.table import StaticTable\n"
    "row = StaticTable.from_metadata(PLACE).scan(limit=1).to_arrow().to_pylist()[0]",
}
_DELTA = ("deltaberg", "deltalake", "polars")
_ICEBERG = ("deltaberg", "pyiceberg")
_SMALL_FILES = 8
_TIMES = 3
_HEAD = (
    "import sys\nsys.argv = ['deltaberg', 'head', PLACE, '-n', '1', '--json']\nfrom deltaberg.cli import main\nmain()"
)


def _python(code: str) -> tuple[float, str, int]:
    """Run code in a fresh interpreter; return the seconds of the process, its last line, and its peak memory."""
    await_turn()
    start = time.perf_counter()
    finished = subprocess.run(
        [sys.executable, "-c", _PEAK + code], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if finished.returncode:
        raise RuntimeError(finished.stderr)
    return seconds, finished.stdout.splitlines()[-1], int(finished.stderr.splitlines()[-1])


def _within(code: str) -> Outcome:
    _, line, peak = _python(_WITHIN.format(code=code))
    seconds, found = json.loads(line)
    return Outcome([seconds], found, peak)


def _whole(code: str) -> Outcome:
    seconds, line, peak = _python(code)
    return Outcome([seconds], {name: _plain(value) for name, value in sorted(json.loads(line).items())}, peak)


def _plain(value: Any) -> str:
    """Format a value like Python, which formats an instant differently from our command."""
    text = str(value)
    return text.replace("T", " ").replace(".000000Z", "+00:00") if text.endswith("Z") else text


def _first(run: Callable[[str], Outcome], place: Path, code: str) -> Outcome:
    """Return the first row of a table several times. Without an order, it may be a different row each time."""
    runs = [run(f"PLACE = {str(place)!r}\n{code}") for _ in range(_TIMES)]
    return joined([ran._replace(found=_columns_of(place, ran.found)) for ran in runs])


def _columns_of(place: Path, row: Mapping[str, str]) -> list[str]:
    """Return the columns of a row, after checking that the files of its table have it."""
    folder = place if place.is_dir() else place.parents[1]
    found = pq.read_table(sorted(folder.rglob("*.parquet")), filters=[("id", "==", int(row["id"]))]).to_pylist()
    if [{name: str(value) for name, value in each.items()} for each in found] != [row]:
        raise ValueError(f"{row} is not a row of {place}, which has {found}")
    return sorted(row)


def _import_case(title: str, statements: Mapping[str, str]) -> Case:
    def side(statement: str) -> Side:
        return lambda _: joined([_within(f"{statement}\nrow = {{}}") for _ in range(_TIMES)])

    sides = {name: side(statement) for name, statement in statements.items()}
    return Case(title, lambda _: None, sides)


def _first_case(title: str, place: Callable[[float], Any], sides: tuple[str, ...]) -> Case:
    def side(name: str) -> Side:
        return lambda scale: _first(_within, place(scale), _FIRST[name])

    return Case(title, place, {name: side(name) for name in sides})


def _command_case(title: str, place: Callable[[float], Any], sides: tuple[str, ...]) -> Case:
    def side(code: str) -> Side:
        return lambda scale: _first(_whole, place(scale), code)

    scripts = {name: side(_PRINT.format(code=_FIRST[name])) for name in sides if name != "deltaberg"}
    return Case(title, place, {"deltaberg": side(_HEAD), **scripts})


def _small_delta(_: float) -> Path:
    return data.spread(0.004, _SMALL_FILES)


def _small_iceberg(_: float) -> Path:
    return newest_metadata(iceberg_data.spread(0.004, _SMALL_FILES))


def _large_delta(scale: float) -> Path:
    return data.rows(scale, deleted=False)


def _large_iceberg(scale: float) -> Path:
    return newest_metadata(iceberg_data.deleted_rows(scale, deleted=False))


START_CASES: dict[str, Case] = {
    "import": _import_case(
        "the bare import; deltaberg and pyiceberg load what a name needs later, which `import-open` counts",
        {
            "deltaberg": "import deltaberg",
            "deltalake": "import deltalake",
            "polars": "import polars",
            "pyiceberg": "import pyiceberg",
        },
    ),
    "import-open": _import_case(
        "import what opens a table",
        {
            "deltaberg": "from deltaberg import open_table",
            "deltalake": "from deltalake import DeltaTable",
            "polars": "from polars import scan_delta",
            "pyiceberg": "import pyiceberg.table",
        },
    ),
    "first-row-delta": _first_case(
        "Delta: from the first import to the first row of a table of 8,000 rows", _small_delta, _DELTA
    ),
    "first-row-delta-large": _first_case(
        "Delta: from the first import to the first row of 16M rows", _large_delta, _DELTA
    ),
    "first-row-iceberg": _first_case(
        "Iceberg: from the first import to the first row of a table of 8,000 rows", _small_iceberg, _ICEBERG
    ),
    "first-row-iceberg-large": _first_case(
        "Iceberg: from the first import to the first row of 16M rows", _large_iceberg, _ICEBERG
    ),
    "head-delta": _command_case("Delta: `deltaberg head` beside scripts, whole processes", _small_delta, _DELTA),
    "head-iceberg": _command_case(
        "Iceberg: `deltaberg head` beside a script, whole processes", _small_iceberg, _ICEBERG
    ),
}
