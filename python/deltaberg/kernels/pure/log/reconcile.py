"""Reconciling an older state with newer file actions: a checkpoint or an open snapshot with the commits since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError
from deltaberg.kernels.canonical import canonical_path
from deltaberg.kernels.pure.log.logical_files import Keys, vector_id

__all__ = ["reconcile"]


def reconcile(
    adds: Sequence[pa.RecordBatch],
    removes: Sequence[pa.RecordBatch],
    older: Sequence[pa.RecordBatch],
    role: str,
    threads: int = 0,
) -> pa.ChunkedArray:
    """Return masks of the rows of ``older`` that no newer action replaces or removes.

    Parameters
    ----------
    adds, removes
        The newer file actions, as a `Replay` holds them.
    older
        The older state, with the columns ``path`` and ``deletionVector``.
    role
        Whether the rows of ``older`` are live files (``add``) or tombstones (``remove``).
    threads
        Ignored by this twin.
    """
    if role not in ("add", "remove"):
        raise InvalidArgumentError('role must be "add" or "remove"')
    keys = Keys()
    for batch in adds:
        for path, vector in _logical_files(batch):
            keys.add(path, vector, 0)
    for batch in removes:
        added = batch.column("pathAdded").to_pylist() if "pathAdded" in batch.schema.names else [None] * len(batch)
        for (path, vector), path_added in zip(_logical_files(batch), added, strict=True):
            keys.remove(path, vector)
            if path_added:
                keys.note_added(path)
    keeps = keys.keeps_add if role == "add" else keys.keeps_remove
    masks = [pa.array([keeps(path, vector) for path, vector in _logical_files(batch)], pa.bool_()) for batch in older]
    return pa.chunked_array(masks, pa.bool_())


def _logical_files(batch: pa.RecordBatch) -> Iterator[tuple[bytes, str]]:
    if "path" not in batch.schema.names or batch.schema.field("path").type != pa.string():
        raise InvalidArgumentError('internal: file actions without a string column "path"')
    paths = batch.column("path").to_pylist()
    vectors: list[dict[str, Any] | None] = [None] * len(paths)
    if "deletionVector" in batch.schema.names:
        vectors = batch.column("deletionVector").to_pylist()
    for path, vector in zip(paths, vectors, strict=True):
        yield canonical_path(path or ""), vector_id(vector)
