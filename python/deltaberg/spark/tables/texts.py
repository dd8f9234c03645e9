"""Conditions and values of callers as SQL text, and the aliases that qualify columns in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from deltaberg.errors import ExpressionError, InvalidArgumentError, UnsupportedExpressionError
from deltaberg.expressions.build.parse import parse_value
from deltaberg.expressions.tree.tree import ColumnValue, Value
from deltaberg.hints import verbatim
from deltaberg.schema.columns import ColumnName, split_name
from deltaberg.spark.columns.build import OfFrame, of_no_frame
from deltaberg.spark.columns.sql_text import column_text
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.types import quoted_name

__all__ = ["SourceColumns", "own_name", "own_text", "source_alias", "texts_of"]

#: What qualifies columns of the source until its alias is known. No caller qualifies a column so.
_SOURCE = "\N{NULL}source"


class SourceColumns:
    """Columns of a certain DataFrame in a merge, such as ``updates["id"]``, which stand for columns of its source.

    Spark says which column of the source it is, as far as it is one.

    Parameters
    ----------
    frame
        The source of the merge.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame

    def __call__(self, column: Any) -> Value:
        """Return the column of the source.

        Raises
        ------
        UnsupportedExpressionError
            It is a column of another DataFrame, such as that of the table.
        """
        names = _names(self._frame, column)
        if names is None:
            raise UnsupportedExpressionError(
                f"{column} is the column of a certain DataFrame, which is not the source of the merge",
                hint='name it by an alias: col("t.id") with table.alias("t"), or col("u.id") with updates.alias("u")',
            )
        return ColumnValue((_SOURCE, *names))

    @staticmethod
    def with_alias(text: str, alias: str) -> str:
        """Return SQL text in which the columns of the source are qualified by its alias."""
        return str(_qualified(parse_value(text), _SOURCE, (alias,))) if _SOURCE in text else text

    @staticmethod
    def check_condition(text: str, alias: str) -> None:
        """Refuse the condition of a merge that compares the source with itself: a row of it would match all or none.

        Raises
        ------
        InvalidArgumentError
            A frame of the table was compared with one that was made of it.
        """
        own = {_SOURCE, alias.lower()}
        if _SOURCE in text and all(path[0].lower() in own for path in _paths(text)):
            raise InvalidArgumentError(
                "the condition of the merge names no column of the table, but the source alone",
                hint='name columns of the table by its alias: col("t.id") with table.alias("t")',
            )


def texts_of(
    values: Mapping[str, Any] | None, what: str, facts: SessionFacts, of_frame: OfFrame = of_no_frame
) -> dict[str, str]:
    """Return the new values of columns as SQL text by name.

    Raises
    ------
    InvalidArgumentError
        They are not a mapping of names to SQL text or Columns.
    UnsupportedExpressionError
        A Column has no SQL text.
    """
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise InvalidArgumentError(
            f"{what} is not a mapping of names of columns", hint=f'pass {what}={{"price": "price * 2"}}'
        )
    return {name: column_text(value, facts, of_frame) for name, value in values.items()}


def own_text(text: str, alias: str | None) -> str:
    """Return SQL text on the columns of one table without the alias of the table.

    Examples
    --------
    >>> own_text("t.id > 5 and name = 't.id'", "t")
    "(id > 5 AND name = 't.id')"
    """
    if alias is None:
        return text
    value = parse_value(text)
    found = _qualified(value, alias.lower(), ())
    return text if found is value or found == value else str(found)


def own_name(name: str, alias: str | None) -> ColumnName:
    """Return the name of a column without the alias of its table.

    Examples
    --------
    >>> own_name("t.`a b`", "T"), own_name("a b", "t")
    (('a b',), 'a b')
    """
    path = split_name(name)
    return path[1:] if alias is not None and len(path) > 1 and path[0].lower() == alias.lower() else name


def source_alias(frame: DataFrame, texts: Iterable[str], target: str) -> str:
    """Return the alias of a DataFrame that qualifies columns in SQL text; ``source`` if nothing does.

    Spark says whether a qualifier is the alias of the frame. A DataFrame does not tell its alias by itself.

    Raises
    ------
    InvalidArgumentError
        Spark knows several qualifiers, one of a part of the columns alone, as of one side of a join, or one that is
        also the name of a column or the alias of the table.
    """
    qualifiers = {path[0].lower(): path[0] for text in texts for path in _paths(text) if len(path) > 1}
    qualifiers.pop(_SOURCE, None)
    if qualifiers.pop(target.lower(), None) is not None and _columns_of(frame, target) == frame.columns:
        raise InvalidArgumentError(
            f"{target} is the alias of the table and of the source", hint='give them two: updates.alias("u")'
        )
    # What nothing else is called by default needs no question.
    usual = "source" if target.lower() != "source" else "updates"
    columns_by_alias = {name: _columns_of(frame, name) for name in qualifiers.values() if name.lower() != usual}
    names = {name.lower() for name in frame.columns}
    # A struct qualifies its fields as an alias does its columns.
    parts = [
        name
        for name, columns in columns_by_alias.items()
        if columns not in (None, frame.columns) and name.lower() not in names
    ]
    if parts:
        raise InvalidArgumentError(
            f"{parts[0]} is the alias of only some columns of the source",
            hint="select the columns, each with a name of its own, and give the result one alias, as in "
            f'frame.select("{verbatim(parts[0])}.id", …).alias("u")',
        )
    aliases = [name for name, columns in columns_by_alias.items() if columns == frame.columns]
    if len(aliases) > 1 or (aliases and aliases[0].lower() in names):
        raise InvalidArgumentError(
            f"it is not clear what {', '.join(aliases)} stands for",
            hint='give the source one alias: updates.alias("u")',
        )
    return aliases[0] if aliases else usual


def _columns_of(frame: DataFrame, qualifier: str) -> list[str] | None:
    """Return the names that Spark knows behind a qualifier; None if it does not know it."""
    return _names(frame, f"{quoted_name(qualifier)}.*")


def _names(frame: DataFrame, columns: Any) -> list[str] | None:
    """Return the names of columns of a DataFrame; None if Spark does not find them in it."""
    try:
        with _unlogged():
            return frame.select(columns).columns
    except AnalysisException:
        return None


@contextmanager
def _unlogged() -> Iterator[None]:
    """Have PySpark not log what it raises: it would print a trace of the JVM, although nothing has failed."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:
        # PySpark 3.5 logs no such exceptions.
        yield
        return
    logger = PySparkLogger.getLogger("DataFrameQueryContextLogger")
    logger.addFilter(_nothing)
    try:
        yield
    finally:
        logger.removeFilter(_nothing)


def _nothing(_: object) -> bool:
    return False


def _paths(text: str) -> Iterator[tuple[str, ...]]:
    try:
        yield from _column_paths(parse_value(text))
    except ExpressionError:
        # The verb that gets the text reports it.
        return


def _column_paths(value: Value) -> Iterator[tuple[str, ...]]:
    if isinstance(value, ColumnValue):
        yield value.path
    for part in _parts(value):
        yield from _column_paths(part)


def _parts(value: Value) -> Iterator[Value]:
    for _, found in _members(value):
        yield from (part for part in (found if isinstance(found, tuple) else (found,)) if isinstance(part, Value))


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    return ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))


def _qualified(value: Value, alias: str, qualifier: tuple[str, ...]) -> Value:
    """Return a value whose columns have another qualifier, or none, in place of an alias."""
    if isinstance(value, ColumnValue):
        has_alias = len(value.path) > 1 and value.path[0].lower() == alias
        return ColumnValue((*qualifier, *value.path[1:])) if has_alias else value
    changed: dict[str, Any] = {}
    for name, found in _members(value):
        if isinstance(found, Value):
            changed[name] = _qualified(found, alias, qualifier)
        elif isinstance(found, tuple) and any(isinstance(part, Value) for part in found):
            changed[name] = tuple(_qualified(part, alias, qualifier) for part in found)
    copied: Value = dataclasses.replace(cast("Any", value), **changed)
    return copied
