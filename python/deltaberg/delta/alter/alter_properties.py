"""Changing properties, features and clustering of a table.

Delta protocol, "Table Features", "Column Mapping", "Row Tracking" and "Clustered Table".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from deltaberg.delta.actions.domains import CLUSTERING_DOMAIN, clustering_text
from deltaberg.delta.alter.alter_columns import map_fields
from deltaberg.delta.alter.alter_rules import RuleAlteration
from deltaberg.delta.alter.drop_feature import check_droppable
from deltaberg.delta.alter.track_rows import give_row_ids, take_row_ids
from deltaberg.delta.features import MAPPING_MODE
from deltaberg.delta.properties.properties import INTERNAL_PROPERTIES, check_name, checked_properties
from deltaberg.delta.properties.protocols import features_of_properties, lowered_protocol
from deltaberg.delta.schema.column_mapping import clustering_names, clustering_paths
from deltaberg.delta.schema.indexed_columns import check_indexed_names
from deltaberg.delta.schema.new_columns import MAX_COLUMN_ID, ColumnNumbers, check_names_in_files, highest_id
from deltaberg.delta.schema.row_tracking import MATERIALIZED_ROW_COLUMNS, ROW_TRACKING, hidden_names
from deltaberg.delta.schema.writer_rules import check_constraints
from deltaberg.delta.snapshot.history import IN_COMMIT_TIMESTAMPS, SINCE_TIMESTAMP, SINCE_VERSION
from deltaberg.delta.snapshot.retention import KEPT_VERSIONS, kept_versions
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError, in_context
from deltaberg.pruning.stats import stats_key
from deltaberg.schema.columns import ColumnName, ColumnNames, join_name, listed_names
from deltaberg.signatures import public
from deltaberg.table.arguments import checked_note, checked_text
from deltaberg.table.sort.curves import check_ordered
from deltaberg.table.verbs.alteration import one_step
from deltaberg.table.write.spec import partition_columns

__all__ = ["PropertyAlteration"]

_Alteration = TypeVar("_Alteration", bound="PropertyAlteration")
#: Properties that mean nothing without their feature, and that no user unsets.
_LEFT_PROPERTIES = {
    "inCommitTimestamp": (SINCE_VERSION, SINCE_TIMESTAMP, IN_COMMIT_TIMESTAMPS),
    "rowTracking": (*MATERIALIZED_ROW_COLUMNS, ROW_TRACKING),
}


@public
class PropertyAlteration(RuleAlteration):
    """The part of `Alteration` that changes properties, features and clustering."""

    @one_step("UPDATE TABLE METADATA")
    def describe(self: _Alteration, *, name: str | None = None, description: str | None = None) -> None:  # noqa: PYI019 - the decorator binds it
        """Set the name of the table, its description, or both, as its metadata records them. Empty text removes one.

        Raises
        ------
        InvalidArgumentError
            Neither is given.
        """
        given = {"name": name, "description": description}
        for member, text in given.items():
            checked_note(member, text, "pass empty text to remove it")
        members = {member: text or None for member, text in given.items() if text is not None}
        if not members:
            raise InvalidArgumentError("neither a name nor a description is given", hint="pass name or description")
        self._transaction.set_metadata(self._snapshot.metadata.with_members(members))

    @one_step("SET TBLPROPERTIES")
    def set(self: _Alteration, properties: Mapping[str, Any]) -> None:  # noqa: PYI019 - the decorator binds it
        """Set table properties; ``delta.feature.NAME`` set to ``supported`` adds a table feature.

        Setting ``delta.columnMapping.mode`` to ``name`` enables column mapping: columns keep their names in files that
        are there, and can then be renamed and dropped. Setting it to ``none`` writes all files anew, with the names of
        the table for their columns. Setting ``delta.enableRowTracking`` to true gives ids to the
        rows that are there (Delta protocol, "Row Tracking"); the files stay as they are, but another commit that adds
        or removes files meanwhile is a conflict.

        Raises
        ------
        InvalidArgumentError
            A property is unknown to Delta, or its value is not valid.
        VersionNotFoundError
            ``deltaberg.keepVersions`` names a version that cannot be read.
        ColumnNotFoundError
            ``delta.dataSkippingStatsColumns`` names a column that the table lacks.
        UnsupportedFeatureError
            A property needs a feature that is not written, or files to be changed.
        """
        checked = checked_properties(properties)
        for version in sorted(kept_versions(checked)):
            # Every vacuum would fail that cannot know which files a version to be kept needs. The next one may be that
            # of this commit.
            if version - self._snapshot.version not in (0, 1):
                with in_context(setting=KEPT_VERSIONS):
                    Snapshot.load(self._snapshot.log, version)
        features, recorded = features_of_properties(checked)
        self._parameters["properties"] = json.dumps(checked, ensure_ascii=False)
        for name, condition in check_constraints(recorded).items():
            self._add_constraint(name, condition)
            del recorded[f"delta.constraints.{name}"]
        table = self._snapshot
        before, after = table.mapping_mode, recorded.get(MAPPING_MODE, table.mapping_mode)
        if (before, after) not in {(before, before), ("none", "name"), (before, "none")}:
            raise UnsupportedFeatureError(
                f"column mapping cannot change from {before} to {after}",
                hint="on a table that is there, name can be enabled, and none turns it off",
                feature="columnMapping",
            )
        if before != after == "none":
            self._disable_mapping()
        self._raise_protocol(features)
        if recorded.get(ROW_TRACKING, "").strip().lower() == "true" and "rowTracking" not in table.active_features:
            give_row_ids(self._transaction)
            recorded |= hidden_names(table.metadata.configuration)
        check_indexed_names(table.schema, recorded)
        document = self._document()
        if before != after != "none":
            numbers = ColumnNumbers(highest_id(table.metadata.configuration))
            map_fields(document.fields(), numbers)
            recorded[MAX_COLUMN_ID] = str(numbers.highest)
        if recorded:
            metadata = self._snapshot.metadata.with_members({"schemaString": document.to_json()})
            self._transaction.set_metadata(metadata.with_properties(recorded))

    @one_step("UNSET TBLPROPERTIES")
    def unset(self: _Alteration, *names: str) -> None:  # noqa: PYI019 - the decorator binds it
        """Remove table properties. Those that the table lacks are no error.

        Raises
        ------
        InvalidArgumentError
            A property is kept by the library itself, or the table lacks it and it is unknown to Delta.
        """
        for name in names:
            checked_text("the name of a property", name, "pass the names of properties")
        internal = sorted(INTERNAL_PROPERTIES.intersection(names))
        if internal:
            raise InvalidArgumentError(f"the property {internal[0]} is kept by the library itself", hint="leave it out")
        for name in names:
            if name not in self._snapshot.metadata.configuration:
                check_name(name)
        if MAPPING_MODE in names and self._snapshot.mapping_mode != "none":
            raise UnsupportedFeatureError(
                "column mapping goes only with the names that files have for columns",
                hint=f'⟪alter().set({{"{MAPPING_MODE}": "none"}})⟫ writes all files anew',
                feature="columnMapping",
            )
        self._parameters |= {"properties": json.dumps(names, ensure_ascii=False), "ifExists": "true"}
        removed = dict.fromkeys(names)
        self._transaction.set_metadata(self._snapshot.metadata.with_properties(removed))

    @one_step("DROP FEATURE")
    def drop_feature(self: _Alteration, name: str) -> None:  # noqa: PYI019 - the decorator binds it
        """Take a feature from the protocol, so that writers that lack it can write to the table again.

        Features that older versions need are dropped by ``drop_feature`` of the table, and others here, after the table
        makes no use of them any more: the property is unset, the constraints, default values or columns are gone. Row
        tracking takes the ids of all rows along, and in-commit timestamps the properties that say since when they
        count. If versions without lists of features support what remains, the protocol falls to them (Delta protocol,
        "Table Features").

        Parameters
        ----------
        name
            The name of the feature, as `DeltaTable.features` has it.

        Raises
        ------
        InvalidArgumentError
            The table does not support the feature, makes use of it, or supports another one that depends on it; or
            older versions need it.
        UnsupportedFeatureError
            Nobody knows how to take it away.

        Examples
        --------
        >>> table.alter().set_default("name", "'none'").commit().version
        1
        >>> table.alter().set_default("name", None).drop_feature("allowColumnDefaults").commit().version
        2
        >>> sorted(table.features)
        ['appendOnly', 'invariants']
        """
        check_droppable(self._snapshot, name)
        self._parameters |= {"featureName": name, "truncateHistory": "false"}
        if name == "rowTracking":
            take_row_ids(self._transaction)
        if name == "clustering" and CLUSTERING_DOMAIN in self._snapshot.domains:
            self._transaction.set_domain(CLUSTERING_DOMAIN, None, system=True)
        left = sorted(set(_LEFT_PROPERTIES.get(name, ())) & self._snapshot.metadata.configuration.keys())
        if left:
            self._transaction.set_metadata(self._snapshot.metadata.with_properties(dict.fromkeys(left)))
        self._transaction.set_protocol(lowered_protocol(name, self._snapshot.protocol), dropped=name)

    @one_step("ALTER TABLE PARTITION BY")
    def partition_by(  # noqa: PYI019 - the decorator binds it
        self: _Alteration, *names: ColumnName | ColumnNames
    ) -> None:
        """Partition the table by other columns; without names, by none. All files are written anew.

        No row changes, and rows keep their ids. Older versions stay as they are. Another commit that changes rows
        meanwhile is a conflict.

        Raises
        ------
        InvalidArgumentError
            The table is clustered.
        ColumnNotFoundError, SchemaError
            There is no such column, it is given twice, its type has no partition values, or no column would be left.
        """
        from deltaberg.delta.alter.rebuild import rebuild_files

        table = self._snapshot
        if names and clustering_names(table.schema, table.domains):
            raise InvalidArgumentError(
                "a clustered table cannot be partitioned", hint="call ⟪alter().cluster_by()⟫ first"
            )
        parts = [part.source[0] for part in partition_columns(table.schema, listed_names(names))]
        if len(parts) == len(table.schema):
            raise SchemaError("at least one column of a table must be none of its partition columns")
        if parts == [field.name for field in table.partition_fields]:
            return
        self._parameters["partitionBy"] = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
        self._rows.copied = rebuild_files(self._transaction, table.metadata.with_members({"partitionColumns": parts}))

    def _disable_mapping(self) -> None:
        """Write all files anew, with the names that columns have in the table."""
        from deltaberg.delta.alter.rebuild import rebuild_files, without_mapping

        table = self._snapshot
        check_names_in_files(table.schema)
        clustered = clustering_names(table.schema, table.domains)
        self._rows.copied = rebuild_files(self._transaction, without_mapping(table.metadata))
        if clustered:
            text = clustering_text([[name] for name in clustered])
            self._transaction.set_domain(CLUSTERING_DOMAIN, text, system=True)

    @one_step("CLUSTER BY")
    def cluster_by(  # noqa: PYI019 - the decorator binds it
        self: _Alteration, *names: ColumnName | ColumnNames
    ) -> None:
        """Let engines cluster the rows by other columns; without names, by none.

        Raises
        ------
        InvalidArgumentError
            The table is partitioned, or values of a column have no order.
        ColumnNotFoundError, SchemaError
            There is no such column, or it is given twice.
        UnsupportedFeatureError
            A file has no statistics of a column.
        """
        table = self._snapshot
        if table.partition_fields:
            raise InvalidArgumentError("a partitioned table cannot be clustered")
        paths = clustering_paths(table.schema, listed_names(names))
        check_ordered(*paths)
        before = clustering_names(table.schema, table.domains)
        after = [join_name([field.name for field in path]) for path in paths]
        if before == after:
            if CLUSTERING_DOMAIN in table.domains:
                # Where another commit changes it meanwhile, this is a change after all.
                self._transaction.set_domain(CLUSTERING_DOMAIN, table.domains[CLUSTERING_DOMAIN], system=True)
            return
        known = table.live.statistics(None, paths).columns if paths else {}
        for path in paths:
            counts = known[stats_key(path)].null_count if stats_key(path) in known else None
            if len(table.live.table) and (counts is None or counts.null_count):
                raise UnsupportedFeatureError(
                    "a file has no statistics of a column to cluster by",
                    hint="choose columns that have statistics in every file, or name more by "
                    "delta.dataSkippingStatsColumns, and state them by ⟪compute_statistics()⟫",
                    feature="clustering",
                    column=join_name([field.name for field in path]),
                )
        self._raise_protocol({"clustering"})
        self._parameters |= {
            "oldClusteringColumns": ",".join(before),
            "newClusteringColumns": ",".join(after),
        }
        text = clustering_text([[field.physical_name for field in path] for path in paths])
        self._transaction.set_domain(CLUSTERING_DOMAIN, text, system=True)
