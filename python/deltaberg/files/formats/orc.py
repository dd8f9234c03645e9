"""ORC files (Iceberg spec, Appendix A, "ORC")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import orc

from deltaberg.files.formats.data_file import DataFile, PositionedBatch, RowGroup, bare_batches
from deltaberg.schema.arrow import with_children
from deltaberg.schema.name_mapping import FIELD_ID, NameMapping, with_mapped_ids
from deltaberg.schema.projection import leaf_offsets, tops_of

if TYPE_CHECKING:
    from deltaberg.files.formats.orc_layout import OrcLayout

__all__ = ["OrcSource"]

_ORC_ID = b"iceberg.id"
#: What pyarrow says of a timestamp that it cannot hold.
_BEYOND = "out of range for nanosecond resolution"
#: Older versions of pyarrow return other timestamps instead.
_TELLS_OVERFLOWS = int(pa.__version__.partition(".")[0]) >= 25


class OrcSource(DataFile):
    """An open ORC file. All of its rows are one group, since pyarrow does not tell how many rows a stripe has."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        self._size: int = file.size()
        self._orc = orc.ORCFile(file)
        self._raw: pa.Schema = self._orc.schema
        self._schema = pa.schema([_with_ids(child) for child in self._raw])

    def schema_with(self, mapping: NameMapping | None) -> pa.Schema:
        """Return the schema, with ids by name where the file has none."""
        return with_mapped_ids(self._schema, mapping)

    def row_groups(self, start: int, stop: int) -> list[RowGroup]:
        """Return all rows as one group, which belongs to the split that holds the middle of the file."""
        return [RowGroup(0, 0, self._orc.nrows)] if start <= self._size // 2 < stop else []

    def batches(
        self,
        groups: Sequence[RowGroup],
        leaves: Sequence[int],
        batch_size: int,
        threads: bool,
    ) -> Iterator[PositionedBatch]:
        """Read leaves, stripe by stripe."""
        if not groups:
            return
        position = 0
        if not leaves:
            yield from bare_batches(0, self._orc.nrows, batch_size)
            return
        columns = tops_of(leaves, self._raw)
        for number in range(self._orc.nstripes):
            stripe = self._read_stripe(number, columns)
            for first in range(0, stripe.num_rows, batch_size):
                batch = stripe.slice(first, batch_size)
                yield PositionedBatch(position + first, batch.num_rows, batch)
            position += stripe.num_rows

    def _read_stripe(self, number: int, columns: Sequence[int]) -> pa.RecordBatch:
        if _TELLS_OVERFLOWS:
            try:
                return self._orc.read_stripe(number, columns=columns)
            except pa.ArrowInvalid as error:
                if _BEYOND not in str(error):
                    raise
        from deltaberg.files.formats.orc_timestamps import has_timestamp, read_timestamps

        if not any(has_timestamp(self._raw.types[column]) for column in columns):
            return self._orc.read_stripe(number, columns=columns)
        # The file is sound. pyarrow reads into nanoseconds of 64 bits, so that its timestamps are read in two parts.
        arrays = [
            read_timestamps(self._layout, number, column, self._raw.types[column])
            if has_timestamp(self._raw.types[column])
            else self._orc.read_stripe(number, columns=[column]).column(0)
            for column in columns
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[self._raw.names[column] for column in columns])

    @cached_property
    def _layout(self) -> OrcLayout:
        from deltaberg.files.formats.orc_layout import OrcLayout

        return OrcLayout(self._file)

    def compressed_bytes(self, groups: Sequence[RowGroup], leaves: Sequence[int]) -> int:
        """Estimate the bytes of the leaves by their share in the number of all leaves."""
        total = len(leaf_offsets(list(self._raw), 0)) or 1
        return self._size * min(len(leaves), total) // total if groups else 0

    def row_bytes(self, groups: Sequence[RowGroup], leaves: Sequence[int]) -> int:
        """Estimate how many bytes a row has in memory."""
        return max(8 * len(leaves), 1)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _with_ids(child: pa.Field) -> pa.Field:
    """Return a field with its ORC attribute as the id."""
    text = (child.metadata or {}).get(_ORC_ID)
    return child.with_type(with_children(child.type, _with_ids)).with_metadata(
        None if text is None else {FIELD_ID: text}
    )
