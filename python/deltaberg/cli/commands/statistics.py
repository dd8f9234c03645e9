"""The command that computes statistics: stats."""

from __future__ import annotations

from typing import Any

import click

from deltaberg.cli.commands.verb_commands import write_command
from deltaberg.cli.dry_run import dry_run_option
from deltaberg.cli.options import columns_option
from deltaberg.cli.place import TablePlace
from deltaberg.cli.show.output import progress
from deltaberg.cli.show.results import print_done, print_result, state_of

__all__ = ["stats"]


@write_command("user_metadata", "isolation", "timezone", "unsafe_single_writer")
@click.option("--snapshot-id", type=click.IntRange(min=0), metavar="SNAPSHOT_ID", help="By default the newest one.")
@click.option("--where", "-w", metavar="SQL", help="Only files in which rows can match this condition.")
@click.option("--distinct", is_flag=True, help="Estimate instead how many distinct values each column has.")
@columns_option
@dry_run_option
def stats(
    place: TablePlace,
    as_json: bool,
    arguments: dict[str, Any],
    snapshot_id: int | None,
    where: str | None,
    distinct: bool,
    columns: list[str] | None,
    dry_run: bool,
) -> None:
    """Compute statistics: of the data files of a Delta table, or of the partitions of an Iceberg table.

    Those of data files are the bounds and counts of their columns (--where chooses files). Those of partitions are the
    numbers of their files and rows, which are kept beside a snapshot (--snapshot-id), as are estimated numbers of
    distinct values (--distinct, --columns).
    """
    from deltaberg import DeltaTable

    opened = place.open()
    if isinstance(opened, DeltaTable):
        if distinct or columns is not None or snapshot_id is not None:
            raise click.UsageError("--distinct, --columns and --snapshot-id apply to Iceberg tables only")
        if dry_run:
            print_result(opened.location, {**state_of(opened, None), "files": len(opened.scan(where).files())}, as_json)
        else:
            _compute_of_files(opened, as_json, where, arguments)
        return
    if where is not None or arguments.keys() - {"unsafe_single_writer"}:
        raise click.UsageError("--where, --timezone, --message and --isolation apply to Delta tables only")
    if dry_run:
        snapshot = opened.snapshot_id if snapshot_id is None else snapshot_id
        files = 0 if snapshot is None else len(place.open("iceberg", snapshot_id=snapshot).scan().files())
        print_result(opened.location, {"snapshot_id": snapshot, "files": files}, as_json)
        return
    names: tuple[str, ...] = ("ndv",)
    with progress(f"computing statistics of {opened.location}") as tell:
        if distinct or columns is not None:
            done = opened.compute_table_stats(columns, snapshot_id, **arguments, progress=tell)
        else:
            done, names = opened.compute_partition_stats(snapshot_id, **arguments), ("partitions", "base_snapshot_id")
    facts: dict[str, Any] = {"snapshot_id": None, "path": None}
    if done is not None:
        facts = {name: getattr(done, name) for name in ("snapshot_id", "path", "bytes", *names)}
        facts["committed"] = done.commit is not None
    print_done(opened.location, facts, as_json)


def _compute_of_files(opened: Any, as_json: bool, where: str | None, arguments: dict[str, Any]) -> None:
    with progress(f"computing statistics of {opened.location}") as tell:
        done = opened.compute_statistics(where, **arguments, progress=tell)
    files = {"files": done.metrics["numFilesRead"], "updated_files": done.metrics["numFilesUpdated"]}
    print_done(opened.location, {"version": done.version, **files, "committed": done.committed}, as_json)
