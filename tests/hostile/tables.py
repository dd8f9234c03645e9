"""The table whose files are damaged: partitions, statistics, all kinds of deletion vectors and forms of checkpoints."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from deltaberg import open_table
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field

__all__ = ["CHECKPOINTS", "build_table", "metadata_files", "read_everything"]

#: Forms of checkpoints: kind, sidecars, statistics.
CHECKPOINTS: dict[str, dict[str, object]] = {
    "none": {},
    "classic": {"kind": "classic", "stats": "both"},
    "multipart": {"kind": "multipart", "parts": 2, "stats": "json"},
    "uuid-parquet": {"kind": "uuid-parquet", "sidecars": 2, "stats": "struct"},
    "uuid-json": {"kind": "uuid-json", "sidecars": 1, "stats": "json"},
}

_DAY = dt.date(2020, 2, 29)


def _rows(first: int, count: int = 12) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([f"name-{number}" if number % 5 else None for number in ids]),
            "price": pa.array([Decimal(number) / 4 for number in ids], pa.decimal128(12, 2)),
            "at": pa.array([dt.datetime(2020, 1, 1, 0, 0, number % 60) for number in ids], pa.timestamp("us", "UTC")),
            "tags": pa.array([[f"t{number % 3}", None] for number in ids], pa.list_(pa.string())),
        }
    )


def build_table(folder: Path, checkpoint: str = "classic") -> DeltaBuilder:
    """Make a table of ids from 0 on, of which some are deleted: its live ids are those of `read_everything`."""
    builder = DeltaBuilder(folder)
    columns = [*_rows(0).schema, field("day", "date"), field("part", "string")]
    writer = {"row_group_size": 5, "use_dictionary": ["name"]}
    first = [
        builder.add(
            _rows(100 * number),
            path=f"day={_DAY}/part={number}/f{number}.parquet",
            partition={"day": str(_DAY), "part": ["ü", "a/b", None][number]},
            stats="full",
            writer=writer,
        )
        for number in range(3)
    ]
    builder.create(
        columns,
        *first,
        partition_by=["day", "part"],
        protocol=builder.features("deletionVectors", "v2Checkpoint"),
        configuration={"delta.enableDeletionVectors": "true"},
    )
    vectors = [builder.vector([0, 3, 11], "u", prefix="ab"), builder.vector([5, 8], "i"), builder.vector(range(7), "p")]
    exchanged = []
    for add, vector in zip(first, vectors, strict=True):
        exchanged += [builder.remove(add), {"add": {**add["add"], "deletionVector": vector}}]
    builder.commit(*exchanged, {"txn": {"appId": "app", "version": 3}}, info={"operation": "DELETE", "timestamp": 1})
    kept = builder.add(_rows(300), path="f3.parquet", partition={"day": None, "part": "x"}, stats="full", writer=writer)
    gone = builder.add(_rows(400), path="f4.parquet", partition={"day": str(_DAY), "part": ""}, stats="count")
    builder.commit(kept, gone, {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}})
    if checkpoint != "none":
        builder.checkpoint(pointer=checkpoint in ("classic", "multipart"), **CHECKPOINTS[checkpoint])  # type: ignore[arg-type]
    last = builder.add(_rows(500), path="f%5.parquet", partition={"day": str(_DAY), "part": "y"}, stats="full")
    builder.commit(builder.remove(gone), last)
    return builder


def metadata_files(builder: DeltaBuilder) -> list[Path]:
    """Return the files of the log, sidecars included."""
    return sorted(path for path in builder.log.rglob("*") if path.is_file())


def read_everything(folder: Path) -> list[int]:
    """Open a table and use all that its metadata says; give the ids of its rows, sorted."""
    table = open_table(folder, "delta")
    scan = table.scan(filter="id >= 0 and (part = 'y' or part is null or part <> 'none')")
    scan.explain()
    scan.files()
    _use(table.scan(filter="id >= 0 and price < 1000 and name <> 'no' or at < '2021-01-01'").files().num_rows)
    _use(table.scan().count())
    for state in (table.protocol, table.properties, table.partition_columns, table.schema):
        _use(state)
    rows = table.scan().to_arrow()
    rows.validate(full=True)
    return sorted(_ids(rows))


def _ids(rows: pa.Table) -> Iterator[int]:
    for value in rows.column("id").to_pylist():
        if value is not None:
            yield value


def _use(found: object) -> None:
    repr(found)
