"""CSV as rows with the types of a table."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, NamedTuple

from deltaberg.cli.rows.csv_text import CsvText
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value

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


def open_csv_rows(
    source: str | IO[bytes], columns: pa.Schema | None, form: CsvForm, *, casts: bool = False
) -> pa.RecordBatchReader:
    """Return the rows of a CSV file, whose first line names the columns unless the form says otherwise.

    Parameters
    ----------
    source
        The path of a file, or a stream.
    columns
        The columns of a table, as whose types those of the file are read; None to infer them from the first rows. Dates
        and timestamps are read as text: the write converts it, and knows its zone and how many digits are kept.
    casts
        Whether the write also casts texts to all other types.

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
    _check_characters({"delimiter": delimiter, "quote": quote, "escape": form.escape or ""})
    stream = pa.input_stream(source, compression="detect") if isinstance(source, str) else source
    text = CsvText(stream, form.encoding, delimiter, quote, form.escape or "")
    parse = csv.ParseOptions(
        delimiter=delimiter, quote_char=quote or False, escape_char=form.escape or False, newlines_in_values=True
    )
    names = names or _first_row(text.beginning, delimiter, form)
    _check_delimiter(names, form)
    # In a single column, a line with nothing is a row, as it has an empty field.
    parse.ignore_empty_lines = len(names) != 1
    read = csv.ReadOptions(column_names=form.header or (names if form.no_header else None))
    types = None if columns is None else _plain(columns)
    texts = {child.name for child in types or () if _is_read_as_text(child.type, casts)}
    if types is not None:
        types = pa.schema([child.with_type(pa.string()) if child.name in texts else child for child in types])
    convert = csv.ConvertOptions(
        column_types=types,
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
            for batch in rows:
                yield _without_blanks(batch, texts)
        except pa.ArrowInvalid as error:
            raise _naming_column(error, names) from None

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def _check_characters(characters: dict[str, str]) -> None:
    """Refuse one character that has two meanings."""
    for (one, text), (other, same) in itertools.combinations(characters.items(), 2):
        if text and text == same:
            doubled = "leave out --escape: a quote that is doubled is a part of a field"
            hint = doubled if (one, other) == ("quote", "escape") else "pass two characters"
            raise InvalidArgumentError(f"--{one} and --{other} are both {text}", hint=hint)


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


def _check_delimiter(names: list[str], form: CsvForm) -> None:
    """Refuse a first row that is one field, and would be several with another delimiter."""
    others = {"';'": ";", "tab": "\t", "'|'": "|"}
    typed = next((name for name, one in others.items() if len(names) == 1 and one in names[0]), None)
    if typed is not None and form.delimiter is None:
        raise InvalidArgumentError(
            f"the first line is a single field: {shown_value(names[0])}",
            hint=f"pass --delimiter {typed}, or --delimiter ',' if that is a name",
        )


def _naming_column(error: Exception, names: list[str]) -> Exception:
    """Return an error that calls the column by its name, which pyarrow calls by its number."""
    import pyarrow as pa

    numbered = _NUMBERED.match(str(error))
    if numbered is None or int(numbered[1]) >= len(names):
        return error
    kind = "" if numbered[2] is None else f" of the type {numbered[2]}"
    named: Exception = pa.ArrowInvalid(f"column {names[int(numbered[1])]!r}{kind}: {numbered[3]}")
    return named


def _is_read_as_text(kind: pa.DataType, casts: bool) -> bool:
    import pyarrow as pa

    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return True
    return casts and (pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_primitive(kind))


def _without_blanks(batch: pa.RecordBatch, names: AbstractSet[str]) -> pa.RecordBatch:
    """Return rows whose texts that stand for other values have no blanks around them, and a null where nothing is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = {name: batch.column(name) for name in batch.schema.names}
    for name in names & columns.keys():
        text = pc.utf8_trim_whitespace(columns[name])
        columns[name] = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    return pa.record_batch(list(columns.values()), batch.schema) if names else batch


def _plain(columns: pa.Schema) -> pa.Schema:
    """Return the columns that text can hold, without lists, maps and structs."""
    import pyarrow as pa

    return pa.schema([child for child in columns if not pa.types.is_nested(child.type)])
