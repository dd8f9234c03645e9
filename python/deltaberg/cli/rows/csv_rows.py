"""CSV as rows with the types of a table."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, NamedTuple

from deltaberg.cli.rows.csv_text import CsvText
from deltaberg.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EMPTY_FIELDS", "CsvForm", "open_csv_rows"]

#: What becomes of an empty field of a column of text: a null, text, or text if it is in quotes and a null if not.
EMPTY_FIELDS = ("null", "text", "quoted-text")
#: How pyarrow names the column of a value that it cannot convert.
_NUMBERED = re.compile(r"^In CSV column #(\d+): (?:Row #\d+: )?(?:CSV conversion error to (.+?): )?(.*)", re.DOTALL)


class CsvForm(NamedTuple):
    """How CSV is written. Each field is the option of the command line of the same name.

    Parameters
    ----------
    delimiter
        What separates fields; None for a comma, or a tab if the name of a file ends with ``.tsv``.
    header
        The names of the columns, where the file does not give them.
    no_header
        Whether the first line is a row, of the columns of the table.
    quote
        What surrounds fields that contain delimiters or ends of lines; empty for nothing.
    escape
        What stands in front of a character that shall have no meaning.
    encoding
        The encoding, by a name that Python knows.
    null
        Texts that stand for null, besides nothing.
    empty_fields
        One of `EMPTY_FIELDS`.
    """

    delimiter: str | None = None
    header: tuple[str, ...] = ()
    no_header: bool = False
    quote: str | None = None
    escape: str | None = None
    encoding: str | None = None
    null: tuple[str, ...] = ()
    empty_fields: str | None = None

    @property
    def given(self) -> list[str]:
        """The options that say something."""
        return [f"--{name.replace('_', '-')}" for name, value in self._asdict().items() if value]


def open_csv_rows(source: str | IO[bytes], columns: pa.Schema | None, form: CsvForm) -> pa.RecordBatchReader:
    """Return the rows of a CSV file, whose first line names the columns unless the form says otherwise.

    Parameters
    ----------
    source
        The path of a file, or a stream.
    columns
        The columns of a table, as whose types those of the file are read; None to infer them from the first rows.

    Raises
    ------
    InvalidArgumentError
        Nothing gives the names of the columns, or two options exclude each other.
    """
    import pyarrow as pa
    from pyarrow import csv

    if form.null and form.empty_fields == "text":
        raise InvalidArgumentError("--null and --empty-fields text exclude each other", hint="leave out one of them")
    names = list(form.header)
    if form.no_header and not names:
        if columns is None:
            raise InvalidArgumentError("nothing gives the columns names", hint="pass --header NAMES")
        names = columns.names
    is_tabbed = isinstance(source, str) and ".tsv" in [ending.lower() for ending in PurePath(source).suffixes]
    delimiter = form.delimiter or ("\t" if is_tabbed else ",")
    quote = '"' if form.quote is None else form.quote
    if delimiter == quote:
        raise InvalidArgumentError(f"--delimiter and --quote are both {delimiter}", hint="pass two characters")
    stream = pa.input_stream(source, compression="detect") if isinstance(source, str) else source
    text = CsvText(stream, form.encoding, delimiter, quote, form.escape or "")
    parse = csv.ParseOptions(
        delimiter=delimiter, quote_char=quote or False, escape_char=form.escape or False, newlines_in_values=True
    )
    names = names or _first_row(text.beginning, delimiter, form)
    # In a single column, a line with nothing is a row, as it has an empty field.
    parse.ignore_empty_lines = len(names) != 1
    read = csv.ReadOptions(column_names=form.header or (names if form.no_header else None))
    convert = csv.ConvertOptions(
        column_types=None if columns is None else _plain(columns),
        # "NA" may be a country, and "NaN" is a number.
        null_values=["", *form.null],
        strings_can_be_null=form.empty_fields != "text",
        quoted_strings_can_be_null=form.empty_fields in (None, "null"),
    )
    try:
        rows = csv.open_csv(pa.PythonFile(text, "r"), read, parse, convert)
    except pa.ArrowInvalid as error:
        raise _naming_column(error, names) from None

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from rows
        except pa.ArrowInvalid as error:
            raise _naming_column(error, names) from None

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def _first_row(beginning: bytes, delimiter: str, form: CsvForm) -> list[str]:
    """Return the fields of the first row, which names the columns; none if it cannot be read."""
    import csv

    lines = io.StringIO(beginning.decode(errors="replace"), newline="")
    # The csv module surrounds fields with nothing if the mark occurs nowhere.
    quote = '"' if form.quote is None else form.quote or "\0"
    try:
        return next(csv.reader(lines, delimiter=delimiter, quotechar=quote, escapechar=form.escape or None), [])
    except csv.Error:
        # The file itself is read next, and says what is wrong with it.
        return []


def _naming_column(error: Exception, names: list[str]) -> Exception:
    """Return an error that calls the column by its name, which pyarrow calls by its number."""
    import pyarrow as pa

    numbered = _NUMBERED.match(str(error))
    if numbered is None or int(numbered[1]) >= len(names):
        return error
    kind = "" if numbered[2] is None else f" of the type {numbered[2]}"
    named: Exception = pa.ArrowInvalid(f"column {names[int(numbered[1])]!r}{kind}: {numbered[3]}")
    return named


def _plain(wanted: pa.Schema) -> pa.Schema:
    """Return the columns that text can hold, without lists, maps and structs."""
    import pyarrow as pa

    return pa.schema([child for child in wanted if not pa.types.is_nested(child.type)])
