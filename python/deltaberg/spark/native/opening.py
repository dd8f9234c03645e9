"""Opening files by Spark's Parquet reader, and finding out which stores the session can open.

The files are read with a given schema, and with every setting that could change their rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from deltaberg.schema.types import Field
from deltaberg.spark.native.file_keys import spelled
from deltaberg.spark.native.verdicts import FEW_FILES, Verdicts
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.types import physical_columns, spark_schema
from deltaberg.storage.location import parse_location

__all__ = ["judge_stores", "open_files", "why_not_opened"]

#: Settings of the session on which the rows of a file must not depend; they are overridden for this read alone.
_OPTIONS = {
    "__globPaths__": "false",
    "recursiveFileLookup": "true",
    "mergeSchema": "false",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
#: Spark's errors where it knows no file system for a scheme, or one that is not installed.
_FILE_SYSTEM_MISSING = re.compile(r"No FileSystem for scheme|ClassNotFoundException: Class \S*FileSystem not found")


def judge_stores(tasks: pa.RecordBatch, verdicts: Verdicts, facts: SessionFacts) -> dict[int, str]:
    """Refuse files in stores that Spark cannot open, and return the scheme of each file that was not refused before.

    The files of a table may be in several stores: a clone names the files of its source.
    """
    locations = tasks.column("location")
    places = {number: parse_location(locations[number].as_py()) for number in verdicts.remaining}
    stores: dict[tuple[str, str], list[int]] = {}
    for number, place in places.items():
        stores.setdefault((place.scheme, place.authority), []).append(number)
    for (scheme, _), mine in stores.items():
        # Before many footers are read in vain, one file shows whether the store opens.
        is_known = len(mine) <= FEW_FILES or facts.stores.has_opened(places[mine[0]])
        opens = is_known or open_files(facts, scheme, [locations[mine[0]].as_py()], ())
        if not opens or not facts.stores.spellings(scheme):
            verdicts.refuse(mine, why_not_opened(facts, scheme))
    return {number: place.scheme for number, place in places.items()}


def open_files(
    facts: SessionFacts, scheme: str, locations: Sequence[str], fields: Sequence[Field]
) -> tuple[DataFrame, str] | None:
    """Open files of one scheme, and return their rows and how Spark spells the scheme; None if it cannot open them.

    Parameters
    ----------
    fields
        The columns to read, by their physical names.
    """
    missing = 0
    spellings = facts.stores.spellings(scheme)
    places = list(map(parse_location, locations))
    for spelling in spellings:
        # Whatever goes wrong here, the arrow road reads the files or names the error.
        try:
            frame = _read(facts.session, [spelled(place, spelling) for place in places], fields)
        except Exception as error:  # noqa: BLE001 - Spark's errors are of many kinds
            missing += _FILE_SYSTEM_MISSING.search(str(error)) is not None
            continue
        facts.stores.note_opened(places, spelling)
        return frame, spelling
    if missing == len(spellings):
        facts.stores.note_missing(scheme)
    return None


def why_not_opened(facts: SessionFacts, scheme: str) -> str:
    """Return why Spark did not open a file of a scheme."""
    if facts.stores.spellings(scheme):
        return "Spark cannot open it"
    return "the session has no file system for its location"


def _read(session: SparkSession, paths: Sequence[str], fields: Sequence[Field]) -> DataFrame:
    """Open files with the physical names and the types of fields; Spark looks for each file now."""
    reader = session.read.schema(spark_schema(physical_columns(fields)))
    for name, value in _OPTIONS.items():
        reader = reader.option(name, value)
    frame = reader.parquet(*paths)
    # A session of Spark Connect looks for the files only when it is asked for something.
    _ = frame.schema
    return frame
