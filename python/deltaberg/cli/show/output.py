"""Printing: tables for people at a terminal, lines for programs in a pipe, and progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltaberg.cli.show.text import clean, json_text, listed, shown
from deltaberg.whole_numbers import counted

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Tell", "print_facts", "print_json", "print_lines", "print_rows", "print_table", "progress", "row_progress"]

_FACT_WIDTH = 22
#: How many letters there must be room for behind labels, so that lines are broken and not left to the terminal.
_LEAST_WIDTH = 12


#: What a verb tells how far it is, by numbers of any kind.
Tell = Callable[[Any], object]


@contextmanager
def progress(doing: str) -> Iterator[Tell]:
    """Show on standard error what is being done, if that is a terminal.

    Returns
    -------
    collections.abc.Callable
        A receiver for the ``progress`` of a verb. It shows the numbers that it is told.
    """
    if not _shows_progress():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.text import Text

    from deltaberg.table.rows.shown_progress import described

    with Console(stderr=True).status(Text(clean(doing))) as status:
        yield lambda done: status.update(Text(clean(f"{doing}: {described(done)}")))


@contextmanager
def row_progress(doing: str, total: int | None) -> Iterator[Callable[[int, int], None]]:
    """Show on standard error how far rows are written, if that is a terminal.

    Parameters
    ----------
    doing
        What is being done.
    total
        How many rows there are; None if that is not known.

    Returns
    -------
    collections.abc.Callable
        What is told the number of rows, and of files, so far.
    """
    if not _shows_progress():
        yield lambda _rows, _files: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[done]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(Text(clean(doing)).markup, total=total, done="")

        def tell(rows: int, files: int) -> None:
            bar.update(task, completed=rows, done=f"{counted(rows, 'row')}, {counted(files, 'file')}")

        yield tell


def _shows_progress() -> bool:
    """Return whether standard error is a terminal on which lines can be taken back."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def print_json(value: Any) -> None:
    """Print a JSON document on one line."""
    sys.stdout.write(json_text(value) + "\n")


def print_lines(*texts: str, to_error: bool = False) -> None:
    """Print texts, each of one line or several, to standard output or to standard error."""
    stream = sys.stderr if to_error else sys.stdout
    for line in (line for text in texts for line in text.splitlines()):
        stream.write(f"{clean(line)}\n")


def print_facts(facts: Iterable[tuple[str, Any]], title: str | None = None) -> None:
    """Print facts, one per line, below an optional title."""
    indent = ""
    if title is not None:
        print_lines(title)
        indent = "  "
    lines = [(f"{indent}{clean(name) + ':':{_FACT_WIDTH}} ", listed(value)) for name, value in facts]
    if sys.stdout.isatty():
        from rich.text import Text

        _print_hanging(_console(), ((label, Text(value)) for label, value in lines))
    else:
        sys.stdout.writelines(f"{label}{value}\n" for label, value in lines)


def print_rows(names: Sequence[str], rows: Iterable[Mapping[str, Any]], as_json: bool) -> None:
    """Print rows, as lines of JSON or as a table."""
    if not as_json:
        print_table(names, rows)
        return
    for row in rows:
        print_json(row)


def print_table(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows: as a table on a terminal, otherwise as lines of complete values separated by tabs.

    Of a table that is wider than the terminal, columns without any value are listed below it. If it is still too wide,
    it becomes a block of lines per row.
    """
    if sys.stdout.isatty():
        _print_rich(names, list(rows))
        return
    sys.stdout.write("\t".join(map(clean, names)) + "\n")
    for row in rows:
        sys.stdout.write("\t".join(shown(row[name]) for name in names) + "\n")


def _print_hanging(console: Console, lines: Iterable[tuple[str, Any]]) -> None:
    """Print labels and what belongs to them, of which further lines are indented as far as the first one."""
    from rich.table import Table
    from rich.text import Text

    lines = list(lines)
    if console.width < max((len(label) for label, _ in lines), default=0) + _LEAST_WIDTH:
        for label, value in lines:
            console.print(Text.assemble((label, "bold"), value), soft_wrap=True)
        return
    grid = Table.grid(padding=0)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in lines:
        grid.add_row(Text(label, "bold"), value)
    console.print(grid)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def _print_rich(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.text import Text

    console = _console()
    if _print_if_it_fits(console, names, rows):
        return
    empty = [name for name in names if all(row[name] is None for row in rows)]
    if not rows:
        # All columns are empty, and there is no block to show their names.
        console.print(Text.assemble(("no rows of ", "bold"), ", ".join(map(clean, names))), soft_wrap=True)
        return
    filled = [name for name in names if name not in empty]
    if empty and filled and _print_if_it_fits(console, filled, rows):
        _print_empty(console, empty)
        return
    shown_names = filled or names
    width = max(len(clean(name)) for name in shown_names)
    for number, row in enumerate(rows):
        console.print(Text(f"row {number}", "bold"), soft_wrap=True)
        _print_hanging(
            console, ((f"  {clean(name):{width}}  ", _cell(row[name], is_aligned=False)) for name in shown_names)
        )
    if empty and filled:
        _print_empty(console, empty)


def _print_empty(console: Console, names: Sequence[str]) -> None:
    from rich.text import Text

    console.print(Text.assemble(("null in all rows: ", "bold"), ", ".join(map(clean, names))), soft_wrap=True)


def _print_if_it_fits(console: Console, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Print rows as a table, unless the terminal is too narrow for it, and return whether that was done."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD)
    for name in names:
        table.add_column(Text(clean(name)), no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(row[name]) for name in names))
    if table.__rich_measure__(console, console.options.update(max_width=1 << 20)).maximum > console.width:
        return False
    console.print(table)
    return True


def _cell(value: Any, *, is_aligned: bool = True) -> Any:
    from rich.text import Text

    if value is None:
        return Text("null", "dim")
    number = is_aligned and isinstance(value, (int, float)) and not isinstance(value, bool)
    return Text(shown(value), justify="right" if number else "left")
