"""What kernels give back when it is more than an array: some states, and rows without columns."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

__all__ = ["Replay", "empty_batch"]


def empty_batch(rows: int) -> pa.RecordBatch:
    """Give a batch of rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None], children=[]))


class Replay(NamedTuple):
    """The state that a run of Delta commits leaves behind (Delta protocol, "Action Reconciliation").

    ``adds`` and ``removes`` have the columns of the protocol's actions and ``version``, the commit that
    held the action. ``adds.stats`` is the place (offset, length) of the statistics' text, still escaped, in the
    bytes of that commit; `parse_log_stats` reads it. ``removes.pathAdded``
    says that no newer action names the path, and that an older commit of the same run adds it.
    """

    adds: pa.Table
    removes: pa.Table
    transactions: pa.RecordBatch
    domains: pa.RecordBatch
    protocol: tuple[int, str] | None
    metadata: tuple[int, str] | None
