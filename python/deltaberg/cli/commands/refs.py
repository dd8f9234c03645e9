"""The commands publish and cherry-pick, which bring snapshots to a branch of an Iceberg table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from deltaberg.cli.commands.verb_commands import verb
from deltaberg.cli.dry_run import unsent
from deltaberg.cli.show.results import state_of

if TYPE_CHECKING:
    from deltaberg import CommitResult, IcebergTable

__all__ = ["cherry_pick", "publish"]


#: What the summary of a snapshot says that it changes.
_NUMBERS = {
    "rows_to_insert": "added-records",
    "rows_to_delete": "deleted-records",
    "files_to_add": "added-data-files",
    "files_to_remove": "deleted-data-files",
}


def _picked(
    function: Callable[..., CommitResult],
    table: IcebergTable,
    arguments: dict[str, Any],
    *,
    wap_id: str | None = None,
    snapshot_id: int = 0,
) -> dict[str, Any]:
    """Return what a snapshot brings to a branch, if it fits there."""
    from deltaberg.iceberg.refs.cherry_pick import staged_snapshot

    metadata = table.metadata
    picked = metadata.snapshot_by_id(snapshot_id) if wap_id is None else staged_snapshot(metadata, wap_id)
    which = {"snapshot_id": snapshot_id} if wap_id is None else {"wap_id": wap_id}
    unsent(lambda policy: function(table, {**arguments, "policy": policy}, **which))
    numbers = {name: int(picked.summary.get(key, 0)) for name, key in _NUMBERS.items()}
    return {**state_of(table, arguments.get("branch")), "picked_snapshot_id": picked.snapshot_id, **numbers}


@verb("publishing a snapshot of", "CommitArguments", format="iceberg", previews=_picked)
@click.argument("wap_id")
def publish(table: IcebergTable, arguments: dict[str, Any], wap_id: str) -> CommitResult:
    """Make a snapshot that was staged under a wap.id a part of an Iceberg table."""
    return table.publish(wap_id, **arguments)


@verb("picking a snapshot of", "CommitArguments", format="iceberg", previews=_picked)
@click.argument("snapshot_id", type=click.IntRange(min=0))
def cherry_pick(table: IcebergTable, arguments: dict[str, Any], snapshot_id: int) -> CommitResult:
    """Make a snapshot of another branch, or of none, a part of an Iceberg table."""
    return table.cherrypick_snapshot(snapshot_id, **arguments)
