"""Creating a table: its columns, protocol and metadata, and what becomes of a table that is there already."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deltaberg.delta.actions.domains import CLUSTERING_DOMAIN, clustering_text
from deltaberg.delta.actions.table_actions import Format, Metadata
from deltaberg.delta.features import recorded_mapping_mode, supported_features
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.operations.alter_rules import constraint_property
from deltaberg.delta.operations.properties import checked_properties
from deltaberg.delta.operations.protocols import features_of_properties, features_of_schema, raised_protocol
from deltaberg.delta.operations.rows import RowOptions
from deltaberg.delta.operations.write import append_rows, overwrite_rows, write_parameters
from deltaberg.delta.schema.column_mapping import clustering_names, clustering_paths
from deltaberg.delta.schema.enforce import table_rules
from deltaberg.delta.schema.indexed_columns import check_indexed_names
from deltaberg.delta.schema.new_columns import MAX_COLUMN_ID, ColumnNumbers, check_columns, partition_names
from deltaberg.delta.schema.row_tracking import hidden_names
from deltaberg.delta.schema.schema_json import schema_to_json
from deltaberg.delta.schema.writer_rules import check_constraints, checked_new_rules
from deltaberg.delta.snapshot.history import IN_COMMIT_TIMESTAMPS, SINCE_TIMESTAMP, SINCE_VERSION
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import CommitConflictError, InvalidArgumentError, TableExistsError, TableNotFoundError
from deltaberg.expressions import Filter
from deltaberg.schema import ColumnName, Struct
from deltaberg.storage import Location
from deltaberg.table import CommitResult, OpenOptions, check_if_exists, checked_note
from deltaberg.table.commit_options import CommitOptions
from deltaberg.table.write import open_rows

__all__ = [
    "NewTable",
    "RowOptions",
    "create_table",
    "create_with_rows",
    "define_table",
    "log_of",
    "newest_version",
    "open_rows",
]

#: Modes of a write as the history spells them.
_MODE_NAMES = {"error": "ErrorIfExists", "append": "Append", "overwrite": "Overwrite", "ignore": "Ignore"}


@dataclass(frozen=True)
class NewTable:
    """The columns, the partitioning and the metadata of a new table.

    Parameters
    ----------
    schema
        The columns. Their ids and physical names are assigned anew.
    partition_by, cluster_by
        The columns by which the rows are kept apart, or clustered.
    properties
        The table properties, with requests for features (``delta.feature.NAME``).
    """

    schema: Struct
    partition_by: Sequence[ColumnName] = ()
    cluster_by: Sequence[ColumnName] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        for what, text in (("name", self.name), ("description", self.description)):
            checked_note(what, text, "leave it out if there is none")


def log_of(root: Location, options: OpenOptions) -> LogDirectory:
    """Return the log of a table that may not exist yet."""
    return LogDirectory(root, options.store)


def create_table(
    log: LogDirectory,
    table: NewTable,
    *,
    if_exists: str = "error",
    unsafe_single_writer: bool = False,
    replacements: int = 20,
) -> CommitResult | None:
    """Create a table without rows; return None where there is one that stays.

    Parameters
    ----------
    if_exists
        What becomes of a table that is there already: ``error`` raises, ``ignore`` leaves it as it is, and ``replace``
        removes its rows and gives it the new columns and properties.
    replacements
        How often a table is replaced again that others change meanwhile.

    Raises
    ------
    TableExistsError
        There is a table, and ``if_exists`` is ``error``.
    SchemaError, InvalidArgumentError, UnsupportedFeatureError
        The table is not valid, or needs what is not written yet.
    """
    check_if_exists(if_exists)
    before = newest_version(log)
    if before is not None and if_exists != "replace":
        _refuse_existing(log, if_exists)
        return None
    transaction = Transaction(log, before, CommitOptions(unsafe_single_writer=unsafe_single_writer))
    define_table(transaction, table, before)
    if before is not None:
        transaction.read()
        transaction.remove_files(before.live.table)
    operation = "CREATE TABLE" if before is None else "REPLACE TABLE"
    try:
        return transaction.commit(operation, _parameters(transaction))
    except (TableExistsError, CommitConflictError):
        # Somebody else was faster. A table to be replaced has to be read first; whatever it is by then is replaced.
        if if_exists == "replace" and replacements:
            return create_table(
                log,
                table,
                if_exists=if_exists,
                unsafe_single_writer=unsafe_single_writer,
                replacements=replacements - 1,
            )
        if before is not None:
            raise
        _refuse_existing(log, if_exists)
        return None


def newest_version(log: LogDirectory) -> Snapshot | None:
    """Return the newest version of a table; None if there is no table."""
    try:
        return Snapshot.load(log)
    except TableNotFoundError:
        return None


def _refuse_existing(log: LogDirectory, if_exists: str) -> None:
    if if_exists == "error":
        raise TableExistsError(
            "there is a table already", hint='pass if_exists="ignore" or if_exists="replace"', table=str(log.root)
        )


def create_with_rows(
    log: LogDirectory,
    table: NewTable,
    data: Any,
    options: RowOptions,
    *,
    mode: str,
    where: Filter | None = None,
    commit: CommitOptions | None = None,
) -> CommitResult:
    """Create a table that holds rows from its first version on.

    Parameters
    ----------
    mode
        What the history records as the mode of the write.
    where
        A filter on partition columns that the rows must match.
    commit
        How the commit is made, and what it records.

    Raises
    ------
    TableExistsError
        There is a table. Nothing was written, or what was written is deleted.
    """
    with Transaction(log, None, commit) as transaction:
        define_table(transaction, table, None)
        if where is None:
            append_rows(transaction, data, options)
        else:
            overwrite_rows(transaction, data, options, where=where)
        return transaction.commit("WRITE", write_parameters(transaction.snapshot, _MODE_NAMES[mode], where=where))


def define_table(transaction: Transaction, table: NewTable, before: Snapshot | None) -> None:
    """Set the protocol and the metadata of a new table, or of one that is replaced.

    Parameters
    ----------
    before
        The table that is replaced. Its id and its protocol stay, the latter with whatever the new table adds.

    Raises
    ------
    SchemaError
        The columns or their rules are not valid, or a partition column is missing or cannot be one.
    ExpressionError
        A rule is not valid, or cannot be evaluated exactly.
    InvalidArgumentError
        A property is not valid, or the table is both partitioned and clustered.
    UnsupportedFeatureError
        The columns or properties need a feature that is not written yet.
    """
    properties = checked_properties(table.properties)
    features, recorded = features_of_properties(properties)
    if table.cluster_by:
        if table.partition_by:
            raise InvalidArgumentError(
                "a table is partitioned or clustered, not both", hint="leave out partition_by or cluster_by"
            )
        features.add("clustering")
    mode = recorded_mapping_mode(recorded)
    given = checked_new_rules(table.schema)
    schema = _numbered(given, recorded, _highest_id(before)) if mode != "none" else _plain(given)
    check_columns(schema, mapped=mode != "none")
    check_indexed_names(schema, recorded)
    partition_by = partition_names(schema, table.partition_by)
    protocol = raised_protocol(features | features_of_schema(schema), before.protocol if before else None)
    if "rowTracking" in features and recorded.get("delta.enableRowTracking", "").lower() == "true":
        recorded |= hidden_names({})
    if before is not None:
        _keep_times(before, recorded)
    for name, condition in check_constraints(recorded).items():
        del recorded[f"delta.constraints.{name}"]
        recorded[constraint_property(name)] = condition
    table_rules(schema, recorded, supported_features(protocol), are_new=True)
    metadata = Metadata(
        id=before.metadata.id if before else str(uuid.uuid4()),
        format=Format("parquet"),
        schema_string=schema_to_json(schema),
        partition_columns=tuple(partition_by),
        configuration=recorded,
        name=table.name,
        description=table.description,
        created_time=time.time_ns() // 1_000_000,
    )
    if before is None or protocol is not before.protocol:
        transaction.set_protocol(protocol)
    transaction.set_metadata(metadata)
    if table.cluster_by:
        paths = clustering_paths(schema, table.cluster_by)
        domain = clustering_text([[part.physical_name for part in path] for path in paths])
        transaction.set_domain(CLUSTERING_DOMAIN, domain, system=True)
    elif before is not None and CLUSTERING_DOMAIN in before.domains:
        transaction.set_domain(CLUSTERING_DOMAIN, None, system=True)


def _keep_times(before: Snapshot, recorded: dict[str, str]) -> None:
    """Have a table that is replaced still say since when its commits record their times."""
    if before.is_enabled(IN_COMMIT_TIMESTAMPS) and recorded.get(IN_COMMIT_TIMESTAMPS, "").lower() == "true":
        known = before.metadata.configuration
        recorded.update({name: known[name] for name in (SINCE_VERSION, SINCE_TIMESTAMP) if name in known})


def _highest_id(before: Snapshot | None) -> int:
    text = before.metadata.configuration.get(MAX_COLUMN_ID, "0") if before else "0"
    return int(text) if re.fullmatch("[0-9]{1,10}", text) else 0


def _plain(schema: Struct) -> Struct:
    """Return columns without the ids and physical names of the table that they come from."""
    return Struct(tuple(replace(child, id=None, physical_name=child.name) for child in schema))


def _numbered(schema: Struct, recorded: dict[str, str], highest: int) -> Struct:
    numbers = ColumnNumbers(highest)
    numbered = Struct(tuple(numbers.assign(child) for child in schema))
    recorded[MAX_COLUMN_ID] = str(numbers.highest)
    return numbered


def _parameters(transaction: Transaction) -> dict[str, str]:
    """Return the parameters that the history records for the creation of a table."""
    table = transaction.snapshot
    return {
        "isManaged": "false",
        "description": json.dumps(table.metadata.description),
        "partitionBy": json.dumps(list(table.metadata.partition_columns)),
        "clusterBy": json.dumps(clustering_names(table.schema, table.domains), ensure_ascii=False),
        "properties": json.dumps(dict(table.metadata.configuration)),
    }
