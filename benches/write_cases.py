"""The cases of writing Delta tables, compared with deltalake.

The table is made before the clock starts, and what was written is read back after it has stopped. The rows to write
are in memory, which counts for both sides. deltalake syncs nothing to disk, and ours syncs all that a commit needs.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benches import data
from benches.cache import folder
from benches.measure import BYTES, Case, Outcome, Side, contents, names, peak_of_processes, timed, warm

__all__ = ["WRITE_CASES", "WRITTEN_CASES", "many_rows", "small_commits", "workplace"]

#: A file system in memory, where there is one.
_MEMORY = Path("/dev/shm")


class _Input(NamedTuple):
    """The appends of a case, and the columns that partition its table."""

    appends: list[pa.Table]
    partition_by: tuple[str, ...] = ()


_Inputs = Callable[[float], _Input]


def many_rows(scale: float) -> list[pa.Table]:
    """Return 16,000,000 rows of 6 columns, to be appended at once."""
    rng, count = np.random.default_rng(1), data.rows_of_file(scale)
    parts = [pa.table(data.columns(rng, number * count, count), schema=data.SCHEMA) for number in range(8)]
    return [pa.concat_tables(parts)]


def _many_rows(scale: float) -> _Input:
    return _Input(many_rows(scale))


def _random_partitions(scale: float) -> _Input:
    """Return 4,000,000 rows of 4 columns, in no order of their 100 partitions."""
    rng, count = np.random.default_rng(1), max(int(4_000_000 * scale), 1000)
    columns = {
        "p": rng.integers(0, 100, count).astype(np.int32),
        "id": np.arange(count),
        "v": rng.random(count),
        "s": [f"name-{number % 5000:05d}" for number in range(count)],
    }
    return _Input([pa.table(columns)], ("p",))


def small_commits(scale: float) -> list[pa.Table]:
    """Return 100 rows of 3 columns 1,000 times."""
    ids = pa.array(range(100), pa.int64())
    texts = pa.array([f"name {number}" for number in range(100)])
    count = max(int(1000 * scale), 20)
    return [
        pa.table({"id": pc.add(ids, 100 * commit), "v": pc.divide(ids, 8.0), "s": texts}) for commit in range(count)
    ]


def _small_commits(scale: float) -> _Input:
    return _Input(small_commits(scale))


@contextmanager
def workplace(parent: Path | None = None) -> Iterator[Path]:
    """Make a folder for a table, and remove it."""
    if parent is None or not parent.is_dir():
        parent = folder()
        parent.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="deltaberg-bench-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def _ours(inputs: _Input, root: Path) -> Callable[[], object]:
    import deltaberg

    warm()
    schema = inputs.appends[0].schema
    table = deltaberg.create_table(root, schema, format="delta", partition_by=inputs.partition_by)
    return lambda: [table.append(rows) for rows in inputs.appends]


def _theirs(inputs: _Input, root: Path) -> Callable[[], object]:
    import deltalake

    schema = deltalake.Schema.from_arrow(inputs.appends[0].schema)
    table = deltalake.DeltaTable.create(root, schema, partition_by=list(inputs.partition_by) or None)
    return lambda: [deltalake.write_deltalake(table, rows, mode="append") for rows in inputs.appends]


_Writer = Callable[[_Input, Path], Callable[[], object]]


def _append(writer: _Writer, inputs: _Inputs, parent: Path | None = None, *, sizes: bool = False) -> Side:
    """Time the appends; with ``sizes``, take the bytes of data files in place of seconds."""

    def run(scale: float) -> Outcome:
        given = inputs(scale)
        with workplace(parent) as root:
            outcome = timed(writer(given, root), lambda _: None)
            return _described(outcome, lambda: _rows(root), root.rglob("*.parquet") if sizes else None)

    return run


def _described(outcome: Outcome, found: Callable[[], Any], files: Any) -> Outcome:
    """Return what was measured, with the peak before anything is read back."""
    peak = peak_of_processes()
    amounts = outcome.amounts if files is None else [float(sum(path.stat().st_size for path in files))]
    return Outcome(amounts, found(), peak)


def _rows(root: Path) -> Any:
    table = warm()(root)
    return [table.version, contents(table.scan(columns=["id", "v"]).to_arrow())]


def _linked(scale: float, root: Path) -> None:
    """Make a table of the commits of `data.log`, which stay as they are."""
    (root / "_delta_log").mkdir()
    for path in (data.log(scale) / "_delta_log").glob("*.json"):
        os.link(path, root / "_delta_log" / path.name)


def _our_checkpoint(root: Path) -> tuple[Callable[[], object], Callable[[], object]]:
    table = warm()(root)
    return lambda: len(table.live_files), table.checkpoint


def _their_checkpoint(root: Path) -> tuple[Callable[[], object], Callable[[], object]]:
    import deltalake

    table = deltalake.DeltaTable(root)
    return table.version, table.create_checkpoint


_Checkpointer = Callable[[Path], tuple[Callable[[], object], Callable[[], object]]]


def _checkpoint(checkpointer: _Checkpointer, *, opening: bool, sizes: bool = False) -> Side:
    """Time a checkpoint, with the opening of its table or without it."""

    def run(scale: float) -> Outcome:
        warm()
        with workplace() as root:
            _linked(scale, root)

            def whole() -> None:
                load, write = checkpointer(root)
                load()
                write()

            if opening:
                outcome = timed(whole, lambda _: None)
            else:
                load, write = checkpointer(root)
                load()
                outcome = timed(write, lambda _: None)
            return _described(outcome, lambda: _paths(root), root.rglob("*.parquet") if sizes else None)

    return run


def _paths(root: Path) -> list[int]:
    """Read the paths of live files back from the checkpoint."""
    (path,) = root.rglob("*.checkpoint.parquet")
    adds = pq.ParquetFile(path).read(columns=["add.path"]).column("add").combine_chunks()
    return names(pc.struct_field(adds, "path").drop_null().to_pylist())


def _nothing(scale: float) -> None:
    """Every side makes its rows itself."""


def _both(inputs: _Inputs, parent: Path | None = None, *, sizes: bool = False) -> dict[str, Side]:
    return {
        "deltaberg": _append(_ours, inputs, parent, sizes=sizes),
        "deltalake": _append(_theirs, inputs, parent, sizes=sizes),
    }


def _checkpoints(*, opening: bool, sizes: bool = False) -> dict[str, Side]:
    return {
        "deltaberg": _checkpoint(_our_checkpoint, opening=opening, sizes=sizes),
        "deltalake": _checkpoint(_their_checkpoint, opening=opening, sizes=sizes),
    }


WRITE_CASES: dict[str, Case] = {
    "append": Case("append 16M rows of 6 columns", _nothing, _both(_many_rows)),
    "append-partitions": Case(
        "append 4M rows of 4 columns in random order of 100 partitions", _nothing, _both(_random_partitions)
    ),
    "commits": Case("append 100 rows of 3 columns 1,000 times", _nothing, _both(_small_commits)),
    "commits-memory": Case(
        "the same on a file system in memory, which has nothing to sync", _nothing, _both(_small_commits, _MEMORY)
    ),
    "checkpoint-write": Case(
        "open a log of 200 commits x 5,000 adds and write a checkpoint", data.log, _checkpoints(opening=True)
    ),
    "checkpoint-only": Case("write a checkpoint of the opened table", data.log, _checkpoints(opening=False)),
}

WRITTEN_CASES: dict[str, Case] = {
    "append-bytes": Case("append 16M rows of 6 columns", _nothing, _both(_many_rows, sizes=True), BYTES),
    "append-partitions-bytes": Case(
        "append 4M rows of 4 columns to 100 partitions", _nothing, _both(_random_partitions, sizes=True), BYTES
    ),
    "checkpoint-bytes": Case("a checkpoint of 801,000 files", data.log, _checkpoints(opening=False, sizes=True), BYTES),
}
