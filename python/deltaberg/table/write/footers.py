"""Statistics of files whose footers are read back: files of others, and those that Spark's own writer wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.files.read.footers import Footer
from deltaberg.files.write import CutBounds

__all__ = ["FooterStatistics", "footer_statistics"]


class FooterStatistics(NamedTuple):
    """Lower bounds, upper bounds and null counts by the number of the leaf, in the order of `WrittenFile`."""

    lower: dict[int, pa.Scalar]
    upper: dict[int, pa.Scalar]
    null_count: dict[int, int]


def footer_statistics(
    footer: Footer, leaves: Mapping[int, tuple[tuple[str, ...], pa.DataType]], cut: CutBounds | None = None
) -> FooterStatistics:
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
        known = footer.leaves.get(names)
        if known is None:
            continue
        if known.null_count is not None:
            nulls[number] = known.null_count
        if known.lower is None or known.upper is None:
            continue
        low, high = known.lower.cast(kind), known.upper.cast(kind)
        if cut is not None and (pt.is_string(kind) or pt.is_binary(kind)):
            low, high = (pa.scalar(bound, kind) for bound in cut(low.as_py(), high.as_py()))
        lower[number], upper[number] = low, high
    return FooterStatistics(lower, upper, nulls)
