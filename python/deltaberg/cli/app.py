"""The command group."""

from __future__ import annotations

import warnings
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from deltaberg._version import __version__
from deltaberg.cli.command_table import COMMANDS
from deltaberg.cli.endings import ENDINGS, endings

__all__ = ["cli"]

#: What other tools call a command.
_ALIASES = {"optimize": "compact"}
#: What people call commands whose names they do not know yet.
_WORDS = {
    **dict.fromkeys(("cat", "query", "read", "select", "show", "sql"), "head"),
    **dict.fromkeys(("describe", "detail", "info"), "inspect"),
    **dict.fromkeys(("import", "insert", "load", "write"), "append"),
    **dict.fromkeys(("list", "ls"), "files"),
    **dict.fromkeys(("columns", "types"), "schema"),
    **dict.fromkeys(("log", "snapshots", "versions"), "history"),
    **dict.fromkeys(("remove", "rm"), "delete"),
    **dict.fromkeys(("follow", "watch"), "tail"),
    **dict.fromkeys(("explain",), "plan"),
    **dict.fromkeys(("purge",), "reorg"),
    **dict.fromkeys(("rollback", "undo"), "restore"),
    **dict.fromkeys(("clean", "gc"), "maintain"),
    "drop": "drop-table",
}


class _Commands(click.Group):
    """The commands of the registry, whose errors and exit codes are ours instead of click's."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the registry."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its own name, or by the name that other tools give it."""
        cmd_name = _ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(
            import_module(f"deltaberg.cli.commands.{COMMANDS[cmd_name]}"), cmd_name.replace("-", "_")
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name, or say which names are near."""
        names = [*COMMANDS, *_ALIASES]
        near = (
            []
            if not args or args[0] in names
            else [_WORDS[args[0]]]
            if args[0] in _WORDS
            else get_close_matches(args[0], names)
        )
        if near and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(near)}?")
        return super().resolve_command(ctx, args)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments before the command. Help and version are answered here."""
        with endings():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and flush its output."""
        with endings(ctx), warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show
            return super().invoke(ctx)


def _show(message: Warning | str, *_place: object, **_further: object) -> None:
    """Print a warning of the library, whose place in the code tells nobody anything."""
    click.echo(f"deltaberg: warning: {message}", err=True)


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning, _ in ENDINGS)}, 1 any other error.",
)
@click.version_option(__version__, prog_name="deltaberg")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Inspect and write Delta Lake and Apache Iceberg tables.

    TABLE is a directory or the URL of one, such as s3://bucket/orders. With --catalog, it is the name of a table,
    such as sales.orders.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
