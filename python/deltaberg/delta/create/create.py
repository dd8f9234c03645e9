"""Creating a table: its columns, protocol and metadata."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator

from deltaberg.delta.actions.domains import CLUSTERING_DOMAIN, clustering_text
from deltaberg.delta.actions.table_actions import Format, Metadata
from deltaberg.delta.alter.alter_rules import constraint_property
from deltaberg.delta.features import FEATURES, MAPPING_MODE, recorded_mapping_mode, supported_features
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.properties.properties import checked_properties
from deltaberg.delta.properties.protocols import features_of_properties, features_of_schema, raised_protocol
from deltaberg.delta.schema.column_mapping import clustering_names, clustering_paths
from deltaberg.delta.schema.enforce import table_rules
from deltaberg.delta.schema.indexed_columns import check_indexed_names
from deltaberg.delta.schema.new_columns import (
    MAX_COLUMN_ID,
    ColumnNumbers,
    as_given,
    check_columns,
    highest_id,
    partition_names,
)
from deltaberg.delta.schema.row_tracking import hidden_names
from deltaberg.delta.schema.schema_json import schema_to_json
from deltaberg.delta.schema.writer_rules import check_constraints, checked_new_rules, given_metadata
from deltaberg.delta.snapshot.history import IN_COMMIT_TIMESTAMPS, SINCE_TIMESTAMP, SINCE_VERSION
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import InvalidArgumentError, TableNotFoundError
from deltaberg.schema.columns import join_name
from deltaberg.schema.from_arrow import as_table_schema
from deltaberg.schema.types import Struct
from deltaberg.schema.void_columns import warn_of_void
from deltaberg.table.open.new_table import Description, NewTable
from deltaberg.table.sort.curves import check_ordered

__all__ = ["creation_parameters", "define_table", "descriptions", "newest_version"]

_CONSTRAINTS, _REQUEST = "delta.constraints.", "delta.feature."
#: Properties that switch a feature on, with the value that means the same as their absence.
_OFF = {
    feature.activated_by[0]: "none" if feature.activated_by[0] == MAPPING_MODE else "false"
    for feature in FEATURES.values()
    if feature.activated_by is not None
}


def newest_version(log: LogDirectory) -> Snapshot | None:
    """Return the newest version of a table; None if there is no table."""
    try:
        return Snapshot.load(log)
    except TableNotFoundError:
        return None


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
        The schema describes no columns, a property is not valid, or the table is both partitioned and clustered.
    UnsupportedFeatureError
        The columns or properties need a feature that is not written yet.
    """
    properties = checked_properties(table.properties)
    features, recorded = features_of_properties(properties)
    if table.cluster_by:
        if table.partition_by:
            raise InvalidArgumentError(
                "a table is partitioned or clustered, not both", hint="leave out ⟪partition_by⟫ or ⟪cluster_by⟫"
            )
        features.add("clustering")
    mode = recorded_mapping_mode(recorded)
    kept = None if table.of_rows else given_metadata
    given = checked_new_rules(as_given(as_table_schema(table.schema, kept)))
    highest = highest_id(before.metadata.configuration) if before else 0
    warn_of_void(given)
    schema = _numbered(given, recorded, highest) if mode != "none" else given
    if highest and mode == "none":
        recorded[MAX_COLUMN_ID] = str(highest)
    check_columns(schema, mapped=mode != "none")
    check_indexed_names(schema, recorded)
    partition_by = partition_names(schema, table.partition_by or ())
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
        check_ordered(*paths)
        domain = clustering_text([[part.physical_name for part in path] for path in paths])
        transaction.set_domain(CLUSTERING_DOMAIN, domain, system=True)
    elif before is not None and CLUSTERING_DOMAIN in before.domains:
        transaction.set_domain(CLUSTERING_DOMAIN, None, system=True)


def descriptions(table: Snapshot, new: NewTable) -> Iterator[Description]:
    """Yield what is said of a new table beside its columns and partitioning, and what a table has instead.

    Raises
    ------
    InvalidArgumentError, ColumnNotFoundError, UnsupportedFeatureError
        No table can be as it is said, or none that is written.
    """
    properties = checked_properties(new.properties)
    _, recorded = features_of_properties(properties)
    for name, condition in check_constraints(recorded).items():
        del recorded[f"delta.constraints.{name}"]
        recorded[constraint_property(name)] = condition
    # The names of constraints have no case, and what is off by default need not be recorded.
    own = dict(_OFF)
    for name, text in table.metadata.configuration.items():
        own[name.lower() if name.startswith(_CONSTRAINTS) else name] = text
    # Delta reads true, TRUE and True alike.
    others = {name: text for name, text in recorded.items() if text.lower() != own.get(name, "").lower()}
    yield from Description.of_properties(others, own)
    # What a property needs, the table has with the property.
    supported = {f"{_REQUEST}{name}": "supported" for name in supported_features(table.protocol)}
    asked = {name: "supported" for name in properties if name.startswith(_REQUEST)}
    yield from Description.of_properties(asked, supported)
    for name, version in (
        ("delta.minReaderVersion", table.protocol.min_reader_version),
        ("delta.minWriterVersion", table.protocol.min_writer_version),
    ):
        if int(properties.get(name, "1")) > version:
            yield from Description.of_properties({name: properties[name]}, {name: str(version)})
    for what in ("name", "description"):
        if (text := getattr(new, what)) is not None:
            own_text = getattr(table.metadata, what)
            yield Description(what, what, text or None, own_text or None, f"describe({what}={text!r})")
    if new.cluster_by is not None:
        columns = [join_name([part.name for part in path]) for path in clustering_paths(table.schema, new.cluster_by)]
        clustered = clustering_names(table.schema, table.domains)
        change = f"cluster_by({', '.join(map(repr, columns))})"
        yield Description("cluster_by", "clustering", columns or None, clustered or None, change)


def _keep_times(before: Snapshot, recorded: dict[str, str]) -> None:
    """Have a table that is replaced still say since when its commits record their times."""
    if before.is_enabled(IN_COMMIT_TIMESTAMPS) and recorded.get(IN_COMMIT_TIMESTAMPS, "").lower() == "true":
        known = before.metadata.configuration
        recorded.update({name: known[name] for name in (SINCE_VERSION, SINCE_TIMESTAMP) if name in known})


def _numbered(schema: Struct, recorded: dict[str, str], highest: int) -> Struct:
    numbers = ColumnNumbers(highest)
    numbered = Struct(tuple(numbers.assign(child) for child in schema))
    recorded[MAX_COLUMN_ID] = str(numbers.highest)
    return numbered


def creation_parameters(table: Snapshot) -> dict[str, str]:
    """Return the parameters that the history records for the creation of a table."""
    return {
        "isManaged": "false",
        "description": json.dumps(table.metadata.description),
        "partitionBy": json.dumps(list(table.metadata.partition_columns)),
        "clusterBy": json.dumps(clustering_names(table.schema, table.domains), ensure_ascii=False),
        "properties": json.dumps(dict(table.metadata.configuration)),
    }
