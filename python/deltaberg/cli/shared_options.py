"""The options that are arguments of the library, each declared once.

A command names the arguments that it takes, by a typed dictionary of the library or one by one, and has an option for
each of them that can be said in a command line. It passes on those that were given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, get_args

import click

from deltaberg import choices
from deltaberg.cli.options import pairs
from deltaberg.table.verbs import shared_arguments as arguments
from deltaberg.whole_numbers import whole_number

__all__ = ["given_arguments", "options_of"]


class _Spelling(NamedTuple):
    """How an argument is given: the names of its option, and what `click.Option` takes beside them."""

    names: tuple[str, ...]
    settings: Mapping[str, Any]


def _as(*names: str, **settings: Any) -> _Spelling:
    return _Spelling(names, settings)


def _word(name: str, words: Any, help: str) -> _Spelling:
    return _as(name, type=click.Choice(get_args(words)), help=help)


def _bytes(name: str, help: str) -> _Spelling:
    return _as(name, type=click.IntRange(min=1), metavar="BYTES", help=help)


def _progress(_: click.Context, parameter: click.Parameter, text: str | None) -> tuple[str, int] | None:
    """Return an application and its version."""
    if text is None:
        return None
    application, _equals, number = text.rpartition("=")
    version = whole_number(number, 0)
    if not application or version is None:
        raise click.BadParameter("it is not of the form APP=VERSION", param=parameter)
    return application, version


_CODEC = "The codec of data files; by default as the table says."
_STRATEGY = "By hiding rows, or by writing files anew; by default as the table says, or anew for overwrites of Iceberg."
_TXN = "The progress of an application; nothing is written twice for it."
_PROPERTY = "What the history says of the commit besides; may be repeated."
_SINGLE = "Write to a store in which two writers would overwrite one another, if nobody else does."
#: The option of each argument, in the order of the help text.
_SPELLINGS: Mapping[str, _Spelling] = {
    "format": _word("--table-format", choices.Format, "The format; delta by default."),
    "if_exists": _word("--if-exists", choices.IfExists, "What becomes of one that is there; error by default."),
    "mode": _word("--if-exists", choices.ConvertMode, "What becomes of one that is there; error by default."),
    "schema_mode": _as("--merge-schema", flag_value="merge", help="Add columns that the table lacks."),
    "timezone": _as("--timezone", metavar="ZONE", help="The zone of timestamps without one."),
    "allow_truncation": _as("--allow-truncation", is_flag=True, help="Cut off what is smaller than a column holds."),
    "safe": _as("--safe/--no-safe", default=True, help="Refuse values that do not fit, or cast them as Spark does."),
    "source_alias": _as("--source-alias", metavar="NAME", help="What SQL calls the files; source by default."),
    "target_alias": _as("--target-alias", metavar="NAME", help="What SQL calls the table; target by default."),
    "strategy": _word("--strategy", choices.Strategy, _STRATEGY),
    "memory": _bytes("--memory", "Bytes of rows and keys that are held in memory, approximately."),
    "target_file_size": _bytes("--target-file-size", "Bytes of a data file, approximately."),
    "compression": _word("--compression", choices.Compression, _CODEC),
    "txn": _as("--txn", callback=_progress, metavar="APP=VERSION", help=_TXN),
    "user_metadata": _as("--message", "-m", metavar="TEXT", help="Text that the history keeps (Delta)."),
    "properties": _as("--commit-property", multiple=True, callback=pairs, metavar="KEY=VALUE", help=_PROPERTY),
    "branch": _as("--branch", metavar="NAME", help="Write to this branch (Iceberg)."),
    "isolation": _word("--isolation", choices.Isolation, "What others may commit meanwhile; by default the table's."),
    "unsafe_single_writer": _as("--unsafe-single-writer", is_flag=True, help=_SINGLE),
}


def _taken(names: Iterable[str]) -> list[str]:
    """Return the arguments that have options, of typed dictionaries of the library and of those that are named."""
    taken: set[str] = set()
    for name in names:
        taken.update(getattr(arguments, name).__annotations__ if hasattr(arguments, name) else (name,))
    return [name for name in _SPELLINGS if name in taken]


def options_of(names: Iterable[str]) -> list[click.Parameter]:
    """Return the options of arguments.

    Parameters
    ----------
    names
        Arguments, or typed dictionaries of `deltaberg.table.verbs.shared_arguments`.
    """
    return [click.Option([*_SPELLINGS[name].names, name], **_SPELLINGS[name].settings) for name in _taken(names)]


def given_arguments(names: Iterable[str], options: dict[str, Any]) -> dict[str, Any]:
    """Take the arguments out of the options of a command, without those that were not given."""
    found = {name: options.pop(name) for name in _taken(names)}
    unsaid = {name: _SPELLINGS[name].settings.get("default", False) for name in found}
    return {name: value for name, value in found.items() if value not in (None, {}) and value is not unsaid[name]}
