"""The cases of single kernels, those of plain values among them: deletion vectors, hashes and keys."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from benches.measure import Case
from benches.single_kernel_log_cases import LOG_KERNEL_CASES
from benches.single_kernel_manifest_cases import MANIFEST_KERNEL_CASES
from benches.single_kernel_work import Work, count_of, no_data, single_kernel_case

__all__ = ["SINGLE_KERNEL_CASES"]


# Data files


def _parquet(scale: float) -> Work:
    import numpy as np

    from deltaberg import kernels
    from tests.kernels.parquet_bytes import decode, parquet_bytes

    rows, draw = count_of(scale, 2_000_000), np.random.default_rng(1)
    numbers, texts = pa.array(draw.random(rows)), pa.array(draw.integers(0, 100_000, rows)).cast(pa.string())
    data = parquet_bytes(pa.table({"x": numbers, "s": texts}))
    module = kernels.backend(kernels.report().backend)
    return Work(lambda: decode(module, data, batch_size=65_536), rows, data.size)


# Deletion vectors


def _raw(scale: float) -> bytes:
    return bytes(range(256)) * (count_of(scale, 1 << 24) >> 8)


def _z85_decode(scale: float) -> Work:
    from deltaberg import kernels

    raw = _raw(scale)
    text = kernels.z85_encode(raw)
    return Work(lambda: kernels.z85_decode(text), len(raw) >> 10, len(text))


def _z85_encode(scale: float) -> Work:
    from deltaberg import kernels

    raw = _raw(scale)
    return Work(lambda: kernels.z85_encode(raw), len(raw) >> 10, len(raw))


def _positions(scale: float) -> pa.UInt64Array:
    """Return a tenth of the positions, in no pattern."""
    import numpy as np

    count = count_of(scale, 10_000_000)
    return pa.array(np.sort(np.random.default_rng(1).choice(count, count // 10, replace=False)), pa.uint64())


def _bitmap_encode(scale: float) -> Work:
    from deltaberg import kernels

    positions = _positions(scale)
    return Work(lambda: kernels.encode_bitmap(positions, "delta-inline"), len(positions), positions.nbytes)


def _bitmap_decode(scale: float) -> Work:
    from deltaberg import kernels

    positions = _positions(scale)
    framed = kernels.encode_bitmap(positions, "delta-inline")
    bitmap, _ = kernels.unframe_bitmap(framed, "delta-inline")
    return Work(lambda: kernels.bitmap_positions(bitmap, len(positions)), len(positions), len(bitmap))


def _unframe(scale: float) -> Work:
    from deltaberg import kernels

    framed = kernels.encode_bitmap(_positions(scale), "delta-inline")
    return Work(lambda: kernels.unframe_bitmap(framed, "delta-inline"), len(framed) >> 10, len(framed))


def _mask(scale: float) -> Work:
    from deltaberg import kernels

    positions = _positions(scale)
    bitmap, _ = kernels.unframe_bitmap(kernels.encode_bitmap(positions, "delta-inline"), "delta-inline")
    rows = 10 * len(positions)
    return Work(lambda: kernels.keep_mask(bitmap, 0, rows), rows, len(bitmap), lambda mask: mask.true_count)


# Hashes


def _numbers(scale: float) -> pa.Int64Array:
    return pa.array(range(count_of(scale, 2_000_000)), pa.int64())


def _murmur(kind: pa.DataType) -> Callable[[float], Work]:
    def prepare(scale: float) -> Work:
        from deltaberg import kernels

        values = _numbers(scale).cast(kind)
        return Work(lambda: kernels.hash32(values, 1), len(values), values.nbytes)

    return prepare


def _bucket(scale: float) -> Work:
    from deltaberg import kernels

    values = _numbers(scale)
    return Work(lambda: kernels.bucket(values, 1000, 1), len(values), values.nbytes)


# Keys


def _keys(scale: float) -> pa.RecordBatch:
    numbers = pa.array(range(count_of(scale, 500_000)), pa.int64())
    names = pc.binary_join_element_wise("customer", numbers.cast(pa.string()), "-")
    return pa.record_batch({"id": numbers, "name": names})


def _index(scale: float) -> Work:
    from deltaberg import kernels

    keys = _keys(scale)
    return Work(lambda: kernels.index_keys(keys), len(keys), keys.nbytes, lambda _: None)


def _find(scale: float) -> Work:
    """Every second row has a key."""
    from deltaberg import kernels

    rows = _keys(scale)
    index = kernels.index_keys(rows.take(pa.array(range(0, len(rows), 2))))
    return Work(lambda: kernels.find_keys(index, rows, 1), len(rows), rows.nbytes, lambda found: found.null_count)


def _contains(scale: float) -> Work:
    from deltaberg import kernels

    rows = _keys(scale)
    index = kernels.index_keys(rows.take(pa.array(range(0, len(rows), 2))))
    return Work(lambda: kernels.contains_keys(index, rows), len(rows), rows.nbytes, lambda found: found.true_count)


# Curves


def _curve(curve: str) -> Callable[[float], Work]:
    def prepare(scale: float) -> Work:
        from deltaberg import kernels

        numbers = pc.bit_wise_and(kernels.hash32(_numbers(scale)), pa.scalar(1023, pa.int32())).cast(pa.uint32())
        ids = pa.record_batch([numbers, numbers.take(pa.array(range(len(numbers) - 1, -1, -1)))], ["a", "b"])
        return Work(lambda: kernels.curve_keys(ids, 10, curve, 1), len(numbers), ids.nbytes)

    return prepare


def _ranges(kind: pa.DataType) -> Callable[[float], Work]:
    def prepare(scale: float) -> Work:
        from deltaberg import kernels

        values = kernels.hash32(_numbers(scale)).cast(pa.int64())
        values = values if kind == pa.int64() else values.cast(pa.string()).cast(kind)
        distinct = values.slice(0, 1000).unique()
        boundaries = distinct.take(pc.array_sort_indices(distinct))
        return Work(lambda: kernels.range_ids(values, boundaries, 1), len(values), values.nbytes)

    return prepare


# Sketches


def _sketch(scale: float) -> Work:
    from deltaberg import kernels

    values = _numbers(scale).cast(pa.int64()).view(pa.binary(8)).cast(pa.binary())
    empty = kernels.unite_sketches([])
    return Work(lambda: kernels.update_sketch(empty, values), len(values), values.nbytes, len)


def _union(scale: float) -> Work:
    from deltaberg import kernels

    values = _numbers(scale).cast(pa.int64()).view(pa.binary(8)).cast(pa.binary())
    empty, part = kernels.unite_sketches([]), -(-len(values) // 16)
    sketches = [kernels.update_sketch(empty, values.slice(start, part)) for start in range(0, len(values), part)]
    return Work(lambda: kernels.unite_sketches(sketches), len(sketches), sum(map(len, sketches)), len)


def _case(title: str, prepare: Callable[[float], Work]) -> Case:
    return single_kernel_case(title, no_data, prepare)


SINGLE_KERNEL_CASES: dict[str, Case] = {
    **LOG_KERNEL_CASES,
    **MANIFEST_KERNEL_CASES,
    "kernel-parquet": _case("`ParquetRows` of a number and a text, per row", _parquet),
    "kernel-z85-decode": _case("`z85_decode`, per KiB of bytes", _z85_decode),
    "kernel-z85-encode": _case("`z85_encode`, per KiB of bytes", _z85_encode),
    "kernel-roaring-decode": _case("`bitmap_positions` of a tenth of all rows, per deleted row", _bitmap_decode),
    "kernel-roaring-encode": _case("`encode_bitmap` of a tenth of all rows, per deleted row", _bitmap_encode),
    "kernel-roaring-unframe": _case("`unframe_bitmap`, per KiB", _unframe),
    "kernel-roaring-mask": _case("`keep_mask` without a tenth of all rows, per row", _mask),
    "kernel-murmur-long": _case("`hash32` of integers, per value", _murmur(pa.int64())),
    "kernel-murmur-string": _case("`hash32` of texts, per value", _murmur(pa.string())),
    "kernel-bucket": _case("`bucket` of integers, per value", _bucket),
    "kernel-keys-index": _case("`index_keys` of an integer and a text, per key", _index),
    "kernel-keys-find": _case("`find_keys` of an integer and a text, per row", _find),
    "kernel-keys-contain": _case("`contains_keys` of an integer and a text, per row", _contains),
    "kernel-ranges-long": _case("`range_ids` of integers among 1,000 boundaries, per value", _ranges(pa.int64())),
    "kernel-ranges-string": _case("`range_ids` of texts among 1,000 boundaries, per value", _ranges(pa.binary())),
    "kernel-curve-z-order": _case("`curve_keys` of two columns along the Z-order curve, per row", _curve("z-order")),
    "kernel-curve-hilbert": _case("`curve_keys` of two columns along Hilbert's curve, per row", _curve("hilbert")),
    "kernel-sketch-update": _case("`update_sketch` of integers, per value", _sketch),
    "kernel-sketch-unite": _case("`unite_sketches` of sixteen, per sketch", _union),
}
