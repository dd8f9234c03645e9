"""Columns of the type void, which hold nothing but nulls."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

from deltaberg.schema.columns import join_name
from deltaberg.schema.types import Primitive, Struct, field_paths

__all__ = ["VOID", "warn_of_void"]

VOID = Primitive("void")
_PACKAGE = str(Path(__file__).parents[1])


def warn_of_void(columns: Struct, before: Struct | None = None) -> None:
    """Warn of columns of the type void, as rows have them that are all null, unless the table had them before.

    Examples
    --------
    >>> from deltaberg.schema.types import Field
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn_of_void(Struct((Field("x", VOID),)))
    >>> str(seen[0].message)[:41]
    'the column x has no type, since all of it'
    """
    known = set() if before is None else _void_names(before)
    for name in sorted(_void_names(columns) - known):
        warnings.warn(
            f"the column {name} has no type, since all of its values are null: the first rows with a type that are "
            "written with schema evolution give it theirs. Give the column a type first to avoid that",
            stacklevel=_frames_of_ours() + 1,
        )


def _frames_of_ours() -> int:
    """Return how many of the newest frames are those of this package."""
    frame, count = inspect.currentframe(), 0
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, count = frame.f_back, count + 1
    return count - 1


def _void_names(columns: Struct) -> set[str]:
    paths = (path for path in field_paths(columns) if path[-1].type == VOID)
    return {join_name(tuple(field.name for field in path)) for path in paths}
