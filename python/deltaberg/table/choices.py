"""The words that arguments choose from, each list once: type checkers take them from here, and so do the checks."""

from __future__ import annotations

from typing import Literal

__all__ = [
    "Compression",
    "Format",
    "IfExists",
    "Isolation",
    "Mode",
    "SchemaMode",
    "Strategy",
    "WhenMatched",
    "WhenNotMatched",
]

Format = Literal["delta", "iceberg"]
IfExists = Literal["error", "ignore", "replace"]
Mode = Literal["error", "append", "overwrite", "ignore"]
SchemaMode = Literal["merge", "overwrite"]
Strategy = Literal["merge-on-read", "copy-on-write"]
WhenMatched = Literal["update", "ignore"]
WhenNotMatched = Literal["insert", "ignore"]
Isolation = Literal["Serializable", "WriteSerializable", "SnapshotIsolation", "serializable", "snapshot"]
Compression = Literal["snappy", "zstd", "gzip", "lz4", "brotli", "none", "uncompressed"]
