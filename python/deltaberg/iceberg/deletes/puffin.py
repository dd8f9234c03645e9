"""Puffin files: blobs, and a footer that describes them (Puffin spec, format version 1)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO

import pyarrow as pa

from deltaberg.errors import (
    CorruptMetadataError,
    DataFileNotFoundError,
    DeltabergError,
    ObjectNotFoundError,
    UnsupportedFeatureError,
    in_context,
)
from deltaberg.iceberg.schema.json_members import integer, integers, members, objects, optional, strings, text
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec

__all__ = ["MAGIC", "Blob", "PuffinFile"]

#: What a Puffin file and its footer begin and end with.
MAGIC = b"PFA1"
#: What follows the payload of the footer: its length, flags and the magic number.
_TAIL_BYTES = 12
_PAYLOAD_IS_COMPRESSED = 1
#: The bytes at the end of a file that are read first; few footers are longer.
_FIRST_READ = 16 << 10
#: The most bytes of a footer, which is JSON, and of a blob, whatever the file says.
_LARGEST_FOOTER = 64 << 20
_LARGEST_BLOB = 1 << 28
#: What every compressed footer and blob may expand to, in bytes, and how many times its size a larger one may.
_EXPANDED_FOOTER, _EXPANDED_BLOB, _MOST_TIMES = 4 << 20, 64 << 20, 32
_CODECS = ("lz4", "zstd")
_PIECE = 1 << 20


@dataclass(frozen=True)
class Blob:
    """The entry of a blob in the footer.

    Parameters
    ----------
    fields
        Ids of the columns that the blob describes.
    snapshot_id, sequence_number
        The snapshot that it was computed from; -1 for a deletion vector.
    offset, length
        Where the blob begins in the file, and its length there, in bytes.
    compression_codec
        ``lz4`` or ``zstd``; None if the blob is not compressed.
    """

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


class PuffinFile:
    """A Puffin file: its footer is read at once, its blobs one by one.

    Parameters
    ----------
    size
        The size of the file in bytes, if it is known.

    Raises
    ------
    CorruptMetadataError
        If the file is not a complete Puffin file.
    UnsupportedFeatureError
        If its footer has a flag that is not known.
    DataFileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from deltaberg.storage.stores import StoreSpec
    >>> from deltaberg.storage.location import parse_location
    >>> blob = '{"type": "example", "fields": [1], "snapshot-id": 1, "sequence-number": 1, "offset": 4, "length": 5}'
    >>> footer = ('{"blobs": [' + blob + "]}").encode()
    >>> tail = len(footer).to_bytes(4, "little") + bytes(4) + b"PFA1"
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory, "example.puffin")
    ...     _ = path.write_bytes(b"PFA1hello" + b"PFA1" + footer + tail)
    ...     puffin = PuffinFile(parse_location(str(path)), StoreSpec())
    ...     [(found.type, found.fields, puffin.read(found)) for found in puffin.blobs]
    [('example', (1,), b'hello')]
    """

    def __init__(self, location: Location, store: StoreSpec, size: int | None = None) -> None:
        self.location = location
        self._store = store.open(location)
        try:
            size = self._store.head(location.path).size if size is None else size
            payload = self._footer(size)
            #: What the footer says about the file, as ``created-by``.
            self.properties: Mapping[str, str] = strings(payload, "properties", "the footer")
            self.blobs = tuple(_blob(found) for found in objects(payload, "blobs", "the footer"))
        except ObjectNotFoundError as error:
            raise DataFileNotFoundError(
                "a Puffin file is missing",
                hint="open the newest snapshot if this one was expired, or say where a moved table's files are with "
                "⟪location_map⟫",
                file=str(location),
            ) from error
        except DeltabergError as error:
            raise error.with_context(file=str(location)) from None
        for blob in self.blobs:
            if not len(MAGIC) <= blob.offset <= blob.offset + blob.length <= self._end:
                raise CorruptMetadataError(
                    f"a blob of {blob.length} bytes does not fit at offset {blob.offset} of the Puffin file",
                    file=str(location),
                    blob=blob.type,
                )

    def read(self, blob: Blob) -> bytes:
        """Return the bytes of a blob, decompressed.

        Raises
        ------
        CorruptMetadataError
            If they cannot be decompressed, or are more than 256 MiB or 32 times their bytes in the file, 64 MiB apart.
        UnsupportedFeatureError
            If the codec is not known.
        """
        data = self.stored(blob)
        if blob.compression_codec is None:
            return data
        with in_context(file=str(self.location), blob=blob.type):
            most = min(max(_EXPANDED_BLOB, _MOST_TIMES * blob.length), _LARGEST_BLOB)
            return _decompress(data, blob.compression_codec, most)

    def stored(self, blob: Blob) -> bytes:
        """Return the bytes of a blob as they are in the file, by whatever codec.

        Raises
        ------
        CorruptMetadataError
            If they are more than 256 MiB, or the file ends before they do.
        """
        if blob.length > _LARGEST_BLOB:
            raise _has_more(_LARGEST_BLOB).with_context(file=str(self.location), blob=blob.type)
        (data,) = self._store.get_ranges(self.location.path, [(blob.offset, blob.length)])
        if len(data) != blob.length:
            raise CorruptMetadataError("the Puffin file ends inside a blob", file=str(self.location), blob=blob.type)
        return data

    def body(self) -> Iterator[bytes]:
        """Yield the bytes in front of the footer, where each blob is at its offset."""
        for start in range(0, self._end, _PIECE):
            yield self._ranges([(start, min(_PIECE, self._end - start))])[0]

    def _footer(self, size: int) -> Mapping[str, object]:
        """Return the JSON of the footer, and note where the blobs end."""
        if size < 2 * len(MAGIC) + _TAIL_BYTES:
            raise CorruptMetadataError(f"a Puffin file cannot have {size} bytes")
        first = min(size, _FIRST_READ)
        head, tail = self._ranges([(0, len(MAGIC)), (size - first, first)])
        if head != MAGIC or tail[-len(MAGIC) :] != MAGIC:
            raise CorruptMetadataError("this is not a complete Puffin file: it does not begin and end with PFA1")
        length = int.from_bytes(tail[-_TAIL_BYTES : -_TAIL_BYTES + 4], "little", signed=True)
        flags = int.from_bytes(tail[-_TAIL_BYTES + 4 : -len(MAGIC)], "little")
        whole = len(MAGIC) + length + _TAIL_BYTES
        if not 0 <= length <= min(_LARGEST_FOOTER, size - len(MAGIC) - _TAIL_BYTES - len(MAGIC)):
            raise CorruptMetadataError(f"the footer of a Puffin file of {size} bytes cannot have {length}")
        if flags & ~_PAYLOAD_IS_COMPRESSED:
            raise UnsupportedFeatureError(
                f"the footer of a Puffin file has the flags {flags:#x}",
                hint="only bit 0 is known, which means a compressed payload",
                feature="puffin-flags",
            )
        if whole > first:
            (tail,) = self._ranges([(size - whole, whole)])
        payload = tail[len(tail) - whole : -_TAIL_BYTES]
        if payload[: len(MAGIC)] != MAGIC:
            raise CorruptMetadataError("the footer of the Puffin file does not begin with PFA1")
        self._end = size - whole
        payload = payload[len(MAGIC) :]
        if flags & _PAYLOAD_IS_COMPRESSED:
            payload = _decompress(payload, "lz4", min(max(_EXPANDED_FOOTER, _MOST_TIMES * length), _LARGEST_FOOTER))
        try:
            return members(json.loads(payload), "the footer of a Puffin file")
        except (ValueError, RecursionError) as error:
            if isinstance(error, CorruptMetadataError):
                raise
            raise CorruptMetadataError(f"the footer of the Puffin file is not JSON: {error}") from None

    def _ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        found = self._store.get_ranges(self.location.path, ranges)
        if [len(data) for data in found] != [length for _, length in ranges]:
            raise CorruptMetadataError("the Puffin file is shorter than the metadata says")
        return found


def _blob(raw: Mapping[str, object]) -> Blob:
    what = "a blob of a Puffin file"
    return Blob(
        text(raw, "type", what),
        integers(raw, "fields", what),
        integer(raw, "snapshot-id", what),
        integer(raw, "sequence-number", what),
        integer(raw, "offset", what),
        integer(raw, "length", what),
        optional(raw, "compression-codec", str, what),
        strings(raw, "properties", what),
    )


def _decompress(data: bytes, codec: str, most: int) -> bytes:
    """Return the decompressed bytes of one frame, at most ``most`` of them: a small frame can stand for a lot."""
    if codec not in _CODECS:
        raise UnsupportedFeatureError(
            f"a blob of a Puffin file is compressed by {codec!r}",
            hint=f"supported are {' and '.join(_CODECS)}",
            feature=codec,
        )
    whole = BytesIO()
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
            while whole.tell() <= most and (piece := stream.read(_PIECE)):
                whole.write(piece)
    except (pa.ArrowException, OSError) as error:
        raise CorruptMetadataError(f"a part of a Puffin file cannot be decompressed by {codec}: {error}") from None
    if whole.tell() > most:
        raise _has_more(most)
    return whole.getvalue()


def _has_more(most: int) -> CorruptMetadataError:
    return CorruptMetadataError(f"a part of a Puffin file has more than {most} bytes")
