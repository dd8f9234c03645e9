"""The one door to what runs once for each action, file or row.

Every name here is a function with two implementations of identical results: compiled (``deltaberg._native``)
and Python (`deltaberg.kernels.pure`). Which one runs is decided once; `report` tells which, and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deltaberg.kernels.results import Replay
from deltaberg.kernels.select import backend, select

if TYPE_CHECKING:
    # The stub of the compiled module is the type of both.
    from deltaberg._native import (
        bitmap_positions,
        bucket,
        contains_keys,
        decode_avro,
        encode_bitmap,
        hash32,
        index_keys,
        keep_mask,
        parse_bounds,
        parse_counts,
        parse_log_stats,
        parse_partition_values,
        parse_stats,
        reconcile,
        replay,
        unframe_bitmap,
        z85_decode,
        z85_encode,
    )

__all__ = [
    "FUNCTIONS",
    "KernelReport",
    "Replay",
    "backend",
    "bitmap_positions",
    "bucket",
    "contains_keys",
    "decode_avro",
    "encode_bitmap",
    "hash32",
    "index_keys",
    "keep_mask",
    "parse_bounds",
    "parse_counts",
    "parse_log_stats",
    "parse_partition_values",
    "parse_stats",
    "reconcile",
    "replay",
    "report",
    "unframe_bitmap",
    "z85_decode",
    "z85_encode",
]

#: The names of the kernels, which both backends have.
FUNCTIONS = (
    "bitmap_positions",
    "bucket",
    "contains_keys",
    "decode_avro",
    "encode_bitmap",
    "hash32",
    "index_keys",
    "keep_mask",
    "parse_bounds",
    "parse_counts",
    "parse_log_stats",
    "parse_partition_values",
    "parse_stats",
    "reconcile",
    "replay",
    "unframe_bitmap",
    "z85_decode",
    "z85_encode",
)


class KernelReport(NamedTuple):
    """The kernels in use and why."""

    backend: str
    reason: str


_selection = select()
if not TYPE_CHECKING:
    globals().update({_name: getattr(_selection.module, _name) for _name in FUNCTIONS})


def report() -> KernelReport:
    """Say which kernels run, ``native`` or ``python``, and why.

    Examples
    --------
    >>> from deltaberg import kernels
    >>> kernels.report().backend in ("native", "python")
    True
    """
    return KernelReport(_selection.backend, _selection.reason)
