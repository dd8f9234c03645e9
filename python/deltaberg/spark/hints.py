"""Hints in the words of Spark's faces: options for the Data Sources, methods of delta-spark for its `DeltaTable`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

from deltaberg.errors import DeltabergError, in_words
from deltaberg.hints import Mark

__all__ = ["ELSEWHERE", "in_data_source", "in_delta_spark", "in_delta_words"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: What is said behind an argument or a call that a face of Spark does not have.
ELSEWHERE = "of deltaberg"
#: The options of the Data Sources, by the arguments that they stand for.
_OPTIONS = {
    "batch_size": "batchSize",
    "branch": "branch",
    "carry_over": "carry-over",
    "changes": "readChangeFeed or changes",
    "columns": "columns",
    "commit_properties": "snapshot-property.NAME",
    "compression": "compression or compression-codec",
    "compute_updates": "compute-updates",
    "derived": "derived",
    "dynamic": "partitionOverwriteMode or overwrite-mode",
    "end": "endingVersion or end-snapshot-id",
    "exclude": "excludeRegex",
    "filter": "filter",
    "identifier_columns": "identifier-columns",
    "location": "path",
    "location_map": "location-map",
    "net_changes": "net-changes",
    "partition_by": "partitionBy",
    "properties": "snapshot-property.NAME",
    "ref": "branch",
    "skip_changes": "skipChangeCommits, or streaming-skip-overwrite-snapshots and streaming-skip-delete-snapshots,",
    "snapshot_id": "snapshot-id",
    "start": "startingVersion or start-snapshot-id",
    "target_file_size": "target-file-size-bytes",
    "timestamp": "timestampAsOf or as-of-timestamp",
    "timezone": "timezone",
    "txn": "txnAppId",
    "user_metadata": "userMetadata",
    "version": "versionAsOf",
    "where": "replaceWhere",
}
#: What else the Data Sources have for arguments, or for some of their values. An argument with = is one with a value,
#: which {} stands for.
_OF_SOURCES = {
    "format=": "format({})",
    "location_map=": "deltaberg.open_table(path, location_map={}).scan().to_spark(spark)",
    "schema_mode": "the option mergeSchema or overwriteSchema",
    'schema_mode="merge"': '.option("mergeSchema", "true")',
    'schema_mode="overwrite"': '.option("overwriteSchema", "true")',
    "storage_options": "the options",
    "txn=": "the options txnAppId and txnVersion",
}
#: What the methods of delta-spark call arguments that have another name there than in camel case.
_PARAMETERS = {
    "name": "featureName",
    "on": "condition",
    "partition_by": "partitionSchema",
    "shallow": "isShallow",
    "where": "condition",
}
#: What delta-spark has for arguments that are none of the method that is called.
_OF_DELTA_SPARK = {
    "cluster_by": "clusterBy",
    "description": "comment",
    "enforce_retention_duration=False": (
        'spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")'
    ),
    "format=": "deltaberg.open_table(path, {}).on_spark(spark)",
    'if_exists="ignore"': "createIfNotExists",
    'if_exists="replace"': "createOrReplace",
    "location_map=": "deltaberg.open_table(path, location_map={}).scan().to_spark(spark)",
    'mode="ignore"': "DeltaTable.forPath(spark, path)",
    "partition_by": "partitionedBy",
    "properties": "property",
    'schema_mode="merge"': "withSchemaEvolution()",
    "source_alias": 'alias: updates.alias("u")',
    "target_alias": 'alias: table.alias("t")',
    "timestamp=": "deltaberg.open_table(path, timestamp={}).scan().to_spark(spark)",
    "timezone": 'col("at").cast("timestamp") in the DataFrame',
    "version=": "deltaberg.open_table(path, version={}).scan().to_spark(spark)",
    "z_order_by": "executeZOrderBy",
}
#: Calls that belong to catalogs, modules and transactions, not to a table.
_NOT_OF_TABLES = ("col", "commit", "list_namespaces", "list_tables", "register_table")


def _word(words: Mapping[str, str], mark: Mark) -> str | None:
    """Return the word for an argument, with its value if it has one."""
    if mark.value is None:
        return words.get(mark.name)
    word = words.get(f"{mark.name}={mark.value}", words.get(f"{mark.name}=", words.get(mark.name)))
    return None if word is None else word.replace("{}", mark.value)


def _called(call: Mark, text: str) -> str | None:
    """Return the call that does the same on the driver, whatever its face."""
    if call.name == "load_catalog":
        return "deltaberg.load_catalog(name).load_table(identifier).scan().to_spark(spark)"
    if call.of == "deltaberg":
        return text
    return None if call.name in _NOT_OF_TABLES else f"deltaberg.open_table(path).{text}"


def in_data_source(mark: str) -> str | None:
    """Return the word of the Data Sources for an argument or a call; None if there is none.

    Examples
    --------
    >>> in_data_source("version=3"), in_data_source('schema_mode="merge"'), in_data_source("user_metadata")
    ('.option("versionAsOf", 3)', '.option("mergeSchema", "true")', 'the option userMetadata')
    """
    read = Mark.read(mark)
    if read.given is not None:
        return _called(read, mark)
    word, option = _word(_OF_SOURCES, read), _OPTIONS.get(read.name)
    if word is not None or option is None:
        return word
    if not read.value:
        return f"the option {option}"
    shown = f'"{read.value.lower()}"' if read.value in ("True", "False") else read.value
    return f'.option("{option.split()[0]}", {shown})'


def in_delta_spark(mark: str, parameters: Collection[str] = ()) -> str | None:
    """Return what delta-spark has in the place of an argument or a call; None if it has nothing.

    Parameters
    ----------
    parameters
        The names of the arguments of the method that was called.

    Examples
    --------
    >>> in_delta_spark("cluster_by"), in_delta_spark('alter().set({"a": "1"})')
    ('clusterBy', 'deltaberg.open_table(path).alter().set({"a": "1"})')
    >>> in_delta_spark("truncate_history=True", ["featureName", "truncateHistory"])
    'truncateHistory=True'
    """
    read = Mark.read(mark)
    if read.given is not None:
        return _called(read, mark)
    first, *others = read.name.split("_")
    camel = "".join((first, *(other.capitalize() for other in others)))
    for name in (_PARAMETERS.get(read.name), camel, read.name):
        if name in parameters:
            return f"{name}={read.value}" if read.value else name
    return _word(_OF_DELTA_SPARK, read)


def in_delta_words(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a method whose errors have hints that name what delta-spark has."""
    parameters = inspect.signature(method).parameters

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return method(*args, **kwargs)
        except DeltabergError as error:
            in_words(error, lambda mark: in_delta_spark(mark, parameters), ELSEWHERE)
            raise

    return call
