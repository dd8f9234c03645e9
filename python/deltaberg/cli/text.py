"""Values as text and as JSON, and text that is safe for a terminal."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
import pyarrow as pa
import pyarrow.types as pt

from deltaberg.schema import is_variant_field
from deltaberg.schema.variant import variant_to_json

__all__ = ["clean", "json_rows", "json_text", "print_json", "print_lines", "print_pairs", "print_table"]

# What could steer a terminal, or turn the direction of its text.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Spell control characters out."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def json_text(value: Any) -> str:
    """Give a value as JSON; what JSON has no form for must be text already."""
    text = json.dumps(value, ensure_ascii=False, default=str, allow_nan=False)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def json_rows(batch: pa.RecordBatch | pa.Table) -> Iterable[dict[str, Any]]:
    """Give rows as values that JSON has a form for.

    Integers, floats, strings, booleans and null are themselves. Decimals, dates and timestamps are text, binary is
    hexadecimal text, NaN and infinities are text, maps are lists of {key, value}, variants what they hold.
    """
    for chunk in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
        columns = [_values(column, field) for column, field in zip(chunk.columns, chunk.schema, strict=True)]
        names = chunk.schema.names
        for row in range(chunk.num_rows):
            yield {name: column[row] for name, column in zip(names, columns, strict=True)}


def _values(array: pa.Array, field: pa.Field) -> list[Any]:
    if is_variant_field(field):
        return [
            None if value is None else json.loads(variant_to_json(value["metadata"], value["value"]))
            for value in array.to_pylist()
        ]
    found = array.type
    if pt.is_struct(found):
        children = [_values(child, found.field(index)) for index, child in enumerate(array.flatten())]
        rows = [
            {found.field(index).name: child[row] for index, child in enumerate(children)} for row in range(len(array))
        ]
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pt.is_map(found):
        keys = _values(array.keys, found.key_field)
        items = _values(array.items, found.item_field)
        entries: list[Any] = [{"key": key, "value": item} for key, item in zip(keys, items, strict=True)]
        return _lists(array, entries)
    if pt.is_list(found) or pt.is_large_list(found):
        return _lists(array, _values(array.values, found.value_field))
    if pt.is_temporal(found) or pt.is_decimal(found):
        # Text, because years may lie outside of what Python's dates can hold.
        return list(array.cast(pa.string()).to_pylist())
    values = array.to_pylist()
    if pt.is_floating(found):
        return [value if value is None or math.isfinite(value) else str(value) for value in values]
    if pt.is_binary(found) or pt.is_large_binary(found) or pt.is_fixed_size_binary(found):
        return [None if value is None else value.hex() for value in values]
    return list(values)


def _lists(array: pa.Array, values: list[Any]) -> list[Any]:
    offsets = array.offsets.to_pylist()
    spans = zip(offsets, offsets[1:], array.is_valid().to_pylist(), strict=False)
    return [values[start:end] if valid else None for start, end, valid in spans]


def print_json(value: Any) -> None:
    """Print one JSON document on a line."""
    click.echo(json_text(value))


def print_lines(text: str) -> None:
    """Print lines of text."""
    for line in text.splitlines():
        click.echo(clean(line))


def print_pairs(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print facts, one a line."""
    for name, value in pairs:
        click.echo(f"{clean(name) + ':':20} {clean(_shown(value))}")


def print_table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows: as a table on a terminal, else as lines of values between tabs, which nothing cuts short."""
    if not sys.stdout.isatty():
        click.echo("\t".join(clean(name) for name in names))
        for row in rows:
            click.echo("\t".join(clean(_shown(value)) for value in row))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD)
    for name in names:
        table.add_column(Text(clean(name)))
    for row in rows:
        numbers = [isinstance(value, (int, float)) and not isinstance(value, bool) for value in row]
        cells = [
            Text(clean(_shown(value)), justify="right" if number else "left")
            for value, number in zip(row, numbers, strict=True)
        ]
        table.add_row(*cells)
    Console().print(table)


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json_text(value) if isinstance(value, (dict, list)) else str(value)
