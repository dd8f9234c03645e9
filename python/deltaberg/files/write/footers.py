"""What only the footer of a Parquet file tells: the sizes of columns, and where row groups begin.

Columns are named by the numbers of leaves, as in the rows that describe written files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import pyarrow.parquet as pq

from deltaberg.schema import DataType, List, Map, Primitive, Struct

__all__ = ["FooterFacts", "ParquetLeaf", "footer_facts", "parquet_leaves"]

_VOID, _VARIANT = Primitive("void"), Primitive("variant")


@dataclass(frozen=True)
class ParquetLeaf:
    """The leaf that a column of a Parquet file belongs to. ``is_inner`` says whether it is inside a list or map."""

    number: int
    is_inner: bool


@dataclass(frozen=True)
class FooterFacts:
    """What the footer of a file tells.

    Parameters
    ----------
    split_offsets
        Where row groups begin, in ascending order.
    column_size
        Compressed bytes by leaf.
    inner_count, inner_null_count
        The number of values, with nulls, and of nulls, by leaf inside lists and maps.
    """

    split_offsets: Sequence[int] = ()
    column_size: Mapping[int, int] = field(default_factory=dict)
    inner_count: Mapping[int, int] = field(default_factory=dict)
    inner_null_count: Mapping[int, int] = field(default_factory=dict)


def parquet_leaves(schema: Struct) -> dict[str, list[ParquetLeaf]]:
    """Return the leaves of the Parquet columns that each column of a table is stored in, by its name.

    Examples
    --------
    >>> from deltaberg.schema import Field
    >>> tags = List(Field("element", Primitive("string")))
    >>> schema = Struct((Field("none", Primitive("void")), Field("v", Primitive("variant")), Field("tags", tags)))
    >>> {name: [leaf.number for leaf in leaves] for name, leaves in parquet_leaves(schema).items()}
    {'none': [], 'v': [1, 1], 'tags': [2]}
    """
    numbers = count()
    return {child.name: list(_leaves(child.type, numbers, False)) for child in schema}


def _leaves(kind: DataType, numbers: Iterator[int], is_inner: bool) -> Iterator[ParquetLeaf]:
    if isinstance(kind, Struct):
        for child in kind:
            yield from _leaves(child.type, numbers, is_inner)
    elif isinstance(kind, List):
        yield from _leaves(kind.element.type, numbers, True)
    elif isinstance(kind, Map):
        yield from _leaves(kind.key.type, numbers, True)
        yield from _leaves(kind.value.type, numbers, True)
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
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for index, leaf in enumerate(leaves):
            chunk = group.column(index)
            if not index:
                pages = (chunk.dictionary_page_offset, chunk.data_page_offset)
                offsets.append(min(offset for offset in pages if offset is not None))
            size[leaf.number] += chunk.total_compressed_size
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
    return FooterFacts(sorted(offsets), size, inner, known)
