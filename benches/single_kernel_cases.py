"""The cases of single kernels: the processor time of one thread for an action, an entry, a value or a KiB.

Nothing is compared with them but an earlier run, in which a kernel may have been faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from benches import data, iceberg_data
from benches.measure import Case, Outcome, Side, Unit, await_turn

__all__ = ["SINGLE_KERNEL_CASES"]

_NANOSECONDS = Unit(lambda nanoseconds: f"{nanoseconds:.2f} ns", "peak")
_TIMES = 7


class _Work(NamedTuple):
    """A call of a kernel, how many items it works on, and what of the result is compared between rounds."""

    call: Callable[[], Any]
    items: int
    describe: Callable[[Any], Any]


def _side(prepare: Callable[[float], _Work]) -> Side:
    def run(scale: float) -> Outcome:
        work = prepare(scale)
        found = work.describe(work.call())
        await_turn()
        amounts = []
        for _ in range(_TIMES):
            start = time.process_time_ns()
            work.call()
            amounts.append((time.process_time_ns() - start) / work.items)
        return Outcome(amounts, found)

    return run


# Logs


def _log(scale: float) -> list[tuple[int, bytes]]:
    """Return the newest tenth of the commits."""
    files = sorted((data.log(scale) / "_delta_log").glob("*.json"))
    return [(int(file.stem), file.read_bytes()) for file in reversed(files[-max(len(files) // 10, 1) :])]


def _replay(scale: float) -> _Work:
    from deltaberg import kernels

    log = _log(scale)
    actions = sum(commit.count(b"\n") for _, commit in log)
    return _Work(lambda: kernels.replay(iter(log), 1), actions, lambda found: [len(found.adds), len(found.removes)])


def _log_stats(scale: float) -> _Work:
    from deltaberg import kernels

    log = _log(scale)
    adds = kernels.replay(iter(log), 1).adds
    versions, places = (adds.column(name).combine_chunks() for name in ("version", "stats"))
    leaves: list[tuple[list[str], str]] = [(["id"], "long"), (["s"], "string"), (["ts"], "timestamp")]
    given = [version for version in log if version[0] in set(versions.to_pylist())]
    work = lambda: kernels.parse_log_stats(versions, places, iter(given), leaves, 1)  # noqa: E731 - shown beside its items
    return _Work(work, len(adds), len)


def _locate(scale: float) -> _Work:
    from deltaberg import kernels

    paths = kernels.replay(iter(_log(scale)), 1).adds.column("path").combine_chunks()
    return _Work(lambda: kernels.locate_paths(paths, "", "/table/", True), len(paths), len)


def _fingerprint(scale: float) -> _Work:
    from deltaberg import kernels

    commit = b"".join(entry for _, entry in _log(scale))
    return _Work(lambda: kernels.fingerprint(commit), len(commit) >> 10, lambda found: found)


# Manifests


def _manifest(scale: float) -> _Work:
    from deltaberg.files.avro import AvroFile, arrow_field_of

    files = (iceberg_data.manifests(scale) / "metadata").glob("m*.avro")
    manifest = AvroFile(max(files).read_bytes())
    wanted = pa.schema([arrow_field_of(child) for child in manifest.schema.fields])
    return _Work(lambda: manifest.read_by_name(wanted, manifest.blocks, 1), manifest.rows, len)


# Values


def _count(scale: float, count: int) -> int:
    return max(int(count * scale), 10_000)


def _z85_decode(scale: float) -> _Work:
    from deltaberg import kernels

    text = kernels.z85_encode(bytes(range(256)) * (_count(scale, 1 << 24) >> 8))
    return _Work(lambda: kernels.z85_decode(text), len(text) * 4 // 5 >> 10, len)


def _z85_encode(scale: float) -> _Work:
    from deltaberg import kernels

    raw = bytes(range(256)) * (_count(scale, 1 << 24) >> 8)
    return _Work(lambda: kernels.z85_encode(raw), len(raw) >> 10, len)


def _positions(scale: float) -> pa.UInt64Array:
    """Return a tenth of the positions, in no pattern."""
    import numpy as np

    count = _count(scale, 10_000_000)
    return pa.array(np.sort(np.random.default_rng(1).choice(count, count // 10, replace=False)), pa.uint64())


def _bitmap_encode(scale: float) -> _Work:
    from deltaberg import kernels

    positions = _positions(scale)
    return _Work(lambda: kernels.encode_bitmap(positions, "delta-inline"), len(positions), len)


def _bitmap_decode(scale: float) -> _Work:
    from deltaberg import kernels

    positions = _positions(scale)
    framed = kernels.encode_bitmap(positions, "delta-inline")
    work = lambda: kernels.bitmap_positions(kernels.unframe_bitmap(framed, "delta-inline")[0])  # noqa: E731 - shown beside its items
    return _Work(work, len(positions), len)


def _murmur(kind: pa.DataType) -> Callable[[float], _Work]:
    def prepare(scale: float) -> _Work:
        from deltaberg import kernels

        values = pa.array(range(_count(scale, 2_000_000)), pa.int64()).cast(kind)
        return _Work(lambda: kernels.hash32(values, 1), len(values), len)

    return prepare


def _case(title: str, made: Callable[[float], Any], prepare: Callable[[float], _Work]) -> Case:
    return Case(title, made, {"deltaberg": _side(prepare)}, _NANOSECONDS)


def _no_data(scale: float) -> None:
    """Prepare nothing: values are made when a case runs."""


SINGLE_KERNEL_CASES: dict[str, Case] = {
    "kernel-replay": _case("`replay`, per action with statistics of 6 columns", data.log, _replay),
    "kernel-log-stats": _case("`parse_log_stats` of 3 columns, per file", data.log, _log_stats),
    "kernel-locate": _case("`locate_paths`, per path", data.log, _locate),
    "kernel-fingerprint": _case("`fingerprint`, per KiB", data.log, _fingerprint),
    "kernel-avro": _case("`decode_avro` of all columns of a manifest, per entry", iceberg_data.manifests, _manifest),
    "kernel-z85-decode": _case("`z85_decode`, per KiB of bytes", _no_data, _z85_decode),
    "kernel-z85-encode": _case("`z85_encode`, per KiB of bytes", _no_data, _z85_encode),
    "kernel-roaring-decode": _case("`bitmap_positions` of a tenth of all rows, per row", _no_data, _bitmap_decode),
    "kernel-roaring-encode": _case("`encode_bitmap` of a tenth of all rows, per row", _no_data, _bitmap_encode),
    "kernel-murmur-long": _case("`hash32` of integers, per value", _no_data, _murmur(pa.int64())),
    "kernel-murmur-string": _case("`hash32` of texts, per value", _no_data, _murmur(pa.string())),
}
