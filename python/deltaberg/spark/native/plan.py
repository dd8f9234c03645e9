"""Which files of a scan Spark reads itself, and the DataFrame of their rows."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from deltaberg.schema.types import Field
from deltaberg.spark.native.deleted_words import deleted_words
from deltaberg.spark.native.file_keys import file_keys
from deltaberg.spark.native.footers import FooterVerdict, judge_footers
from deltaberg.spark.native.join import NativeFiles, native_frame
from deltaberg.spark.native.opening import judge_stores, open_files, why_not_opened
from deltaberg.spark.native.verdicts import (
    Verdicts,
    fields_to_read,
    judge_deleted_rows,
    judge_tasks,
    judge_worth,
    why_not_by_name,
    why_not_the_scan,
)
from deltaberg.spark.session import SessionFacts
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.sharing import file_tasks

__all__ = ["NativePlan", "plan_native"]

#: Files that name their columns alike are one scan of Spark; so many such scans are joined by a union.
_MOST_GROUPS = 8


@dataclass(frozen=True)
class NativePlan:
    """The files that Spark reads itself, a DataFrame of their rows, and why the other files take the arrow road.

    Attributes
    ----------
    files
        For each planned file, whether Spark reads it.
    frame
        The rows of those files, without the limit of the scan; None if there are none.
    reasons
        Why the other files take the arrow road, with the number of files for each reason.
    """

    files: pa.BooleanArray
    frame: DataFrame | None
    reasons: dict[str, int]


def plan_native(scan: BoundScan, facts: SessionFacts, *, forced: bool = False) -> NativePlan:
    """Decide for each file of a scan whether Spark reads it, and open those files.

    Parameters
    ----------
    forced
        Take the native road even where it would be slower than the arrow road.
    """
    why = why_not_the_scan(scan, facts)
    if why is not None:
        count = len(scan.plan.files)
        return NativePlan(pa.repeat(False, count), None, {why: count} if count else {})
    tasks = file_tasks(scan)
    verdicts = Verdicts(tasks.num_rows)
    judge_tasks(scan, tasks, verdicts, facts)
    fields = fields_to_read(scan, tasks)
    if not forced:
        judge_worth(tasks, fields, verdicts)
    schemes = judge_stores(tasks, verdicts, facts)
    footers = _footers(scan, tasks, fields, verdicts)
    judge_deleted_rows(tasks, {number: footer.rows for number, footer in footers.items()}, verdicts)
    frames = []
    for scheme, chosen in _groups(schemes, footers, verdicts):
        mine = tasks.take(pa.array(chosen, pa.int64()))
        made = _frame(scan, facts, scheme, mine, [footers[number] for number in chosen])
        if isinstance(made, str):
            verdicts.refuse(chosen, made)
        else:
            frames.append(made)
    frame = functools.reduce(lambda one, other: one.union(other), frames) if frames else None
    files = pa.array([why is None for why in verdicts.why], pa.bool_())
    return NativePlan(files, frame, dict(Counter(why for why in verdicts.why if why is not None)))


def _footers(
    scan: BoundScan, tasks: pa.RecordBatch, fields: Sequence[Field], verdicts: Verdicts
) -> dict[int, FooterVerdict]:
    """Judge the remaining files by their footers, and return what the footers say, by the number of the file."""
    chosen = verdicts.remaining
    mine = tasks.take(pa.array(chosen, pa.int64()))
    places, sizes = mine.column("location").to_pylist(), mine.column("size").to_pylist()
    footers = judge_footers(places, sizes, scan.source.store, fields, scan.layout)
    for number, footer in zip(chosen, footers, strict=True):
        if footer.why_not is not None:
            verdicts.refuse([number], footer.why_not)
    return dict(zip(chosen, footers, strict=True))


def _groups(
    schemes: Mapping[int, str], footers: Mapping[int, FooterVerdict], verdicts: Verdicts
) -> list[tuple[str, list[int]]]:
    """Return groups of files that have the same scheme and name their columns alike, the largest groups only."""
    found: dict[tuple[str, tuple[Field, ...]], list[int]] = {}
    for number in verdicts.remaining:
        found.setdefault((schemes[number], footers[number].fields), []).append(number)
    groups = sorted(((scheme, chosen) for (scheme, _), chosen in found.items()), key=lambda group: -len(group[1]))
    for _, rest in groups[_MOST_GROUPS:]:
        verdicts.refuse(rest, "few other files name their columns as it does")
    return groups[:_MOST_GROUPS]


def _frame(
    scan: BoundScan, facts: SessionFacts, scheme: str, tasks: pa.RecordBatch, footers: Sequence[FooterVerdict]
) -> DataFrame | str:
    """Return the rows of files that name their columns alike as Spark reads them, or why it does not read them."""
    fields = footers[0].fields
    why = why_not_by_name(fields)
    if why is not None:
        return why
    locations = tasks.column("location").to_pylist()
    opened = open_files(facts, scheme, locations, fields)
    if opened is None:
        return why_not_opened(facts, scheme)
    rows, spelling = opened
    keys = file_keys(locations, spelling)
    if keys is None:
        return "its path has the same hash as another path"
    words = deleted_words(scan, tasks, [footer.rows for footer in footers])
    try:
        frame = native_frame(scan, facts.session, rows, NativeFiles(tasks, *keys, fields, words))
        # A session of Spark Connect analyzes the frame only when it is asked for something.
        _ = frame.schema
    except PySparkException:
        return "Spark cannot analyze the join with what is known of the file"
    return frame
