"""The command that makes another table of a state of one: clone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deltaberg.cli.commands.verb_commands import write_command
from deltaberg.cli.confirm import Question, asking_options, carry_out
from deltaberg.cli.place import TablePlace
from deltaberg.cli.show.output import print_lines
from deltaberg.cli.show.results import print_done

if TYPE_CHECKING:
    from deltaberg import CloneResult

__all__ = ["clone"]

_NUMBERS = (
    *("source_files", "source_bytes", "copied_files", "copied_bytes", "found_files"),
    *("removed_files", "removed_bytes"),
)


@write_command("SingleCommitArguments")
@click.argument("target", metavar="TARGET")
@click.option("--shallow", is_flag=True, help="Name the files where they are, in place of copies (Delta).")
@click.option("--version", type=int, help="The version that is cloned (Delta).")
@click.option("--timestamp", help="Clone the state that was the newest one at this time.")
@click.option("--replace", is_flag=True, help="Make a table that is there the clone, whatever it was (Delta).")
@asking_options
def clone(
    place: TablePlace,
    as_json: bool,
    arguments: dict[str, Any],
    target: str,
    dry_run: bool,
    is_agreed: bool,
    **chosen: Any,
) -> None:
    """Make another table of a state of one, at a location; a deep clone that is repeated copies what is new.

    What would be copied is shown first, and done after a question.
    """
    opened = place.open()
    carry_out(
        opened.location,
        "cloning",
        lambda: opened.clone(target, dry_run=True, **chosen),
        lambda: opened.clone(target, **chosen, **arguments),
        lambda result: _print(opened.location, result, as_json),
        lambda planned: Question(f"Clone {opened.location}?", [str(planned)], "nothing was written"),
        dry_run=dry_run,
        is_agreed=is_agreed,
    )


def _print(location: str, result: CloneResult, as_json: bool) -> None:
    if not as_json:
        print_lines(f"{location}: {result}")
        return
    counts = {name: getattr(result, name) for name in _NUMBERS}
    version = result.commit.version if result.commit is not None and result.commit.committed else None
    facts = {"target": result.location, "state": result.state, "dry_run": result.dry_run, "version": version}
    print_done(location, {**facts, **counts}, as_json)
