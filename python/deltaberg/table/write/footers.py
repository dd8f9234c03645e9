"""Statistics of existing data files, read from their footers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.files.formats.footers import Footer
from deltaberg.files.read.reader import ReadSpec, read_task
from deltaberg.files.read.task import FileTask
from deltaberg.files.write.statistics import CutBounds, StatisticsPlan, StatisticsTaker

__all__ = ["FileStatistics", "footer_statistics", "row_statistics"]


class FileStatistics(NamedTuple):
    """Lower and upper bounds, and counts of nulls and NaN by the number of the leaf, in the order of `WrittenFile`.

    The nulls of structs are counted by the ids of these.
    """

    lower: Mapping[int, pa.Scalar]
    upper: Mapping[int, pa.Scalar]
    null_count: Mapping[int, int]
    nan_count: Mapping[int, int]
    struct_null_count: Mapping[int, int] = MappingProxyType({})

    def without(self, leaves: Iterable[int]) -> FileStatistics:
        """Return what is known of the other leaves."""
        gone = set(leaves)
        by_leaf = {name: of for name, of in self._asdict().items() if name != "struct_null_count"}
        kept = {name: {leaf: one for leaf, one in of.items() if leaf not in gone} for name, of in by_leaf.items()}
        return self._replace(**kept)


def footer_statistics(
    footer: Footer, leaves: Mapping[int, tuple[tuple[str, ...], pa.DataType]], cut: CutBounds | None = None
) -> FileStatistics:
    """Return the statistics that a footer tells, without those that are not known.

    Parameters
    ----------
    leaves
        The names from the root of the file to each leaf that statistics are wanted of, and the type of the leaf in the
        table, by its number.
    cut
        How bounds of texts and bytes are shortened; None keeps them whole.
    """
    lower: dict[int, pa.Scalar] = {}
    upper: dict[int, pa.Scalar] = {}
    nulls: dict[int, int] = {}
    for number, (names, kind) in leaves.items():
        leaf = footer.leaves.get(names)
        if leaf is None:
            continue
        if leaf.null_count is not None:
            nulls[number] = leaf.null_count
        if leaf.lower is None or leaf.upper is None:
            continue
        low, high = leaf.lower.cast(kind), leaf.upper.cast(kind)
        if cut is not None and (pt.is_string(kind) or pt.is_binary(kind)):
            low, high = (pa.scalar(bound, kind) for bound in cut(low.as_py(), high.as_py()))
        lower[number], upper[number] = low, high
    has_no_nan = (number for number, (_, kind) in leaves.items() if footer.shows_nan and pt.is_floating(kind))
    nans = {number: 0 for number in has_no_nan if number in upper or nulls.get(number) == footer.rows}
    return FileStatistics(lower, upper, nulls, nans)


def row_statistics(
    spec: ReadSpec, task: FileTask, plan: StatisticsPlan, check: Callable[[pa.Schema], object]
) -> tuple[int, FileStatistics]:
    """Read a file, and return the number of its rows and their statistics.

    Files that are not Parquet have no footers that tell them, or none that can be read.

    Parameters
    ----------
    spec, task
        What is read: the columns of the plan.
    plan
        Which statistics are taken.
    check
        Called with the schema of the file before rows are read.

    Raises
    ------
    CorruptDataFileError, SchemaError
        The file cannot be decoded, or its columns cannot be read as the table's.
    """
    taker = StatisticsTaker(plan)
    for batch in read_task(spec, task, threads=True, check=check):
        taker.take(pa.Table.from_batches([batch]))
    return taker.record_count, FileStatistics(
        *taker.bounds(), taker.null_count, taker.nan_counts(), taker.struct_null_count
    )
