"""The options that say how the files of a command are read."""

from __future__ import annotations

import codecs
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from deltaberg.cli.options import column_names
from deltaberg.cli.rows.csv_rows import EMPTY_FIELDS, CsvForm
from deltaberg.cli.rows.files import FORMATS
from deltaberg.hints import shown_value

__all__ = ["FileReading", "file_options"]


class FileReading(NamedTuple):
    """How files are read: arguments of `open_row_files`."""

    format: str | None
    csv: CsvForm


def _character(_context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """Return one character, or none, that would end lines nowhere."""
    text = {"tab": "\t", "\\t": "\t"}.get(text or "", text)
    if text is not None and (len(text) > 1 or not text.isascii() or text in ("\n", "\r")):
        raise click.BadParameter("it is not one character of ASCII", param=parameter)
    if text == "" and parameter.name == "delimiter":
        raise click.BadParameter("it is empty", param=parameter)
    return text


def _encoding(_context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    try:
        if name is None:
            return None
        # Some codecs, such as base64, make no text of bytes.
        "".encode(name)
        codecs.getincrementaldecoder(name)
        return codecs.lookup(name).name
    except (LookupError, UnicodeError):
        raise click.BadParameter(f"there is no encoding {shown_value(name)}", param=parameter) from None


def _header(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[str, ...]:
    return tuple(column_names(context, parameter, text) or ())


_CSV = (
    click.option(
        "--delimiter", metavar="CHAR", callback=_character, help="CSV: what separates fields, such as ; or tab."
    ),
    click.option(
        "--header", metavar="NAMES", callback=_header, help="CSV: the columns of files that do not name them."
    ),
    click.option("--no-header", is_flag=True, help="CSV: the first line is a row, of the columns of the table."),
    click.option("--quote", metavar="CHAR", callback=_character, help="CSV: what surrounds fields; '' for nothing."),
    click.option("--escape", metavar="CHAR", callback=_character, help="CSV: what takes the meaning of a character."),
    click.option("--encoding", metavar="NAME", callback=_encoding, help="CSV: such as latin-1; utf-8 by default."),
    click.option("--null", multiple=True, metavar="TEXT", help="CSV: what stands for null, too; may be repeated."),
    click.option(
        "--empty-fields",
        type=click.Choice(EMPTY_FIELDS),
        help="CSV: what an empty field of a column of text is; null by default.",
    ),
)
_FORMAT = click.option(
    "--format",
    "files_format",
    type=click.Choice(FORMATS),
    help="The format of the files; by default their names tell it.",
)


def file_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say how files are read, as ``reading``."""

    @functools.wraps(function)
    def command(files_format: str | None, **options: Any) -> None:
        form = CsvForm(**{name: options.pop(name) for name in CsvForm._fields})
        function(reading=FileReading(files_format, form), **options)

    for option in (*reversed(_CSV), _FORMAT):
        command = option(command)
    return command
