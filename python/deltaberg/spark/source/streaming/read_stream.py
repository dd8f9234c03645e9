"""Streams by the fused road: a function runs in the tasks that read the files of each batch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType
from pyspark.sql.utils import to_str

from deltaberg.delta.table import DeltaTable
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint, shown_value
from deltaberg.iceberg.table import IcebergTable
from deltaberg.signatures import public
from deltaberg.spark.read.read_tasks import BatchFunction
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.source.options import IN_CATALOG
from deltaberg.spark.source.raised import briefly
from deltaberg.spark.source.streaming.delta_stream_settings import DeltaStreamSettings
from deltaberg.spark.source.streaming.iceberg_stream_settings import IcebergStreamSettings
from deltaberg.spark.source.streaming.stream_reader import FusedStreamReader
from deltaberg.spark.source.streaming.stream_settings import StreamSettings
from deltaberg.spark.types import arrow_types, output_schema
from deltaberg.table.arguments import AUTO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["StreamRead", "read_stream"]


class _Fused(NamedTuple):
    """What a source reads, and what it makes of the rows. As a class attribute, a bare function would be a method."""

    settings: StreamSettings
    function: BatchFunction
    output: StructType


def name_of(fused: _Fused) -> str:
    """Return the name of a source, which is equal for equal ones: Spark keeps one of each name."""
    pickled: bytes = cloudpickle.dumps(tuple(fused))  # type: ignore[no-untyped-call]
    return f"deltaberg_stream_{hashlib.sha256(pickled).hexdigest()[:32]}"


class _FusedSource(DataSource):
    """A Data Source of one stream. Spark tells a source nothing but texts, so that each stream has a class."""

    fused: ClassVar[_Fused]
    format: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        """Return the name by which the source is registered."""
        return cls.format

    def schema(self) -> StructType:
        """Return the columns that the function yields."""
        return self.fused.output

    @briefly
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - PySpark calls it so
        """Return what reads the table, and runs the function."""
        settings, function, output = self.fused
        return FusedStreamReader(settings, function, arrow_types(output))


@public
class StreamRead:
    """A table that is to be read as a stream; `read_stream` returns it."""

    def __init__(self, settings: StreamSettings, spark: SparkSession) -> None:
        self._settings = settings
        self._spark = spark

    def map_in_arrow(self, function: BatchFunction, schema: Any) -> DataFrame:
        """Return a streaming DataFrame of what a function yields, which runs in the tasks that read.

        Its rows cross into the JVM; those that it reads do not. Each call registers a Data Source with the session, for
        as long as this lives: Spark removes none. One of the same table, options, function and columns takes the place
        of that of an earlier call.

        Parameters
        ----------
        function
            It is called once for each task of a batch, with an iterator of Arrow record batches in the columns of the
            stream, and yields record batches. A task without files does not call it.
        schema
            What it yields: DDL text, a ``StructType`` or an Arrow schema.

        Raises
        ------
        InvalidArgumentError
            If the function cannot be called, or the schema is none.
        """
        if not callable(function):
            raise InvalidArgumentError(
                f"{shown_value(function)} cannot be called", hint="pass a function of an iterator of batches"
            )
        output = output_schema(self._spark, schema)
        fused = _Fused(self._settings, function, output)
        name = name_of(fused)
        members = {"fused": fused, "format": name}
        self._spark.dataSource.register(type("FusedSource", (_FusedSource,), members))
        return self._spark.readStream.format(name).load()


@public
def read_stream(
    table: DeltaTable | IcebergTable, spark: SparkSession, options: Mapping[str, Any] | None = None
) -> StreamRead:
    """Read a table as a stream whose rows a function of yours sees before they cross into the JVM.

    ``spark.readStream`` reads the same rows without a function. Both have the same offsets: a query may go on from the
    checkpoint of the other.

    Parameters
    ----------
    table
        The table, also one of a catalog. A stream follows its newest state, or the branch that is open.
    spark
        A session, either classic or of Spark Connect.
    options
        The options of ``spark.readStream.format("delta")`` or ``format("iceberg")``, such as ``startingVersion``.

    Raises
    ------
    InvalidArgumentError
        If the table is open at a version, a snapshot or a time, or with a mapping of locations, or an option is wrong.

    Examples
    --------
    The rows of each batch are counted where they are read:

    .. code-block:: python

        def count(batches):
            yield pa.record_batch({"rows": [sum(batch.num_rows for batch in batches)]})


        counts = read_stream(open_table(path), spark).map_in_arrow(count, "rows bigint")
    """
    kind: type[StreamSettings] = IcebergStreamSettings if isinstance(table, IcebergTable) else DeltaStreamSettings
    if not isinstance(table, (DeltaTable, IcebergTable)):
        raise InvalidArgumentError(
            f"the table is of type {type(table).__name__}", hint="pass what ⟪open_table(…)⟫ returns"
        )
    opened = table._options  # noqa: SLF001 - of a table
    for name in ("version", "snapshot_id", "timestamp"):
        if getattr(opened, name) is not None:
            raise InvalidArgumentError(
                f"the table was opened with {name}, and a stream follows its newest state",
                hint="open it without that argument; the options of the stream say where it begins",
                table=table.location,
            )
    if opened.location_map not in (None, AUTO):
        raise InvalidArgumentError(
            "a stream takes no mapping of locations", hint='open the table with ⟪location_map="auto"⟫'
        )
    asked: Any = {} if options is None else options
    if not isinstance(asked, Mapping) or not all(isinstance(name, str) for name in asked):
        raise InvalidArgumentError(Hint("⟪options⟫ must be a mapping"), hint="pass names and values, as in a dict")
    for name in {name.lower() for name in asked} & {"path", IN_CATALOG}:
        raise InvalidArgumentError(f"the option {name} is that of the table", hint="leave it out")
    asked = {name: json.dumps(value) if isinstance(value, (list, tuple)) else value for name, value in asked.items()}
    texts: dict[str, Any] = {"timezone": opened.timezone, **(opened.storage_options or {})}
    pointer = None
    if isinstance(table, IcebergTable):
        texts.update({"branch": opened.ref, "location-map": opened.location_map})
        pointer = table._pointer  # noqa: SLF001 - of a table
    texts.update(asked, path=table.location)
    settings = kind({name: str(to_str(value)) for name, value in texts.items() if value is not None})
    settings.pointer = pointer
    # Options are refused here, where they were written, and not by the query.
    settings.scan()
    return StreamRead(settings, SessionFacts.of(spark).session)
