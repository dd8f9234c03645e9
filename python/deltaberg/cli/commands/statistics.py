"""The command that computes statistics: stats."""

from __future__ import annotations

from typing import Any

import click

from deltaberg.cli.commands.verb_commands import write_command
from deltaberg.cli.place import TablePlace
from deltaberg.cli.show.output import progress
from deltaberg.cli.show.results import print_done

__all__ = ["stats"]


@write_command()
@click.option("--snapshot-id", type=click.IntRange(min=0), metavar="SNAPSHOT_ID", help="By default the newest one.")
def stats(place: TablePlace, as_json: bool, snapshot_id: int | None) -> None:
    """Compute how many files and rows each partition of an Iceberg table has, and keep it beside the snapshot."""
    opened = place.open("iceberg")
    with progress(f"computing statistics of {opened.location}"):
        done = opened.compute_partition_stats(snapshot_id)
    facts: dict[str, Any] = {"snapshot_id": None, "path": None}
    if done is not None:
        names = ("snapshot_id", "path", "bytes", "partitions", "base_snapshot_id")
        facts = {name: getattr(done, name) for name in names}
        facts["committed"] = done.commit is not None
    print_done(opened.location, facts, as_json)
