"""The command that sets a table back: restore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deltaberg.cli.commands.verb_commands import write_command
from deltaberg.cli.confirm import Question, asking_options, carry_out
from deltaberg.cli.place import TablePlace
from deltaberg.cli.show.output import print_lines
from deltaberg.cli.show.results import print_done

if TYPE_CHECKING:
    from deltaberg import RestoreResult

__all__ = ["restore"]

_NUMBERS = ("restored_files", "restored_bytes", "removed_files", "removed_bytes")


@write_command("RecordedArguments")
@click.argument("target", metavar="VERSION|SNAPSHOT_ID|TIME")
@click.option("--ignore-missing-files", is_flag=True, help="Do without the rows of files that are gone (Delta).")
@click.option("--unsafe-expired", is_flag=True, help="Restore files, too, that a vacuum may be deleting (Delta).")
@asking_options
def restore(
    place: TablePlace,
    as_json: bool,
    arguments: dict[str, Any],
    target: str,
    dry_run: bool,
    is_agreed: bool,
    **flags: bool,
) -> None:
    """Set a table back to a version, a snapshot or a time, by a new commit; the history stays.

    What would be done is shown first, and done after a question.
    """
    opened = place.open()
    state = int(target) if target.isascii() and target.isdigit() else target
    carry_out(
        opened.location,
        "restoring",
        lambda: opened.restore(state, dry_run=True, **flags),
        lambda: opened.restore(state, **flags, **arguments),
        lambda result: _print(opened.location, result, as_json),
        lambda planned: Question(f"Set {opened.location} back?", [str(planned)]),
        dry_run=dry_run,
        is_agreed=is_agreed,
    )


def _print(location: str, result: RestoreResult, as_json: bool) -> None:
    if not as_json:
        print_lines(f"{location}: {result}")
        return
    counts = {name: getattr(result, name) for name in _NUMBERS}
    version = result.commit.version if result.commit is not None and result.commit.committed else None
    facts = {"state": result.state, "dry_run": result.dry_run, "version": version, **counts}
    print_done(location, {**facts, "missing_files": result.missing_files}, as_json)
