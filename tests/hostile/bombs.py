"""Small files that stand for gigabytes, one for each decoder.

Run as a module with a directory, it opens each of them and prints a line of what came of it: the outcome, and the
memory that it took in MiB.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cramjam
import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.delta.checkpoint.parquet_part import CheckpointPart
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.errors import DeltabergError
from deltaberg.files.avro.container import AvroFile
from deltaberg.files.formats.avro_rows import AvroSource
from deltaberg.iceberg.deletes.puffin import PuffinFile
from deltaberg.iceberg.manifests.fields import MANIFESTS, WHOLE_ENTRIES, ManifestPart
from deltaberg.iceberg.manifests.manifest_list import read_manifest_list
from deltaberg.iceberg.manifests.manifests import read_manifest
from deltaberg.iceberg.metadata.metadata_file import read_metadata
from deltaberg.schema.types import Struct
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from tests.support.memory import peak_memory

__all__ = ["CASES"]

_MIB = 1 << 20
_SYNC = bytes(range(16))
_PLAIN = ManifestPart()
_MANIFEST = {"content": 0, "sequence_number": 1, "added_snapshot_id": 1, "first_row_id": None}


def _long(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _deflated(pieces: Iterator[bytes]) -> bytes:
    work = zlib.compressobj(1, zlib.DEFLATED, -15)
    return b"".join([work.compress(piece) for piece in pieces] + [work.flush()])


def _zstandard(pieces: Iterator[bytes]) -> bytes:
    work = cramjam.zstd.Compressor()
    for piece in pieces:
        work.compress(piece)
    return bytes(work.finish())


_CODECS: dict[str, Callable[[Iterator[bytes]], bytes]] = {
    "deflate": _deflated,
    "zstandard": _zstandard,
}


def _avro(schema: Any, codec: str, rows: int, block: bytes, count: int) -> bytes:
    """Return a file that repeats a block."""
    pairs = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    header = b"".join(_long(len(key)) + key.encode() + _long(len(value)) + value for key, value in pairs.items())
    whole = _long(rows) + _long(len(block)) + block + _SYNC
    return b"Obj\x01" + _long(len(pairs)) + header + _long(0) + _SYNC + whole * count


def _field(name: str, number: int, kind: Any) -> dict[str, Any]:
    return {"name": name, "field-id": number, "type": kind}


#: A manifest's required fields: the path comes first, so that it can be as long as anybody likes.
_FILE = [
    _field("file_path", 100, "string"),
    _field("file_format", 101, "string"),
    _field("partition", 102, {"type": "record", "name": "r102", "fields": []}),
    _field("record_count", 103, "long"),
    _field("file_size_in_bytes", 104, "long"),
]
_ENTRY = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        _field("status", 0, "int"),
        _field("data_file", 2, {"type": "record", "name": "r2", "fields": _FILE}),
    ],
}
_LIST = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _field("manifest_path", 500, "string"),
        _field("manifest_length", 501, "long"),
        _field("partition_spec_id", 502, "int"),
    ],
}
_DATA = {"type": "record", "name": "row", "fields": [{"name": "x", "type": "string"}]}
_AFTER_PATH = _long(7) + b"parquet" + _long(1) + _long(1)


def _long_text(before: bytes, after: bytes, mebibytes: int) -> Iterator[bytes]:
    yield before + _long(mebibytes * _MIB)
    for _ in range(mebibytes):
        yield b"a" * _MIB
    yield after


def _short_entries(count: int) -> Iterator[bytes]:
    for _ in range(count // 100_000):
        yield (_long(1) + _long(1) + b"a" + _AFTER_PATH) * 100_000


def _manifest(data: bytes, part: ManifestPart = _PLAIN) -> None:
    read_manifest(data, _MANIFEST, Struct(()), part, threads=2)


def _of_path(codec: str, mebibytes: int, count: int) -> bytes:
    block = _CODECS[codec](_long_text(_long(1), _AFTER_PATH, mebibytes))
    return _avro(_ENTRY, codec, 1, block, count)


def _padded(data: bytes, size: int) -> bytes:
    """Return a file of the issue's size: the header holds bytes that nobody asked for."""
    first = data.index(_SYNC)
    return (
        data[: first - 1].replace(_long(2), _long(3), 1)
        + _long(1)
        + b"x"
        + _long(size)
        + bytes(size)
        + data[first - 1 :]
    )


def _avro_data(folder: Path, codec: str, mebibytes: int, count: int) -> None:
    path = folder / "a.avro"
    path.write_bytes(_avro(_DATA, codec, 1, _CODECS[codec](_long_text(b"", b"", mebibytes)), count))
    source = AvroSource(pa.OSFile(str(path)), str(path))
    for batch in source.batches(source.row_groups(0, 1 << 62), [0], 1 << 16, threads=True):
        assert batch.rows


def _puffin(folder: Path, codec: str) -> None:
    blob = bytes((cramjam.lz4 if codec == "lz4" else cramjam.zstd).compress(bytes(200 * _MIB)))
    entry = {"type": "x", "fields": [], "snapshot-id": 1, "sequence-number": 1, "offset": 4, "length": len(blob)}
    footer = json.dumps({"blobs": [{**entry, "compression-codec": codec}]}).encode()
    path = folder / "a.puffin"
    path.write_bytes(b"PFA1" + blob + b"PFA1" + footer + len(footer).to_bytes(4, "little") + bytes(4) + b"PFA1")
    found = PuffinFile(parse_location(str(path)), StoreSpec())
    _measured(lambda: found.read(found.blobs[0]))


def _compressed_footer(folder: Path) -> None:
    footer = bytes(cramjam.lz4.compress(b'{"blobs":[' + b"[],".ljust(100 * _MIB, b" ") + b"]}"))
    path = folder / "a.puffin"
    path.write_bytes(b"PFA1PFA1" + footer + len(footer).to_bytes(4, "little") + b"\1\0\0\0PFA1")
    _measured(lambda: PuffinFile(parse_location(str(path)), StoreSpec()))


def _checkpoint(folder: Path) -> None:
    """A checkpoint of 8,000 files whose paths are the same long text, which Parquet stores once."""
    add = {"path": "x" * 200_000, "partitionValues": [], "size": 1, "modificationTime": 1, "dataChange": True}
    names = [(name, pa.int64()) for name in ("size", "modificationTime")]
    kind = pa.struct(
        [
            ("path", pa.string()),
            ("partitionValues", pa.map_(pa.string(), pa.string())),
            *names,
            ("dataChange", pa.bool_()),
        ]
    )
    rows = pa.table({"add": pa.array([add], kind).take(pa.array([0] * 1000))})
    path = folder / "_delta_log" / f"{0:020d}.checkpoint.parquet"
    path.parent.mkdir()
    with pq.ParquetWriter(path, rows.schema, compression="zstd") as writer:
        writer.write_table(pa.concat_tables([rows] * 8))
    del rows
    log = LogDirectory(parse_location(str(folder)), StoreSpec())
    _measured(lambda: CheckpointPart(log, str(path), path.stat().st_size).adds())


def _gzip(text: bytes, times: int) -> None:
    data = gzip.compress(text * times, 1)
    _measured(lambda: read_metadata(data))


#: Each makes its file, and has what reads it measured.
CASES: dict[str, Callable[[Path], None]] = {
    "a manifest of 16 MB with six blocks of 600 MB": lambda _: _read(
        _manifest, _padded(_of_path("deflate", 600, 6), 12 << 20)
    ),
    "a manifest of blocks of 60 MB": lambda _: _read(_manifest, _of_path("deflate", 60, 12)),
    "a manifest with paths of 200 MB in zstandard": lambda _: _read(_manifest, _of_path("zstandard", 200, 2)),
    "a manifest that declares a gigabyte in snappy": lambda _: _read(
        _manifest, _avro(_ENTRY, "snappy", 1, b"\xff\xff\xff\xff\x03" + bytes(1000), 3)
    ),
    "a manifest of many entries": lambda _: _read(
        _manifest, _avro(_ENTRY, "deflate", 1_000_000, _deflated(_short_entries(1_000_000)), 6)
    ),
    "whole entries of a manifest": lambda _: _read(
        lambda data: _manifest(data, WHOLE_ENTRIES),
        _avro(_ENTRY, "deflate", 1_000_000, _deflated(_short_entries(1_000_000)), 6),
    ),
    "a manifest list": lambda _: _read(
        read_manifest_list, _avro(_LIST, "deflate", 1, _deflated(_long_text(b"", _long(1) * 2, 300)), 6)
    ),
    "a data file in deflate": lambda folder: _measured(lambda: _avro_data(folder, "deflate", 200, 2)),
    "a data file in zstandard": lambda folder: _measured(lambda: _avro_data(folder, "zstandard", 200, 2)),
    "a puffin blob in zstandard": lambda folder: _puffin(folder, "zstd"),
    "a puffin blob in lz4": lambda folder: _puffin(folder, "lz4"),
    "a footer of a puffin file": _compressed_footer,
    "a checkpoint of long paths": _checkpoint,
    "metadata of spaces": lambda _: _gzip(b" " * _MIB, 200),
    "metadata of empty lists": lambda _: _gzip(b"[" + b"[]," * 300_000, 200),
}


def _read(read: Callable[[bytes], object], data: bytes) -> None:
    _measured(lambda: read(data))


def _measured(work: Callable[[], object]) -> None:
    """Print what came of it."""
    AvroFile(_avro(_LIST, "null", 1, _long(1) + b"a" + _long(1) * 2, 1)).read_by_id(MANIFESTS)
    Path("/proc/self/clear_refs").write_text("5")  # The peak begins anew.
    before = peak_memory()
    try:
        work()
        outcome = "read"
    except DeltabergError as error:
        outcome = type(error).__name__
    print(json.dumps([outcome, (peak_memory() - before) >> 20]))


if __name__ == "__main__":
    for make in CASES.values():
        make(Path(sys.argv[1]))
