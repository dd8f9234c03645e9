"""The tables that the benchmarks read, the same on every machine."""

from __future__ import annotations

import json
import random
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benches.cache import made
from tests.support.delta_builder import DeltaBuilder

__all__ = [
    "SCHEMA",
    "SPREAD",
    "TWO",
    "adds_of",
    "checkpoint",
    "columns",
    "commits",
    "log",
    "rows",
    "rows_of_file",
    "spread",
]

_COMMITS = 200
_FILES = 8
#: The columns that are read where not all are.
TWO = ("id", "w")
#: The rows of a table of the cost curves.
SPREAD = 2_000_000
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int32()),
        ("v", pa.float64()),
        ("s", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("w", pa.int64()),
    ]
)


def adds_of(scale: float) -> int:
    """Return the adds of each commit of `log`."""
    return max(int(5_000 * scale), 10)


def log(scale: float) -> Path:
    """Create a table of 200 commits, each with 5,000 adds and 1,000 removes, and with statistics of 6 columns."""
    adds = adds_of(scale)
    return made(f"log-{adds}", lambda root: _make_log(root, adds))


def _make_log(root: Path, adds: int) -> None:
    rng = random.Random(1)
    builder = DeltaBuilder(root)
    builder.create(pa.schema([*SCHEMA, ("p", pa.string())]), partition_by=["p"])
    live: list[tuple[str, str]] = []
    for commit in range(_COMMITS):
        builder.commit_text("".join(_commit(rng, live, commit, adds)))


def _commit(rng: random.Random, live: list[tuple[str, str]], commit: int, adds: int) -> Iterator[str]:
    for _ in range(adds // 5 if commit else 0):
        place = rng.randrange(len(live))
        path, p = live[place]
        live[place] = live[-1]
        live.pop()
        yield (
            f'{{"remove":{{"path":"{path}","deletionTimestamp":{1_700_000_000_000 + commit},"dataChange":true,'
            f'"extendedFileMetadata":true,"partitionValues":{{"p":"{p}"}},"size":12345}}}}\n'
        )
    for number in range(adds):
        count = commit * adds + number
        p = f"{count % 97:02d}"
        path = f"p={p}/part-{number:05d}-{uuid.UUID(int=rng.getrandbits(128))}.c000.snappy.parquet"
        low, high, day = count * 1000, count * 1000 + 999, f"2024-01-{1 + count % 28:02d}"
        stats = {
            "numRecords": 1000,
            "minValues": {
                "id": low,
                "k": rng.randrange(10**6),
                "v": rng.random(),
                "s": f"key-{low:012d}-{rng.randrange(10**9)}"[:32],
                "ts": f"{day}T00:00:00.000Z",
                "w": rng.randrange(10**12),
            },
            "maxValues": {
                "id": high,
                "k": 10**6 + rng.randrange(10**6),
                "v": 1 + rng.random(),
                "s": f"key-{high:012d}-{rng.randrange(10**9)}"[:32],
                "ts": f"{day}T23:59:59.999Z",
                "w": 10**12 + rng.randrange(10**12),
            },
            "nullCount": dict.fromkeys(SCHEMA.names, 0),
        }
        add = {
            "path": path,
            "partitionValues": {"p": p},
            "size": 10**6 + rng.randrange(10**6),
            "modificationTime": 1_700_000_000_000 + commit * 1000,
            "dataChange": True,
            "stats": json.dumps(stats, separators=(",", ":")),
        }
        live.append((path, p))
        yield json.dumps({"add": add}, separators=(",", ":")) + "\n"


def checkpoint(scale: float) -> Path:
    """Create the same table with a checkpoint that deltalake writes, and without the log before it."""
    source = log(scale)
    return made(source.name.replace("log", "checkpointed"), lambda root: _make_checkpoint(root, source))


def _make_checkpoint(root: Path, source: Path) -> None:
    import deltalake

    shutil.copytree(source, root, ignore=shutil.ignore_patterns(".done"))
    deltalake.DeltaTable(root).create_checkpoint()
    for path in sorted((root / "_delta_log").glob("*.json"))[:-1]:
        path.unlink()


def rows_of_file(scale: float) -> int:
    """Return the number of rows of each of 8 files, which have 16,000,000 together."""
    return max(int(2_000_000 * scale), 1000)


def columns(rng: np.random.Generator, first: int, count: int) -> list[pa.Array]:
    """Return rows of all columns, with ids from ``first`` on."""
    ids = np.arange(first, first + count)
    return [
        pa.array(ids),
        pa.array(rng.integers(0, 10**6, count, dtype=np.int32)),
        pa.array(rng.random(count)),
        pa.array([f"name-{number % 5000:05d}" for number in range(count)]),
        pa.array(1_700_000_000_000_000 + ids * 1000).cast(pa.timestamp("us", "UTC")),
        pa.array(rng.integers(0, 10**12, count)),
    ]


def rows(scale: float, deleted: bool) -> Path:
    """Create a table of 16,000,000 rows of 6 columns in 8 files, optionally with 1 % deleted by deletion vectors."""
    count = rows_of_file(scale)
    name = f"rows-{count}-{'deleted' if deleted else 'whole'}"
    return made(name, lambda root: _make_rows(root, _FILES, count, 1 if deleted else 0))


def spread(scale: float, files: int, percent: int = 0) -> Path:
    """Create a table of 2,000,000 rows of 6 columns in some files, with some percent deleted by deletion vectors."""
    count = max(int(SPREAD * scale) // files, 1)
    return made(f"spread-{files}x{count}-{percent}", lambda root: _make_rows(root, files, count, percent))


def _make_rows(root: Path, files: int, count: int, percent: int) -> None:
    rng, deletes = np.random.default_rng(1), np.random.default_rng(2)
    builder = DeltaBuilder(root)
    adds = []
    for number in range(files):
        first = number * count
        table = pa.table(columns(rng, first, count), schema=SCHEMA)
        gone = np.sort(deletes.choice(count, count * percent // 100, replace=False)).tolist()
        stats = {
            "numRecords": count,
            "minValues": {"id": first},
            "maxValues": {"id": first + count - 1},
            "nullCount": {"id": 0},
            "tightBounds": not percent,
        }
        vector = builder.vector(gone) if gone else None
        adds.append(builder.add(table, stats=stats, vector=vector, writer={"row_group_size": 1_000_000}))
    builder.create(SCHEMA, *adds, protocol=builder.features("deletionVectors") if percent else None)


def commits(count: int, rows: int) -> Path:
    """Create a table of some commits with a file each, and a checkpoint before the last three."""
    return made(f"commits-{count}x{rows}", lambda root: _make_commits(root, count, rows))


def _make_commits(root: Path, count: int, rows: int) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.float64()), ("w", pa.int64())])
    builder = DeltaBuilder(root)
    builder.create(schema)
    for number in range(count):
        ids = pa.array(range(number * rows, (number + 1) * rows), pa.int64())
        builder.commit(builder.add(pa.table([ids, ids.cast(pa.float64()), ids], schema=schema), stats="full"))
        if number == count - 4:
            builder.checkpoint(pointer=True)
