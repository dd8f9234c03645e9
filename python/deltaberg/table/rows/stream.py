"""Taking rows from whatever holds them: Arrow streams, data frames, tables, datasets and scans."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError, first_line

__all__ = ["all_rows", "can_be_read_again", "open_stream", "small_batches"]

#: Rows and bytes of a batch at most. Arrow's texts of a batch must stay below 2 GiB, and memory is counted by batches.
_ROWS = 131_072
_BYTES = 32 << 20

_HINT = "pass an Arrow table, stream or dataset, a data frame of pandas, Polars or Spark, or a scan"


def open_stream(data: Any) -> pa.RecordBatchReader:
    """Return a reader of the rows of some data.

    Parameters
    ----------
    data
        Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``, a pandas or Polars data frame, or a table, batch,
        list or iterator of batches, reader or dataset of pyarrow. Named levels of the index of a pandas data frame are
        columns, and an index of numbers without a name is left out.

    Raises
    ------
    InvalidArgumentError
        If it is nothing of this kind, or the index of a pandas data frame holds values but has no name.

    Examples
    --------
    >>> open_stream(pa.table({"x": [1]})).schema.names
    ['x']
    """
    reader = _reader_of_batches(data)
    if reader is not None:
        return reader
    try:
        frame = _rows_of_frame(data)
        if frame is not None:
            return frame.to_reader(max_chunksize=_ROWS)
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if hasattr(data, "__arrow_c_array__"):
            return open_stream(pa.record_batch(data))
    except pa.ArrowException as error:
        # What pyarrow says of a data frame comes in several parts.
        reason = ": ".join(str(part) for part in reversed(error.args))
        raise InvalidArgumentError(
            f"data of type {type(data).__name__} cannot be converted to Arrow: {reason}", hint=_HINT
        ) from error
    # The class of datasets takes long to import.
    if type(data).__module__.startswith("pyarrow.") and hasattr(data, "scanner"):
        return data.scanner().to_reader()
    raise InvalidArgumentError(f"data of type {type(data).__name__} cannot be written", hint=_HINT)


def can_be_read_again(data: Any) -> bool:
    """Return whether the rows of some data can be read a second time, unlike those of a stream.

    Examples
    --------
    >>> table = pa.table({"x": [1]})
    >>> can_be_read_again(table), can_be_read_again(table.to_reader())
    (True, False)
    """
    if isinstance(data, (pa.Table, pa.RecordBatch, list, tuple)):
        return True
    library = type(data).__module__.partition(".")[0]
    return library in ("pandas", "polars", "pyspark", "deltaberg") or hasattr(data, "scanner")


def _reader_of_batches(data: Any) -> pa.RecordBatchReader | None:
    """Return a reader of what pyarrow itself takes for rows, and of iterators of batches; None for anything else."""
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader(max_chunksize=_ROWS)
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, (list, tuple)) and data and all(isinstance(batch, pa.RecordBatch) for batch in data):
        return pa.RecordBatchReader.from_batches(data[0].schema, data)
    return _reader_of_iterator(data) if isinstance(data, Iterator) else None


def _reader_of_iterator(batches: Iterator[Any]) -> pa.RecordBatchReader:
    """Return a reader of the batches of an iterator, of which the first one tells the columns."""
    first = next(batches, None)
    if not isinstance(first, pa.RecordBatch):
        found = "gives no batch" if first is None else f"gives values of type {type(first).__name__}"
        raise InvalidArgumentError(
            f"the iterator {found}, so that its columns are not known",
            hint="pass pyarrow.RecordBatchReader.from_batches(schema, batches)",
        )
    return pa.RecordBatchReader.from_batches(first.schema, chain([first], _only_batches(batches)))


def _only_batches(values: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    """Return the values of an iterator, which must be batches."""
    for value in values:
        if not isinstance(value, pa.RecordBatch):
            raise InvalidArgumentError(
                f"the iterator gives a value of type {type(value).__name__} among record batches",
                hint="make a pyarrow.RecordBatch of it",
            )
        yield value


def _with_index(frame: Any) -> Any:
    """Return a pandas data frame whose index has become columns, as far as it says more than where rows are."""
    index = frame.index
    unnamed = [number for number, name in enumerate(index.names) if name is None]
    if len(unnamed) == index.nlevels == 1 and index.dtype.kind in "iu":
        return frame
    if unnamed:
        raise InvalidArgumentError(
            "the index of the pandas data frame holds values, but has no name to store them under",
            hint="name it by frame.rename_axis(...), or leave it out by frame.reset_index(drop=True)",
        )
    try:
        return frame.reset_index()
    except ValueError as error:
        raise InvalidArgumentError(
            f"the index of the pandas data frame has the name of a column: {error}",
            hint="rename it by frame.rename_axis(...), or leave it out by frame.reset_index(drop=True)",
        ) from error


def _dense(frame: Any) -> Any:
    """Return a pandas data frame with all values of its sparse columns, which pyarrow does not take."""
    sparse = {name: kind.subtype for name, kind in frame.dtypes.items() if type(kind).__name__ == "SparseDtype"}
    return frame.astype(sparse) if sparse else frame


def _rows_of_frame(data: Any) -> pa.Table | None:
    """Return the rows of a pandas or Polars data frame; None for anything else."""
    library, name = type(data).__module__.partition(".")[0], type(data).__name__
    if library == "pandas" and name == "DataFrame":
        if not data.columns.is_unique:
            twice = data.columns[data.columns.duplicated()][0]
            raise InvalidArgumentError(
                f"the pandas data frame has two columns {twice!r}", hint="leave out or rename one of them"
            )
        return pa.Table.from_pandas(_dense(_with_index(data)), preserve_index=False).replace_schema_metadata(None)
    if library == "polars" and name == "DataFrame":
        # Its stream has views of texts, which older releases of pyarrow cannot compute.
        return data.to_arrow()
    if library == "polars" and name == "LazyFrame":
        raise InvalidArgumentError("a lazy frame has no rows yet", hint="call collect() first")
    if type(data).__module__.startswith("pyspark.pandas."):
        raise InvalidArgumentError("a pandas-on-Spark frame cannot be written as it is", hint="call to_spark() first")
    return None


def all_rows(reader: pa.RecordBatchReader) -> pa.Table:
    """Return the rows of a reader in memory.

    Raises
    ------
    InvalidArgumentError
        A batch is not valid, or has other columns than the reader says.
    """
    return pa.Table.from_batches((_aligned(batch, reader.schema) for batch in _batches(reader)), reader.schema)


def small_batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Return the rows of a reader in batches that are small enough to be counted and copied.

    Raises
    ------
    InvalidArgumentError
        A batch is not valid, or has other columns than the reader says.
    """
    for batch in _batches(reader):
        yield from _split(_aligned(batch, reader.schema))


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except pa.ArrowInvalid as error:
            raise InvalidArgumentError(
                f"the stream of the rows gives a batch that is not valid: {first_line(error)}",
                hint="check what makes the stream",
            ) from error
        yield batch


def _aligned(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with its columns in the order of the schema.

    pyarrow makes a reader of any batches, without a look at their columns, which would then be taken for one another.
    """
    if batch.schema.equals(schema):
        return batch
    names, wanted = batch.schema.names, schema.names
    if sorted(names) != sorted(wanted):
        raise InvalidArgumentError(
            f"the batches of the rows differ in their columns: {', '.join(wanted)}; {', '.join(names)}",
            hint="give all batches the same columns",
        )
    if names != wanted and len(set(names)) == len(names):
        batch = batch.select(wanted)
    for found, child in zip(batch.schema, schema, strict=True):
        if found.type != child.type:
            raise InvalidArgumentError(
                f"the batches of the rows differ in the type of a column: {child.type}; {found.type}",
                hint="give all batches the same types",
                column=child.name,
            )
    return batch


def _split(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = batch.num_rows
    if rows <= 1 or (rows <= _ROWS and batch.nbytes <= _BYTES):
        if rows:
            yield batch
        return
    middle = rows // 2
    halves = (batch.slice(0, middle), batch.slice(middle))
    if rows <= _ROWS and 4 * min(half.nbytes for half in halves) > 3 * batch.nbytes:
        # The words of dictionaries are not divided with the rows.
        yield batch
        return
    for half in halves:
        yield from _split(half)
