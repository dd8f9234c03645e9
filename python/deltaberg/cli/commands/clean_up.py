"""Commands that delete files which nothing needs: vacuum, cleanup-metadata, expire, orphans, drop-table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from deltaberg.cli.commands.verb_commands import given, write_command
from deltaberg.cli.confirm import Asking, Question, asking, asking_options
from deltaberg.cli.place import TablePlace
from deltaberg.cli.rows.files import open_row_files
from deltaberg.cli.show.results import in_words
from deltaberg.whole_numbers import counted

if TYPE_CHECKING:
    from deltaberg import CleanupResult

__all__ = ["cleanup_metadata", "drop_table", "expire", "orphans", "vacuum"]

#: The exit code where files stay that should have gone.
_NOT_DELETED = 1
#: What metadata has no more, of those results that say so.
_FORGOTTEN = ("snapshot_ids", "refs", "schema_ids", "spec_ids")
#: What else a result says.
_MORE = (*_FORGOTTEN, "first_version")


@write_command("user_metadata", "unsafe_single_writer")
@click.option("--retention-hours", type=click.FloatRange(min=0), metavar="HOURS", help="How long removed files stay.")
@click.option(
    "--no-retention-check",
    "enforce_retention_duration",
    flag_value=False,
    default=None,
    help="Take a retention that is shorter than the table's.",
)
@click.option("--lite", "full", flag_value=False, default=None, help="Only files that the log names; list nothing.")
@click.option(
    "--keep-version",
    "keep_versions",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="VERSION",
    help="A version that must stay readable; can be given several times.",
)
@click.option(
    "--untracked-hours",
    type=click.FloatRange(min=0),
    metavar="HOURS",
    help="How old files must be that no version names; 24 by default.",
)
@click.option(
    "--inventory", metavar="FILE", help="Rows of path, length, isDir and modificationTime, in place of a listing."
)
@click.option(
    "--logging/--no-logging",
    default=None,
    help="Record the beginning and the end as versions; by default they are, except on S3.",
)
@asking("delta")
def vacuum(opened: Any, asking: Asking, arguments: dict[str, Any], **options: Any) -> None:
    """Delete the files of a Delta table that no version within the retention needs.

    The files are shown first, and deleted after a question.
    """
    arguments = arguments | given(options)
    if "inventory" in arguments:
        arguments["inventory"] = open_row_files([arguments["inventory"]], None).reader.read_all()
    _clean_up(opened.vacuum, asking, arguments)


@write_command()
@click.option("--at", metavar="TIME", help="The time by which entries have expired; now by default.")
@asking("delta")
def cleanup_metadata(opened: Any, asking: Asking, **options: Any) -> None:
    """Delete the entries of the log of a Delta table that are older than its retention.

    Those go that a checkpoint as old stands in for, and temporary files of killed writers. They are shown first, and
    deleted after a question.
    """
    _clean_up(opened.cleanup_metadata, asking, given(options))


@write_command("unsafe_single_writer")
@click.option("--older-than", metavar="TIME", help="Snapshots from before this time expire.")
@click.option("--retain-last", type=click.IntRange(min=1), metavar="COUNT", help="How many each branch keeps at least.")
@click.option(
    "--snapshot-id",
    "snapshot_ids",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="SNAPSHOT_ID",
    help="A snapshot that expires whatever its age; can be given several times.",
)
@click.option(
    "--clean-expired-metadata",
    is_flag=True,
    default=None,
    help="Also forget schemas and partition specs that nothing uses any more.",
)
@asking("iceberg")
def expire(opened: Any, asking: Asking, arguments: dict[str, Any], **options: Any) -> None:
    """Forget old snapshots of an Iceberg table, and delete the files that only they need.

    What would go is shown first, and goes after a question.
    """
    _clean_up(opened.expire_snapshots, asking, arguments | given(options))


@write_command()
@click.option("--older-than", metavar="TIME", help="Only files from before this time; by default three days ago.")
@click.option("--location", metavar="DIRECTORY", help="The directory to look through; by default that of the table.")
@click.option(
    "--prefix-mismatch",
    type=click.Choice(["error", "ignore", "delete"]),
    help="What becomes of a file whose path the table names in another store.",
)
@click.option(
    "--no-retention-check",
    "enforce_retention_duration",
    flag_value=False,
    default=None,
    help="Take files that are less than a day old.",
)
@asking("iceberg")
def orphans(opened: Any, asking: Asking, **options: Any) -> None:
    """Delete the files in the directory of an Iceberg table that nothing names.

    The files are shown first, and deleted after a question.
    """
    _clean_up(opened.remove_orphan_files, asking, given(options))


@write_command()
@click.option("--purge", is_flag=True, help="Also delete the files that the table names.")
@click.option(
    "--location",
    "locations",
    multiple=True,
    metavar="DIRECTORY",
    help="A directory elsewhere that is the Iceberg table's alone, from which files go, too; may be repeated.",
)
@asking_options
def drop_table(
    place: TablePlace, as_json: bool, dry_run: bool, is_agreed: bool, purge: bool, locations: tuple[str, ...]
) -> None:
    """Take an Iceberg table out of its catalog, and with --purge delete its files.

    A table in a directory, of either format, is dropped with its files. What would go is shown first, and goes after a
    question. Shallow clones of a Delta table lose their rows with it.
    """
    import deltaberg

    if place.catalog is None and not purge:
        raise click.UsageError("a table in a directory is its files: pass --purge to delete them, or pass --catalog")
    catalog = None if place.catalog is None else place.loaded_catalog()
    options: dict[str, Any] = {"storage_options": place.storage_options} if catalog is None else {"catalog": catalog}
    drop = partial(deltaberg.drop_table, place.location, purge=purge, locations=locations, **options)
    files = "the catalog deletes its files" if purge else "its files stay where they are"
    asking = Asking(place.location, as_json, dry_run, is_agreed)

    def show(found: CleanupResult | None) -> None:
        if found is not None:
            _print(found, asking)
        else:
            dropped = "would be dropped" if dry_run else "was dropped"
            asking.print(f"it {dropped}, and {files}", {"dry_run": dry_run, "purge": purge})

    def question(planned: CleanupResult | None) -> Question:
        shown = [files] if planned is None else [*_file_lines(planned), *planned.warnings, in_words(planned)]
        return Question(f"Drop the table {place.location}?", shown, "it was not dropped")

    result = asking.carry_out("dropping", lambda dry_run, _: drop(dry_run=dry_run), show, question)
    if result is not None and not result.is_complete:
        raise click.exceptions.Exit(_NOT_DELETED)


def _clean_up(verb: Callable[..., CleanupResult], asking: Asking, arguments: dict[str, Any]) -> None:
    """Show what a verb would delete, ask, and have it deleted."""

    def question(planned: CleanupResult) -> Question | None:
        forgets = any(getattr(planned, name, ()) for name in _FORGOTTEN)
        if not (planned.deleted_files or forgets):
            return None
        text = f"Delete {counted(planned.deleted_files, 'file')} of {asking.location}?"
        return Question(text, [*_file_lines(planned), *planned.warnings, in_words(planned)], "nothing was deleted")

    result = asking.carry_out(
        "cleaning up",
        lambda dry_run, tell: verb(dry_run=dry_run, progress=tell, **arguments),
        lambda result: _print(result, asking),
        question,
    )
    if result is not None and not result.is_complete:
        raise click.exceptions.Exit(_NOT_DELETED)


def _print(result: CleanupResult, asking: Asking) -> None:
    failed = (f"{path} could not be deleted: {reason}" for path, reason in result.failed.items())
    counts = {name: getattr(result, name) for name in ("dry_run", "deleted_files", "deleted_bytes", "warnings")}
    counts |= {name: getattr(result, name) for name in _MORE if hasattr(result, name)}
    files = [
        {**file, "modified": None if file["modified"] is None else file["modified"].isoformat()}
        for file in result.files.to_pylist()
    ]
    facts = {**counts, "kept": dict(result.kept), "failed": dict(result.failed), "files": files}
    asking.print(result, facts, [*_file_lines(result), *failed, *result.warnings])


def _file_lines(result: CleanupResult) -> list[str]:
    # A name may hold the end of a line.
    return [
        f"{' '.join(file['path'].splitlines())} ({file['kind']}): {file['reason']}" for file in result.files.to_pylist()
    ]
