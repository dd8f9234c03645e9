"""The arguments that public functions share, each declared once.

Words of other libraries stand behind the verbs that take them; `deltaberg.words` says what they mean.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from deltaberg.schema.columns import UpdateWords
from deltaberg.table.read.scan_options import ReadZone, ScanExecution

if TYPE_CHECKING:
    from deltaberg.choices import Compression, Isolation, SchemaMode, Strategy
    from deltaberg.expressions.build.filters import Condition, Filter
    from deltaberg.files.write.write_parquet import ParquetOptions
    from deltaberg.schema.columns import ColumnNames
    from deltaberg.storage.location import LocationMap
    from deltaberg.storage.options.options import StoreOptions
    from deltaberg.table.arguments import Instant
    from deltaberg.table.commit.commit import CommitPolicy
    from deltaberg.table.rows.progress import Progress
    from deltaberg.table.verbs.deltalake_objects import (
        CommitProperties,
        PostCommitHookProperties,
        WriterProperties,
    )

__all__ = [
    "AppendArguments",
    "CloneArguments",
    "CommitArguments",
    "CompactArguments",
    "CreateArguments",
    "DeleteArguments",
    "DeltaStateArguments",
    "DeltaTableArguments",
    "DescribedArguments",
    "FileArguments",
    "IcebergStateArguments",
    "KeyArguments",
    "MeasureArguments",
    "MergeArguments",
    "NewTableArguments",
    "NotedArguments",
    "OverwriteArguments",
    "ProgressArguments",
    "RecordedArguments",
    "RewriteArguments",
    "RowArguments",
    "ScanArguments",
    "SingleCommitArguments",
    "SnapshotArguments",
    "StateArguments",
    "StatisticsArguments",
    "StoreArguments",
    "StrategyArguments",
    "UpdateArguments",
    "UpsertArguments",
    "UriWords",
    "WhereWords",
    "arguments_of",
]


class StoreArguments(TypedDict, total=False):
    """How the store of a table is opened."""

    storage_options: StoreOptions | None


class _StateArguments(ReadZone, total=False):
    timestamp: Instant | None
    location_map: LocationMap | str | None
    validate: bool


class DeltaStateArguments(_StateArguments, StoreArguments, total=False):
    """Which state of a Delta table is opened, and how."""

    version: int | None


class UriWords(TypedDict, total=False):
    """Words of other libraries for where a table is."""

    table_uri: str | os.PathLike[str]


class DeltaTableArguments(DeltaStateArguments, UriWords, total=False):
    """The arguments of `DeltaTable`."""


class SnapshotArguments(_StateArguments, total=False):
    """Which snapshot of an Iceberg table of a catalog is opened, and how."""

    snapshot_id: int | None
    ref: str | None


class IcebergStateArguments(SnapshotArguments, StoreArguments, total=False):
    """Which state of an Iceberg table is opened, and how."""


class StateArguments(DeltaStateArguments, IcebergStateArguments, total=False):
    """Which state of a table is opened, and how."""


class ScanArguments(ScanExecution, total=False):
    """The arguments of scans, and of scans of changes."""

    row_filter: Filter | None
    selected_fields: ColumnNames | None


class FileArguments(TypedDict, total=False):
    """How data files are written."""

    target_file_size: int | None
    compression: Compression | None
    writer_properties: ParquetOptions | WriterProperties | None
    memory: int | None


class ZoneArguments(TypedDict, total=False):
    """The zone of timestamps without one."""

    timezone: str | None


class RowArguments(FileArguments, ZoneArguments, total=False):
    """How rows come into data files."""

    schema_mode: SchemaMode | None
    allow_truncation: bool
    safe: bool


class AttemptArguments(TypedDict, total=False):
    """How a commit is tried, whatever it does."""

    policy: CommitPolicy | None
    unsafe_single_writer: bool


class NotedArguments(AttemptArguments, total=False):
    """How commits are tried that change nothing, and what they note."""

    user_metadata: str | None


class ProgressArguments(TypedDict, total=False):
    """What is told how far a verb has come."""

    progress: Progress | bool | None


class MeasureArguments(AttemptArguments, ProgressArguments, total=False):
    """The arguments of `compute_table_stats`."""


class CommitArguments(NotedArguments, ProgressArguments, total=False):
    """How one commit or several are made."""

    branch: str | None
    isolation: Isolation | None
    commit_properties: Mapping[str, Any] | CommitProperties | None
    post_commithook_properties: PostCommitHookProperties | None


class SingleCommitArguments(CommitArguments, total=False):
    """How one commit is made."""

    txn: tuple[str, int] | str | None


class DescribedArguments(CommitArguments, total=False):
    """How commits are made, and what they record beside their changes."""

    properties: Mapping[str, Any] | None
    snapshot_properties: Mapping[str, Any] | None


class RecordedArguments(DescribedArguments, SingleCommitArguments, total=False):
    """How one commit is made, and what it records beside its changes."""


class NewTableArguments(StoreArguments, SingleCommitArguments, total=False):
    """What metadata says of a new table, and how it is made. The properties are those of the table."""

    properties: Mapping[str, Any] | None
    configuration: Mapping[str, Any] | None
    name: str | None
    description: str | None


class CreateArguments(NewTableArguments, total=False):
    """How tables are made, with their layout."""

    partition_by: ColumnNames | None
    sort_by: ColumnNames | None
    cluster_by: ColumnNames | None


class StrategyArguments(TypedDict, total=False):
    """How rows are changed that are in files with others."""

    strategy: Strategy | None


class RowWords(TypedDict, total=False):
    """Words of other libraries for rows."""

    df: Any


class WhereWords(TypedDict, total=False):
    """Words of other libraries for the condition of rows that go."""

    predicate: Filter | None


class AppendArguments(RowArguments, RecordedArguments, RowWords, total=False):
    """The arguments of `append`."""


class OverwriteArguments(AppendArguments, StrategyArguments, WhereWords, total=False):
    """The arguments of `overwrite`."""


class _ChangeArguments(FileArguments, ZoneArguments, StrategyArguments, RecordedArguments, WhereWords, total=False):
    condition: Filter | None


class DeleteArguments(_ChangeArguments, total=False):
    """The arguments of `delete`."""

    delete_filter: Filter | None


class UpdateArguments(_ChangeArguments, UpdateWords, total=False):
    """The arguments of `update`."""


class _JoinArguments(RowArguments, StrategyArguments, RecordedArguments, total=False):
    """The arguments of what joins rows with those of the table."""


class MergeArguments(_JoinArguments, total=False):
    """The arguments of `merge`."""

    source_alias: str
    target_alias: str
    predicate: Condition
    condition: Condition


class UpsertArguments(_JoinArguments, RowWords, total=False):
    """The arguments of `upsert`."""

    join_cols: ColumnNames | None


class CloneArguments(SingleCommitArguments, total=False):
    """The arguments of `clone`."""

    isShallow: bool


class KeyArguments(FileArguments, ZoneArguments, RecordedArguments, total=False):
    """The arguments of `delete_by_keys`."""


class StatisticsArguments(ZoneArguments, CommitArguments, total=False):
    """The arguments of `compute_statistics`."""


class RewriteArguments(FileArguments, ZoneArguments, DescribedArguments, total=False):
    """The arguments of what writes files anew without a change of rows."""


class CompactArguments(RewriteArguments, total=False):
    """The arguments of `compact`."""

    target_size: int | None
    max_concurrent_tasks: int | None


def arguments_of(kind: type, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some arguments that a typed dictionary declares.

    Examples
    --------
    >>> arguments_of(FileArguments, {"compression": "zstd", "branch": "b"})
    {'compression': 'zstd'}
    """
    return {name: value for name, value in arguments.items() if name in kind.__annotations__}
