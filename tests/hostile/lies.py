"""Tables with metadata that lies, is nested endlessly, or leads outside the table.

Run as a module, it reads each of them with limited memory and prints the result.

"""

# ruff: noqa: UP031 - JSON is full of the braces that other formats need doubled
from __future__ import annotations

import json
import resource
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltaberg import open_table
from deltaberg.errors import DeltabergError
from tests.support.delta_builder import DeltaBuilder
from tests.support.vectors import bitmap_bytes, z85

__all__ = ["CASES", "PATHS", "main"]

_ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
#: Memory beyond what the process has once everything is imported.
_MEMORY = 1 << 30

_Make = Callable[[DeltaBuilder], object]


def _add(builder: DeltaBuilder, **fields: Any) -> dict[str, Any]:
    return {"add": {**builder.add(_ROWS, stats="full")["add"], **fields}}


def _file(**fields: Any) -> _Make:
    return lambda made: made.create(_ROWS.schema, _add(made, **fields))


def _line(text: str) -> _Make:
    def make(builder: DeltaBuilder) -> None:
        builder.create(_ROWS.schema, _add(builder))
        builder.commit_text(text)

    return make


def _schema(text: str) -> _Make:
    def make(builder: DeltaBuilder) -> None:
        metadata = builder.metadata(_ROWS.schema)["metaData"]
        builder.commit(builder.protocol(), {"metaData": {**metadata, "schemaString": text}}, _add(builder))

    return make


def _vector(**fields: Any) -> _Make:
    def make(builder: DeltaBuilder) -> None:
        vector = {**builder.vector([1, 2]), **fields}
        builder.create(_ROWS.schema, _add(builder, deletionVector=vector), protocol=builder.features("deletionVectors"))

    return make


def _bitmap(body: bytes, inline: bool = False, version: int = 1) -> _Make:
    """Put bytes where a bitmap belongs, with the right length and checksum around them."""

    def make(builder: DeltaBuilder) -> None:
        name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
        data = struct.pack(">bi", version, len(body)) + body + struct.pack(">I", zlib.crc32(body))
        (builder.root / name).write_bytes(data)
        vector = {"storageType": "u", "pathOrInlineDv": "^-aqEH.-t@S}K{vb[*k^", "offset": 1, "sizeInBytes": len(body)}
        builder.create(
            _ROWS.schema,
            _add(builder, deletionVector={**vector, "cardinality": 1}),
            protocol=builder.features("deletionVectors"),
        )

    return make


def _beside(name: str, data: str | bytes) -> _Make:
    """Put a file into the log of a sound table."""

    def make(builder: DeltaBuilder) -> None:
        builder.create(_ROWS.schema, _add(builder))
        (builder.log / name).write_bytes(data if isinstance(data, bytes) else data.encode())

    return make


def _sidecar(path: str) -> _Make:
    def make(builder: DeltaBuilder) -> None:
        builder.create(_ROWS.schema, _add(builder), protocol=builder.features("v2Checkpoint"))
        actions = [builder.commits[0][0], builder.commits[0][1], {"checkpointMetadata": {"version": 0}}]
        sidecar = {"sidecar": {"path": path, "sizeInBytes": 1 << 60, "modificationTime": 1}}
        builder.checkpoint(kind="uuid-json", actions=[*actions, sidecar])
        (builder.log / f"{0:020d}.json").unlink()

    return make


def _nested(opening: str, inside: str, closing: str, depth: int = 100_000) -> str:
    return opening * depth + inside + closing * depth


def _named(path: str) -> _Make:
    return _line(json.dumps({"add": {**_BODY, "path": path}}))


_BODY = {"path": "x", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
_HEAD = struct.pack("<IQI", 1681511377, 1, 0)
_COLUMNS = [{"name": f"c{number}", "type": "long", "nullable": True, "metadata": {}} for number in range(20_000)]
_TYPES = '{"type":"struct","fields":[{"name":"id","type":"long"},{"name":"a","type":%s}]}'
_LIST = '{"type":"array","elementType":'

#: The name of each case, how to make it, and what must come of it: an exception, or rows (and so many of them).
CASES: dict[str, tuple[_Make, str | int]] = {
    # Numbers that lie
    "size of 4 EiB": (_file(size=1 << 62), 3),
    "largest size": (_file(size=(1 << 63) - 1), 3),
    "negative size": (_file(size=-5), 3),
    "size beyond 64 bits": (_file(size=1 << 64), "CorruptLogError"),
    "statistics of 2^62 rows": (
        _file(stats='{"numRecords":%d}' % (1 << 62)),
        # Rows are counted by metadata where it seems exact, and nothing else says that it is not.
        f"3 rows, counted as {1 << 62}",
    ),
    "statistics of -1 rows": (_file(stats='{"numRecords":-1}'), 3),
    "vector of 2 GiB": (_vector(sizeInBytes=(1 << 31) - 1), "CorruptDeletionVectorError"),
    "vector of -7 bytes": (_vector(sizeInBytes=-7), "CorruptDeletionVectorError"),
    "vector one byte short": (_vector(sizeInBytes=35), "CorruptDeletionVectorError"),
    "vector beyond the end": (_vector(offset=(1 << 31) - 1), "CorruptDeletionVectorError"),
    "vector before the start": (_vector(offset=-4), "CorruptDeletionVectorError"),
    "vector of 2^62 rows": (_vector(cardinality=1 << 62), 1),
    "vector of -3 rows": (_vector(cardinality=-3), 1),
    "vector file of version 2": (_bitmap(bitmap_bytes([1]), version=2), "CorruptDeletionVectorError"),
    "bitmap of 2^64 buckets": (_bitmap(struct.pack("<IQ", 1681511377, (1 << 64) - 1)), "CorruptDeletionVectorError"),
    "bitmap of 2^32 containers": (
        _bitmap(_HEAD + struct.pack("<II", 12346, (1 << 32) - 1)),
        "CorruptDeletionVectorError",
    ),
    "bitmap of 65,536 absent containers": (
        _bitmap(_HEAD + struct.pack("<II", 12346, 1 << 16)),
        "CorruptDeletionVectorError",
    ),
    "run past its block": (
        _bitmap(_HEAD + struct.pack("<HHBHHHHH", 12347, 0, 1, 0, 0xFFFF, 1, 1, 0xFFFF)),
        "CorruptDeletionVectorError",
    ),
    "run of other cardinality": (
        _bitmap(_HEAD + struct.pack("<HHBHHHHH", 12347, 0, 1, 0, 5, 1, 0, 0xFFFF)),
        "CorruptDeletionVectorError",
    ),
    "65,536 runs in no bytes": (
        _bitmap(_HEAD + struct.pack("<HHBHHH", 12347, 0, 1, 0, 0xFFFF, 0xFFFF)),
        "CorruptDeletionVectorError",
    ),
    "bitmap of another magic number": (
        _bitmap(b"\xd2\xd3\x39\x64" + bitmap_bytes([1])[4:]),
        "CorruptDeletionVectorError",
    ),
    "inline vector of another size": (
        _vector(
            storageType="i", pathOrInlineDv="^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", sizeInBytes=4
        ),
        "CorruptDeletionVectorError",
    ),
    # Z85 holds groups of 4 bytes: this one is 34 bytes long, and no lie.
    "inline vector that is padded": (
        _vector(storageType="i", pathOrInlineDv=z85(bitmap_bytes([1]) + b"\0\0"), sizeInBytes=34, cardinality=1),
        2,
    ),
    "inline vector that is not Z85": (
        _vector(storageType="i", pathOrInlineDv="~~~~~", sizeInBytes=4),
        "InvalidZ85Error",
    ),
    "checkpoint in 10^10 parts": (_beside(f"{0:020d}.checkpoint.0000000001.9999999999.parquet", b""), 3),
    "compaction of 10^20 versions": (_beside(f"{0:020d}.{'9' * 20}.compacted.json", b""), 3),
    "version beyond 64 bits": (_beside("9" * 20 + ".json", "{}"), 3),
    "checkpoint beyond 64 bits": (_beside("9" * 20 + ".checkpoint.parquet", b"PAR1"), 3),
    "pointer to 10^29": (_beside("_last_checkpoint", '{"version":99999999999999999999999999999}'), 3),
    "pointer with 10^10 parts": (_beside("_last_checkpoint", '{"version":0,"size":-1,"parts":9999999999}'), 3),
    "times of 2^63": (_file(modificationTime=(1 << 63) - 1), 3),
    # Depth, length and width
    "deep line": (_line(_nested('{"a":', "1", "}")), "CorruptLogError"),
    "deep line that is cut": (_line("[" * 1_000_000), "CorruptLogError"),
    "deep field of an add": (_line('{"add":{"x":%s}}' % _nested("[", "", "]")), "CorruptLogError"),
    "deep metaData": (_line('{"metaData":%s}' % _nested('{"id":', "1", "}")), "CorruptLogError"),
    "deep commitInfo": (_line('{"commitInfo":%s}' % _nested('{"id":', "1", "}")), "CorruptLogError"),
    "deep schema": (_schema('{"type":"struct","fields":%s}' % _nested("[", "", "]")), "CorruptLogError"),
    "deep types": (_schema(_TYPES % _nested(_LIST, '"long"', "}")), "CorruptLogError"),
    "types of 500 levels": (_schema(_TYPES % _nested(_LIST, '"long"', "}", 500)), "CorruptLogError"),
    "deep statistics": (_file(stats=_nested('{"minValues":', "1", "}")), 3),
    "deep statistics that are cut": (_file(stats="[" * 100_000), 3),
    "deep pointer": (_beside("_last_checkpoint", '{"version":' + "[" * 100_000), 3),
    "line of 50 MB": (_line('{"commitInfo":{"x":"%s"}}' % ("a" * 50_000_000)), 3),
    "string without an end, full of quotes": (
        _line('{"x":' + "{" * 200 + '"' + '\\"' * 2_000_000),
        "CorruptLogError",
    ),
    "3,000,000 escapes": (_line('{"commitInfo":{"x":"%s"}}' % ("\\u0041" * 3_000_000)), 3),
    "1,000,000 repeated keys": (_line('{"commitInfo":{%s"b":1}}' % ('"a":1,' * 1_000_000)), 3),
    "a number of 1,000,000 digits": (_line('{"commitInfo":{"x":%s}}' % ("1" * 1_000_000)), "CorruptLogError"),
    "20,000 columns": (
        _schema(json.dumps({"type": "struct", "fields": [*_COLUMNS, {"name": "id", "type": "long"}]})),
        3,
    ),
    "partition values of no column": (_file(partitionValues={f"p{number}": "1" for number in range(50_000)}), 3),
    # Text that is none
    "half of a surrogate pair": (_line('{"add":{"path":"\\ud800"}}'), "CorruptLogError"),
    "bytes that are not UTF-8": (_beside(f"{1:020d}.json", b'{"commitInfo":{"x":"\xff"}}'), "CorruptLogError"),
    "empty newest log entry": (_line(""), "CorruptLogError"),
    "garbage as a checkpoint": (_beside(f"{0:020d}.checkpoint.parquet", b"PAR1" + b"\xff" * 64 + b"PAR1"), 3),
    "a footer of 4 GiB": (_beside(f"{0:020d}.checkpoint.parquet", b"PAR1\x00\xff\xff\xff\xffPAR1"), 3),
    # Sidecars
    "sidecar that is not there": (_sidecar("x.parquet"), "CorruptCheckpointError"),
    "sidecar that climbs out": (_sidecar("../../../x.parquet"), "UnsafePathError"),
    "sidecar in another store": (_sidecar("s3://bucket/x.parquet"), "UnsafePathError"),
    "sidecar with a NUL": (_sidecar("x%00.parquet"), "UnsafePathError"),
    # Vectors that lead away
    "vector that climbs out": (_vector(storageType="p", pathOrInlineDv="../../x"), "UnsafePathError"),
    "vector prefix that climbs out": (_vector(pathOrInlineDv="../^-aqEH.-t@S}K{vb[*k^"), "CorruptDeletionVectorError"),
    "vector in another store": (_vector(storageType="p", pathOrInlineDv="http://h/x"), "UnsafePathError"),
    "vector with a NUL": (_vector(storageType="p", pathOrInlineDv="file:///a%00b"), "UnsafePathError"),
    "vector of an unknown kind": (_vector(storageType="x"), "CorruptDeletionVectorError"),
}

#: Paths of data files, and what must come of them.
PATHS: dict[str, str] = {
    "../../etc/passwd": "UnsafePathError",
    "%2e%2e/%2e%2e/etc/passwd": "UnsafePathError",
    "..%2f..%2fetc%2fpasswd": "UnsafePathError",
    "a/../../b": "UnsafePathError",
    "..": "UnsafePathError",
    "file:///x/../../etc/passwd": "UnsafePathError",
    "file:/x/%2e%2e/etc/passwd": "UnsafePathError",
    "/x/../etc/passwd": "UnsafePathError",
    "http://host/x": "UnsafePathError",
    "s3://bucket/key": "UnsafePathError",
    "memory:///x": "UnsafePathError",
    "file://host/x": "UnsafePathError",
    "file://[x/y": "UnsafePathError",
    "s3://[::1/k": "UnsafePathError",
    "a%ffb": "UnsafePathError",
    "%252e%252e/x": "DataFileNotFoundError",
    "/no/such/directory/x.parquet": "DataFileNotFoundError",
    "file:../x": "DataFileNotFoundError",
    "a%00b": "UnsafePathError",
    "": "DataFileNotFoundError",
    "a" * 5000: "StorageError",
}


def _read(root: Path) -> str | int:
    try:
        table = open_table(root)
        rows = table.scan(filter="id > 0").to_arrow().num_rows
        counted = table.scan().count()
        table.history()
    except DeltabergError as error:
        return type(error).__name__
    except BaseException as error:  # noqa: BLE001 - what is not ours is what is looked for
        return f"not ours: {error!r}"[:300]
    return rows if rows == counted else f"{rows} rows, counted as {counted}"


def _resident() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmSize"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not say how much memory a process has")


def main(folder: Path) -> dict[str, str | int]:
    """Read every case; give what came of it."""
    cases = {name: make for name, (make, _) in CASES.items()} | {path: _named(path) for path in PATHS}
    outcomes: dict[str, str | int] = {}
    _read_sound(folder)
    # The pools of Arrow have their threads and arenas now: what comes on top is for the cases.
    resource.setrlimit(resource.RLIMIT_AS, (_resident() + _MEMORY,) * 2)
    for number, (name, make) in enumerate(cases.items()):
        builder = DeltaBuilder(folder / str(number))
        make(builder)
        outcomes[name] = _read(builder.root)
    return outcomes


def _read_sound(folder: Path) -> None:
    builder = DeltaBuilder(folder / "sound")
    _vector()(builder)
    if _read(builder.root) != 1:
        raise RuntimeError("a sound table is not read")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(json.dumps(main(Path(scratch))))
        sys.exit(0)
