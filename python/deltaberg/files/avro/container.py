"""Avro object container files: the header, the blocks, and the wanted columns of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa

from deltaberg import kernels
from deltaberg.errors import CorruptAvroError, InvalidArgumentError, UnsupportedFeatureError
from deltaberg.files.avro.plan import by_id, by_name
from deltaberg.files.avro.schema import AvroType, parse_avro_schema

__all__ = ["AvroFile", "Block"]

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
#: The memory that the values of every file may take, in bytes, and how many times its size those of a larger one may.
#: What honest writers compress takes a tenth of that.
_MEMORY, _MOST_TIMES = 128 << 20, 32
_CODECS = {"null": "null", "deflate": "deflate", "snappy": "snappy", "zstandard": "zstandard", "zstd": "zstandard"}


class Block(NamedTuple):
    """Where the data of a block is in its file, its bytes, and its rows."""

    offset: int
    size: int
    rows: int


class AvroFile:
    """An Avro file in memory.

    ``metadata`` are the key-value pairs of the header, ``schema`` is the writer's.

    Raises
    ------
    CorruptAvroError
        If the bytes are not a whole Avro file.
    UnsupportedFeatureError
        If its codec is not known.
    """

    def __init__(self, data: bytes) -> None:
        if data[: len(_MAGIC)] != _MAGIC:
            raise CorruptAvroError("this is not an Avro file: it does not begin with Obj\\x01")
        self._data = data
        cursor = _Header(data, len(_MAGIC))
        self.metadata: Mapping[str, bytes] = cursor.pairs()
        sync = cursor.take(_SYNC_BYTES)
        text = self.metadata.get("avro.schema")
        if text is None:
            raise CorruptAvroError("the Avro file has no schema")
        self.schema: AvroType = parse_avro_schema(text)
        codec = self.metadata.get("avro.codec", b"null").decode(errors="replace")
        if codec not in _CODECS:
            raise UnsupportedFeatureError(
                f"the blocks of the Avro file are compressed by {codec!r}",
                hint=f"known are {', '.join(_CODECS)}",
                feature=codec,
            )
        self._codec = _CODECS[codec]
        self.blocks = [Block(*found) for found in kernels.find_blocks(data, cursor.at, sync)]

    @property
    def rows(self) -> int:
        """The number of rows in the file."""
        return sum(block.rows for block in self.blocks)

    def read_by_id(
        self, columns: pa.Schema, keys: Mapping[int, Sequence[int]] | None = None, threads: int = 0
    ) -> pa.Table:
        """Read columns by the field ids in their metadata, whatever their names are in the file.

        Parameters
        ----------
        columns
            Fields with ``PARQUET:field_id``; those that are not nullable must be in the file, others are null if it
            lacks them.
        keys
            For the id of a map's key the keys that are wanted; entries with other keys are left out.

        Raises
        ------
        CorruptAvroError
            If a required field is missing, or of a type that is not read as the wanted one, or a block is damaged.
        TooLargeError
            If the values take far more memory than the file has bytes.
        """
        node = by_id(self.schema, columns, keys or {})
        with _types_of_the_file():
            return kernels.decode_avro(self._data, self.blocks, self._codec, node, columns, self._limits(threads))

    def read_chosen_by_id(
        self,
        columns: pa.Schema,
        first: pa.Schema,
        choose: Callable[[pa.RecordBatch], pa.BooleanArray],
        keys: Mapping[int, Sequence[int]] | None = None,
        threads: int = 0,
    ) -> tuple[pa.Table, pa.Int64Array]:
        """Read columns like `read_by_id`, of the rows that some columns choose.

        Parameters
        ----------
        columns, keys, threads
            As for `read_by_id`.
        first
            The columns by which rows are chosen.
        choose
            Takes these columns of some rows, and returns a mask without nulls. It may be asked once about equal rows,
            and by several threads.

        Returns
        -------
        tuple
            The columns, and the numbers of the chosen rows in the file.

        Raises
        ------
        CorruptAvroError
            As by `read_by_id`. The rows that are not chosen are only skipped, to find where they end.
        """
        way = by_id(self.schema, columns, keys or {}), columns
        chooser = by_id(self.schema, first, {}), first, choose
        with _types_of_the_file():
            return kernels.decode_chosen(self._data, self.blocks, self._codec, way, chooser, self._limits(threads))

    def read_by_name(self, columns: pa.Schema, blocks: Sequence[Block], threads: int = 0) -> pa.Table:
        """Read top-level columns, whose types are those that the file itself has, of some blocks.

        Raises
        ------
        CorruptAvroError
            If a block is damaged.
        TooLargeError
            If they take far more memory than they have bytes. Fewer blocks may be read.
        """
        node, limits = by_name(self.schema, columns), self._limits(threads, sum(block.size for block in blocks))
        return kernels.decode_avro(self._data, blocks, self._codec, node, columns, limits)

    def _limits(self, threads: int, size: int | None = None) -> tuple[int, int]:
        return threads, max(_MEMORY, _MOST_TIMES * (len(self._data) if size is None else size))


@contextmanager
def _types_of_the_file() -> Iterator[None]:
    """Blame the file for types that do not match: the wanted ones are those of the specification."""
    try:
        yield
    except InvalidArgumentError as error:
        raise CorruptAvroError(error.message) from None


def _long(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place after it."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise CorruptAvroError("the Avro file ends within a number, or the number has more than 64 bits")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at
        shift += 7


class _Header:
    """Reads the header."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    def long(self) -> int:
        value, self.at = _long(self._data, self.at)
        return value

    def take(self, length: int) -> bytes:
        start = self.at
        if length < 0 or start + length > len(self._data):
            raise CorruptAvroError("the Avro file is cut off")
        self.at = start + length
        return self._data[start : self.at]

    def pairs(self) -> dict[str, bytes]:
        pairs: dict[str, bytes] = {}
        while count := self.long():
            if count < 0:
                count, _ = -count, self.long()
            for _ in range(count):
                key = self.take(self.long()).decode(errors="replace")
                pairs[key] = self.take(self.long())
        return pairs
