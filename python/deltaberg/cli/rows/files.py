"""Rows from files on the command line: Parquet, CSV, Arrow IPC and lines of JSON, also from standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, NamedTuple

from deltaberg.cli.rows.csv_rows import CsvForm, open_csv_rows
from deltaberg.cli.rows.json_rows import open_json_rows
from deltaberg.errors import InvalidArgumentError, ObjectNotFoundError
from deltaberg.whole_numbers import known_sum

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMATS", "STANDARD_INPUT", "RowFiles", "open_row_files"]

#: What stands for standard input among files.
STANDARD_INPUT = "-"
#: The endings of compressed CSV files, which are decompressed as they are read.
_COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4")

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


def open_row_files(
    paths: Sequence[str],
    format: str | None = None,
    columns: pa.Schema | None = None,
    csv: CsvForm | None = None,
    *,
    casts: bool = False,
) -> RowFiles:
    """Return the rows of files, one file after another. They are read as they are asked for.

    Parameters
    ----------
    paths
        Local files, and ``-`` for standard input.
    format
        One of `FORMATS`; None to go by the endings of the names.
    columns
        The columns of a table, as whose types CSV and JSON are read; None to infer them from the first rows.
    csv
        How CSV files are written, where that is not as usual.
    casts
        Whether what is done with the rows casts texts of CSV files to the types of the columns.

    Raises
    ------
    InvalidArgumentError
        The format of a file is not known, a file is damaged, or the columns of a file are not those of the first.
    ObjectNotFoundError
        There is no such file.
    """
    import pyarrow as pa

    form = CsvForm() if csv is None else csv
    if paths.count(STANDARD_INPUT) > 1:
        raise InvalidArgumentError("standard input can be read once only", hint="pass one - among the files")
    opened = [_open(path, format or _format_of(path), columns, form, casts) for path in paths]
    schema = opened[0].reader.schema
    for path, one in zip(paths, opened, strict=True):
        if one.reader.schema != schema:
            raise InvalidArgumentError(
                f"the columns of {_named(path)} are not those of {_named(paths[0])}", hint="write the files one by one"
            )

    def batches() -> Iterator[pa.RecordBatch]:
        for path, one in zip(paths, opened, strict=True):
            try:
                yield from one.reader
            except (pa.ArrowInvalid, UnicodeError) as error:
                raise _damaged(path, error) from None
            except InvalidArgumentError as error:
                raise error.with_context(file=_named(path)) from None

    return RowFiles(pa.RecordBatchReader.from_batches(schema, batches()), known_sum(one.rows for one in opened))


def _format_of(path: str) -> str:
    names = [ending.lower() for ending in PurePath(path).suffixes]
    kind = _ENDINGS.get(names[-1]) if names else None
    if kind is None and names[-2:-1] and names[-1] in _COMPRESSIONS and _ENDINGS.get(names[-2]) == "csv":
        return "csv"
    if kind is None:
        why = "standard input has no name that shows its format" if path == STANDARD_INPUT else None
        raise InvalidArgumentError(
            why or f"the name of {path} does not show its format", hint=f"pass --format, one of {', '.join(FORMATS)}"
        )
    return kind


def _named(path: str) -> str:
    return "standard input" if path == STANDARD_INPUT else path


def _damaged(path: str, error: Exception) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{_named(path)} cannot be read: {error}", hint="check the file, --format, and how CSV is read"
    )


def _open(path: str, format: str, columns: pa.Schema | None, csv: CsvForm, casts: bool) -> RowFiles:
    import pyarrow as pa

    if format != "csv" and csv != CsvForm():
        raise InvalidArgumentError(
            f"{_named(path)} is no CSV file", hint=f"leave out {', '.join(csv.given)}, or pass --format csv"
        )
    try:
        if format == "csv":
            source = sys.stdin.buffer if path == STANDARD_INPUT else path
            return RowFiles(open_csv_rows(source, columns, csv, casts=casts), None)
        # The other formats are read in several places, or twice.
        place = _spooled(sys.stdin.buffer) if path == STANDARD_INPUT else path
        if format == "parquet":
            return _open_parquet(place)
        if format == "json":
            return RowFiles(open_json_rows(place, columns), None)
        return _open_arrow(place)
    except FileNotFoundError:
        raise ObjectNotFoundError(f"there is no file {path}", hint="check the path") from None
    except (pa.ArrowInvalid, UnicodeError) as error:
        raise _damaged(path, error) from None
    except InvalidArgumentError as error:
        raise error.with_context(file=_named(path)) from None


def _spooled(stream: IO[bytes]) -> str:
    """Return the path of a file that holds what a stream gives, until the command ends."""
    import shutil
    import tempfile

    import click

    folder = tempfile.TemporaryDirectory(prefix="deltaberg-")
    click.get_current_context().call_on_close(folder.cleanup)
    with open(f"{folder.name}/rows", "wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
    return file.name


def _open_parquet(path: str) -> RowFiles:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    reader = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
    return RowFiles(reader, file.metadata.num_rows)


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
