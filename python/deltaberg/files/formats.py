"""Open data files of the three formats, as the one thing that reading works on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from deltaberg.errors import UnsupportedFeatureError
from deltaberg.expressions import Bound
from deltaberg.files.layout import FileLayout
from deltaberg.files.parquet import ParquetSource
from deltaberg.files.positioned import PositionedBatch, RowGroup
from deltaberg.pruning import StatsKey
from deltaberg.schema import NameMapping
from deltaberg.storage import Counters, Location, StoreSpec

__all__ = ["FORMATS", "DataFile", "open_data_file"]

#: The formats of data files.
FORMATS = ("parquet", "orc", "avro")
#: Bytes that a column is read by at a time where memory is bounded.
_PIECE_BYTES = 1 << 20


class DataFile(Protocol):
    """An open data file: its schema, and its rows in groups that can be read apart."""

    def schema_with(self, mapping: NameMapping | None) -> pa.Schema:
        """Give the schema, with ids by name where the file has none."""
        ...

    def row_groups(self, start: int, stop: int) -> list[RowGroup]:
        """Give the groups that belong to bytes ``start`` to ``stop`` of the file."""
        ...

    def prune(
        self, groups: Sequence[RowGroup], condition: Bound, constants: Mapping[StatsKey, pa.Scalar], layout: FileLayout
    ) -> list[RowGroup]:
        """Give the groups in which a row can match."""
        ...

    def batches(
        self, groups: Sequence[RowGroup], leaves: Sequence[int], batch_size: int, threads: bool
    ) -> Iterator[PositionedBatch]:
        """Read leaves of some groups; without leaves, batches hold rows alone."""
        ...

    def compressed_bytes(self, groups: Sequence[RowGroup], leaves: Sequence[int]) -> int:
        """Give how many bytes the leaves of some groups have in the file."""
        ...

    def row_bytes(self, groups: Sequence[RowGroup], leaves: Sequence[int]) -> int:
        """Estimate how many bytes a row of the leaves has in memory."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


def open_data_file(
    format: str,
    location: Location,
    store: StoreSpec,
    size: int | None = None,
    counters: Counters | None = None,
    in_pieces: bool = False,
) -> DataFile:
    """Open a data file.

    Parameters
    ----------
    size
        Bytes of the file, where they are known.
    in_pieces
        Read large column chunks in pieces, which bounds memory and is slower.

    Raises
    ------
    UnsupportedFeatureError
        Where the format is not known.
    """
    opener = store.open(location)
    if format == "parquet":
        file = opener.open(location.path, size, counters)
        if in_pieces:
            return ParquetSource(file, buffered=_PIECE_BYTES)
        return ParquetSource(file, prefetch=location.scheme != "file")
    if format == "orc":
        # Few tables have files of the other formats, and to import what reads them takes a tenth of the first read.
        from deltaberg.files.orc import OrcSource

        return OrcSource(opener.open(location.path, size, counters))
    if format == "avro":
        from deltaberg.files.avro.source import AvroSource

        return AvroSource(opener.open(location.path, size, counters))
    raise UnsupportedFeatureError(
        f"a data file is of format {format!r}", hint=f"known are {', '.join(FORMATS)}", feature=format
    )
