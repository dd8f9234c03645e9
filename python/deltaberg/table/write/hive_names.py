"""The partition values in the names of directories, as Hive writes them: ``day=2024-01-01/kind=a``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from deltaberg.errors import InvalidArgumentError, InvalidPartitionValueError
from deltaberg.hints import verbatim
from deltaberg.schema.types import Struct

__all__ = ["HIVE_NULL", "named_values", "texts_of_columns"]

#: What Hive shows for null, and for the empty text.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def named_values(path: str, directories: Sequence[str]) -> Iterator[tuple[str, str, str | None]]:
    """Return, for each directory that shows a value, its name, the column and the text of the value; None is null.

    Parameters
    ----------
    path
        The path of the file, for messages.
    directories
        The names of the directories that the file is in, the outermost first.

    Raises
    ------
    InvalidPartitionValueError
        The name of a directory is not UTF-8.

    Examples
    --------
    >>> list(named_values("kind=a%2Fb/new/1.parquet", ["kind=a%2Fb", "new"]))
    [('kind=a%2Fb', 'kind', 'a/b')]
    """
    for directory in directories:
        shown, equals, text = directory.partition("=")
        if not equals:
            continue
        try:
            name, value = unquote(shown, errors="strict"), unquote(text, errors="strict")
        except UnicodeDecodeError as error:
            raise InvalidPartitionValueError(
                f"the name of the directory {directory} is not UTF-8", file=path
            ) from error
        yield directory, name, None if value == HIVE_NULL else value


def texts_of_columns(path: str, directories: Sequence[str], partition: Struct) -> dict[str, str | None]:
    """Return the text of the value of each partition column that the directories of a file show; None is null.

    Raises
    ------
    InvalidArgumentError
        They show a value of another column, or of a column twice, or none of one.
    InvalidPartitionValueError
        The name of a directory is not UTF-8.
    """
    folded = {field.name.lower(): field.name for field in partition}
    values: dict[str, str | None] = {}
    for directory, name, text in named_values(path, directories):
        column = folded.get(name.lower())
        if column is None or column in values:
            raise InvalidArgumentError(
                f"the directory {directory} names a partition column that is "
                f"{'not expected' if column is None else 'named twice'}",
                hint="use ⟪partition_by⟫ with the types of all of them"
                f'⟦, such as ⟪{{"{verbatim(name)}": pa.string()}}⟫⟧',
                path=path,
            )
        values[column] = text
    missing = [field.name for field in partition if field.name not in values]
    if missing:
        raise InvalidArgumentError(
            f"the file is in no directory that gives the partition column {missing[0]} a value, such as {missing[0]}=1",
            hint="move the file, or leave the column out of ⟪partition_by⟫",
            path=path,
        )
    return values
