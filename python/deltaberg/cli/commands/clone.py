"""The commands clone and copy-plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deltaberg.cli.commands.verb_commands import write_command
from deltaberg.cli.confirm import Asking, Question, asking
from deltaberg.cli.dry_run import dry_run_option
from deltaberg.cli.options import pairs
from deltaberg.cli.place import TablePlace
from deltaberg.cli.show.output import progress
from deltaberg.cli.show.results import in_words, print_done, print_result

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
@click.option("--snapshot-id", type=click.IntRange(min=0), metavar="SNAPSHOT_ID", help="The snapshot (Iceberg).")
@click.option("--ref", metavar="NAME", help="The branch or the tag whose snapshot is cloned (Iceberg).")
@click.option("--timestamp", help="Clone the state that was the newest one at this time.")
@click.option("--target-catalog", metavar="NAME", help="TARGET is a name in this Iceberg catalog of the configuration.")
@click.option("--replace", is_flag=True, help="Make a table that is there the clone, whatever it was (Delta).")
@click.option("--property", "properties", multiple=True, callback=pairs, metavar="KEY=VALUE", help="A property of it.")
@asking(at=("snapshot_id", "ref"))
def clone(
    opened: Any, asking: Asking, arguments: dict[str, Any], target: str, target_catalog: str | None, **chosen: Any
) -> None:
    """Make another table of a state of one, at a location; a deep clone that is repeated copies what is new.

    What would be copied is shown first, and done after a question.
    """

    def show(result: CloneResult) -> None:
        version = result.commit.version if result.commit is not None and result.commit.committed else None
        facts = {"target": result.location, "state": result.state, "dry_run": result.dry_run, "version": version}
        asking.print(result, facts | {name: getattr(result, name) for name in _NUMBERS})

    if target_catalog is not None:
        from deltaberg import load_catalog

        arguments["catalog"] = load_catalog(target_catalog)
    asking.carry_out(
        "cloning",
        lambda dry_run, tell: opened.clone(target, dry_run=dry_run, progress=tell, **chosen, **arguments),
        show,
        lambda planned: Question(f"Clone {opened.location}?", [in_words(planned)], "nothing was written"),
    )


@write_command()
@click.argument("source_prefix")
@click.argument("target_prefix")
@click.option("--start-version", metavar="NAME", help="The newest metadata file of an earlier copy.")
@click.option("--end-version", metavar="NAME", help="The metadata file that the copy ends with.")
@click.option("--staging-location", metavar="DIRECTORY", help="Where rewritten files wait until they are copied.")
@dry_run_option
def copy_plan(
    place: TablePlace, as_json: bool, source_prefix: str, target_prefix: str, dry_run: bool, **options: str | None
) -> None:
    """Write the metadata of a copy of an Iceberg table, and a list of the files to copy with their targets."""
    opened = place.open("iceberg")
    if dry_run:
        facts = {"snapshots": len(opened.snapshots), "data_files": len(opened.inspect("all_data_files"))}
        print_result(opened.location, facts, as_json)
        return
    with progress(f"planning a copy of {opened.location}"):
        plan = opened.rewrite_table_path(source_prefix, target_prefix, **options)
    names = (
        *("file_list_location", "metadata_location", "latest_version"),
        *("rewritten_manifests", "rewritten_delete_files"),
    )
    facts = {name: getattr(plan, name) for name in names}
    print_done(opened.location, {**facts, "files": len(plan.files)}, as_json)
