"""Rows to be written: those that this process reads, and those of a Spark DataFrame, which Spark writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from deltaberg.engines import spark_engine
from deltaberg.errors import InvalidArgumentError
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.types import Struct
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.rows.progress import Progress
from deltaberg.table.rows.stream import open_stream
from deltaberg.table.write.spec import WriteSpec
from deltaberg.table.write.write import write_files

__all__ = [
    "LOCAL_ROAD",
    "TASK_ROAD",
    "Rows",
    "SourceRows",
    "WriteRoad",
    "known_schema",
    "open_rows",
    "open_source",
    "roads_together",
]


class WriteRoad(NamedTuple):
    """How rows come into data files, as `CommitResult` names it.

    Parameters
    ----------
    name
        ``local``, or on Spark ``native``, ``arrow`` or ``fused``.
    why_not_native
        Why Spark's own writer does not write the rows of a DataFrame; empty if it does.
    """

    name: str
    why_not_native: str = ""


#: The road of rows that this process writes.
LOCAL_ROAD = WriteRoad("local")
#: The road of rows that one task of Spark reads and writes, so that none comes into the JVM.
TASK_ROAD = WriteRoad("fused")


def roads_together(roads: Collection[WriteRoad]) -> WriteRoad:
    """Return the roads of several writes as one, with their names separated by commas, and reasons by semicolons.

    Examples
    --------
    >>> roads_together([WriteRoad("local"), WriteRoad("arrow", "the table is partitioned")])
    WriteRoad(name='arrow, local', why_not_native='the table is partitioned')
    """
    names, reasons = {road.name for road in roads}, {road.why_not_native for road in roads}
    return WriteRoad(", ".join(sorted(names)), "; ".join(sorted(reasons - {""})))


@runtime_checkable
class Rows(Protocol):
    """Rows that can be written once."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    def write(self, spec: WriteSpec, store: StoreSpec, root: Location) -> pa.Table:
        """Write the rows to new data files, and return a row for each file; see `write_files`.

        Parameters
        ----------
        spec
            What the table asks for.
        store
            Opens the store of the table.
        root
            The directory of the table.
        """

    def road(self, spec: WriteSpec, root: Location) -> WriteRoad:
        """Return the road that the rows take to the files of a table; the parameters are those of `write`."""


@runtime_checkable
class SourceRows(Protocol):
    """Rows that this process reads once."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    def staged(
        self, columns: AbstractSet[str], store: StoreSpec, root: Location
    ) -> AbstractContextManager[pa.RecordBatchReader]:
        """Return a block in which the rows can be read, once.

        Parameters
        ----------
        columns
            The names of the columns that are needed. Others may be left out.
        store
            Opens the store of the table.
        root
            The directory of the table, where Spark stores the rows on their way.
        """


class _LocalRows:
    """Rows of a stream, which are written by this process."""

    def __init__(self, reader: pa.RecordBatchReader, progress: Progress | None) -> None:
        self._reader = reader
        self._progress = progress

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._reader.schema

    def write(self, spec: WriteSpec, store: StoreSpec, root: Location) -> pa.Table:
        """Write the rows to new data files."""
        return write_files(self._reader, spec, store.open(root), root.path, progress=self._progress)

    @contextmanager
    def staged(
        self,
        columns: AbstractSet[str],
        store: StoreSpec,
        root: Location,
    ) -> Iterator[pa.RecordBatchReader]:
        """Return the stream as it is."""
        yield self._reader

    def road(self, spec: WriteSpec, root: Location) -> WriteRoad:
        """Return ``local``."""
        return LOCAL_ROAD


def open_rows(data: Any, progress: Progress | None = None) -> Rows:
    """Return the rows of some data: a Spark DataFrame, a table of this library, or what `open_stream` takes.

    Parameters
    ----------
    data
        The rows.
    progress
        What is told how far they are written, unless Spark writes them.

    Raises
    ------
    InvalidArgumentError
        If it is nothing of this kind.
    UnsupportedFeatureError
        If a column of a Spark DataFrame has a type that cannot be written.

    Examples
    --------
    >>> open_rows(pa.table({"x": [1]})).schema.names
    ['x']
    """
    # A DataFrame comes first: over Spark Connect any name is an attribute of it, a column.
    if _is_spark_frame(data):
        rows: Rows = spark_engine().FrameRows(data)
        return rows
    # A Column has every attribute, but none of them is a schema.
    # The schema of a LazyFrame is computed when it is asked for.
    if not _is_frame(data) and isinstance(data, Rows) and isinstance(data.schema, pa.Schema):
        return data
    return _LocalRows(open_stream(data), progress)


def open_source(data: Any) -> SourceRows:
    """Return the rows of some data, for a reader on this machine. The data is what `open_rows` takes.

    Raises
    ------
    InvalidArgumentError
        If it is nothing of this kind.
    UnsupportedFeatureError
        If a column of a Spark DataFrame has a type that cannot be written.
    """
    rows = open_rows(data)
    if not isinstance(rows, SourceRows):
        raise InvalidArgumentError(f"data of type {type(data).__name__} cannot be read here")
    return rows


def known_schema(data: Any) -> pa.Schema | None:
    """Return the columns of some data that `open_rows` takes; None if only a reader of its rows would tell them.

    Texts of a pandas data frame may be of the type null, since its values tell the types.

    Examples
    --------
    >>> known_schema(pa.table({"x": [1]})).names, known_schema(iter([pa.table({"x": [1]})]))
    (['x'], None)
    """
    if _is_spark_frame(data):
        return open_rows(data).schema
    if _is_frame(data) and hasattr(data, "head"):
        return open_stream(data.head(0)).schema
    schema = getattr(data, "schema", None)
    if isinstance(schema, Struct):
        return arrow_schema(schema)
    return schema if isinstance(schema, pa.Schema) else None


def _is_frame(data: Any) -> bool:
    """Return whether some data are of pandas or Polars."""
    return type(data).__module__.partition(".")[0] in ("pandas", "polars")


def _is_spark_frame(data: Any) -> bool:
    """Return whether data is a DataFrame of PySpark, classic or of Spark Connect, without importing PySpark."""
    return any(
        base.__name__ == "DataFrame" and base.__module__.startswith("pyspark.sql.") for base in type(data).__mro__
    )
