"""Commands of upkeep: checkpoint, compact, compact-log, reorg, rewrite-manifests, drop-feature, maintain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import click

from deltaberg.choices import GenerateMode, MaintenanceStep
from deltaberg.cli.commands.verb_commands import given, write_command
from deltaberg.cli.confirm import Asking, Question, asking
from deltaberg.cli.dry_run import dry_run_option
from deltaberg.cli.place import TablePlace
from deltaberg.cli.show.output import Tell, progress
from deltaberg.cli.show.results import in_words, print_done, print_result, state_of
from deltaberg.whole_numbers import counted

if TYPE_CHECKING:
    from deltaberg import CompactResult, DropFeatureResult, MaintenanceResult

__all__ = ["checkpoint", "compact", "compact_log", "drop_feature", "generate", "maintain", "reorg", "rewrite_manifests"]

#: The exit code where files could not be deleted.
_NOT_DELETED = 1

_NUMBERS = ("copied_rows", "added_files", "removed_files", "added_bytes", "removed_bytes")
_COUNT, _SIZE, _SHARE = click.IntRange(min=1), click.IntRange(min=0), click.FloatRange(0, 1)
_MANY = click.IntRange(min=2)


@write_command()
@dry_run_option
def checkpoint(place: TablePlace, as_json: bool, dry_run: bool) -> None:
    """Write a checkpoint of the newest version of a Delta table."""
    opened = place.open("delta")
    if dry_run:
        print_result(opened.location, {"version": opened.version, "live_files": len(opened.live_files)}, as_json)
        return
    with progress(f"writing a checkpoint of {opened.location}") as tell:
        made = opened.checkpoint(progress=tell)
    facts = {"version": made.version, "kind": made.kind, "files": list(made.files), "bytes": made.size}
    size = f"{', '.join(made.files)}, {counted(made.size, 'byte')}"
    print_done(opened.location, facts, as_json, ("version", made.version), ("kind", made.kind), ("files", size))


@write_command()
@click.option("--mode", type=click.Choice(get_args(GenerateMode)), default=None, help="What is written.")
@dry_run_option
def generate(place: TablePlace, as_json: bool, mode: str | None, dry_run: bool) -> None:
    """Write manifests of symlinks, by which Athena, Presto and Hive read a Delta table."""
    opened = place.open("delta")
    if dry_run:
        print_result(opened.location, {"version": opened.version, "live_files": len(opened.live_files)}, as_json)
        return
    with progress(f"writing manifests of {opened.location}"):
        made = opened.generate() if mode is None else opened.generate(mode)
    facts = {"version": made.version, "files": made.files, "manifests": made.manifests, "removed": made.removed}
    print_done(
        opened.location, {name: list(one) if isinstance(one, tuple) else one for name, one in facts.items()}, as_json
    )


@write_command("CompactArguments")
@click.option("--where", "-w", metavar="SQL", help="Only files in which rows can match this condition.")
@click.option("--min-files", type=_COUNT, metavar="COUNT", help="How many files a new one stands for at least.")
@click.option("--max-deleted", type=_SHARE, metavar="SHARE", help="The share of deleted rows that may stay.")
@click.option("--group-size", type=_COUNT, metavar="BYTES", help="Bytes of the files that one commit replaces.")
@click.option("--min-file-size", type=_SIZE, metavar="BYTES", help="Bytes of a file that is large enough to stay.")
@click.option("--max-file-size", type=_COUNT, metavar="BYTES", help="Bytes of a file that is not divided, at most.")
@click.option("--sort-by", multiple=True, metavar="'NAME [desc]'", help="A column to sort rows by; may be repeated.")
@click.option("--z-order-by", multiple=True, metavar="NAME", help="A column of the Z-order curve; may be repeated.")
@click.option("--hilbert-by", multiple=True, metavar="NAME", help="A column of Hilbert's curve; may be repeated.")
@click.option(
    "--cluster",
    type=click.Choice(["true", "false", "full"]),
    help="Cluster a table by its clustering columns (Delta); by default it is, if it has any.",
)
@click.option("--all", "rewrite_all", is_flag=True, default=None, help="Rewrite files whatever their size.")
@click.option("--spec-id", type=_SIZE, metavar="SPEC_ID", help="Only files of this partition spec (Iceberg).")
@click.option("--max-concurrent", type=_COUNT, metavar="COUNT", help="How many files are written at a time.")
@dry_run_option
def compact(place: TablePlace, as_json: bool, arguments: dict[str, Any], **packing: Any) -> None:
    """Put small files of a table together, and drop deleted rows from files (also: optimize)."""
    opened = place.open()
    arguments |= given(packing)
    if "cluster" in arguments:
        arguments["cluster"] = {"true": True, "false": False}.get(arguments["cluster"], arguments["cluster"])
    with progress(f"compacting {opened.location}") as tell:
        result = opened.compact(**arguments, progress=tell)
    _print_rewrite(opened, result, as_json, arguments.get("branch"))


@write_command("CompactArguments")
@click.option("--where", "-w", metavar="SQL", help="Only files in which rows can match this condition.")
@click.option("--group-size", type=_COUNT, metavar="BYTES", help="Bytes of the files that one commit replaces.")
@click.option("--max-concurrent", type=_COUNT, metavar="COUNT", help="How many files are written at a time.")
@click.option(
    "--upgrade-iceberg-compat",
    type=click.IntRange(1, 2),
    metavar="VERSION",
    help="Make a Delta table compatible with Iceberg, by version 1 or 2 of the feature.",
)
@asking()
def reorg(opened: Any, asking: Asking, arguments: dict[str, Any], **packing: Any) -> None:
    """Write files anew that hold deleted rows or dropped columns (purge).

    How many files there are is shown first, and they are written anew after a question.
    """
    arguments |= given(packing)

    def question(planned: CompactResult) -> Question | None:
        text = f"Write {counted(planned.removed_files, 'file')} of {opened.location} anew?"
        sets = [f"would set {one}" for one in _properties_of(planned)]
        return Question(text, [*sets, in_words(planned)]) if planned.groups else None

    asking.carry_out(
        "reorganizing",
        lambda dry_run, tell: opened.reorg(dry_run=dry_run, progress=tell, **arguments),
        lambda result: _print_rewrite(opened, result, asking.as_json, arguments.get("branch")),
        question,
    )


@write_command("RecordedArguments")
@click.option("--spec-id", type=_SIZE, metavar="SPEC_ID", help="Only manifests of this partition spec.")
@click.option("--all", "rewrite_all", is_flag=True, default=None, help="Rewrite manifests that are in order, too.")
@click.option("--target-size", type=_COUNT, metavar="BYTES", help="Bytes of a new manifest, approximately.")
@click.option("--min-manifests", type=_MANY, metavar="COUNT", help="How many a new one stands for at least.")
@dry_run_option
def rewrite_manifests(place: TablePlace, as_json: bool, arguments: dict[str, Any], **options: Any) -> None:
    """Put the entries of small manifests of an Iceberg table into fewer ones, each for a range of partitions."""
    opened = place.open("iceberg")
    arguments |= given(options)
    with progress(f"rewriting manifests of {opened.location}") as tell:
        result = opened.rewrite_manifests(**arguments, progress=tell)
    facts = {
        **state_of(opened, arguments.get("branch")),
        **({"dry_run": True} if result.dry_run else {}),
        **{name: getattr(result, name) for name in ("rewritten_manifests", "added_manifests", "entries")},
    }
    print_done(opened.location, facts, as_json)


@write_command("user_metadata", "isolation", "unsafe_single_writer")
@click.argument("name", metavar="NAME")
@click.option("--truncate-history", is_flag=True, help="Delete the versions that need it; possible after a day.")
@asking("delta")
def drop_feature(opened: Any, asking: Asking, arguments: dict[str, Any], name: str, truncate_history: bool) -> None:
    """Take a table feature from the protocol of a Delta table, and whatever of it is in the table.

    What has to be done is shown first, and done after a question.
    """

    def show(result: DropFeatureResult) -> None:
        facts = {
            "feature": result.feature,
            "dry_run": result.dry_run,
            "version": None if result.commit is None else result.commit.version,
            "commits": len(result.commits),
            "copied_rows": result.copied_rows,
            "steps": list(result.steps),
        }
        asking.print(result, facts, result.steps)

    arguments["truncate_history"] = truncate_history
    asking.carry_out(
        f"dropping {name} of",
        lambda dry_run, tell: opened.drop_feature(name, dry_run=dry_run, progress=tell, **arguments),
        show,
        lambda planned: Question(f"Drop {name} of {opened.location}?", planned.steps),
    )


def _properties_of(result: CompactResult) -> list[str]:
    """Return the properties that a rewrite sets, or would set."""
    return [f"{name}={value}" for one in result.groups for name, value in one.properties.items()]


def _print_rewrite(opened: Any, result: CompactResult, as_json: bool, branch: str | None) -> None:
    """Print the outcome of a rewrite, and raise the conflict of the files that stay."""
    facts = {
        **state_of(opened, branch),
        **({"dry_run": True} if result.dry_run else {}),
        "commits": len(result.groups if result.dry_run else result.commits),
        "conflicts": len(result.conflicts),
        **{name: getattr(result, name) for name in _NUMBERS},
    }
    if sets := _properties_of(result):
        facts["properties"] = ", ".join(sets)
    if as_json:
        print_done(opened.location, facts, as_json)
    else:
        is_work = result.groups or result.commits or result.conflicts
        said = facts if is_work else {**state_of(opened, branch), "files": "all are in order"}
        said.pop("dry_run", None)
        (print_result if result.dry_run else print_done)(opened.location, said, as_json)
    if result.conflicts:
        raise result.conflicts[0]


@write_command()
@click.option(
    "--first", type=click.IntRange(min=0), metavar="VERSION", help="The first; by default after a checkpoint."
)
@click.option("--last", type=click.IntRange(min=0), metavar="VERSION", help="The last; by default the newest version.")
@dry_run_option
def compact_log(place: TablePlace, as_json: bool, first: int | None, last: int | None, dry_run: bool) -> None:
    """Write one file that stands in for several log entries of a Delta table, which stay."""
    opened = place.open("delta")
    base = opened.base_checkpoint
    begin = first if first is not None else 0 if base is None else base.version + 1
    end = opened.version if last is None else last
    if dry_run:
        print_result(opened.location, {"first": begin, "last": end, "entries": max(0, end - begin + 1)}, as_json)
        return
    if first is None and last is None and end <= begin:
        since = "the creation" if base is None else f"the checkpoint of version {base.version}"
        why = f"none: fewer than two commits follow {since}"
        print_done(opened.location, {"first": begin, "last": end, "file": None}, as_json, ("file", why))
        return
    with progress(f"compacting the log of {opened.location}"):
        name = opened.compact_log(begin, end)
    facts = {"first": begin, "last": end, "file": name}
    print_done(opened.location, facts, as_json, ("versions", f"{begin} to {end}"), ("file", name))


@write_command("target_file_size")
@click.option(
    "--step",
    "steps",
    type=click.Choice(get_args(MaintenanceStep)),
    multiple=True,
    help="A step to take; may be repeated. By default all that the table has.",
)
@click.option("--min-files", type=_COUNT, metavar="COUNT", help="How many small files are put together at least.")
@click.option("--max-deleted", type=_SHARE, metavar="SHARE", help="The share of deleted rows that may stay.")
@click.option("--retention-hours", type=click.FloatRange(min=0), metavar="HOURS", help="How long removed files stay.")
@click.option("--max-commits", type=_COUNT, metavar="COUNT", help="After how many commits a checkpoint is due.")
@asking()
def maintain(opened: Any, asking: Asking, arguments: dict[str, Any], **options: Any) -> None:
    """Do what a table needs: compact it, vacuum it, and keep its log in order.

    What each step would do is shown first, and done after a question.
    """
    from deltaberg import MaintenancePolicy

    policy = MaintenancePolicy(**arguments, **given(options))

    def show(done: MaintenanceResult) -> None:
        steps = [
            {"step": one.step, "is_due": one.is_due, **one.numbers, **({"why": one.why} if one.why else {})}
            for one in done.steps
        ]
        facts = {"dry_run": done.dry_run, "steps": steps}
        asking.print("nothing was changed" if done.dry_run else "done", facts, done.lines)

    def question(planned: MaintenanceResult) -> Question | None:
        return Question(f"Do it to {opened.location}?", planned.lines, "nothing was done") if planned.is_due else None

    def run(dry_run: bool, tell: Tell) -> MaintenanceResult:
        done: MaintenanceResult = opened.maintain(policy, dry_run=dry_run, progress=tell)
        return done

    result = asking.carry_out("maintaining", run, show, question)
    if result is not None and not all(getattr(one.result, "is_complete", True) for one in result.steps):
        raise click.exceptions.Exit(_NOT_DELETED)
