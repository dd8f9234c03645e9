"""The hot loops: whatever runs once per action, file or row.

Every kernel exists twice, compiled (``deltaberg._native``) and in Python (`deltaberg.kernels.pure`), and both return
the same results. The choice between them is made once per process; `report` says which one runs, and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deltaberg.kernels.results import Replay
from deltaberg.kernels.select import backend, select

if TYPE_CHECKING:
    # `__all__` lists the names; both backends have the types that the stub of the compiled module declares.
    from deltaberg._native import *  # noqa: F403

__all__ = [
    "FUNCTIONS",
    "KernelReport",
    "ParquetRows",
    "PathSet",
    "Replay",
    "backend",
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
    "report",
    "stats_texts",
    "unframe_bitmap",
    "unite_sketches",
    "update_sketch",
    "z85_decode",
    "z85_encode",
]

_ABOUT_KERNELS = frozenset({"FUNCTIONS", "KernelReport", "Replay", "backend", "report"})
#: The names of the kernels. The stub, both backends and the architecture page are checked against them.
FUNCTIONS = tuple(name for name in __all__ if name not in _ABOUT_KERNELS)


class KernelReport(NamedTuple):
    """Which kernels are in use.

    Attributes
    ----------
    backend
        ``native`` for the compiled kernels, ``python`` for their Python twins.
    reason
        Why these were chosen.
    """

    backend: str
    reason: str


_selection = select()
if not TYPE_CHECKING:
    globals().update({_name: getattr(_selection.module, _name) for _name in FUNCTIONS})


def report() -> KernelReport:
    """Return which kernels are in use, and why.

    Examples
    --------
    >>> from deltaberg import kernels
    >>> kernels.report().backend in ("native", "python")
    True
    """
    return KernelReport(_selection.backend, _selection.reason)
