"""Commands that change a table without changing its rows: alter, checkpoint, compact, compact-log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deltaberg.cli.column_types import column_type
from deltaberg.cli.format_options import check_options, is_iceberg
from deltaberg.cli.options import write_command
from deltaberg.cli.output import print_facts, print_json, progress
from deltaberg.cli.place import TablePlace
from deltaberg.cli.references import REFERENCE_CHANGES, Change, reference_options
from deltaberg.cli.results import print_plan, print_result

if TYPE_CHECKING:
    pass

__all__ = ["alter", "checkpoint", "compact", "compact_log"]


def _properties(to: Any, words: tuple[str, ...], _options: dict[str, Any]) -> object:
    given = [word.partition("=") for word in words]
    wrong = [name for name, equals, _ in given if not equals or not name]
    if wrong:
        raise click.UsageError("a property is not of the form KEY=VALUE")
    return to.set({name: value for name, _, value in given})


#: Each change: the words behind it, how many there are (None for any number), its options, and what it does.
_CHANGES: dict[str, tuple[str, int | None, tuple[str, ...], Change]] = {
    "add": (
        "NAME TYPE",
        2,
        ("comment", "after", "before", "first"),
        lambda to, words, options: to.add(words[0], column_type(words[1]), **options),
    ),
    "rename": ("NAME NEW_NAME", 2, (), lambda to, words, _: to.rename(*words)),
    "drop": ("NAME", 1, (), lambda to, words, _: to.drop(words[0])),
    "move": ("NAME", 1, ("after", "before", "first"), lambda to, words, options: to.move(words[0], **options)),
    "comment": ("NAME TEXT", 2, (), lambda to, words, _: to.comment(words[0], words[1] or None)),
    "drop-not-null": ("NAME", 1, (), lambda to, words, _: to.drop_not_null(words[0])),
    "widen": ("NAME TYPE", 2, (), lambda to, words, _: to.widen(words[0], column_type(words[1]))),
    "set": ("KEY=VALUE...", None, (), _properties),
    "unset": ("KEY...", None, (), lambda to, words, _: to.unset(*words)),
    "drop-feature": ("NAME", 1, (), lambda to, words, _: to.drop_feature(words[0])),
    "cluster-by": ("NAME...", None, (), lambda to, words, _: to.cluster_by(*words)),
    "name": ("TEXT", 1, (), lambda to, words, _: to.describe(name=words[0])),
    "describe": ("TEXT", 1, (), lambda to, words, _: to.describe(description=words[0])),
    "partition-by": ("NAME...", None, (), lambda to, words, _: to.partition_by(*words)),
    "undrop": ("NAME", 1, (), lambda to, words, _: to.undrop(words[0])),
    "sort-by": ("NAME...", None, (), lambda to, words, _: to.sort_by(*words)),
    "identify-by": ("NAME...", None, (), lambda to, words, _: to.identify_by(*words)),
    **REFERENCE_CHANGES,
}
_OF_DELTA = ("drop-feature", "cluster-by", "name", "describe")
_OF_ICEBERG = ("undrop", "partition-by", "sort-by", "identify-by", *REFERENCE_CHANGES)
#: Changes that mean something without words behind them.
_WITHOUT_WORDS = ("cluster-by", "partition-by", "sort-by", "identify-by")


@write_command
@click.argument("change", type=click.Choice(tuple(_CHANGES)))
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--comment", metavar="TEXT", help="With add: what the schema says about the column.")
@click.option("--after", metavar="NAME", help="With add and move: the column that it comes behind.")
@click.option("--before", metavar="NAME", help="With add and move: the column that it comes before.")
@click.option("--first", is_flag=True, help="With add and move: put it before all others.")
@reference_options
@click.option("--dry-run", is_flag=True, help="Check the change, and show what it would lead to.")
@click.option("--message", "-m", metavar="TEXT", help="Text that the history keeps with the commit (Delta).")
def alter(
    place: TablePlace,
    as_json: bool,
    change: str,
    words: tuple[str, ...],
    dry_run: bool,
    message: str | None,
    **options: Any,
) -> None:
    """Change columns and properties of a table, as far as no rows are written anew.

    \b
    add NAME TYPE         rename NAME NEW_NAME   drop NAME
    move NAME             comment NAME TEXT      drop-not-null NAME
    widen NAME TYPE       set KEY=VALUE...       unset KEY...

    \b
    Delta:
    cluster-by NAME...    drop-feature NAME      name TEXT
    describe TEXT

    \b
    Iceberg:
    partition-by NAME...  sort-by NAME...        identify-by NAME...
    undrop NAME
    create-branch NAME    create-tag NAME        set-retention NAME
    drop-branch NAME      drop-tag NAME          fast-forward NAME TO
    rename-branch NAME NEW_NAME                  set-current-snapshot ID|REF
    rollback-to-snapshot ID                      rollback-to-timestamp TIME
    """  # noqa: D301 - click keeps the lines of a paragraph that begins with this character
    form, count, allowed, apply = _CHANGES[change]
    if len(words) != count and (count is not None or not (words or change in _WITHOUT_WORDS)):
        raise click.UsageError(f"{change} is followed by {form}")
    given = {name: value for name, value in options.items() if value}
    misplaced = sorted(given.keys() - set(allowed))
    if misplaced:
        raise click.UsageError(f"--{misplaced[0].replace('_', '-')} has no meaning with {change}")
    opened = place.open()
    check_options(
        opened,
        {change: change in _OF_DELTA, "--message": message},
        {change: change in _OF_ICEBERG},
    )
    alteration: Any = opened.alter()
    apply(alteration, words, given)
    if dry_run:
        facts = _iceberg_outcome(alteration) if is_iceberg(opened) else _delta_outcome(opened, alteration)
        print_plan(opened.location, facts, as_json)
        return
    with progress(f"altering {opened.location}"):
        result = alteration.commit() if message is None else alteration.commit(user_metadata=message)
    print_result(opened.location, result, as_json)


def _delta_outcome(table: Any, alteration: Any) -> dict[str, Any]:
    """Return what a Delta table would be after changes."""
    from deltaberg.delta.operations.alter import altered_snapshot

    after = altered_snapshot(alteration)
    return {
        "version": table.version,
        "columns": [f"{field.name} {field.type}" for field in after.schema],
        "properties": dict(sorted(after.metadata.configuration.items())),
        "protocol": [after.protocol.min_reader_version, after.protocol.min_writer_version],
    }


def _iceberg_outcome(alteration: Any) -> dict[str, Any]:
    """Return what an Iceberg table would be after changes."""
    from deltaberg.iceberg.operations.alter import altered_metadata

    after = altered_metadata(alteration)
    return {
        "format_version": after.format_version,
        "columns": [f"{field.name} {field.type}" for field in after.current_schema.struct],
        "properties": dict(sorted(after.properties.items())),
        "refs": sorted(after.all_refs),
    }


@write_command
def checkpoint(place: TablePlace, as_json: bool) -> None:
    """Write a checkpoint of the newest version of a Delta table."""
    opened = place.open_delta()
    with progress(f"writing a checkpoint of {opened.location}"):
        made = opened.checkpoint()
    if as_json:
        facts = {"version": made.version, "kind": made.kind, "files": list(made.files), "bytes": made.size}
        print_json({"location": opened.location, **facts})
    else:
        size = f"{', '.join(made.files)}, {made.size} bytes"
        print_facts([("table", opened.location), ("version", made.version), ("kind", made.kind), ("files", size)])


@write_command
@click.option("--where", "-w", metavar="SQL", help="Only files in which rows can match this condition.")
@click.option("--target-size", type=click.IntRange(min=1), metavar="BYTES", help="Bytes of a new file, approximately.")
@click.option("--message", "-m", metavar="TEXT", help="Text that the history keeps with the commits (Delta).")
def compact(
    place: TablePlace,
    as_json: bool,
    where: str | None,
    target_size: int | None,
    message: str | None,
) -> None:
    """Put small files of a table together, and drop deleted rows from files."""
    opened = place.open()
    check_options(opened, {"--message": message}, {})
    number = "snapshot_id" if is_iceberg(opened) else "version"
    options: dict[str, Any] = {} if message is None else {"user_metadata": message}
    with progress(f"compacting {opened.location}"):
        result = opened.compact(where, target_size=target_size, **options)
    facts = {
        number: getattr(opened, number),
        "commits": len(result.commits),
        "conflicts": len(result.conflicts),
        "added_files": result.added_files,
        "removed_files": result.removed_files,
        "added_bytes": result.added_bytes,
        "removed_bytes": result.removed_bytes,
    }
    if as_json:
        print_json({"location": opened.location, **facts})
    else:
        print_facts([("table", opened.location), *((name.replace("_", " "), value) for name, value in facts.items())])
    if result.conflicts:
        raise result.conflicts[0]


@write_command
@click.option(
    "--first", type=click.IntRange(min=0), metavar="VERSION", help="The first; by default after a checkpoint."
)
@click.option("--last", type=click.IntRange(min=0), metavar="VERSION", help="The last; by default the newest version.")
def compact_log(place: TablePlace, as_json: bool, first: int | None, last: int | None) -> None:
    """Write one file that stands in for several log entries of a Delta table, which stay."""
    opened = place.open_delta()
    base = opened.base_checkpoint
    begin = first if first is not None else 0 if base is None else base.version + 1
    end = opened.version if last is None else last
    with progress(f"compacting the log of {opened.location}"):
        name = opened.compact_log(begin, end)
    if as_json:
        print_json({"location": opened.location, "first": begin, "last": end, "file": name})
    else:
        print_facts([("table", opened.location), ("versions", f"{begin} to {end}"), ("file", name)])
