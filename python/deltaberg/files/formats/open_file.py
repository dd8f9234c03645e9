"""Opens data files of the three formats."""

from __future__ import annotations

import pyarrow as pa

from deltaberg.errors import DeltabergError, ObjectNotFoundError, UnsupportedFeatureError
from deltaberg.files.formats.data_file import DataFile
from deltaberg.files.formats.encryption import encrypted_file, is_encrypted
from deltaberg.files.formats.parquet import ParquetSource
from deltaberg.storage.base import Counters
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec

__all__ = ["FORMATS", "open_data_file"]

#: The formats of data files.
FORMATS = ("parquet", "orc", "avro")
#: Bytes that a column is read by at a time where memory is bounded.
_PIECE_BYTES = 1 << 20


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
        The size of the file in bytes, where it is known.
    in_pieces
        Read large column chunks in pieces, which needs less memory and is slower.

    Raises
    ------
    UnsupportedFeatureError
        If the format is unknown, or the file is encrypted.
    """
    try:
        return _open(format, location, store, size, counters, in_pieces)
    except (ObjectNotFoundError, UnsupportedFeatureError):
        raise
    except (DeltabergError, pa.ArrowException, OSError) as error:
        if is_encrypted(location, store, size):
            raise encrypted_file("the file") from error
        raise


def _open(
    format: str, location: Location, store: StoreSpec, size: int | None, counters: Counters | None, in_pieces: bool
) -> DataFile:
    opener = store.open(location)
    if format == "parquet":
        file = opener.open(location.path, size, counters)
        if in_pieces:
            return ParquetSource(file, buffered=_PIECE_BYTES)
        return ParquetSource(file, prefetch=location.scheme != "file")
    if format == "orc":
        # Few tables have other files, and importing their readers takes a tenth of the time of a first read.
        from deltaberg.files.formats.orc import OrcSource

        return OrcSource(opener.open(location.path, size, counters))
    if format == "avro":
        from deltaberg.files.formats.avro_rows import AvroSource

        return AvroSource(opener.open(location.path, size, counters), str(location))
    raise UnsupportedFeatureError(
        f"a data file has the format {format!r}", hint=f"supported are {', '.join(FORMATS)}", feature=format
    )
