"""Hints in the words of delta-spark: the library says what to pass, and callers of `DeltaTable` call other methods."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from deltaberg.errors import DeltabergError, rephrased

__all__ = ["in_delta_words"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: What the library says, and how who uses the methods of delta-spark says it. Longer phrases come first.
_PHRASES = tuple(
    (re.compile(phrase), words)
    for phrase, words in (
        (r'\bpass except_cols or schema_mode="merge"', "call withSchemaEvolution()"),
        (r'\bpass schema_mode="merge"', "call withSchemaEvolution()"),
        (r"\bpass another source_alias", 'give the source another alias: updates.alias("u")'),
        (
            r"\bpass timezone= to say in which zone these timestamps are",
            'cast them in the DataFrame: col("at").cast("timestamp") takes them as in the zone of the session',
        ),
        (r'\bpass if_exists="ignore" or if_exists="replace"', "use createIfNotExists or createOrReplace"),
        (r"\bleave out partition_by or cluster_by", "leave out partitionedBy or clusterBy"),
        (r'\bpass mode="ignore" to leave it as it is', "open it by DeltaTable.forPath(spark, path)"),
        (r'\bpass a column for each directory, or partition_strategy="hive"', "name a column for each directory"),
        (r"\bpass partition_by with the types of all of them, such as .*", "pass the types of all of them as DDL text"),
        (r"\bpartition_by\b(?!\()", "partitionSchema"),
        (r'\bopen it with format="iceberg"', 'open it by deltaberg.open_table(path, "iceberg").on_spark(spark)'),
        (
            r'\bopen it with ((?:version|timestamp)=(?:\d+|"[^"]+"))',
            r"read it by deltaberg.open_table(path, \1).scan().to_spark(spark)",
        ),
        (r"\bor scan\(\)\.files\(\)", "or deltaberg.open_table(path).scan().files()"),
        (r"(?<!\.)\balter\(\)\.", "deltaberg.open_table(path).alter()."),
    )
)


def in_delta_words(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a method whose errors have hints that name what delta-spark has."""

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return method(*args, **kwargs)
        except DeltabergError as error:
            if error.hint is not None:
                error.hint = rephrased(error.hint, _PHRASES)
            raise

    return call
