"""The names of data files, and the directories that show their partition values."""

from __future__ import annotations

import secrets
import string
import uuid
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.files.write.write_parquet import CODECS, main_codec
from deltaberg.schema.types import Field
from deltaberg.table.write.hive_names import HIVE_NULL
from deltaberg.table.write.spec import WriteSpec

__all__ = ["FilePlace", "can_be_directories", "file_place", "hive_text", "partition_directory"]

_LETTERS = string.ascii_letters + string.digits
#: Characters that Hive escapes in the names of directories.
_ESCAPED = frozenset("\"#%'*/:=?\\{}[]^\x7f") | {chr(number) for number in range(32)}
#: Bytes of a name at most in file systems, and of the directories of a file, since keys of object stores have 1,024.
_LONGEST, _LONGEST_TOGETHER = 255, 700


class FilePlace(NamedTuple):
    """Where a new data file is.

    Parameters
    ----------
    path
        The path, relative to the table.
    shows_values
        Whether its directories show all of its partition values, or it has none to show.
    """

    path: str
    shows_values: bool


def file_place(spec: WriteSpec, values: Sequence[tuple[Field, pa.Scalar]], number: int) -> FilePlace:
    """Return the place of a new data file. Its name has a GUID, so that no file has the same.

    Polars takes partition values from directories, not from the log. So directories show all values of a file, or none;
    then the file itself must hold them.

    Parameters
    ----------
    spec
        What the table asks for.
    values
        The partition fields, with the values of the file.
    number
        The number of the file in its write.
    """
    if spec.place is not None:
        return FilePlace(spec.place([value for _, value in values], number), True)
    parts = [spec.directory] if spec.directory else []
    shown = None if spec.random_prefix else _directories(values)
    if spec.random_prefix:
        parts.append("".join(secrets.choice(_LETTERS) for _ in range(spec.random_prefix)))
    return FilePlace("/".join([*parts, *(shown or ()), _name(spec, number)]), not values or shown is not None)


def _name(spec: WriteSpec, number: int) -> str:
    return f"{spec.prefix}-{number:05d}-{uuid.uuid4()}.c000{CODECS[main_codec(spec.parquet)]}.parquet"


def _directories(values: Sequence[tuple[Field, pa.Scalar]]) -> list[str] | None:
    """Return the names of the directories that show partition values; None if they cannot show all of them."""
    found = [partition_directory(field.physical_name, value) for field, value in values]
    names = [name for name in found if name is not None]
    return names if len(names) == len(found) and can_be_directories(names) else None


def can_be_directories(names: Sequence[str]) -> bool:
    """Return whether all stores take a path through directories of these names.

    Examples
    --------
    >>> can_be_directories(["day=1"]), can_be_directories(["name=" + "x" * 300])
    (True, False)
    """
    sizes = [len(name.encode()) for name in names]
    return max(sizes, default=0) <= _LONGEST and sum(sizes) + len(sizes) <= _LONGEST_TOGETHER


def partition_directory(name: str, value: pa.Scalar) -> str | None:
    """Return the name of a directory that shows a partition value, as Hive does.

    There is none for a value that readers would not take from it as it is: if it is too long, bytes, or the text that
    stands for null, or if the name of the field has to be escaped or would make the directory a hidden one.

    Letters beyond ASCII have the codes of their bytes in the name itself, as deltalake and iceberg-spark write them.
    Engines do not agree on how a log spells such letters: the vacuum of delta-spark deletes live files of which it has
    the codes, and what deltalake deletes comes back where it has the letters.

    Examples
    --------
    >>> partition_directory("day", pa.scalar("a/b"))
    'day=a%2Fb'
    >>> partition_directory("city", pa.scalar("Zürich"))
    'city=Z%C3%BCrich'
    >>> partition_directory("_hidden", pa.scalar(1)) is None
    True
    """
    kind = value.type
    is_escaped = not name.isascii() or hive_text(name) != name
    if name.startswith(("_", ".")) or is_escaped or pt.is_binary(kind) or pt.is_fixed_size_binary(kind):
        return None
    text = _text(value)
    shown = f"{name}={_in_ascii(hive_text(text)) or HIVE_NULL}"
    return None if text == HIVE_NULL or len(shown) > _LONGEST else shown


def _in_ascii(text: str) -> str:
    return "".join(char if char.isascii() else quote(char) for char in text)


def _text(value: pa.Scalar) -> str:
    if not value.is_valid:
        return ""
    kind = value.type
    if pt.is_string(kind):
        return str(value.as_py())
    if pt.is_decimal(kind):
        return format(value.as_py(), "f")
    if pt.is_timestamp(kind):
        # The text of an instant would need a database of time zones.
        value = pa.scalar(value.value, pa.int64()).cast(pa.timestamp(kind.unit))
    return str(pc.cast(value, pa.string()).as_py())


def hive_text(text: str) -> str:
    """Return a text as Hive spells it in the name of a directory."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)
