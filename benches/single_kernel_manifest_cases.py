"""The cases of single kernels that read and write the manifests of Iceberg tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benches import iceberg_data
from benches.measure import Case
from benches.single_kernel_work import Work, single_kernel_case

__all__ = ["MANIFEST_KERNEL_CASES"]

#: Columns of the table, by field id.
_BOUNDED = [(1, "long"), (4, "string"), (5, "timestamptz")]


def _newest(scale: float) -> tuple[Any, bytes]:
    """Return a manifest, and its bytes."""
    from deltaberg.files.avro.container import AvroFile

    content = max((iceberg_data.manifests(scale) / "metadata").glob("m*.avro")).read_bytes()
    return AvroFile(content), content


def _whole(manifest: Any) -> pa.Table:
    from deltaberg.files.avro.schema import arrow_field_of

    wanted = pa.schema([arrow_field_of(child) for child in manifest.schema.fields])
    return manifest.read_by_name(wanted, manifest.blocks, 1)


def _decode(scale: float) -> Work:
    manifest, content = _newest(scale)
    return Work(lambda: _whole(manifest), manifest.rows, len(content))


def _decode_some(scale: float) -> Work:
    """Read what a plan with a filter on one column reads."""
    from deltaberg.iceberg.manifests.fields import METRICS, numbered

    manifest, content = _newest(scale)
    lower, key = METRICS["lower_bounds"]
    file = [numbered("file_path", 100, pa.string()), numbered("record_count", 103, pa.int64()), lower]
    wanted = pa.schema([numbered("status", 0, pa.int32()), numbered("data_file", 2, pa.struct(file))])
    return Work(lambda: manifest.read_by_id(wanted, {key: [1]}, 1), manifest.rows, len(content))


def _blocks(scale: float) -> Work:
    from deltaberg import kernels

    manifest, content = _newest(scale)
    sync = content[-16:]
    start = content.index(sync) + len(sync)
    # It reads the numbers and the marker of each block, and passes over the data.
    size = len(content) - start - sum(block.size for block in manifest.blocks)
    return Work(lambda: kernels.find_blocks(content, start, sync), len(manifest.blocks), size)


def _decode_chosen(scale: float) -> Work:
    """Read what a plan with a filter on the partition reads."""
    from deltaberg.iceberg.manifests.fields import numbered

    manifest, content = _newest(scale)
    partition = numbered("partition", 102, pa.struct([numbered("p", 1000, pa.string())]))
    file = [numbered("file_path", 100, pa.string()), partition, numbered("record_count", 103, pa.int64())]
    chosen = pa.schema([numbered("status", 0, pa.int32()), numbered("data_file", 2, pa.struct(file))])
    first = pa.schema([numbered("data_file", 2, pa.struct([partition]))])

    def choose(rows: pa.RecordBatch) -> pa.BooleanArray:
        return pc.equal(pc.struct_field(rows.column(0), [0, 0]), iceberg_data.FILTER)

    return Work(
        lambda: manifest.read_chosen_by_id(chosen, first, choose, None, 1),
        manifest.rows,
        len(content),
        lambda found: len(found[1]),
    )


def _encode(scale: float) -> Work:
    from deltaberg import kernels

    rows = _whole(_newest(scale)[0])
    batches = rows.to_batches()
    return Work(lambda: kernels.encode_avro(batches, b"Obj\x01", bytes(16), "deflate", None, 1), len(rows), rows.nbytes)


def _maps(scale: float, name: str) -> pa.MapArray:
    files = _whole(_newest(scale)[0]).column("data_file").combine_chunks()
    return pc.struct_field(files, name)


def _bounds(scale: float) -> Work:
    from deltaberg import kernels

    maps = _maps(scale, "lower_bounds")
    return Work(lambda: kernels.parse_bounds(maps, _BOUNDED, 1), len(maps), maps.nbytes)


def _counts(scale: float) -> Work:
    from deltaberg import kernels

    maps, ids = _maps(scale, "value_counts"), [number for number, _ in _BOUNDED]
    return Work(lambda: kernels.parse_counts(maps, ids, 1), len(maps), maps.nbytes)


def _case(title: str, prepare: Callable[[float], Work]) -> Case:
    return single_kernel_case(title, iceberg_data.manifests, prepare)


MANIFEST_KERNEL_CASES: dict[str, Case] = {
    "kernel-avro": _case("`decode_avro` of all columns of a manifest, per entry", _decode),
    "kernel-avro-some": _case("`decode_avro` of paths, counts and a bound, per entry", _decode_some),
    "kernel-avro-chosen": _case("`decode_chosen` of a partition of a hundred, per entry", _decode_chosen),
    "kernel-avro-blocks": _case("`find_blocks`, per block", _blocks),
    "kernel-avro-encode": _case("`encode_avro` of all columns of a manifest, per entry", _encode),
    "kernel-bounds": _case("`parse_bounds` of 3 columns, per entry", _bounds),
    "kernel-counts": _case("`parse_counts` of 3 columns, per entry", _counts),
}
