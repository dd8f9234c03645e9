"""The command restore, which sets a table back to an older state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deltaberg.cli.commands.verb_commands import write_command
from deltaberg.cli.confirm import Asking, Question, asking
from deltaberg.cli.show.results import in_words

if TYPE_CHECKING:
    from deltaberg import RestoreResult

__all__ = ["restore"]

_NUMBERS = ("restored_files", "restored_bytes", "removed_files", "removed_bytes")


@write_command("RecordedArguments")
@click.argument("target", metavar="VERSION|SNAPSHOT_ID|TIME")
@click.option("--ignore-missing-files", is_flag=True, help="Do without the rows of files that are gone (Delta).")
@click.option("--unsafe-expired", is_flag=True, help="Restore files, too, that a vacuum may be deleting (Delta).")
@asking()
def restore(opened: Any, asking: Asking, arguments: dict[str, Any], target: str, **flags: bool) -> None:
    """Set a table back to a version, a snapshot or a time, by a new commit; the history stays.

    What would be done is shown first, and done after a question.
    """
    state = int(target) if target.isascii() and target.isdigit() else target

    def show(result: RestoreResult) -> None:
        counts = {name: getattr(result, name) for name in _NUMBERS}
        version = result.commit.version if result.commit is not None and result.commit.committed else None
        facts = {"state": result.state, "dry_run": result.dry_run, "version": version, **counts}
        asking.print(result, {**facts, "missing_files": result.missing_files})

    asking.carry_out(
        "restoring",
        lambda dry_run, tell: opened.restore(state, dry_run=dry_run, progress=tell, **flags, **arguments),
        show,
        lambda planned: Question(f"Set {opened.location} back?", [in_words(planned)]),
    )
