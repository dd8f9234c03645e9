"""The page about what other libraries of Python read: made by asking them.

``python -m tests.interop.read_elsewhere --write`` renews the page.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import deltalake
import polars as pl
import pyarrow as pa
from pyiceberg.table import StaticTable

import deltaberg
from tests.support.pages import ROOT

__all__ = ["PAGE", "page"]

PAGE = ROOT / "docs" / "readers.md"
_ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
_TEXT = """# What other libraries read

Some features that a table may have, or that a hint proposes, keep other libraries from reading it. The tables below
were made by asking {versions}.
Each read a table with that feature. "Yes" means that it gave the right rows, "no" that it raised an error, and
"wrong rows" that it raised none. DuckDB was not asked, since it downloads what reads Delta tables. What delta-spark and
iceberg-spark read is on [another page](interop.md).
`python -m tests.interop.read_elsewhere --write` renews this page, and a test looks that it is true.

`drop_feature` of a Delta table [takes a feature away](maintenance.md#dropping-features) again, `reorg` drops deletion
vectors, and `convert_equality_deletes` makes positions of equality deletes.
"""
_Make = Callable[[Path], Any]
_Read = Callable[[str], pa.Table]


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


def _queried(location: str) -> pa.Table:
    query = deltalake.QueryBuilder().register("rows", deltalake.DeltaTable(location)).execute("SELECT * FROM rows")
    return pa.table(query.read_all())


_READ_DELTA: dict[str, _Read] = {
    "deltalake, `to_pyarrow_table`": lambda path: deltalake.DeltaTable(path).to_pyarrow_table(),
    "deltalake, `to_pyarrow_dataset`": lambda path: deltalake.DeltaTable(path).to_pyarrow_dataset().to_table(),
    "deltalake, `QueryBuilder`": _queried,
    "polars": lambda path: pl.scan_delta(path).collect().to_arrow(),
}
_READ_ICEBERG: dict[str, _Read] = {
    "pyiceberg": lambda path: StaticTable.from_metadata(path).scan().to_arrow(),
    "polars": lambda path: pl.scan_iceberg(path).collect().to_arrow(),
}


def _answer(read: _Read, place: str, expected: list[dict[str, Any]]) -> str:
    try:
        rows = sorted(read(place).to_pylist(), key=lambda row: (row["id"] is None, row["id"]))
    except Exception:  # noqa: BLE001 - each library has errors of its own
        return "no"
    return "yes" if rows == expected else "wrong rows"


def _rows(folder: Path, made: dict[str, _Make], readers: dict[str, _Read]) -> str:
    lines = [f"| {' | '.join(('feature', *readers))} |", "|---" * (len(readers) + 1) + "|"]
    for number, (feature, make) in enumerate(made.items()):
        table = make(folder / str(number))
        place = getattr(table, "metadata_location", table.location)
        expected = table.to_arrow().sort_by("id").to_pylist()
        answers = [_answer(read, place, expected) for read in readers.values()]
        lines.append(f"| {' | '.join((feature, *answers))} |")
    return "\n".join(lines)


def page(folder: Path) -> str:
    """Return the text of the page, with tables that are made in a folder."""
    names = [f"{name} {version(name)}" for name in ("deltalake", "polars", "pyiceberg")]
    with warnings.catch_warnings():
        # Other libraries warn of what they are about to drop.
        warnings.simplefilter("ignore")
        delta = _rows(folder / "delta", _DELTA, _READ_DELTA)
        iceberg = _rows(folder / "iceberg", _ICEBERG, _READ_ICEBERG)
    text = _TEXT.format(versions=f"{', '.join(names[:-1])} and {names[-1]}")
    return f"{text}\n## Delta tables\n\n{delta}\n\n## Iceberg tables\n\n{iceberg}\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        made = page(Path(scratch))
    if "--write" in sys.argv:
        PAGE.write_text(made, "utf-8")
    else:
        print(made)
