"""The explanation of what a scan will read, and why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.tree.tree import TRUE
from deltaberg.schema.arrow import as_array
from deltaberg.schema.types import Struct
from deltaberg.table.read.plan import Plan, count_splits
from deltaberg.table.read.source import PartitionedSource, PartitionShare, PruneStep
from deltaberg.whole_numbers import counted

__all__ = ["Explanation", "explain_plan"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_ROAD = "local; on Spark native or arrow (to_spark), or fused (map_in_arrow)"


@dataclass(frozen=True)
class Explanation:
    """An explanation of what a scan will read, and why; its text is what `Scan.explain` returns.

    Parameters
    ----------
    table, description
        Where the table is, and what is read of it, such as ``version 3``.
    steps
        The files that remain after each planning step; the first step has all files.
    columns
        The wanted columns that are read from data files.
    constants
        The columns that have one value in each file, such as partition columns, as far as output or filter need them.
    filter
        The filter as it was understood; None without one.
    residual_files
        How many files need the filter applied to their rows; all rows of the others match.
    deletion_vectors, deleted_rows
        How many files have a deletion vector, and how many rows these vectors delete.
    position_delete_files, equality_delete_files, files_with_delete_files
        How many delete files of each kind apply, and to how many files. How many rows they delete is not known until
        they are read.
    limit
        The most rows that are wanted; None for all.
    tasks
        How many tasks read the files on this machine, where large files are split.
    road
        Which road reads the files, and why.
    partitions
        In how many partitions the files are, and in how many all data files of the table; None unless the snapshot of
        an Iceberg table has partition statistics.
    """

    table: str
    description: str
    steps: tuple[PruneStep, ...]
    columns: tuple[str, ...]
    constants: tuple[str, ...]
    filter: str | None
    residual_files: int
    deletion_vectors: int
    deleted_rows: int
    position_delete_files: int
    equality_delete_files: int
    files_with_delete_files: int
    limit: int | None
    tasks: int
    road: str = _ROAD
    partitions: PartitionShare | None = None

    @property
    def title(self) -> str:
        """The table that is explained, and what is read of it."""
        return f"Scan of {self.table}, {self.description}"

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The parts of the explanation, as names and texts."""
        facts = []
        for number, step in enumerate(self.steps):
            share = f", {self.steps[number - 1].files - step.files} skipped" if number else ""
            size = "" if step.size is None else f", {_bytes(step.size)}"
            facts.append((f"by {step.name}" if number else "all", f"{counted(step.files, 'file')}{size}{share}"))
        if self.partitions is not None:
            facts.append(("partitions", f"{self.partitions.chosen} of {self.partitions.all}"))
        facts.append(("columns from files", ", ".join(self.columns) or "none"))
        if self.constants:
            facts.append(("constant in a file", ", ".join(self.constants)))
        facts.append(("filter", self.filter or "none"))
        if self.filter is not None:
            facts.append(("applied to rows of", f"{counted(self.residual_files, 'file')}; the others match whole"))
        if self.deletion_vectors:
            facts.append(
                (
                    "deletion vectors",
                    f"{counted(self.deletion_vectors, 'file')}, {counted(self.deleted_rows, 'row')} deleted",
                )
            )
        kinds = (("position", self.position_delete_files), ("equality", self.equality_delete_files))
        shown = ", ".join(f"{count} {kind}" for kind, count in kinds if count)
        if shown:
            facts.append(("delete files", f"{shown}; for {counted(self.files_with_delete_files, 'file')}"))
        if self.limit is not None:
            facts.append(("limit", counted(self.limit, "row")))
        return [*facts, ("tasks", str(self.tasks)), ("road", self.road)]

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"  {name + ':':22} {text}" for name, text in self.facts)])


def explain_plan(plan: Plan, output: Struct, constants: Struct, limit: int | None, split_size: int) -> Explanation:
    """Explain a plan: what each step keeps, what is read, and what remains to be done for each row."""
    source = plan.source
    constant = set(constants.names)
    deletes = _delete_files(plan)
    vectors = as_array(plan.files.column("deletion_vector"))
    return Explanation(
        table=source.table,
        description=source.description,
        steps=tuple(plan.steps),
        columns=tuple(name for name in output.names if name not in constant),
        constants=tuple(constants.names),
        filter=None if plan.condition == TRUE else str(plan.condition),
        residual_files=pc.sum(plan.filtered).as_py() or 0,
        deletion_vectors=len(vectors) - vectors.null_count,
        deleted_rows=_deleted_rows(vectors),
        position_delete_files=deletes.position,
        equality_delete_files=deletes.equality,
        files_with_delete_files=deletes.files,
        limit=limit,
        tasks=count_splits(plan, split_size),
        partitions=source.partition_share(plan.files) if isinstance(source, PartitionedSource) else None,
    )


def _deleted_rows(vectors: pa.Array) -> int:
    if vectors.null_count == len(vectors):
        return 0
    total: int | None = pc.sum(pc.struct_field(vectors, "cardinality")).as_py()
    return total or 0


class _DeleteFiles(NamedTuple):
    """How many delete files of each kind apply, and to how many files."""

    position: int
    equality: int
    files: int


def _delete_files(plan: Plan) -> _DeleteFiles:
    # A file table has these columns only where the format has delete files and some of them apply.
    names = [name for name in ("delete_files", "only_in_delete_files") if name in plan.files.column_names]
    lists = [as_array(plan.located.column(name)) for name in names]
    if not lists:
        return _DeleteFiles(0, 0, 0)
    used = pa.concat_arrays([pc.list_flatten(found) for found in lists])
    is_equality = pc.struct_field(used, "keys").is_valid()
    places = pc.struct_field(used, "location")
    position, equality = (len(places.filter(mask).unique()) for mask in (pc.invert(is_equality), is_equality))
    some = [pc.greater(pc.list_value_length(found).fill_null(0), 0) for found in lists]
    return _DeleteFiles(position, equality, pc.sum(reduce(pc.or_, some)).as_py() or 0)


def _bytes(size: float) -> str:
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("the last unit takes every size")
