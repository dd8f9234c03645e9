"""The cases of compaction: many small files become few, and rows are put along a curve through two columns.

A run gets a table of its own, of links to files that are made once. It is made before the clock starts. Its rows are
read after the clock has stopped, and the peak of memory was taken.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benches import data
from benches.measure import FILES, Case, Made, Outcome, Side, contents, peak_of_processes, session, timed, warm
from benches.write_cases import workplace

__all__ = ["COMPACT_CASES", "SKIPPED_CASES"]

#: The columns of a curve, whose values are in random order, and the bytes of a new file.
_BY = ("k", "w")
_TARGET = 64 << 20
#: How many values each column is looked up for, and the files of the table that they are looked up in.
_LOOKUPS, _FILES = 50, 64

#: Compacts the table at a place.
_Work = Callable[[Path], object]


@contextmanager
def _copy(root: Path) -> Iterator[Path]:
    """Make a table of links to the data files of another, and of copies of its log."""
    with workplace() as parent:
        place = parent / "t"
        shutil.copytree(root, place, copy_function=_linked, ignore=shutil.ignore_patterns(".done"))
        yield place


def _linked(source: str, target: str) -> None:
    """Link a data file; a log is changed in place by nobody, but its folder is written to."""
    if source.endswith((".parquet", ".bin")) and "_delta_log" not in source:
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _ours(place: Path, **order: Any) -> None:
    warm()(place).compact(target_file_size=_TARGET, **order)


def _by_deltalake(place: Path) -> None:
    import deltalake

    deltalake.DeltaTable(place).optimize.compact(target_size=_TARGET)


def _z_ordered_by_deltalake(place: Path, target: int = _TARGET) -> None:
    import deltalake

    deltalake.DeltaTable(place).optimize.z_order(list(_BY), target_size=target)


def _side(prepare: Made, work: _Work) -> Side:
    """Time the compaction, and describe the rows then."""

    def run(scale: float) -> Outcome:
        opened = warm()
        with _copy(prepare(scale)) as place:
            outcome = timed(partial(work, place), lambda _: None)
            peak = peak_of_processes()
            return outcome._replace(found=contents(opened(place).scan().to_arrow()), bytes=peak)

    return run


def _by_delta_spark(prepare: Made, statement: str) -> Side:
    """The same in a session that has compacted another table before."""

    def run(scale: float) -> Outcome:
        spark, opened = session(engines=True), warm()
        spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(_TARGET))
        with _copy(prepare(min(scale, 0.001))) as place:
            spark.sql(f"OPTIMIZE delta.`{place}`{statement}").collect()
        with _copy(prepare(scale)) as place:
            work = partial(spark.sql, f"OPTIMIZE delta.`{place}`{statement}")
            outcome = timed(lambda: work().collect(), lambda _: None)
            peak = peak_of_processes()
            return outcome._replace(found=contents(opened(place).scan().to_arrow()), bytes=peak)

    return run


def _small(percent: int) -> Made:
    """Make a table of 16,000,000 rows in 1,000 files, of which some percent are deleted by deletion vectors."""
    return lambda scale: data.spread(8 * scale, max(int(1000 * min(1, 50 * scale)), 10), percent)


def _whole(scale: float) -> Path:
    return data.rows(scale, deleted=False)


def _case(title: str, made: Made, ours: dict[str, dict[str, Any]], statement: str, **others: _Work) -> Case:
    sides = {name: _side(made, partial(_ours, **order)) for name, order in ours.items()}
    sides |= {name: _side(made, work) for name, work in others.items()}
    return Case(title, made, {**sides, "delta-spark": _by_delta_spark(made, statement)})


def _skipping(order: _Work) -> Side:
    """Return the percentage of files that a filter on one value of one of the columns does not skip, on average."""

    def run(scale: float) -> Outcome:
        root = _spread(scale)
        table = warm()
        with _copy(root) as place:
            order(place)
            opened = table(place)
            files = opened.scan().files().num_rows
            rows = opened.scan(columns=list(_BY)).to_arrow()
            chosen = np.random.default_rng(3).integers(0, len(rows), _LOOKUPS)
            shares = []
            for name in _BY:
                values = np.sort(rows[name].to_numpy())[chosen].tolist()
                found = sum(opened.scan(f"{name} = {value}").files().num_rows for value in values)
                shares.append(100 * found / (files * _LOOKUPS))
            return Outcome([sum(shares) / len(shares)], contents(opened.scan().to_arrow()))

    return run


def _spread(scale: float) -> Path:
    return data.spread(scale, 8)


def _target(place: Path) -> int:
    """Return the size of a file that makes so many of the table."""
    return sum(path.stat().st_size for path in place.glob("*.parquet")) // _FILES + 1


def _ours_along(curve: str) -> _Work:
    return lambda place: warm()(place).compact(target_file_size=_target(place), **{curve: list(_BY)})


COMPACT_CASES: dict[str, Case] = {
    "compact": _case(
        "put 1,000 files of 16,000,000 rows together", _small(0), {"deltaberg": {}}, "", deltalake=_by_deltalake
    ),
    "compact-deleted": _case(
        "put 1,000 files of 16,000,000 rows together, of which 10 % are deleted", _small(10), {"deltaberg": {}}, ""
    ),
    "z-order": _case(
        f"put 16,000,000 rows along a curve through {' and '.join(_BY)}",
        _whole,
        {"deltaberg": {"z_order_by": list(_BY)}, "deltaberg, hilbert": {"hilbert_by": list(_BY)}},
        f" ZORDER BY ({', '.join(_BY)})",
        deltalake=_z_ordered_by_deltalake,
    ),
}
SKIPPED_CASES: dict[str, Case] = {
    "z-order-skipping": Case(
        f"of about {_FILES} files of 2,000,000 rows, those that hold a value of {' or '.join(_BY)}",
        _spread,
        {
            "deltaberg": _skipping(_ours_along("z_order_by")),
            "deltaberg, hilbert": _skipping(_ours_along("hilbert_by")),
            "deltalake": _skipping(lambda place: _z_ordered_by_deltalake(place, _target(place))),
        },
        FILES,
    ),
}
