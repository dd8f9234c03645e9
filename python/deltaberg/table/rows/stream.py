"""Taking rows from whatever holds them: Arrow streams, data frames, tables, datasets and scans."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError, first_line
from deltaberg.table.rows.joint_columns import Part, joint_columns

__all__ = ["all_rows", "can_be_read_again", "open_stream", "small_batches"]

#: Rows and bytes of a batch at most. Arrow's texts of a batch must stay below 2 GiB, and memory is counted by batches.
_ROWS = 131_072
_BYTES = 32 << 20
#: The most parts that together tell the columns of the rows, and the bytes after which no more of them are looked at.
_SEEN_PARTS, _SEEN_BYTES = 16, 64 << 20

#: What to write in place of columns of pandas that mean nothing to a table.
_MENDED = {"PeriodDtype": "{0}.dt.to_timestamp()", "IntervalDtype": "{0}.astype(str)"}
_HINT = "pass an Arrow table, stream or dataset, a data frame of pandas, Polars or Spark, or a scan"


def open_stream(data: Any) -> pa.RecordBatchReader:
    """Return a reader of the rows of some data.

    Parameters
    ----------
    data
        Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``, a pandas or Polars data frame, a lazy frame, or a
        table, batch, reader, scanner or dataset of pyarrow; or a list or an iterator of these, each a part of the rows,
        of which the first ones tell the columns. Named levels of the index of a pandas data frame are
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
    library, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if library == "polars" and kind == "LazyFrame":
        # Releases before 1.34 have no batches.
        return open_stream(data.collect_batches() if hasattr(data, "collect_batches") else data.collect())
    try:
        frame = _rows_of_frame(data, library, kind)
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
            f"data of type {kind} cannot be converted to Arrow: {reason}",
            hint="give each column values of one type, as by astype()" if library == "pandas" else _HINT,
        ) from error
    # The class of datasets takes long to import.
    if library == "pyarrow" and (hasattr(data, "scanner") or kind == "Scanner"):
        return (data if kind == "Scanner" else data.scanner()).to_reader()
    hint = "pass pyarrow.table(data)" if isinstance(data, Mapping) else _HINT
    if isinstance(data, (str, os.PathLike)):
        hint = "read the file first, as by pyarrow.dataset.dataset(path) or pyarrow.csv.read_csv(path)"
    raise InvalidArgumentError(f"data of type {kind} cannot be written", hint=hint)


def can_be_read_again(data: Any) -> bool:
    """Return whether the rows of some data can be read a second time, unlike those of a stream.

    Examples
    --------
    >>> table = pa.table({"x": [1]})
    >>> can_be_read_again(table), can_be_read_again(table.to_reader())
    (True, False)
    """
    if isinstance(data, (list, tuple)):
        return all(map(can_be_read_again, data))
    if isinstance(data, (pa.Table, pa.RecordBatch)):
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
    if isinstance(data, (list, tuple)):
        return _reader_of_parts(iter(data), f"the {type(data).__name__}")
    return _reader_of_parts(data, "the iterator") if isinstance(data, Iterator) else None


def _reader_of_parts(parts: Iterator[Any], shown: str) -> pa.RecordBatchReader:
    """Return a reader of rows that come in parts, of which the first ones tell the columns."""
    opened: list[Part] = []
    readers: list[pa.RecordBatchReader] = []
    while len(opened) < _SEEN_PARTS and sum(part.rows.nbytes for part in opened if part.rows is not None) < _SEEN_BYTES:
        one = next(parts, None)
        if one is None:
            break
        reader = _reader_of_part(one, shown)
        rows = None if _is_lazy(one) else reader.read_all()
        opened.append(Part(reader.schema, rows))
        readers.append(reader if rows is None else rows.to_reader(max_chunksize=_ROWS))
    if not opened:
        raise InvalidArgumentError(
            f"{shown} gives no rows, so that its columns are not known",
            hint="pass pyarrow.RecordBatchReader.from_batches(schema, batches)",
        )
    columns = joint_columns(opened)

    def batches() -> Iterator[pa.RecordBatch]:
        # What was written is let go.
        while readers:
            yield from readers.pop(0)
        for part in parts:
            yield from _reader_of_part(part, shown)

    return pa.RecordBatchReader.from_batches(columns, batches())


def _is_lazy(part: Any) -> bool:
    """Return whether the rows of a part are not in memory, or can be read but once."""
    return not (isinstance(part, (pa.Table, pa.RecordBatch)) or type(part).__name__ == "DataFrame")


def _reader_of_part(part: Any, shown: str) -> pa.RecordBatchReader:
    """Return a reader of one part of the rows."""
    if isinstance(part, (list, tuple, str, Iterator, Mapping)) and not hasattr(part, "__arrow_c_stream__"):
        kind = type(part).__name__
        hint = "pass pyarrow.Table.from_pylist(rows)" if isinstance(part, Mapping) else _HINT
        raise InvalidArgumentError(f"{shown} gives values of type {kind}, which are no rows", hint=hint)
    try:
        return open_stream(part)
    except InvalidArgumentError as error:
        error.with_context(part=f"a {type(part).__name__} of {shown}")
        raise


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
    """Return a pandas data frame with all values of its sparse columns, which pyarrow does not take.

    Periods and intervals are refused: pyarrow makes numbers of them, which are no values of the column.
    """
    for name, kind in frame.dtypes.items():
        mended = _MENDED.get(type(kind).__name__)
        if mended is not None:
            raise InvalidArgumentError(
                f"the column {name!r} of the pandas data frame has the type {kind}, which no column of a table has",
                hint=f"convert it first, as by {mended.format(f'frame[{name!r}]')}",
            )
    sparse = {name: kind.subtype for name, kind in frame.dtypes.items() if type(kind).__name__ == "SparseDtype"}
    return frame.astype(sparse) if sparse else frame


def _rows_of_frame(data: Any, library: str, kind: str) -> pa.Table | None:
    """Return the rows of a pandas or Polars data frame; None for anything else."""
    if library == "pandas" and kind == "DataFrame":
        if not data.columns.is_unique:
            twice = data.columns[data.columns.duplicated()][0]
            raise InvalidArgumentError(
                f"the pandas data frame has two columns {twice!r}", hint="leave out or rename one of them"
            )
        return pa.Table.from_pandas(_dense(_with_index(data)), preserve_index=False).replace_schema_metadata(None)
    if library == "polars" and kind == "DataFrame":
        for name, held in data.schema.items():
            if type(held).__name__ == "Object":
                # What Polars hands over are the places of the objects in memory.
                raise InvalidArgumentError(
                    f"the column {name!r} of the Polars data frame holds objects of Python",
                    hint="give the column a type of Polars",
                )
        # Its stream has views of texts, which older releases of pyarrow cannot compute.
        return data.to_arrow()
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
    schema = reader.schema
    return pa.Table.from_batches((_same_types(_aligned(batch, schema), schema) for batch in _batches(reader)), schema)


def small_batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Return the rows of a reader in batches that are small enough to be counted and copied.

    Batches have the columns of the reader in their order, but may have other types: a part of the rows in which all
    values of a column are null has no type for it, and pandas makes doubles of integers where one is null.

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
    names, schema_names = batch.schema.names, schema.names
    if sorted(names) != sorted(schema_names):
        raise InvalidArgumentError(
            f"the batches of the rows differ in their columns: {', '.join(schema_names)}; {', '.join(names)}",
            hint="give all batches the same columns",
        )
    if names != schema_names and len(set(names)) == len(names):
        batch = batch.select(schema_names)
    return batch


def _same_types(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch whose columns have the types of the schema."""
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
