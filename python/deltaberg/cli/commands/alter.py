"""The command alter: changes of columns, properties, branches and tags, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from deltaberg.cli.commands.verb_commands import verb
from deltaberg.cli.options import pairs
from deltaberg.cli.rows.column_types import column_type, columns_of
from deltaberg.cli.show.results import numbers_of, state_of
from deltaberg.errors import ColumnNotFoundError, InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.whole_numbers import whole_number

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaberg import DeltaTable, IcebergTable

__all__ = ["CHANGES", "alter"]


class _Change(NamedTuple):
    """A change, which the method of `alter` of the same name makes, unless it says otherwise.

    Parameters
    ----------
    form
        The words behind it. Dots mean any number; without any words, the method gets none.
    options
        Its options.
    apply
        What makes it of the words, where the method does not take them as they are.
    """

    form: str
    options: tuple[str, ...] = ()
    apply: Callable[..., object] | None = None


def _number(text: str) -> int:
    number = whole_number(text, 0)
    if number is None:
        raise click.UsageError(f"{shown_value(text)} is not the number of a snapshot")
    return number


def _set_current(to: Any, word: str) -> object:
    """Take the number of a snapshot, or the name of a reference, which can be made of digits, too."""
    from deltaberg.iceberg.alter.alter import altered_metadata

    number = whole_number(word, 0)
    if number is not None and word not in altered_metadata(to).all_refs:
        return to.set_current_snapshot(number)
    return to.set_current_snapshot(ref=word)


def _set(to: Any, *words: str) -> object:
    return to.set(pairs(click.get_current_context(), None, words))


def _add(to: Any, name: str, text: str, *, default: str | None = None, **options: Any) -> object:
    if default is not None:
        options["default"] = default if _keeps_sql(to) else _value(default, columns_of([f"c {text}"]), "c")
    return to.add(name, column_type(text), **options)


def _set_default(to: Any, name: str, text: str) -> object:
    if text.strip().lower() == "null":
        return to.set_default(name, None)
    if _keeps_sql(to):
        return to.set_default(name, text)
    from deltaberg.iceberg.alter.alter import altered_metadata

    return to.set_default(name, _value(text, altered_metadata(to).current_schema.struct, name))


def _keeps_sql(to: Any) -> bool:
    """Return whether the defaults of a table are SQL, as those of Delta tables are, and not values."""
    from deltaberg.delta.alter.alter import Alteration

    return isinstance(to, Alteration)


def _value(text: str, columns: Any, name: str) -> pa.Scalar:
    """Return what SQL text without columns is, as a value of a column."""
    import pyarrow as pa

    from deltaberg.expressions.bind.bind import bind_value
    from deltaberg.schema.columns import find_column
    from deltaberg.schema.from_arrow import as_table_schema
    from deltaberg.schema.types import Struct

    kind = find_column(as_table_schema(columns), name)[-1].type
    try:
        bound = bind_value(text, Struct(()), target=kind, column=name)
    except ColumnNotFoundError as error:
        hint = "it must be a value; quote a text twice, as in \"'north'\""
        raise InvalidArgumentError(f"the default value names a column: {text}", hint=hint, column=name) from error
    return bound.evaluate(pa.record_batch({"": [0]}))[0]


_PLACES = ("after", "before", "first")
_RETENTION = ("max_ref_age_ms", "min_snapshots_to_keep", "max_snapshot_age_ms")
CHANGES = {
    "add": _Change(
        "NAME TYPE",
        ("comment", "default", "required", *_PLACES),
        _add,
    ),
    "rename": _Change("NAME NEW_NAME"),
    "drop": _Change("NAME"),
    "move": _Change("NAME", _PLACES),
    "comment": _Change("NAME TEXT", (), lambda to, name, text: to.comment(name, text or None)),
    "drop-not-null": _Change("NAME"),
    "widen": _Change("NAME TYPE", (), lambda to, name, kind: to.widen(name, column_type(kind))),
    "set-default": _Change("NAME SQL", (), _set_default),
    "set": _Change("KEY=VALUE...", (), _set),
    "unset": _Change("KEY..."),
    "drop-feature": _Change("NAME"),
    "cluster-by": _Change("[NAME]..."),
    "add-constraint": _Change("NAME SQL"),
    "drop-constraint": _Change("NAME"),
    "name": _Change("TEXT", (), lambda to, text: to.describe(name=text)),
    "describe": _Change("TEXT", (), lambda to, text: to.describe(description=text)),
    "partition-by": _Change("[NAME]..."),
    "undrop": _Change("NAME"),
    "sort-by": _Change("[NAME]..."),
    "identify-by": _Change("[NAME]..."),
    "create-branch": _Change("NAME", ("snapshot_id", "if_exists", *_RETENTION)),
    "create-tag": _Change("NAME", ("snapshot_id", "if_exists", "max_ref_age_ms")),
    "set-retention": _Change("NAME", _RETENTION),
    "rename-branch": _Change("NAME NEW_NAME"),
    "drop-branch": _Change("NAME"),
    "drop-tag": _Change("NAME"),
    "fast-forward": _Change("NAME TO"),
    "rollback-to-snapshot": _Change("ID", (), lambda to, word: to.rollback_to_snapshot(_number(word))),
    "rollback-to-timestamp": _Change("TIME"),
    "set-current-snapshot": _Change("ID|REF", (), _set_current),
}
#: The methods of changes that have another name.
_METHODS = {"name": "describe"}
_COUNT = click.IntRange(min=1)


def _known(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    """Refuse what is no change, and say which changes have names like it."""
    if name not in CHANGES:
        near = get_close_matches(name, CHANGES, cutoff=0.5) or CHANGES
        raise click.UsageError(f"there is no change {name!r}; did you mean {' or '.join(near)}?")
    return name


def _outcome(_: object, table: Any, arguments: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return what a table would be after a change, and the numbers of a change that writes rows anew."""
    from deltaberg.table.verbs.matching import preview

    after: dict[str, Any] = {}
    found = preview(table, lambda to, rest: after.update(_state(_altered(to, rest, **options))), arguments)
    numbers = numbers_of(found) if found.added_files or found.removed_files else {}
    return {**state_of(table, arguments.get("branch")), **after, **numbers}


def _state(alteration: Any) -> dict[str, Any]:
    """Return the state of a table after changes."""
    if _keeps_sql(alteration):
        from deltaberg.delta.alter.alter import altered_snapshot

        snapshot = altered_snapshot(alteration)
        return {
            "columns": [f"{field.name} {field.type}" for field in snapshot.schema],
            "properties": dict(sorted(snapshot.metadata.configuration.items())),
            "protocol": [snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version],
        }
    from deltaberg.iceberg.alter.alter import altered_metadata

    metadata = altered_metadata(alteration)
    return {
        "format_version": metadata.format_version,
        "columns": [f"{field.name} {field.type}" for field in metadata.current_schema.struct],
        "properties": dict(sorted(metadata.properties.items())),
        "refs": sorted(metadata.all_refs),
    }


@verb("altering", "RecordedArguments", "if_exists", previews=_outcome)
@click.argument("change", callback=_known, metavar="CHANGE")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--comment", metavar="TEXT", help="With add: what the schema says about the column.")
@click.option("--default", metavar="SQL", help="With add: the value of rows that do not name it (Iceberg).")
@click.option("--required", is_flag=True, help="With add: refuse nulls; then it needs a default value (Iceberg).")
@click.option("--after", metavar="NAME", help="With add and move: the column that it comes behind.")
@click.option("--before", metavar="NAME", help="With add and move: the column that it comes before.")
@click.option("--first", is_flag=True, help="With add and move: put it before all others.")
@click.option(
    "--snapshot-id",
    type=click.IntRange(min=0),
    metavar="ID",
    help="With create-branch and create-tag: the snapshot; the newest by default.",
)
@click.option("--max-ref-age-ms", type=_COUNT, metavar="MS", help="How old a branch or a tag becomes.")
@click.option("--min-snapshots-to-keep", type=_COUNT, metavar="COUNT", help="How many snapshots it keeps.")
@click.option("--max-snapshot-age-ms", type=_COUNT, metavar="MS", help="How old a branch's snapshots become.")
def alter(
    table: DeltaTable | IcebergTable,
    arguments: dict[str, Any],
    change: str,
    words: tuple[str, ...],
    **options: Any,
) -> Any:
    """Change columns and properties of a table.

    Rows are written anew only where a Delta table is partitioned otherwise, or loses its column mapping.

    \b
    add NAME TYPE         rename NAME NEW_NAME   drop NAME
    move NAME             comment NAME TEXT      drop-not-null NAME
    widen NAME TYPE       set KEY=VALUE...       unset KEY...
    set-default NAME SQL  partition-by NAME...

    \b
    Delta:
    cluster-by NAME...    drop-feature NAME      name TEXT
    describe TEXT         add-constraint NAME SQL
    drop-constraint NAME

    \b
    Iceberg:
    sort-by NAME...       identify-by NAME...    undrop NAME
    create-branch NAME    create-tag NAME        set-retention NAME
    drop-branch NAME      drop-tag NAME          fast-forward NAME TO
    rename-branch NAME NEW_NAME                  set-current-snapshot ID|REF
    rollback-to-snapshot ID                      rollback-to-timestamp TIME
    """  # noqa: D301 - click keeps the lines of a paragraph that begins with this character
    return _altered(table, arguments, change, words, **options).commit()


def _altered(to: Any, arguments: dict[str, Any], change: str, words: tuple[str, ...], **options: Any) -> Any:
    """Return an alteration of a table, or in a transaction, that makes a change."""
    usage, count = CHANGES[change], len(words)
    least = 0 if usage.form.startswith("[") else len(usage.form.split())
    if count < least or (count > least and not usage.form.endswith("...")):
        raise click.UsageError(f"{change} is followed by {usage.form}")
    # An empty text and a zero are values.
    chosen = {name: one for name, one in options.items() if one is not None and one is not False and one != ()}
    if "if_exists" in arguments:
        chosen["if_exists"] = arguments.pop("if_exists")
    misplaced = sorted(chosen.keys() - set(usage.options))
    if misplaced:
        raise click.UsageError(f"--{misplaced[0].replace('_', '-')} has no meaning with {change}")
    alteration: Any = to.alter(**arguments)
    method = getattr(alteration, _METHODS.get(change, change.replace("-", "_")), None)
    if method is None:
        from deltaberg.table.formats import DELTA, ICEBERG

        raise click.UsageError((DELTA if _keeps_sql(alteration) else ICEBERG).why_not(change))
    if usage.apply is None:
        method(*words, **chosen)
    else:
        usage.apply(alteration, *words, **chosen)
    return alteration
