"""Facts from the footer of a written Parquet file: the sizes of columns, where row groups begin, and where shapes are.

Columns are named by the numbers of leaves, as in the rows that describe written files.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import isfinite, nan

import pyarrow.parquet as pq

from deltaberg.schema.types import DataType, List, Map, Primitive, Struct, nested_fields

__all__ = ["FooterFacts", "ParquetLeaf", "footer_facts", "parquet_leaves"]

_VOID, _VARIANT = Primitive("void"), Primitive("variant")


@dataclass(frozen=True)
class ParquetLeaf:
    """The leaf that a column of a Parquet file belongs to. ``is_inner`` says whether it is inside a list or map."""

    number: int
    is_inner: bool


@dataclass(frozen=True)
class FooterFacts:
    """The facts from the footer of a file.

    Parameters
    ----------
    split_offsets
        Where row groups begin, in ascending order.
    column_size
        Compressed bytes by leaf.
    inner_count, inner_null_count
        The number of values, with nulls, and of nulls, by leaf inside lists and maps.
    lower_point, upper_point
        The corners of the box around all shapes of a leaf, as x, y, and where there are such coordinates z and m: eight
        bytes each, little-endian. Without m, there is no fourth; without z before an m, z is NaN.
    """

    split_offsets: Sequence[int] = ()
    column_size: Mapping[int, int] = field(default_factory=dict)
    inner_count: Mapping[int, int] = field(default_factory=dict)
    inner_null_count: Mapping[int, int] = field(default_factory=dict)
    lower_point: Mapping[int, bytes] = field(default_factory=dict)
    upper_point: Mapping[int, bytes] = field(default_factory=dict)


def parquet_leaves(schema: Struct) -> dict[str, list[ParquetLeaf]]:
    """Return the leaves of the Parquet columns that each column of a table is stored in, by its name.

    Examples
    --------
    >>> from deltaberg.schema.types import Field
    >>> tags = List(Field("element", Primitive("string")))
    >>> schema = Struct((Field("none", Primitive("void")), Field("v", Primitive("variant")), Field("tags", tags)))
    >>> {name: [leaf.number for leaf in leaves] for name, leaves in parquet_leaves(schema).items()}
    {'none': [], 'v': [1, 1], 'tags': [2]}
    """
    numbers = count()
    return {child.name: list(_leaves(child.type, numbers, False)) for child in schema}


def _leaves(kind: DataType, numbers: Iterator[int], is_inner: bool) -> Iterator[ParquetLeaf]:
    if isinstance(kind, (Struct, List, Map)):
        for child in nested_fields(kind):
            yield from _leaves(child.type, numbers, is_inner or not isinstance(kind, Struct))
    else:
        leaf = ParquetLeaf(next(numbers), is_inner)
        yield from [leaf] * (0 if kind == _VOID else 2 if kind == _VARIANT else 1)


def footer_facts(footer: pq.FileMetaData, leaves: Sequence[ParquetLeaf]) -> FooterFacts:
    """Return what a footer tells.

    Parameters
    ----------
    footer
        The footer.
    leaves
        The leaf of each column of the file.
    """
    offsets: list[int] = []
    size: Counter[int] = Counter()
    inner: Counter[int] = Counter()
    inner_nulls: Counter[int] = Counter()
    unknown: set[int] = set()
    boxes: dict[int, _Box] = {}
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for index, leaf in enumerate(leaves):
            chunk = group.column(index)
            if not index:
                pages = (chunk.dictionary_page_offset, chunk.data_page_offset)
                offsets.append(min(offset for offset in pages if offset is not None))
            size[leaf.number] += chunk.total_compressed_size
            if chunk.physical_type == "BYTE_ARRAY" and not leaf.is_inner:
                boxes.setdefault(leaf.number, _Box()).add(chunk)
            is_second = index > 0 and leaves[index - 1].number == leaf.number
            if not leaf.is_inner or is_second:
                continue
            inner[leaf.number] += chunk.num_values
            statistics = chunk.statistics
            if statistics is None or not statistics.has_null_count:
                unknown.add(leaf.number)
            else:
                inner_nulls[leaf.number] += statistics.null_count
    known = {number: nulls for number, nulls in inner_nulls.items() if number not in unknown}
    corners = {leaf: found for leaf, box in boxes.items() if (found := box.corners()) is not None}
    lower, upper = ({leaf: pair[side] for leaf, pair in corners.items()} for side in (0, 1))
    return FooterFacts(sorted(offsets), size, inner, known, lower, upper)


class _Box:
    """The box around the shapes of some column chunks, if all of them tell where theirs are."""

    _DIMENSIONS = "xyzm"

    def __init__(self) -> None:
        self._ranges: dict[str, tuple[float, float]] = {}
        self._is_known = True

    def add(self, chunk: pq.ColumnChunkMetaData) -> None:
        """Take in a column chunk."""
        if chunk.statistics is not None and chunk.statistics.null_count == chunk.num_values:
            return
        # Older versions of pyarrow have no such statistics.
        bounds = getattr(chunk, "geo_statistics", None)
        if bounds is None or bounds.xmin is None or bounds.ymin is None:
            self._is_known = False
            return
        for name in self._DIMENSIONS:
            least, most = getattr(bounds, f"{name}min"), getattr(bounds, f"{name}max")
            if least is not None and most is not None:
                low, high = self._ranges.get(name, (least, most))
                self._ranges[name] = min(low, least), max(high, most)

    def corners(self) -> tuple[bytes, bytes] | None:
        """Return the lower and the upper corner; None if they are not known."""
        names = self._DIMENSIONS if "m" in self._ranges else "xyz" if "z" in self._ranges else "xy"
        ranges = [self._ranges.get(name, (nan, nan)) for name in names]
        if not self._is_known or not self._ranges or not all(isfinite(end) for pair in ranges[:2] for end in pair):
            return None
        lower, upper = (struct.pack(f"<{len(names)}d", *(pair[side] for pair in ranges)) for side in (0, 1))
        return lower, upper
