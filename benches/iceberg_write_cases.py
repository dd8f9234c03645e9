"""The cases of writing and changing Iceberg tables, compared with pyiceberg.

Every side makes its own table in a catalog in SQLite before the clock starts, and what was written is read back after
it has stopped. The rows to write are in memory, which counts for all sides. pyiceberg syncs nothing to disk, and ours
syncs all that a commit needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benches import data
from benches.iceberg_cases import newest_metadata
from benches.measure import Case, Outcome, Side, contents, peak_of_processes, timed, warm
from benches.write_cases import many_rows, small_commits, workplace
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile

__all__ = ["ICEBERG_CHANGE_CASES", "ICEBERG_WRITE_CASES"]

_NAME = "bench.rows"
_VERSION = {"format-version": "2"}
_MANIFESTS, _ENTRIES = 1_000, 100


class _Work(NamedTuple):
    """What a table has before the clock starts, and the rows to write."""

    rows: list[pa.Table]
    before: Sequence[pa.Table] = ()


_Works = Callable[[float], _Work]
#: Does the work on a table; given the rows.
_Verb = Callable[[Any, list[pa.Table]], object]


def _appends(scale: float) -> _Work:
    return _Work(many_rows(scale))


def _commits(scale: float) -> _Work:
    # A fifth of those of Delta: with each of its commits, pyiceberg takes longer.
    return _Work(small_commits(scale / 5))


def _deletes(scale: float) -> _Work:
    return _Work([], many_rows(scale))


def _upserts(scale: float) -> _Work:
    """Return 100,000 rows for a table of 1,600,000, a tenth of them with new ids, in random order."""
    batches = many_rows(scale * 0.1)
    count, rng = sum(rows.num_rows for rows in batches), np.random.default_rng(3)
    found = max(count // 16, 10)
    ids = np.concatenate([np.arange(0, count, 16)[: found - found // 10], count + np.arange(found // 10)])
    rows = pa.table(data.columns(rng, 0, len(ids)), schema=data.SCHEMA)
    return _Work([rows.set_column(0, "id", pa.array(rng.permutation(ids), pa.int64()))], batches)


def _our_catalog(root: Path) -> Any:
    from deltaberg import load_catalog
    from deltaberg.expressions.build.parse import parse_value

    # What a change imports is not part of it.
    parse_value("k < 1")
    warm()
    return load_catalog("bench", type="sql", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")


def _their_catalog(root: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog("bench", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")


def _made(catalog: Any, work: _Work, properties: dict[str, str]) -> Any:
    schema = (work.before or work.rows)[0].schema
    catalog.create_namespace("bench")
    table = catalog.create_table(_NAME, schema, properties={**_VERSION, **properties})
    for rows in work.before:
        table.append(rows)
    return table


def _append(table: Any, appends: list[pa.Table]) -> object:
    return [table.append(rows) for rows in appends]


def _append_by_polars(table: Any, appends: list[pa.Table]) -> object:
    import polars as pl

    return [pl.DataFrame(rows).write_iceberg(table, mode="append") for rows in appends]


def _delete(table: Any, _: list[pa.Table]) -> object:
    """Delete 1 % of the rows."""
    return table.delete("k < 10000")


def _our_upsert(table: Any, given: list[pa.Table]) -> object:
    return [table.upsert(rows, "id") for rows in given]


def _their_upsert(table: Any, given: list[pa.Table]) -> object:
    return [table.upsert(rows, join_cols=["id"]) for rows in given]


def _side(make_catalog: Callable[[Path], Any], works: _Works, verb: _Verb, **properties: str) -> Side:
    def run(scale: float) -> Outcome:
        work = works(scale)
        with workplace() as root:
            table = _made(make_catalog(root), work, properties)
            outcome = timed(lambda: verb(table, work.rows), lambda _: None)
            peak = peak_of_processes()
            return Outcome(outcome.amounts, contents(_our_catalog(root).load_table(_NAME).scan().to_arrow()), peak)

    return run


def _large_table(root: Path, scale: float, properties: dict[str, str]) -> str:
    """Write the metadata of a table of 100,000 files in 1,000 manifests, and return the path of its newest metadata."""
    builder = IcebergBuilder(root / "large", {"id": "long"}, properties=properties)
    rows = []
    for number in range(max(int(_MANIFESTS * scale), 10)):
        builder.sequence += 1
        entries = [
            {"status": 1, "snapshot_id": None, "sequence_number": None, "file": _file(builder.root, number, place)}
            for place in range(_ENTRIES)
        ]
        rows.append(builder.manifest(entries, snapshot_id=1000 + number) | {"entries": []})
    builder.commit(manifests=rows, sequence=builder.sequence)
    return str(newest_metadata(builder.root))


def _file(root: Any, number: int, place: int) -> IcebergFile:
    return IcebergFile(f"{root}/data/{number:05}-{place:05}.parquet", 1000, 100_000)


def _commit_on_large(make_catalog: Callable[[Path], Any], properties: dict[str, str]) -> Side:
    def run(scale: float) -> Outcome:
        with workplace() as root:
            metadata = _large_table(root, scale, properties)
            catalog = make_catalog(root)
            catalog.create_namespace("bench")
            table = catalog.register_table(_NAME, metadata)
            rows = pa.table({"id": range(100)})
            outcome = timed(lambda: table.append(rows), lambda _: None)
            peak = peak_of_processes()
            found = _our_catalog(root).load_table(_NAME).scan().files().num_rows
            return Outcome(outcome.amounts, found, peak)

    return run


def _nothing(scale: float) -> None:
    """Every side makes its table itself."""


def _both(works: _Works, verb: _Verb = _append) -> dict[str, Side]:
    return {"deltaberg": _side(_our_catalog, works, verb), "pyiceberg": _side(_their_catalog, works, verb)}


def _commits_on_large(*, merging: bool) -> dict[str, Side]:
    properties = {"commit.manifest-merge.enabled": str(merging).lower()}
    return {
        "deltaberg": _commit_on_large(_our_catalog, properties),
        "pyiceberg": _commit_on_large(_their_catalog, properties),
    }


ICEBERG_WRITE_CASES: dict[str, Case] = {
    "iceberg-append": Case(
        "Iceberg: append 16M rows of 6 columns",
        _nothing,
        {**_both(_appends), "polars": _side(_their_catalog, _appends, _append_by_polars)},
    ),
    "iceberg-commits": Case("Iceberg: append 100 rows of 3 columns 200 times", _nothing, _both(_commits)),
    "iceberg-large-commit": Case(
        "Iceberg: append 100 rows to a table of 100,000 files in 1,000 manifests",
        _nothing,
        _commits_on_large(merging=False),
    ),
    "iceberg-merging-commit": Case(
        "Iceberg: the same, which puts small manifests together", _nothing, _commits_on_large(merging=True)
    ),
}

ICEBERG_CHANGE_CASES: dict[str, Case] = {
    "iceberg-delete": Case(
        "Iceberg: delete 1 % of 16M rows of 6 columns",
        _nothing,
        {
            "deltaberg": _side(_our_catalog, _deletes, _delete, **{"write.delete.mode": "merge-on-read"}),
            "written anew": _side(_our_catalog, _deletes, _delete),
            "pyiceberg": _side(_their_catalog, _deletes, _delete),
        },
    ),
    "iceberg-upsert": Case(
        "Iceberg: upsert 100,000 rows into 1.6M",
        _nothing,
        {
            "deltaberg": _side(_our_catalog, _upserts, _our_upsert),
            "pyiceberg": _side(_their_catalog, _upserts, _their_upsert),
        },
    ),
}
