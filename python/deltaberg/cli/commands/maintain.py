"""Commands that write files of a table anew, or more of its metadata: checkpoint, compact, compact-log."""

from __future__ import annotations

from typing import Any

import click

from deltaberg.cli.commands.verb_commands import write_command
from deltaberg.cli.place import TablePlace
from deltaberg.cli.show.output import progress
from deltaberg.cli.show.results import print_done, state_of

__all__ = ["checkpoint", "compact", "compact_log"]

_NUMBERS = ("copied_rows", "added_files", "removed_files", "added_bytes", "removed_bytes")
_COUNT, _SHARE = click.IntRange(min=1), click.FloatRange(0, 1)


@write_command()
def checkpoint(place: TablePlace, as_json: bool) -> None:
    """Write a checkpoint of the newest version of a Delta table."""
    opened = place.open("delta")
    with progress(f"writing a checkpoint of {opened.location}"):
        made = opened.checkpoint()
    facts = {"version": made.version, "kind": made.kind, "files": list(made.files), "bytes": made.size}
    size = f"{', '.join(made.files)}, {made.size} bytes"
    print_done(opened.location, facts, as_json, ("version", made.version), ("kind", made.kind), ("files", size))


@write_command("CompactArguments")
@click.option("--where", "-w", metavar="SQL", help="Only files in which rows can match this condition.")
@click.option("--target-size", type=_COUNT, metavar="BYTES", help="Bytes of a new file, approximately.")
@click.option("--min-files", type=_COUNT, metavar="COUNT", help="How many files a new one stands for at least.")
@click.option("--max-deleted", type=_SHARE, metavar="SHARE", help="The share of deleted rows that may stay.")
@click.option("--group-size", type=_COUNT, metavar="BYTES", help="Bytes of the files that one commit replaces.")
@click.option("--max-concurrent", type=_COUNT, metavar="COUNT", help="How many files are written at a time.")
def compact(place: TablePlace, as_json: bool, arguments: dict[str, Any], **packing: Any) -> None:
    """Put small files of a table together, and drop deleted rows from files."""
    opened = place.open()
    arguments |= {name: value for name, value in packing.items() if value is not None}
    with progress(f"compacting {opened.location}"):
        result = opened.compact(**arguments)
    facts = {
        **state_of(opened, arguments.get("branch")),
        "commits": len(result.commits),
        "conflicts": len(result.conflicts),
        **{name: getattr(result, name) for name in _NUMBERS},
    }
    print_done(opened.location, facts, as_json)
    if result.conflicts:
        raise result.conflicts[0]


@write_command()
@click.option(
    "--first", type=click.IntRange(min=0), metavar="VERSION", help="The first; by default after a checkpoint."
)
@click.option("--last", type=click.IntRange(min=0), metavar="VERSION", help="The last; by default the newest version.")
def compact_log(place: TablePlace, as_json: bool, first: int | None, last: int | None) -> None:
    """Write one file that stands in for several log entries of a Delta table, which stay."""
    opened = place.open("delta")
    base = opened.base_checkpoint
    begin = first if first is not None else 0 if base is None else base.version + 1
    end = opened.version if last is None else last
    with progress(f"compacting the log of {opened.location}"):
        name = opened.compact_log(begin, end)
    facts = {"first": begin, "last": end, "file": name}
    print_done(opened.location, facts, as_json, ("versions", f"{begin} to {end}"), ("file", name))
