"""Hints in the words of Spark's faces: options for the Data Sources, methods of delta-spark for its `DeltaTable`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

from deltaberg.errors import DeltabergError, in_words

__all__ = ["in_data_source", "in_delta_spark", "in_delta_words"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

# A mark that begins with a comma is an alternative that only Python has. Spark's faces leave it out.
#: The options of the Data Sources, by the arguments that they stand for.
_OPTIONS = {
    "branch": "branch",
    "derived": "derived",
    "dynamic": "partitionOverwriteMode or overwrite-mode",
    "location_map": "location-map",
    "partition_by": "partitionBy",
    "properties": "snapshot-property.*",
    "ref": "branch",
    "snapshot_id": "snapshot-id",
    "timestamp": "timestampAsOf",
    "timezone": "timezone",
    "txn": "txnAppId",
    "user_metadata": "userMetadata",
    "version": "versionAsOf",
    "where": "replaceWhere",
}
#: What else the Data Sources have in the place of an argument or a call.
_OF_SOURCES = {
    "load_catalog": "scan.to_spark(spark)",
    "open it with format=": "use format({})",
    "location_map=": "deltaberg.open_table(path, location_map={}).scan().to_spark(spark)",
    'pass format="delta" or format="iceberg"': 'use format("delta") or format("iceberg")',
    "format=": "format({})",
    'schema_mode="merge"': '.option("mergeSchema", "true")',
    'schema_mode="overwrite"': '.option("overwriteSchema", "true")',
    "storage_options": "options",
    "timezone=": '.option("timezone", NAME)',
    "txn=": "the options txnAppId and txnVersion",
    "properties=": "the option snapshot-property.NAME",
    "commit_properties=": "the option snapshot-property.NAME",
}
#: What delta-spark has in their place.
_OF_DELTA_SPARK = {
    "cluster_by": "clusterBy",
    'pass except_cols or schema_mode="merge"': "call withSchemaEvolution()",
    "format=": "deltaberg.open_table(path, {}).on_spark(spark)",
    "open it with format=": "open it with deltaberg.open_table(path, {}).on_spark(spark)",
    'pass if_exists="ignore" or if_exists="replace"': "use createIfNotExists or createOrReplace",
    "out of partition_by": "out of partitionSchema",
    "partition_by": "partitionedBy",
    "pass partition_by": "pass partitionSchema",
    "z_order_by": "executeZOrderBy",
    'pass mode="ignore"': "open it by DeltaTable.forPath(spark, path)",
    'pass schema_mode="merge"': "call withSchemaEvolution()",
    "source_alias": 'alias: updates.alias("u")',
    "truncate_history": "truncateHistory",
    "truncate_history=": "truncateHistory={}",
    "timestamp=": "deltaberg.open_table(path, timestamp={}).scan().to_spark(spark)",
    "pass timezone=": 'cast them in the DataFrame, as by col("at").cast("timestamp"),',
    "version=": "deltaberg.open_table(path, version={}).scan().to_spark(spark)",
}
_METHODS = ("alter()", "history()", "inspect(", "scan()")


def _in_spark(mark: str, words: Mapping[str, str]) -> str:
    name, equals, value = mark.partition("=")
    word = words.get(mark, words.get(name + equals))
    if word is not None:
        return word.replace("{}", value)
    if mark.startswith(_METHODS):
        return f"deltaberg.open_table(path).{mark}"
    return "" if mark.startswith(",") else mark if mark.startswith("deltaberg.") else f"{mark} of deltaberg"


def in_data_source(mark: str) -> str:
    """Return the word of the Data Sources for an argument or a call.

    Examples
    --------
    >>> in_data_source("version=3"), in_data_source('schema_mode="merge"'), in_data_source("user_metadata")
    ('.option("versionAsOf", 3)', '.option("mergeSchema", "true")', 'the option userMetadata')
    """
    name, equals, value = mark.partition("=")
    if mark.startswith("pass ") and mark not in _OF_SOURCES:
        return f"pass {in_data_source(mark[5:])}"
    if name not in _OPTIONS or mark in _OF_SOURCES or name + equals in _OF_SOURCES:
        return _in_spark(mark, _OF_SOURCES)
    shown = '"true"' if value == "True" else value
    return f'.option("{_OPTIONS[name]}", {shown})' if equals else f"the option {_OPTIONS[name]}"


def in_delta_spark(mark: str) -> str:
    """Return what delta-spark has in the place of an argument or a call.

    Examples
    --------
    >>> in_delta_spark("cluster_by"), in_delta_spark('alter().set({"a": "1"})')
    ('clusterBy', 'deltaberg.open_table(path).alter().set({"a": "1"})')
    """
    return _in_spark(mark, _OF_DELTA_SPARK)


def in_delta_words(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a method whose errors have hints that name what delta-spark has."""

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return method(*args, **kwargs)
        except DeltabergError as error:
            in_words(error, in_delta_spark)
            raise

    return call
