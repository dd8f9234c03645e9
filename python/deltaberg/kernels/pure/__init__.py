"""The kernels in Python, with the names, parameters and results of the compiled ones.

They run where there is no compiled module: from a zip file shipped to Spark, or on a platform without a wheel. They
prefer plain code to speed, yet stay within a small factor of other pure-Python readers.
"""

from __future__ import annotations

from deltaberg.kernels.pure.avro.blocks import find_blocks
from deltaberg.kernels.pure.avro.chosen import decode_chosen
from deltaberg.kernels.pure.avro.decode import decode_avro
from deltaberg.kernels.pure.avro.encode import encode_avro
from deltaberg.kernels.pure.bitmaps.positions import bitmap_positions, encode_bitmap, keep_mask, unframe_bitmap
from deltaberg.kernels.pure.bitmaps.z85 import z85_decode, z85_encode
from deltaberg.kernels.pure.bounds import parse_bounds, parse_counts
from deltaberg.kernels.pure.curves import curve_keys, range_ids
from deltaberg.kernels.pure.key_index import contains_keys, find_keys, index_keys
from deltaberg.kernels.pure.locations import locate_paths
from deltaberg.kernels.pure.log.fingerprint import fingerprint
from deltaberg.kernels.pure.log.partition import parse_partition_values
from deltaberg.kernels.pure.log.reconcile import reconcile
from deltaberg.kernels.pure.log.replay import replay
from deltaberg.kernels.pure.log.stats import parse_log_stats, parse_stats, stats_texts
from deltaberg.kernels.pure.log.stats_json import format_stats
from deltaberg.kernels.pure.murmur import bucket, hash32
from deltaberg.kernels.pure.parquet_rows import ParquetRows
from deltaberg.kernels.pure.paths import PathSet
from deltaberg.kernels.pure.theta import unite_sketches, update_sketch

__all__ = [
    "ParquetRows",
    "PathSet",
    "bitmap_positions",
    "bucket",
    "contains_keys",
    "curve_keys",
    "decode_avro",
    "decode_chosen",
    "encode_avro",
    "encode_bitmap",
    "find_blocks",
    "find_keys",
    "fingerprint",
    "format_stats",
    "hash32",
    "index_keys",
    "keep_mask",
    "locate_paths",
    "parse_bounds",
    "parse_counts",
    "parse_log_stats",
    "parse_partition_values",
    "parse_stats",
    "range_ids",
    "reconcile",
    "replay",
    "stats_texts",
    "unframe_bitmap",
    "unite_sketches",
    "update_sketch",
    "z85_decode",
    "z85_encode",
]
