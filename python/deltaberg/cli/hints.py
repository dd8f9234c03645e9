"""Errors in the words of the command line: the library says what to call, and who types commands needs the option."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click

from deltaberg.cli.command_table import COMMANDS
from deltaberg.errors import DeltabergError, in_words
from deltaberg.hints import Mark

__all__ = ["ELSEWHERE", "as_typed", "in_command_line"]

#: What is said behind an argument or a call that no command has.
ELSEWHERE = "in Python"
#: What commands have in the place of arguments, or of their values, besides parameters of the same names.
_WORDS = {
    "check": "--no-check",
    "collect_stats": "--no-stats",
    "data": "FILE",
    "except_cols": "--set",
    "format='delta'": "a command that takes Delta tables",
    "format='iceberg'": "a command that takes Iceberg tables",
    "location": "TABLE",
    "schema": "--column",
    "schema_mode='overwrite'": "--replace-schema",
    "set": "--set",
    "source": "FILE",
    "storage_options": "--storage-option",
    "target": "TABLE",
    "type": "-o type=TYPE",
    "uri": "-o uri=URI",
    "warehouse": "-o warehouse=WAREHOUSE",
    "when_matched": "--no-update",
    "when_not_matched": "--no-insert",
}
#: The commands for tables of the other format.
_OTHER_FORMAT = {
    "checkpoint": "rewrite-manifests",
    "cleanup-metadata": "expire",
    "compact-log": "rewrite-manifests",
    "expire": "vacuum",
    "orphans": "vacuum",
    "rewrite-deletes": "reorg",
    "rewrite-manifests": "checkpoint",
    "vacuum": "expire",
}
#: The commands that do what methods do, besides those of the same names.
_COMMANDS = {
    "cherrypick_snapshot": "cherry-pick",
    "compute_statistics": "stats",
    "inspect": "metadata",
    "rewrite_table_path": "copy-plan",
}


def in_command_line(error: DeltabergError, ctx: click.Context | None) -> None:
    """Have an error name options and commands in the place of arguments and calls.

    Parameters
    ----------
    ctx
        The context of the commands, which knows the command that was run; None to name no options.
    """
    parameters: dict[str, click.Parameter] = {}
    if ctx is not None and isinstance(ctx.command, click.Group) and ctx.invoked_subcommand is not None:
        command = ctx.command.get_command(ctx, ctx.invoked_subcommand)
        parameters = {one.name or "": one for one in ([] if command is None else command.get_params(ctx))}
    in_words(error, lambda mark: _of_other_format(ctx, mark) or as_typed(mark, parameters), ELSEWHERE)


def _of_other_format(ctx: click.Context | None, mark: str) -> str | None:
    """Return the command that does for tables of the other format what the one does that was run."""
    other = None if ctx is None or not mark.startswith("format=") else _OTHER_FORMAT.get(ctx.invoked_subcommand or "")
    return None if other is None else f"deltaberg {other} TABLE"


def as_typed(mark: str, parameters: Mapping[str, click.Parameter]) -> str | None:
    """Return what is typed in the place of an argument or a call; None if no command has it.

    Parameters
    ----------
    parameters
        What the command takes, by the arguments that it stands for.

    Examples
    --------
    >>> as_typed('alter().set({"a": "1"}).commit()', {}), as_typed("version=3", {})
    ('deltaberg alter TABLE set a=1', None)
    >>> as_typed("version=3", {"version": click.Option(["--version"])})
    '--version 3'
    """
    read = Mark.read(mark)
    if read.given is not None:
        return _command(read)
    value = _value(read.value) if read.value else None
    parameter = parameters.get(read.name)
    if isinstance(parameter, click.Option) and parameter.is_flag:
        if value is None or isinstance(value, bool) or value == parameter.flag_value:
            return ((value is False and parameter.secondary_opts) or parameter.opts)[0]
    elif parameter is not None:
        name = [parameter.opts[0]] if isinstance(parameter, click.Option) else []
        shown = "" if read.value is None else _typed(value) if read.value else parameter.metavar
        return " ".join([*name, *([shown] if shown else [])]) or parameter.human_readable_name
    word = _WORDS.get(f"{read.name}={value!r}", _WORDS.get(read.name))
    return word if value is None or word is None or "=" not in word else f"{word.partition('=')[0]}={_typed(value)}"


def _command(call: Mark) -> str | None:
    """Return the command that does what a call does, if there is one."""
    from deltaberg.cli.commands.alter import CHANGES

    words = [_typed(_value(one)) for one in call.given or ()]
    name = _COMMANDS.get(call.name, call.name.replace("_", "-"))
    if call.name == "load_catalog":
        return "--catalog NAME"
    if call.of == "alter()":
        return " ".join(("deltaberg alter TABLE", name, *(words or [CHANGES[name].form]))) if name in CHANGES else None
    return " ".join(("deltaberg", name, "TABLE", *words)) if name in COMMANDS else None


def _value(given: str) -> Any:
    """Return a value that is written as in Python; a name stands for what is typed in its place."""
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.literal_eval(given)
    return given.upper()


def _typed(value: Any) -> str:
    """Return what is typed for a value."""
    pairs = value.items() if isinstance(value, dict) else [value] if isinstance(value, tuple) else ()
    words = value if isinstance(value, list) else [f"{key}={one}" for key, one in pairs] or [value]
    return " ".join(shlex.quote(str(word).lower() if isinstance(word, bool) else str(word)) for word in words)
