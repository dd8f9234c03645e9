"""Columns that are computed from others, and the order in which this is done.

Delta protocol, "Generated Columns".
"""

from __future__ import annotations

from collections.abc import Mapping

from deltaberg.errors import ExpressionError, SchemaError, UnsupportedFeatureError
from deltaberg.expressions.bind.bind import BoundValue
from deltaberg.expressions.tree.tree import type_text
from deltaberg.hints import verbatim
from deltaberg.schema.types import Struct

__all__ = ["check_new_columns", "in_order"]


def check_new_columns(schema: Struct, generated: Mapping[str, BoundValue]) -> None:
    """Refuse new generated columns that other engines cannot compute, or compute otherwise.

    They must not be computed from one another, which other engines do in the order of the columns, nor from the time.
    delta-spark changes no table with a generated column of another type than its expression, and writes to few.

    Parameters
    ----------
    schema
        The columns of the table.
    generated
        The expressions, bound without the types of their columns.

    Raises
    ------
    SchemaError, ExpressionError
        A column is refused.
    """
    types = {field.name: field.type for field in schema}
    for path, value in generated.items():
        wanted, found = type_text(types[path]), type_text(value.type)
        if wanted != found:
            raise SchemaError(
                f"the generated column {path} has the type {wanted}, and its expression the type {found}",
                hint=verbatim(f"write CAST({value.sql} AS {wanted}), or give the column the type of the expression"),
                column=path,
                expression=value.sql,
            )
        others = sorted(_named(value).intersection(generated))
        if others:
            raise SchemaError(
                f"the generated column {path} is computed from the generated column {others[0]}",
                hint=f"write the expression of {verbatim(others[0])} in its place" if others[0] != path else None,
                column=path,
                expression=value.sql,
            )
        if not value.is_deterministic:
            raise ExpressionError(
                f"the generated column {path} is computed from the time at which it is written",
                hint="give the column a default value, which may be computed from it",
                column=path,
                expression=value.sql,
            )


def in_order(generated: Mapping[str, BoundValue]) -> list[str]:
    """Return the names of generated columns, each after those that it is computed from.

    Raises
    ------
    UnsupportedFeatureError
        Columns are computed from each other in a circle.
    """
    waiting = {path: _named(value).intersection(generated) for path, value in generated.items()}
    done: list[str] = []
    while waiting:
        ready = [path for path, others in waiting.items() if others.issubset(done)]
        if not ready:
            path = next(iter(waiting))
            raise UnsupportedFeatureError(
                f"the generated column {path} is computed from itself",
                hint="drop the column, or change its expression with the engine that made the table",
                feature="generatedColumns",
                column=path,
                expression=generated[path].sql,
            )
        done += ready
        for path in ready:
            del waiting[path]
    return done


def _named(value: BoundValue) -> set[str]:
    """Return the columns from which a value is computed."""
    return {path[0].name for _, path in value.paths}
