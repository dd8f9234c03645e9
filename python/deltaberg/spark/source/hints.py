"""Hints in the words of the Data Sources: the library says what to pass, and their callers set options."""

from __future__ import annotations

import re

from deltaberg.errors import rephrased

__all__ = ["ARGUMENTS", "in_data_source"]

#: What the library calls the options that say how a commit is made.
ARGUMENTS = {
    "branch": "the option branch",
    "properties": "the option snapshot-property.*",
    "txn": "the option txnAppId",
    "user_metadata": "the option userMetadata",
}

#: What the library says, and how who uses a Data Source says it. Longer phrases come first.
_PHRASES = tuple(
    (re.compile(phrase), words)
    for phrase, words in (
        (r'\bopen it with format="(\w+)"', r'use format("\1")'),
        (r"\bopen it with version=(\d+)", r'use .option("versionAsOf", \1)'),
        (r'\bopen it with timestamp=("[^"]+")', r'use .option("timestampAsOf", \1)'),
        (r"\bopen it with snapshot_id=(\d+)", r'use .option("snapshot-id", \1)'),
        (r'\bopen it with ref="(\w+)"', r'use .option("branch", "\1")'),
        (
            r"\bcall history\(\) for its versions, or scan\(\)\.files\(\)",
            "call deltaberg.open_table(path).history() for its versions, or deltaberg.open_table(path).scan().files()",
        ),
        (
            r'\bread it by inspect\("(\w+)"\)',
            r'read it by spark.createDataFrame(deltaberg.open_table(path).inspect("\1"))',
        ),
        (r'\bpass format="(\w+)", or choose', r'use format("\1"), or choose'),
        (r"\bleave out where and dynamic\b", "leave out replaceWhere and partitionOverwriteMode"),
        (r"\bleave out dynamic\b", "leave out partitionOverwriteMode or overwrite-mode"),
        (r'\bpass format="delta" or format="iceberg"', 'use format("delta") or format("iceberg")'),
        (r'\bappend with schema_mode="merge"', 'append with .option("mergeSchema", "true")'),
        (r'\bschema_mode="merge"', '.option("mergeSchema", "true")'),
        (r'(?<!frame, )\bschema_mode="overwrite"', '.option("overwriteSchema", "true")'),
        (r"\bpartition_by\b(?!\()", 'the option "partitionBy"'),
        (r"\bpass timezone=", 'pass .option("timezone", NAME)'),
        (r'\btxn=\("([^"]*)", (\d+)\)', r'.option("txnAppId", "\1").option("txnVersion", \2)'),
        (r"\bpass (?:commit_)?properties=", "use snapshot-property.NAME"),
        (r"\bderived=True\b", '.option("derived", "true")'),
        (r"\bpass (location_map=\{.*\})", r"read it by deltaberg.open_table(path, \1).scan().to_spark(spark)"),
        (r"\blocation_map\b(?!=)", 'the option "location-map"'),
        (r"\bin storage_options\b", "as options"),
        (r"\buse snapshot_id\b", 'use .option("snapshot-id", ID)'),
        (r"\buse version\b", 'use .option("versionAsOf", VERSION)'),
        (
            r"\bload a table of a catalog by its name, with load_catalog",
            "read a table of a catalog by scan.to_spark(spark)",
        ),
        (r", or call overwrite\(\) of the table with check=False", ""),
        (r"\bpass (unsafe_single_writer=True)", r"write by deltaberg.write_table with \1"),
        (r"(?<!\.)\balter\(\)\.", "deltaberg.open_table(path).alter()."),
    )
)


def in_data_source(hint: str) -> str:
    """Return a hint in the words of the Data Sources.

    Examples
    --------
    >>> in_data_source('leave them out, or pass schema_mode="merge" to add columns to the table')
    'leave them out, or pass .option("mergeSchema", "true") to add columns to the table'
    """
    return rephrased(hint, _PHRASES)
