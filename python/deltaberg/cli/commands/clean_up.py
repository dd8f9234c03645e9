"""Commands that delete files which nothing needs: vacuum, expire, orphans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deltaberg.cli.commands.verb_commands import write_command
from deltaberg.cli.confirm import Question, asking_options, carry_out
from deltaberg.cli.place import TablePlace
from deltaberg.cli.rows.files import open_row_files
from deltaberg.cli.show.output import print_lines
from deltaberg.cli.show.results import print_done

if TYPE_CHECKING:
    from deltaberg import CleanupResult

__all__ = ["expire", "orphans", "vacuum"]

#: The exit code where files stay that should have gone.
_NOT_DELETED = 1
#: What metadata has no more, of those results that say so.
_FORGOTTEN = ("snapshot_ids", "refs", "schema_ids", "spec_ids")


@write_command()
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
@asking_options
def vacuum(place: TablePlace, as_json: bool, dry_run: bool, is_agreed: bool, **options: Any) -> None:
    """Delete the files of a Delta table that no version within the retention needs.

    The files are shown first, and deleted after a question.
    """
    opened = place.open("delta")
    arguments = _given(options)
    if "inventory" in arguments:
        arguments["inventory"] = open_row_files([arguments["inventory"]], None).reader.read_all()
    _clean_up(opened, "vacuum", dry_run, is_agreed, as_json, arguments)


@write_command()
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
@asking_options
def expire(place: TablePlace, as_json: bool, dry_run: bool, is_agreed: bool, **options: Any) -> None:
    """Forget old snapshots of an Iceberg table, and delete the files that only they need.

    What would go is shown first, and goes after a question.
    """
    _clean_up(place.open("iceberg"), "expire_snapshots", dry_run, is_agreed, as_json, _given(options))


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
@asking_options
def orphans(place: TablePlace, as_json: bool, dry_run: bool, is_agreed: bool, **options: Any) -> None:
    """Delete the files in the directory of an Iceberg table that nothing names.

    The files are shown first, and deleted after a question.
    """
    _clean_up(place.open("iceberg"), "remove_orphan_files", dry_run, is_agreed, as_json, _given(options))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value not in (None, ())}


def _clean_up(opened: Any, verb: str, dry_run: bool, is_agreed: bool, as_json: bool, arguments: dict[str, Any]) -> None:
    """Show what a verb would delete, ask, and have it deleted."""
    run = getattr(opened, verb)

    def question(planned: CleanupResult) -> Question | None:
        forgets = any(getattr(planned, name, ()) for name in _FORGOTTEN)
        if not (planned.deleted_files or forgets):
            return None
        text = f"Delete {planned.deleted_files} files of {opened.location}?"
        return Question(text, [*_file_lines(planned), str(planned)], "nothing was deleted")

    result = carry_out(
        opened.location,
        "cleaning up",
        lambda: run(dry_run=True, **arguments),
        lambda: run(dry_run=False, **arguments),
        lambda found: _print_cleanup(opened.location, found, as_json),
        question,
        dry_run=dry_run,
        is_agreed=is_agreed,
    )
    if result is not None and not result.is_complete:
        raise click.exceptions.Exit(_NOT_DELETED)


def _file_lines(result: CleanupResult) -> list[str]:
    # A name may hold the end of a line.
    return [
        f"{' '.join(file['path'].splitlines())} ({file['kind']}): {file['reason']}" for file in result.files.to_pylist()
    ]


def _print_cleanup(location: str, result: CleanupResult, as_json: bool) -> None:
    if not as_json:
        failed = (f"{path} could not be deleted: {reason}" for path, reason in result.failed.items())
        print_lines(*_file_lines(result), *failed, *result.warnings, f"{location}: {result}")
        return
    counts = {name: getattr(result, name) for name in ("dry_run", "deleted_files", "deleted_bytes", "warnings")}
    counts |= {name: getattr(result, name) for name in _FORGOTTEN if hasattr(result, name)}
    files = [
        {**file, "modified": None if file["modified"] is None else file["modified"].isoformat()}
        for file in result.files.to_pylist()
    ]
    print_done(location, {**counts, "kept": dict(result.kept), "failed": dict(result.failed), "files": files}, as_json)
