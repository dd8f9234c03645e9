"""The statistics of live files as they were recorded, for checkpoints: as text, and as typed columns.

Delta protocol, "Per-file Statistics" and "Checkpoint Schema". Text is copied. Typed columns are what the text says,
without the widening that a scan needs. If a checkpoint has no text, they are what its columns say, and the text is made
from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.checkpoint.parquet_part import CheckpointPart
from deltaberg.delta.data.parsed_statistics import ParsedStatistics
from deltaberg.delta.data.statistics import parsed_columns
from deltaberg.delta.log.entries import LogBytes
from deltaberg.errors import CorruptLogError
from deltaberg.schema.arrow import as_array
from deltaberg.schema.types import Field, Primitive

__all__ = ["RecordedStatistics", "recorded_statistics"]

_TEXT = Field("stats", Primitive("string"))
#: How many files are read at a time: statistics are long texts.
_ROWS = 1 << 16
#: Bytes of small log entries that are read together: most commits add a few files.
_BYTES = 4 << 20


class RecordedStatistics(NamedTuple):
    """The statistics of some files: their texts, and typed columns if these are wanted.

    Parameters
    ----------
    made
        Which texts were made from typed columns, since none were recorded; None if none were made.
    """

    texts: pa.StringArray
    parsed: pa.StructArray | None
    made: pa.BooleanArray | None = None


def recorded_statistics(
    files: pa.Table,
    parts: Sequence[CheckpointPart],
    log: LogBytes,
    statistics: ParsedStatistics,
    *,
    typed: bool,
    rows: int,
) -> Iterator[RecordedStatistics]:
    """Read the statistics of live files in their order, in batches.

    Parameters
    ----------
    files
        Rows of the live files, with the columns ``stats``, ``version``, ``part`` and ``index``.
    parts
        The parts of the checkpoint that ``files.part`` numbers.
    log
        The log entries that ``files.version`` names.
    statistics
        The columns that may have statistics.
    typed
        Whether typed columns are wanted; otherwise there are only texts.
    rows
        How many files a batch has at least; the last one may have fewer.

    Raises
    ------
    CorruptLogError
        If a log entry was deleted since it was replayed.
    CorruptCheckpointError
        If a part of the checkpoint is damaged.
    """
    waiting: list[_Found] = []
    count = 0
    for found in _in_order(files, parts, log, statistics):
        waiting.append(found)
        count += len(found.texts)
        if count >= rows:
            yield _joined(waiting, statistics if typed else None)
            waiting, count = [], 0
    if waiting:
        yield _joined(waiting, statistics if typed else None)


class _Found(NamedTuple):
    """The texts of some files; if some of them were made from typed columns, these, and a mask of such files."""

    texts: pa.StringArray
    parsed: pa.StructArray | None = None
    made: pa.BooleanArray | None = None


def _in_order(
    files: pa.Table, parts: Sequence[CheckpointPart], log: LogBytes, statistics: ParsedStatistics
) -> Iterator[_Found]:
    """Read what was recorded, in the order of the files."""
    part, version = as_array(files.column("part")), as_array(files.column("version"))
    in_parts = pc.subtract(pc.negate(part.cast(pa.int64())), 1)
    runs = pc.run_end_encode(pc.coalesce(in_parts, version), run_end_type=pa.int64())
    sources, ends = runs.values.to_pylist(), runs.run_ends.to_pylist()
    entries = log.again([source for source in sources if source >= 0])
    places, numbers = as_array(files.column("stats")), as_array(files.column("index"))
    start = begun = held = 0
    waiting: list[tuple[bytes, int]] = []
    for source, end in zip(sources, ends, strict=True):
        if source >= 0:
            _, data = next(entries)
            if data is None:
                raise CorruptLogError("a log entry was deleted after it was read", hint="open the table again")
            waiting.append((data, end - start))
            held += len(data)
        if waiting and (source < 0 or end - begun >= _ROWS or held >= _BYTES):
            yield from _of_entries(waiting, places.slice(begun, sum(rows for _, rows in waiting)))
            waiting, held = [], 0
        if source < 0:
            yield from _of_part(parts[-source - 1], numbers.slice(start, end - start), statistics)
        start = end
        begun = start if not waiting else begun
    if waiting:
        yield from _of_entries(waiting, places.slice(begun))


def _of_entries(entries: Sequence[tuple[bytes, int]], places: pa.StructArray) -> Iterator[_Found]:
    """Read the texts of files that log entries added, given the bytes of each entry and how many files are its own."""
    data = entries[0][0]
    if len(entries) > 1:
        data = b"".join(data for data, _ in entries)
        starts = accumulate((len(data) for data, _ in entries), initial=0)
        shifts = pa.concat_arrays(
            [pa.repeat(pa.scalar(start, pa.int64()), rows) for start, (_, rows) in zip(starts, entries, strict=False)]
        )
        moved = [pc.add(places.field("offset"), shifts), places.field("length")]
        places = pa.StructArray.from_arrays(moved, fields=list(places.type), mask=places.is_null())
    for first in range(0, len(places), _ROWS):
        yield _Found(kernels.stats_texts(data, places.slice(first, _ROWS)))


def _joined(batches: Sequence[_Found], layout: ParsedStatistics | None) -> RecordedStatistics:
    texts = pa.concat_arrays([one.texts for one in batches])
    if layout is None:
        return RecordedStatistics(texts, None)
    parsed = layout.assemble(kernels.parse_stats(texts, layout.leaves))
    is_typed = None
    if any(one.parsed is not None for one in batches):
        typed = [layout.unknown(len(one.texts)) if one.parsed is None else one.parsed for one in batches]
        masks = [pa.repeat(pa.scalar(False), len(one.texts)) if one.made is None else one.made for one in batches]
        is_typed = pa.concat_arrays(masks)
        parsed = pc.if_else(is_typed, pa.concat_arrays(typed), parsed)
    return RecordedStatistics(texts, parsed, is_typed)


def _of_part(part: CheckpointPart, rows: pa.Int64Array, statistics: ParsedStatistics) -> Iterator[_Found]:
    has_texts = part.has_add_column("stats")
    if not part.has_add_column("stats_parsed"):
        if has_texts:
            yield from (_Found(texts) for texts in part.add_column(_TEXT, rows))
        else:
            yield _Found(pa.nulls(len(rows), pa.string()))
        return
    texts = pa.nulls(len(rows), pa.string())
    if has_texts:
        texts = pa.concat_arrays(list(part.add_column(_TEXT, rows)))
    if not texts.null_count:
        yield _Found(texts)
        return
    found = parsed_columns(part, rows, statistics.columns)
    yield _Found(pc.coalesce(texts, statistics.texts(found)), statistics.assemble(found), texts.is_null())
