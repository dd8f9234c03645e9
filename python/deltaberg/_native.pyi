"""The compiled kernels. `deltaberg.kernels.pure` has the same functions in Python."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from deltaberg.kernels.results import Replay

__version__: str
ERROR_KINDS: list[tuple[str, str]]

def bitmap_positions(bitmap: bytes) -> pa.UInt64Array: ...
def decode_avro(
    data: bytes,
    blocks: Sequence[tuple[int, int, int]],
    codec: str,
    node: tuple[str, int, int | None, Sequence[Any], Sequence[int] | None],
    schema: pa.Schema,
    threads: int = 0,
) -> pa.Table: ...
def encode_bitmap(positions: pa.UInt64Array, framing: str) -> bytes: ...
def keep_mask(bitmap: bytes, start: int, length: int) -> pa.BooleanArray: ...
def parse_log_stats(
    versions: pa.Int64Array,
    places: pa.StructArray,
    commits: Iterable[tuple[int, bytes | None]],
    leaves: Sequence[tuple[Sequence[str], str | None]],
    threads: int = 0,
) -> pa.Table: ...
def parse_partition_values(values: pa.MapArray, columns: Sequence[tuple[str, str]]) -> pa.RecordBatch: ...
def parse_stats(
    stats: pa.StringArray, leaves: Sequence[tuple[Sequence[str], str | None]], threads: int = 0
) -> pa.Table: ...
def reconcile(
    adds: Sequence[pa.RecordBatch],
    removes: Sequence[pa.RecordBatch],
    older: Sequence[pa.RecordBatch],
    role: str,
    threads: int = 0,
) -> pa.ChunkedArray: ...
def replay(commits: Iterable[tuple[int, bytes]], threads: int = 0) -> Replay: ...
def unframe_bitmap(data: bytes, framing: str) -> tuple[bytes, int]: ...
def z85_decode(text: str) -> bytes: ...
def z85_encode(data: bytes) -> str: ...
