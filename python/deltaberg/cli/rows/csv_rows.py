"""CSV as rows with the types of a table."""

from __future__ import annotations

from pathlib import PurePath
from typing import IO, TYPE_CHECKING, NamedTuple

from deltaberg.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EMPTY_FIELDS", "CsvForm", "open_csv_rows"]

#: What becomes of an empty field of a column of text: a null, text, or text if it is in quotes and a null if not.
EMPTY_FIELDS = ("null", "text", "quoted-text")


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


def open_csv_rows(source: str | IO[bytes], wanted: pa.Schema | None, form: CsvForm) -> pa.RecordBatchReader:
    """Return the rows of a CSV file, whose first line names the columns unless the form says otherwise.

    Parameters
    ----------
    source
        The path of a file, or a stream.
    wanted
        The columns of a table, as whose types those of the file are read; None to infer them from the first rows.

    Raises
    ------
    InvalidArgumentError
        Nothing gives the names of the columns, or two options exclude each other.
    """
    from pyarrow import csv

    if form.null and form.empty_fields == "text":
        raise InvalidArgumentError("--null and --empty-fields text exclude each other", hint="leave out one of them")
    names = list(form.header)
    if form.no_header and not names:
        if wanted is None:
            raise InvalidArgumentError("nothing gives the columns names", hint="pass --header NAMES")
        names = wanted.names
    is_tabbed = isinstance(source, str) and ".tsv" in [ending.lower() for ending in PurePath(source).suffixes]
    return csv.open_csv(
        source,
        csv.ReadOptions(column_names=names or None, encoding=form.encoding or "utf8"),
        csv.ParseOptions(
            delimiter=form.delimiter or ("\t" if is_tabbed else ","),
            quote_char='"' if form.quote is None else form.quote or False,
            escape_char=form.escape or False,
            newlines_in_values=True,
        ),
        csv.ConvertOptions(
            column_types=None if wanted is None else _plain(wanted),
            # "NA" may be a country, and "NaN" is a number.
            null_values=["", *form.null],
            strings_can_be_null=form.empty_fields != "text",
            quoted_strings_can_be_null=form.empty_fields in (None, "null"),
        ),
    )


def _plain(wanted: pa.Schema) -> pa.Schema:
    """Return the columns that text can hold, without lists, maps and structs."""
    import pyarrow as pa

    return pa.schema([child for child in wanted if not pa.types.is_nested(child.type)])
