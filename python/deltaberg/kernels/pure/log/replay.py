"""Replay of Delta commits, newest first (Delta protocol, "Action Reconciliation")."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from deltaberg.errors import CorruptLogError
from deltaberg.kernels.canonical import canonical_path
from deltaberg.kernels.pure.log.actions import Action, parse_commit
from deltaberg.kernels.pure.log.logical_files import Keys, vector_id
from deltaberg.kernels.pure.log.stats import record_counts
from deltaberg.kernels.pure.quoted import quoted
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
        self._removes: list[tuple[int, list[tuple[Action, bool]]]] = []
        self._transactions: dict[str, Action] = {}
        self._domains: dict[str, Action] = {}
        self._spelled: dict[str, tuple[int, str]] = {}

    def apply(self, number: int, version: int, data: bytes) -> None:
        """Apply a commit: all adds before any remove, since the order of lines has no meaning."""
        actions = parse_commit(version, data)
        live, gone = self._live(number, version, actions.found["add"]), self._gone(actions.found["remove"])
        if live:
            self._adds.append(_add_batch(version, live, data))
        if gone:
            self._removes.append((version, gone))
        for transaction in reversed(actions.found["txn"]):
            self._transactions.setdefault(transaction["appId"], transaction)
        for domain in reversed(actions.found["domainMetadata"]):
            self._domains.setdefault(domain["domain"], domain)
        for name, text in actions.spelled.items():
            self._spelled.setdefault(name, (version, text))

    def _live(self, number: int, version: int, adds: list[Action]) -> list[Action]:
        live = []
        for action in adds:
            seen = self._keys.add(canonical_path(action["path"]), vector_id(action["deletionVector"]), number)
            if seen == "conflict":
                message = f"{quoted(action['path'])} is added twice in one commit, with different deletion vectors"
                raise CorruptLogError(message, version=str(version))
            if seen == "first":
                live.append(action)
        return live

    def _gone(self, removes: list[Action]) -> list[tuple[Action, bool]]:
        gone = []
        for action in removes:
            path = canonical_path(action["path"])
            is_new = not self._keys.knows_path(path)
            if self._keys.remove(path, vector_id(action["deletionVector"])) == "first":
                gone.append((action, is_new))
        return gone

    def finish(self) -> Replay:
        removes = [self._remove_batch(version, actions) for version, actions in self._removes]
        return Replay(
            adds=pa.Table.from_batches(self._adds or [_add_batch(0, [], b"")]),
            removes=pa.Table.from_batches(removes or [self._remove_batch(0, [])]),
            transactions=_sorted_batch(self._transactions, _TRANSACTION),
            domains=_sorted_batch(self._domains, _DOMAIN),
            protocol=self._spelled.get("protocol"),
            metadata=self._spelled.get("metaData"),
        )

    def _remove_batch(self, version: int, actions: list[tuple[Action, bool]]) -> pa.RecordBatch:
        rows = [
            {**action, "version": version, "pathAdded": is_new and self._keys.was_added(canonical_path(action["path"]))}
            for action, is_new in actions
        ]
        return pa.RecordBatch.from_pylist(rows, REMOVED_FILES)


def _add_batch(version: int, actions: list[Action], data: bytes) -> pa.RecordBatch:
    counts = record_counts(data, [action["stats"] for action in actions])
    rows = [{**action, "version": version, "numRecords": count} for action, count in zip(actions, counts, strict=True)]
    return pa.RecordBatch.from_pylist(rows, ADDED_FILES)


def _sorted_batch(found: dict[str, Action], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([action for _, action in sorted(found.items())], schema)
