"""Texts in double quotes, which are names of columns in standard SQL, and texts in Spark's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from deltaberg.errors import ExpressionError
from deltaberg.hints import verbatim
from deltaberg.schema.types import Struct

__all__ = ["ColumnNames", "DoubleQuoted", "name_in_quotes", "quoted"]


class DoubleQuoted(str):
    """A text that its writer put in double quotes."""

    __slots__ = ()


def quoted(text: str) -> str:
    """Quote text as a literal of SQL, in the quotes of its writer."""
    mark = '"' if isinstance(text, DoubleQuoted) else "'"
    return mark + text.replace("\\", "\\\\").replace(mark, mark * 2) + mark


def name_in_quotes(text: str, path: Iterable[str]) -> ExpressionError:
    """Return the error of a text in quotes that was taken for the name of a column."""
    name = ".".join(f"`{part.replace('`', '``')}`" for part in path)
    return ExpressionError(
        f'"{text}" is a text, and not the column {name}',
        hint=verbatim(f"names stand in backticks, and texts in single quotes: write {name} or '{text}'"),
    )


class ColumnNames:
    """The names of columns that no text in double quotes may have.

    Parameters
    ----------
    relations
        The columns of each relation, and its alias, if it has one.

    Examples
    --------
    >>> from deltaberg.schema.types import Field, Primitive
    >>> names = ColumnNames([("t", Struct((Field("id", Primitive("long")),)))])
    >>> names.check("id"), names.check(DoubleQuoted("name"))
    (None, None)
    """

    def __init__(self, relations: Sequence[tuple[str | None, Struct]]) -> None:
        self._relations = relations

    def check(self, literal: object) -> None:
        """Refuse a literal in double quotes that is the name of a column.

        Whoever takes it for a name would otherwise get a condition that is the same for every row.

        Raises
        ------
        ExpressionError
            It is one.
        """
        if isinstance(literal, DoubleQuoted):
            path = self._paths.get(literal.replace("`", "").lower())
            if path is not None:
                raise name_in_quotes(literal, path)

    @cached_property
    def _paths(self) -> dict[str, tuple[str, ...]]:
        """The paths of columns, by their full names in lower case."""
        paths_by_name: dict[str, tuple[str, ...]] = {}
        for alias, columns in self._relations:
            paths = list(_paths(columns))
            spellings = paths if alias is None else [*paths, *((alias, *path) for path in paths)]
            paths_by_name |= {".".join(path).lower(): path for path in spellings}
        return paths_by_name


def _paths(columns: Struct) -> Iterator[tuple[str, ...]]:
    """Return the paths of columns, and those of the fields inside them."""
    for child in columns:
        yield (child.name,)
        if isinstance(child.type, Struct):
            yield from ((child.name, *path) for path in _paths(child.type))
