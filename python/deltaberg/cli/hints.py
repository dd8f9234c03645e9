"""Errors in the words of the command line: the library says what to call, and who types commands needs the option."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import click

from deltaberg.errors import DeltabergError, in_words

__all__ = ["as_typed", "in_command_line"]

#: What commands have in the place of arguments and calls, besides the options of the same names. A mark that begins
#: with a comma is an alternative that only Python has, and is left out unless it stands here.
_WORDS = {
    'pass except_cols or schema_mode="merge"': "pass --merge-schema",
    'pass if_exists="ignore" or if_exists="replace"': "pass --if-exists ignore or --if-exists replace",
    'pass format="delta" or format="iceberg"': "open the Iceberg table by its metadata file, the Delta table in Python",
    " with open_table": ", without --catalog",
    "load_catalog": "--catalog NAME",
    "it by keyword: load_catalog('any name', uri": "--catalog NAME and -o uri=URI",
    "open it with format": "use a command for such tables",
    ", or pass check=False": ", or pass --no-check",
    "type": "-o type=",
    "warehouse": "-o warehouse=",
    "out of partition_by": "out of --partition-by",
    "uri": "-o uri=URI",
    "storage_options": "--storage-option",
    'schema_mode="overwrite"': "--replace-schema",
    'when_matched="ignore"': "--no-update",
    "when_matched": "--no-update",
    "when_not_matched": "--no-insert",
    "commit_properties": "--commit-property KEY=VALUE",
    "set_current_snapshot": "deltaberg alter TABLE set-current-snapshot",
}
#: The commands that do what methods do, besides those of the same names.
_COMMANDS = {"inspect": "metadata", "scan().files": "files", "cherrypick_snapshot": "cherry-pick", "history": "history"}


def in_command_line(error: DeltabergError, ctx: click.Context | None) -> None:
    """Have an error name options and commands in the place of arguments and calls.

    Parameters
    ----------
    ctx
        The context of the commands, which knows the command that was run; None to name no options.
    """
    options: dict[str, click.Option] = {}
    if ctx is not None and isinstance(ctx.command, click.Group) and ctx.invoked_subcommand is not None:
        command = ctx.command.get_command(ctx, ctx.invoked_subcommand)
        found = [] if command is None else command.get_params(ctx)
        options = {one.name or "": one for one in found if isinstance(one, click.Option)}
    in_words(error, lambda mark: as_typed(mark, options))


def as_typed(mark: str, options: Mapping[str, click.Option]) -> str:
    """Return the words that are typed in the place of an argument or a call.

    Parameters
    ----------
    options
        The options of the command, by the arguments that they stand for.

    Examples
    --------
    >>> as_typed('alter().set({"a": "1"}).commit()', {}), as_typed("version=3", {})
    ('deltaberg alter TABLE set a=1', 'version=3 in Python')
    >>> as_typed("version=3", {"version": click.Option(["--version"])})
    '--version 3'
    """
    name, equals, value = mark.partition("=")
    word = _WORDS.get(mark, "" if mark.startswith(",") else _WORDS.get(name))
    if word is not None:
        return word + _typed(value or name) if word.endswith("=") else word
    if mark.startswith("pass "):
        return f"pass {as_typed(mark[5:], options)}"
    option, call = options.get(name), _called(mark)
    if option is not None:
        shown = _typed(value) if value else option.metavar
        return f"{option.opts[0]} {shown}" if equals and not option.is_flag else option.opts[0]
    return (call and _command(*call)) or f"{mark} in Python"


def _called(mark: str) -> tuple[str, list[str]] | None:
    """Return the method that is called, and its arguments as they are written in Python; None for another text."""
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        call = ast.parse(mark.replace("…", "").removesuffix(".commit()"), mode="eval").body
        if isinstance(call, ast.Call):
            return ast.unparse(call.func).removeprefix("alter()."), [ast.unparse(one) for one in call.args]
    return None


def _command(method: str, given: Sequence[str]) -> str | None:
    """Return the command that does what a call does, if there is one."""
    from deltaberg.cli.commands.alter import CHANGES

    words = [_typed(one) for one in given]
    if method in _COMMANDS:
        return " ".join(("deltaberg", _COMMANDS[method], "TABLE", *words))
    if method == "alter":
        return "deltaberg alter TABLE"
    change = method.replace("_", "-")
    return (
        " ".join(("deltaberg alter TABLE", change, *(words or [CHANGES[change].form]))) if change in CHANGES else None
    )


def _typed(given: str) -> str:
    """Return the text that is typed for a Python value, or in the place of a name."""
    value: Any = given.upper()
    with suppress(SyntaxError, ValueError):
        value = ast.literal_eval(given)
    pairs = value.items() if isinstance(value, dict) else [value] if isinstance(value, tuple) else ()
    words = value if isinstance(value, list) else [f"{key}={one}" for key, one in pairs] or [value]
    return " ".join(shlex.quote(str(word)) for word in words)
