"""The cases of changing rows of Delta tables, compared with deltalake.

The table is made before the clock starts, in the same files for both sides, and read back after it has stopped. Rows to
merge are in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from benches import data
from benches.cache import folder
from benches.measure import Case, Outcome, Side, contents, peak_of_processes, timed, warm

__all__ = ["CHANGE_CASES"]

_FILES = 8
_Upsert = Callable[[Path, pa.Table], Callable[[], object]]


def _count(scale: float) -> int:
    """Return the rows of each file of the table: 4,000,000 in all."""
    return max(int(500_000 * scale), 500)


def _table(root: Path, scale: float) -> None:
    import deltaberg

    rng, count = np.random.default_rng(1), _count(scale)
    table = deltaberg.create_table(root, data.SCHEMA)
    for number in range(_FILES):
        table.append(pa.table(data.columns(rng, number * count, count), schema=data.SCHEMA))


def _new_rows(scale: float) -> pa.Table:
    """Return 1 % of the rows, spread over all files, with other values, and a tenth as many with new ids."""
    rng, count = np.random.default_rng(2), _FILES * _count(scale)
    rows = pa.table(data.columns(rng, 0, count // 100), schema=data.SCHEMA)
    ids = rng.permutation(
        np.concatenate([np.arange(0, count - count // 1000 * 100, 100), count + np.arange(count // 1000)])
    )
    return rows.set_column(0, "id", pa.array(ids[: len(rows)], pa.int64()))


def _ours(root: Path, rows: pa.Table) -> Callable[[], object]:
    open_table = warm()
    return lambda: open_table(root).upsert(rows, "id")


def _theirs(root: Path, rows: pa.Table) -> Callable[[], object]:
    import deltalake

    def work() -> object:
        merge = deltalake.DeltaTable(root).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        return merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return work


def _upsert(upsert: _Upsert) -> Side:
    def run(scale: float) -> Outcome:
        parent = folder()
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="deltaberg-bench-", dir=parent) as made:
            root = Path(made) / "t"
            _table(root, scale)
            outcome = timed(upsert(root, _new_rows(scale)), lambda _: None)
            peak = peak_of_processes()
            return Outcome(outcome.amounts, contents(warm()(root).scan().to_arrow()), peak)

    return run


def _nothing(scale: float) -> None:
    """Every side makes its table itself."""


CHANGE_CASES: dict[str, Case] = {
    "upsert": Case(
        "upsert 1 % of 4M rows of 6 columns, spread over 8 files",
        _nothing,
        {"deltaberg": _upsert(_ours), "deltalake": _upsert(_theirs)},
    ),
}
