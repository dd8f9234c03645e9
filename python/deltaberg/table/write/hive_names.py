"""The partition values in the names of directories, as Hive writes them: ``day=2024-01-01/kind=a``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from deltaberg.errors import InvalidPartitionValueError

__all__ = ["HIVE_NULL", "named_values"]

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
