"""Why Spark must not read a file of a scan: what the scan, the session and the plan say, before any file is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import DeltabergError
from deltaberg.expressions.compute.bound import bound_paths
from deltaberg.files.read.metadata import DELETED, ROW_IDS, ROW_VERSIONS
from deltaberg.files.read.task import constant_column
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.projection import leaf_count
from deltaberg.schema.types import Field
from deltaberg.spark.native.computed import computed_parts, stored_fields
from deltaberg.spark.native.paddings import has_padded_keys
from deltaberg.spark.native.to_spark_filters import why_not_in_spark
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.types import spark_schema
from deltaberg.table.read.bound import BoundScan

__all__ = [
    "FEW_FILES",
    "Verdicts",
    "fields_to_read",
    "judge_deleted_rows",
    "judge_tasks",
    "judge_worth",
    "why_not_by_name",
    "why_not_the_scan",
]

#: Up to so many files are always worth it. Spark asks for the status of each file, of more than these by a job.
FEW_FILES = 32
#: Bytes that a file must have on average to be worth the request for its status.
_WORTH_A_STATUS = 2 << 20
#: Columns of files whose metadata the driver looks at, 7 microseconds each; opening a file counts as some more.
_MOST_LOOKS = 1_000_000
_LOOKS_TO_OPEN = 20
#: Bytes of deleted rows that are broadcast, as words of a bit for each row of the files that have any.
_MOST_WORDS = 32 << 20
#: Bytes of delete files that the driver reads.
_MOST_DELETES = 64 << 20
#: Names that Spark skips, and characters with which it cannot open a file.
_UNREADABLE = r"(/[_.][^/]*$)|(\._COPYING_$)|[:\\\x00-\x1f\x7f]"
#: What Spark Connect takes for a pattern, whatever the options of the reader say.
_PATTERN = r"[{\[*?]"
_SCHEME = r"^[A-Za-z][A-Za-z0-9+.-]*://"
#: The greatest base row id, and time in milliseconds, with which no sum and no product overflows.
_MOST = 1 << 53
#: Names that begin like those of Spark's own columns.
_RESERVED = ("_metadata", "_tmp_metadata")


class Verdicts:
    """The first reason found against each file of a scan."""

    def __init__(self, files: int) -> None:
        self.why: list[str | None] = [None] * files

    @property
    def remaining(self) -> list[int]:
        """The numbers of the files against which nothing was found so far."""
        return [number for number, why in enumerate(self.why) if why is None]

    def refuse(self, numbers: Sequence[int], why: str) -> None:
        """Note a reason against some files, by their numbers."""
        for number in numbers:
            self.why[number] = self.why[number] or why

    def refuse_where(self, mask: pa.BooleanArray, why: str) -> None:
        """Note a reason against the files where the mask is true."""
        self.refuse(pc.indices_nonzero(mask.fill_null(False)).to_pylist(), why)


def why_not_the_scan(scan: BoundScan, facts: SessionFacts) -> str | None:
    """Return the reason against all files of a scan; None if there is none."""
    if not facts.takes_arrow_tables:
        return f"Spark {facts.version} makes no DataFrame of an Arrow table, with these settings"
    layout = scan.layout
    if any(part.name == DELETED for part in computed_parts(scan)):
        return f"only our reader makes the column {DELETED}"
    why = why_not_in_spark(scan.read_spec.residual)
    if why is not None:
        return why
    known = {child.name: child for child in scan.output}
    for path in bound_paths(scan.read_spec.residual):
        if path[0].name in layout.computed:
            continue
        child = known.get(path[0].name)
        if len(path) > 1 and child is not None and child != scan.source.schema.get(child.name):
            return f"the filter may need more fields of the column {child.name} than the output has"
    fields = fields_to_read(scan)
    why = why_not_by_name(fields)
    if why is not None:
        return why
    padded = next((field.name for field in fields if has_padded_keys(field)), None)
    if padded is not None:
        return f"Spark cannot pad the keys of maps in the column {padded}, which are texts of CHAR"
    try:
        spark_schema(scan.read_spec.constants)
    except DeltabergError as error:
        return error.message
    return None


def why_not_by_name(fields: Sequence[Field]) -> str | None:
    """Return why Spark cannot find columns by their names in the files; None if it can."""
    names = [field.physical_name.lower() for field in fields]
    if len(set(names)) < len(names) or len({field.name for field in fields}) < len(names):
        return "Spark cannot tell its columns apart by name"
    reserved = next((name for name in names if name.startswith(_RESERVED)), None)
    return None if reserved is None else f"Spark has a column {reserved} of its own"


def fields_to_read(scan: BoundScan, tasks: pa.RecordBatch | None = None) -> tuple[Field, ...]:
    """Return the top-level columns to read from files.

    Columns that are constant in a file are left out, except those that a file may hold itself. With ``tasks``, these
    are left out, too, where the plan knows the value for every file.
    """
    stored = scan.layout.stored
    constants = {
        child.name
        for child in scan.read_spec.constants
        if child.name not in stored or (tasks is not None and not tasks.column(constant_column(child.name)).null_count)
    }
    needed_columns = list(scan.output)
    for path in bound_paths(scan.read_spec.residual):
        if all(path[0].name != child.name for child in needed_columns):
            needed_columns.append(scan.source.schema.get(path[0].name) or path[0])
    computed = scan.layout.computed
    read = [child for child in needed_columns if child.name not in constants and child.name not in computed]
    return (*read, *stored_fields(scan))


def judge_tasks(scan: BoundScan, tasks: pa.RecordBatch, verdicts: Verdicts, facts: SessionFacts) -> None:
    """Judge files by what the plan says of them."""
    verdicts.refuse_where(pc.not_equal(tasks.column("format"), "parquet"), "it is not a Parquet file")
    included = pc.list_value_length(tasks.column("only_in_delete_files")).fill_null(0)
    chosen = pc.or_(tasks.column("only_in_vector").is_valid(), pc.greater(included, 0))
    verdicts.refuse_where(chosen, "only some rows of it are wanted, by their position or by keys")
    locations = tasks.column("location")
    paths = pc.replace_substring_regex(locations, _SCHEME, "/")
    verdicts.refuse_where(pc.match_substring_regex(paths, _UNREADABLE), "Spark does not open a file of its name")
    if facts.is_remote:
        patterns = pc.match_substring_regex(locations, _PATTERN)
        verdicts.refuse_where(patterns, "Spark Connect would take its name for a pattern")
    names = locations.to_pylist()
    odd = [not name.isascii() and any(not (one.isascii() or one.isalnum()) for one in name) for name in names]
    verdicts.refuse_where(pa.array(odd, pa.bool_()), "Spark does not open a file of its name")
    if len(locations.unique()) < len(locations):
        verdicts.refuse(range(len(locations)), "a file is read twice")
    _judge_delete_files(tasks, verdicts)
    _judge_computed(scan, tasks, verdicts)


def _judge_delete_files(tasks: pa.RecordBatch, verdicts: Verdicts) -> None:
    deletes = tasks.column("delete_files")
    seen: dict[str, int] = {}
    for number, found in enumerate(deletes.to_pylist() if deletes.null_count < len(deletes) else []):
        for file in found or ():
            if file["keys"] is not None:
                verdicts.refuse([number], "equality deletes apply to it")
            seen[file["location"]] = file["size"] or 0
    if sum(seen.values()) > _MOST_DELETES:
        has_deletes = pc.greater(pc.list_value_length(deletes).fill_null(0), 0)
        verdicts.refuse_where(has_deletes, "the delete files are too large for the driver to read")


def _judge_computed(scan: BoundScan, tasks: pa.RecordBatch, verdicts: Verdicts) -> None:
    parts = {part.name for part in computed_parts(scan)}
    for names, column in ((ROW_IDS, "base_row_id"), (ROW_VERSIONS, "row_commit_version")):
        if parts & names and scan.layout.all_rows_have_ids:
            verdicts.refuse_where(tasks.column(column).is_null(), "its rows have no ids, which the table promises")
    # No real file has so many rows, nor was one written at such a time.
    for made, column in ((parts & ROW_IDS, "base_row_id"), (parts & {"file_modification_time"}, "modified")):
        if made:
            values = tasks.column(column)
            is_great = pc.or_(pc.greater(values, _MOST), pc.less(values, -_MOST))
            verdicts.refuse_where(is_great, f"its {column} is out of range")


def judge_worth(tasks: pa.RecordBatch, fields: Sequence[Field], verdicts: Verdicts) -> None:
    """Refuse the remaining files where opening them costs more than Spark's reader gains."""
    chosen = verdicts.remaining
    if len(chosen) <= FEW_FILES:
        return
    size: int = pc.sum(tasks.column("size").take(pa.array(chosen, pa.int64()))).as_py() or 0
    if size < _WORTH_A_STATUS * len(chosen):
        verdicts.refuse(chosen, "the files are many and small, and Spark asks for the status of each")
    leaves = sum(leaf_count(arrow_type(child.type)) for child in fields)
    if len(chosen) * (_LOOKS_TO_OPEN + leaves) > _MOST_LOOKS:
        verdicts.refuse(chosen, "the files are too many for the driver to read the footer of each")


def judge_deleted_rows(tasks: pa.RecordBatch, rows: Mapping[int, int], verdicts: Verdicts) -> None:
    """Refuse files with deleted rows where these are too many to broadcast; ``rows`` counts those of each file."""
    deletes = pc.greater(pc.list_value_length(tasks.column("delete_files")).fill_null(0), 0)
    deleted = pc.or_(tasks.column("deletion_vector").is_valid(), deletes).to_pylist()
    mine = [number for number in verdicts.remaining if deleted[number]]
    if sum(rows[number] for number in mine) > 8 * _MOST_WORDS:
        verdicts.refuse(mine, "its deleted rows are too many to broadcast")
