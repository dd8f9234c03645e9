"""What stands for the arguments of verbs where they are not called in Python: commands, Data Sources, delta-spark.

What each door takes is read from its own signatures. This module says what that stands for, and why it lacks the rest.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import click

import deltaberg
from deltaberg import DeltaTable, IcebergTable
from deltaberg.catalogs import Catalog
from deltaberg.cli.app import cli
from deltaberg.cli.command_table import COMMANDS
from deltaberg.cli.rows.csv_rows import CsvForm
from deltaberg.spark import tables
from deltaberg.spark.hints import _OPTIONS as OPTIONS_OF_SOURCES
from deltaberg.spark.source.delta_options import DeltaReadOptions
from deltaberg.spark.source.delta_write_options import DeltaWriteOptions
from deltaberg.spark.source.iceberg_options import IcebergReadOptions
from deltaberg.spark.source.iceberg_write_options import _AS_IT_IS, _REFUSED, IcebergWriteOptions
from deltaberg.spark.source.options import IN_CATALOG
from deltaberg.spark.source.streaming.delta_stream_settings import DeltaStreamSettings
from deltaberg.spark.source.streaming.iceberg_stream_settings import IcebergStreamSettings
from deltaberg.spark.source.streaming.stream_settings import LIMITS_ANYWHERE
from deltaberg.words import words_of

__all__ = ["DOORS", "VERBS_OF_COMMANDS", "Door", "arguments_of_verb", "verbs_of_library"]

#: The verbs of the commands that do not have their name.
VERBS_OF_COMMANDS = {
    **dict.fromkeys(("count", "files", "head", "plan"), ("scan", "open_table")),
    **dict.fromkeys(("inspect", "schema"), ("open_table",)),
    **{name: (name, "open_table") for name in ("changes", "history", "verify")},
    "cherry-pick": ("cherrypick_snapshot",),
    "tail": ("follow", "open_table"),
    "convert": ("convert_to_delta", "convert_to_iceberg"),
    "copy-plan": ("rewrite_table_path",),
    "create": ("create_table",),
    "expire": ("expire_snapshots",),
    "maintain": ("maintain", "MaintenancePolicy"),
    "metadata": ("inspect", "open_table"),
    "orphans": ("remove_orphan_files",),
    "rewrite-deletes": ("rewrite_position_delete_files", "convert_equality_deletes"),
    "stats": ("compute_partition_stats", "compute_table_stats", "compute_statistics"),
}


@dataclass(frozen=True)
class Door:
    """A place where verbs are not called in Python.

    Parameters
    ----------
    entries
        What is called there: the verbs that each stands for, and the names that it takes.
    stands_for
        The arguments that names stand for which are not their own, of one entry or of all.
    beside
        Names that stand for no argument, each with the reason.
    lacks
        Arguments that no name stands for, of one verb or of all, each with the reason; ``*`` is every other one.
    closed
        Verbs that cannot be called there, each with the reason.
    rest
        Why all other verbs are lacking; empty if there must be none.
    """

    entries: Mapping[str, tuple[tuple[str, ...], frozenset[str]]]
    stands_for: Mapping[str, str]
    beside: Mapping[str, str]
    lacks: Mapping[str, str]
    closed: Mapping[str, str] = field(default_factory=dict)
    rest: str = ""

    @property
    def verbs(self) -> set[str]:
        """The verbs that can be called there."""
        return {verb for verbs, _ in self.entries.values() for verb in verbs}

    def why_not(self, verb: str, name: str) -> str:
        """Return why nothing stands for an argument; empty if nobody says it."""
        return self.lacks.get(f"{verb} {name}", self.lacks.get(name, self.lacks.get("*", "")))

    def argument(self, entry: str, name: str) -> str:
        """Return the argument that a name of an entry stands for."""
        own = re.sub("([A-Z])", r"_\1", name).lower()
        return self.stands_for.get(f"{entry} {name}", self.stands_for.get(name, own))

    def names(self, verb: str) -> dict[str, list[str]]:
        """Return what stands for the arguments of a verb, by the arguments."""
        by_argument: dict[str, list[str]] = {}
        for entry, (verbs, names) in self.entries.items():
            for name in sorted(names) if verb in verbs else ():
                if f"{entry} {name}" not in self.beside and name not in self.beside:
                    by_argument.setdefault(self.argument(entry, name), []).append(name)
        return by_argument

    def unknown(self) -> set[str]:
        """Return the names that stand for nothing that their verbs take."""
        return {
            f"{entry} {name}"
            for entry, (verbs, names) in self.entries.items()
            for name in names
            if f"{entry} {name}" not in self.beside and name not in self.beside
            if not any(self.argument(entry, name) in arguments_of_verb(verb) for verb in verbs)
        }

    def missing(self) -> set[str]:
        """Return the arguments for which nothing stands, with their verbs."""
        return {f"{verb} {name}" for verb in self.verbs for name in arguments_of_verb(verb) - self.names(verb).keys()}


@cache
def arguments_of_verb(verb: str) -> frozenset[str]:
    """Return the arguments of a verb in our words, whatever has it: tables, the package or catalogs."""
    kinds: tuple[Any, ...] = (DeltaTable, IcebergTable, deltaberg, Catalog)
    found: set[str] = set()
    for function in [getattr(kind, verb) for kind in kinds if callable(getattr(kind, verb, None))][:2]:
        named = {one.name for one in inspect.signature(function).parameters.values() if one.kind is not one.VAR_KEYWORD}
        found |= named | getattr(function, "__takes__", frozenset())
    return frozenset(found - {"self"} - words_of(verb).keys())


def verbs_of_library() -> set[str]:
    """Return the names of the public methods of tables, and of the functions that take tables."""
    members = {
        name
        for kind in (DeltaTable, IcebergTable)
        for name in dir(kind)
        if not name.startswith("_") and inspect.isroutine(inspect.getattr_static(kind, name))
    }
    return members | {
        "convert_to_delta",
        "convert_to_iceberg",
        "create_table",
        "drop_table",
        "find_commit",
        "open_table",
        "write_table",
    }


def _commands() -> dict[str, tuple[tuple[str, ...], frozenset[str]]]:
    commands = {}
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        names = {one.name or "" for one in command.get_params(click.Context(command)) if one.name != "help"}
        commands[name] = (VERBS_OF_COMMANDS.get(name, (name.replace("-", "_"),)), frozenset(names))
    return commands


def _methods() -> dict[str, tuple[tuple[str, ...], frozenset[str]]]:
    """Return the methods of delta-spark that change or read tables; builders are a part of what begins them."""
    builders: dict[str, list[type]] = {
        "optimize": [tables.DeltaOptimizeBuilder],
        "merge": [tables.DeltaMergeBuilder],
        "create": [tables.DeltaTableBuilder],
    }
    methods: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {}
    for name, verb in _VERBS_OF_DELTA_SPARK.items():
        functions = [getattr(tables.DeltaTable, name)]
        names = {one for function in functions for one in inspect.signature(function).parameters} - {"self"}
        for kind in builders.get(name, ()):
            for method, function in inspect.getmembers(kind, inspect.isfunction):
                if not method.startswith("_") and not method.startswith("when"):
                    names |= {method, *(set(inspect.signature(function).parameters) - {"self"})}
        methods[name] = ((verb,), frozenset(names))
    return methods


_VERBS_OF_DELTA_SPARK = {
    "clone": "clone",
    "cloneAtTimestamp": "clone",
    "cloneAtVersion": "clone",
    "convertToDelta": "convert_to_delta",
    "create": "create_table",
    "delete": "delete",
    "dropFeatureSupport": "drop_feature",
    "forPath": "open_table",
    "generate": "generate",
    "history": "history",
    "merge": "merge",
    "optimize": "compact",
    "restoreToTimestamp": "restore",
    "restoreToVersion": "restore",
    "toDF": "scan",
    "update": "update",
    "vacuum": "vacuum",
}


def _reasons(pairs: Mapping[str, Iterable[str]]) -> dict[str, str]:
    return {name: reason for reason, names in pairs.items() for name in names}


_OBJECTS = "it is an object of Python"
_OBJECT_NAMES = (
    *("commit_properties", "policy", "post_commithook_properties", "progress", "stop"),
    "writer_properties",
)
_TUNING_NAMES = ("batch_size", "memory", "options", "planning", "split_size", "threads")

#: Commands that can be tried out, while their verbs have no argument for that.
_ONLY_TRIED = (
    *("alter", "append", "checkpoint", "cherry-pick", "compact-log", "convert", "copy-plan", "create", "delete"),
    *("generate", "merge", "overwrite", "publish", "stats", "update", "upsert"),
)
_COMMAND_LINE = Door(
    _commands(),
    {
        "append files": "data",
        "clone target_catalog": "catalog",
        "convert no_stats": "collect_stats",
        "create columns": "schema",
        "create like": "schema",
        "merge files": "source",
        "overwrite files": "data",
        "overwrite no_check": "check",
        "overwrite replace_schema": "schema_mode",
        "stats distinct": "columns",
        "update values": "set",
        "upsert files": "data",
        "upsert no_insert": "when_not_matched",
        "upsert no_update": "when_matched",
    },
    _reasons(
        {
            "it names the table on which the verb is called": (
                *("catalog", "clone ref", "clone snapshot_id", "storage_option", "table"),
            ),
            "it says how results are printed": ("_click_default_help", "as_json", "stats", "traceback"),
            "without it, poll waits": ("tail once",),
            "it says whether to ask, or to do it": ("is_agreed", *(f"{name} dry_run" for name in _ONLY_TRIED)),
            "it says how files are read": ("files_format", *CsvForm._fields),
            "it chooses one of the verbs": ("convert format", "rewrite-deletes only"),
            "it is a clause of the merge": (
                *("delete_missing", "delete_missing_where", "deletes", "insert", "insert_where", "set_all"),
                *("set_where", "merge values"),
            ),
            "it is a part of the change": (
                *("after", "before", "change", "comment", "default", "required", "alter first", "alter if_exists"),
                *("alter snapshot_id", "words"),
                *("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep"),
            ),
        }
    ),
    _reasons(
        {
            _OBJECTS: (*_OBJECT_NAMES, "checkpoint layout", "drop_table on_spark", "repair findings"),
            "it is how this process reads": (
                *_TUNING_NAMES,
                *("changes timezone", "follow timezone", "scan timezone", "open_table timezone"),
            ),
            "changes are shown as they were recorded": (
                *("changes carry_over", "changes compute_updates", "changes identifier_columns", "changes net_changes"),
            ),
            "a command has a table": (
                *("storage_options", "location", "target", "catalog", "open_table format", "drop_table identifier"),
                "convert_to_iceberg source",
            ),
            "the command has its own check of what the table is": ("append partition_by", "open_table validate"),
            "there is one choice": ("convert_to_delta partition_strategy",),
            "statistics of files are those of the table": ("compute_statistics branch",),
            "a new table has no branches, and Delta tables have none": (
                *("convert_to_delta branch", "convert_to_iceberg branch", "create_table branch", "drop_feature branch"),
            ),
        }
    ),
    _reasons(
        {
            _OBJECTS: ("transaction", "refresh", "on_spark", "find_commit"),
            "append and overwrite do it": ("write_table", "explain_append"),
            "its rows are no rows of the table": ("delete_by_keys", "add_files"),
            "changes and files show it": ("appends", "expired_tombstones"),
            "the commands head and count do it": ("head", "count", "to_arrow", "to_pandas", "to_polars"),
        }
    ),
)
#: Options that only streams have.
_OF_STREAMS = {
    name
    for settings in (DeltaStreamSettings, IcebergStreamSettings)
    for name in (*settings.only_streams, *settings.limits_of, LIMITS_ANYWHERE)
}
_READING = ("open_table", "scan", "changes")
_WRITING, _PROPERTY = ("open_table", "append", "overwrite"), "snapshot-property.NAME"
_SOURCES = Door(
    {
        "read delta": (("open_table", "scan", "changes"), frozenset(DeltaReadOptions._known().values())),
        "read iceberg": (
            ("open_table", "scan", "changes", "appends"),
            frozenset(IcebergReadOptions._known().values()),
        ),
        "stream delta": (_READING, frozenset(DeltaStreamSettings._known().values())),
        "stream iceberg": (_READING, frozenset(IcebergStreamSettings._known().values())),
        "write delta": (_WRITING, frozenset(DeltaWriteOptions._known().values()) | {_PROPERTY}),
        "write iceberg": (_WRITING, frozenset(IcebergWriteOptions._known().values()) | {_PROPERTY}),
    },
    {
        **{
            option: name
            for name, options in OPTIONS_OF_SOURCES.items()
            for option in re.split(",? (?:or|and) ", options.rstrip(","))
        },
        **dict.fromkeys(("merge-schema", "mergeSchema", "overwriteSchema"), "schema_mode"),
        **dict.fromkeys(("compression-level", "compression-strategy"), "writer_properties"),
        "endingTimestamp": "end",
        "paths": "location",
        "read iceberg branch": "ref",
        "read iceberg tag": "ref",
        "startingTimestamp": "start",
        "txnVersion": "txn",
        "write delta branch": "branch",
        "write iceberg branch": "branch",
    },
    _reasons(
        {
            "it chooses changes instead of rows": ("changes", "readChangeData", "readChangeFeed"),
            "it is refused, or asks for what is done anyway": (*_AS_IT_IS, *_REFUSED),
            "it is a property of the table": ("write-format",),
            "it names what load_catalog returns": (IN_CATALOG,),
            "it is for streams": tuple(_OF_STREAMS),
        }
    ),
    _reasons(
        {
            _OBJECTS: ("policy", "post_commithook_properties", "progress"),
            "Spark's tasks read, to the end": ("limit", "memory", "options", "planning", "split_size", "threads"),
            "the rows are the frame": ("data",),
            "the name of the source says it": ("format",),
            "options that are not known go to the store": ("storage_options",),
            "snapshot-property.NAME says it": ("commit_properties",),
            "append(frame) and overwrite(frame) of a table take it": (
                *("allow_truncation", "check", "isolation", "safe", "strategy", "unsafe_single_writer"),
                *("append memory", "overwrite memory"),
            ),
            "what is read is always looked at": ("validate",),
        }
    ),
    rest="a Data Source reads rows, appends and overwrites",
)
_DELTA_SPARK = Door(
    _methods(),
    {
        "condition": "where",
        "merge condition": "on",
        "convertToDelta identifier": "target",
        "create comment": "description",
        "create cols": "cluster_by",
        "create identifier": "target",
        "create location": "target",
        "create partitionedBy": "partition_by",
        "create tableName": "target",
        "featureName": "name",
        "isShallow": "shallow",
        "optimize cols": "z_order_by",
        "optimize executeZOrderBy": "z_order_by",
        "optimize partitionFilter": "where",
        "partitionSchema": "partition_by",
        "path": "location",
        "property": "properties",
        "restoreToTimestamp timestamp": "target",
        "restoreToVersion version": "target",
        "withSchemaEvolution": "schema_mode",
        **dict.fromkeys(("key", "value"), "properties"),
        **dict.fromkeys(
            ("addColumn", "addColumns", "colName", "dataType", "generatedAlwaysAs", "generatedByDefaultAs", "nullable"),
            "schema",
        ),
    },
    _reasons(
        {
            "it carries the call out": ("execute", "executeCompaction"),
            "it is Spark's session, or what Spark reads files by": ("sparkSession", "hadoopConf"),
        }
    ),
    {"*": "delta-spark has no parameter for it"},
    rest="delta-spark has no such method",
)
#: The places where verbs are not called in Python.
DOORS = {"command line": _COMMAND_LINE, "Data Source": _SOURCES, "delta-spark": _DELTA_SPARK}
