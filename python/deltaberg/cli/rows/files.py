"""Rows from files on the command line: Parquet, CSV, Arrow IPC and lines of JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from deltaberg.cli.rows.json_rows import open_json_rows
from deltaberg.errors import InvalidArgumentError, ObjectNotFoundError
from deltaberg.whole_numbers import known_sum

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMATS", "RowFiles", "open_row_files"]

#: The formats by the endings of names.
_ENDINGS = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".arrow", ".feather", ".ipc", ".arrows"), "arrow"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
}
FORMATS = ("parquet", "csv", "arrow", "json")


class RowFiles(NamedTuple):
    """The rows of files, and their number if the files tell it."""

    reader: pa.RecordBatchReader
    rows: int | None


def open_row_files(paths: Sequence[str], format: str | None, columns: pa.Schema | None = None) -> RowFiles:
    """Return the rows of files, one file after another. They are read as they are asked for.

    Parameters
    ----------
    paths
        Local files.
    format
        One of `FORMATS`; None to go by the endings of the names.
    columns
        The columns of a table, as whose types CSV and JSON are read; None to infer them from the first rows.

    Raises
    ------
    InvalidArgumentError
        The format of a file is not known, a file is damaged, or the columns of a file are not those of the first.
    ObjectNotFoundError
        There is no such file.
    """
    import pyarrow as pa

    opened = [_open(path, format or _format_of(path), columns) for path in paths]
    schema = opened[0].reader.schema
    for path, one in zip(paths, opened, strict=True):
        if one.reader.schema != schema:
            raise InvalidArgumentError(
                f"the columns of {path} are not those of {paths[0]}", hint="write the files one by one"
            )

    def batches() -> Iterator[pa.RecordBatch]:
        for path, one in zip(paths, opened, strict=True):
            try:
                yield from one.reader
            except pa.ArrowInvalid as error:
                raise _damaged(path, error) from None

    return RowFiles(pa.RecordBatchReader.from_batches(schema, batches()), known_sum(one.rows for one in opened))


def _format_of(path: str) -> str:
    found = _ENDINGS.get(PurePath(path).suffix.lower())
    if found is None:
        raise InvalidArgumentError(
            f"the name of {path} does not show its format", hint=f"pass --format, one of {', '.join(FORMATS)}"
        )
    return found


def _damaged(path: str, error: Exception) -> InvalidArgumentError:
    return InvalidArgumentError(f"{path} cannot be read: {error}", hint="check the file, and --format")


def _open(path: str, format: str, wanted: pa.Schema | None) -> RowFiles:
    import pyarrow as pa

    try:
        if format == "parquet":
            return _open_parquet(path)
        if format == "csv":
            return RowFiles(_open_csv(path, wanted), None)
        if format == "json":
            return RowFiles(open_json_rows(path, wanted), None)
        return _open_arrow(path)
    except FileNotFoundError:
        raise ObjectNotFoundError(f"there is no file {path}", hint="check the path") from None
    except pa.ArrowInvalid as error:
        raise _damaged(path, error) from None


def _open_parquet(path: str) -> RowFiles:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    reader = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
    return RowFiles(reader, file.metadata.num_rows)


def _open_csv(path: str, wanted: pa.Schema | None) -> pa.RecordBatchReader:
    from pyarrow import csv

    delimiter = "\t" if PurePath(path).suffix.lower() == ".tsv" else ","
    return csv.open_csv(
        path,
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(column_types=None if wanted is None else _plain(wanted)),
    )


def _plain(wanted: pa.Schema) -> pa.Schema:
    """Return the columns that text can hold, without lists, maps and structs."""
    import pyarrow as pa

    return pa.schema([child for child in wanted if not pa.types.is_nested(child.type)])


def _open_arrow(path: str) -> RowFiles:
    import pyarrow as pa

    source = pa.memory_map(path)
    try:
        file = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return RowFiles(pa.ipc.open_stream(source), None)
    batches = (file.get_batch(number) for number in range(file.num_record_batches))
    return RowFiles(pa.RecordBatchReader.from_batches(file.schema, batches), None)
