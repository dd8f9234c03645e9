"""The commands publish and cherry-pick, which bring snapshots to a branch of an Iceberg table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deltaberg.cli.commands.verb_commands import verb

if TYPE_CHECKING:
    from deltaberg import CommitResult, IcebergTable

__all__ = ["cherry_pick", "publish"]


@verb("publishing a snapshot of", "CommitArguments", format="iceberg")
@click.argument("wap_id")
def publish(table: IcebergTable, arguments: dict[str, Any], wap_id: str) -> CommitResult:
    """Make a snapshot that was staged under a wap.id a part of an Iceberg table."""
    return table.publish(wap_id, **arguments)


@verb("picking a snapshot of", "CommitArguments", format="iceberg")
@click.argument("snapshot_id", type=click.IntRange(min=0))
def cherry_pick(table: IcebergTable, arguments: dict[str, Any], snapshot_id: int) -> CommitResult:
    """Make a snapshot of another branch, or of none, a part of an Iceberg table."""
    return table.cherrypick_snapshot(snapshot_id, **arguments)
