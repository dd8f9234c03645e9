"""Replay of Delta commits, newest first (Delta protocol, "Action Reconciliation")."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from deltaberg.errors import CorruptLogError
from deltaberg.kernels.canonical import canonical_path
from deltaberg.kernels.pure.actions import FileAction, parse_commit
from deltaberg.kernels.pure.keys import Keys
from deltaberg.kernels.pure.stats import record_counts
from deltaberg.kernels.results import ADDED_FILES, REMOVED_FILES, Replay

__all__ = ["replay"]

_TRANSACTION = pa.schema(
    [
        pa.field("appId", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        ("lastUpdated", pa.int64()),
    ]
)
_DOMAIN = pa.schema(
    [
        pa.field("domain", pa.string(), nullable=False),
        pa.field("configuration", pa.string(), nullable=False),
        pa.field("removed", pa.bool_(), nullable=False),
    ]
)


def replay(commits: Iterable[tuple[int, bytes]], threads: int = 0) -> Replay:
    """Replay commits (version, bytes), newest first."""
    state = _State()
    for number, (version, data) in enumerate(commits):
        state.apply(number, version, data)
    return state.finish()


class _State:
    """The state that the commits seen so far leave behind."""

    def __init__(self) -> None:
        self._keys = Keys()
        self._adds: list[pa.RecordBatch] = []
        #: The tombstones of each commit, and whether each is the first action to name its path.
        self._removes: list[tuple[int, list[tuple[FileAction, bool]]]] = []
        self._transactions: dict[str, tuple[int, int | None]] = {}
        self._domains: dict[str, tuple[str, bool]] = {}
        self._protocol: tuple[int, str] | None = None
        self._metadata: tuple[int, str] | None = None

    def apply(self, number: int, version: int, data: bytes) -> None:
        """Apply a commit: all adds before any remove, since the order of lines has no meaning."""
        actions = parse_commit(version, data)
        live, gone = self._live(number, version, actions.adds), self._gone(actions.removes)
        if live:
            self._adds.append(_add_batch(version, live, data))
        if gone:
            self._removes.append((version, gone))
        for app_id, app_version, last_updated in reversed(actions.transactions):
            self._transactions.setdefault(app_id, (app_version, last_updated))
        for domain, configuration, removed in reversed(actions.domains):
            self._domains.setdefault(domain, (configuration, removed))
        if self._protocol is None and actions.protocol is not None:
            self._protocol = (version, actions.protocol)
        if self._metadata is None and actions.metadata is not None:
            self._metadata = (version, actions.metadata)

    def _live(self, number: int, version: int, adds: list[FileAction]) -> list[FileAction]:
        live = []
        for action in adds:
            seen = self._keys.add(canonical_path(action.path), action.vector_id, number)
            if seen == "conflict":
                shown = json.dumps(action.path, ensure_ascii=False)
                message = f"{shown} is added twice in one commit, with different deletion vectors"
                raise CorruptLogError(message, version=str(version))
            if seen == "first":
                live.append(action)
        return live

    def _gone(self, removes: list[FileAction]) -> list[tuple[FileAction, bool]]:
        gone = []
        for action in removes:
            path = canonical_path(action.path)
            is_new = not self._keys.knows_path(path)
            if self._keys.remove(path, action.vector_id) == "first":
                gone.append((action, is_new))
        return gone

    def finish(self) -> Replay:
        removes = [self._remove_batch(version, actions) for version, actions in self._removes]
        transactions = [(app_id, *rest) for app_id, rest in sorted(self._transactions.items())]
        domains = [(domain, *rest) for domain, rest in sorted(self._domains.items())]
        return Replay(
            adds=pa.Table.from_batches(self._adds or [_add_batch(0, [], b"")]),
            removes=pa.Table.from_batches(removes or [self._remove_batch(0, [])]),
            transactions=_batch(transactions, _TRANSACTION),
            domains=_batch(domains, _DOMAIN),
            protocol=self._protocol,
            metadata=self._metadata,
        )

    def _remove_batch(self, version: int, actions: list[tuple[FileAction, bool]]) -> pa.RecordBatch:
        rows = [
            (
                action.path,
                action.time,
                action.data_change,
                action.extended_file_metadata,
                _pairs(action.partition_values),
                action.size,
                _pairs(action.tags),
                _descriptor(action),
                action.base_row_id,
                action.default_row_commit_version,
                version,
                is_new and self._keys.was_added(canonical_path(action.path)),
            )
            for action, is_new in actions
        ]
        return _batch(rows, REMOVED_FILES)


def _add_batch(version: int, actions: list[FileAction], data: bytes) -> pa.RecordBatch:
    counts = record_counts(data, [action.stats for action in actions])
    rows = [
        (
            action.path,
            _pairs(action.partition_values),
            action.size,
            action.time,
            action.data_change,
            None if action.stats is None else {"offset": action.stats[0], "length": action.stats[1]},
            count,
            _pairs(action.tags),
            _descriptor(action),
            action.base_row_id,
            action.default_row_commit_version,
            action.clustering_provider,
            version,
        )
        for action, count in zip(actions, counts, strict=True)
    ]
    return _batch(rows, ADDED_FILES)


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _pairs(members: dict[str, str | None] | None) -> list[tuple[str, str | None]] | None:
    return None if members is None else list(members.items())


def _descriptor(action: FileAction) -> dict[str, Any] | None:
    if action.vector is None:
        return None
    storage_type, path, offset, size, cardinality = action.vector
    return {
        "storageType": storage_type,
        "pathOrInlineDv": path,
        "offset": offset,
        "sizeInBytes": size,
        "cardinality": cardinality,
    }
