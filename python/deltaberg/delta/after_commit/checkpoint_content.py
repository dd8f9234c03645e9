"""The actions of a version as its checkpoints hold them, in batches (Delta protocol, "Checkpoint Schema")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from deltaberg.delta.actions.log_action import LogAction
from deltaberg.delta.actions.table_actions import members_of_row
from deltaberg.delta.checkpoint.write_checkpoint import ROW_GROUP_ROWS, file_columns
from deltaberg.delta.data.parsed_statistics import ParsedStatistics
from deltaberg.delta.data.partition_values import read_partition_values
from deltaberg.delta.data.recorded_statistics import recorded_statistics
from deltaberg.delta.snapshot.recorded_adds import recorded_adds
from deltaberg.delta.snapshot.retention import deleted_file_retention, unexpired
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.schema.arrow import arrow_type, as_array, count_up

__all__ = ["CheckpointContent"]

_AS_TEXT = "delta.checkpoint.writeStatsAsJson"
_AS_STRUCT = "delta.checkpoint.writeStatsAsStruct"


class CheckpointContent:
    """The actions of a version, as its checkpoints hold them.

    Parameters
    ----------
    at
        The time by which tombstones and the progress of applications have expired, in milliseconds since 1970.
    """

    def __init__(self, snapshot: Snapshot, at: int) -> None:
        self._snapshot = snapshot
        self._at = at
        # A table whose schema cannot be read gets no checkpoint, which would hide where the damage came from.
        self._statistics = ParsedStatistics.of(
            snapshot.schema, snapshot.partition_fields, snapshot.metadata.configuration, snapshot.protocol
        )
        self._has_texts = snapshot.metadata.configuration.get(_AS_TEXT, "true").strip().lower() == "true"
        self._is_typed = snapshot.is_enabled(_AS_STRUCT)
        self._partition_type: pa.DataType | None = None
        if self._is_typed and snapshot.partition_fields:
            self._partition_type = pa.struct(
                [(field.physical_name, arrow_type(field.type)) for field in snapshot.partition_fields]
            )

    @property
    def file_columns(self) -> list[pa.Field]:
        """The columns of file actions."""
        return file_columns(
            texts=self._has_texts,
            statistics=self._statistics.type if self._is_typed else None,
            partition_values=self._partition_type,
        )

    def table_actions(self) -> list[LogAction]:
        """Return the actions about the table as a whole, with members that this library does not understand."""
        snapshot = self._snapshot
        return [
            snapshot.protocol.action,
            snapshot.metadata.action,
            *(
                LogAction(
                    "txn", {"appId": txn.app_id, "version": txn.version, **_present("lastUpdated", txn.last_updated)}
                )
                for txn in snapshot.transactions_at(self._at).values()
            ),
            *(
                LogAction("domainMetadata", {"domain": domain, "configuration": text, "removed": False})
                for domain, text in snapshot.domains.items()
            ),
        ]

    def file_actions(self) -> Iterator[tuple[str, pa.StructArray]]:
        """Return the live files and the unexpired tombstones in batches: the kind, and rows of that column."""
        add, remove = self.file_columns
        yield from (("add", adds) for adds in self._adds(add.type))
        tombstones = self._tombstones().combine_chunks()
        for start in range(0, len(tombstones), ROW_GROUP_ROWS):
            yield "remove", _structs(tombstones.slice(start, ROW_GROUP_ROWS), remove.type, {})

    def file_lines(self) -> Iterator[LogAction]:
        """Return the live files and the unexpired tombstones one by one, with members that are not understood."""
        live = self._snapshot.live
        yield from recorded_adds(live, count_up(0, len(live.table)))
        _, remove = self.file_columns
        for row in self._tombstones().select([field.name for field in remove.type]).to_pylist():
            yield LogAction("remove", members_of_row(row))

    def _tombstones(self) -> pa.Table:
        retention = deleted_file_retention(self._snapshot.metadata.configuration)
        return unexpired(self._snapshot.tombstones, self._at, retention)

    def _adds(self, kind: pa.DataType) -> Iterator[pa.StructArray]:
        live = self._snapshot.live
        start = 0
        batches = recorded_statistics(
            live.table, live.parts, live.log_bytes, self._statistics, typed=self._is_typed, rows=ROW_GROUP_ROWS
        )
        for statistics in batches:
            rows = live.table.slice(start, len(statistics.texts))
            start += len(rows)
            columns: dict[str, pa.Array] = {"stats": statistics.texts}
            if statistics.parsed is not None:
                columns["stats_parsed"] = statistics.parsed
            if self._partition_type is not None:
                # Values are those that are recorded, without the spaces that readers pad them with.
                fields = [replace(field, length=None) for field in self._snapshot.partition_fields]
                values = read_partition_values(rows, fields)
                kinds = list(self._partition_type)
                columns["partitionValues_parsed"] = pa.StructArray.from_arrays(values, fields=kinds)
            yield _structs(rows, kind, columns)


def _present(name: str, value: object) -> dict[str, object]:
    return {} if value is None else {name: value}


def _structs(rows: pa.Table, kind: pa.DataType, made: dict[str, pa.Array]) -> pa.StructArray:
    """Return rows as structs, with columns of the table and those that were made."""
    arrays = [made[field.name] if field.name in made else as_array(rows.column(field.name)) for field in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))
