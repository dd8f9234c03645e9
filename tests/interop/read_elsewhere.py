"""The page about what other libraries read: made by asking them.

``python -m tests.interop.read_elsewhere --write`` renews the page, with a Spark session of its own and the DuckDB that
`tests.interop.duckdb_reader` installs.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import deltalake
import polars as pl
import pyarrow as pa
from pyiceberg.table import StaticTable

import deltaberg
from tests.interop.duckdb_reader import running
from tests.support.engine_jars import ENGINES
from tests.support.judge import Judge
from tests.support.pages import ROOT

__all__ = ["IN_PROCESS", "PAGE", "Library", "answers", "by_duckdb", "by_spark", "page"]

PAGE = ROOT / "docs" / "readers.md"
_ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
_TEXT = """# What other libraries read

Some features that a table may have, or that a hint proposes, keep other libraries from reading it. The tables below
were made by asking {versions}.
Each read a table with that feature. "Yes" means that it gave the right rows, "no" that it raised an error, and
"wrong rows" that it raised none. DuckDB is the newest one whose extensions `delta` and `iceberg` are packages of
PyPI, since what DuckDB downloads itself has no hash to be checked by. What else delta-spark and iceberg-spark read is
on [another page](interop.md).
`python -m tests.interop.read_elsewhere --write` renews this page, and a test looks that it is true.

`drop_feature` of a Delta table [takes a feature away](maintenance.md#dropping-features) again, `reorg` drops deletion
vectors, and `convert_equality_deletes` makes positions of equality deletes.
"""
_Make = Callable[[Path], Any]
_Read = Callable[[str], list[dict[str, Any]]]


class Library(NamedTuple):
    """A library with its version, and its ways to read tables of either format, by the heads of their columns."""

    name: str
    version: str
    delta: dict[str, _Read]
    iceberg: dict[str, _Read]


def _delta(
    properties: dict[str, str] | None = None, then: Callable[[Any], object] | None = None, **columns: pa.DataType
) -> _Make:
    """Return what makes a Delta table of some rows with properties, more columns, and a change."""

    def made(path: Path) -> Any:
        schema = pa.schema([*_ROWS.schema, *columns.items()])
        table = deltaberg.create_table(path, schema, format="delta", properties=properties or {})
        table.append(_ROWS)
        if then is not None:
            then(table)
        return table

    return made


def _iceberg(format_version: int, then: Callable[[Any], object] | None = None) -> _Make:
    """Return what makes an Iceberg table of some rows, and changes it."""

    def made(path: Path) -> Any:
        properties = {"format-version": str(format_version)}
        table = deltaberg.create_table(path, _ROWS.schema, format="iceberg", properties=properties)
        table.append(_ROWS)
        if then is not None:
            then(table)
        return table

    return made


def _hide(table: Any) -> None:
    """Delete a row without writing its file anew."""
    table.delete("id = 2", strategy="merge-on-read")


_DELTA: dict[str, _Make] = {
    "none of these": _delta(),
    "deletion vectors": _delta({"delta.enableDeletionVectors": "true"}, lambda table: table.delete("id = 2")),
    "column mapping": _delta(
        {"delta.columnMapping.mode": "name"}, lambda table: table.alter().rename("name", "label").commit()
    ),
    "type widening, of a column that was widened": _delta(
        {"delta.enableTypeWidening": "true"},
        lambda table: table.alter().widen("number", pa.int64()).commit(),
        number=pa.int32(),
    ),
    "row tracking": _delta({"delta.enableRowTracking": "true"}),
    "defaults of columns": _delta(
        {"delta.feature.allowColumnDefaults": "supported"},
        lambda table: table.alter().set_default("name", "'x'").commit(),
    ),
    "check constraints": _delta(None, lambda table: table.alter().add_constraint("positive", "id > 0").commit()),
    "in-commit timestamps": _delta({"delta.enableInCommitTimestamps": "true"}),
    "checkpoints of version 2": _delta({"delta.checkpointPolicy": "v2"}, lambda table: table.checkpoint()),
    "change data feed": _delta({"delta.enableChangeDataFeed": "true"}, lambda table: table.delete("id = 2")),
    "liquid clustering": _delta(None, lambda table: table.alter().cluster_by("id").commit()),
    "a column of the type timestamp_ntz": _delta(at=pa.timestamp("us")),
    "a column of the type void": _delta(nothing=pa.null()),
}
_ICEBERG: dict[str, _Make] = {
    "version 1": _iceberg(1),
    "version 2": _iceberg(2),
    "version 3": _iceberg(3),
    "version 2 with position deletes": _iceberg(2, _hide),
    "version 2 with equality deletes": _iceberg(2, lambda table: table.delete_by_keys(pa.table({"id": [2]}))),
    "version 3 with deletion vectors": _iceberg(3, _hide),
}


def _queried(location: str) -> list[dict[str, Any]]:
    query = deltalake.QueryBuilder().register("rows", deltalake.DeltaTable(location)).execute("SELECT * FROM rows")
    rows: list[dict[str, Any]] = pa.table(query.read_all()).to_pylist()
    return rows


#: The libraries that read in this process.
IN_PROCESS = (
    Library(
        "deltalake",
        version("deltalake"),
        {
            "deltalake, `to_pyarrow_table`": lambda path: deltalake.DeltaTable(path).to_pyarrow_table().to_pylist(),
            "deltalake, `to_pyarrow_dataset`": lambda path: (
                deltalake.DeltaTable(path).to_pyarrow_dataset().to_table().to_pylist()
            ),
            "deltalake, `QueryBuilder`": _queried,
        },
        {},
    ),
    Library(
        "polars",
        version("polars"),
        {"polars": lambda path: pl.scan_delta(path).collect().to_dicts()},
        {"polars": lambda path: pl.scan_iceberg(path).collect().to_dicts()},
    ),
    Library(
        "pyiceberg",
        version("pyiceberg"),
        {},
        {"pyiceberg": lambda path: StaticTable.from_metadata(path).scan().to_arrow().to_pylist()},
    ),
)


@contextmanager
def by_duckdb() -> Iterator[Library]:
    """Run DuckDB, and yield what it reads."""
    with running() as duckdb:
        yield Library(
            "DuckDB",
            duckdb.version,
            {"DuckDB": lambda path: duckdb.read("delta_scan", path)},
            {"DuckDB": lambda path: duckdb.read("iceberg_scan", path)},
        )


def by_spark(judge: Judge) -> Iterator[Library]:
    """Yield delta-spark and iceberg-spark, in the versions of the judge."""

    def read(source: str) -> _Read:
        def rows(location: str) -> list[dict[str, Any]]:
            code = "spark.read.format(source).load(location)"
            read_rows: list[dict[str, Any]] = judge.run(code, source=source, location=location).to_pylist()
            return read_rows

        return rows

    of_jars = dict(jar.split(":")[1:] for jar in ENGINES["spark.jars.packages"].split(","))
    names = {name.partition("-spark")[0]: jar for name, jar in of_jars.items()}
    yield Library("delta-spark", names["delta"], {"delta-spark": read("delta")}, {})
    yield Library("iceberg-spark", names["iceberg"], {}, {"iceberg-spark": read("iceberg")})


def _answer(read: _Read, place: str, expected: list[dict[str, Any]]) -> str:
    try:
        rows = sorted(read(place), key=lambda row: (row["id"] is None, row["id"]))
    except Exception:  # noqa: BLE001 - each library has errors of its own
        return "no"
    return "yes" if rows == expected else "wrong rows"


def answers(folder: Path, libraries: Iterable[Library]) -> dict[str, dict[str, dict[str, str]]]:
    """Return for each format, and each way of the libraries to read, what it made of each feature.

    The tables are made in a folder.
    """
    ways = {
        "Delta": {name: read for library in libraries for name, read in library.delta.items()},
        "Iceberg": {name: read for library in libraries for name, read in library.iceberg.items()},
    }
    result: dict[str, dict[str, dict[str, str]]] = {name: {way: {} for way in of_it} for name, of_it in ways.items()}
    with warnings.catch_warnings():
        # Other libraries warn of what they are about to drop.
        warnings.simplefilter("ignore")
        for name, features in (("Delta", _DELTA), ("Iceberg", _ICEBERG)):
            for number, (feature, make) in enumerate(features.items() if ways[name] else ()):
                table = make(folder / name / str(number))
                place = getattr(table, "metadata_location", table.location)
                expected = table.to_arrow().sort_by("id").to_pylist()
                for way, read in ways[name].items():
                    result[name][way][feature] = _answer(read, place, expected)
    return result


def page(folder: Path, libraries: Sequence[Library]) -> str:
    """Return the text of the page, with tables that are made in a folder."""
    names = [f"{library.name} {library.version}" for library in libraries]
    parts = [_TEXT.format(versions=f"{', '.join(names[:-1])} and {names[-1]}")]
    for name, of_ways in answers(folder, libraries).items():
        lines = [f"| {' | '.join(('feature', *of_ways))} |", "|---" * (len(of_ways) + 1) + "|"]
        lines += [
            f"| {' | '.join((feature, *(said[feature] for said in of_ways.values())))} |"
            for feature in next(iter(of_ways.values()))
        ]
        parts.append("\n".join((f"## {name} tables", "", *lines, "")))
    return "\n".join(parts)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, by_duckdb() as duckdb:
        judge = Judge(Path(scratch))
        made = page(Path(scratch), [*IN_PROCESS, duckdb, *by_spark(judge)])
        judge.close()
    if "--write" in sys.argv:
        PAGE.write_text(made, "utf-8")
    else:
        print(made)
