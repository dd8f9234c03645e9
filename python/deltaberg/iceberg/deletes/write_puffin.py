"""Writing Puffin files, and the deletion vectors in them (Puffin spec, "deletion-vector-v1" blob type)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from deltaberg import kernels
from deltaberg._version import __version__
from deltaberg.iceberg.deletes.puffin import MAGIC, Blob
from deltaberg.lossless_json import write_json
from deltaberg.storage import OutputFile, Storage

__all__ = ["PuffinWriter", "WrittenVector", "write_vectors"]

VECTOR = "deletion-vector-v1"
#: The column that a vector is about: the position of a row in its file ("Reserved Field IDs").
_POSITION_ID = 2147483645
#: A vector is written before its snapshot has a number, and stays when the snapshot is made again.
_UNKNOWN = -1


class PuffinWriter:
    """Writes blobs to a new file, one after another, and at last the footer that describes them.

    Parameters
    ----------
    output
        The new file.

    Examples
    --------
    >>> import tempfile
    >>> from deltaberg.iceberg.deletes.puffin import PuffinFile
    >>> from deltaberg.storage import StoreSpec, open_store, parse_location
    >>> place = parse_location(tempfile.mkdtemp()).join("example.puffin")
    >>> writer = PuffinWriter(open_store(place).open_output(place.path))
    >>> _ = writer.add("example", b"hello", fields=(1,), snapshot_id=1, sequence_number=1)
    >>> size = writer.close()
    >>> puffin = PuffinFile(place, StoreSpec(), size)
    >>> [(blob.type, blob.offset, puffin.read(blob)) for blob in puffin.blobs]
    [('example', 4, b'hello')]
    """

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self._blobs: list[Blob] = []
        output.write(MAGIC)

    def add(
        self,
        kind: str,
        data: bytes,
        *,
        fields: Sequence[int],
        snapshot_id: int,
        sequence_number: int,
        properties: Mapping[str, str] | None = None,
    ) -> Blob:
        """Write a blob as it is, and return its entry of the footer.

        Raises
        ------
        StorageError
            If the store fails.
        """
        blob = Blob(
            kind,
            tuple(fields),
            snapshot_id,
            sequence_number,
            self._output.tell(),
            len(data),
            properties=properties or {},
        )
        self._output.write(data)
        self._blobs.append(blob)
        return blob

    def close(self) -> int:
        """Write the footer, finish the file, and return its size.

        Raises
        ------
        StorageError
            If the store fails.
        """
        made_by = {"created-by": f"deltaberg {__version__}"}
        payload = write_json({"blobs": [_entry(blob) for blob in self._blobs], "properties": made_by}).encode()
        flags = bytes(4)
        self._output.write(MAGIC + payload + len(payload).to_bytes(4, "little") + flags + MAGIC)
        size = self._output.tell()
        self._output.close()
        return size


def _entry(blob: Blob) -> dict[str, object]:
    entry: dict[str, object] = {
        "type": blob.type,
        "fields": list(blob.fields),
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "offset": blob.offset,
        "length": blob.length,
    }
    return {**entry, "properties": dict(blob.properties)} if blob.properties else entry


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
        writer = PuffinWriter(output)
        written = []
        for data_file, positions in vectors:
            blob = writer.add(
                VECTOR,
                kernels.encode_bitmap(positions, "puffin"),
                fields=(_POSITION_ID,),
                snapshot_id=_UNKNOWN,
                sequence_number=_UNKNOWN,
                properties={"referenced-data-file": data_file, "cardinality": str(len(positions))},
            )
            written.append(WrittenVector(data_file, blob.offset, blob.length, len(positions)))
        return written, writer.close()
    except BaseException:
        output.abort()
        raise
