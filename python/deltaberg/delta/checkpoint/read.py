"""Checkpoints of every kind: classic, multi-part, named by UUID, and with sidecars (Delta protocol, "Checkpoints").

They are Parquet files, or JSON with the same actions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from deltaberg import kernels
from deltaberg.delta.actions.log_action import find_actions
from deltaberg.delta.actions.reconciled import TableActions
from deltaberg.delta.actions.table_actions import Transaction, read_metadata, read_protocol
from deltaberg.delta.checkpoint.parquet_part import MISSING, CheckpointPart
from deltaberg.delta.log.directory import LogDirectory, LogEntry
from deltaberg.delta.log.entries import LogBytes
from deltaberg.delta.log.names import LOG_DIRECTORY, SIDECAR_DIRECTORY
from deltaberg.errors import CorruptCheckpointError, CorruptLogError, ObjectNotFoundError, in_context
from deltaberg.lossless_json import read_json
from deltaberg.storage.location import Location, PathResolver

__all__ = ["Checkpoint"]

_CHECKPOINT_ACTIONS = ("sidecar", "checkpointMetadata")


class Checkpoint:
    """A checkpoint, which holds a whole version of a table.

    Parameters
    ----------
    entries
        The files that are the checkpoint.
    log_bytes
        What remembers the bytes of a JSON checkpoint, in which the statistics of its files are; None where nobody will
        ask for them.

    Raises
    ------
    CorruptCheckpointError
        By any of its members, where the checkpoint is damaged, incomplete, or not what its kind allows.
    """

    def __init__(self, log: LogDirectory, entries: Sequence[LogEntry], log_bytes: LogBytes | None = None) -> None:
        self._log = log
        self._entries = entries
        self._log_bytes = log_bytes
        self.version = entries[0].file.version
        self._kind = entries[0].file.kind
        self._is_json = entries[0].file.name.endswith(".json")

    @cached_property
    def table_actions(self) -> TableActions:
        """The actions about the table as a whole."""
        try:
            return TableActions().after(self._json_content[0]) if self._is_json else self._parquet_table_actions()
        except CorruptLogError as error:
            raise self._corrupt(error.message) from error

    def _parquet_table_actions(self) -> TableActions:
        actions = self._own_actions
        for name, required in (("txn", ("appId", "version")), ("domainMetadata", ("domain", "configuration"))):
            if any(action.get(field) is None for action in actions.get(name, []) for field in required):
                raise self._corrupt(f"a {name} action lacks one of the fields {', '.join(required)}")
        domains = actions.get("domainMetadata", [])
        return TableActions(
            read_protocol(actions["protocol"][-1]) if "protocol" in actions else None,
            read_metadata(actions["metaData"][-1]) if "metaData" in actions else None,
            transactions={
                txn["appId"]: Transaction(txn["appId"], txn["version"], txn.get("lastUpdated"))
                for txn in actions.get("txn", [])
            },
            domains={domain["domain"]: domain["configuration"] for domain in domains if not domain.get("removed")},
        )

    @cached_property
    def file_parts(self) -> list[CheckpointPart]:
        """The Parquet files that hold file actions. A sidecar that is named twice counts once."""
        if not self.sidecars:
            return [] if self._is_json else self._main_parts
        return [CheckpointPart(self._log, place.path, size) for place, size in self.sidecars.items()]

    @cached_property
    def sidecars(self) -> dict[Location, int | None]:
        """Where the sidecars are that the checkpoint names, with their sizes in bytes as far as it states them."""
        resolver = PathResolver(self._log.root.join(f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}"))
        named = self._own_actions.get("sidecar", [])
        with in_context(table=str(self._log.root)):
            return {resolver.resolve(sidecar["path"]): sidecar.get("sizeInBytes") for sidecar in named}

    @cached_property
    def inline_files(self) -> kernels.Replay | None:
        """The file actions in the main file of a JSON checkpoint; None if it is Parquet."""
        return self._json_content[0] if self._is_json else None

    @property
    def recorded_version(self) -> int | None:
        """The version that a V2 checkpoint states for itself; None for a V1 checkpoint."""
        marks = self._own_actions.get("checkpointMetadata")
        return marks[0].get("version") if marks else None

    def crowded_rows(self) -> int:
        """Count the rows, or lines of JSON, that hold more than one action; each must hold one."""
        if self._is_json:
            return sum(
                len(read_json(line)) > 1 for line in self._log.read(self._entries[0]).split(b"\n") if line.strip()
            )
        sidecars = [part for part in self.file_parts if part not in self._main_parts]
        return sum(part.crowded_rows() for part in [*self._main_parts, *sidecars])

    @property
    def is_v2(self) -> bool:
        """Whether the checkpoint follows the V2 specification, whatever its name."""
        return bool(self._own_actions.get("checkpointMetadata"))

    def check(self) -> None:
        """Refuse a checkpoint whose actions are incomplete or contradict each other."""
        found = self._own_actions
        _ = self.table_actions
        marks = len(found.get("checkpointMetadata", []))
        sidecars = len(found.get("sidecar", []))
        if self._kind == "uuid" and marks != 1:
            raise self._corrupt(
                f"a checkpoint named by UUID must hold one checkpointMetadata action, but it holds {marks}"
            )
        if marks > 1:
            raise self._corrupt(f"the checkpoint holds {marks} checkpointMetadata actions")
        if self._kind == "multipart" and (marks or sidecars):
            raise self._corrupt("a multi-part checkpoint cannot follow the V2 specification")
        if sidecars and not marks:
            raise self._corrupt("the checkpoint names sidecars without checkpointMetadata")
        if sidecars and self._has_own_files():
            raise self._corrupt("the checkpoint holds file actions both itself and in sidecars")

    def _has_own_files(self) -> bool:
        if self._is_json:
            replay, _ = self._json_content
            return bool(replay.adds.num_rows or replay.removes.num_rows)
        return any(part.has_files() for part in self._main_parts)

    @cached_property
    def _main_parts(self) -> list[CheckpointPart]:
        return [CheckpointPart(self._log, entry.meta.path, entry.meta.size) for entry in self._entries]

    @cached_property
    def _json_content(self) -> tuple[kernels.Replay, list[tuple[str, dict[str, Any]]]]:
        """The content of a JSON checkpoint: a replay of its actions, and the actions that only checkpoints have."""
        try:
            data = self._log.read(self._entries[0])
            replay = kernels.replay([(self.version, data)])
            own = [(kind, fields) for _, kind, fields in find_actions(data, *_CHECKPOINT_ACTIONS)]
        except ObjectNotFoundError as error:
            raise self._corrupt(MISSING) from error
        except CorruptLogError as error:
            raise self._corrupt(error.message, line=error.context.get("line")) from error
        if self._log_bytes is not None:
            self._log_bytes.keep(self._entries[0], data)
        return replay, own

    @cached_property
    def _own_actions(self) -> dict[str, list[dict[str, Any]]]:
        """The actions in the checkpoint's own files, without those about data files, by name.

        For a JSON checkpoint they are only those about the checkpoint itself, because the others are replayed.
        """
        actions: dict[str, list[dict[str, Any]]] = {}
        pairs = self._json_content[1] if self._is_json else self._parquet_actions()
        for name, fields in pairs:
            actions.setdefault(name, []).append(fields)
        for action in actions.get("sidecar", []):
            if not isinstance(action.get("path"), str):
                raise self._corrupt("a sidecar action has no path")
        return actions

    def _parquet_actions(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for part in self._main_parts:
            yield from part.table_actions()

    def _corrupt(self, message: str, **context: Any) -> CorruptCheckpointError:
        name = self._entries[0].file.name
        return CorruptCheckpointError(message, table=str(self._log.root), file=name, **context)
