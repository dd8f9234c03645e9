"""The cases of changing rows of Delta tables, compared with deltalake.

The table is made before the clock starts, in the same files for both sides, and read back after it has stopped. Rows to
merge are in memory. deltalake writes files anew; of ours, one side hides rows by deletion vectors and one writes anew.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benches import data
from benches.cache import folder
from benches.measure import BYTES, Case, Outcome, Side, contents, peak_of_processes, timed, warm

__all__ = ["CHANGED_CASES", "CHANGE_CASES"]

_FILES = 8
_VECTORS = {"delta.enableDeletionVectors": "true"}
#: What changes a table at a place: given the rows to merge, it returns the work to be timed.
_Change = Callable[[Path, pa.Table], Callable[[], object]]
_Rows = Callable[[int], pa.Table]


def _table(root: Path, count: int, properties: dict[str, str] | None = None) -> None:
    """Write a table of some rows in each of its files."""
    import deltaberg

    rng = np.random.default_rng(1)
    table = deltaberg.create_table(root, data.SCHEMA, properties=properties)
    for number in range(_FILES):
        table.append(pa.table(data.columns(rng, number * count, count), schema=data.SCHEMA))


def _with_ids(ids: np.ndarray[Any, Any]) -> pa.Table:
    """Return rows with these ids, and with other values than the table has."""
    rows = pa.table(data.columns(np.random.default_rng(2), 0, len(ids)), schema=data.SCHEMA)
    return rows.set_column(0, "id", pa.array(ids, pa.int64()))


def _spread(share: int) -> _Rows:
    """Return a share of the rows, spread over all files, and a tenth as many with new ids, in random order."""

    def rows(count: int) -> pa.Table:
        found = max(count // share, 1)
        known = np.arange(0, count, share)[: found - found // 10]
        ids = np.concatenate([known, count + np.arange(found // 10)])
        return _with_ids(np.random.default_rng(2).permutation(ids))

    return rows


def _clustered(share: int) -> _Rows:
    """Return a share of the rows, which are next to each other, and a tenth as many with new ids."""

    def rows(count: int) -> pa.Table:
        found = max(count // share, 1)
        known = count // 3 + np.arange(found - found // 10)
        return _with_ids(np.concatenate([known, count + np.arange(found // 10)]))

    return rows


def _no_rows(_count: int) -> pa.Table:
    return data.SCHEMA.empty_table()


def _opener() -> Any:
    """Return `deltaberg.open_table`, after all that a change imports was imported."""
    from deltaberg.expressions.build.parse import parse_value

    parse_value("id % 100 = 7")
    return warm()


def _our_upsert(root: Path, rows: pa.Table) -> Callable[[], object]:
    open_table = _opener()
    return lambda: open_table(root).upsert(rows, "id")


def _our_merge(root: Path, rows: pa.Table) -> Callable[[], object]:
    open_table = _opener()

    def work() -> object:
        merge = open_table(root).merge(rows, "target.id = source.id")
        return merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return work


def _their_merge(root: Path, rows: pa.Table) -> Callable[[], object]:
    import deltalake

    def work() -> object:
        merge = deltalake.DeltaTable(root).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        return merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return work


def _our_delete(condition: str) -> _Change:
    def change(root: Path, _: pa.Table) -> Callable[[], object]:
        open_table = _opener()
        return lambda: open_table(root).delete(condition)

    return change


def _their_delete(condition: str) -> _Change:
    def change(root: Path, _: pa.Table) -> Callable[[], object]:
        import deltalake

        return lambda: deltalake.DeltaTable(root).delete(condition)

    return change


def _our_update(condition: str) -> _Change:
    def change(root: Path, _: pa.Table) -> Callable[[], object]:
        open_table = _opener()
        return lambda: open_table(root).update({"w": "w + 1"}, condition)

    return change


def _their_update(condition: str) -> _Change:
    def change(root: Path, _: pa.Table) -> Callable[[], object]:
        import deltalake

        return lambda: deltalake.DeltaTable(root).update({"w": "w + 1"}, predicate=condition)

    return change


def _changed(
    change: _Change,
    rows: _Rows = _no_rows,
    properties: dict[str, str] | None = None,
    *,
    per_file: int = 2_000_000,
    sizes: bool = False,
) -> Side:
    """Time a change; with ``sizes``, take the bytes of the files that it wrote in place of seconds."""

    def run(scale: float) -> Outcome:
        parent = folder()
        parent.mkdir(parents=True, exist_ok=True)
        count = max(int(per_file * scale), 500)
        with tempfile.TemporaryDirectory(prefix="deltaberg-bench-", dir=parent) as made:
            root = Path(made) / "t"
            _table(root, count, properties)
            before = set(root.rglob("*"))
            outcome = timed(change(root, rows(_FILES * count)), lambda _: None)
            peak = peak_of_processes()
            written = [path for path in root.rglob("*") if path not in before and path.is_file()]
            amounts = [float(sum(path.stat().st_size for path in written))] if sizes else outcome.amounts
            return Outcome(amounts, contents(warm()(root).scan().to_arrow()), peak)

    return run


def _nothing(scale: float) -> None:
    """Every side makes its table itself."""


def _sides(ours: _Change, theirs: _Change, rows: _Rows = _no_rows, *, sizes: bool = False) -> dict[str, Side]:
    return {
        "deltaberg": _changed(ours, rows, _VECTORS, sizes=sizes),
        "written anew": _changed(ours, rows, sizes=sizes),
        "deltalake": _changed(theirs, rows, sizes=sizes),
    }


_ONE, _FEW = "id % 100 = 7", "id % 10000 = 7"

CHANGE_CASES: dict[str, Case] = {
    "delete": Case(
        "delete 1 % of 16M rows of 6 columns in 8 files", _nothing, _sides(_our_delete(_ONE), _their_delete(_ONE))
    ),
    "delete-few": Case("delete 0.01 % of them", _nothing, _sides(_our_delete(_FEW), _their_delete(_FEW))),
    "update": Case("update 1 % of them", _nothing, _sides(_our_update(_ONE), _their_update(_ONE))),
    "merge": Case("merge 1 %, spread over all files", _nothing, _sides(_our_merge, _their_merge, _spread(100))),
    "merge-few": Case(
        "merge 0.01 %, spread over all files", _nothing, _sides(_our_merge, _their_merge, _spread(10_000))
    ),
    "merge-clustered": Case(
        "merge 1 % that are next to each other", _nothing, _sides(_our_merge, _their_merge, _clustered(100))
    ),
    "merge-few-clustered": Case(
        "merge 0.01 % that are next to each other", _nothing, _sides(_our_merge, _their_merge, _clustered(10_000))
    ),
    "upsert-many": Case("upsert 1M rows into 16M", _nothing, _sides(_our_upsert, _their_merge, _spread(16))),
    "upsert": Case(
        "upsert 1 % of 4M rows of 6 columns, spread over 8 files",
        _nothing,
        {
            "deltaberg": _changed(_our_upsert, _spread(100), per_file=500_000),
            "deltalake": _changed(_their_merge, _spread(100), per_file=500_000),
        },
    ),
}

CHANGED_CASES: dict[str, Case] = {
    "delete-bytes": Case(
        "delete 1 % of 16M rows", _nothing, _sides(_our_delete(_ONE), _their_delete(_ONE), sizes=True), BYTES
    ),
    "merge-few-bytes": Case(
        "merge 0.01 % of 16M rows, spread over all files",
        _nothing,
        _sides(_our_merge, _their_merge, _spread(10_000), sizes=True),
        BYTES,
    ),
}
