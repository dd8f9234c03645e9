"""The commands that make another table of one, or prepare that: clone, copy-plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deltaberg.cli.commands.verb_commands import write_command
from deltaberg.cli.confirm import Question, asking_options, carry_out
from deltaberg.cli.place import TablePlace
from deltaberg.cli.show.output import print_lines, progress
from deltaberg.cli.show.results import print_done

if TYPE_CHECKING:
    from deltaberg import CloneResult

__all__ = ["clone", "copy_plan"]

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


@write_command()
@click.argument("source_prefix")
@click.argument("target_prefix")
@click.option("--start-version", metavar="NAME", help="The newest metadata file of an earlier copy.")
@click.option("--end-version", metavar="NAME", help="The metadata file that the copy ends with.")
@click.option("--staging-location", metavar="DIRECTORY", help="Where rewritten files wait until they are copied.")
def copy_plan(place: TablePlace, as_json: bool, source_prefix: str, target_prefix: str, **options: str | None) -> None:
    """Write the metadata of a copy of an Iceberg table, and a list of the files to copy with their targets."""
    opened = place.open("iceberg")
    with progress(f"planning a copy of {opened.location}"):
        plan = opened.rewrite_table_path(source_prefix, target_prefix, **options)
    names = (
        *("file_list_location", "metadata_location", "latest_version"),
        *("rewritten_manifests", "rewritten_delete_files"),
    )
    facts = {name: getattr(plan, name) for name in names}
    print_done(opened.location, {**facts, "files": len(plan.files)}, as_json)
