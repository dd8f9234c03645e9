"""Writing Puffin files, and the deletion vectors in them (Puffin spec, "deletion-vector-v1" blob type)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from deltaberg import kernels
from deltaberg._version import __version__
from deltaberg.iceberg.deletes.puffin import MAGIC, Blob, PuffinFile
from deltaberg.lossless_json import write_json
from deltaberg.storage.base import Storage

__all__ = ["DATA_FILE", "VECTOR", "WrittenPuffin", "WrittenVector", "copy_puffin", "write_puffin", "write_vectors"]

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


class WrittenPuffin(NamedTuple):
    """A Puffin file: where its blobs are, and the bytes of the file and of its footer."""

    blobs: list[Blob]
    size: int
    footer_size: int


def write_puffin(store: Storage, path: str, blobs: Iterable[tuple[Blob, bytes]]) -> WrittenPuffin:
    """Write a new Puffin file. If that fails, there is none, as far as the store allows it.

    Parameters
    ----------
    store, path
        The file in its store.
    blobs
        What the footer says of each blob, whose place is not known yet, and the bytes of the blob.

    Raises
    ------
    StorageError
        If the store fails.
    """
    output = store.open_output(path)
    try:
        output.write(MAGIC)
        written = []
        for blob, data in blobs:
            written.append(replace(blob, offset=output.tell(), length=len(data)))
            output.write(data)
        footer = _footer(written, {"created-by": f"deltaberg {__version__}"})
        output.write(footer)
        size = output.tell()
        output.close()
    except BaseException:
        output.abort()
        raise
    return WrittenPuffin(written, size, len(footer))


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
    counts = list[tuple[str, int]]()

    def blobs() -> Iterator[tuple[Blob, bytes]]:
        for data_file, positions in vectors:
            counts.append((data_file, len(positions)))
            facts = {DATA_FILE: data_file, "cardinality": str(len(positions))}
            blob = Blob(VECTOR, (_POSITION_ID,), _UNKNOWN, _UNKNOWN, 0, 0, properties=facts)
            yield blob, kernels.encode_bitmap(positions, "puffin")

    done = write_puffin(store, path, blobs())
    found = zip(counts, done.blobs, strict=True)
    return [WrittenVector(file, blob.offset, blob.length, count) for (file, count), blob in found], done.size


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
        output.write(_footer(blobs, puffin.properties))
        return output.tell()


def _footer(blobs: Sequence[Blob], properties: Mapping[str, str]) -> bytes:
    payload = write_json({"blobs": [_entry(blob) for blob in blobs], "properties": dict(properties)}).encode()
    flags = bytes(4)
    return MAGIC + payload + len(payload).to_bytes(4, "little") + flags + MAGIC


def _entry(blob: Blob) -> dict[str, object]:
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
