"""What kernels give back when it is more than one thing."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

__all__ = ["Replay"]


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
