"""Writing Puffin files, and the deletion vectors in them (Puffin spec, "deletion-vector-v1" blob type)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from deltaberg import kernels
from deltaberg._version import __version__
from deltaberg.iceberg.deletes.puffin import MAGIC, Blob, PuffinFile
from deltaberg.lossless_json import write_json
from deltaberg.storage.base import Storage

__all__ = ["DATA_FILE", "VECTOR", "WrittenVector", "copy_puffin", "write_vectors"]

VECTOR = "deletion-vector-v1"
#: The property of a vector that names its data file.
DATA_FILE = "referenced-data-file"
#: The column that a vector is about: the position of a row in its file ("Reserved Field IDs").
_POSITION_ID = 2147483645
#: A vector is written before its snapshot has a number, and stays when the snapshot is made again.
_UNKNOWN = -1


class WrittenVector(NamedTuple):
    """A deletion vector in a Puffin file: the data file that it is for, where it is, and how many rows it has."""

    data_file: str
    offset: int
    length: int
    cardinality: int


def write_vectors(
    store: Storage, path: str, vectors: Iterable[tuple[str, pa.UInt64Array]]
) -> tuple[list[WrittenVector], int]:
    """Write deletion vectors to one Puffin file, and return where they are, and the size of the file.

    If that fails, there is no file, as far as the store allows it.

    Parameters
    ----------
    store, path
        The file in its store.
    vectors
        The recorded path of each data file, as its manifest spells it, and the physical positions of all of its deleted
        rows, ascending.

    Raises
    ------
    StorageError
        If the store fails.
    """
    output = store.open_output(path)
    try:
        output.write(MAGIC)
        written = []
        for data_file, positions in vectors:
            data = kernels.encode_bitmap(positions, "puffin")
            written.append(WrittenVector(data_file, output.tell(), len(data), len(positions)))
            output.write(data)
        output.write(_footer([_entry(found) for found in written], {"created-by": f"deltaberg {__version__}"}))
        size = output.tell()
        output.close()
    except BaseException:
        output.abort()
        raise
    return written, size


def copy_puffin(puffin: PuffinFile, blobs: Sequence[Blob], store: Storage, path: str) -> int:
    """Write a Puffin file with the same bytes and other entries of its blobs, and return its size.

    Parameters
    ----------
    puffin
        The file. Its blobs stay at their offsets.
    blobs
        What the footer of the new file says of the blobs.
    store, path
        The new file in its store.

    Raises
    ------
    StorageError
        If a store fails. There is no file then, as far as the store allows it.
    """
    with store.open_output(path) as output:
        for piece in puffin.body():
            output.write(piece)
        output.write(_footer([_entry_of(blob) for blob in blobs], puffin.properties))
        return output.tell()


def _footer(entries: Sequence[Mapping[str, object]], properties: Mapping[str, str]) -> bytes:
    payload = write_json({"blobs": entries, "properties": dict(properties)}).encode()
    flags = bytes(4)
    return MAGIC + payload + len(payload).to_bytes(4, "little") + flags + MAGIC


def _entry_of(blob: Blob) -> dict[str, object]:
    entry = {
        "type": blob.type,
        "fields": list(blob.fields),
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "offset": blob.offset,
        "length": blob.length,
        "properties": dict(blob.properties),
    }
    return entry if blob.compression_codec is None else {**entry, "compression-codec": blob.compression_codec}


def _entry(found: WrittenVector) -> dict[str, object]:
    """Return what the footer says of a vector."""
    return {
        "type": VECTOR,
        "fields": [_POSITION_ID],
        "snapshot-id": _UNKNOWN,
        "sequence-number": _UNKNOWN,
        "offset": found.offset,
        "length": found.length,
        "properties": {DATA_FILE: found.data_file, "cardinality": str(found.cardinality)},
    }
