"""The command that rewrites the delete files of Iceberg tables: rewrite-deletes."""

from __future__ import annotations

from typing import Any

import click

from deltaberg.cli.commands.verb_commands import given, write_command
from deltaberg.cli.dry_run import dry_run_option
from deltaberg.cli.place import TablePlace
from deltaberg.cli.show.output import progress
from deltaberg.cli.show.results import in_words, print_done, state_of

__all__ = ["rewrite_deletes"]

_NUMBERS = ("removed_files", "added_files", "removed_bytes", "added_bytes", "data_files")


@write_command("RewriteArguments")
@click.option("--where", "-w", metavar="SQL", help="Only deletes of rows of files in which rows can match.")
@click.option("--only", type=click.Choice(["equality", "position"]), help="One kind of delete files; by default both.")
@click.option("--min-files", type=click.IntRange(min=2), metavar="COUNT", help="How many are joined at least.")
@click.option(
    "--all", "rewrite_all", is_flag=True, default=None, help="Join position delete files whatever their number."
)
@dry_run_option
def rewrite_deletes(
    place: TablePlace,
    as_json: bool,
    arguments: dict[str, Any],
    where: str | None,
    only: str | None,
    dry_run: bool,
    **joining: Any,
) -> None:
    """Turn equality deletes of an Iceberg table into positions, and join small position delete files."""
    opened = place.open("iceberg")
    arguments |= {"where": where, "dry_run": dry_run}
    done = {}
    with progress(f"rewriting delete files of {opened.location}") as tell:
        arguments["progress"] = tell
        if only != "position":
            done["equality deletes"] = opened.convert_equality_deletes(**arguments)
        if only != "equality":
            done["position deletes"] = opened.rewrite_position_delete_files(**arguments, **given(joining))
    numbers = {kind.replace(" ", "_"): {name: getattr(one, name) for name in _NUMBERS} for kind, one in done.items()}
    facts = {**state_of(opened, arguments.get("branch")), "dry_run": dry_run, **numbers}
    print_done(opened.location, facts, as_json, *((kind, in_words(one)) for kind, one in done.items()))
