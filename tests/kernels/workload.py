"""Small and large calls of every kernel."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.kernels.parquet_bytes import decode, parquet_bytes

__all__ = ["CALLS", "large_calls"]

_Call = Callable[[ModuleType], Any]


def _commits(count: int, files: int) -> list[tuple[int, bytes]]:
    stats = json.dumps({"numRecords": 10, "minValues": {"x": 1}, "maxValues": {"x": 9}, "nullCount": {"x": 0}})
    commits = []
    for version in reversed(range(count)):
        lines = [
            json.dumps(
                {
                    "add": {
                        "path": f"p/{version}-{file}",
                        "partitionValues": {"p": str(file)},
                        "size": file,
                        "modificationTime": version,
                        "dataChange": True,
                        "stats": stats,
                    }
                }
            )
            for file in range(files)
        ]
        commits.append((version, "\n".join(lines).encode()))
    return commits


def calls(files: int, positions: int) -> dict[str, _Call]:
    """Return a call of each kernel over input of some size."""
    from deltaberg.kernels import pure

    # Every third row, and a run: all kinds of containers.
    rows = pa.array([*range(0, positions, 3), *range(1 << 33, (1 << 33) + positions)], pa.uint64())
    framed = pure.encode_bitmap(pa.array([*range(0, 30_000, 3), 1 << 33], pa.uint64()), "delta-file")
    bitmap, _ = pure.unframe_bitmap(framed, "delta-file")
    log = _commits(2, files)
    text = "^-aqEH.-t@S}K{vb[*k^" * (positions // 100)
    stats = pa.array(['{"numRecords":3,"minValues":{"x":"2020-01-01"}}'] * files)
    leaves = [(["x"], "date")]
    maps = pa.array([[("p", str(number))] for number in range(files)], pa.map_(pa.string(), pa.string()))
    adds = pure.replay(log[:1]).adds
    metrics = [[(field, field.to_bytes(8, "little")) for field in range(3)] for _ in range(files)]
    bounds = pa.array(metrics, pa.map_(pa.int32(), pa.binary()))
    counts = pa.array([[(1, number)] for number in range(files)], pa.map_(pa.int32(), pa.int64()))
    texts = pa.array([str(number).encode() for number in range(files)])
    pairs = pa.record_batch({"n": pa.array(range(files)), "s": pa.array([str(n) for n in range(files)])})
    ids = pa.record_batch([pairs["n"].cast(pa.uint32())] * 3, ["a", "b", "c"])
    bounded = pa.record_batch({"numRecords": pairs["n"], "min.0": pairs["n"], "max.1": pairs["s"]})
    node: Any = ("record", 0, None, [("long", 0, 0, [], None), ("string", 0, 1, [], None)], None)
    row = pa.schema([("n", pa.int64()), ("s", pa.string())])
    by_text: Any = ("record", 0, None, [("long", 0, None, [], None), ("string", 0, 0, [], None)], None)
    chooser = (by_text, pa.schema([("s", pa.string())]), lambda rows: pc.equal(rows.column(0), "abc"))
    avro = b"\x02\x06abc" * files
    names = maps.items.take(pa.array(range(files)))
    parquet = parquet_bytes(pa.Table.from_batches([pairs]), row_group_size=max(files // 2, 1))
    versions, places = (adds.column(name).combine_chunks() for name in ("version", "stats"))
    recorded = pa.array([None, "../a", *(f"p=%20/./{number}.parquet" for number in range(files))])
    batches = adds.select(["path", "deletionVector"]).to_batches()
    return {
        "z85_encode": lambda kernels: kernels.z85_encode(bytes(range(256)) * (positions // 100)),
        "z85_decode": lambda kernels: kernels.z85_decode(text),
        "unframe_bitmap": lambda kernels: kernels.unframe_bitmap(framed, "delta-file"),
        "bitmap_positions": lambda kernels: kernels.bitmap_positions(bitmap, 1 << 20),
        "encode_bitmap": lambda kernels: kernels.encode_bitmap(rows, "delta-file"),
        "keep_mask": lambda kernels: kernels.keep_mask(bitmap, 5, positions),
        "replay": lambda kernels: kernels.replay(iter(log)),
        "reconcile": lambda kernels: kernels.reconcile(batches, [], batches, "add"),
        "parse_stats": lambda kernels: kernels.parse_stats(stats, leaves),
        "parse_log_stats": lambda kernels: kernels.parse_log_stats(versions, places, iter(log[:1]), leaves),
        "stats_texts": lambda kernels: kernels.stats_texts(log[0][1], places),
        "locate_paths": lambda kernels: kernels.locate_paths(recorded, "", "/table/", True),
        "ParquetRows": lambda kernels: pa.Table.from_batches(decode(kernels, parquet)),
        "PathSet": lambda kernels: kernels.PathSet([names, names.slice(5)]).contains(names),
        "fingerprint": lambda kernels: kernels.fingerprint(log[0][1]),
        "format_stats": lambda kernels: kernels.format_stats(bounded, [["n"], ["s"]], True),
        "index_keys": lambda kernels: kernels.contains_keys(kernels.index_keys(pairs), pairs),
        "contains_keys": lambda kernels: kernels.contains_keys(kernels.index_keys(pairs.slice(3)), pairs),
        "find_keys": lambda kernels: kernels.find_keys(kernels.index_keys(pairs.slice(3), [False, True]), pairs),
        "decode_avro": lambda kernels: kernels.decode_avro(avro, [(0, len(avro), files)], "null", node, row),
        "decode_chosen": lambda kernels: kernels.decode_chosen(
            avro, [(0, len(avro), files)], "null", (node, row), chooser
        ),
        "find_blocks": lambda kernels: kernels.find_blocks(b"Obj\x01" + b"\x02\x02x#" * files, 4, b"#"),
        "encode_avro": lambda kernels: kernels.encode_avro([pairs], b"Obj\x01", bytes(16), "deflate"),
        "hash32": lambda kernels: kernels.hash32(rows.cast(pa.int64())),
        "bucket": lambda kernels: kernels.bucket(names, 16),
        "range_ids": lambda kernels: kernels.range_ids(pairs["n"], pa.array([3, 30, 300], pa.int64())),
        "curve_keys": lambda kernels: kernels.curve_keys(ids, 32, "hilbert"),
        "update_sketch": lambda kernels: kernels.update_sketch(kernels.unite_sketches([]), texts),
        "unite_sketches": lambda kernels: kernels.unite_sketches([kernels.unite_sketches([])] * 2),
        "parse_bounds": lambda kernels: kernels.parse_bounds(bounds, [(1, "long"), (2, "binary")]),
        "parse_counts": lambda kernels: kernels.parse_counts(counts, [1, 2]),
        "parse_partition_values": lambda kernels: kernels.parse_partition_values(maps, [("p", "long")]),
    }


#: A small call of each kernel.
CALLS = calls(files=40, positions=2_000)


def large_calls() -> dict[str, _Call]:
    """Return calls that take long enough for another thread to notice."""
    found = calls(files=60_000, positions=3_000_000)
    return {
        name: found[name]
        for name in ("replay", "parse_log_stats", "encode_bitmap", "decode_avro", "decode_chosen", "encode_avro")
    }
