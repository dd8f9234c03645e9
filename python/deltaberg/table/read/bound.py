"""A scan bound to its source: the columns, the condition and the files that it reads."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from deltaberg.errors import in_context
from deltaberg.expressions.build.filters import Filter, as_filter
from deltaberg.expressions.compute.bound import Bound, bound_paths
from deltaberg.expressions.derive.derive import bind
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.files.formats.layout import FileLayout
from deltaberg.files.read.metadata import DELETED
from deltaberg.files.read.reader import ReadCounters, ReadSpec
from deltaberg.files.read.task import constant_column, tasks_of
from deltaberg.schema.columns import ColumnName, ColumnNames, column_names, select_columns
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.table.arguments import checked_limit
from deltaberg.table.read.execute import read_in_order
from deltaberg.table.read.plan import Plan, make_plan, split_files
from deltaberg.table.read.scan_options import ScanOptions, processors
from deltaberg.table.read.source import FILE_NUMBER, ScanSource
from deltaberg.telemetry import span

__all__ = ["SPLIT", "BoundScan", "RowAddress"]

_logger = logging.getLogger("deltaberg.scan")

#: Bytes of a data file that are read as one task on this machine.
SPLIT = 64 << 20

_ADDRESS_NAMES = ("_file_number", "_row_position")
_LONG = Primitive("long")


class RowAddress(NamedTuple):
    """The columns that identify a row; both hold 64-bit integers.

    ``file_number`` is the number of its file in the file table of the plan, ``position`` its physical position in that
    file, from 0, counting deleted rows.
    """

    file_number: Field
    position: Field


@dataclass(frozen=True)
class BoundScan:
    """The part of a `Scan` that says what to read of its source. It pickles.

    For writers, it also returns the addresses of rows, and all rows of the files that a filter chose.

    Parameters
    ----------
    condition
        The filter, bound to the columns of the source.
    output
        The wanted columns, in order.
    limit
        The most rows that are wanted; None for all.
    given
        The files to read; None if they are still to be planned.
    address
        The columns of row addresses; None for a scan without them.
    """

    source: ScanSource
    condition: Bound
    output: Struct
    limit: int | None
    options: ScanOptions
    given: Plan | None = None
    address: RowAddress | None = None

    @classmethod
    def of(
        cls,
        source: ScanSource,
        *,
        filter: Filter | None = None,
        columns: ColumnNames | None = None,
        limit: int | None = None,
        options: ScanOptions | None = None,
    ) -> BoundScan:
        """Bind what callers of ``scan`` say to a source.

        Raises
        ------
        InvalidArgumentError, ColumnNotFoundError, SchemaError
            The filter, the columns or the limit are not valid, or do not fit the source.
        """
        kept, chosen = checked_limit(limit), options or ScanOptions()
        available = Struct((*source.schema, *source.hidden))
        with in_context(table=source.table):
            condition = bind(as_filter(filter), available, chosen.timezone)
            wanted = None if columns is None else column_names(columns)
            # pyiceberg asks for all columns so; a column of this name goes before.
            is_all = wanted is None or (available.get("*") is None and [str(one) for one in wanted] == ["*"])
            output = source.schema if wanted is None or is_all else select_columns(available, wanted)
        return cls(source, condition, output, kept, chosen)

    def __getstate__(self) -> dict[str, Any]:
        # A plan is large, and can be made again where it is needed; one that was given cannot.
        return {name: value for name, value in self.__dict__.items() if name not in ("layout", "plan", "read_spec")}

    @cached_property
    def plan(self) -> Plan:
        """The files that must be read."""
        if self.given is not None:
            return self.given
        with span("plan", table=self.source.table) as told:
            planned = make_plan(self.source, self.condition)
            kept, whole = planned.steps[-1], planned.steps[0]
            told.set(files=kept.files, bytes=kept.size, all_files=whole.files, all_bytes=whole.size)
        sizes = ("unknown" if one is None else one for one in (kept.files, whole.files, kept.size, whole.size))
        _logger.info("%s: planned %s of %s files, %s of %s bytes", self.source.table, *sizes)
        return planned

    @cached_property
    def read_spec(self) -> ReadSpec:
        """The part of a read that all tasks of the scan share."""
        return ReadSpec(
            table=self.source.table,
            store=self.source.store,
            output=self.output,
            constants=self.constants,
            layout=self.layout,
            residual=self.condition,
            batch_size=self.options.batch_size,
            memory=self.options.memory // (2 * self._readers + 2),
        )

    @property
    def _readers(self) -> int:
        """How many files are read at a time."""
        return self.options.threads or processors()

    @cached_property
    def layout(self) -> FileLayout:
        """How data files store the columns."""
        layout = self.source.layout
        if self.address is None:
            return layout
        position = self.address.position.name
        return replace(layout, computed=layout.computed | {position}, position=position)

    @property
    def constants(self) -> Struct:
        """The constant columns that the output or the filter needs."""
        needed = self._needed
        own = () if self.address is None else (self.address.file_number,)
        return Struct(tuple(child for child in (*self.source.constants, *own) if child.name in needed))

    @property
    def gives_deleted(self) -> bool:
        """Whether the output or the filter needs the column `DELETED`, so that deleted rows are also returned."""
        return DELETED in self.source.layout.computed & self._needed

    @property
    def _needed(self) -> set[str]:
        """The names of the columns that the output or the filter needs."""
        return {child.name for child in self.output} | {path[0].name for path in bound_paths(self.condition)}

    def with_addresses(self) -> BoundScan:
        """Return the scan with two more columns, which give the file of each row and its position in that file.

        Their names, which are in ``address``, differ from those of all columns of the table. The scan is planned now,
        since the numbers of files have a meaning only together with a plan. A scan that has them already is returned
        as it is.
        """
        if self.address is not None:
            missing = [child for child in self.address if child not in self.output.fields]
            return replace(self, output=Struct((*self.output, *missing))) if missing else self
        taken = {name.lower() for child in self._known for name in (child.name, child.physical_name)}
        address = RowAddress(*(Field(_free_name(name, taken), _LONG, nullable=False) for name in _ADDRESS_NAMES))
        column, files = constant_column(address.file_number.name), self.plan.files
        given = replace(self.plan, files=files.append_column(column, files.column(FILE_NUMBER)))
        return replace(self, output=Struct((*self.output, *address)), given=given, address=address)

    def without_filter(self) -> BoundScan:
        """Return the scan of all rows of the planned files that are not deleted, whatever the filter says of them.

        Copy-on-write reads the files that a filter chose in this way. The limit does not apply, either.
        """
        plan = self.plan
        files = self.source.with_all_deletes(plan.files)
        whole = replace(plan, condition=TRUE, files=files, filtered=pa.repeat(False, len(files)), _located=None)
        return replace(self, condition=TRUE, limit=None, given=whole)

    def of_files(self, mask: pa.BooleanArray) -> BoundScan:
        """Return the scan of some of the planned files, without the limit."""
        return replace(self, given=self.plan.chosen(mask), limit=None)

    def batches(self, counters: ReadCounters | None = None) -> Iterator[pa.RecordBatch]:
        """Return the rows in non-empty batches, in the order of the planned files. The limit is up to the caller.

        No batch has rows of two files.

        Parameters
        ----------
        counters
            What counts how much is read.
        """
        options, counters = self.options, counters or ReadCounters()
        tasks = list(tasks_of(split_files(self.plan, options.split_size or SPLIT, self.constants)))
        counters.tasks += len(tasks)
        yield from read_in_order(self.read_spec, tasks, self._readers, options.memory // 2, counters)

    def with_columns(self, columns: Sequence[ColumnName]) -> BoundScan:
        """Return the scan of the same rows of the same files with other columns.

        If the scan returns deleted rows, the column that marks them is added.
        """
        wanted = [*columns, DELETED] if self.gives_deleted else columns
        return replace(self, output=select_columns(self._known, wanted), given=self.plan)

    @property
    def _known(self) -> Struct:
        return Struct((*self.source.schema, *self.source.hidden))


def _free_name(wanted: str, taken: Container[str]) -> str:
    """Return a name that no column has in any case; ``taken`` holds names in lower case."""
    while wanted in taken:
        wanted = f"_{wanted}"
    return wanted
