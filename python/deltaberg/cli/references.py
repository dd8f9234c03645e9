"""Changes of branches, tags and current snapshots of Iceberg tables: parts of ``alter``, and commands of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click

from deltaberg.choices import IfExists
from deltaberg.cli.options import write_command
from deltaberg.cli.output import progress
from deltaberg.cli.place import TablePlace
from deltaberg.cli.results import print_result
from deltaberg.whole_numbers import whole_number

__all__ = ["REFERENCE_CHANGES", "Change", "cherry_pick", "publish", "reference_options"]

Change = Callable[[Any, tuple[str, ...], dict[str, Any]], object]

_OF_TAG = ("snapshot_id", "if_exists", "max_ref_age_ms")
_RETENTION = ("max_ref_age_ms", "min_snapshots_to_keep", "max_snapshot_age_ms")


def _number(text: str) -> int:
    number = whole_number(text, 0)
    if number is None:
        raise click.UsageError(f"{text!r:.40} is not the number of a snapshot")
    return number


def _set_current(to: Any, words: tuple[str, ...], _options: dict[str, Any]) -> object:
    """Take the number of a snapshot, or the name of a reference, which can be made of digits, too."""
    word = words[0]
    number = whole_number(word, 0)
    if number is not None and word not in to.metadata.all_refs:
        return to.set_current_snapshot(number)
    return to.set_current_snapshot(ref=word)


#: Each change: the words behind it, how many there are, its options, and what it does.
REFERENCE_CHANGES: dict[str, tuple[str, int | None, tuple[str, ...], Change]] = {
    "create-branch": (
        "NAME",
        1,
        ("snapshot_id", "if_exists", *_RETENTION),
        lambda to, words, options: to.create_branch(words[0], **options),
    ),
    "create-tag": ("NAME", 1, _OF_TAG, lambda to, words, options: to.create_tag(words[0], **options)),
    "set-retention": ("NAME", 1, _RETENTION, lambda to, words, options: to.set_retention(words[0], **options)),
    "rename-branch": ("NAME NEW_NAME", 2, (), lambda to, words, _: to.rename_branch(*words)),
    "drop-branch": ("NAME", 1, (), lambda to, words, _: to.drop_branch(words[0])),
    "drop-tag": ("NAME", 1, (), lambda to, words, _: to.drop_tag(words[0])),
    "fast-forward": ("NAME TO", 2, (), lambda to, words, _: to.fast_forward(*words)),
    "rollback-to-snapshot": ("ID", 1, (), lambda to, words, _: to.rollback_to_snapshot(_number(words[0]))),
    "rollback-to-timestamp": ("TIME", 1, (), lambda to, words, _: to.rollback_to_timestamp(words[0])),
    "set-current-snapshot": ("ID|REF", 1, (), _set_current),
}


def reference_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the changes above."""
    number = click.IntRange(min=1)
    for option in (
        click.option("--max-snapshot-age-ms", type=number, metavar="MS", help="How old a branch's snapshots become."),
        click.option("--min-snapshots-to-keep", type=number, metavar="COUNT", help="How many snapshots it keeps."),
        click.option("--max-ref-age-ms", type=number, metavar="MS", help="How old a branch or a tag becomes."),
        click.option(
            "--if-exists",
            type=click.Choice(get_args(IfExists)),
            help="With create-branch and create-tag: what is done if there is one; error by default.",
        ),
        click.option(
            "--snapshot-id",
            type=click.IntRange(min=0),
            metavar="ID",
            help="With create-branch and create-tag: the snapshot; the newest by default.",
        ),
    ):
        function = option(function)
    return function


@write_command
@click.argument("wap_id")
def publish(place: TablePlace, as_json: bool, wap_id: str) -> None:
    """Make a snapshot that was staged under a wap.id a part of an Iceberg table."""
    opened = place.open_iceberg()
    with progress(f"publishing {wap_id}"):
        result = opened.publish(wap_id)
    print_result(opened.location, result, as_json)


@write_command
@click.argument("snapshot_id", type=click.IntRange(min=0))
@click.option("--branch", metavar="NAME", help="The branch that gets the changes; main by default.")
def cherry_pick(place: TablePlace, as_json: bool, snapshot_id: int, branch: str | None) -> None:
    """Make a snapshot of another branch, or of none, a part of an Iceberg table."""
    opened = place.open_iceberg()
    with progress(f"picking {snapshot_id}"):
        result = opened.cherrypick_snapshot(snapshot_id, branch=branch)
    print_result(opened.location, result, as_json)
