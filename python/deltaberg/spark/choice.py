"""Which road each file of a scan takes: the native one, where Spark's reader gives the very rows and is worth it."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from deltaberg.errors import DeltabergError
from deltaberg.expressions import bound_paths
from deltaberg.files import DELETED, ROW_IDS, ROW_VERSIONS, constant_column
from deltaberg.schema import Field, arrow_type
from deltaberg.schema.projection import leaf_count
from deltaberg.spark.computed import computed_parts, stored_fields
from deltaberg.spark.conditions import why_not_in_spark
from deltaberg.spark.exactness import FileFit, fit_files
from deltaberg.spark.native import NativeFiles, keys_of, native_frame, read_files, spelled, vector_words
from deltaberg.spark.session import is_remote, takes_arrow_tables
from deltaberg.spark.types import spark_schema
from deltaberg.storage import parse_location
from deltaberg.table import Scan

__all__ = ["RoadChoice", "choose"]

#: Spark asks for the status of each file, beyond some of them by a job: small files cost more than they give.
_FEW_FILES = 32
_WORTH_A_STATUS = 2 << 20
#: Columns of files whose metadata the driver looks at, 7 microseconds each; opening a file counts as some more.
_MOST_LOOKS = 1_000_000
_LOOKS_TO_OPEN = 20
#: Bytes of deleted rows, as words, that are broadcast; a bit for each row of the files that have any.
_MOST_WORDS = 32 << 20
#: Bytes of delete files that the driver reads.
_MOST_DELETES = 64 << 20
#: Ways to name columns, each of which is a scan of its own.
_MOST_GROUPS = 8
#: Names and letters that Spark passes over, or cannot open.
_UNREADABLE = r"(/[_.][^/]*$)|(\._COPYING_$)|[:\\\x00-\x1f\x7f]"
#: What Spark Connect takes for a pattern, whatever it is told.
_PATTERN = r"[{\[*?]"
_SCHEME = r"^[A-Za-z][A-Za-z0-9+.-]*://"
_NO_FILE_SYSTEM = "the session has no file system for its location"
#: What Spark says where it knows no file system for a scheme, or knows one that is not installed.
_FILE_SYSTEM_MISSING = re.compile(r"No FileSystem for scheme|ClassNotFoundException: Class \S*FileSystem not found")
#: The greatest row id, and time in milliseconds, that computed columns are made of.
_MOST = 1 << 53
#: What Spark names columns of its own.
_RESERVED = ("_metadata", "_tmp_metadata")
#: How sessions spell the schemes that they were seen to open; nothing where they do not open them.
_schemes: WeakKeyDictionary[SparkSession, dict[str, tuple[str, ...]]] = WeakKeyDictionary()
#: The stores that sessions were seen to open files of.
_stores: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


@dataclass(frozen=True)
class RoadChoice:
    """The files that Spark reads itself, as a DataFrame of their rows, and why the others go by the arrow road.

    ``native`` says of each planned file whether it is one of them; ``frame`` is None where there are none.
    """

    native: pa.BooleanArray
    frame: DataFrame | None
    reasons: dict[str, int]

    def __str__(self) -> str:
        count = pc.sum(self.native).as_py() or 0
        native = [f"native, {count} files"] if count else []
        return "; ".join([*native, *(f"arrow, {number} files: {why}" for why, number in self.reasons.items())])


def choose(scan: Scan, spark: SparkSession, *, forced: bool = False) -> RoadChoice:
    """Decide for each file of a scan, and open those that Spark reads.

    Parameters
    ----------
    forced
        Take the native road also where it is not worth it.
    """
    files = len(scan.plan.files)
    why = _against_the_scan(scan, spark)
    if why is not None:
        return RoadChoice(pa.repeat(False, files), None, {why: files} if files else {})
    tasks = scan.file_tasks()
    verdicts = _Verdicts(tasks.num_rows)
    _judge_tasks(tasks, verdicts, spark)
    _judge_computed(scan, tasks, verdicts)
    fields = _fields_to_read(scan, tasks)
    _judge_worth(tasks, fields, verdicts, forced)
    schemes = _judge_stores(tasks, verdicts, spark)
    fits = _judge_footers(scan, tasks, fields, verdicts)
    _judge_words(tasks, fits, verdicts)
    frames = []
    for scheme, chosen in _groups(schemes, fits, verdicts):
        mine = tasks.take(pa.array(chosen, pa.int64()))
        made = _frame(scan, spark, scheme, mine, [fits[number] for number in chosen])
        if isinstance(made, str):
            verdicts.refuse(chosen, made)
        else:
            frames.append(made)
    native = pa.array([why is None for why in verdicts.why], pa.bool_())
    frame = functools.reduce(lambda one, other: one.union(other), frames) if frames else None
    return RoadChoice(native, frame, dict(Counter(why for why in verdicts.why if why is not None)))


def _groups(
    schemes: Mapping[int, str], fits: Mapping[int, FileFit], verdicts: _Verdicts
) -> list[tuple[str, list[int]]]:
    """Give the files of a scheme that name their columns alike: those of a table have few ways to."""
    found: dict[tuple[str, tuple[Field, ...]], list[int]] = {}
    for number in verdicts.native:
        found.setdefault((schemes[number], fits[number].fields), []).append(number)
    groups = sorted(((scheme, chosen) for (scheme, _), chosen in found.items()), key=lambda group: -len(group[1]))
    for _, rest in groups[_MOST_GROUPS:]:
        verdicts.refuse(rest, "few other files name their columns as it does")
    return groups[:_MOST_GROUPS]


def _frame(
    scan: Scan, spark: SparkSession, scheme: str, tasks: pa.RecordBatch, fits: Sequence[FileFit]
) -> DataFrame | str:
    """Give the rows of files that name their columns alike as Spark reads them, or why it does not."""
    fields = fits[0].fields
    why = _why_not_by_name(fields)
    if why is not None:
        return why
    locations = tasks.column("location").to_pylist()
    opened = _opened(spark, scheme, locations, fields)
    if opened is None:
        return _why_not_opened(spark, scheme)
    rows, spelling = opened
    found = keys_of(locations, spelling)
    if found is None:
        return "its path has the hash of another one"
    files = NativeFiles(tasks, *found, fields, vector_words(scan, tasks, [fit.rows for fit in fits]))
    try:
        frame = native_frame(scan, spark, rows, files)
        # A session of Spark Connect understands it only when it is asked for something.
        _ = frame.schema
    except PySparkException:
        return "Spark does not understand the join with what is known of its file"
    return frame


class _Verdicts:
    """Why not the native road, for each file; the first reason stays."""

    def __init__(self, files: int) -> None:
        self.why: list[str | None] = [None] * files

    @property
    def native(self) -> list[int]:
        """The numbers of the files that nothing speaks against."""
        return [number for number, why in enumerate(self.why) if why is None]

    def refuse(self, numbers: Sequence[int], why: str) -> None:
        """Note a reason."""
        for number in numbers:
            self.why[number] = self.why[number] or why

    def refuse_where(self, mask: pa.BooleanArray, why: str) -> None:
        """Note a reason against some files."""
        self.refuse(pc.indices_nonzero(mask.fill_null(False)).to_pylist(), why)


def _against_the_scan(scan: Scan, spark: SparkSession) -> str | None:
    """Say what speaks against all files alike."""
    if not takes_arrow_tables(spark):
        return f"Spark {spark.version} makes no DataFrame of Arrow tables, with these settings"
    layout = scan.source.layout
    if any(part.name == DELETED for part in computed_parts(scan)):
        return f"the column {DELETED} is made by our reader"
    why = why_not_in_spark(scan.read_spec.residual)
    if why is not None:
        return why
    known = {child.name: child for child in scan.output}
    for path in bound_paths(scan.read_spec.residual):
        if path[0].name in layout.computed:
            continue
        child = known.get(path[0].name)
        if len(path) > 1 and child is not None and child != scan.source.schema.get(child.name):
            return f"the filter may need more of the column {child.name} than the output has"
    why = _why_not_by_name(_fields_to_read(scan))
    if why is not None:
        return why
    try:
        spark_schema(scan.read_spec.constants)
    except DeltabergError as error:
        return error.message
    return None


def _why_not_by_name(fields: Sequence[Field]) -> str | None:
    """Say why Spark cannot find these columns by their names."""
    names = [field.physical_name.lower() for field in fields]
    if len(set(names)) < len(names) or len({field.name for field in fields}) < len(names):
        return "Spark cannot tell its columns apart by name"
    reserved = next((name for name in names if name.startswith(_RESERVED)), None)
    return None if reserved is None else f"Spark has a column {reserved} of its own"


def _fields_to_read(scan: Scan, tasks: pa.RecordBatch | None = None) -> tuple[Field, ...]:
    """Give the top-level columns that come from the files: constants, too, that files may hold where none is known."""
    stored = scan.source.layout.stored
    constants = {
        child.name
        for child in scan.read_spec.constants
        if child.name not in stored or (tasks is not None and not tasks.column(constant_column(child.name)).null_count)
    }
    wanted = list(scan.output)
    for path in bound_paths(scan.read_spec.residual):
        if all(path[0].name != child.name for child in wanted):
            wanted.append(scan.source.schema.get(path[0].name) or path[0])
    computed = scan.source.layout.computed
    read = [child for child in wanted if child.name not in constants and child.name not in computed]
    return (*read, *stored_fields(scan))


def _judge_tasks(tasks: pa.RecordBatch, verdicts: _Verdicts, spark: SparkSession) -> None:
    """Judge files by what the plan says of them."""
    verdicts.refuse_where(pc.not_equal(tasks.column("format"), "parquet"), "it is no Parquet file")
    included = pc.list_value_length(tasks.column("included")).fill_null(0)
    chosen = pc.or_(tasks.column("include").is_valid(), pc.greater(included, 0))
    verdicts.refuse_where(chosen, "some rows of it are chosen by their position or by keys")
    locations = tasks.column("location")
    paths = pc.replace_substring_regex(locations, _SCHEME, "/")
    verdicts.refuse_where(pc.match_substring_regex(paths, _UNREADABLE), "Spark does not open its name")
    if is_remote(spark):
        patterns = pc.match_substring_regex(locations, _PATTERN)
        verdicts.refuse_where(patterns, "Spark Connect would take its name for a pattern")
    names = locations.to_pylist()
    odd = [not name.isascii() and any(not (one.isascii() or one.isalnum()) for one in name) for name in names]
    verdicts.refuse_where(pa.array(odd, pa.bool_()), "Spark does not open its name")
    if len(locations.unique()) < len(locations):
        verdicts.refuse(range(len(locations)), "a file is read twice")
    _judge_deletes(tasks, verdicts)


def _judge_deletes(tasks: pa.RecordBatch, verdicts: _Verdicts) -> None:
    deletes = tasks.column("deletes")
    seen: dict[str, int] = {}
    for number, found in enumerate(deletes.to_pylist() if deletes.null_count < len(deletes) else []):
        for file in found or ():
            if file["keys"] is not None:
                verdicts.refuse([number], "equality deletes apply to it")
            seen[file["location"]] = file["size"] or 0
    if sum(seen.values()) > _MOST_DELETES:
        has_deletes = pc.greater(pc.list_value_length(deletes).fill_null(0), 0)
        verdicts.refuse_where(has_deletes, "there is too much in delete files for the driver to read")


def _judge_computed(scan: Scan, tasks: pa.RecordBatch, verdicts: _Verdicts) -> None:
    parts = {part.name for part in computed_parts(scan)}
    for names, column in ((ROW_IDS, "base_row_id"), (ROW_VERSIONS, "row_commit_version")):
        if parts & names and scan.source.layout.all_rows_have_ids:
            verdicts.refuse_where(tasks.column(column).is_null(), "its rows have no ids, and those of the table have")
    # No file has as many rows as are left, and no time as many milliseconds.
    for made, column in ((parts & ROW_IDS, "base_row_id"), (parts & {"file_modification_time"}, "modified")):
        if made:
            values = tasks.column(column)
            verdicts.refuse_where(
                pc.or_(pc.greater(values, _MOST), pc.less(values, -_MOST)), f"its {column} is too great"
            )


def _judge_worth(tasks: pa.RecordBatch, fields: Sequence[Field], verdicts: _Verdicts, forced: bool) -> None:
    chosen = verdicts.native
    if forced or len(chosen) <= _FEW_FILES:
        return
    size: int = pc.sum(tasks.column("size").take(pa.array(chosen, pa.int64()))).as_py() or 0
    if size < _WORTH_A_STATUS * len(chosen):
        verdicts.refuse(chosen, "the files are many and small, and Spark asks for the status of each")
    leaves = sum(leaf_count(arrow_type(child.type)) for child in fields)
    if len(chosen) * (_LOOKS_TO_OPEN + leaves) > _MOST_LOOKS:
        verdicts.refuse(chosen, "the files are too many for the driver to look at the footer of each")


def _judge_stores(tasks: pa.RecordBatch, verdicts: _Verdicts, spark: SparkSession) -> dict[int, str]:
    """Judge files by the store that they are in, and give their schemes: a clone has files of other stores."""
    locations = tasks.column("location")
    places = {number: parse_location(locations[number].as_py()) for number in verdicts.native}
    stores: dict[str, list[int]] = {}
    for number, place in places.items():
        stores.setdefault(f"{place.scheme}://{place.authority}", []).append(number)
    for store, mine in stores.items():
        scheme = places[mine[0]].scheme
        # Before many footers are read, one file says whether that is of use.
        is_known = len(mine) <= _FEW_FILES or store in _stores.get(spark, ())
        opens = is_known or _opened(spark, scheme, [locations[mine[0]].as_py()], ())
        if not opens or not _spellings(spark, scheme):
            verdicts.refuse(mine, _why_not_opened(spark, scheme))
    return {number: place.scheme for number, place in places.items()}


def _judge_footers(
    scan: Scan, tasks: pa.RecordBatch, fields: Sequence[Field], verdicts: _Verdicts
) -> dict[int, FileFit]:
    """Judge files by their footers, and give what those say."""
    chosen = verdicts.native
    mine = tasks.take(pa.array(chosen, pa.int64()))
    places, sizes = mine.column("location").to_pylist(), mine.column("size").to_pylist()
    fits = fit_files(places, sizes, scan.source.store, fields, scan.source.layout)
    for number, fit in zip(chosen, fits, strict=True):
        if fit.misfit is not None:
            verdicts.refuse([number], fit.misfit)
    return dict(zip(chosen, fits, strict=True))


def _judge_words(tasks: pa.RecordBatch, fits: Mapping[int, FileFit], verdicts: _Verdicts) -> None:
    deletes = pc.greater(pc.list_value_length(tasks.column("deletes")).fill_null(0), 0)
    deleted = pc.or_(tasks.column("exclude").is_valid(), deletes).to_pylist()
    mine = [number for number in verdicts.native if deleted[number]]
    if sum(fits[number].rows for number in mine) > 8 * _MOST_WORDS:
        verdicts.refuse(mine, "its deleted rows are too many to be broadcast")


def _opened(
    spark: SparkSession, scheme: str, locations: Sequence[str], fields: Sequence[Field]
) -> tuple[DataFrame, str] | None:
    """Open files, and give how Spark spells their scheme; None where Spark cannot open them."""
    missing = 0
    known = _spellings(spark, scheme)
    places = list(map(parse_location, locations))
    for name in known:
        # Whatever goes wrong, the arrow road reads the files, or says what is wrong.
        try:
            frame = read_files(spark, [spelled(place, name) for place in places], fields)
        except Exception as error:  # noqa: BLE001 - Spark's errors are of many kinds
            missing += _FILE_SYSTEM_MISSING.search(str(error)) is not None
            continue
        _schemes.setdefault(spark, {})[scheme] = (name,)
        _stores.setdefault(spark, set()).update(f"{scheme}://{place.authority}" for place in places)
        return frame, name
    if missing == len(known):
        _schemes.setdefault(spark, {})[scheme] = ()
    return None


def _why_not_opened(spark: SparkSession, scheme: str) -> str:
    return "Spark cannot open it" if _spellings(spark, scheme) else _NO_FILE_SYSTEM


def _spellings(spark: SparkSession, scheme: str) -> tuple[str, ...]:
    """Give how a scheme may be spelled for a session; nothing where it has no file system for it."""
    return _schemes.get(spark, {}).get(scheme, ("s3", "s3a") if scheme == "s3" else (scheme,))
